/* interpolate.c - an image in another size; torch.nn.functional.interpolate, by the nearest element, bilinear
 * or bicubic.
 *     x [N, C, H, W]   ->   [N, C, h, w]
 * Along each axis an element of y is a weighted mean of neighbours of x (interpolate_span). dx is
 * interpolate_backward, the transposed map. A volume is resized in its planes, then along its depth. */
#include "ops/image/interpolate.h"
#include "ops/image/lines.h"
#include "ops/image/volumes.h"

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
    interpolate_axis axis[2];
    for (int i = 0; i < 2; i++) axis[i] = interpolate_axis_of(c->attrs, i, &x->type, &y->type);
    int64_t at[WEFT_MAX_NDIM] = {0};
    do {
        interpolate_span rows = interpolate_span_of(&axis[0], at[2]),
                         columns = interpolate_span_of(&axis[1], at[3]);
        double sum = 0;
        for (int64_t i = rows.begin; i < rows.end; i++)
            for (int64_t k = columns.begin; k < columns.end; k++) {
                double weight =
                    interpolate_weight(&axis[0], &rows, i) * interpolate_weight(&axis[1], &columns, k);
                if (weight != 0) sum += weight * element_get(x, (int64_t[]){at[0], at[1], i, k});
            }
        element_set(y, at, sum);
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_interpolate = {
    .name = "interpolate",
    .torch = "torch.nn.functional.interpolate",
    .summary = "x[N,C,H,W] in another size, by the nearest element, bilinear or bicubic",
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
            {"f32[2,3,4,5]", "size=8,10 mode=bicubic", .out = "f32[2,3,8,10]"},
            {"f32[1,2,7,1]", "size=3,4 mode=bicubic", .out = "f32[1,2,3,4]"},
            {"f32[2,3,4,5]", "size=7,3 mode=bicubic align_corners=1", .out = "f32[2,3,7,3]"},
            {"f32[1,2,4,5]", "scale_h=1.7 scale_w=0.7 mode=bicubic", .out = "f32[1,2,6,3]"},
            {"f32[1,2,9,11]", "size=4,3 mode=bilinear antialias=1", .out = "f32[1,2,4,3]"},
            {"f32[1,2,4,5]", "size=7,11 mode=bilinear antialias=1", .out = "f32[1,2,7,11]"},
            {"f32[1,2,13,5]", "size=3,7 mode=bicubic antialias=1", .out = "f32[1,2,3,7]"},
            {"f32[1,2,9,7]", "size=4,3 mode=bicubic antialias=1 align_corners=1", .out = "f32[1,2,4,3]"},
            {"f32[1,2,9,7]", "scale_h=0.3 scale_w=0.55 mode=bilinear antialias=1", .out = "f32[1,2,2,3]"},
            {"f32[1,260,5,6]", "size=3,9 mode=bicubic", .out = "f32[1,260,3,9]", .no_gradient = true},
            {"f32[2,3,4,5]", "size=0,5", .error = "size[0]=0: it must be 1 to"},
            {"f32[2,3,4,5]", "size=5", .error = "size has 1 numbers"},
            {"f32[2,3,4,5]", NULL, .error = "a size or scales: exactly one of them"},
            {"f32[2,3,4,5]", "size=8,8 scale_h=2 scale_w=2",
             .error = "a size or scales: exactly one of them"},
            {"f32[2,3,4,5]", "scale_h=2", .error = "scale_h=2 scale_w=0: both must be above 0"},
            {"f32[2,3,4,5]", "scale_h=0.1 scale_w=1", .error = "axis 2 would be 0 long"},
            {"f32[2,3,4,5]", "size=8,8 align_corners=1",
             .error = "align_corners is for bilinear and bicubic, not for nearest"},
            {"f32[2,3,4,5]", "size=8,8 mode=nearest_exact antialias=1",
             .error = "antialias is for bilinear and bicubic, not for nearest_exact"},
            {"f32[3,4,5]", "size=8,8", .error = "x is f32[3,4,5]: it must be [N, C, H, W]"},
            {"u8[2,3,4,5]", "size=8,8", .error = "must be floating point"},
            {0}},
};

/* ---- the builder ---- */

/* Lines and volumes are images with some of their axes, and take what separates along them. */
static bool separates(const weft_value *x, const weft_interpolation *o) {
    const char *of = x->type.ndim == 3 ? "line" : "volume";
    if (o->mode == WEFT_INTERPOLATE_BICUBIC)
        return value_fail(x, WEFT_ARGUMENT, "interpolate: a %s has no bicubic: it is for images", of);
    return !o->antialias ||
           value_fail(x, WEFT_ARGUMENT, "interpolate: antialias is for images, not for a %s", of);
}

/* The setting of axes `first` and, unless it is negative, `second` of x, which has so many that may change;
 * the other axis of the image stays as it is. */
static weft_interpolation part_of(const weft_interpolation *o, int first, int second, int64_t stays) {
    weft_interpolation part = {.mode = o->mode, .align_corners = o->align_corners};
    bool by_size = o->size[0] || o->size[1] || o->size[2];
    bool by_scale = o->scale[0] != 0 || o->scale[1] != 0 || o->scale[2] != 0;
    part.size[0] = first < 0 ? (by_size ? stays : 0) : o->size[first];
    part.size[1] = second < 0 ? (by_size ? stays : 0) : o->size[second];
    part.scale[0] = first < 0 ? by_scale : o->scale[first];
    part.scale[1] = second < 0 ? by_scale : o->scale[second];
    return part;
}

static weft_value *interpolate_line(weft_value *x, const weft_interpolation *o) {
    weft_interpolation part = part_of(o, -1, 0, 1);
    if (o->size[1] || o->size[2] || o->scale[1] != 0 || o->scale[2] != 0)
        return value_fail(x, WEFT_ARGUMENT,
                          "interpolate: a line has one axis: leave all numbers but the first 0");
    x = line_as_image(x);
    return x ? image_as_line(weft_interpolate(x, &part)) : NULL;
}

static weft_value *interpolate_volume(weft_value *x, const weft_interpolation *o) {
    lengths shape;
    weft_interpolation plane = part_of(o, 1, 2, 0);
    x = volume_planes(x, &shape);
    x = volume_depths(x ? weft_interpolate(x, &plane) : NULL, &shape);
    if (!x) return NULL;
    weft_interpolation depth = part_of(o, 0, -1, x->type.shape[3]);
    return volume_again(weft_interpolate(x, &depth), &shape);
}

weft_value *weft_interpolate(weft_value *x, const weft_interpolation *options) {
    static const weft_interpolation none;
    const weft_interpolation *o = options ? options : &none;
    interpolate_attrs a = {.scale_h = o->scale[0],
                           .scale_w = o->scale[1],
                           .mode = (int64_t)o->mode,
                           .align_corners = o->align_corners,
                           .antialias = o->antialias};
    if (x && !value_reserved(x, "interpolate", o->reserved, sizeof o->reserved)) return NULL;
    if (x && (x->type.ndim == 3 || x->type.ndim == 5)) {
        if (!separates(x, o)) return NULL;
        return x->type.ndim == 3 ? interpolate_line(x, o) : interpolate_volume(x, o);
    }
    if (x && (o->size[2] || o->scale[2] != 0))
        return value_fail(x, WEFT_ARGUMENT, "interpolate: an image has two axes: leave the third number 0");
    if (o->size[0] || o->size[1]) a.size = (attr_ints){.n = 2, .v = {o->size[0], o->size[1]}};
    return op_value(&weft_op_interpolate, 1, &x, &a);
}
