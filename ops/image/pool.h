/* pool.h - shared by the pooling ops: a window that slides over the last two axes of [N, C, H, W], and the
 * parts of adaptive pooling. */
#ifndef WEFT_OPS_IMAGE_POOL_H
#define WEFT_OPS_IMAGE_POOL_H

#include "ops/kit/op_kit.h"

typedef struct pool_attrs {
    attr_ints kernel, stride, pad; /* height and width; nodes have both, without defaults */
    attr_ints dilation;            /* of sliding windows; none: 1 */
    attr_ints size;   /* backward ops: H and W of the input; adaptive ops: h and w of the result */
    bool ceil_mode;   /* the number of windows is rounded up */
    bool exclude_pad; /* of averages: what lies in the padding does not count */
    int64_t divisor;  /* of averages: instead of the number of elements; 0: none */
} pool_attrs;

enum { POOL_MAX = 65536 };

#define POOL_ATTR_WINDOW                                                                                     \
    {"kernel", ATTR_INTS, offsetof(pool_attrs, kernel), 1, POOL_MAX},                                        \
        {"stride", ATTR_INTS, offsetof(pool_attrs, stride), 1, POOL_MAX}, {                                  \
        "pad", ATTR_INTS, offsetof(pool_attrs, pad), 0, POOL_MAX                                             \
    }
#define POOL_ATTR_CEIL                                                                                       \
    { "ceil_mode", ATTR_BOOL, offsetof(pool_attrs, ceil_mode) }
#define POOL_ATTR_DILATION                                                                                   \
    { "dilation", ATTR_INTS, offsetof(pool_attrs, dilation), 1, POOL_MAX }
#define POOL_ATTR_DIVISOR                                                                                    \
    {"exclude_pad", ATTR_BOOL, offsetof(pool_attrs, exclude_pad)}, {                                         \
        "divisor", ATTR_INT, offsetof(pool_attrs, divisor), 0, INT32_MAX                                     \
    }
#define POOL_ATTR_SIZE                                                                                       \
    { "size", ATTR_INTS, offsetof(pool_attrs, size), 1, (int64_t)1 << 40 }

/* Attributes from a builder's argument; a stride of 0 means that of the kernel size. False after recording
 * that a field is not for `op`: exclude_pad and divisor are for averages. */
bool pool_attrs_from(pool_attrs *a, const weft_op *op, weft_value *x, const weft_pool *pool);
/* Attributes of a backward op: the window, and the size of `input`. */
pool_attrs pool_attrs_back(const pool_attrs *a, const tensor_type *input);

/* Checks for infer: operand 0 is [N, C, H, W]; pairs have two numbers. */
bool pool_check_image(const op_call *c);
bool pool_check_pair(const op_call *c, const char *name, const attr_ints *pair);
/* The checks, and result 0: operand 0 in the size that the attribute says. */
bool pool_infer_size(op_call *c);
/* The shape of the result of a sliding window over [N, C, H, W]:
 *     floor((H + 2 pad - dilation (kernel - 1) - 1) / stride) + 1
 * or, with ceil_mode, ceil(...) + 1, without a last window that would begin in the padding after the
 * input. */
bool pool_shape(const op_call *c, const pool_attrs *a, const tensor_type *input, tensor_type *result);

/* Elements from one element of a window to the next. */
static inline int64_t pool_step(const pool_attrs *a, int axis) {
    return a->dilation.n ? a->dilation.v[axis] : 1;
}

/* The range [*begin, *end) of an axis of `length` that result i of `count` reads: pool_window for a sliding
 * window, cut at the borders, of which it reads each pool_step()th element from *begin on; or, for adaptive
 * ops, which have no kernel, pool_part: floor(i length / count) to ceil((i + 1) length / count). */
void pool_window(const pool_attrs *a, int axis, int64_t i, int64_t count, int64_t length, int64_t *begin,
                 int64_t *end);

/* One result element of an average: its window and the divisor of its sum. */
typedef struct pool_cell {
    int64_t begin[2], end[2], step[2];
    double divisor;
} pool_cell;
/* Cell (y, x) of `small` over `big`. */
pool_cell pool_cell_at(const pool_attrs *a, const tensor_type *big, const tensor_type *small, int64_t y,
                       int64_t x);

/* Reference kernels of both averages, of their gradients, and of both maxima. */
weft_status pool_average(const kernel_call *c);
weft_status pool_average_backward(const kernel_call *c);
weft_status pool_maximum(const kernel_call *c);
/* For both maxima: the results that go with y, and the gradient by the index. */
bool pool_infer_maximum(op_call *c);
void pool_maximum_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);

#endif
