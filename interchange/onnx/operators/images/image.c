/* image.c - images at places that are computed: GridSample, AffineGrid, RoiAlign. */
#include "interchange/onnx/operators/families.h"

/* A bicubic sample beyond the border is one at the border's middle here. (In PyTorch, and so in Weft,
 * only the elements that it reads are those at the border.) */
static weft_value *at_border(onnx_call *c, weft_value *grid, bool align_corners) {
    int64_t own[WEFT_MAX_NDIM], shape[1] = {2};
    float limits[2];
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < 2; i++) {
        if (own[3 - i] < 1) return onnx_refuse(c, "the length of axis %d depends on the batch", 3 - i);
        limits[i] = align_corners ? 1 : (float)(1 - 1 / (double)own[3 - i]);
    }
    weft_value *last =
        weft_cast(weft_constant_tensor(onnx_graph_of(c), WEFT_F32, 1, shape, limits), weft_value_dtype(grid));
    grid = weft_where(weft_greater(grid, onnx_constant(c, grid, 1)), last, grid);
    weft_value *is_before = weft_less(grid, onnx_constant(c, grid, -1)), *first = weft_neg(last);
    return weft_where(is_before, first, grid);
}

weft_value *onnx_build_grid_sample(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *grid = onnx_in(c, 1);
    const char *mode = onnx_word(c, "mode", "linear"), *padding = onnx_word(c, "padding_mode", "zeros");
    weft_grid_options o = {.align_corners = onnx_int(c, "align_corners", 0)};
    if (!strcmp(mode, "nearest"))
        o.mode = WEFT_GRID_NEAREST;
    else if (!strcmp(mode, "cubic") || !strcmp(mode, "bicubic"))
        o.mode = WEFT_GRID_BICUBIC;
    else if (strcmp(mode, "linear") && strcmp(mode, "bilinear"))
        return onnx_refuse(c, "mode is '%.40s'", mode);
    if (!strcmp(padding, "border"))
        o.padding = WEFT_GRID_BORDER;
    else if (!strcmp(padding, "reflection"))
        o.padding = WEFT_GRID_REFLECTION;
    else if (strcmp(padding, "zeros"))
        return onnx_refuse(c, "padding_mode is '%.40s'", padding);
    if (!x || !grid) return NULL;
    bool is_cubic = o.mode == WEFT_GRID_BICUBIC && weft_ndim(x) == 4;
    if (is_cubic && o.padding == WEFT_GRID_BORDER) grid = at_border(c, grid, o.align_corners);
    return weft_grid_sample(x, grid, &o);
}

/* size is that of the images, [N, C, H, W] or [N, C, D, H, W]. */
weft_value *onnx_build_affine_grid(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    int n;
    weft_value *theta = onnx_in(c, 0);
    const int64_t *size = onnx_lengths(c, 1, &n);
    bool align_corners = onnx_int(c, "align_corners", 0);
    if (!theta || !size) return NULL;
    onnx_shape_of(c, 0, own);
    if ((n != 4 && n != 5) || weft_ndim(theta) != 3 || own[1] != n - 2 || own[0] != size[0])
        return onnx_refuse(c, "a size of %d numbers, which theta does not fit", n);
    for (int i = 2; i < n; i++)
        if (size[i] < 1)
            return onnx_refuse(c, "number %d of the size depends on the batch, or is below 1", i);
    return weft_affine_grid(theta, size + 2, align_corners);
}

/* ---- RoiAlign ---- */

typedef struct roi {
    weft_value *begin, *length;      /* [R, 1] of an axis of the image */
    int64_t bins, samples, elements; /* of the result, in a bin, of the image */
} roi;

/* Where the samples are, [R, bins * samples], and which of them are at most an element outside of
 * the image. Those outside take the border. */
static weft_value *samples_of(onnx_call *c, const roi *a, weft_value **is_in) {
    double last = (double)a->elements - 1, n = (double)(a->bins * a->samples);
    weft_value *part = weft_arange(onnx_graph_of(c), weft_value_dtype(a->begin), 0, n, 1);
    weft_value *at = weft_add(a->begin, weft_mul(a->length, weft_scale(weft_offset(part, 0.5), 1 / n)));
    weft_value *above = weft_greater_equal(at, onnx_constant(c, at, -1));
    *is_in = weft_logical_and(above, weft_less_equal(at, onnx_constant(c, at, last + 1)));
    return weft_clamp(at, 0, last);
}

/* What each element of an axis counts in each bin: [R, bins, elements]. A sample takes part of the two
 * elements around it; the samples of a bin share its weight. */
static weft_value *bin_weights(onnx_call *c, const roi *a) {
    weft_value *is_in, *at = weft_unsqueeze(samples_of(c, a, &is_in), -1);
    weft_value *elements =
        weft_arange(onnx_graph_of(c), weft_value_dtype(a->begin), 0, (double)a->elements, 1);
    weft_value *w = weft_relu(weft_offset(weft_neg(weft_abs(weft_sub(at, elements))), 1));
    weft_value *counts = weft_unsqueeze(is_in, -1), *zero = onnx_constant(c, w, 0);
    w = weft_where(counts, w, zero);
    w = weft_reshape(w, 4, (int64_t[]){-1, a->bins, a->samples, a->elements});
    return weft_mean(w, 1, (int64_t[]){2}, false);
}

