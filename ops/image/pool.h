/* pool.h - what the pooling ops share: a window that slides over the last two axes of [N, C, H, W]. */
#ifndef WEFT_OPS_IMAGE_POOL_H
#define WEFT_OPS_IMAGE_POOL_H

#include "ops/kit/op_kit.h"

typedef struct pool_attrs {
    attr_ints kernel, stride, pad; /* height, width; always both, never left to a default */
    attr_ints size;                /* backward ops: H and W of the input; adaptive: h and w of the result */
} pool_attrs;

enum { POOL_MAX = 65536 };

#define POOL_ATTR_WINDOW                                                                                     \
    {"kernel", ATTR_INTS, offsetof(pool_attrs, kernel), 1, POOL_MAX},                                        \
        {"stride", ATTR_INTS, offsetof(pool_attrs, stride), 1, POOL_MAX}, {                                  \
        "pad", ATTR_INTS, offsetof(pool_attrs, pad), 0, POOL_MAX                                             \
    }
#define POOL_ATTR_SIZE                                                                                       \
    { "size", ATTR_INTS, offsetof(pool_attrs, size), 1, (int64_t)1 << 40 }

pool_attrs pool_attrs_from(const weft_pool *pool);
/* The attributes of a backward op: the window, and the size of `input`. */
pool_attrs pool_attrs_back(const pool_attrs *a, const tensor_type *input);

/* In infer: operand 0 is [N, C, H, W]; windows and sizes have two numbers. */
bool pool_check_image(const op_call *c);
bool pool_check_pair(const op_call *c, const char *name, const attr_ints *pair);
/* The result of a sliding window over [N, C, H, W]: floor((H + 2 pad - kernel) / stride) + 1. */
bool pool_shape(const op_call *c, const pool_attrs *a, const tensor_type *input, tensor_type *result);

/* Places [*begin, *end) of an axis of `length` that result `i` of `count` looks at: by a sliding window, cut
 * at the borders; or, adaptive, the parts floor(i length / count) to ceil((i + 1) length / count). */
void pool_window(const pool_attrs *a, int axis, int64_t i, int64_t length, int64_t *begin, int64_t *end);
void pool_part(int64_t i, int64_t count, int64_t length, int64_t *begin, int64_t *end);

/* One result pixel of an average: its window and what its sum is divided by. */
typedef struct pool_cell {
    int64_t begin[2], end[2];
    double divisor;
} pool_cell;
/* Cell (y, x) of `small` over `big`; an adaptive op has no kernel. */
pool_cell pool_cell_at(const pool_attrs *a, const tensor_type *big, const tensor_type *small, int64_t y,
                       int64_t x);

/* References of the two averages (sliding and adaptive alike) and of their gradients. */
weft_status pool_average(const kernel_call *c);
weft_status pool_average_backward(const kernel_call *c);

#endif
