/* pool.c - pools over windows and over whole images. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/operators/window.h"

#include <math.h>

/* The most elements of a table, which becomes a constant. */
enum { MOST_PLACES = 1 << 22 };

/* ---- windows ---- */

/* How many windows there are along axis i of the kernel. With ceil_mode the last one may reach beyond the
 * padding, but begins inside x or the padding before it. */
static int64_t windows(const onnx_window *at, weft_value *x, int i, bool is_ceil) {
    int64_t length = weft_dim(x, 2 + i),
            room = length + at->before[i] + at->after[i] - (at->kernel[i] - 1) * at->dilation[i] - 1;
    if (room < 0 && !is_ceil) return 0;
    if (is_ceil) room += at->stride[i] - 1;
    if (room < 0) return 0;
    int64_t n = room / at->stride[i] + 1;
    return is_ceil && (n - 1) * at->stride[i] >= length + at->before[i] ? n - 1 : n;
}

/* Ends the padding where the last window ends, so that each window lies in the padded x and no other one
 * does. */
static bool close_windows(onnx_call *c, onnx_window *at, weft_value *x, bool is_ceil,
                          int64_t count[ONNX_SPACE]) {
    for (int i = 0; i < at->n; i++) {
        count[i] = windows(at, x, i, is_ceil);
        if (count[i] < 1) return onnx_refuse(c, "axis %d is shorter than the kernel", 2 + i);
        int64_t reach = (count[i] - 1) * at->stride[i] + (at->kernel[i] - 1) * at->dilation[i] + 1;
        at->after[i] = reach - weft_dim(x, 2 + i) - at->before[i];
    }
    return true;
}

/* x with its padding around it; after padding below 0 cuts off what no window reads. */
static weft_value *padded(weft_value *x, const onnx_window *at, double value) {
    int64_t pads[2 * ONNX_SPACE];
    bool is_needed = false;
    for (int i = 0; i < at->n; i++) {
        pads[2 * (at->n - 1 - i)] = at->before[i];
        pads[2 * (at->n - 1 - i) + 1] = at->after[i];
        is_needed = is_needed || at->before[i] || at->after[i];
    }
    return is_needed ? weft_constant_pad(x, at->n, pads, value) : x;
}

/* The attributes of a pool. Where strides reach further than the kernel, runtimes differ in what SAME
 * means. */
static bool windows_of(onnx_call *c, weft_value *x, onnx_window *at) {
    if (!x || !onnx_window_of(c, x, NULL, at)) return false;
    return !at->is_cut || onnx_refuse(c, "auto_pad SAME with strides beyond the kernel: export with pads");
}

static weft_pool pool_of(const onnx_window *at, bool is_padded) {
    weft_pool pool = {0};
    for (int i = 0; i < at->n; i++) {
        pool.kernel[i] = at->kernel[i];
        pool.stride[i] = at->stride[i];
        pool.dilation[i] = at->dilation[i];
        pool.pad[i] = is_padded ? 0 : at->before[i];
    }
    return pool;
}

static weft_value *maxima(weft_value *x, int n, const weft_pool *pool) {
    if (n == 1) return weft_max_pool1d(x, pool);
    return n == 2 ? weft_max_pool2d(x, pool) : weft_max_pool3d(x, pool);
}

static weft_value *means(weft_value *x, int n, const weft_pool *pool) {
    if (n == 1) return weft_avg_pool1d(x, pool);
    return n == 2 ? weft_avg_pool2d(x, pool) : weft_avg_pool3d(x, pool);
}

/* ---- maxima and their places ---- */

/* Element k of each window of the padded x. */
static weft_value *element_of_windows(weft_value *x, const onnx_window *at, const int64_t *count, int64_t k) {
    for (int i = at->n - 1; i >= 0; i--) {
        int64_t begin = k % at->kernel[i] * at->dilation[i];
        x = weft_strided_slice(x, 2 + i, begin, begin + (count[i] - 1) * at->stride[i] + 1, at->stride[i]);
        k /= at->kernel[i];
    }
    return x;
}

static int64_t product_of(int n, const int64_t *numbers) {
    int64_t product = 1;
    for (int i = 0; i < n; i++) product *= numbers[i];
    return product;
}

