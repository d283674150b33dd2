/* image.c - images at places that are computed: GridSample, AffineGrid, RoiAlign. */
#include "interchange/onnx/families.h"

weft_value *onnx_build_grid_sample(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *grid = onnx_in(c, 1);
    const char *mode = onnx_word(c, "mode", "linear"), *padding = onnx_word(c, "padding_mode", "zeros");
    weft_grid_options o = {.align_corners = onnx_int(c, "align_corners", 0)};
    if (!strcmp(mode, "nearest")) o.mode = WEFT_GRID_NEAREST;
    else if (!strcmp(mode, "cubic") || !strcmp(mode, "bicubic")) o.mode = WEFT_GRID_BICUBIC;
    else if (strcmp(mode, "linear") && strcmp(mode, "bilinear")) return onnx_refuse(c, "mode is '%.40s'", mode);
    if (!strcmp(padding, "border")) o.padding = WEFT_GRID_BORDER;
    else if (!strcmp(padding, "reflection")) o.padding = WEFT_GRID_REFLECTION;
    else if (strcmp(padding, "zeros")) return onnx_refuse(c, "padding_mode is '%.40s'", padding);
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
        if (size[i] < 1) return onnx_refuse(c, "number %d of the size depends on the batch, or is below 1", i);
    return weft_affine_grid(theta, size + 2, align_corners);
}

/* ---- RoiAlign ---- */

typedef struct roi {
    weft_value *begin, *length; /* [R, 1] of an axis of the image */
    int64_t bins, samples, elements; /* of the result, in a bin, of the image */
} roi;

/* What each element of an axis counts in each bin: [R, bins, elements]. A sample takes part of the two elements around it; one
 * more than an element outside of the image counts nothing, others outside take the border. The samples of a bin share its
 * weight. */
static weft_value *bin_weights(onnx_call *c, const roi *a) {
    weft_graph *g = onnx_graph_of(c);
    weft_dtype dtype = weft_value_dtype(a->begin);
    double last = (double)a->elements - 1, n = (double)(a->bins * a->samples);
    weft_value *part = weft_scale(weft_offset(weft_arange(g, dtype, 0, n, 1), 0.5), 1 / n); /* [bins * samples] */
    weft_value *at = weft_unsqueeze(weft_add(a->begin, weft_mul(a->length, part)), -1);     /* [R, bins * samples, 1] */
    weft_value *is_in = weft_logical_and(weft_greater_equal(at, onnx_constant(c, at, -1)), weft_less_equal(at, onnx_constant(c, at, last + 1)));
    weft_value *distance = weft_abs(weft_sub(weft_clamp(at, 0, last), weft_arange(g, dtype, 0, last + 1, 1)));
    weft_value *w = weft_relu(weft_offset(weft_neg(distance), 1));
    w = weft_where(is_in, w, onnx_constant(c, w, 0));
    w = weft_reshape(w, 4, (int64_t[]){-1, a->bins, a->samples, a->elements});
    return weft_mean(w, 1, (int64_t[]){2}, false);
}

/* The range of an axis: numbers `first` and `first` + 2 of the rois. */
static void range_of(weft_value *rois, int first, double scale, bool is_half, roi *a) {
    weft_value *end = weft_scale(weft_slice(rois, 1, first + 2, first + 3), scale);
    a->begin = weft_scale(weft_slice(rois, 1, first, first + 1), scale);
    a->length = weft_sub(end, a->begin);
    if (is_half) a->begin = weft_offset(a->begin, -0.5);
    else a->length = weft_clamp(a->length, 1, 1e30);
}

/* Means over samples are sums along both axes, so that each image is multiplied by weights from both sides. */
weft_value *onnx_build_roi_align(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, 0), *rois = onnx_in(c, 1), *images = onnx_in(c, 2), *w[2];
    const char *mode = onnx_word(c, "mode", "avg");
    const char *mapping = onnx_word(c, "coordinate_transformation_mode", c->opset < 16 ? "output_half_pixel" : "half_pixel");
    double scale = onnx_real(c, "spatial_scale", 1);
    int64_t bins[] = {onnx_int(c, "output_height", 1), onnx_int(c, "output_width", 1)}, samples = onnx_int(c, "sampling_ratio", 0);
    bool is_half = !strcmp(mapping, "half_pixel");
    if (!x || !rois || !images) return NULL;
    if (strcmp(mode, "avg")) return onnx_refuse(c, "mode is '%.40s'; 'avg' is taken", mode);
    if (!is_half && strcmp(mapping, "output_half_pixel")) return onnx_refuse(c, "coordinate_transformation_mode is '%.40s'", mapping);
    if (samples < 1) return onnx_refuse(c, "sampling_ratio 0: how many samples a bin has depends on the rois; export with a number, as 2");
    if (samples > 64 || bins[0] < 1 || bins[1] < 1 || bins[0] > 4096 || bins[1] > 4096)
        return onnx_refuse(c, "a result of %jd x %jd with %jd samples", bins[0], bins[1], samples);
    onnx_shape_of(c, 0, own);
    if (weft_ndim(x) != 4 || own[2] < 1 || own[3] < 1 || weft_ndim(rois) != 2 || weft_dim(rois, 1) != 4)
        return onnx_refuse(c, "x is not [N, C, H, W], or the rois not [R, 4]");
    for (int i = 0; i < 2; i++) {
        roi a = {.bins = bins[i], .samples = samples, .elements = own[2 + i]};
        range_of(rois, 1 - i, scale, is_half, &a);
        w[i] = weft_unsqueeze(bin_weights(c, &a), 1);
    }
    weft_value *each = weft_index(x, 1, &images); /* [R, C, H, W] */
    return weft_matmul(weft_matmul(w[0], each, false, false), w[1], false, true);
}
