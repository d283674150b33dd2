/* shape.cu - the ops that only move elements, as strided copies; constants and buckets, as plain ones. */
#include "ops/cuda/kit/parts.h"
#include "ops/cuda/shape/copy.cuh"

extern "C" {
#include "ops/kit/basic_attrs.h"
}

#include <string.h>

enum { FILL_THREADS = 256 };

/* Address of index i along `axis`. */
static char *element_at(const tensor *t, int64_t axis, int64_t i) {
    return static_cast<char *>(t->data) + i * t->stride[axis] * (int64_t)dtype_bytes(t->type.dtype);
}

/* ---- views ---- */

/* permute, slice, broadcast_to: the op's view gives the strides and the offset of the source. */
extern "C" weft_status cuda_permute_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t stride[WEFT_MAX_NDIM], offset;
    if (!c->node->op->view(c->node, x->stride, stride, &offset))
        return error_set(c->error, WEFT_INTERNAL, "%s: no view of the operand", c->node->op->name);
    const char *from = static_cast<const char *>(x->data) + offset * (int64_t)dtype_bytes(x->type.dtype);
    return strided_copy(c, y->data, y->stride, from, stride, &y->type);
}

/* The row-major order of the result is that of the operand, so the copy has the operand's shape. */
extern "C" weft_status cuda_reshape_run(void *, const kernel_call *c) {
    int64_t rows[WEFT_MAX_NDIM];
    stride_row_major(&c->in[0].type, rows);
    return strided_copy(c, c->out[0].data, rows, c->in[0].data, c->in[0].stride, &c->in[0].type);
}

/* Nothing to do when the planner placed the result on the operand. */
extern "C" weft_status cuda_reorder_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    if (x->data == y->data && stride_same(&x->type, x->stride, y->stride)) return WEFT_OK;
    return strided_copy(c, y->data, y->stride, x->data, x->stride, &y->type);
}

/* ---- several parts ---- */

/* Each operand is copied to its range of the axis. */
extern "C" weft_status cuda_concat_run(void *, const kernel_call *c) {
    const tensor *y = &c->out[0];
    int64_t axis = static_cast<const axis_attrs *>(c->attrs)->axis, at = 0;
    weft_status status = axis_resolve(&axis, y->type.ndim) ? WEFT_OK : WEFT_INTERNAL;
    for (int i = 0; i < c->n_in && status == WEFT_OK; i++) {
        const tensor *x = &c->in[i];
        status = strided_copy(c, element_at(y, axis, at), y->stride, x->data, x->stride, &x->type);
        at += x->type.shape[axis];
    }
    return status;
}

/* The pad's value at [begin, begin + length) along the axis. */
static weft_status padding(const kernel_call *c, int64_t axis, int64_t begin, int64_t length) {
    const tensor *y = &c->out[0];
    pattern fill = pattern_of(y->type.dtype, static_cast<const pad_attrs *>(c->attrs)->value);
    tensor_type part = y->type;
    part.shape[axis] = length;
    return length ? strided_copy(c, element_at(y, axis, begin), y->stride, NULL, NULL, &part, &fill)
                  : WEFT_OK;
}

/* Padding, the operand, padding: three copies that do not overlap. With padding between its elements the
 * operand is copied into padding. */
extern "C" weft_status cuda_pad_run(void *, const kernel_call *c) {
    const pad_attrs *a = static_cast<const pad_attrs *>(c->attrs);
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t axis = a->axis, to[WEFT_MAX_NDIM];
    if (!axis_resolve(&axis, y->type.ndim)) return WEFT_INTERNAL;
    int64_t end = y->type.shape[axis] - a->after;
    for (int i = 0; i < y->type.ndim; i++) to[i] = y->stride[i] * (i == axis ? a->between + 1 : 1);
    weft_status status = padding(c, axis, 0, a->before);
    if (status == WEFT_OK && a->between) status = padding(c, axis, a->before, end - a->before);
    if (status == WEFT_OK)
        status = strided_copy(c, element_at(y, axis, a->before), to, x->data, x->stride, &x->type);
    return status ? status : padding(c, axis, end, a->after);
}

/* The last element of each axis that is turned around is the first to be read. */
extern "C" weft_status cuda_flip_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t from[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM], offset;
    if (!flip_strides(static_cast<const shape_attrs *>(c->attrs), x, from, &offset)) return WEFT_INTERNAL;
    stride_row_major(&y->type, to);
    const char *first = static_cast<const char *>(x->data) + offset * (int64_t)dtype_bytes(x->type.dtype);
    return strided_copy(c, y->data, to, first, from, &y->type);
}

