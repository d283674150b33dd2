/* type.h - element types, shapes and strides: what describes a tensor before it has memory. */
#ifndef WEFT_GRAPH_CORE_TYPE_H
#define WEFT_GRAPH_CORE_TYPE_H

#include "graph/core/mem.h"
#include "weft/model.h"

/* An element type and a shape; shape[i] for i >= ndim is 0. */
typedef struct tensor_type {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
} tensor_type;

/* ---- element types ---- */
size_t dtype_bytes(weft_dtype dtype);
const char *dtype_name(weft_dtype dtype); /* "f32"; "?" for a number that is not a type */
bool dtype_parse(const char *name, size_t length, weft_dtype *dtype);
bool dtype_is_float(weft_dtype dtype);
bool dtype_is_reduced(weft_dtype dtype); /* bf16, f16 */
/* The type that sums of such elements are kept in: f32 for the reduced ones, else the type itself. */
weft_dtype dtype_accumulator(weft_dtype dtype);
bool dtype_is_integer(weft_dtype dtype); /* i64 i32 u8, not bool */
bool dtype_is_wide(weft_dtype dtype);    /* i64 i32: the integers that ops compute with */
bool dtype_is_data(weft_dtype dtype);    /* i8 u16 u32: only moved and cast (OP_MOVES) */

/* ---- shapes ---- */
/* A shape given as numbers; at most WEFT_MAX_NDIM axes are copied. */
tensor_type type_of(weft_dtype dtype, int ndim, const int64_t *shape);
tensor_type type_scalar(weft_dtype dtype);
bool type_equal(const tensor_type *a, const tensor_type *b);
bool shape_equal(const tensor_type *a, const tensor_type *b);
/* Number of elements; 1 for ndim 0. Cannot overflow for a type that has passed type_check, as all in a graph
 * have. */
int64_t type_elements(const tensor_type *t);
size_t type_bytes(const tensor_type *t);
/* Whether the type exists, ndim is in range, each axis is at least 1 and the whole at most 2^46 bytes: true
 * of every type in a graph that is compiled, and of what a graph is fed or keeps. */
bool type_check(const tensor_type *t);
/* The same, but axes may be 0: true of every type in a graph that a program builds. */
bool type_check_or_empty(const tensor_type *t);
/* Whether an axis is 0, so that there is no element. */
bool type_is_empty(const tensor_type *t);
/* The shape that a and b broadcast to, by PyTorch's rule: shapes are aligned at the last axis, and of each
 * pair of lengths both are equal or one is 1. *out gets the element type of a; it may be a or b. */
bool shape_broadcast(const tensor_type *a, const tensor_type *b, tensor_type *out);
/* Makes an axis in [-ndim, ndim) non-negative; false when it is outside. */
bool axis_resolve(int64_t *axis, int ndim);

/* A type as text, by value: "f32[128,64]". TYPE(t) is a string that is valid to the end of the full
 * expression. */
typedef struct type_text {
    char text[240];
} type_text;
type_text type_show(const tensor_type *t);
#define TYPE(t) (type_show(t).text)

/* Reads "f32[128,64]" and moves *at past it; false when *at is not a type. The result may break
 * type_check. */
bool type_parse(const char **at, tensor_type *type);

/* ---- strides, in elements ---- */
void stride_row_major(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]);
/* Whether values of the type may lie channels-last: images [N, C, H, W] and volumes [N, C, D, H, W]. */
bool type_is_image(const tensor_type *t);
/* Strides of such a type stored in the order N H W C, or N D H W C; row-major for all others. */
void stride_channels_last(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]);
/* Whether strides are equal on all axes longer than 1: others are never walked. */
bool stride_same(const tensor_type *t, const int64_t *a, const int64_t *b);

#endif
