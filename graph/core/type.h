/* type.h - element types, shapes, strides: what a tensor is before it has memory. */
#ifndef WEFT_GRAPH_CORE_TYPE_H
#define WEFT_GRAPH_CORE_TYPE_H

#include "graph/core/mem.h"
#include "weft/model.h"

typedef struct tensor_type {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
} tensor_type;

/* ---- element types ---- */
size_t dtype_bytes(weft_dtype dtype);
const char *dtype_name(weft_dtype dtype); /* "f32"; "?" outside the list */
bool dtype_parse(const char *name, size_t length, weft_dtype *dtype);
bool dtype_is_float(weft_dtype dtype);
bool dtype_is_reduced(weft_dtype dtype); /* bf16, f16 */
weft_dtype dtype_accumulator(
    weft_dtype dtype); /* what such elements are summed in: f32 for the reduced ones, else itself */
bool dtype_is_integer(weft_dtype dtype); /* i64 i32 u8, not bool */

/* ---- shapes ---- */
tensor_type type_of(weft_dtype dtype, int ndim, const int64_t *shape);
tensor_type type_scalar(weft_dtype dtype);
bool type_equal(const tensor_type *a, const tensor_type *b);
bool shape_equal(const tensor_type *a, const tensor_type *b);
/* Elements; types in a graph have passed type_check, so this cannot overflow. 1 for ndim 0. */
int64_t type_elements(const tensor_type *t);
size_t type_bytes(const tensor_type *t);
/* ndim in range, each axis >= 1, bytes <= 2^46: what every type in a graph satisfies. */
bool type_check(const tensor_type *t);
/* PyTorch's rule: aligned at the last axis, each pair equal or one of them 1. */
bool shape_broadcast(const tensor_type *a, const tensor_type *b, tensor_type *out);
/* axis in [-ndim, ndim) made non-negative; false when outside. */
bool axis_resolve(int64_t *axis, int ndim);

/* "f32[128,64]" into `buffer`, which is returned. */
typedef struct type_text {
    char text[240];
} type_text;
type_text type_show(const tensor_type *t);
#define TYPE(t) (type_show(t).text)

/* Reads "f32[128,64]" at *at and moves it past; false when it is not a type. */
bool type_parse(const char **at, tensor_type *type);

/* ---- strides, in elements ---- */
void stride_row_major(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]);
/* 4 axes stored N H W C; other ndim: row-major. */
void stride_channels_last(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]);
/* Equal wherever the axis is longer than 1. */
bool stride_same(const tensor_type *t, const int64_t *a, const int64_t *b);

#endif
