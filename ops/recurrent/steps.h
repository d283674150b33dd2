/* steps.h - steps of a recurrent op as nodes, for the gradients of its backward op. They are unrolled, a few
 * nodes a step: such gradients are rare (a penalty on the gradient of a recurrent critic), and those of any
 * higher order come by themselves.
 *
 * All times of a tensor [T, B, n] are rows [T B, n] here, in f32 or f64; those of a step are [B, n]. Where
 * the op goes from the last time to the first, so do steps. */
#ifndef WEFT_OPS_RECURRENT_STEPS_H
#define WEFT_OPS_RECURRENT_STEPS_H

#include "ops/recurrent/recurrent.h"

typedef struct recurrent_steps {
    weft_graph *g;
    int64_t steps, batch, hidden;
    weft_dtype dtype; /* of all rows */
    bool reverse;
} recurrent_steps;

/* Of a node with operand w and one of type [T, B, ...]. */
recurrent_steps steps_of(const weft_node *n, const weft_value *times, const weft_value *w);

/* v [T, B, n] or [B, n] as rows; zeros of that many columns where it is NULL. */
weft_value *steps_rows(const recurrent_steps *r, weft_value *v, int64_t columns);
weft_value *steps_one(const recurrent_steps *r, weft_value *v, int64_t columns);
/* The opposite: as `like` is, in shape and type. */
weft_value *steps_like(weft_value *rows, const weft_value *like);

/* Step s of all rows; and all rows of a list by time (recurrent_time). */
weft_value *steps_at(const recurrent_steps *r, weft_value *rows, int64_t s);
weft_value *steps_join(const recurrent_steps *r, weft_value *const *by_time);
/* For each step the rows of the one before it, `first` [B, n] for the first; or of the one after it, zeros
 * for the last. */
weft_value *steps_before(const recurrent_steps *r, weft_value *rows, weft_value *first);
weft_value *steps_after(const recurrent_steps *r, weft_value *rows);

/* The gradient dh of `h` (NULL: none), with what dgates of all steps give it as h_before. */
weft_value *steps_past_w(const recurrent_steps *r, weft_value *dgates, weft_value *w, weft_value *dh,
                         const weft_value *h);

/* The time of step s; room for so many values of each step, NULL after recording the error. */
int64_t steps_time(const recurrent_steps *r, int64_t s);
weft_value **steps_list(const recurrent_steps *r, size_t values);
/* From the last step to the first: the rows of `own`, plus those of the step after times its `factor`. */
weft_value *steps_carried(const recurrent_steps *r, weft_value *own, weft_value *factor);

/* Gate k of rows [.., G H]; and rows of the G gates at `gates`. */
weft_value *steps_gate(const recurrent_steps *r, weft_value *rows, int k);
weft_value *steps_gates(int n, weft_value *const *gates);
/* The derivatives of sigma and tanh by their results: v - v^2 and 1 - v^2; and 1 - 2 v. */
weft_value *slope_of_sigma(weft_value *v);
weft_value *slope_of_tanh(weft_value *v);
weft_value *bend_of_sigma(weft_value *v);

#endif
