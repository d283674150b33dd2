/* deform.c - DeformConv: a convolution whose kernel reads each element at another place, between elements. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/operators/window.h"

/* A node over x[N, C, H, W], w[M, C / group, kh, kw], offsets[N, groups * kh * kw * 2, h, w]. */
typedef struct deform {
    weft_value *x, *offsets, *mask; /* mask: NULL or [N, groups * kh * kw, h, w] */
    onnx_window at;
    int64_t groups; /* of offsets: each for as many channels */
} deform;

/* Where element k of the kernel begins along axis i of x, for each place of the result, as a column or
 * row. */
static weft_value *begins(onnx_call *c, const deform *d, int i, int64_t k) {
    int64_t n = weft_dim(d->offsets, 2 + i), element = i ? k % d->at.kernel[1] : k / d->at.kernel[1];
    weft_value *place = weft_arange(onnx_graph_of(c), weft_value_dtype(d->x), 0, (double)n, 1);
    double begin = (double)(element * d->at.dilation[i] - d->at.before[i]);
    place = weft_offset(weft_scale(place, (double)d->at.stride[i]), begin);
    return i ? place : weft_unsqueeze(place, 1);
}

/* Places along axis i of x for element k, by the offsets of group g, from -1 to 1: [N, h, w]. */
static weft_value *places_of(onnx_call *c, const deform *d, int64_t g, int64_t k, int i) {
    int64_t kernel = d->at.kernel[0] * d->at.kernel[1], channel = 2 * (g * kernel + k) + i;
    weft_value *offset = weft_squeeze(weft_slice(d->offsets, 1, channel, channel + 1), 1);
    weft_value *place = weft_add(offset, begins(c, d, i, k));
    double length = (double)weft_dim(d->x, 2 + i);
    return weft_offset(weft_scale(place, 2 / length), 1 / length - 1);
}

/* What element k of the kernel reads of the channels of group g: [N, C / groups, h, w]. */
static weft_value *read(onnx_call *c, const deform *d, int64_t g, int64_t k) {
    static const weft_grid_options zeros = {0};
    int64_t channels = weft_dim(d->x, 1) / d->groups, at = g * d->at.kernel[0] * d->at.kernel[1] + k;
    weft_value *x = d->groups == 1 ? d->x : weft_slice(d->x, 1, g * channels, (g + 1) * channels);
    weft_value *across = places_of(c, d, g, k, 1), *down = places_of(c, d, g, k, 0);
    weft_value *grid = weft_stack(2, (weft_value *[]){across, down}, -1);
    weft_value *y = weft_grid_sample(x, grid, &zeros);
    return d->mask ? weft_mul(y, weft_slice(d->mask, 1, at, at + 1)) : y;
}

/* All that the kernel reads, [N, C * kh * kw, h, w]: elements of a channel follow each other. */
static weft_value *columns(onnx_call *c, const deform *d) {
    enum { MOST = 256 };
    weft_value *elements[MOST], *parts[MOST];
    int64_t kernel = d->at.kernel[0] * d->at.kernel[1], own[WEFT_MAX_NDIM];
    if (kernel > MOST || d->groups > MOST || kernel * d->groups > MOST)
        return onnx_refuse(c, "kernels of more than %d elements", MOST);
    for (int64_t k = 0; k < kernel; k++) {
        for (int64_t g = 0; g < d->groups; g++) parts[g] = read(c, d, g, k);
        elements[k] = d->groups == 1 ? parts[0] : weft_concat((int)d->groups, parts, 1);
    }
    onnx_shape_of(c, 0, own);
    int64_t shape[] = {own[0], own[1] * kernel, weft_dim(d->offsets, 2), weft_dim(d->offsets, 3)};
    return onnx_reshape(c, weft_stack((int)kernel, elements, 2), 4, shape);
}

/* Operands: x, w, offsets, bias, mask. */
weft_value *onnx_build_deform_conv(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 3), *offsets = onnx_in(c, 2),
               *mask = onnx_in(c, 4);
    deform d = {.x = x, .offsets = offsets, .mask = mask, .groups = onnx_int(c, "offset_group", 1)};
    weft_window window = {.groups = onnx_int(c, "group", 1)};
    if (!x || !w || !d.offsets) return NULL;
    if (weft_ndim(x) != 4 || weft_ndim(w) != 4 || weft_ndim(d.offsets) != 4)
        return onnx_refuse(c, "x, the weight or the offsets have not 4 axes");
    int64_t kernel[ONNX_SPACE] = {weft_dim(w, 2), weft_dim(w, 3), 1},
            all = weft_dim(w, 1) * kernel[0] * kernel[1];
    if (!onnx_window_of(c, x, kernel, &d.at)) return NULL;
    if (d.groups < 1 || weft_dim(x, 1) % d.groups) return onnx_refuse(c, "offset_group is %jd", d.groups);
    if (weft_dim(d.offsets, 1) != 2 * d.groups * kernel[0] * kernel[1])
        return onnx_refuse(c, "the offsets have %jd channels", weft_dim(d.offsets, 1));
    x = columns(c, &d);
    w = weft_reshape(w, 4, (int64_t[]){weft_dim(w, 0), all, 1, 1});
    return weft_conv2d_op(x, w, b, &window);
}
