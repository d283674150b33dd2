/* optimizers.h - what the command line says of a model's optimizers, in this order: --optimizer, --clip-norm,
 * --ema, --schedule. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H

#include "tools/graphtool/common/tools.h"

/* All but --schedule. False: the model has an error, or memory is out. */
bool optimizers_apply(weft_model *m, const options *o);
/* --schedule: parts without an end end with the run that `how` is of, which goes on with the counts of the
 * state in --weights. -1, or the exit status after printing
 * the error. */
int optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how);

#endif
