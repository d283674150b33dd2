/* optimizers.h - what the command line says of a model's optimizers: --optimizer, --clip-norm, --ema,
 * --schedule, --lr. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_OPTIMIZERS_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_OPTIMIZERS_H

#include "graph/core/graph.h"
#include "tools/graphtool/model/tools.h"

/* The first node that steps an optimizer (n NULL), or the next one, over all graphs; NULL: there is no more.
 * Several graphs may step one optimizer. */
const weft_node *optimizers_next(const weft_model *m, const weft_node *n);
/* All but --schedule and --lr. A field that two options give for one optimizer, or for all, is an error; what
 * is for one wins over what is for all. */
void optimizers_apply(weft_model *m, const options *o);
/* Whether an option gives this field of an optimizer, for it alone or for all. */
bool optimizers_give(const weft_model *m, const options *o, const char *optimizer, const char *field);
/* Rates that --lr and --optimizer give, by optimizer: *rates, with names of the model. Returns how many. */
int optimizers_rates(const weft_model *m, const options *o, weft_optimizer_lr **rates);
/* Tells what --optimizer or --lr give that only a training that begins takes, where one resumes with other
 * numbers in its store. */
void optimizers_tell_begun(const weft_model *m, const options *o, const weft_store *store);
/* Iterations that came before the state in --weights, by the updates of an optimizer and how many of them
 * the flow has in its first iteration: into how->first_iteration. */
void optimizers_behind(weft_model *m, const options *o, weft_trainer_options *how);
/* --schedule: parts without an end end with the run that `how` is of, which continues the counts of the
 * state in --weights. */
void optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how);

#endif