/* [1, 1, places, kernel]: where in an image element k of a window is, row-major or with the first axis
 * fastest. */
static weft_value *table_of_places(onnx_call *c, const onnx_window *at, const int64_t *count,
                                   const int64_t *lengths, bool is_column) {
    int64_t kernel = product_of(at->n, at->kernel), all = product_of(at->n, count);
    if (all > MOST_PLACES / kernel) return onnx_refuse(c, "the places of more than %d maxima", MOST_PLACES);
    int64_t *table = kit_take(c->in->arena, (size_t)(kernel * all), sizeof *table);
    if (!table) return NULL;
    for (int64_t j = 0; j < all * kernel; j++) {
        int64_t place = j / kernel, k = j % kernel, step = is_column ? product_of(at->n, lengths) : 1,
                at_place = 0;
        for (int i = at->n - 1; i >= 0; i--) {
            int64_t here =
                place % count[i] * at->stride[i] + k % at->kernel[i] * at->dilation[i] - at->before[i];
            if (is_column) step /= lengths[i];
            at_place += here * step;
            if (!is_column) step *= lengths[i];
            place /= count[i];
            k /= at->kernel[i];
        }
        table[j] = at_place;
    }
    return weft_constant_tensor(onnx_graph_of(c), WEFT_I64, 4, (int64_t[]){1, 1, all, kernel}, table);
}

/* Where image n, channel c begins in x[N, C, ...], [N, C, 1]. */
static weft_value *images(onnx_call *c, const int64_t *own, int64_t elements) {
    weft_graph *g = onnx_graph_of(c);
    double end = own[0] == WEFT_BATCH ? (double)WEFT_BATCH : (double)own[0];
    weft_value *n = weft_arange(g, WEFT_I64, 0, end, 1), *k = weft_arange(g, WEFT_I64, 0, (double)own[1], 1);
    n = weft_scale(weft_reshape(n, 3, (int64_t[]){own[0], 1, 1}), (double)(own[1] * elements));
    return weft_add(n, weft_scale(weft_reshape(k, 3, (int64_t[]){1, own[1], 1}), (double)elements));
}

/* Maxima with their places in x as a whole: each element of the windows as an axis. */
static weft_value *maxima_and_places(onnx_call *c, weft_value *x, onnx_window *at, bool is_ceil,
                                     bool is_column) {
    enum { MOST = 256 };
    int64_t own[WEFT_MAX_NDIM], count[ONNX_SPACE], shape[WEFT_MAX_NDIM], flat[4],
        kernel = product_of(at->n, at->kernel);
    weft_value *elements[MOST], *where, *most;
    onnx_shape_of(c, 0, own);
    if (kernel > MOST)
        return onnx_refuse(c, "the places of the maxima of a kernel of more than %d elements", MOST);
    if (own[0] == ONNX_DEPENDS || own[1] < 1) return onnx_refuse(c, "the places of maxima in such a batch");
    if (!close_windows(c, at, x, is_ceil, count)) return NULL;
    weft_value *wide = padded(x, at, -INFINITY);
    for (int64_t k = 0; k < kernel; k++) elements[k] = element_of_windows(wide, at, count, k);
    flat[0] = shape[0] = own[0];
    flat[1] = shape[1] = own[1];
    flat[2] = product_of(at->n, count);
    flat[3] = kernel;
    for (int i = 0; i < at->n; i++) shape[2 + i] = count[i];
    most = weft_max(weft_reshape(weft_stack((int)kernel, elements, -1), 4, flat), -1, false, &where);
    weft_value *table = table_of_places(c, at, count, own + 2, is_column);
    weft_value *found = weft_squeeze(weft_take_along_axis(table, weft_unsqueeze(where, -1), -1), -1);
    found = weft_add(found, images(c, own, product_of(at->n, own + 2)));
    onnx_result(c, 1, weft_reshape(found, weft_ndim(x), shape));
    return weft_reshape(most, weft_ndim(x), shape);
}

