/* op_kit.h - helpers for the files of ops: access to single elements, reference loops, shapes in attributes,
 * algebra and gradients that several ops share. */
#ifndef WEFT_OPS_KIT_OP_KIT_H
#define WEFT_OPS_KIT_OP_KIT_H

#include "graph/core/graph.h"
#include "ops/kit/ops.h"
#include "weft/ops.h"

/* Number i of a node's formula (ops/pointwise/pointwise_list.h): the i-th attribute of kind ATTR_REAL. False
 * past the last. */
bool formula_number(const weft_node *n, int i, double *value);

/* ---- elements by index, as double, for any type and strides: simple and slow ---- */
static inline int64_t element_place(const tensor *t, const int64_t *at) {
    int64_t p = 0;
    for (int i = 0; i < t->type.ndim; i++) p += at[i] * t->stride[i];
    return p;
}
double element_of_any(const tensor *t, int64_t place);
/* Inline for f32, which reference kernels spend their time with. */
static inline double element_value(const tensor *t, int64_t place) {
    return t->type.dtype == WEFT_F32 ? (double)((const float *)t->data)[place] : element_of_any(t, place);
}
static inline double element_get(const tensor *t, const int64_t *at) {
    return element_value(t, element_place(t, at));
}
/* n elements of a tensor from one on, each a step (in elements) after the one before. */
typedef struct element_line {
    const tensor *t;
    int64_t place, step;
} element_line;
/* sum + a[0] b[0] + a[1] b[1] ..., in this order. */
double elements_dot(double sum, element_line a, element_line b, int64_t n);
void element_set(const tensor *t, const int64_t *at, double value);
int64_t element_int(const tensor *t, const int64_t *at); /* integer types and bool, exact */
void element_set_int(const tensor *t, const int64_t *at, int64_t value);

/* Copies an element between tensors of one type, bit for bit. */
void element_copy(const tensor *to, const int64_t *to_at, const tensor *from, const int64_t *from_at);

/* The element of `t` that broadcasting puts at index `at` of `out`. */
double element_broadcast(const tensor *t, const tensor_type *out, const int64_t *at);
/* The value that is read back after storing `value` as `dtype`. */
double convert_element(weft_dtype dtype, double value);

/* Moves the index `at` to the next element in row-major order; false, and `at` is all 0, after the last. */
bool index_next(const tensor_type *t, int64_t *at);

/* The reference kernel of pointwise ops: op->scalar of every element, with operands broadcast. */
weft_status reference_pointwise(const kernel_call *c);
/* The reference kernel of ops whose result has the operand's type and elements, in strides of its own. */
weft_status reference_copy(const kernel_call *c);
/* The reference kernel of OP_VIEW ops: copies the view. */
weft_status reference_view(const kernel_call *c);
/* infer of comparisons: two operands of one type, any; the result is their broadcast, of bool. */
bool infer_compare(op_call *c);

/* infer of tests of one operand, of any type: the result is bool. */
bool infer_test(op_call *c);

/* ---- algebra, for `simplify` ---- */
/* Operand 0 if the result has its type, else NULL: reshape, broadcast_to, slice and cast to the type that x
 * has. */
weft_value *simplify_same_type(weft_node *n);
/* Operand i if operand 1 - i is the constant `neutral` and the result has the type of operand i: x + 0, x *
 * 1. Else NULL. */
weft_value *simplify_neutral(weft_node *n, int i, double neutral);

/* ---- shapes in attributes ---- */
/* Copies a caller's shape into an attribute, where WEFT_BATCH stays symbolic; false after recording the
 * error. */
bool shape_attr(weft_graph *g, const char *op, attr_ints *into, int ndim, const int64_t *shape);
/* For infer: replaces WEFT_BATCH in `type` by the model's batch. Always true, so that infer can return it. */
bool shape_bind(const op_call *c, tensor_type *type);

/* Whether a loss accepts these operands: neither is NULL, and both have one shape or the target has one
 * element. Else records the error. The ops below still broadcast, for files from versions whose losses
 * did. */
bool loss_fits(const char *loss, const weft_value *x, const weft_value *target);

/* ---- for gradients ---- */
/* Sums `gradient`, that of a broadcast result, to the shape of operand `like`. */
weft_value *sum_to(weft_value *gradient, const weft_value *like);
/* Zeros of the value's type and shape, also where it is infinite or NaN. */
weft_value *zeros_like(weft_value *like);
/* The gradients of maximum or minimum, as in PyTorch: the operand that was not chosen gets 0, equal ones get
 * half each. Comparisons with NaN are false, so both operands get all of dout. */
void extremum_gradient(weft_node *n, weft_value *dout, const bool *wanted, weft_value **din, bool is_maximum);

#endif
