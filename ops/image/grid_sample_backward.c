/* grid_sample_backward.c - the gradient of grid_sample by x: each element of dy, by the weights of its place,
 * is added to the elements of x that the place reads.
 *     dy [N, C, h, w], grid [N, h, w, 2]   ->   dx [N, C, size]
 * Linear in dy; its gradients are made of grid_sample. */
#include "ops/image/grid_sample.h"

static const op_attr attrs[] = {
    GRID_ATTRS, {"size", ATTR_INTS, offsetof(grid_attrs, size), 1, INT32_MAX}, {0}};

static bool infer(op_call *c) {
    const grid_attrs *a = c->attrs;
    const tensor_type *dy = op_in(c, 0), *grid = op_in(c, 1);
    if (!grid_fits(c, 0)) return false;
    for (int i = 2; i < dy->ndim; i++)
        if (dy->shape[i] != grid->shape[i - 1])
            return op_fail(c, WEFT_SHAPE, "dy %s and grid %s: they must have the same places", TYPE(dy),
                           TYPE(grid));
    if (a->size.n != dy->ndim - 2)
        return op_fail(c, WEFT_ARGUMENT, "size has %d numbers: it must have %d", a->size.n, dy->ndim - 2);
    for (int i = 0; i < a->size.n; i++) c->out[0].shape[2 + i] = a->size.v[i];
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    grid_attrs a = *(const grid_attrs *)n->attrs;
    weft_value *in[] = {dout[0], n->in[1]};
    a.size.n = 0;
    if (wanted[0]) din[0] = node_value(n->graph, &weft_op_grid_sample, 2, in, &a);
    if (wanted[1]) din[1] = grid_gradient(n, n->in[0], dout[0], n->in[1]);
}

/* Adds v by its weight where taps i of the axes are. */
static void add_to(const tensor *dx, const grid_axis axis[3], const int i[3], int64_t *to, double v) {
    for (int k = 0; k < 3; k++) {
        int own = dx->type.ndim - 3 + k;
        v *= axis[k].weight[i[k]];
        if (axis[k].at[i[k]] < 0) return;
        if (own >= 2) to[own] = axis[k].at[i[k]];
    }
    if (v != 0) element_set(dx, to, element_get(dx, to) + v);
}

static void spread(const tensor *dx, const grid_axis axis[3], int64_t *to, double v) {
    int i[3];
    for (i[0] = 0; i[0] < axis[0].n; i[0]++)
        for (i[1] = 0; i[1] < axis[1].n; i[1]++)
            for (i[2] = 0; i[2] < axis[2].n; i[2]++) add_to(dx, axis, i, to, v);
}

static weft_status reference(const kernel_call *c) {
    const tensor *dy = &c->in[0], *dx = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, place[WEFT_MAX_NDIM], to[WEFT_MAX_NDIM];
    do element_set(dx, at, 0);
    while (index_next(&dx->type, at));
    do {
        grid_axis axis[3];
        place[0] = to[0] = at[0];
        to[1] = at[1];
        for (int i = 2; i < dy->type.ndim; i++) place[i - 1] = at[i];
        grid_place(c->attrs, &c->in[1], place, &dx->type, axis);
        spread(dx, axis, to, element_get(dy, at));
    } while (index_next(&dy->type, at));
    return WEFT_OK;
}

const weft_op weft_op_grid_sample_backward = {
    .name = "grid_sample_backward",
    .summary = "gradient of grid_sample by x",
    .min_in = 2,
    OP_ATTRS(grid_attrs, attrs),
    .image_in = 1,
    .image_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,3,2], f32[2,3,2,2]", "size=4,5", .out = "f32[2,3,4,5]", .low = -1.3, .high = 1.3},
            {"f32[1,2,3,2], f32[1,3,2,2]", "padding=reflection order=1,0 size=4,5", .low = -2, .high = 2},
            {"f32[1,2,3,2], f32[1,3,2,2]", "mode=bicubic padding=border align_corners=1 size=5,3",
             .low = -1.3, .high = 1.3},
            {"f32[2,2,3,3], f32[2,3,3,2]", "mode=nearest size=2,2", .low = -1.3, .high = 1.3},
            {"f32[1,2,2,3,1], f32[1,2,3,1,3]", "size=3,4,5", .out = "f32[1,2,3,4,5]", .low = -1.2,
             .high = 1.2},
            {"f32[2,37,7,9], f32[2,7,9,2]", "size=6,5", .low = -1.2, .high = 1.2, .no_gradient = true},
            {"f32[2,3,3,3], f32[2,3,2,2]", "size=4,5", .error = "they must have the same places"},
            {"f32[2,3,3,2], f32[2,3,2,2]", "size=4", .error = "size has 1 numbers"},
            {0}},
};
