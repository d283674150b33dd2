/* update.h - attributes of the optimizer's ops, for the pass that makes them and for their kernels.
 *
 * Buffers are flat: p, g and the states have one shape. lr, step and scale are f64[] values: `step` counts
 * this update (1 at the first), `scale` is a factor on the gradient (clipping, the loss scale of f16) that
 * may be missing. A scale below 0 means that this step is skipped: nothing is written, and result 0 is p
 * unchanged. `momentum` and `decay`, which may be missing, are what schedules multiply momentum (beta1) and
 * weight_decay by. */
#ifndef WEFT_OPS_OPTIMIZER_UPDATE_H
#define WEFT_OPS_OPTIMIZER_UPDATE_H

#include "ops/kit/op_kit.h"

/* sgd_update(p, g, buf or NULL, lr, step, scale, momentum, decay): writes p and buf, which is needed iff the
 * attribute momentum is above 0. */
typedef struct sgd_update_attrs {
    double lr_scale, momentum, dampening, weight_decay;
    bool nesterov;
} sgd_update_attrs;

/* adam_update(p, g, m, v, lr, step, scale, momentum, decay): writes p, m and v. decoupled: AdamW. */
typedef struct adam_update_attrs {
    double lr_scale, beta1, beta2, eps, weight_decay;
    bool decoupled;
} adam_update_attrs;

/* accumulate(top level, ..., level 0, gradient or, where `last` has none, nothing): see
 * ops/optimizer/accumulate.c */
typedef struct accumulate_attrs {
    int64_t of; /* most micro-batches in a step on this rank */
    bool last;  /* this run ends the step */
} accumulate_attrs;
int accumulate_levels(int64_t of); /* bits of `of`: 1 for 1, 2 for 2 and 3, 3 for 4 to 7 */

/* clip_scale(norm f64[]) -> f64[]: min(1, max_norm / (norm + 1e-6)) */
typedef struct clip_scale_attrs {
    double max_norm;
} clip_scale_attrs;

/* loss_scale(norm of the scaled gradients, scale, good steps since it changed: f64[])
 *     -> factor on the gradients (-1: skip), next scale, next good steps, steps done (1 or 0): f64[] */
typedef struct loss_scale_attrs {
    double max_norm; /* as clip_scale; 0: no clipping */
    int64_t growth_interval;
} loss_scale_attrs;

/* guard(losses..., means f64[]...) and gate(flags, norms f64[]...): see ops/optimizer/guard.c. gate has no
 * losses and no factor. */
typedef struct guard_attrs {
    int64_t count;  /* losses that the graph minimizes */
    int64_t losses; /* of them, those that are operands: all, or none in a program of the update alone */
    double factor;  /* of a spike; 0: finite losses are good */
} guard_attrs;

#define GUARD_PATH "guard" /* names the sum of the flags over ranks in reports */

/* guard_mean(sums f64[n], mean f64[]) -> f64[]: parts: micro-batches of a step on all ranks */
enum { GUARD_WARMTH = 10 /* the mean is of about as many steps */ };
typedef struct guard_mean_attrs {
    int64_t index, parts;
} guard_mean_attrs;

/* schedule(count f64[], number or NULL, base or NULL) -> f64[]: fields as in weft_schedule, with defaults */
typedef struct schedule_attrs {
    int64_t kind, begin, end, warmup, length, period, period_mult;
    attr_ints milestones;
    double gamma, from, middle, to, power, share;
    bool linear, three_phase, replaces;
} schedule_attrs;
struct weft_schedule;
schedule_attrs
schedule_attrs_of(const struct weft_schedule *part); /* of a full part (graph/settings/schedule.h) */

/* The norm of gradients: chunk_squares, then root_sum. Squares are summed in f64 over chunks of NORM_CHUNK
 * elements, counted from each parameter's start, then over chunks and parameters in order. So the sum is the
 * same however gradients are distributed over ranks. */
enum { NORM_CHUNK = 4096 };
int64_t norm_chunks(int64_t elements);
typedef struct chunk_squares_attrs {
    const char *path; /* the bucket */
    int64_t begin;    /* offset of the operand in the bucket, in elements */
} chunk_squares_attrs;
/* The part of a member in the range of `count` elements from `begin` of its bucket: elements [*first, *last)
 * of the member. False: there is none. */
bool member_range(const weft_variable *member, int64_t begin, int64_t count, int64_t *first, int64_t *last);
/* The same for n elements from `offset` on. */
bool flat_range(int64_t offset, int64_t n, int64_t begin, int64_t count, int64_t *first, int64_t *last);

/* For infer: operands 0 to n_flat - 1 have the type of operand 0, f32 or f64; the others are f64[]. Only
 * operands with their bit in `optional` may be missing. Result 0 is like operand 0. */
bool infer_update(op_call *c, int n_flat, unsigned optional);
/* The number in the f64[] operand i, or `missing` if it is not there. */
double scalar_operand(const kernel_call *c, int i, double missing);
/* Whether an update with factor operand i is skipped (factor below 0); then copies p to result 0. */
bool update_is_skipped(const kernel_call *c, int i);
/* Element i of a flat buffer, as double. */
double flat_get(const tensor *t, int64_t i);
void flat_set(const tensor *t, int64_t i, double value);

/* The factor of weft_update.numbers[0] at a step, for optimizers with a product; momentum: a schedule's
 * factor on beta1, or NULL. */
struct minimize_attrs;
weft_value *update_product(weft_value *step, weft_value *momentum, const struct minimize_attrs *a);

#endif
