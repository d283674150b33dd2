/* ops.h - every op as a builder. Shapes are row-major, images NCHW; names, broadcasting and defaults follow
 * PyTorch. Each returns the new value (owned by the model), or NULL after recording the error.
 * The rules and formulas stand in ops/<name>.c; `graphtool ops` prints them.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pointwise, one operand; floating point unless said ---- */
WEFT_API weft_value *weft_neg(weft_value *x);
WEFT_API weft_value *weft_abs(weft_value *x);
WEFT_API weft_value *weft_square(weft_value *x);
WEFT_API weft_value *weft_sqrt(weft_value *x);
WEFT_API weft_value *weft_rsqrt(weft_value *x); /* 1 / sqrt(x) */
WEFT_API weft_value *weft_reciprocal(weft_value *x);
WEFT_API weft_value *weft_exp(weft_value *x);
WEFT_API weft_value *weft_log(weft_value *x);
WEFT_API weft_value *weft_tanh(weft_value *x);
WEFT_API weft_value *weft_sigmoid(weft_value *x);
WEFT_API weft_value *weft_relu(weft_value *x);
WEFT_API weft_value *weft_leaky_relu(weft_value *x, double slope); /* PyTorch's default slope is 0.01 */
/* x, but at least min and at most max */
WEFT_API weft_value *weft_clamp(weft_value *x, double min, double max);
/* log(1 + exp(beta x)) / beta; x where beta x > threshold. PyTorch's defaults are 1 and 20. */
WEFT_API weft_value *weft_softplus(weft_value *x, double beta, double threshold);
WEFT_API weft_value *weft_gelu(weft_value *x);                  /* x * Phi(x), by erf */
WEFT_API weft_value *weft_gelu_tanh(weft_value *x);             /* the tanh approximation */
WEFT_API weft_value *weft_scale(weft_value *x, double factor);  /* factor * x */
WEFT_API weft_value *weft_offset(weft_value *x, double amount); /* x + amount */
/* any type to any; float to integer truncates */
WEFT_API weft_value *weft_cast(weft_value *x, weft_dtype dtype);
WEFT_API weft_value *weft_stop_gradient(weft_value *x); /* x, through which no gradient flows */

