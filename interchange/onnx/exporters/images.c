/* images.c - pools, resizing and sliding windows of images as nodes of ONNX. */
#include "interchange/onnx/exporters/exporter_families.h"

#include <math.h>

enum { AXES = 2, FIRST = 2 }; /* of x[N, C, H, W] */

/* ---- pools ---- */

typedef struct pool {
    int64_t kernel[AXES], stride[AXES], dilation[AXES];
    int64_t pads[2 * AXES]; /* before each axis, then after each */
    bool reaches_out;       /* windows reach beyond the padding, as with ceil_mode */
} pool;

/* So much is put after an axis that the last window fits: then lengths are rounded down, about which runtimes
 * agree, whereas in ceil_mode they differ about a window that begins in the padding. */
static bool pool_of(export_call *c, pool *p) {
    weft_attribute kernel = export_attribute_of(c, "kernel"), stride = export_attribute_of(c, "stride"),
                   pad = export_attribute_of(c, "pad"), dilation = export_attribute_of(c, "dilation");
    *p = (pool){.reaches_out = false};
    for (int i = 0; i < AXES; i++) {
        int64_t in = export_fixed(c, export_operand(c, 0), FIRST + i),
                out = export_fixed(c, export_result(c, 0), FIRST + i);
        p->kernel[i] = kernel.integers[i];
        p->stride[i] = stride.integers[i];
        p->dilation[i] = dilation.n ? dilation.integers[i] : 1;
        p->pads[i] = p->pads[AXES + i] = pad.integers[i];
        int64_t reach =
            (out - 1) * p->stride[i] + p->dilation[i] * (p->kernel[i] - 1) + 1 - in - pad.integers[i];
        if (reach > pad.integers[i]) {
            p->pads[AXES + i] = reach;
            p->reaches_out = true;
        }
        if (in < 0 || out < 0) return false;
    }
    return true;
}

static edge *with_pool(export_call *c, edge *y, const pool *p) {
    with_ints(c, y, "kernel_shape", AXES, p->kernel);
    with_ints(c, y, "strides", AXES, p->stride);
    with_ints(c, y, "pads", (int)(sizeof p->pads / sizeof *p->pads), p->pads);
    if (p->dilation[0] != 1 || p->dilation[1] != 1) with_ints(c, y, "dilations", AXES, p->dilation);
    return y;
}

/* ONNX numbers the elements of all images, Weft those of a plane, in i32. */
static edge *in_plane(export_call *c, edge *place) {
    int64_t rows = export_fixed(c, export_operand(c, 0), FIRST),
            columns = export_fixed(c, export_operand(c, 0), FIRST + 1);
    edge *size = export_number(c, WEFT_I64, (double)(rows * columns));
    return export_cast(c, export_2(c, "Mod", place, size), WEFT_I64, WEFT_I32);
}

/* Runtimes want less padding than the kernel is long; what is more is put around x. */
static edge *with_less_padding(export_call *c, edge *x, pool *p) {
    int64_t more[2 * AXES], axes[AXES] = {FIRST, FIRST + 1};
    bool is_more = false;
    for (int i = 0; i < 2 * AXES; i++) {
        more[i] = p->pads[i] >= p->kernel[i % AXES] ? p->pads[i] : 0;
        p->pads[i] -= more[i];
        is_more |= more[i] > 0;
    }
    if (!is_more) return x;
    if (export_wants(c, 1))
        return export_refuse(c,
                             "the places of maxima with so much padding are not ONNX's: use a larger kernel");
    edge *least = export_number(c, export_dtype(c, 0), -INFINITY);
    return export_padded(c, x, AXES, axes, more, least);
}

static edge *max_pool(export_call *c, pool *p) {
    edge *x = with_less_padding(c, export_in(c, 0), p),
         *y = with_pool(c, export_new(c, "MaxPool", 1, &x, 2), p);
    if (export_wants(c, 1)) export_set(c, 1, in_plane(c, export_out(y, 1)));
    return y;
}

edge *export_max_pool2d(export_call *c) {
    pool p;
    return pool_of(c, &p) ? max_pool(c, &p) : NULL;
}

/* x with the padding, and a pool without it. */
static edge *with_padding(export_call *c, edge *x, pool *p) {
    weft_attribute pad = export_attribute_of(c, "pad");
    int64_t pads[2 * AXES], axes[AXES] = {FIRST, FIRST + 1};
    if (!pad.integers[0] && !pad.integers[1]) return x;
    for (int i = 0; i < AXES; i++) {
        pads[i] = pads[AXES + i] = pad.integers[i];
        p->pads[i] -= pad.integers[i];
        p->pads[AXES + i] -= pad.integers[i];
    }
    edge *zero = export_number(c, export_dtype(c, 0), 0);
    return export_padded(c, x, AXES, axes, pads, zero);
}

