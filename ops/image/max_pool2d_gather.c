/* max_pool2d_gather.c - the gradient of max_pool2d_backward: the elements of x at the places of the maxima.
 *     x [N, C, H, W]   index i32[N, C, h, w]   ->   y [N, C, h, w]
 * Each is the other's transpose, so max_pool2d can be differentiated to any order. */
#include "ops/image/pool.h"

static bool infer(op_call *c) {
    if (!pool_check_image(c)) return false;
    const tensor_type *x = op_in(c, 0), *index = op_in(c, 1);
    if (index->dtype != WEFT_I32 || index->ndim != 4 || index->shape[0] != x->shape[0] ||
        index->shape[1] != x->shape[1])
        return op_fail(c, WEFT_SHAPE, "x %s and index %s: the index must be i32[%lld,%lld,h,w]", TYPE(x),
                       TYPE(index), (long long)x->shape[0], (long long)x->shape[1]);
    c->out[0] = *index;
    c->out[0].dtype = x->dtype;
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const int64_t *shape = n->in[0]->type.shape;
    pool_attrs a = {.size = {.n = 2, .v = {shape[2], shape[3]}}};
    if (!wanted[0]) return;
    din[0] = node_value(n->graph, &weft_op_max_pool2d_backward, 2, (weft_value *[]){dout[0], n->in[1]}, &a);
}

/* Indices are data: one outside of the plane fails the run. */
static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, width = x->type.shape[3], plane = x->type.shape[2] * width;
    do {
        int64_t place = element_int(&c->in[1], at);
        if (place < 0 || place >= plane)
            return kernel_fail(c, "max_pool2d_gather: index %lld, but the plane has %lld elements",
                               (long long)place, (long long)plane);
        element_copy(y, at, x, (int64_t[]){at[0], at[1], place / width, place % width});
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_max_pool2d_gather = {
    .name = "max_pool2d_gather",
    .summary = "elements where max_pool2d found its maxima; gradient of max_pool2d_backward",
    .min_in = 2,
    .image_in = 3,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[2,3,5,4], i32[2,3,3,2]", .out = "f32[2,3,3,2]", .below = 20},
                                   {"f32[2,33,8,8], i32[2,33,4,4]", .out = "f32[2,33,4,4]", .below = 64,
                                    .no_gradient = true},
                                   {"f32[2,3,5,4], i64[2,3,3,2]", .error = "the index must be i32[2,3,h,w]"},
                                   {"f32[2,3,5,4], i32[2,4,3,2]", .error = "the index must be i32[2,3,h,w]"},
                                   {"f32[3,5,4], i32[3,3,2]", .error = "must be [N, C, H, W]"},
                                   {0}},
};
