/* norm_gradient.c - the gradient of layer_norm_backward and batch_norm_backward, which differ only in the
 * axes of their means. With xhat = (x - mean) rstd and g = dy w, the op computes
 *     dx = rstd (g - mean(g) - xhat mean(g xhat))        dw = sum of dy xhat        db = sum of dy
 * For a loss whose gradients by dx, dw and db are a, p and q, let u = a - mean(a) - xhat mean(a xhat) and
 * v = p dy - rstd (a mean(g xhat) + g mean(a xhat)). Its gradients are
 *     by dy: w rstd u + p xhat + q        by w: sum of dy rstd u        by x: rstd v
 *     by mean: -sum of rstd v             by rstd: sum of g u + v (x - mean)
 * mean and rstd count as operands here; how they depend on x is norm_statistics_gradient. All is computed in
 * f32 or f64, and of public builders, so third gradients come by themselves. */
#include "ops/norm_loss/norm.h"

/* In sums and products NULL is zero: where nothing flows, nothing is built. */
static weft_value *plus(weft_value *a, weft_value *b) {
    return a && b ? weft_add(a, b) : a ? a : b;
}

static weft_value *times(weft_value *a, weft_value *b) {
    return a && b ? weft_mul(a, b) : NULL;
}

static weft_value *minus(weft_value *a, weft_value *b) {
    return a && b ? weft_sub(a, b) : a ? a : weft_neg(b);
}

static weft_value *mean_over(weft_value *v, const norm_axes *axes) {
    return weft_mean(v, axes->n, axes->v, true);
}

static weft_value *sum_over(weft_value *v, const norm_axes *axes) {
    return weft_sum(v, axes->n, axes->v, true);
}

/* Not reduced, as statistics and weights are. */
static weft_value *wide(weft_value *v) {
    weft_dtype dtype = v ? dtype_accumulator(v->type.dtype) : WEFT_F32;
    return v && v->type.dtype != dtype ? weft_cast(v, dtype) : v;
}

static weft_value *shaped(weft_value *v, const tensor_type *shape) {
    return v && !shape_equal(&v->type, shape) ? weft_reshape(v, shape->ndim, shape->shape) : v;
}

/* The shape of x with length 1 at the axes of the means: that in which statistics broadcast against x. */
static tensor_type kept_type(const weft_value *x, const norm_axes *axes) {
    tensor_type t = x->type;
    for (int i = 0; i < axes->n; i++) t.shape[axes->v[i]] = 1;
    return t;
}

/* x - mean; x itself for a norm that has no mean. */
static weft_value *centered_of(const norm_parts *of, const tensor_type *kept) {
    weft_value *x = wide(of->x);
    return of->mean ? weft_sub(x, shaped(wide(of->mean), kept)) : x;
}

/* v, of x's shape or narrower, as a gradient of x: in its shape and type. */
static weft_value *as_operand(weft_value *v, const weft_value *x) {
    if (v && !shape_equal(&v->type, &x->type)) v = weft_broadcast_to(v, x->type.ndim, x->type.shape);
    return v && v->type.dtype != x->type.dtype ? weft_cast(v, x->type.dtype) : v;
}

void norm_backward_gradient(const norm_parts *of, const norm_axes *axes, weft_value *const *dout,
                            norm_parts *into) {
    of->x->node->graph->building_f32 = true;
    tensor_type kept = kept_type(of->x, axes), weight = of->w && of->weight_is_row ? of->w->type : kept;
    weft_value *dy = wide(of->dy), *w = shaped(wide(of->w), &weight), *rstd = shaped(wide(of->rstd), &kept);
    weft_value *a = wide(dout[0]), *p = shaped(wide(dout[1]), &weight), *q = shaped(wide(dout[2]), &weight);
    weft_value *centered = centered_of(of, &kept), *xhat = weft_mul(centered, rstd);
    weft_value *g = w ? weft_mul(dy, w) : dy;
    /* slope = mean(a xhat), steep = mean(g xhat) */
    weft_value *slope = mean_over(times(a, xhat), axes), *steep = mean_over(times(g, xhat), axes);
    weft_value *moved = times(xhat, slope), *level = of->mean ? mean_over(a, axes) : NULL;
    weft_value *u = minus(minus(a, level), moved), *ru = times(rstd, u);
    weft_value *a_steep = times(a, steep), *g_slope = times(g, slope);
    weft_value *bent = times(rstd, plus(a_steep, g_slope)), *straight = times(p, dy);
    weft_value *v = minus(straight, bent), *by_x = times(rstd, v);

    weft_value *by_dy = w ? times(ru, w) : ru, *p_xhat = times(p, xhat);
    into->dy = as_operand(plus(plus(by_dy, p_xhat), q), of->dy);
    into->x = as_operand(by_x, of->x);
    into->w = w && ru ? shaped(sum_to(weft_mul(dy, ru), w), &of->w->type) : NULL;
    if (of->mean && by_x) into->mean = shaped(weft_neg(sum_over(by_x, axes)), &of->mean->type);
    weft_value *gu = times(g, u), *vx = times(v, centered);
    into->rstd = shaped(sum_over(plus(gu, vx), axes), &of->rstd->type);
}

/* dx, and what flows through the unbiased variance: 2 (x - mean) / (n - 1). */
weft_value *norm_variance_gradient(const norm_parts *of, const norm_axes *axes, weft_value *dx,
                                   weft_value *dvariance) {
    if (!dvariance) return dx;
    of->x->node->graph->building_f32 = true;
    tensor_type kept = kept_type(of->x, axes);
    double n = (double)type_elements(&of->x->type) / (double)type_elements(&kept);
    weft_value *by_channel = shaped(wide(dvariance), &kept), *centered = centered_of(of, &kept);
    weft_value *each = times(by_channel, centered);
    return plus(dx, as_operand(weft_scale(each, 2 / (n - 1)), of->x));
}

/* mean = sum of x / n; rstd = (mean of (x - mean)^2 + eps)^(-1/2), so drstd / dx = -rstd^3 (x - mean) / n. */
weft_value *norm_statistics_gradient(const norm_parts *of, const norm_axes *axes, weft_value *dx,
                                     weft_value *dmean, weft_value *drstd) {
    if (!dmean && !drstd) return dx;
    of->x->node->graph->building_f32 = true;
    tensor_type kept = kept_type(of->x, axes);
    double n = (double)type_elements(&of->x->type) / (double)type_elements(&kept);
    weft_value *rstd = shaped(wide(of->rstd), &kept), *cube = weft_mul(rstd, weft_square(rstd));
    weft_value *each = times(shaped(wide(drstd), &kept), cube), *centered = centered_of(of, &kept);
    weft_value *bent = times(each, centered), *level = shaped(wide(dmean), &kept);
    weft_value *sum = minus(level, bent);
    return plus(dx, as_operand(weft_scale(sum, 1 / n), of->x));
}