/* Zeros of the padding count, those after it do not; with a divisor all do, and the mean becomes a sum. */
edge *export_avg_pool2d(export_call *c) {
    pool p;
    edge *x = export_in(c, 0);
    double divisor = export_real(c, "divisor");
    if (!pool_of(c, &p)) return NULL;
    bool counts = !export_int(c, "exclude_pad") || divisor != 0;
    if (counts) x = with_padding(c, x, &p);
    for (int i = 0; i < 2 * AXES; i++)
        if (p.pads[i] >= p.kernel[i % AXES])
            return export_refuse(c, "runtimes want less padding than the kernel is long");
    edge *y = with_pool(c, export_1(c, "AveragePool", x), &p);
    if (divisor == 0) return y;
    with_int(c, y, "count_include_pad", 1);
    return export_2(c, "Mul", y,
                    export_number(c, export_dtype(c, 0), (double)(p.kernel[0] * p.kernel[1]) / divisor));
}

/* Whether the parts are a plain pool's; false after an error, too. */
static bool even_parts(export_call *c, pool *p) {
    *p = (pool){.dilation = {1, 1}};
    for (int i = 0; i < AXES; i++) {
        int64_t in = export_fixed(c, export_operand(c, 0), FIRST + i),
                out = export_fixed(c, export_result(c, 0), FIRST + i);
        if (in < 0 || out < 1 || in % out) return false;
        p->kernel[i] = p->stride[i] = in / out;
    }
    return true;
}

/* Of in elements the means over `out` parts: a matrix [out, in], or [in, out] for the right side. */
static edge *means(export_call *c, int64_t in, int64_t out, bool is_right) {
    float *m = kit_take(c->e->arena, (size_t)(in * out), sizeof *m);
    for (int64_t o = 0; m && o < out; o++) {
        int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
        for (int64_t i = begin; i < end; i++)
            m[is_right ? i * out + o : o * in + i] = 1 / (float)(end - begin);
    }
    int64_t shape[] = {is_right ? in : out, is_right ? out : in};
    return m ? export_cast(c, export_constant(c, WEFT_F32, 2, shape, m), WEFT_F32, export_dtype(c, 0)) : NULL;
}

edge *export_adaptive_avg_pool2d(export_call *c) {
    pool p;
    weft_value *x = export_operand(c, 0), *y = export_result(c, 0);
    if (weft_dim(y, FIRST) == 1 && weft_dim(y, FIRST + 1) == 1)
        return export_1(c, "GlobalAveragePool", export_in(c, 0));
    if (even_parts(c, &p)) return with_pool(c, export_1(c, "AveragePool", export_in(c, 0)), &p);
    if (c->e->error->status) return NULL;
    edge *rows = means(c, weft_dim(x, FIRST), weft_dim(y, FIRST), false);
    edge *columns = means(c, weft_dim(x, FIRST + 1), weft_dim(y, FIRST + 1), true);
    return export_2(c, "MatMul", export_2(c, "MatMul", rows, export_in(c, 0)), columns);
}

edge *export_adaptive_max_pool2d(export_call *c) {
    pool p;
    if (even_parts(c, &p)) return max_pool(c, &p);
    return export_refuse(
        c, "its parts differ in their size, and ONNX has no such pool: use a size that divides the image's");
}

/* ---- other sizes ---- */

/* Keys' cubic, by which PyTorch makes images smaller. */
static double cubic(double x) {
    x = fabs(x);
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* Weights of a smaller image: each element is a mean of all that it covers. As means(). */
static edge *smooth(export_call *c, int axis, double scale, bool is_right) {
    bool is_cubic = !strcmp(export_word(c, "mode"), "bicubic");
    int64_t in = export_fixed(c, export_operand(c, 0), FIRST + axis),
            out = export_fixed(c, export_result(c, 0), FIRST + axis);
    double step = scale > 0 ? 1 / scale : (double)in / (double)out;
    if (export_int(c, "align_corners")) step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    double wide = fmax(step, 1), reach = (is_cubic ? 2 : 1) * wide;
    float *m = in < 1 || out < 1 ? NULL : kit_take(c->e->arena, (size_t)(in * out), sizeof *m);
    for (int64_t o = 0; m && o < out; o++) {
        double at = step * ((double)o + 0.5), from = at - reach + 0.5, sum = 0;
        int64_t begin = from > 0 ? (int64_t)from : 0, end = (int64_t)(at + reach + 0.5);
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = begin; i < end && i < in; i++) {
                double x = ((double)i - at + 0.5) / wide, weight = is_cubic ? cubic(x) : fmax(1 - fabs(x), 0);
                if (!pass) sum += weight;
                if (pass) m[is_right ? i * out + o : o * in + i] = (float)(weight / sum);
            }
    }
    int64_t shape[] = {is_right ? in : out, is_right ? out : in};
    return m ? export_cast(c, export_constant(c, WEFT_F32, 2, shape, m), WEFT_F32, export_dtype(c, 0)) : NULL;
}

