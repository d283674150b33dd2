/* optimizers.h - what the command line says of a model's optimizers: --optimizer, --clip-norm, --ema,
 * --schedule, --lr. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H

#include "tools/graphtool/common/tools.h"

/* All but --schedule and --lr: -1, or the exit status after printing the error. A field that two options give
 * for one optimizer, or for all, is an error; what is for one wins over what is for all. */
int optimizers_apply(weft_model *m, const options *o);
/* --lr, for optimizers whose rate no --optimizer gives: -1, or the exit status. */
int optimizers_rate(weft_store *store, const weft_model *m, const options *o);
/* --schedule: parts without an end end with the run that `how` is of, which goes on with the counts of the
 * state in --weights. -1, or the exit status after printing
 * the error. */
int optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how);

#endif
