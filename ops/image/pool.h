/* pool.h - shared by the pooling ops: a window that slides over the last two axes of [N, C, H, W], and the
 * parts of adaptive pooling. */
#ifndef WEFT_OPS_IMAGE_POOL_H
#define WEFT_OPS_IMAGE_POOL_H

#include "ops/kit/op_kit.h"

typedef struct pool_attrs {
    attr_ints kernel, stride, pad; /* height and width; nodes have both, without defaults */
    attr_ints size; /* backward ops: H and W of the input; adaptive ops: h and w of the result */
} pool_attrs;

enum { POOL_MAX = 65536 };

#define POOL_ATTR_WINDOW                                                                                     \
    {"kernel", ATTR_INTS, offsetof(pool_attrs, kernel), 1, POOL_MAX},                                        \
        {"stride", ATTR_INTS, offsetof(pool_attrs, stride), 1, POOL_MAX}, {                                  \
        "pad", ATTR_INTS, offsetof(pool_attrs, pad), 0, POOL_MAX                                             \
    }
#define POOL_ATTR_SIZE                                                                                       \
    { "size", ATTR_INTS, offsetof(pool_attrs, size), 1, (int64_t)1 << 40 }

/* Attributes from a builder's argument; a stride of 0 means that of the kernel size. */
pool_attrs pool_attrs_from(const weft_pool *pool);
/* Attributes of a backward op: the window, and the size of `input`. */
pool_attrs pool_attrs_back(const pool_attrs *a, const tensor_type *input);

/* Checks for infer: operand 0 is [N, C, H, W]; pairs have two numbers. */
bool pool_check_image(const op_call *c);
bool pool_check_pair(const op_call *c, const char *name, const attr_ints *pair);
/* The shape of the result of a sliding window over [N, C, H, W]: floor((H + 2 pad - kernel) / stride) + 1. */
bool pool_shape(const op_call *c, const pool_attrs *a, const tensor_type *input, tensor_type *result);

/* The range [*begin, *end) of an axis of `length` that result i reads: pool_window for a sliding window, cut
 * at the borders; pool_part for part i of `count`, floor(i length / count) to ceil((i + 1) length /
 * count). */
void pool_window(const pool_attrs *a, int axis, int64_t i, int64_t length, int64_t *begin, int64_t *end);
void pool_part(int64_t i, int64_t count, int64_t length, int64_t *begin, int64_t *end);

/* One result element of an average: its window and the divisor of its sum. */
typedef struct pool_cell {
    int64_t begin[2], end[2];
    double divisor;
} pool_cell;
/* Cell (y, x) of `small` over `big`. Adaptive ops are those without a kernel. */
pool_cell pool_cell_at(const pool_attrs *a, const tensor_type *big, const tensor_type *small, int64_t y,
                       int64_t x);

/* Reference kernels of both averages, and of their gradients. */
weft_status pool_average(const kernel_call *c);
weft_status pool_average_backward(const kernel_call *c);

#endif
