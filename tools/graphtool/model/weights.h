/* weights.h - the file of --weights, whole or in part. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_WEIGHTS_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_WEIGHTS_H

#include "tools/graphtool/options/options.h"

#include "weft/weft.h"

/* Loads the file of --weights, if one is given, as --rename and --partial say. */
void weights_load(weft_store *store, const options *o);
/* A count of an optimizer in that file, WEFT_STORED_STEP or _EPOCH; 0 where it has none, or there is no
 * file. */
int64_t weights_counter(const options *o, const char *optimizer, weft_stored_kind counter);

#endif
