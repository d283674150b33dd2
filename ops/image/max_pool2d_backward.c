/* max_pool2d_backward.c - the gradient of max_pool2d: each element of dy is added where its maximum was.
 *     dy [N, C, h, w]   index i32[N, C, h, w]   ->   dx [N, C, size]
 * Linear in dy; its own gradient is max_pool2d_gather. */
#include "ops/image/pool.h"

#include <string.h>

static const op_attr attrs[] = {POOL_ATTR_SIZE, {0}};

static bool infer(op_call *c) {
    if (!pool_infer_size(c)) return false;
    const tensor_type *dy = op_in(c, 0), *index = op_in(c, 1);
    if (index->dtype != WEFT_I32 || !shape_equal(dy, index))
        return op_fail(c, WEFT_SHAPE, "dy %s and index %s: the index must be i32 of the same shape", TYPE(dy),
                       TYPE(index));
    return true;
}

/* The sum of the elements of dy with index `place` in the plane of `at`, in double, because a sum in dx of a
 * reduced type would be rounded after each addition. */
static double gathered(const kernel_call *c, const int64_t *at, int64_t place) {
    const tensor *dy = &c->in[0];
    int64_t width = dy->type.shape[3], plane = dy->type.shape[2] * width;
    double sum = 0;
    for (int64_t i = 0; i < plane; i++) {
        int64_t from[4] = {at[0], at[1], i / width, i % width};
        if (element_int(&c->in[1], from) == place) sum += element_get(dy, from);
    }
    return sum;
}

/* Indices are data: one outside of the plane fails the run. */
static weft_status reference(const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, width = dx->type.shape[3], plane = dx->type.shape[2] * width;
    bool is_reduced = dtype_is_reduced(dx->type.dtype);
    do element_set(dx, at, 0);
    while (index_next(&dx->type, at));
    memset(at, 0, sizeof at);
    do {
        int64_t place = element_int(&c->in[1], at);
        if (place < 0 || place >= plane)
            return kernel_fail(c, "max_pool2d_backward: index %lld, but the plane has %lld elements",
                               (long long)place, (long long)plane);
        int64_t to[4] = {at[0], at[1], place / width, place % width};
        element_set(dx, to, is_reduced ? gathered(c, at, place) : element_get(dx, to) + element_get(dy, at));
    } while (index_next(&dy->type, at));
    return WEFT_OK;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    if (!wanted[0]) return;
    din[0] = node_value(n->graph, &weft_op_max_pool2d_gather, 2, (weft_value *[]){dout[0], n->in[1]}, NULL);
}

const weft_op weft_op_max_pool2d_backward = {
    .name = "max_pool2d_backward",
    .summary = "gradient of max_pool2d",
    .min_in = 2,
    OP_ATTRS(pool_attrs, attrs),
    .image_in = 3,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,3,2], i32[2,3,3,2]", "size=5,4", .out = "f32[2,3,5,4]", .below = 20},
            {"f32[2,33,4,4], i32[2,33,4,4]", "size=8,8", .out = "f32[2,33,8,8]", .below = 64,
             .no_gradient = true},
            {"f32[2,3,3,2], i64[2,3,3,2]", "size=5,4", .error = "the index must be i32 of the same shape"},
            {"f32[2,3,3,2], i32[2,3,3,3]", "size=5,4", .error = "the index must be i32 of the same shape"},
            {0}},
};
