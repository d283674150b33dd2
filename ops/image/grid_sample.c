/* grid_sample.c - an image or volume at places that a grid names; torch.nn.functional.grid_sample.
 *     x [N, C, H, W], grid [N, h, w, 2]       ->   [N, C, h, w]
 *     x [N, C, D, H, W], grid [N, d, h, w, 3] ->   [N, C, d, h, w]
 * A place is (x, y) or (x, y, z), from -1 to 1 along an axis. The result is a sum of neighbours by the
 * product of their weights along the axes (grid_axis), or, with `order`, by derivatives of these. So the
 * gradient by the grid is made of this op with a higher order, and that by x is its transpose,
 * grid_sample_backward; both have gradients to any order. */
#include "ops/image/grid_sample.h"

static const op_attr attrs[] = {GRID_ATTRS, {0}};

static bool infer(op_call *c) {
    const tensor_type *grid = op_in(c, 1);
    if (!grid_fits(c, 0)) return false;
    for (int i = 2; i < c->out[0].ndim; i++) c->out[0].shape[i] = grid->shape[i - 1];
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    grid_attrs a = *(const grid_attrs *)n->attrs;
    const tensor_type *x = &n->in[0]->type;
    weft_value *in[] = {dout[0], n->in[1]};
    a.size.n = x->ndim - 2;
    for (int i = 0; i < a.size.n; i++) a.size.v[i] = x->shape[2 + i];
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_grid_sample_backward, 2, in, &a);
    if (wanted[1]) din[1] = grid_gradient(n, dout[0], n->in[0], n->in[1]);
}

/* The index of x in image n and channel c that taps i of the axes name; false outside. */
static bool source(const tensor_type *x, const grid_axis axis[3], const int i[3], int64_t *from,
                   double *weight) {
    *weight = 1;
    for (int k = 0; k < 3; k++) {
        int to = x->ndim - 3 + k;
        *weight *= axis[k].weight[i[k]];
        if (axis[k].at[i[k]] < 0) return false;
        if (to >= 2) from[to] = axis[k].at[i[k]];
    }
    return *weight != 0;
}

static double at_place(const tensor *x, const grid_axis axis[3], int64_t *from) {
    double sum = 0, weight;
    int i[3];
    for (i[0] = 0; i[0] < axis[0].n; i[0]++)
        for (i[1] = 0; i[1] < axis[1].n; i[1]++)
            for (i[2] = 0; i[2] < axis[2].n; i[2]++)
                if (source(&x->type, axis, i, from, &weight)) sum += weight * element_get(x, from);
    return sum;
}

/* The place in the grid of element `at` of the result, which has a channel in place of the numbers. */
static void place_of(const tensor_type *y, const int64_t *at, int64_t *place) {
    place[0] = at[0];
    for (int i = 2; i < y->ndim; i++) place[i - 1] = at[i];
}

static weft_status reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, place[WEFT_MAX_NDIM], from[WEFT_MAX_NDIM];
    do {
        grid_axis axis[3];
        place_of(&y->type, at, place);
        grid_place(c->attrs, &c->in[1], place, &x->type, axis);
        from[0] = at[0];
        from[1] = at[1];
        element_set(y, at, at_place(x, axis, from));
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_grid_sample = {
    .name = "grid_sample",
    .torch = "torch.nn.functional.grid_sample",
    .summary = "x[N,C,H,W] or x[N,C,D,H,W] at the places of a grid",
    .min_in = 2,
    OP_ATTRS(grid_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,5], f32[2,3,2,2]", .out = "f32[2,3,3,2]", .low = -1.3, .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "align_corners=1", .out = "f32[1,2,3,2]", .low = -1.3,
             .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "padding=border", .low = -1.7, .high = 1.7},
            {"f32[1,2,4,5], f32[1,3,2,2]", "padding=reflection", .low = -3, .high = 3},
            {"f32[1,2,4,1], f32[1,3,2,2]", "padding=reflection align_corners=1", .low = -3, .high = 3},
            {"f32[2,2,4,5], f32[2,3,2,2]", "mode=nearest", .low = -1.3, .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,3,2]", "mode=nearest padding=border", .low = -1.3, .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "mode=bicubic", .low = -1.3, .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "mode=bicubic padding=border align_corners=1", .low = -1.3,
             .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "mode=bicubic padding=reflection", .low = -2, .high = 2},
            {"f32[1,2,4,5], f32[1,3,2,2]", "order=1,0", .low = -1.3, .high = 1.3},
            {"f32[1,2,4,5], f32[1,3,2,2]", "mode=bicubic order=1,2", .low = -1.3, .high = 1.3,
             .no_gradient = true},
            {"f32[1,2,3,4,5], f32[1,2,3,1,3]", .out = "f32[1,2,2,3,1]", .low = -1.2, .high = 1.2},
            {"f32[1,2,3,4,5], f32[1,2,3,1,3]", "mode=nearest padding=reflection", .low = -2, .high = 2},
            {"f32[1,2,3,4,5], f32[1,2,3,1,3]", "mode=bicubic", .low = -1.2, .high = 1.2},
            {"f32[1,2,3,2,5], f32[1,2,3,1,3]", "padding=border align_corners=1 order=0,1,0", .low = -1.2,
             .high = 1.2},
            {"f32[2,33,6,5], f32[2,7,9,2]", .out = "f32[2,33,7,9]", .low = -1.2, .high = 1.2,
             .no_gradient = true},
            {"f32[2,3,4,5], f32[1,3,2,2]", .error = "they must be [N, C, H, W] and [N, h, w, 2]"},
            {"f32[2,3,4,5], f32[2,3,2,3]", .error = "they must be [N, C, H, W] and [N, h, w, 2]"},
            {"f32[2,3,4,5], f32[2,3,2,2]", "order=1", .error = "order has 1 numbers"},
            {"f32[2,3,4,5], f64[2,3,2,2]", .error = "cast one"},
            {"i32[2,3,4,5], i32[2,3,2,2]", .error = "must be floating point"},
            {0}},
};

weft_value *weft_grid_sample(weft_value *x, weft_value *grid, const weft_grid_options *options) {
    static const weft_grid_options none;
    const weft_grid_options *o = options ? options : &none;
    grid_attrs a = {
        .mode = (int64_t)o->mode, .padding = (int64_t)o->padding, .align_corners = o->align_corners};
    if (x && !value_reserved(x, "grid_sample", o->reserved, sizeof o->reserved)) return NULL;
    return op_value(&weft_op_grid_sample, 2, (weft_value *[]){x, grid}, &a);
}
