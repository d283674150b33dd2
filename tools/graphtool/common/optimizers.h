/* optimizers.h - what the command line says of a model's optimizers: --optimizer, --clip-norm, --ema,
 * --schedule, --lr. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_OPTIMIZERS_H

#include "tools/graphtool/common/tools.h"

/* All but --schedule and --lr: -1, or the exit status after printing the error. A field that two options give
 * for one optimizer, or for all, is an error; what is for one wins over what is for all. */
int optimizers_apply(weft_model *m, const options *o);
/* Whether an option gives this field of an optimizer, for it alone or for all. */
bool optimizers_give(const weft_model *m, const options *o, const char *optimizer, const char *field);
/* Rates that --lr and --optimizer give, by optimizer: *rates, for free(), with names of the model. -1, or the
 * exit status. */
int optimizers_rates(const weft_model *m, const options *o, weft_rate **rates, int *n);
/* Tells what --optimizer or --lr give that only a training that begins takes, where one goes on with other
 * numbers in its store. */
void optimizers_tell_begun(const weft_model *m, const options *o, const weft_store *store);
/* Iterations that the state in --weights has behind it, by the updates of an optimizer and how many of them
 * the flow has in its first iteration: into how->first_iteration. -1, or the exit status. */
int optimizers_behind(weft_model *m, const options *o, weft_trainer_options *how);
/* --schedule: parts without an end end with the run that `how` is of, which goes on with the counts of the
 * state in --weights. -1, or the exit status after printing
 * the error. */
int optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how);

#endif
