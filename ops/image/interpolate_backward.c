/* interpolate_backward.c - the gradient of interpolate: what each element of dy read of x gets that element
 * with the same weight.
 *     dy [N, C, h, w]   ->   dx [N, C, size]
 * Linear in dy; its own gradient is interpolate. */
#include "ops/image/interpolate.h"

static const op_attr attrs[] = {INTERPOLATE_ATTRS, {0}};

/* The attributes of the interpolation whose gradient this is. */
static interpolate_attrs forward_attrs(const interpolate_attrs *a, const tensor_type *dy) {
    interpolate_attrs forward = *a;
    forward.size = (attr_ints){.n = 2, .v = {dy->shape[2], dy->shape[3]}};
    if (a->scale_h != 0 || a->scale_w != 0) forward.size = (attr_ints){0};
    return forward;
}

static bool infer(op_call *c) {
    const interpolate_attrs *a = c->attrs;
    const tensor_type *dy = op_in(c, 0);
    if (!op_want_float(c, 0)) return false;
    if (dy->ndim != 4) return op_fail(c, WEFT_SHAPE, "dy is %s: it must be [N, C, H, W]", TYPE(dy));
    if (a->size.n != 2)
        return op_fail(c, WEFT_ARGUMENT, "size has %d numbers: it must have 2, height and width", a->size.n);
    c->out[0] = type_of(dy->dtype, 4, (int64_t[]){dy->shape[0], dy->shape[1], a->size.v[0], a->size.v[1]});
    interpolate_attrs forward = forward_attrs(a, dy);
    op_call call = *c;
    tensor_type want;
    call.attrs = &forward;
    if (!interpolate_shape(&call, &c->out[0], &want)) return false;
    return type_equal(dy, &want) || op_fail(c, WEFT_SHAPE, "dy %s: it must be %s", TYPE(dy), TYPE(&want));
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    interpolate_attrs a = forward_attrs(n->attrs, &n->in[0]->type);
    din[0] = node_value(n->graph, &weft_op_interpolate, 1, &dout[0], &a);
}

/* The weight of element k of x in element i of y. */
static double weight(const interpolate_axis *a, int64_t i, int64_t k) {
    interpolate_span s = interpolate_span_of(a, i);
    return k >= s.begin && k < s.end ? interpolate_weight(a, &s, k) : 0;
}

static weft_status reference(const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    interpolate_axis rows = interpolate_axis_of(c->attrs, 0, &dx->type, &dy->type);
    interpolate_axis columns = interpolate_axis_of(c->attrs, 1, &dx->type, &dy->type);
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        double sum = 0;
        for (int64_t i = 0; i < rows.out; i++) {
            double down = weight(&rows, i, at[2]);
            for (int64_t j = 0; down != 0 && j < columns.out; j++) {
                double across = weight(&columns, j, at[3]);
                if (across != 0) sum += down * across * element_get(dy, (int64_t[]){at[0], at[1], i, j});
            }
        }
        element_set(dx, at, sum);
    } while (index_next(&dx->type, at));
    return WEFT_OK;
}

const weft_op weft_op_interpolate_backward = {
    .name = "interpolate_backward",
    .summary = "gradient of interpolate",
    .min_in = 1,
    OP_ATTRS(interpolate_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,8,10]", "size=4,5 mode=nearest", .out = "f32[2,3,4,5]"},
            {"f32[2,3,3,2]", "size=7,5 mode=nearest", .out = "f32[2,3,7,5]"},
            {"f32[1,2,7,3]", "size=4,5 mode=nearest_exact", .out = "f32[1,2,4,5]"},
            {"f32[2,3,8,10]", "size=4,5 mode=bilinear", .out = "f32[2,3,4,5]"},
            {"f32[2,3,3,11]", "size=7,5 mode=bilinear", .out = "f32[2,3,7,5]"},
            {"f32[2,3,7,3]", "size=4,5 mode=bilinear align_corners=1", .out = "f32[2,3,4,5]"},
            {"f32[1,2,6,3]", "size=4,5 scale_h=1.7 scale_w=0.7 mode=bilinear", .out = "f32[1,2,4,5]"},
            {"f32[2,3,8,10]", "size=4,5 mode=bicubic", .out = "f32[2,3,4,5]"},
            {"f32[1,2,3,4]", "size=7,1 mode=bicubic", .out = "f32[1,2,7,1]"},
            {"f32[2,3,7,3]", "size=4,5 mode=bicubic align_corners=1", .out = "f32[2,3,4,5]"},
            {"f32[1,2,4,3]", "size=9,11 mode=bilinear antialias=1", .out = "f32[1,2,9,11]"},
            {"f32[1,2,7,11]", "size=4,5 mode=bilinear antialias=1", .out = "f32[1,2,4,5]"},
            {"f32[1,2,3,7]", "size=13,5 mode=bicubic antialias=1", .out = "f32[1,2,13,5]"},
            {"f32[1,260,3,9]", "size=5,6 mode=bicubic", .out = "f32[1,260,5,6]", .no_gradient = true},
            {"f32[2,33,9,7]", "size=5,6 mode=bilinear", .out = "f32[2,33,5,6]", .no_gradient = true},
            {"f32[1,260,6,6]", "size=3,3 mode=nearest", .out = "f32[1,260,3,3]", .no_gradient = true},
            {"f32[1,2,6,4]", "size=4,5 scale_h=1.7 scale_w=0.7",
             .error = "dy f32[1,2,6,4]: it must be f32[1,2,6,3]"},
            {"f32[1,2,6,4]", "size=4", .error = "size has 1 numbers"},
            {"f32[2,6,4]", "size=4,5", .error = "dy is f32[2,6,4]: it must be [N, C, H, W]"},
            {0}},
};
