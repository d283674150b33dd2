/* element.h - single elements of tensors, for reference kernels: slow and obviously right. */
#ifndef WEFT_GRAPH_CORE_ELEMENT_H
#define WEFT_GRAPH_CORE_ELEMENT_H

#include "graph/core/op.h"

/* ---- elements by index, as double, for any type and strides: simple and slow ---- */
static inline int64_t element_place(const tensor *t, const int64_t *at) {
    int64_t p = 0;
    for (int i = 0; i < t->type.ndim; i++) p += at[i] * t->stride[i];
    return p;
}
double element_of_any(const tensor *t, int64_t place);
/* Inline for the types that reference kernels spend their time with. */
static inline double element_value(const tensor *t, int64_t place) {
    return t->type.dtype == WEFT_F32   ? (double)((const float *)t->data)[place]
           : t->type.dtype == WEFT_F64 ? ((const double *)t->data)[place]
                                       : element_of_any(t, place);
}
static inline double element_get(const tensor *t, const int64_t *at) {
    return element_value(t, element_place(t, at));
}
/* n elements of a tensor from one on, each a step (in elements) after the one before. */
typedef struct element_line {
    const tensor *t;
    int64_t place, step;
} element_line;
/* The elements along the last axis from `at` on. */
static inline element_line element_row(const tensor *t, const int64_t *at) {
    return (element_line){t, element_place(t, at), t->stride[t->type.ndim - 1]};
}
/* sum + a[0] b[0] + a[1] b[1] ..., in this order. */
double elements_dot(double sum, element_line a, element_line b, int64_t n);
void element_set(const tensor *t, const int64_t *at, double value);
int64_t element_int(const tensor *t, const int64_t *at); /* integer types and bool, exact */
void element_set_int(const tensor *t, const int64_t *at, int64_t value);

/* Copies an element between tensors of one type, bit for bit. */
void element_copy(const tensor *to, const int64_t *to_at, const tensor *from, const int64_t *from_at);

/* The index of the element of `t` that broadcasting puts at index `at` of `out`, and that element. */
void index_broadcast(const tensor *t, const tensor_type *out, const int64_t *at, int64_t from[WEFT_MAX_NDIM]);
double element_broadcast(const tensor *t, const tensor_type *out, const int64_t *at);
int64_t element_broadcast_int(const tensor *t, const tensor_type *out, const int64_t *at);
/* The value that is read back after storing `value` as `dtype`. */
double convert_element(weft_dtype dtype, double value);
int64_t convert_int(weft_dtype dtype, int64_t value);

/* Moves the index `at` to the next element in row-major order; false, and `at` is all 0, after the last. */
bool index_next(const tensor_type *t, int64_t *at);

#endif
