/* op_kit.h - what the files of ops share: reading tensors element by element, the pointwise reference loop. */
#ifndef WEFT_OPS_KIT_OP_KIT_H
#define WEFT_OPS_KIT_OP_KIT_H

#include "graph/core/graph.h"
#include "ops/kit/ops.h"
#include "weft/ops.h"

/* Number i of a node's formula (ops/pointwise/pointwise_list.h): its i-th attribute of kind ATTR_REAL; false past the
 * last. */
bool formula_number(const weft_node *n, int i, double *value);

/* ---- elements by their place, as double; any type, any strides; slow and plain ---- */
double element_get(const tensor *t, const int64_t *at);
void element_set(const tensor *t, const int64_t *at, double value);
int64_t element_int(const tensor *t, const int64_t *at); /* integer types, exact */
void element_set_int(const tensor *t, const int64_t *at, int64_t value);

void element_copy(const tensor *to, const int64_t *to_at, const tensor *from, const int64_t *from_at);

/* The element of `t` that broadcasts to place `at` of `out`. */
double element_broadcast(const tensor *t, const tensor_type *out, const int64_t *at);
/* What `value` becomes when stored as `dtype` and read again. */
double convert_element(weft_dtype dtype, double value);

/* Odometer over a shape: for (int64_t at[8] = {0}; more; more = index_next(...)). False after the last. */
bool index_next(const tensor_type *t, int64_t *at);

/* op->scalar over every element, operands broadcast: the reference of all pointwise ops. */
weft_status reference_pointwise(const kernel_call *c);
/* The reference of OP_VIEW ops: copies the view. */
weft_status reference_view(const kernel_call *c);
/* Two operands of one type, any; the result bool. */
bool infer_compare(op_call *c);

/* ---- algebra, for `simplify` ---- */
/* The operand when the result has its type: reshape, broadcast_to, slice and cast to what x is already. */
weft_value *simplify_same_type(weft_node *n);
/* Operand i when operand `1 - i` is the constant `neutral` and i has the result's type: x + 0, x * 1. */
weft_value *simplify_neutral(weft_node *n, int i, double neutral);

/* ---- shapes in attributes ---- */
/* Copies a caller's shape into an attribute (WEFT_BATCH stays symbolic); false after recording the error. */
bool shape_attr(weft_graph *g, const char *op, attr_ints *into, int ndim, const int64_t *shape);
/* In infer: every WEFT_BATCH axis of `type` becomes the model's batch. Always true. */
bool shape_bind(const op_call *c, tensor_type *type);

/* Whether a loss takes these two: both are there, of one shape or the target a single number; else the error is
 * recorded. Ops below broadcast still, for files that were written when losses did. */
bool loss_fits(const char *loss, const weft_value *x, const weft_value *target);

/* ---- for gradients ---- */
/* `gradient` (of a broadcast result) summed to the shape of `like`. */
weft_value *sum_to(weft_value *gradient, const weft_value *like);
/* The gradients of the larger, or smaller, of two operands, as PyTorch's: who loses gets 0, equal ones share; a NaN is neither,
 * and lets both through. */
void extremum_gradient(weft_node *n, weft_value *dout, const bool *wanted, weft_value **din, bool is_maximum);

#endif
