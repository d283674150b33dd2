/* avg_pool2d_backward.c - the gradient of avg_pool2d: each element of dy, divided by its window's divisor, is
 * added to all elements of its window.
 *     dy [N, C, h, w]   ->   dx [N, C, size]
 * Linear in dy; its own gradient is avg_pool2d. */
#include "ops/image/pool.h"

static const op_attr attrs[] = {POOL_ATTR_WINDOW, POOL_ATTR_DILATION, POOL_ATTR_SIZE,
                                POOL_ATTR_CEIL,   POOL_ATTR_DIVISOR,  {0}};

static bool infer(op_call *c) {
    const tensor_type *dy = op_in(c, 0);
    if (!pool_infer_size(c)) return false;
    /* The size of dx is an attribute, since several sizes give the same dy; it must be one that does. */
    tensor_type want;
    if (!pool_shape(c, c->attrs, &c->out[0], &want)) return false;
    return type_equal(dy, &want) || op_fail(c, WEFT_SHAPE, "dy %s: it must be %s", TYPE(dy), TYPE(&want));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    pool_attrs a = *(const pool_attrs *)n->attrs;
    a.size.n = 0;
    din[0] = node_value(n->graph, &weft_op_avg_pool2d, 1, &dout[0], &a);
}

const weft_op weft_op_avg_pool2d_backward = {
    .name = "avg_pool2d_backward",
    .summary = "gradient of avg_pool2d",
    .min_in = 1,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = pool_average_backward,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,3]", "kernel=3,3 stride=2,2 pad=1,1 size=7,5", .out = "f32[2,3,7,5]"},
            {"f32[1,20,2,3]", "kernel=2,2 stride=2,2 pad=0,0 size=5,6", .out = "f32[1,20,5,6]"},
            {"f32[2,3,4,3]", "kernel=3,2 stride=2,3 pad=1,0 ceil_mode=1 size=6,8", .out = "f32[2,3,6,8]"},
            {"f32[1,2,4,3]", "kernel=3,3 stride=2,2 pad=1,1 ceil_mode=1 exclude_pad=1 size=6,4",
             .out = "f32[1,2,6,4]"},
            {"f32[1,2,2,3]", "kernel=3,4 stride=4,3 pad=1,2 ceil_mode=1 exclude_pad=1 size=6,7",
             .out = "f32[1,2,6,7]"},
            {"f32[1,17,3,3]", "kernel=3,3 stride=2,2 pad=1,1 ceil_mode=1 divisor=5 size=5,4",
             .out = "f32[1,17,5,4]"},
            {"f32[2,3,3,8]", "kernel=3,2 stride=2,1 pad=1,1 dilation=2,3 size=8,9", .out = "f32[2,3,8,9]"},
            {"f32[1,20,4,4]", "kernel=2,3 stride=2,2 pad=1,2 dilation=3,2 size=7,7 ceil_mode=1 exclude_pad=1",
             .out = "f32[1,20,7,7]"},
            {"f32[2,3,4,3]", "kernel=2,2 stride=2,2 pad=2,0 size=4,6", .out = "f32[2,3,4,6]"},
            {"f32[2,3,4,4]", "kernel=3,3 stride=2,2 pad=1,1 size=7,5", .error = "it must be f32[2,3,4,3]"},
            {"f32[2,3,4,3]", "kernel=3,3 stride=2,2 pad=1,1 size=7", .error = "size has 1 numbers"},
            {0}},
};
