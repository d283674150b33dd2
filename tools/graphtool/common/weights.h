/* weights.h - the file of --weights, whole or in part. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WEIGHTS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WEIGHTS_H

#include "tools/graphtool/common/options.h"

#include "weft/weft.h"

/* Loads the file of --weights, if one is given, as --rename and --partial say: -1, or the exit status. */
int weights_load(weft_store *store, const options *o);
/* A number of an optimizer's state in that file, "step" or "epoch"; 0 where it has none, or there is no file:
 * -1, or the exit status. */
int weights_counter(const options *o, const char *optimizer, const char *counter, int64_t *value);

#endif
