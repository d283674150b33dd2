/* avg_pool2d.c - the mean of a sliding window; torch.nn.functional.avg_pool2d.
 *     x [N, C, H, W]   ->   [N, C, h, w],   h: pool_shape (pool.h)
 * The zeros of the padding count, unless exclude_pad (count_include_pad=False) says otherwise or `divisor`
 * (divisor_override) takes the place of the number of elements. dx is avg_pool2d_backward. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_WINDOW, POOL_ATTR_DILATION, POOL_ATTR_CEIL, POOL_ATTR_DIVISOR, {0}};

static bool infer(op_call *c) {
    return pool_check_image(c) && pool_shape(c, c->attrs, op_in(c, 0), &c->out[0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    pool_attrs a = pool_attrs_back(n->attrs, &n->in[0]->type);
    din[0] = node_value(n->graph, &weft_op_avg_pool2d_backward, 1, &dout[0], &a);
}

const weft_op weft_op_avg_pool2d = {
    .name = "avg_pool2d",
    .summary = "mean of a sliding window over x[N,C,H,W]",
    .torch = "torch.nn.functional.avg_pool2d",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = pool_average,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0", .out = "f32[2,3,2,3]"},
            {"f32[2,3,7,5]", "kernel=3,3 stride=2,2 pad=1,1", .out = "f32[2,3,4,3]"},
            {"f32[1,2,7,6]", "kernel=3,2 stride=2,1 pad=0,1", .out = "f32[1,2,3,7]"},
            {"f32[2,17,6,6]", "kernel=6,6 stride=6,6 pad=0,0", .out = "f32[2,17,1,1]"},
            {"f32[2,3,6,8]", "kernel=3,2 stride=2,3 pad=1,0 ceil_mode=1", .out = "f32[2,3,4,3]"},
            {"f32[1,2,6,5]", "kernel=3,2 stride=2,2 pad=1,1 exclude_pad=1", .out = "f32[1,2,3,3]"},
            {"f32[1,2,6,7]", "kernel=3,4 stride=4,3 pad=1,2 ceil_mode=1 exclude_pad=1",
             .out = "f32[1,2,2,3]"},
            {"f32[1,2,6,4]", "kernel=3,3 stride=2,2 pad=1,1 ceil_mode=1 exclude_pad=1",
             .out = "f32[1,2,4,3]"},
            {"f32[1,17,5,4]", "kernel=3,3 stride=2,2 pad=1,1 ceil_mode=1 divisor=5", .out = "f32[1,17,3,3]"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0 divisor=-1", .error = "divisor=-1"},
            {"f32[2,3,8,9]", "kernel=3,2 stride=2,1 pad=1,1 dilation=2,3", .out = "f32[2,3,3,8]"},
            {"f32[1,20,7,7]", "kernel=2,3 stride=2,2 pad=1,2 dilation=3,2 ceil_mode=1 exclude_pad=1",
             .out = "f32[1,20,4,4]"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=2,0", .out = "f32[2,3,4,3]"},
            {"f32[1,2,4,3]", "kernel=2,3 stride=1,1 pad=3,2 dilation=1,2 divisor=3 exclude_pad=1",
             .out = "f32[1,2,9,3]"},
            {"f32[1,2,26,26]", "kernel=20,20 stride=4,5 pad=13,12 dilation=2,2", .out = "f32[1,2,4,3]",
             .no_gradient = true},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=2,0 exclude_pad=1",
             .error = "along axis 2 a window of kernel 2 lies in the padding"},
            {"f32[2,3,4,6]", "kernel=5,2 stride=2,2 pad=0,0",
             .error = "axis 2 with pad 0 on both sides is smaller"},
            {"f32[2,3,4,6]", "kernel=0,2 stride=2,2 pad=0,0", .error = "kernel[0]=0: it must be 1 to 65536"},
            {"f32[2,3,4]", "kernel=2,2 stride=2,2 pad=0,0", .error = "must be [N, C, H, W]"},
            {"u8[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0", .error = "must be floating point"},
            {0}},
};

weft_value *weft_avg_pool2d(weft_value *x, const weft_pool *pool) {
    pool_attrs a;
    if (!pool_attrs_from(&a, &weft_op_avg_pool2d, x, pool)) return NULL;
    return op_value(&weft_op_avg_pool2d, 1, &x, &a);
}
