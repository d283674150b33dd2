/* watched.h - METRIC[:max|:min] of --best, --early-stop and --keep-best: the metric of validations, and
 * whether it should grow or fall, which its name tells unless the option does. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_WATCHED_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_WATCHED_H

#include "tools/graphtool/options/options.h"
#include "weft/weft.h"

/* Ends where one of the options names no metric that validations of the model give, or none with a
 * direction. */
void watched_check(const options *o, const weft_model *m);
/* METRIC alone, and whether it should grow. For what has been checked. */
const char *watched_metric(const char *said, bool *max);

#endif
