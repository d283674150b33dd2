/* adaptive_avg_pool2d_backward.c - the gradient of adaptive_avg_pool2d: each element of dy, divided by the
 * size of its part, is added to all elements of that part.
 *     dy [N, C, h, w]   ->   dx [N, C, size]
 * Linear in dy; its own gradient is adaptive_avg_pool2d. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_SIZE, {0}};

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    pool_attrs a = pool_attrs_back(n->attrs, &n->in[0]->type);
    din[0] = node_value(n->graph, &weft_op_adaptive_avg_pool2d, 1, &dout[0], &a);
}

const weft_op weft_op_adaptive_avg_pool2d_backward = {
    .name = "adaptive_avg_pool2d_backward",
    .summary = "gradient of adaptive_avg_pool2d",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = pool_infer_size,
    .gradient = gradient,
    .reference = pool_average_backward,
    .samples = (const op_sample[]){{"f32[2,3,3,2]", "size=7,5", .out = "f32[2,3,7,5]"},
                                   {"f32[2,18,1,1]", "size=4,4", .out = "f32[2,18,4,4]"},
                                   {"f32[2,3,3,2]", "size=7", .error = "size has 1 numbers"},
                                   {0}},
};
