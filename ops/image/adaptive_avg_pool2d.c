/* adaptive_avg_pool2d.c - means over the parts of an image that is divided into h x w;
 * torch.nn.functional.adaptive_avg_pool2d.
 *     x [N, C, H, W]   ->   [N, C, h, w]
 * Part i covers floor(i H / h) <= row < ceil((i + 1) H / h), so parts may overlap. dx is
 * adaptive_avg_pool2d_backward. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_SIZE, {0}};

/* The backward op's size is that of x, its parts those of dy. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    pool_attrs a = pool_attrs_back(n->attrs, &n->in[0]->type);
    din[0] = node_value(n->graph, &weft_op_adaptive_avg_pool2d_backward, 1, &dout[0], &a);
}

const weft_op weft_op_adaptive_avg_pool2d = {
    .name = "adaptive_avg_pool2d",
    .summary = "means over h x w parts of x[N,C,H,W]",
    .torch = "torch.nn.functional.adaptive_avg_pool2d",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = pool_infer_size,
    .gradient = gradient,
    .reference = pool_average,
    .samples = (const op_sample[]){{"f32[2,3,7,5]", "size=3,2", .out = "f32[2,3,3,2]"},
                                   {"f32[2,18,4,4]", "size=1,1", .out = "f32[2,18,1,1]"},
                                   {"f32[1,2,2,3]", "size=4,3", .out = "f32[1,2,4,3]"},
                                   {"f32[2,3,7,5]", "size=0,2", .error = "size[0]=0: it must be 1 to"},
                                   {"f32[3,7,5]", "size=3,2", .error = "must be [N, C, H, W]"},
                                   {0}},
};

weft_value *weft_adaptive_avg_pool2d(weft_value *x, int64_t height, int64_t width) {
    pool_attrs a = {.size = {.n = 2, .v = {height, width}}};
    return op_value(&weft_op_adaptive_avg_pool2d, 1, &x, &a);
}
