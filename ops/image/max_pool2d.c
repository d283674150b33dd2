/* max_pool2d.c - the largest element of a sliding window; torch.nn.functional.max_pool2d.
 *     x [N, C, H, W]   ->   y [N, C, h, w],   index i32[N, C, h, w]
 *     h: pool_shape (pool.h); the padding never wins
 * index = row W + column of the maximum in its plane: the first of equal ones; a NaN wins over all before it.
 * dx is max_pool2d_backward, which reads the index. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_WINDOW, POOL_ATTR_DILATION, POOL_ATTR_CEIL, {0}};

static bool infer(op_call *c) {
    return pool_check_image(c) && pool_shape(c, c->attrs, op_in(c, 0), &c->out[0]) && pool_infer_maximum(c);
}

const weft_op weft_op_max_pool2d = {
    .name = "max_pool2d",
    .summary = "largest element of a sliding window over x[N,C,H,W], and its index",
    .torch = "torch.nn.functional.max_pool2d",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    /* The index has the layout of y. */
    .image_out = 3,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = pool_maximum_gradient,
    .reference = pool_maximum,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0", .out = "f32[2,3,2,3], i32[2,3,2,3]"},
            {"f32[2,3,7,5]", "kernel=3,3 stride=2,2 pad=1,1", .out = "f32[2,3,4,3], i32[2,3,4,3]"},
            {"f32[1,2,7,6]", "kernel=3,2 stride=2,1 pad=0,1", .out = "f32[1,2,3,7], i32[1,2,3,7]"},
            {"f32[2,3,6,8]", "kernel=3,2 stride=2,3 pad=1,0 ceil_mode=1",
             .out = "f32[2,3,4,3], i32[2,3,4,3]"},
            {"f32[1,2,2,5]", "kernel=3,2 stride=2,2 pad=0,1 ceil_mode=1",
             .out = "f32[1,2,1,3], i32[1,2,1,3]"},
            {"f32[2,3,8,9]", "kernel=3,2 stride=2,1 pad=1,1 dilation=2,3",
             .out = "f32[2,3,3,8], i32[2,3,3,8]"},
            {"f32[1,20,7,7]", "kernel=2,3 stride=2,2 pad=1,1 dilation=3,2 ceil_mode=1",
             .out = "f32[1,20,4,3], i32[1,20,4,3]"},
            {"f32[2,33,9,9]", "kernel=3,3 stride=2,2 pad=1,1", .out = "f32[2,33,5,5], i32[2,33,5,5]",
             .no_gradient = true},
            {"f32[2,3,4,6]", "kernel=3,4 stride=1,2 pad=2,3", .out = "f32[2,3,6,5], i32[2,3,6,5]"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=2,0",
             .error = "along axis 2 a window of kernel 2 lies in the padding: use less than pad 2"},
            {"f32[2,3,4,6]", "kernel=5,2 stride=2,2 pad=0,0",
             .error = "axis 2 with pad 0 on both sides is smaller"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=0,2 pad=0,0", .error = "stride[0]=0: it must be 1 to 65536"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0", .error = "pad has 1 numbers"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0 dilation=2", .error = "dilation has 1 numbers"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0 dilation=4,1",
             .error = "is smaller than the kernel 5 with dilation"},
            {"f32[2,3,1,6]", "kernel=2,2 stride=1,1 pad=1,0 dilation=2,1",
             .error = "along axis 2 a window of kernel 3 with dilation lies in the padding"},
            {0}},
};

weft_value *weft_max_pool2d(weft_value *x, const weft_pool *pool) {
    pool_attrs a;
    if (!pool_attrs_from(&a, &weft_op_max_pool2d, x, pool)) return NULL;
    return op_value(&weft_op_max_pool2d, 1, &x, &a);
}