/* Runtimes differ about antialias, so it is two products. */
static edge *smoothed(export_call *c) {
    edge *rows = smooth(c, 0, export_real(c, "scale_h"), false),
         *columns = smooth(c, 1, export_real(c, "scale_w"), true);
    return export_2(c, "MatMul", export_2(c, "MatMul", rows, export_in(c, 0)), columns);
}

/* The lengths of the result, where they say all that scales say: readers differ about the places of corners
 * where length times scale is not whole. False: they do not, or follow the batch. */
static bool sizes_of(const export_call *c, const double scale[AXES], int64_t sizes[AXES]) {
    weft_attribute size = export_attribute_of(c, "size");
    for (int i = 0; i < AXES; i++) {
        export_length from, to;
        if (size.n) sizes[i] = size.integers[i];
        if (size.n) continue;
        if (!export_length_of(c->e, export_operand(c, 0), FIRST + i, &from) || from.per_batch) return false;
        if (!export_length_of(c->e, export_result(c, 0), FIRST + i, &to) || to.per_batch) return false;
        bool is_exact = !(scale[i] > 0) || (double)from.rest * scale[i] == (double)to.rest;
        if (!is_exact && !export_int(c, "align_corners")) return false;
        sizes[i] = to.rest;
    }
    return true;
}

/* Whether an axis becomes no multiple of itself: there runtimes differ about which element is the nearest. */
static bool is_uneven(const export_call *c) {
    bool is_any = false;
    for (int i = 0; i < AXES; i++) {
        export_length from, to;
        if (!export_length_of(c->e, export_operand(c, 0), FIRST + i, &from) || from.per_batch) return false;
        if (!export_length_of(c->e, export_result(c, 0), FIRST + i, &to) || to.per_batch) return false;
        double scale = export_real(c, i ? "scale_w" : "scale_h");
        is_any |= to.rest % from.rest || (scale > 0 && (double)from.rest * scale != (double)to.rest);
    }
    return is_any;
}

/* The nearest elements along an axis, by their places, which Weft finds in f32. */
static edge *by_gather(export_call *c, edge *x, int axis, float offset) {
    int64_t in = export_fixed(c, export_operand(c, 0), FIRST + axis),
            out = export_fixed(c, export_result(c, 0), FIRST + axis);
    double scale = export_real(c, axis ? "scale_w" : "scale_h");
    float step = (float)(scale > 0 ? 1 / scale : (double)in / (double)out);
    int64_t *places = kit_take(c->e->arena, (size_t)out, sizeof *places);
    for (int64_t i = 0; places && i < out; i++) {
        float at = floorf(((float)i + offset) * step);
        places[i] = at < (float)(in - 1) ? (int64_t)at : in - 1;
    }
    edge *ids = places ? export_ints(c, (int)out, places) : NULL;
    return with_int(c, export_2(c, "Gather", x, ids), "axis", FIRST + axis);
}

edge *export_interpolate(export_call *c) {
    const char *mode = export_word(c, "mode");
    bool is_nearest = !strncmp(mode, "nearest", 7), is_exact = !strcmp(mode, "nearest_exact"),
         is_cubic = !strcmp(mode, "bicubic");
    float offset = is_exact ? 0.5F : 0;
    if (is_nearest && is_uneven(c)) return by_gather(c, by_gather(c, export_in(c, 0), 0, offset), 1, offset);
    int64_t axes[AXES] = {FIRST, FIRST + 1}, pair = AXES, size[AXES];
    if (export_int(c, "antialias")) return smoothed(c);
    double scale[] = {export_real(c, "scale_h"), export_real(c, "scale_w")};
    float narrow[] = {(float)scale[0], (float)scale[1]};
    bool is_sized = sizes_of(c, scale, size);
    edge *sizes = is_sized ? export_ints(c, AXES, size) : NULL;
    edge *scales = is_sized ? NULL : export_constant(c, WEFT_F32, 1, &pair, narrow);
    edge *y = export_new(c, "Resize", 4, (edge *[]){export_in(c, 0), NULL, scales, sizes}, 1);
    const char *places = is_nearest && !is_exact          ? "asymmetric"
                         : export_int(c, "align_corners") ? "align_corners"
                                                          : "half_pixel";
    with_ints(c, y, "axes", AXES, axes);
    with_text(c, y, "mode", is_nearest ? "nearest" : is_cubic ? "cubic" : "linear");
    with_text(c, y, "coordinate_transformation_mode", places);
    if (is_nearest) with_text(c, y, "nearest_mode", is_exact ? "round_prefer_ceil" : "floor");
    return is_cubic ? with_real(c, y, "cubic_coeff_a", -0.75) : y;
}