/* ---- pointwise, two operands of one type that broadcast ---- */
WEFT_API weft_value *weft_add(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_sub(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_mul(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_div(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_pow(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_maximum(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_minimum(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_equal(weft_value *a, weft_value *b);   /* -> bool, any type */
WEFT_API weft_value *weft_greater(weft_value *a, weft_value *b); /* -> bool, any type: a > b */
/* condition (bool) ? a : b; all three broadcast */
WEFT_API weft_value *weft_where(weft_value *condition, weft_value *a, weft_value *b);

/* ---- reductions; axes may be negative; n_axes 0 with axes NULL means over all axes ---- */
WEFT_API weft_value *weft_sum(weft_value *x, int n_axes, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_mean(weft_value *x, int n_axes, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_argmax(weft_value *x, int axis, bool keep); /* -> i64; the first of equal ones */

/* ---- shape ---- */
/* One axis may be -1: what is left; an axis may be WEFT_BATCH. */
WEFT_API weft_value *weft_reshape(weft_value *x, int ndim, const int64_t *shape);
WEFT_API weft_value *weft_flatten(weft_value *x, int first_axis); /* merges first_axis and all after it */
WEFT_API weft_value *weft_permute(weft_value *x, const int64_t *axes);
WEFT_API weft_value *weft_transpose(weft_value *x, int axis_a, int axis_b);
WEFT_API weft_value *weft_broadcast_to(weft_value *x, int ndim, const int64_t *shape);
WEFT_API weft_value *weft_concat(int n, weft_value *const *values, int axis);
/* Elements begin <= i < end of `axis`; negative counts from the end; end INT64_MAX: to the end. */
WEFT_API weft_value *weft_slice(weft_value *x, int axis, int64_t begin, int64_t end);
/* Zeros around: `before` and `after` elements of `axis`. */
WEFT_API weft_value *weft_pad(weft_value *x, int axis, int64_t before, int64_t after);

/* ---- makers ---- */
/* A tensor of one value, which the type must be able to hold (no 0.5 as an integer, no 1e6 in f16). Shape may hold
 * WEFT_BATCH. */
WEFT_API weft_value *weft_constant(weft_graph *graph, weft_dtype dtype, int ndim, const int64_t *shape,
                                   double value);
/* f32 numbers, new at each run: keyed by seed, scope path, ordinal of the call and the graph's step. */
WEFT_API weft_value *weft_random_uniform(weft_graph *graph, int ndim, const int64_t *shape, double low,
                                         double high);
WEFT_API weft_value *weft_random_normal(weft_graph *graph, int ndim, const int64_t *shape, double mean,
                                        double std);
/* the identity in eval mode; scales by 1/(1-p) in train */
WEFT_API weft_value *weft_dropout(weft_value *x, double p);

/* ---- linear algebra ---- */
/* Matrices in the last two axes, the axes before them broadcast; transposes mean those last two. */
WEFT_API weft_value *weft_matmul(weft_value *a, weft_value *b, bool transpose_a, bool transpose_b);
/* x[..., in] w[out, in] b[out] (or NULL) -> x w^T + b, [..., out] */
WEFT_API weft_value *weft_linear_op(weft_value *x, weft_value *w, weft_value *b);
/* Rows of w[rows, d] by integer ids [...] -> [..., d]; an id outside fails the run. */
WEFT_API weft_value *weft_embedding_op(weft_value *w, weft_value *ids);
/* q, k, v [B, H, T, D] -> softmax(q k^T * scale) v; scale 0 means 1/sqrt(D), any other is taken as it is;
 * causal: keys j <= i only. */
WEFT_API weft_value *weft_attention(weft_value *q, weft_value *k, weft_value *v, bool causal, double scale);

/* ---- images ---- */
/* NULL or zero-initialized: PyTorch's defaults. */
typedef struct weft_window {
    int64_t stride[2], pad[2], dilation[2]; /* height, width; 0 means 1 for stride and dilation, 0 for pad */
    int64_t groups;                         /* 0 means 1 */
    int64_t output_padding[2];              /* conv_transpose2d; an error in conv2d */
} weft_window;
/* x[N, C, H, W] w[out, C/groups, kh, kw] b[out] or NULL */
WEFT_API weft_value *weft_conv2d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window);
/* x[N, C, H, W] w[C, out/groups, kh, kw] b[out] or NULL */
WEFT_API weft_value *weft_conv_transpose2d_op(weft_value *x, weft_value *w, weft_value *b,
                                              const weft_window *window);

typedef struct weft_pool {
    int64_t kernel[2];         /* height, width; at least 1: it has no default */
    int64_t stride[2], pad[2]; /* stride 0: the kernel's size; pad at most half of the kernel */
} weft_pool;
WEFT_API weft_value *weft_max_pool2d(weft_value *x, const weft_pool *pool);
/* zeros of the padding are counted */
WEFT_API weft_value *weft_avg_pool2d(weft_value *x, const weft_pool *pool);
WEFT_API weft_value *weft_adaptive_avg_pool2d(weft_value *x, int64_t height, int64_t width);

/* ---- normalization and losses ---- */
WEFT_API weft_value *weft_softmax(weft_value *x, int axis);
WEFT_API weft_value *weft_log_softmax(weft_value *x, int axis);
/* Over the last axis; w and b [d] or both NULL. eps: 0 means 1e-5, WEFT_ZERO (train.h) a true 0. */
WEFT_API weft_value *weft_layer_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps);
/* logits[N, classes], integer target[N] (not [N, 1]) -> mean over rows, f32[]; target -100 rows are ignored. */
WEFT_API weft_value *weft_cross_entropy(weft_value *logits, weft_value *target);
/* Of the next two the target has x's shape, or is a single number, [] (else [4,1] against [4] would become [4,4]).
 * Element by element, not reduced: max(x,0) - x t + log(1 + exp(-|x|)). */
WEFT_API weft_value *weft_bce_with_logits(weft_value *x, weft_value *target);
WEFT_API weft_value *weft_mse(weft_value *x, weft_value *target); /* mean of squared differences, [] */

#ifdef __cplusplus
}
#endif
#endif
