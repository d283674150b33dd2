/* update.h - attributes of the optimizer's ops, for the pass that makes them and for their kernels.
 *
 * Buffers are flat: p, g and the states have one shape. lr, step, scale are f64[] values: `step` counts this
 * update (1 at the first), `scale` is a factor on the gradient (clipping, f16's loss scale) that may be missing. A scale
 * below 0 says that this step is skipped: then nothing is written, and result 0 is p as it is.
 */
#ifndef WEFT_OPS_OPTIMIZER_UPDATE_H
#define WEFT_OPS_OPTIMIZER_UPDATE_H

#include "ops/kit/op_kit.h"

/* sgd_update(p, g, buf or NULL, lr, step, scale or NULL); writes p and buf. buf is needed iff momentum > 0.
 */
typedef struct sgd_update_attrs {
    double lr_scale, momentum, dampening, weight_decay;
    bool nesterov;
} sgd_update_attrs;

/* adam_update(p, g, m, v, lr, step, scale or NULL); writes p, m, v. decoupled: AdamW. */
typedef struct adam_update_attrs {
    double lr_scale, beta1, beta2, eps, weight_decay;
    bool decoupled;
} adam_update_attrs;

/* accumulate(top level, ..., level 0, gradient): see ops/optimizer/accumulate.c */
typedef struct accumulate_attrs {
    int64_t of; /* at most so many micro-batches a step on this rank */
    bool last;  /* this run ends the step */
} accumulate_attrs;
int accumulate_levels(int64_t of); /* 1 for 1, 2 for 2 and 3, 3 for 4 to 7 */

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

/* schedule(base f64[], updates done before f64[]) -> lr f64[]; fields as in weft_schedule (gamma as it is) */
typedef struct schedule_attrs {
    int64_t kind, warmup_steps, step_size, total_steps;
    double gamma, floor;
} schedule_attrs;

/* Norms of gradients: chunk_squares, then root_sum. Squares are summed in f64 over chunks of NORM_CHUNK elements from
 * each parameter's start, then over chunks in order, parameters in order: however gradients are spread over ranks,
 * the sum is the same. */
enum { NORM_CHUNK = 4096 };
int64_t norm_chunks(int64_t elements);
typedef struct chunk_squares_attrs {
    const char *path; /* the bucket */
    int64_t begin;    /* where the operand begins in it */
} chunk_squares_attrs;
/* What a member has of `count` elements from `begin` of its bucket: elements [*first, *last) of its own. */
bool member_range(const weft_variable *member, int64_t begin, int64_t count, int64_t *first, int64_t *last);

/* For infer: operands 0 to n_flat - 1 have operand 0's type, f32 or f64; those from n_flat on are f64[]. Only
 * the bits of `optional` may be missing. */
bool infer_update(op_call *c, int n_flat, unsigned optional);
/* The number in an f64[] operand, or `missing`. */
double scalar_operand(const kernel_call *c, int i, double missing);
/* Whether an update whose factor is operand i is skipped; result 0 is then p. */
bool update_is_skipped(const kernel_call *c, int i);
/* Element i of a flat buffer, as double. */
double flat_get(const tensor *t, int64_t i);
void flat_set(const tensor *t, int64_t i, double value);

#endif
