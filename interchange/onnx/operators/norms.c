/* norms.c - normalization by statistics of the batch, of images, of groups of channels or of rows. */
#include "interchange/onnx/operators/families.h"

/* An eps of the file: 0 is a true 0. */
static double eps_of(onnx_call *c, double otherwise) {
    double eps = onnx_real(c, "epsilon", otherwise);
    return eps == 0 ? WEFT_ZERO : eps;
}

static weft_value *as(weft_value *x, weft_dtype dtype) {
    return x && weft_value_dtype(x) != dtype ? weft_cast(x, dtype) : x;
}

/* The type in which statistics are computed: f64 of f64, else f32 (stash_type 1), which loses nothing. */
static bool stash_fits(onnx_call *c) {
    int64_t stash = onnx_int(c, "stash_type", ONNX_FLOAT);
    if (stash == ONNX_FLOAT || stash == ONNX_DOUBLE) return true;
    return onnx_refuse(c, "stash_type %s: statistics are computed in float", onnx_type_name((int)stash));
}

/* ---- batch ---- */

enum { MEAN = 3, VARIANCE = 4 };

/* Running statistics: a state where the file has their initial value, so that nothing trains them. */
static weft_value *statistics(onnx_call *c, int i) {
    weft_value *state = onnx_state(c, i);
    if (state) return state;
    if (onnx_trains(c) && onnx_has(c, i) && onnx_is_parameter(c->operands[i]))
        return onnx_refuse(c, "running statistics of another type than float");
    return onnx_in(c, i);
}

/* All axes but that of the channels. */
static int but_channels(weft_value *x, int64_t axes[WEFT_MAX_NDIM]) {
    int n = 0;
    for (int i = 0; i < weft_ndim(x); i++)
        if (i != 1) axes[n++] = i;
    return n;
}

static weft_value *moved(weft_value *old, weft_value *now, double keep) {
    now = as(weft_stop_gradient(now), weft_value_dtype(old));
    weft_value *kept = weft_scale(old, keep), *added = weft_scale(now, 1 - keep);
    return weft_add(kept, added);
}

/* training_mode 1: the variance is that of the batch, not unbiased, and the new running statistics are
 * results. */
static weft_value *by_batch(onnx_call *c, weft_value *x, weft_value *w, weft_value *b,
                            weft_value *running[2]) {
    double eps = eps_of(c, 1e-5), keep = onnx_real(c, "momentum", 0.9);
    int64_t axes[WEFT_MAX_NDIM];
    int n = but_channels(x, axes);
    bool is_written = onnx_trains(c) && onnx_state(c, MEAN) && onnx_state(c, VARIANCE);
    weft_value *y = weft_batch_norm_op(x, w, b, eps, NULL, NULL), *wide = x;
    if (!is_written && !onnx_wants(c, 1) && !onnx_wants(c, 2)) return y;
    if (weft_value_dtype(x) != WEFT_F64) wide = as(x, WEFT_F32);
    weft_value *mean = moved(running[0], weft_mean(wide, n, axes, false), keep);
    weft_value *variance = moved(running[1], weft_var(wide, 0, n, axes, false), keep);
    if (is_written) weft_assign(running[0], mean);
    if (is_written) weft_assign(running[1], variance);
    onnx_result(c, 1, mean);
    onnx_result(c, 2, variance);
    return y;
}

/* What weft_batch_norm() makes of a training graph: its kernels, and PyTorch's unbiased running variance. */
static weft_value *trained(onnx_call *c, weft_value *x, weft_value *w, weft_value *b,
                           weft_value *running[2]) {
    double eps = eps_of(c, 1e-5), keep = onnx_real(c, "momentum", 0.9);
    weft_value *of_batch[2], *y = weft_batch_norm_op(x, w, b, eps, &of_batch[0], &of_batch[1]);
    for (int i = 0; y && i < 2; i++) {
        weft_value *added = weft_scale(of_batch[i], 1 - keep);
        weft_assign(running[i], weft_add(weft_scale(running[i], keep), added));
    }
    return y;
}

/* By the running statistics, in their type. */
static weft_value *by_running(onnx_call *c, weft_value *x, weft_value *w, weft_value *b,
                              weft_value *running[2]) {
    double eps = eps_of(c, 1e-5);
    weft_dtype dtype = weft_value_dtype(x), of = weft_value_dtype(running[0]);
    onnx_real(c, "momentum", 0.9); /* of training alone */
    x = as(x, of);
    weft_value *variance = as(running[1], of);
    w = as(w, of);
    b = as(b, of);
    return as(weft_batch_norm_eval_op(x, running[0], variance, w, b, eps), dtype);
}

