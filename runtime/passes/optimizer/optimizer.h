/* optimizer.h - the parts of the optimizer pass: states.c makes and finds the optimizers' variables,
 * built.c updates by ops, optimizer.c joins these and the sums over ranks (distribute/reduction.h). */
#ifndef WEFT_RUNTIME_PASSES_OPTIMIZER_OPTIMIZER_H
#define WEFT_RUNTIME_PASSES_OPTIMIZER_OPTIMIZER_H

#include "runtime/plan/program.h"

#include "graph/settings/minimize.h"
#include "ops/optimizer/update.h"

/* ---- optimizer/states.c ---- */

/* The variable of state number `slot` over a bucket, or over this rank's range of it; NULL: there is none. */
weft_variable *optimizer_slot_of(const weft_plan *plan, const optimizer_entry *o, const weft_variable *bucket,
                                 int slot);

/* ---- built.c ---- */

/* What all updates of a minimize call read. */
typedef struct step_values {
    weft_value *lr, *step, *scale;
    weft_value *momentum, *decay; /* factors on momentum (beta1) and weight_decay; NULL: not scheduled */
    weft_value *done;             /* f16: 0 when this step is skipped */
    weft_value *product;          /* of optimizer_kind.has_product */
} step_values;

/* Updates `over`, the bucket s or this rank's range of it, by a step that is built from ops; a: with the
 * weight_decay of the parameter group. Returns the updated values; NULL after an error. */
weft_value *update_built(program *p, const optimizer_entry *o, const weft_variable *s, weft_variable *over,
                         weft_value *gradient, const minimize_attrs *a, double lr_scale,
                         const step_values *v);

/* The average of the updated values of a range, where the optimizer keeps one (weft_optimizer.ema). It is
 * NaN until it begins, with a copy. False after an error. */
bool update_average(program *p, const optimizer_entry *o, const weft_variable *s, weft_value *gradient,
                    weft_value *updated, const minimize_attrs *a, const step_values *v);
/* Those of the model's states, as the run leaves them. */
bool update_state_averages(program *p, const optimizer_entry *o, const minimize_attrs *a,
                           const step_values *v);

/* Whether a minimize call keeps an average of a variable that is state of the model (trainings.c). */
bool training_averages(const minimize_attrs *a, const weft_variable *v);

#endif
