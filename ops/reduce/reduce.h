/* reduce.h - what the reductions over axes share: sum (and mean), amax, amin and prod have one infer, one
 * reference and the same kernels; they differ in how two numbers become one, their kind. */
#ifndef WEFT_OPS_REDUCE_REDUCE_H
#define WEFT_OPS_REDUCE_REDUCE_H

#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

typedef enum reduce_kind { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD } reduce_kind;

/* Of sum, amax, amin and prod. */
reduce_kind reduce_kind_of(const weft_op *op);

/* The rows of an attribute table that all have; their struct is sum_attrs. */
#define REDUCE_ATTRS                                                                                         \
    {"axes", ATTR_INTS, offsetof(sum_attrs, axes), -WEFT_MAX_NDIM, WEFT_MAX_NDIM - 1}, {                     \
        "keep", ATTR_BOOL, offsetof(sum_attrs, keep)                                                         \
    }

/* Fills result 0, of type `dtype`. Axes may be negative but not repeated. */
bool reduce_infer(op_call *c, weft_dtype dtype);
/* The type of a sum or product: i64 of integers and bool, as in PyTorch. */
weft_dtype reduce_total(weft_dtype dtype);
/* Folds the elements of each result in row-major order, as double; integers and bool as i64. */
weft_status reduce_reference(const kernel_call *c);

/* v, the result of node n or its gradient, with length 1 at the reduced axes: it broadcasts with n->in[0]. */
weft_value *reduce_kept(const weft_node *n, weft_value *v);

/* The builder: NULL for axes means all; an empty list is an error, because it would mean none. The caller
 * sets what is not the axes in `a`. */
weft_value *reduce_value(const weft_op *op, weft_value *x, int n_axes, const int64_t *axes, sum_attrs a);

/* ---- for builders that make several ops ---- */
/* Whether x has these axes, each once, and is floating point if it must be; else records the error under the
 * builder's name. */
bool reduce_fits(const char *name, const weft_value *x, bool wants_float, int n_axes, const int64_t *axes);
/* v to the power `exponent`, as the last op of a builder: gradients by its result reach it (root.c). */
weft_value *reduce_root(weft_value *v, double exponent);
/* Whether the axes hold no element at the model's batch. */
bool reduce_is_empty(const weft_value *x, int n_axes, const int64_t *axes);
/* y, which has the reduced axes with length 1, without them. */
weft_value *reduce_squeeze(weft_value *y, int n_axes, const int64_t *axes);

#endif