/* Operands: x, scale, bias, mean, variance. */
weft_value *onnx_build_batch_norm(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    bool is_old = c->opset < 14, is_training = !is_old && onnx_int(c, "training_mode", 0);
    if (c->opset < 9 && !onnx_int(c, "spatial", 1))
        return onnx_refuse(c, "spatial 0: a norm of each element");
    weft_value *mean = statistics(c, MEAN), *variance = statistics(c, VARIANCE),
               *running[2] = {mean, variance};
    if (!x || !w || !b || !running[0] || !running[1]) return NULL;
    if (is_training) return by_batch(c, x, w, b, running);
    bool has_states = onnx_state(c, MEAN) && onnx_state(c, VARIANCE);
    bool is_trained = onnx_trains(c) && !c->in->options->batch_norm_eval;
    if (is_trained && !has_states)
        return onnx_refuse(c, "running statistics must be initializers of float to be "
                              "updated (batch_norm_eval keeps them)");
    if (onnx_trains(c) && !is_trained) c->in->keeps_statistics = true;
    return is_trained ? trained(c, x, w, b, running) : by_running(c, x, w, b, running);
}

/* ---- images and groups ---- */

weft_value *onnx_build_instance_norm(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    return weft_instance_norm_op(x, w, b, eps_of(c, 1e-5));
}

/* Until opset 21 scale and bias have a number for each group. */
weft_value *onnx_build_group_norm(onnx_call *c) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = onnx_in(c, 2);
    int64_t groups = onnx_int(c, "num_groups", 0);
    if (!x || !w || !b || !stash_fits(c)) return NULL;
    if (groups < 1 || weft_ndim(x) < 2 || weft_dim(x, 1) % groups)
        return onnx_refuse(c, "num_groups is %jd", groups);
    int64_t channels = weft_dim(x, 1) / groups;
    if (c->opset < 21 && channels > 1) {
        w = weft_repeat_interleave(w, channels, 0);
        b = weft_repeat_interleave(b, channels, 0);
    }
    return weft_group_norm_op(x, groups, w, b, eps_of(c, 1e-5));
}

/* ---- rows: the axes from `axis` on ---- */

/* Whether w has exactly the lengths of these axes. */
static bool is_row(weft_value *w, weft_value *x, int axis) {
    if (weft_ndim(w) != weft_ndim(x) - axis) return false;
    for (int i = axis; i < weft_ndim(x); i++)
        if (weft_dim(w, i - axis) != weft_dim(x, i)) return false;
    return true;
}

/* Ones of the lengths of these axes. */
static weft_value *ones(onnx_call *c, weft_value *x, int axis) {
    int64_t own[WEFT_MAX_NDIM];
    onnx_shape_of(c, 0, own);
    for (int i = axis; i < weft_ndim(x); i++)
        if (own[i] < 1) return onnx_refuse(c, "axis %d, which is normalized, depends on the batch", i);
    return weft_constant(onnx_graph_of(c), weft_value_dtype(x), weft_ndim(x) - axis, own + axis, 1);
}

static int axes_from(int axis, weft_value *x, int64_t axes[WEFT_MAX_NDIM]) {
    int n = 0;
    for (int i = axis; i < weft_ndim(x); i++) axes[n++] = i;
    return n;
}

/* Results 1 and 2, mean and 1 / sqrt(variance + eps), in stash_type. */
static void row_statistics(onnx_call *c, weft_value *x, int axis, double eps) {
    int64_t axes[WEFT_MAX_NDIM];
    int n = axes_from(axis, x, axes);
    weft_dtype to = WEFT_F32;
    onnx_dtype((int)onnx_int(c, "stash_type", ONNX_FLOAT), &to);
    if (weft_value_dtype(x) != WEFT_F64) x = as(x, WEFT_F32);
    if (onnx_wants(c, 1)) onnx_result(c, 1, as(weft_mean(x, n, axes, true), to));
    if (!onnx_wants(c, 2)) return;
    weft_value *variance = weft_var(x, 0, n, axes, true);
    onnx_result(c, 2, as(weft_rsqrt(eps > 0 ? weft_offset(variance, eps) : variance), to));
}

