/* weights.h - the file of --weights, whole or in part. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WEIGHTS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WEIGHTS_H

#include "tools/graphtool/common/options.h"

#include "weft/weft.h"

/* Loads the file of --weights, if one is given, as --rename and --partial say: -1, or the exit status. */
int weights_load(weft_store *store, const options *o);
/* A count of an optimizer in that file, WEFT_STORED_STEP or _EPOCH; 0 where it has none, or there is no file:
 * -1, or the exit status. */
int weights_counter(const options *o, const char *optimizer, weft_stored_kind counter, int64_t *value);

#endif