/* ---- constant ---- */

template <class T> __global__ void fill(T *to, T value, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) to[i] = value;
}

template <class T> static weft_status fill_launch(const kernel_call *c, const void *value, int64_t bytes) {
    T pattern;
    int64_t n = bytes / (int64_t)sizeof pattern;
    memcpy(&pattern, value, sizeof pattern);
    return launch(c, fill<T>, dim3(blocks_for(c, n, FILL_THREADS)), dim3(FILL_THREADS), 0,
                  static_cast<T *>(c->out[0].data), pattern, n);
}

/* The value fills 16 bytes as a pattern; a result of whole 16 bytes is written by those. */
extern "C" weft_status cuda_constant_run(void *, const kernel_call *c) {
    const tensor *y = &c->out[0];
    int64_t width = (int64_t)dtype_bytes(y->type.dtype), bytes = (int64_t)type_bytes(&y->type);
    double value = 0;
    if (!constant_value(&c->node->out[0], &value)) return WEFT_INTERNAL;
    pattern fill = pattern_of(y->type.dtype, value);
    if (bytes % 16 == 0 && reinterpret_cast<uintptr_t>(y->data) % 16 == 0)
        return fill_launch<uint4>(c, fill.bits, bytes);
    switch (width) {
    case 1:
        return fill_launch<uint8_t>(c, fill.bits, bytes);
    case 2:
        return fill_launch<uint16_t>(c, fill.bits, bytes);
    case 4:
        return fill_launch<uint32_t>(c, fill.bits, bytes);
    default:
        return fill_launch<uint64_t>(c, fill.bits, bytes);
    }
}

/* ---- bucket ---- */

/* Pieces of one flat buffer, which one launch copies, or zeroes where there is no source; blockIdx.y counts
 * them. */
struct bucket_parts {
    float *to;
    struct {
        const float *from;
        int64_t begin, length;
    } part[BUCKET_PARTS];
};

template <class T> __device__ static inline void part_copy(float *to, const float *from, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    T *t = reinterpret_cast<T *>(to);
    const T *f = reinterpret_cast<const T *>(from);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) t[i] = f ? f[i] : T();
}

/* 16 bytes at a time where the piece allows it. */
__global__ void copy_parts(bucket_parts p) {
    float *to = p.to + p.part[blockIdx.y].begin;
    const float *from = p.part[blockIdx.y].from;
    int64_t n = p.part[blockIdx.y].length;
    uintptr_t all =
        reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | (uintptr_t)n * sizeof(float);
    if (all % sizeof(float4) == 0)
        part_copy<float4>(to, from, n / 4);
    else
        part_copy<float>(to, from, n);
}

/* Collects pieces and launches them when the list is full. */
struct bucket_launch {
    const kernel_call *c;
    int n;
    int64_t longest;
    weft_status status;
    bucket_parts parts;
};

static void flush(bucket_launch *b) {
    if (b->n && b->status == WEFT_OK)
        b->status = launch(b->c, copy_parts,
                           dim3(blocks_for(b->c, b->longest / 4 + 1, FILL_THREADS, 8), (unsigned)b->n),
                           dim3(FILL_THREADS), 0, b->parts);
    b->n = 0;
    b->longest = 0;
}

static void add_member(bucket_launch *b, const void *from, int64_t begin, int64_t length) {
    if (length == 0) return;
    b->parts.part[b->n].from = static_cast<const float *>(from);
    b->parts.part[b->n].begin = begin;
    b->parts.part[b->n].length = length;
    if (length > b->longest) b->longest = length;
    if (++b->n == BUCKET_PARTS) flush(b);
}

/* The members of a bucket at their offsets, and zeros in the gaps (padding), so that sums over ranks see no
 * garbage. */
extern "C" weft_status cuda_bucket_run(void *, const kernel_call *c) {
    const weft_variable *s = c->node->variable;
    bucket_launch b = {};
    int64_t end = 0;
    b.c = c;
    b.parts.to = static_cast<float *>(c->out[0].data);
    for (int i = 0; i < c->n_in; i++) {
        const weft_variable *v = s->members[i];
        int64_t count = type_elements(&v->type);
        add_member(&b, NULL, end, v->offset - end);
        /* where the planner placed a gradient in the bucket there is nothing to copy */
        if (c->in[i].data != b.parts.to + v->offset) add_member(&b, c->in[i].data, v->offset, count);
        end = v->offset + count;
    }
    add_member(&b, NULL, end, s->type.shape[0] - end);
    flush(&b);
    return b.status;
}