/* A scale that broadcasts otherwise is multiplied after the norm of Weft. */
static weft_value *row_norm(onnx_call *c, weft_value *x, weft_value *w, weft_value *b, int axis, double eps,
                            bool is_rms) {
    bool is_exact = is_row(w, x, axis) && (!b || is_row(b, x, axis));
    weft_value *own = is_exact ? w : ones(c, x, axis);
    if (!own) return NULL;
    weft_value *y =
        is_rms ? weft_rms_norm_op(x, own, eps) : weft_layer_norm_op(x, own, is_exact ? b : NULL, eps);
    if (is_exact) return y;
    y = weft_mul(y, as(w, weft_value_dtype(x)));
    return b ? weft_add(y, as(b, weft_value_dtype(x))) : y;
}

static weft_value *norm_from_axis(onnx_call *c, bool is_rms) {
    weft_value *x = onnx_in(c, 0), *w = onnx_in(c, 1), *b = is_rms ? NULL : onnx_in(c, 2);
    int64_t given = onnx_int(c, "axis", -1);
    double eps = eps_of(c, 1e-5);
    int axis;
    if (!x || !w || !stash_fits(c) || !onnx_axis_of(c, given, weft_ndim(x), &axis)) return NULL;
    if (!is_rms) row_statistics(c, x, axis, eps);
    return row_norm(c, x, w, b, axis, eps, is_rms);
}

weft_value *onnx_build_layer_norm(onnx_call *c) {
    return norm_from_axis(c, false);
}

weft_value *onnx_build_rms_norm(onnx_call *c) {
    return norm_from_axis(c, true);
}

/* ---- norms without parameters ---- */

/* x / its norm along an axis; 0 where all is 0. */
weft_value *onnx_build_lp_norm(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t p = onnx_int(c, "p", 2), given = onnx_int(c, "axis", -1);
    int axis;
    if (p != 1 && p != 2) return onnx_refuse(c, "p is %jd", p);
    if (!x || !onnx_axis_of(c, given, weft_ndim(x), &axis)) return NULL;
    weft_value *length = weft_vector_norm(x, (double)p, 1, (int64_t[]){axis}, true),
               *zero = onnx_constant(c, length, 0);
    weft_value *is_zero = weft_equal(length, zero), *one = onnx_constant(c, length, 1);
    return weft_div(x, weft_where(is_zero, one, length));
}

/* (x - mean) / (standard deviation + 1e-9), over axes. */
weft_value *onnx_build_mean_variance_norm(onnx_call *c) {
    static const int64_t usual[] = {0, 2, 3};
    int n;
    weft_value *x = onnx_in(c, 0);
    const int64_t *axes = onnx_ints(c, "axes", &n);
    if (!axes) axes = usual, n = 3;
    weft_value *mean = weft_mean(x, n, axes, true), *deviation = weft_std(x, 0, n, axes, true);
    x = weft_sub(x, mean);
    return weft_div(x, weft_offset(deviation, 1e-9));
}

/* x / (bias + alpha / size * the sum of squares of the channels around)^beta. */
weft_value *onnx_build_lrn(onnx_call *c) {
    weft_value *x = onnx_in(c, 0);
    int64_t own[WEFT_MAX_NDIM], size = onnx_int(c, "size", 0), rest = 1;
    double alpha = onnx_real(c, "alpha", 0.0001F), beta = onnx_real(c, "beta", 0.75),
           bias = onnx_real(c, "bias", 1);
    if (!x) return NULL;
    if (size < 1 || size > INT32_MAX) return onnx_refuse(c, "size is %jd", size);
    if (weft_ndim(x) < 2) return onnx_refuse(c, "x has %d axes", weft_ndim(x));
    onnx_shape_of(c, 0, own);
    for (int i = 2; i < weft_ndim(x); i++) rest = rest < 0 || own[i] < 0 ? -1 : rest * own[i];
    if (own[0] == ONNX_DEPENDS && rest < 0) return onnx_refuse(c, "several axes depend on the batch");
    int64_t image[] = {own[0] == ONNX_DEPENDS ? -1 : own[0], 1, own[1], rest};
    weft_pool pool = {.kernel = {size, 1}, .stride = {1, 1}};
    weft_value *squares = weft_pad(weft_reshape(weft_square(x), 4, image), 2, (size - 1) / 2, size / 2);
    weft_value *near = onnx_reshape(c, weft_avg_pool2d(squares, &pool), weft_ndim(x), own);
    weft_value *base = weft_offset(weft_scale(near, alpha), bias);
    return weft_div(x, weft_pow(base, onnx_constant(c, base, beta)));
}
