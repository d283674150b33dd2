/* optimizer.h - the parts of the optimizer pass: states.c makes and finds the optimizers' variables,
 * reduction.c brings gradients to the ranks that update and parameters back to all ranks, optimizer.c joins
 * the two. */
#ifndef WEFT_RUNTIME_PASSES_OPTIMIZER_OPTIMIZER_H
#define WEFT_RUNTIME_PASSES_OPTIMIZER_OPTIMIZER_H

#include "runtime/plan/program.h"

#include "graph/settings/minimize.h"
#include "ops/optimizer/update.h"

/* ---- optimizer/states.c ---- */

/* The variable of state number `slot` over a bucket, or over this rank's range of it; NULL: there is none. */
weft_variable *optimizer_slot_of(const weft_plan *plan, const optimizer_entry *o, const weft_variable *bucket,
                                 int slot);

/* ---- distribute/guard.c: false after an error ---- */

/* What the guard of one program is made of: norms[0] are the flags, then a norm for each of the first
 * minimize calls that has one. norms NULL: no guard. */
typedef struct guarding {
    guard_attrs attrs;
    weft_value **norms;
    int n_norms;
} guarding;
/* Before minimize calls are expanded: the flags of the losses, and the gate, unless it waits for norms. */
bool guard_begin(program *p, guarding *into);
/* A norm of gradients by which the step is judged, too; NULL: an error. */
bool guard_norm(guarding *guard, weft_value *norm);
/* The gate; before the first update. */
bool guard_end(program *p, guarding *guard);

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

/* ---- reduction.c: NULL or false after an error ---- */

/* Whether ranks exchange this bucket's gradients. */
bool reduction_is_needed(const program *p, const weft_variable *s);
/* Starts the sum over ranks of a whole bucket. */
weft_value *reduction_start(program *p, const weft_variable *s, weft_value *flat);
/* The sum once it is complete, in the bucket's memory; the bucket itself where it is not exchanged. */
weft_value *reduction_finish(program *p, const weft_variable *s, weft_value *flat);
/* *own becomes the part of the finished gradients by which this rank updates, as means over all ranks; NULL:
 * it has none. */
bool reduction_own(program *p, const weft_variable *s, weft_value *finished, weft_value **own);
/* parts[n] joined along axis 0, by as many concats as that takes (each has at most 32 operands). Overwrites
 * parts. */
weft_value *values_join(weft_value **parts, int n);
/* The norm of all gradients of buckets[0 .. count), but of those whose trains[], bool[], is false (NULL: none
 * is); own[] and trains[] are by index of a bucket. */
weft_value *reduction_norm(program *p, weft_variable *const *buckets, int count, weft_value *const *own,
                           weft_value *const *trains);
/* Sends updated ranges to all ranks. `after` is what must be done before: the update, or on a rank without a
 * range the wait that the update would have read. */
bool reduction_return(program *p, const weft_variable *s, weft_value *after, weft_value *scale);

#endif
