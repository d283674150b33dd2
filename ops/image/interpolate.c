/* interpolate.c - an image in another size; torch.nn.functional.interpolate, by the nearest element or
 * bilinear.
 *     x [N, C, H, W]   ->   [N, C, h, w]
 * Along each axis an element of y is a weighted mean of one or two neighbours of x (interpolate_tap). dx is
 * interpolate_backward, the transposed map. */
#include "ops/image/interpolate.h"
#include "ops/image/lines.h"

static const op_attr attrs[] = {INTERPOLATE_ATTRS, {0}};

static bool infer(op_call *c) {
    if (!op_want_float(c, 0)) return false;
    return interpolate_shape(c, op_in(c, 0), &c->out[0]);
}

/* Without scales the size of y is not an attribute of the backward op: dy has it. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const int64_t *shape = n->in[0]->type.shape;
    interpolate_attrs a = *(const interpolate_attrs *)n->attrs;
    a.size = (attr_ints){.n = 2, .v = {shape[2], shape[3]}};
    din[0] = node_value(n->graph, &weft_op_interpolate_backward, 1, &dout[0], &a);
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, first[2];
    do {
        double second[2], sum = 0;
        for (int i = 0; i < 2; i++) {
            interpolate_axis axis = interpolate_axis_of(c->attrs, i, &x->type, &y->type);
            first[i] = interpolate_tap(&axis, at[2 + i], &second[i]);
        }
        for (int corner = 0; corner < 4; corner++) {
            int down = corner / 2, right = corner % 2;
            double weight = (down ? second[0] : 1 - second[0]) * (right ? second[1] : 1 - second[1]);
            int64_t from[4] = {at[0], at[1], first[0] + down, first[1] + right};
            if (weight != 0) sum += weight * element_get(x, from);
        }
        element_set(y, at, sum);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_interpolate = {
    .name = "interpolate",
    .torch = "torch.nn.functional.interpolate",
    .summary = "x[N,C,H,W] in another size, by the nearest element or bilinear",
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
            {"f32[2,3,4,5]", "size=8,10 mode=nearest", .out = "f32[2,3,8,10]"},
            {"f32[2,3,4,5]", "size=7,3 mode=nearest", .out = "f32[2,3,7,3]"},
            {"f32[1,2,4,5]", "scale_h=2.5 scale_w=0.6 mode=nearest", .out = "f32[1,2,10,3]"},
            {"f32[1,2,4,5]", "size=7,3 mode=nearest_exact", .out = "f32[1,2,7,3]"},
            {"f32[2,3,4,5]", "size=8,10 mode=bilinear", .out = "f32[2,3,8,10]"},
            {"f32[2,3,7,5]", "size=3,11 mode=bilinear", .out = "f32[2,3,3,11]"},
            {"f32[2,3,4,5]", "size=7,3 mode=bilinear align_corners=1", .out = "f32[2,3,7,3]"},
            {"f32[1,2,4,5]", "size=1,9 mode=bilinear align_corners=1", .out = "f32[1,2,1,9]"},
            {"f32[1,2,1,5]", "size=3,1 mode=bilinear", .out = "f32[1,2,3,1]"},
            {"f32[1,2,4,5]", "scale_h=1.7 scale_w=0.7 mode=bilinear", .out = "f32[1,2,6,3]"},
            {"f32[2,33,5,6]", "size=9,7 mode=bilinear", .out = "f32[2,33,9,7]", .no_gradient = true},
            {"f32[1,260,3,3]", "size=6,6 mode=nearest", .out = "f32[1,260,6,6]", .no_gradient = true},
            {"f32[2,3,4,5]", "size=0,5", .error = "size[0]=0: it must be 1 to"},
            {"f32[2,3,4,5]", "size=5", .error = "size has 1 numbers"},
            {"f32[2,3,4,5]", NULL, .error = "a size or scales: exactly one of them"},
            {"f32[2,3,4,5]", "size=8,8 scale_h=2 scale_w=2",
             .error = "a size or scales: exactly one of them"},
            {"f32[2,3,4,5]", "scale_h=2", .error = "scale_h=2 scale_w=0: both must be above 0"},
            {"f32[2,3,4,5]", "scale_h=0.1 scale_w=1", .error = "axis 2 would be 0 long"},
            {"f32[2,3,4,5]", "size=8,8 align_corners=1",
             .error = "align_corners is for bilinear, not for nearest"},
            {"f32[3,4,5]", "size=8,8", .error = "x is f32[3,4,5]: it must be [N, C, H, W]"},
            {"u8[2,3,4,5]", "size=8,8", .error = "must be floating point"},
            {0}},
};

/* A line is an image of one row, which stays one. */
static weft_value *interpolate_line(weft_value *x, const weft_interpolation *o) {
    weft_interpolation both = *o;
    both.size[1] = o->size[0];
    both.size[0] = o->size[0] ? 1 : 0;
    both.scale[1] = o->scale[0];
    both.scale[0] = o->scale[0] != 0 ? 1 : 0;
    x = line_as_image(x);
    return x ? image_as_line(weft_interpolate(x, &both)) : NULL;
}

weft_value *weft_interpolate(weft_value *x, const weft_interpolation *options) {
    static const weft_interpolation none;
    const weft_interpolation *o = options ? options : &none;
    interpolate_attrs a = {.scale_h = o->scale[0],
                           .scale_w = o->scale[1],
                           .mode = (int64_t)o->mode,
                           .align_corners = o->align_corners};
    if (x && !value_reserved(x, "interpolate", o->reserved, sizeof o->reserved)) return NULL;
    if (x && x->type.ndim == 3) return interpolate_line(x, o);
    if (o->size[0] || o->size[1]) a.size = (attr_ints){.n = 2, .v = {o->size[0], o->size[1]}};
    return op_value(&weft_op_interpolate, 1, &x, &a);
}
