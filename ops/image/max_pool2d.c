/* max_pool2d.c - the largest element of a sliding window; torch.nn.functional.max_pool2d.
 *     x [N, C, H, W]   ->   y [N, C, h, w],   index i32[N, C, h, w]
 *     h = floor((H + 2 pad - kernel) / stride) + 1; the padding never wins
 * index = row W + column of the maximum in its plane: the first of equal ones; a NaN wins over all before it.
 * dx is max_pool2d_backward, which reads the index. */
#include "ops/image/pool.h"

#include <math.h>

static const op_attr attrs[] = {POOL_ATTR_WINDOW, {0}};

/* The index is i32, so a plane has fewer than 2^31 elements. */
static bool infer(op_call *c) {
    if (!pool_check_image(c) || !pool_shape(c, c->attrs, op_in(c, 0), &c->out[0])) return false;
    if (op_in(c, 0)->shape[2] > INT32_MAX / op_in(c, 0)->shape[3])
        return op_fail(c, WEFT_SHAPE, "%s: a plane must have fewer than 2^31 elements", TYPE(op_in(c, 0)));
    c->n_out = 2;
    c->out[1] = c->out[0];
    c->out[1].dtype = WEFT_I32;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    (void)wanted;
    if (!dout[0]) return;
    pool_attrs a = {.size = {.n = 2, .v = {n->in[0]->type.shape[2], n->in[0]->type.shape[3]}}};
    din[0] = node_value(n->graph, &weft_op_max_pool2d_backward, 2, (weft_value *[]){dout[0], &n->out[1]}, &a);
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, begin[2], end[2];
    do {
        for (int i = 0; i < 2; i++)
            pool_window(c->attrs, i, at[2 + i], x->type.shape[2 + i], &begin[i], &end[i]);
        /* The window is cut at the borders, so the padding is never read. */
        double best = -INFINITY;
        int64_t index = begin[0] * x->type.shape[3] + begin[1];
        for (int64_t row = begin[0]; row < end[0]; row++)
            for (int64_t column = begin[1]; column < end[1]; column++) {
                double v = element_get(x, (int64_t[]){at[0], at[1], row, column});
                if (!(v > best) && !isnan(v)) continue;
                best = v;
                index = row * x->type.shape[3] + column;
            }
        element_set(y, at, best);
        element_set_int(&c->out[1], at, index);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_max_pool2d = {
    .name = "max_pool2d",
    .summary = "largest element of a sliding window over x[N,C,H,W], and its index",
    .torch = "torch.nn.functional.max_pool2d",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_GRADIENT_ONCE,
    .attrs_bytes = sizeof(pool_attrs),
    .attrs = attrs,
    .image_in = 1,
    /* The index has the layout of y. */
    .image_out = 3,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0,0", .out = "f32[2,3,2,3], i32[2,3,2,3]"},
            {"f32[2,3,7,5]", "kernel=3,3 stride=2,2 pad=1,1", .out = "f32[2,3,4,3], i32[2,3,4,3]"},
            {"f32[1,2,7,6]", "kernel=3,2 stride=2,1 pad=0,1", .out = "f32[1,2,3,7], i32[1,2,3,7]"},
            {"f32[2,33,9,9]", "kernel=3,3 stride=2,2 pad=1,1", .out = "f32[2,33,5,5], i32[2,33,5,5]",
             .no_gradient = true},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=2,0", .error = "at most half of the kernel 2"},
            {"f32[2,3,4,6]", "kernel=5,2 stride=2,2 pad=0,0",
             .error = "axis 2 with pad 0 on both sides is smaller"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=0,2 pad=0,0", .error = "stride[0]=0: it must be 1 to 65536"},
            {"f32[2,3,4,6]", "kernel=2,2 stride=2,2 pad=0", .error = "pad has 1 numbers"},
            {0}},
};

weft_value *weft_max_pool2d(weft_value *x, const weft_pool *pool) {
    pool_attrs a = pool_attrs_from(pool);
    return op_value(&weft_op_max_pool2d, 1, &x, &a);
}