edge *export_grid_sample(export_call *c) {
    const char *mode = export_word(c, "mode");
    weft_attribute order = export_attribute_of(c, "order");
    for (int i = 0; i < order.n; i++)
        if (order.integers[i])
            return export_refuse(c, "it is a derivative of grid_sample, which ONNX has not");
    edge *y = export_2(c, "GridSample", export_in(c, 0), export_in(c, 1));
    with_text(c, y, "mode",
              !strcmp(mode, "bilinear")  ? "linear"
              : !strcmp(mode, "bicubic") ? "cubic"
                                         : "nearest");
    with_text(c, y, "padding_mode", export_word(c, "padding"));
    return with_int(c, y, "align_corners", export_int(c, "align_corners"));
}

/* ---- sliding windows ---- */

/* x at one place of the kernel, for all places of the window: [N, C, 1, h, w]. */
static edge *tap(export_call *c, edge *x, const int64_t place[AXES], const int64_t out[AXES]) {
    weft_attribute stride = export_attribute_of(c, "stride"), dilation = export_attribute_of(c, "dilation");
    for (int i = 0; i < AXES; i++) {
        int64_t begin = place[i] * dilation.integers[i], end = begin + (out[i] - 1) * stride.integers[i] + 1;
        x = export_slice(c, x, FIRST + i, begin, end, stride.integers[i]);
    }
    return export_unsqueeze(c, x, FIRST);
}

/* The columns of all places: [N, C kh kw, h w], from [N, C, kh kw, h, w]. */
edge *export_unfold(export_call *c) {
    weft_attribute kernel = export_attribute_of(c, "kernel"), stride = export_attribute_of(c, "stride"),
                   pad = export_attribute_of(c, "pad"), dilation = export_attribute_of(c, "dilation");
    pool p = {.reaches_out = false};
    int64_t out[AXES], count = kernel.integers[0] * kernel.integers[1];
    export_length length[WEFT_MAX_NDIM];
    edge *x = with_padding(c, export_in(c, 0), &p),
         **parts = kit_take(c->e->arena, (size_t)count, sizeof *parts);
    for (int i = 0; i < AXES; i++) {
        int64_t in = export_fixed(c, export_operand(c, 0), FIRST + i);
        if (in < 0) return NULL;
        out[i] = (in + 2 * pad.integers[i] - dilation.integers[i] * (kernel.integers[i] - 1) - 1) /
                     stride.integers[i] +
                 1;
    }
    for (int64_t k = 0; parts && k < count; k++)
        parts[k] = tap(c, x, (int64_t[]){k / kernel.integers[1], k % kernel.integers[1]}, out);
    if (!parts || !export_lengths(c, export_result(c, 0), length)) return NULL;
    return export_reshape(c, export_concat(c, (int)count, parts, FIRST), 3, length);
}

edge *export_fold(export_call *c) {
    weft_attribute size = export_attribute_of(c, "size"), kernel = export_attribute_of(c, "kernel"),
                   stride = export_attribute_of(c, "stride"), pad = export_attribute_of(c, "pad"),
                   dilation = export_attribute_of(c, "dilation");
    int64_t pads[2 * AXES];
    for (int i = 0; i < AXES; i++) pads[i] = pads[AXES + i] = pad.integers[i];
    edge *image = export_ints(c, AXES, size.integers), *block = export_ints(c, AXES, kernel.integers);
    edge *y = export_3(c, "Col2Im", export_in(c, 0), image, block);
    with_ints(c, y, "strides", AXES, stride.integers);
    with_ints(c, y, "pads", 2 * AXES, pads);
    return with_ints(c, y, "dilations", AXES, dilation.integers);
}