static weft_value *max_pool(onnx_call *c, weft_value *x) {
    onnx_window at;
    int64_t count[ONNX_SPACE];
    bool is_ceil = onnx_int(c, "ceil_mode", 0), is_column = onnx_int(c, "storage_order", 0);
    if (!windows_of(c, x, &at)) return NULL;
    if (onnx_wants(c, 1)) return maxima_and_places(c, x, &at, is_ceil, is_column);
    bool is_even = onnx_window_is_even(&at);
    if (!is_even && !close_windows(c, &at, x, is_ceil, count)) return NULL;
    weft_pool pool = pool_of(&at, !is_even);
    pool.ceil_mode = is_even && is_ceil;
    return maxima(is_even ? x : padded(x, &at, -INFINITY), at.n, &pool);
}

/* Integers of 8 bits as f32, which holds them. */
weft_value *onnx_build_max_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    weft_dtype dtype = x ? weft_value_dtype(x) : WEFT_F32;
    bool is_small = dtype == WEFT_U8 || dtype == WEFT_I8;
    if (!x) return NULL;
    weft_value *y = max_pool(c, is_small ? weft_cast(x, WEFT_F32) : x);
    return is_small ? weft_cast(y, dtype) : y;
}

/* The inverse: zeros but at the places of the maxima. With a shape, what there is stands in its first
 * corner. */
weft_value *onnx_build_max_unpool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *places = onnx_in(c, 1);
    int64_t own[WEFT_MAX_NDIM], shape[WEFT_MAX_NDIM], pads[2 * ONNX_SPACE], all = -1;
    onnx_window at;
    int n;
    const int64_t *wanted = onnx_lengths(c, 2, &n);
    if (!x || !places || !windows_of(c, x, &at)) return NULL;
    if (wanted && n != weft_ndim(x))
        return onnx_refuse(c, "output_shape has %d numbers, x %d axes", n, weft_ndim(x));
    onnx_shape_of(c, 0, own);
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = own[i];
    for (int i = 0; i < at.n; i++) {
        shape[2 + i] = (own[2 + i] - 1) * at.stride[i] - at.before[i] - at.after[i] + at.kernel[i];
        int64_t more = wanted ? wanted[2 + i] - shape[2 + i] : 0;
        if (shape[2 + i] < 1 || more < 0) return onnx_refuse(c, "a result of such a shape");
        pads[2 * (at.n - 1 - i)] = 0;
        pads[2 * (at.n - 1 - i) + 1] = more;
    }
    if (own[0] == ONNX_DEPENDS || (wanted && (wanted[0] != own[0] || wanted[1] != own[1])))
        return onnx_refuse(c, "a batch or channels that are not those of x");
    weft_value *zeros =
        weft_reshape(weft_constant(onnx_graph_of(c), weft_value_dtype(x), weft_ndim(x), shape, 0), 1, &all);
    weft_value *ids = weft_reshape(places, 1, &all),
               *y = weft_scatter(zeros, 0, ids, weft_reshape(x, 1, &all));
    y = weft_reshape(y, weft_ndim(x), shape);
    return wanted ? weft_constant_pad(y, at.n, pads, 0) : y;
}

/* ---- means ---- */

static int64_t ceil_div(int64_t a, int64_t b) {
    return a > 0 ? (a + b - 1) / b : a / b;
}

/* How many elements of a window along axis i lie in [begin, end) of the padded x. */
static int64_t elements_in(const onnx_window *at, int i, int64_t window, int64_t begin, int64_t end) {
    int64_t place = window * at->stride[i], first = ceil_div(begin - place, at->dilation[i]);
    int64_t past = ceil_div(end - place, at->dilation[i]);
    if (first < 0) first = 0;
    if (past > at->kernel[i]) past = at->kernel[i];
    return past > first ? past - first : 0;
}

