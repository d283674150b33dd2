/* resize.c - Resize and Upsample: an image, or any value, in another size.
 *
 * Along an axis each element of the result is a weighted sum of elements of x. Where weft_interpolate()
 * computes the same, it does; else an axis is a product by a matrix of weights, which is computed here
 * from the formulas of the operator, or, of the nearest elements, a gather by known places. */
#include "interchange/onnx/operators/families.h"

#include <math.h>

typedef enum method { NEAREST, LINEAR, CUBIC } method;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;
typedef enum mapping {
    HALF_PIXEL,
    SYMMETRIC,
    PYTORCH,
    CORNERS,
    ASYMMETRIC,
    TENSORFLOW_NEAREST,
    CROP
} mapping;

/* What a node asks for. */
typedef struct resize {
    method method;
    rounding rounding;
    mapping mapping;
    bool antialias, excludes_outside;
    double a, outside; /* cubic_coeff_a, extrapolation_value */
} resize;

/* What becomes of an axis of x. */
typedef struct change {
    bool is_changed, is_scaled; /* by a scale of f32 */
    int64_t from, to;           /* lengths */
    double scale, begin, end;
} change;

/* The place of a name in a list; -1: it is not there. */
static int place_in(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

static bool resize_of(onnx_call *c, resize *r) {
    static const char *const methods[] = {"nearest", "linear", "cubic"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const mappings[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    const char *method_name = onnx_word(c, "mode", "nearest"),
               *rounding_name = onnx_word(c, "nearest_mode", "round_prefer_floor");
    const char *mapping_name = onnx_word(c, "coordinate_transformation_mode", "half_pixel");
    int m = place_in(methods, 3, method_name), o = place_in(roundings, 4, rounding_name),
        p = place_in(mappings, 7, mapping_name);
    *r = (resize){.antialias = onnx_int(c, "antialias", 0),
                  .excludes_outside = onnx_int(c, "exclude_outside", 0),
                  .a = onnx_real(c, "cubic_coeff_a", -0.75),
                  .outside = onnx_real(c, "extrapolation_value", 0)};
    if (m < 0) return onnx_refuse(c, "mode is '%.40s'", method_name);
    if (o < 0) return onnx_refuse(c, "nearest_mode is '%.40s'", rounding_name);
    if (p < 0) return onnx_refuse(c, "coordinate_transformation_mode is '%.40s'", mapping_name);
    r->method = (method)m;
    r->rounding = (rounding)o;
    r->mapping = (mapping)p;
    if (r->method == NEAREST && r->antialias) return onnx_refuse(c, "antialias of the nearest elements");
    return true;
}

/* ---- the sizes ---- */

static bool by_scales(onnx_call *c, int n, const int *axes, const double *scales, change *changes) {
    for (int i = 0; i < n; i++) {
        change *a = &changes[axes[i]];
        if (!(scales[i] > 0 && scales[i] < 1e9)) return onnx_refuse(c, "a scale of %g", scales[i]);
        if (scales[i] == 1) continue;
        if (a->from < 0)
            return onnx_refuse(c, "axis %d, whose length depends on the batch, with a scale of %g", axes[i],
                               scales[i]);
        /* in f32, as in runtimes: 20 * 2.3 is 46 there */
        double to = floorf((float)a->from * (float)scales[i] * (float)(a->end - a->begin));
        if (!(to >= 1 && to < INT32_MAX))
            return onnx_refuse(c, "axis %d would have %g elements", axes[i], to);
        a->scale = scales[i];
        a->to = (int64_t)to;
        a->is_changed = a->is_scaled = true;
    }
    return true;
}

/* Sizes of one scale for all axes: the smallest or the largest of those that are asked for. */
static bool keep_ratio(onnx_call *c, int n, const int *axes, change *changes, bool is_smallest) {
    double scale = changes[axes[0]].scale;
    for (int i = 1; i < n; i++) {
        double other = changes[axes[i]].scale;
        scale = is_smallest == (other < scale) ? other : scale;
    }
    for (int i = 0; i < n; i++) {
        change *a = &changes[axes[i]];
        if (scale != 1 && a->from < 0)
            return onnx_refuse(c, "axis %d, whose length depends on the batch, with a scale of %g", axes[i],
                               scale);
        a->scale = scale;
        a->to = a->from < 0 ? a->from : (int64_t)floor(scale * (double)a->from + 0.5);
        a->is_changed = scale != 1;
        if (a->is_changed && a->to < 1) return onnx_refuse(c, "axis %d would have no elements", axes[i]);
    }
    return true;
}

/* What to do with the ratio of the axes: a place in the list; -1 after an error. It has a meaning for
 * sizes alone. */
static int ratio_policy(onnx_call *c) {
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    const char *name = onnx_word(c, "keep_aspect_ratio_policy", "stretch");
    int policy = place_in(policies, 3, name);
    if (policy < 0) onnx_refuse(c, "keep_aspect_ratio_policy is '%.40s'", name);
    return policy;
}

static bool by_sizes(onnx_call *c, int n, const int *axes, const int64_t *sizes, int policy,
                     change *changes) {
    for (int i = 0; i < n; i++) {
        change *a = &changes[axes[i]];
        if (sizes[i] == a->from && a->from != ONNX_DEPENDS) continue;
        if (a->from < 1 || sizes[i] < 1 || sizes[i] > INT32_MAX)
            return onnx_refuse(c, "a size of axis %d that depends on the batch, or is below 1", axes[i]);
        a->to = sizes[i];
        a->scale = (double)a->to / (double)a->from;
        a->is_changed = true;
    }
    return policy && n ? keep_ratio(c, n, axes, changes, policy == 1) : true;
}

/* The part of each axis that TensorFlow's crop keeps. */
static bool crop(onnx_call *c, int n, const int *axes, change *changes) {
    int count;
    const double *roi = onnx_numbers(c, 1, &count);
    if (!roi || count != 2 * n) return onnx_refuse(c, "a roi of %d numbers for %d axes", count, n);
    for (int i = 0; i < n; i++) {
        change *a = &changes[axes[i]];
        if (!(fabs(roi[i]) < 1e6 && fabs(roi[n + i]) < 1e6))
            return onnx_refuse(c, "a roi from %g to %g", roi[i], roi[n + i]);
        a->begin = roi[i];
        a->end = roi[n + i];
        a->is_changed = roi[i] != 0 || roi[n + i] != 1;
        if (a->is_changed && a->from < 0)
            return onnx_refuse(c, "a crop of axis %d, whose length depends on the batch", axes[i]);
    }
    return true;
}

static bool changes_of(onnx_call *c, const resize *r, weft_value *x, int scales_at, change *changes) {
    int policy = ratio_policy(c);
    int64_t own[WEFT_MAX_NDIM];
    int axes[WEFT_MAX_NDIM], n, n_scales, n_sizes;
    const int64_t *list = onnx_ints(c, "axes", &n);
    if (!list) n = weft_ndim(x);
    if (!onnx_axes(c, list, n, weft_ndim(x), axes)) return false;
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < weft_ndim(x); i++)
        changes[i] = (change){.from = own[i], .to = own[i], .scale = 1, .end = 1};
    if (r->mapping == CROP && !crop(c, n, axes, changes)) return false;
    if (r->mapping != CROP && scales_at == 2) onnx_known_in(c, 1);
    const double *scales = onnx_numbers(c, scales_at, &n_scales);
    const int64_t *sizes = onnx_lengths(c, scales_at + 1, &n_sizes);
    if (c->in->error->status) return false;
    if ((n_scales > 0) == (n_sizes > 0)) return onnx_refuse(c, "it has scales and sizes, or neither");
    if ((n_scales ? n_scales : n_sizes) != n)
        return onnx_refuse(c, "%d scales and %d sizes for %d axes", n_scales, n_sizes, n);
    if (policy < 0) return false;
    return n_scales ? by_scales(c, n, axes, scales, changes) : by_sizes(c, n, axes, sizes, policy, changes);
}

/* ---- the formulas ---- */

/* x / scale - less. Which element is the nearest may depend on rounding: of 3 / 0.6 it is in f32, as in
 * onnxruntime and PyTorch, where it is 5. */
static double unscaled(const resize *r, const change *a, double x, float less) {
    bool is_narrow = a->is_scaled && r->method == NEAREST;
    return is_narrow ? (double)((float)x / (float)a->scale - less) : x / a->scale - (double)less;
}

/* Where element i of the result is in x. */
static double place_of(const resize *r, const change *a, int64_t i) {
    double from = (double)a->from, to = a->scale * from, x = (double)i;
    switch (r->mapping) {
    case HALF_PIXEL:
        return unscaled(r, a, x + 0.5, 0.5F);
    case SYMMETRIC:
        return from / 2 * (1 - (double)a->to / to) + (x + 0.5) / a->scale - 0.5;
    case PYTORCH:
        return a->to > 1 ? unscaled(r, a, x + 0.5, 0.5F) : 0;
    case CORNERS:
        return to == 1 ? 0 : x * (from - 1) / (to - 1);
    case ASYMMETRIC:
        return unscaled(r, a, x, 0);
    case TENSORFLOW_NEAREST:
        return unscaled(r, a, x + 0.5, 0);
    case CROP:
        break;
    }
    if (a->to <= 1) return 0.5 * (a->begin + a->end) * (from - 1);
    return a->begin * (from - 1) + x * (a->end - a->begin) * (from - 1) / ((double)a->to - 1);
}

static bool is_outside(const change *a, double x) {
    return x < 0 || x > (double)a->from - 1;
}

static int64_t clamped(double place, int64_t n) {
    return place <= 0 ? 0 : place >= (double)(n - 1) ? n - 1 : (int64_t)place;
}

/* A place that rounding has moved off an element, or off the middle of two, is put back. */
static int64_t nearest(const resize *r, const change *a, double x) {
    double halves = floor(2 * x + 0.5);
    if (fabs(2 * x - halves) < 1e-9) x = halves / 2;
    double place = r->rounding == FLOOR         ? floor(x)
                   : r->rounding == CEIL        ? ceil(x)
                   : r->rounding == PREFER_CEIL ? floor(x + 0.5)
                                                : ceil(x - 0.5);
    return clamped(place, a->from);
}

/* What an element at distance d counts. */
static double weight(const resize *r, double d) {
    double a = r->a;
    d = fabs(d);
    if (r->method == LINEAR) return d < 1 ? 1 - d : 0;
    return d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
           : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                   : 0;
}

/* How much closer elements are than in x, where a smaller result is a mean of all that it covers. */
static double stretch_of(const resize *r, const change *a) {
    return r->antialias && a->scale < 1 ? a->scale : 1;
}

/* How far away elements count. */
static double reach_of(const resize *r, const change *a) {
    return (r->method == LINEAR ? 1 : 2) / stretch_of(r, a);
}

/* Row i of the weights: elements outside of x are those at its border, or do not count. */
static void weights_of(const resize *r, const change *a, double x, float *row) {
    double stretch = stretch_of(r, a), reach = reach_of(r, a), sum = 0;
    bool is_divided = r->antialias || r->excludes_outside;
    double begin = ceil(x - reach), end = floor(x + reach);
    for (int pass = is_divided ? 0 : 1; pass < 2; pass++)
        for (double at = begin; at <= end; at++) {
            double w = weight(r, (at - x) * stretch);
            if (r->excludes_outside && is_outside(a, at)) continue;
            if (pass == 0)
                sum += w;
            else
                row[clamped(at, a->from)] += (float)(is_divided && sum != 0 ? w / sum : w);
        }
}

/* ---- building ---- */

static weft_value *by_places(onnx_call *c, const resize *r, const change *a, weft_value *x, int axis) {
    int64_t *places = kit_take(c->in->arena, (size_t)a->to + 1, sizeof *places);
    if (!places) return kit_no_memory(c->in->error, "Resize"), NULL;
    for (int64_t i = 0; i < a->to; i++) places[i] = nearest(r, a, place_of(r, a, i));
    return weft_index_select(x, axis, weft_constant_tensor(onnx_graph_of(c), WEFT_I64, 1, &a->to, places));
}

/* x as f32 or f64 times the weights along an axis. */
static weft_value *by_weights(onnx_call *c, const resize *r, const change *a, weft_value *x, int axis) {
    int64_t shape[] = {a->to, a->from};
    bool fits = a->from > 0 && a->to < (INT32_MAX / 4) / a->from && (double)a->to * reach_of(r, a) < 0x1p28;
    float *rows = fits ? kit_take(c->in->arena, (size_t)(a->to * a->from), sizeof *rows) : NULL;
    if (!rows) return onnx_refuse(c, "a matrix of %jd x %jd weights", a->to, a->from);
    for (int64_t i = 0; i < a->to; i++) weights_of(r, a, place_of(r, a, i), rows + i * a->from);
    weft_value *w =
        weft_cast(weft_constant_tensor(onnx_graph_of(c), WEFT_F32, 2, shape, rows), weft_value_dtype(x));
    int last = weft_ndim(x) - 1;
    if (axis == last) return weft_linear_op(x, w, NULL);
    return weft_transpose(weft_linear_op(weft_transpose(x, axis, last), w, NULL), axis, last);
}

/* Puts `outside` where an axis of the result is outside of x. */
static weft_value *with_outside(onnx_call *c, const resize *r, const change *a, weft_value *y, int axis) {
    int64_t shape[WEFT_MAX_NDIM];
    uint8_t *is_out = kit_take(c->in->arena, (size_t)a->to + 1, 1);
    bool is_any = false;
    if (!is_out || !y) return NULL;
    for (int64_t i = 0; i < a->to; i++) is_any |= is_out[i] = is_outside(a, place_of(r, a, i));
    if (!is_any) return y;
    for (int i = 0; i < weft_ndim(y); i++) shape[i] = i == axis ? a->to : 1;
    weft_value *is_there = weft_constant_tensor(onnx_graph_of(c), WEFT_BOOL, weft_ndim(y), shape, is_out);
    return weft_where(is_there, onnx_constant(c, y, r->outside), y);
}

/* Whether weft_interpolate() has the formulas for an axis. */
static bool is_weft(const resize *r, const change *a) {
    if (!a->is_changed) return true;
    if (a->scale * (double)a->from != (double)a->to) return false;
    bool is_half =
        r->mapping == HALF_PIXEL || r->mapping == SYMMETRIC || (r->mapping == PYTORCH && a->to > 1);
    if (r->method != NEAREST) return is_half || r->mapping == CORNERS;
    bool is_floor = r->mapping == ASYMMETRIC && r->rounding == FLOOR;
    return a->to % a->from == 0 && (is_floor || (r->mapping == HALF_PIXEL && r->rounding <= PREFER_CEIL));
}

static weft_value *by_weft(const resize *r, const change *changes, weft_value *x) {
    static const weft_interpolation_mode modes[] = {WEFT_INTERPOLATE_NEAREST, WEFT_INTERPOLATE_BILINEAR,
                                                    WEFT_INTERPOLATE_BICUBIC};
    weft_interpolation o = {.mode = modes[r->method],
                            .align_corners = r->mapping == CORNERS && r->method != NEAREST};
    int ndim = weft_ndim(x);
    if (ndim < 3 || ndim > 5 || changes[0].is_changed || changes[1].is_changed || r->antialias ||
        r->excludes_outside)
        return NULL;
    if (r->method == CUBIC && (r->a != -0.75 || ndim != 4)) return NULL;
    for (int i = 2; i < ndim; i++) {
        if (changes[i].to < 1 || !is_weft(r, &changes[i])) return NULL;
        o.size[i - 2] = changes[i].to;
    }
    return weft_interpolate(x, &o);
}

static weft_value *resized(onnx_call *c, const resize *r, int scales_at) {
    change changes[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, 0);
    if (!x || !changes_of(c, r, x, scales_at, changes)) return NULL;
    weft_dtype dtype = weft_value_dtype(x);
    if (r->method != NEAREST && !onnx_is_float(weft_value_dtype(x)))
        return onnx_refuse(c, "mode linear or cubic of %s: cast it", weft_dtype_name(dtype));
    weft_value *y = onnx_is_float(weft_value_dtype(x)) ? by_weft(r, changes, x) : NULL;
    if (y) return y;
    bool is_narrow = r->method != NEAREST && (dtype == WEFT_F16 || dtype == WEFT_BF16);
    y = is_narrow ? weft_cast(x, WEFT_F32) : x;
    for (int i = 0; y && i < weft_ndim(x); i++) {
        if (!changes[i].is_changed) continue;
        y = r->method == NEAREST ? by_places(c, r, &changes[i], y, i) : by_weights(c, r, &changes[i], y, i);
    }
    for (int i = 0; y && r->mapping == CROP && i < weft_ndim(x); i++)
        if (changes[i].is_changed) y = with_outside(c, r, &changes[i], y, i);
    return is_narrow ? weft_cast(y, dtype) : y;
}

/* The first opset's rule is that of Upsample. */
weft_value *onnx_build_resize(onnx_call *c) {
    resize r;
    if (c->opset < 11) return onnx_build_upsample(c);
    return resize_of(c, &r) ? resized(c, &r, 2) : NULL;
}

/* Scales are operand 1, or an attribute. */
static const float *attribute_scales(onnx_call *c, int *n) {
    return onnx_reals(c, "scales", n);
}

static weft_value *upsampled_by_attribute(onnx_call *c, const resize *r) {
    change changes[WEFT_MAX_NDIM];
    double numbers[WEFT_MAX_NDIM];
    int64_t own[WEFT_MAX_NDIM];
    int axes[WEFT_MAX_NDIM], n;
    weft_value *y = onnx_in(c, 0);
    const float *scales = attribute_scales(c, &n);
    if (!y) return NULL;
    if (!scales || n != weft_ndim(y)) return onnx_refuse(c, "%d scales for %d axes", n, weft_ndim(y));
    if (r->method != NEAREST && !onnx_is_float(weft_value_dtype(y)))
        return onnx_refuse(c, "mode linear of %s: cast it", weft_dtype_name(weft_value_dtype(y)));
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < n; i++) {
        axes[i] = i;
        numbers[i] = (double)scales[i];
        changes[i] = (change){.from = own[i], .to = own[i], .scale = 1, .end = 1};
    }
    if (!by_scales(c, n, axes, numbers, changes)) return NULL;
    for (int i = 0; y && i < n; i++) {
        if (!changes[i].is_changed) continue;
        y = r->method == NEAREST ? by_places(c, r, &changes[i], y, i) : by_weights(c, r, &changes[i], y, i);
    }
    return y;
}

/* Its document has no formulas. Runtimes take the place x / scale and the element before it; for scales
 * below 1 they differ. */
weft_value *onnx_build_upsample(onnx_call *c) {
    resize r = {.mapping = ASYMMETRIC, .rounding = FLOOR};
    const char *mode = onnx_word(c, "mode", "nearest");
    r.method = strcmp(mode, "nearest") ? LINEAR : NEAREST;
    if (r.method == LINEAR && strcmp(mode, "linear")) return onnx_refuse(c, "mode is '%.40s'", mode);
    return onnx_has(c, 1) ? resized(c, &r, 1) : upsampled_by_attribute(c, &r);
}