/* Means over samples are sums along both axes: each image is multiplied by weights from both sides. */
static weft_value *roi_means(onnx_call *c, const roi axes[2], weft_value *x, weft_value *images) {
    weft_value *each = weft_index(x, 1, &images), *w[2]; /* [R, C, H, W] */
    for (int i = 0; i < 2; i++)
        w[i] = weft_unsqueeze(weft_cast(bin_weights(c, &axes[i]), weft_value_dtype(x)), 1);
    return weft_matmul(weft_matmul(w[0], each, false, false), w[1], false, true);
}

/* The two elements around each sample of an axis, [R, 2 * samples], and what they count. */
static weft_value *neighbours(onnx_call *c, const roi *a, weft_value **weight) {
    weft_value *is_in, *at = samples_of(c, a, &is_in), *low = weft_floor(at), *part = weft_sub(at, low);
    weft_value *high = weft_clamp(weft_offset(low, 1), 0, (double)a->elements - 1),
               *zero = onnx_constant(c, at, 0);
    weft_value *of_low = weft_where(is_in, weft_offset(weft_neg(part), 1), zero),
               *of_high = weft_where(is_in, part, zero), *parts[] = {of_low, of_high};
    *weight = weft_flatten(weft_stack(2, parts, 2), 1);
    return weft_cast(weft_flatten(weft_stack(2, (weft_value *[]){low, high}, 2), 1), WEFT_I64);
}

/* The largest of what any element around a sample adds to it, as the operator has it; not the largest
 * sample. */
static weft_value *roi_maxima(onnx_call *c, const roi axes[2], weft_value *x, weft_value *images) {
    weft_value *w[2], *at[2];
    for (int i = 0; i < 2; i++) at[i] = weft_unsqueeze(neighbours(c, &axes[i], &w[i]), i ? 1 : 2);
    images = weft_unsqueeze(weft_unsqueeze(images, -1), -1);
    weft_value *each =
        weft_index(x, 4, (weft_value *[]){images, NULL, at[0], at[1]}); /* [R, 2 samples, 2 samples, C] */
    weft_value *down = weft_unsqueeze(w[0], 2), *across = weft_unsqueeze(w[1], 1),
               *both = weft_mul(down, across);
    each = weft_mul(each, weft_unsqueeze(weft_cast(both, weft_value_dtype(x)), -1));
    int64_t shape[] = {-1,           axes[0].bins,        2 * axes[0].samples,
                       axes[1].bins, 2 * axes[1].samples, weft_dim(x, 1)};
    each = weft_amax(weft_reshape(each, 6, shape), 2, (int64_t[]){2, 4}, false);
    return weft_permute(each, (int64_t[]){0, 3, 1, 2});
}

/* The range of an axis: numbers `first` and `first` + 2 of the rois. */
static void range_of(weft_value *rois, int first, double scale, bool is_half, roi *a) {
    weft_value *end = weft_scale(weft_slice(rois, 1, first + 2, first + 3), scale);
    a->begin = weft_scale(weft_slice(rois, 1, first, first + 1), scale);
    a->length = weft_sub(end, a->begin);
    if (is_half)
        a->begin = weft_offset(a->begin, -0.5);
    else
        a->length = weft_clamp(a->length, 1, 1e30);
}

weft_value *onnx_build_roi_align(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    roi axes[2];
    weft_value *x = onnx_in(c, 0), *rois = onnx_in(c, 1), *images = onnx_in(c, 2);
    const char *mode = onnx_word(c, "mode", "avg");
    const char *mapping =
        onnx_word(c, "coordinate_transformation_mode", c->opset < 16 ? "output_half_pixel" : "half_pixel");
    double scale = onnx_real(c, "spatial_scale", 1);
    int64_t bins[] = {onnx_int(c, "output_height", 1), onnx_int(c, "output_width", 1)},
            samples = onnx_int(c, "sampling_ratio", 0);
    bool is_half = !strcmp(mapping, "half_pixel"), is_mean = !strcmp(mode, "avg");
    if (!x || !rois || !images) return NULL;
    if (!is_mean && strcmp(mode, "max")) return onnx_refuse(c, "mode is '%.40s'", mode);
    if (!is_half && strcmp(mapping, "output_half_pixel"))
        return onnx_refuse(c, "coordinate_transformation_mode is '%.40s'", mapping);
    if (samples < 1)
        return onnx_refuse(
            c,
            "sampling_ratio 0: how many samples a bin has depends on the rois; export with a number, as 2");
    if (samples > 64 || bins[0] < 1 || bins[1] < 1 || bins[0] > 4096 || bins[1] > 4096)
        return onnx_refuse(c, "a result of %jd x %jd with %jd samples", bins[0], bins[1], samples);
    onnx_shape_of(c, 0, own);
    if (weft_ndim(x) != 4 || own[2] < 1 || own[3] < 1 || weft_ndim(rois) != 2 || weft_dim(rois, 1) != 4)
        return onnx_refuse(c, "x is not [N, C, H, W], or the rois not [R, 4]");
    if (weft_value_dtype(rois) != WEFT_F64) rois = weft_cast(rois, WEFT_F32);
    for (int i = 0; i < 2; i++) {
        axes[i] = (roi){.bins = bins[i], .samples = samples, .elements = own[2 + i]};
        range_of(rois, 1 - i, scale, is_half, &axes[i]);
    }
    return is_mean ? roi_means(c, axes, x, images) : roi_maxima(c, axes, x, images);
}