/* 1 / the elements that count in each window, [places]. */
static weft_value *shares(onnx_call *c, const onnx_window *at, weft_value *x, const int64_t *count,
                          const int64_t *after, bool is_with_pad) {
    int64_t all = product_of(at->n, count);
    if (all > MOST_PLACES) return onnx_refuse(c, "more than %d windows with uneven padding", MOST_PLACES);
    double *table = kit_take(c->in->arena, (size_t)all, sizeof *table);
    for (int64_t j = 0; table && j < all; j++) {
        int64_t rest = j, elements = 1;
        for (int i = at->n - 1; i >= 0; i--) {
            int64_t end = at->before[i] + weft_dim(x, 2 + i);
            elements *= elements_in(at, i, rest % count[i], is_with_pad ? 0 : at->before[i],
                                    is_with_pad ? end + after[i] : end);
            rest /= count[i];
        }
        if (!elements) return onnx_refuse(c, "a window with nothing but padding");
        table[j] = 1.0 / (double)elements;
    }
    if (!table) return NULL;
    return weft_cast(weft_constant_tensor(onnx_graph_of(c), WEFT_F64, at->n, count, table),
                     weft_value_dtype(x));
}

/* Sums of windows. */
static weft_value *sums(weft_value *x, const onnx_window *at) {
    weft_pool pool = pool_of(at, true);
    pool.divisor = 1;
    return means(padded(x, at, 0), at->n, &pool);
}

weft_value *onnx_build_average_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t count[ONNX_SPACE], after[ONNX_SPACE];
    onnx_window at;
    bool is_ceil = onnx_int(c, "ceil_mode", 0), is_with_pad = onnx_int(c, "count_include_pad", 0);
    if (!windows_of(c, x, &at)) return NULL;
    if (onnx_window_is_even(&at)) {
        weft_pool pool = pool_of(&at, false);
        pool.ceil_mode = is_ceil;
        pool.exclude_pad = !is_with_pad;
        return means(x, at.n, &pool);
    }
    memcpy(after, at.after, sizeof after);
    if (!close_windows(c, &at, x, is_ceil, count)) return NULL;
    weft_value *share = shares(c, &at, x, count, after, is_with_pad);
    return share ? weft_mul(sums(x, &at), share) : NULL;
}

/* ---- norms ---- */

/* |x|^p, and x^(1/p). */
static weft_value *power(onnx_call *c, weft_value *x, int64_t p) {
    if (p == 1) return weft_abs(x);
    if (p == 2) return weft_square(x);
    x = weft_abs(x);
    return weft_pow(x, onnx_constant(c, x, (double)p));
}

static weft_value *root(onnx_call *c, weft_value *x, int64_t p) {
    if (p == 1) return x;
    return p == 2 ? weft_sqrt(x) : weft_pow(x, onnx_constant(c, x, 1 / (double)p));
}

/* (sum of |x|^p)^(1/p) over windows. */
weft_value *onnx_build_lp_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t count[ONNX_SPACE], p = onnx_int(c, "p", 2);
    onnx_window at;
    bool is_ceil = onnx_int(c, "ceil_mode", 0);
    if (p < 1) return onnx_refuse(c, "p is %jd", p);
    if (!windows_of(c, x, &at) || !close_windows(c, &at, x, is_ceil, count)) return NULL;
    return root(c, sums(power(c, x, p), &at), p);
}

/* ---- whole images: all axes but the first two, which stay with length 1 ---- */

static int space(weft_value *x, int64_t axes[WEFT_MAX_NDIM]) {
    int n = 0;
    for (int i = 2; x && i < weft_ndim(x); i++) axes[n++] = i;
    return n;
}

weft_value *onnx_build_global_average_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t axes[WEFT_MAX_NDIM];
    int n = space(x, axes);
    return n ? weft_mean(x, n, axes, true) : x;
}

weft_value *onnx_build_global_max_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t axes[WEFT_MAX_NDIM];
    int n = space(x, axes);
    return n ? weft_amax(x, n, axes, true) : x;
}

weft_value *onnx_build_global_lp_pool(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t axes[WEFT_MAX_NDIM], p = onnx_int(c, "p", 2);
    int n = space(x, axes);
    if (p < 1) return onnx_refuse(c, "p is %jd", p);
    return n ? weft_vector_norm(x, (double)p, n, axes, true) : weft_abs(x);
}

/* ---- regions ---- */

weft_value *onnx_build_max_roi_pool(onnx_call *c) {
    return onnx_refuse(
        c, "it was replaced by RoiAlign, and its rounding differs between runtimes: export with RoiAlign");
}
