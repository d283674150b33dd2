/* adaptive_max_pool2d.c - the largest elements of the parts of an image that is divided into h x w, and their
 * indices; torch.nn.functional.adaptive_max_pool2d.
 *     x [N, C, H, W]   ->   y [N, C, h, w],   index i32[N, C, h, w]
 * The parts are those of adaptive_avg_pool2d, index and ties those of max_pool2d, as is the gradient. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_SIZE, {0}};

static bool infer(op_call *c) {
    return pool_infer_size(c) && pool_infer_maximum(c);
}

const weft_op weft_op_adaptive_max_pool2d = {
    .name = "adaptive_max_pool2d",
    .torch = "torch.nn.functional.adaptive_max_pool2d",
    .summary = "largest elements of h x w parts of x[N,C,H,W], and their indices",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    .image_out = 3,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = pool_maximum_gradient,
    .reference = pool_maximum,
    .samples = (const op_sample[]){{"f32[2,3,7,5]", "size=3,2", .out = "f32[2,3,3,2], i32[2,3,3,2]"},
                                   {"f32[2,18,4,4]", "size=1,1", .out = "f32[2,18,1,1], i32[2,18,1,1]"},
                                   {"f32[1,2,2,3]", "size=4,3", .out = "f32[1,2,4,3], i32[1,2,4,3]"},
                                   {"f32[2,3,7,5]", "size=0,2", .error = "size[0]=0: it must be 1 to"},
                                   {"f32[2,3,7,5]", "size=3", .error = "size has 1 numbers"},
                                   {"f32[3,7,5]", "size=3,2", .error = "must be [N, C, H, W]"},
                                   {0}},
};

weft_value *weft_adaptive_max_pool2d(weft_value *x, int64_t height, int64_t width) {
    pool_attrs a = {.size = {.n = 2, .v = {height, width}}};
    return op_value(&weft_op_adaptive_max_pool2d, 1, &x, &a);
}
