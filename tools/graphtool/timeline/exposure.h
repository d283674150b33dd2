/* exposure.h - how much of each collective of a trace was exposed, as means over its runs and over all
 * ranks. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_EXPOSURE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_EXPOSURE_H

#include "tools/graphtool/timeline/timeline.h"

#include <jansson.h>

/* {graph, op, bucket, bytes, stream_ms, exposed_ms, hidden_ms} for each collective of this rank's plan that
 * ran from zero_ns on. Called by all ranks. */
json_t *exposure_rows(const options *o, const timeline *t, const stream_list *plan, uint64_t zero_ns);

#endif
