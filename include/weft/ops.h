/** @file
 * ops.h - every op as a builder.
 *
 * Shapes are row-major, images NCHW; names, broadcasting and defaults follow PyTorch. Each builder returns
 * the new value, which the model owns, or records the error in the model and returns NULL. ops/ has the rules
 * and formulas, one file an op; `graphtool ops` prints them.
 *
 * A value may have an axis of length 0, and then no elements. What an op makes of none is PyTorch's: a sum is
 * 0, a product 1, a mean NaN; where there is no such value, as of weft_amax(), it is an error. Inputs,
 * parameters, state and outputs have elements. A plan holds nothing that has none.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name Pointwise, one operand
 * x is floating point unless said otherwise; neg, abs, square, sign, clamp, scale and offset take i32 and
 * i64, too, where results wrap around and numbers are whole. The result has x's shape and type.
 * @{ */
WEFT_API weft_value *weft_neg(weft_value *x);        /**< -x */
WEFT_API weft_value *weft_abs(weft_value *x);        /**< The absolute value of x. */
WEFT_API weft_value *weft_square(weft_value *x);     /**< x^2 */
WEFT_API weft_value *weft_sqrt(weft_value *x);       /**< The square root of x. */
WEFT_API weft_value *weft_rsqrt(weft_value *x);      /**< 1 / sqrt(x) */
WEFT_API weft_value *weft_reciprocal(weft_value *x); /**< 1 / x */
WEFT_API weft_value *weft_exp(weft_value *x);        /**< e^x */
WEFT_API weft_value *weft_log(weft_value *x);        /**< The natural logarithm of x. */
WEFT_API weft_value *weft_tanh(weft_value *x);       /**< The hyperbolic tangent of x. */
WEFT_API weft_value *weft_sigmoid(weft_value *x);    /**< 1 / (1 + exp(-x)) */
WEFT_API weft_value *weft_relu(weft_value *x);       /**< max(x, 0); NaN stays NaN */
/** x where x > 0, else slope * x. PyTorch's default slope is 0.01. */
WEFT_API weft_value *weft_leaky_relu(weft_value *x, double slope);
/** x, but at least min and at most max; either may be infinite. */
WEFT_API weft_value *weft_clamp(weft_value *x, double min, double max);
/** log(1 + exp(beta x)) / beta; x where beta x > threshold. PyTorch's defaults are 1 and 20. */
WEFT_API weft_value *weft_softplus(weft_value *x, double beta, double threshold);
WEFT_API weft_value *weft_gelu(weft_value *x);      /**< x * Phi(x), by erf */
WEFT_API weft_value *weft_gelu_tanh(weft_value *x); /**< The tanh approximation of weft_gelu(). */
WEFT_API weft_value *weft_silu(weft_value *x);      /**< x * sigmoid(x), also called swish */
WEFT_API weft_value *weft_mish(weft_value *x);      /**< x * tanh(log(1 + exp(x))) */
/** x where x > 0, else alpha * (exp(x) - 1). PyTorch's default is 1. */
WEFT_API weft_value *weft_elu(weft_value *x, double alpha);
/** 1.0507 * elu(x, 1.6733), the numbers that keep mean 0 and variance 1. */
WEFT_API weft_value *weft_selu(weft_value *x);
/** x where x > 0, else weight * x; weight is one number, [1] or [], or [C] along axis 1 of x. It is trained
 * like any parameter. */
WEFT_API weft_value *weft_prelu(weft_value *x, weft_value *weight);
WEFT_API weft_value *weft_hardswish(weft_value *x);   /**< x * min(max(x + 3, 0), 6) / 6 */
WEFT_API weft_value *weft_hardsigmoid(weft_value *x); /**< min(max(x + 3, 0), 6) / 6 */
/** x, but at least min and at most max. PyTorch's defaults are -1 and 1. */
WEFT_API weft_value *weft_hardtanh(weft_value *x, double min, double max);
WEFT_API weft_value *weft_relu6(weft_value *x);      /**< min(max(x, 0), 6) */
WEFT_API weft_value *weft_softsign(weft_value *x);   /**< x / (1 + |x|) */
WEFT_API weft_value *weft_logsigmoid(weft_value *x); /**< log(sigmoid(x)) */
WEFT_API weft_value *weft_expm1(weft_value *x);      /**< e^x - 1, with all digits near 0. */
WEFT_API weft_value *weft_log1p(weft_value *x);      /**< log(1 + x), with all digits near 0. */
WEFT_API weft_value *weft_erf(weft_value *x);        /**< The error function. */
WEFT_API weft_value *weft_sin(weft_value *x);        /**< The sine of x in radians. */
WEFT_API weft_value *weft_cos(weft_value *x);        /**< The cosine of x in radians. */
WEFT_API weft_value *weft_tan(weft_value *x);        /**< The tangent of x in radians. */
WEFT_API weft_value *weft_asin(weft_value *x);       /**< The inverse sine, in [-pi/2, pi/2]. */
WEFT_API weft_value *weft_acos(weft_value *x);       /**< The inverse cosine, in [0, pi]. */
WEFT_API weft_value *weft_atan(weft_value *x);       /**< The inverse tangent, in (-pi/2, pi/2). */
WEFT_API weft_value *weft_sinh(weft_value *x);       /**< The hyperbolic sine. */
WEFT_API weft_value *weft_cosh(weft_value *x);       /**< The hyperbolic cosine. */
WEFT_API weft_value *weft_asinh(weft_value *x);      /**< The inverse hyperbolic sine. */
WEFT_API weft_value *
weft_acosh(weft_value *x); /**< The inverse hyperbolic cosine, at least 0; NaN below 1. */
WEFT_API weft_value *
weft_atanh(weft_value *x); /**< The inverse hyperbolic tangent; NaN outside of [-1, 1]. */
WEFT_API weft_value *weft_floor(weft_value *x);       /**< The largest integer not above x. */
WEFT_API weft_value *weft_ceil(weft_value *x);        /**< The smallest integer not below x. */
WEFT_API weft_value *weft_round(weft_value *x);       /**< The nearest integer, halves to the even one. */
WEFT_API weft_value *weft_trunc(weft_value *x);       /**< x without its fraction. */
WEFT_API weft_value *weft_sign(weft_value *x);        /**< 1, 0 or -1; 0 for NaN */
WEFT_API weft_value *weft_isnan(weft_value *x);       /**< Whether x is NaN, as bool; any type. */
WEFT_API weft_value *weft_isinf(weft_value *x);       /**< Whether x is infinite, as bool; any type. */
WEFT_API weft_value *weft_logical_not(weft_value *x); /**< Whether x is 0, as bool; any type. */
WEFT_API weft_value *weft_bitwise_not(weft_value *x); /**< The bits that x lacks; u8, i32, i64 or bool. */
WEFT_API weft_value *weft_scale(weft_value *x, double factor);  /**< factor * x */
WEFT_API weft_value *weft_offset(weft_value *x, double amount); /**< x + amount */
/** x as another type, from any type to any. Floating point to integer truncates. */
WEFT_API weft_value *weft_cast(weft_value *x, weft_dtype dtype);
/** x of any type, through which no gradient flows. */
WEFT_API weft_value *weft_stop_gradient(weft_value *x);
/** @} */

/** @name Pointwise, two operands
 * a and b have one type and broadcast: axes are matched from the last, and an axis of length 1 is repeated.
 * The type is floating point; all but div, pow and those that say "any type" take i32 and i64, too: results
 * wrap around, and an element of b that is 0 in a quotient or remainder fails the run (WEFT_DATA).
 * @{ */
WEFT_API weft_value *weft_add(weft_value *a, weft_value *b); /**< a + b */
WEFT_API weft_value *weft_sub(weft_value *a, weft_value *b); /**< a - b */
WEFT_API weft_value *weft_mul(weft_value *a, weft_value *b); /**< a * b, element by element */
WEFT_API weft_value *weft_div(weft_value *a, weft_value *b); /**< a / b */
WEFT_API weft_value *weft_pow(weft_value *a, weft_value *b); /**< a to the power b */
WEFT_API weft_value *
weft_atan2(weft_value *a, weft_value *b); /**< The angle of the point (b, a) in radians, in [-pi, pi]. */
WEFT_API weft_value *weft_maximum(weft_value *a, weft_value *b); /**< The larger of a and b. */
WEFT_API weft_value *weft_minimum(weft_value *a, weft_value *b); /**< The smaller of a and b. */
WEFT_API weft_value *weft_equal(weft_value *a, weft_value *b);   /**< a == b as bool; operands of any type. */
WEFT_API weft_value *weft_greater(weft_value *a, weft_value *b); /**< a > b as bool; operands of any type. */
/** Comparisons as bool; operands of any one type. A comparison with NaN is false, but not_equal true. */
WEFT_API weft_value *weft_not_equal(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_greater_equal(weft_value *a, weft_value *b); /**< a >= b */
WEFT_API weft_value *weft_less(weft_value *a, weft_value *b);          /**< a < b */
WEFT_API weft_value *weft_less_equal(weft_value *a, weft_value *b);    /**< a <= b */
/** Logic as bool, of operands of any one type: an element that is not 0 is true. */
WEFT_API weft_value *weft_logical_and(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_logical_or(weft_value *a, weft_value *b);  /**< a or b, or both */
WEFT_API weft_value *weft_logical_xor(weft_value *a, weft_value *b); /**< a or b, not both */
/** The bits that both have. Operands of one type: u8, i32, i64, or bool, where it is the logical one. */
WEFT_API weft_value *weft_bitwise_and(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_bitwise_or(weft_value *a, weft_value *b);  /**< The bits that a or b has. */
WEFT_API weft_value *weft_bitwise_xor(weft_value *a, weft_value *b); /**< Those that one of them has. */
/** a with its bits b places higher; b below 0 or past the width leaves 0. u8, i32 or i64. */
WEFT_API weft_value *weft_bitwise_left_shift(weft_value *a, weft_value *b);
/** The same to lower places; b below 0 or past the width leaves the sign. */
WEFT_API weft_value *weft_bitwise_right_shift(weft_value *a, weft_value *b);
/** What is left of a / b: fmod with the sign of a (as in C), remainder with that of b (as % in Python). */
WEFT_API weft_value *weft_fmod(weft_value *a, weft_value *b);
WEFT_API weft_value *weft_remainder(weft_value *a, weft_value *b); /**< See weft_fmod(). */
/** a / b rounded down. It has no gradient. */
WEFT_API weft_value *weft_floor_divide(weft_value *a, weft_value *b);
/** a / b without its fraction: torch.div(rounding_mode="trunc"). Its gradient is 0. */
WEFT_API weft_value *weft_trunc_divide(weft_value *a, weft_value *b);
/** condition ? a : b, element by element. The condition is bool; all three broadcast. */
WEFT_API weft_value *weft_where(weft_value *condition, weft_value *a, weft_value *b);
/** @} */

/** @name Reductions
 * Axes may be negative; n_axes 0 with axes NULL reduces over all axes. With `keep` a reduced axis stays, with
 * length 1.
 * @{ */
/** The sum; i64 of integers and bool, modulo 2^64. */
WEFT_API weft_value *weft_sum(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** The mean; x is floating point. */
WEFT_API weft_value *weft_mean(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** The largest element, of any type; NaN if one is NaN. Equal ones share the gradient evenly. */
WEFT_API weft_value *weft_amax(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** The smallest element; otherwise as weft_amax(). */
WEFT_API weft_value *weft_amin(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** The product; i64 of integers and bool. */
WEFT_API weft_value *weft_prod(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** Whether any element is not 0 (NaN is not), as bool; x of any type. */
WEFT_API weft_value *weft_any(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** Whether no element is 0, as bool; x of any type. */
WEFT_API weft_value *weft_all(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** Index of the largest element along one axis, as i64; the first of equal ones, NaN above all numbers. */
WEFT_API weft_value *weft_argmax(weft_value *x, int axis, bool keep);
/** Index of the smallest element along one axis, as i64; the first of equal ones, NaN below all numbers. */
WEFT_API weft_value *weft_argmin(weft_value *x, int axis, bool keep);
/** The largest element along one axis, of any type, and in *indices its index as i64 (NULL: not wanted): the
 * first of equal ones, which alone gets the gradient; NaN is above all numbers. */
WEFT_API weft_value *weft_max(weft_value *x, int axis, bool keep, weft_value **indices);
/** The smallest element along one axis and its index; otherwise as weft_max(). */
WEFT_API weft_value *weft_min(weft_value *x, int axis, bool keep, weft_value **indices);
/** The variance: the sum of (x - mean)^2 over n - correction, of n elements. PyTorch's default is 1 (what
 * is estimated from a sample); 0 gives the mean of the squares. */
WEFT_API weft_value *weft_var(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep);
/** The square root of weft_var(), the standard deviation; where it is 0, so is its gradient. */
WEFT_API weft_value *weft_std(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep);
/** log of the sum of e^x; nothing overflows, and of -inf alone it is -inf. */
WEFT_API weft_value *weft_logsumexp(weft_value *x, int n_axes, const int64_t *axes, bool keep);
/** (sum of |x|^p)^(1/p); PyTorch's default for p is 2. INFINITY takes the largest |x|, -INFINITY the
 * smallest, 0 counts the elements that are not 0. Where the norm is 0, so is its gradient. */
WEFT_API weft_value *weft_vector_norm(weft_value *x, double p, int n_axes, const int64_t *axes, bool keep);
/** The sum of each element and those before it along an axis, in the shape of x; i64 of integers and bool. */
WEFT_API weft_value *weft_cumsum(weft_value *x, int axis);
/** The product of each element and those before it along an axis, in the shape of x; i64 of integers and
 * bool. */
WEFT_API weft_value *weft_cumprod(weft_value *x, int axis);
/** @} */

/** @name Shape
 * x may have any type; its elements stay as they are. Axes may be negative.
 * @{ */
/** x's elements in another shape. One axis may be -1, which takes what is left (not beside an axis
 * of 0); an axis may be WEFT_BATCH. */
WEFT_API weft_value *weft_reshape(weft_value *x, int ndim, const int64_t *shape);
/** Merges first_axis and all axes after it into one. */
WEFT_API weft_value *weft_flatten(weft_value *x, int first_axis);
/** Axis i of the result is axis axes[i] of x; `axes` has one number for each axis of x. */
WEFT_API weft_value *weft_permute(weft_value *x, const int64_t *axes);
/** Swaps two axes. */
WEFT_API weft_value *weft_transpose(weft_value *x, int axis_a, int axis_b);
/** A new axis of length 1, which becomes number `axis` of the result: x[2, 3] at 1 -> [2, 1, 3], at -1 ->
 * [2, 3, 1] */
WEFT_API weft_value *weft_unsqueeze(weft_value *x, int axis);
/** Without `axis`, which must have length 1 (PyTorch leaves other axes as they are): x[2, 1, 3] at 1 -> [2,
 * 3] */
WEFT_API weft_value *weft_squeeze(weft_value *x, int axis);
/** Repeats x along axes of length 1 and along new axes in front of it. An axis of x that is -1 in `shape`
 * keeps its length. */
WEFT_API weft_value *weft_broadcast_to(weft_value *x, int ndim, const int64_t *shape);
/** Puts n values of one type one after the other along `axis`; their other axes are equal. */
WEFT_API weft_value *weft_concat(int n, weft_value *const *values, int axis);
/** Elements begin <= i < end of `axis`; none where begin is end. Negative numbers count from the end, and
 * INT64_MAX is the end. */
WEFT_API weft_value *weft_slice(weft_value *x, int axis, int64_t begin, int64_t end);
/** Elements begin, begin + step, ... before `end`, which as `begin` may be negative: x[begin:end:step]. The
 * step is at least 1. Where `axis` is the batch, the result has as many elements as a plan's batch gives. */
WEFT_API weft_value *weft_strided_slice(weft_value *x, int axis, int64_t begin, int64_t end, int64_t step);
/** Adds `before` and `after` zeros around the elements of `axis`. */
WEFT_API weft_value *weft_pad(weft_value *x, int axis, int64_t before, int64_t after);
/** torch.nn.functional.pad(x, pads, value=value): pairs {before, after} for the last axis, the one before
 * it, and so on: x[N, C, H, W] and the two pairs {1, 2, 3, 4} -> [N, C, 3 + H + 4, 1 + W + 2]. Negative
 * numbers cut elements off. The type of x must be able to hold the value. */
WEFT_API weft_value *weft_constant_pad(weft_value *x, int n_axes, const int64_t *pads, double value);
/** As weft_constant_pad(), with x itself mirrored at its border, which is not repeated: mode="reflect". No
 * number is negative. */
WEFT_API weft_value *weft_reflect_pad(weft_value *x, int n_axes, const int64_t *pads);
/** The same with the element at the border: mode="replicate". */
WEFT_API weft_value *weft_replicate_pad(weft_value *x, int n_axes, const int64_t *pads);
/** The same with what is at the other end: mode="circular". */
WEFT_API weft_value *weft_circular_pad(weft_value *x, int n_axes, const int64_t *pads);
/** x with zeros above the diagonal of its last two axes; `diagonal` 1 keeps one more, -1 one less. */
WEFT_API weft_value *weft_tril(weft_value *x, int64_t diagonal);
/** x with zeros below the diagonal of its last two axes; `diagonal` 1 keeps one less, -1 one more. */
WEFT_API weft_value *weft_triu(weft_value *x, int64_t diagonal);
/** Integer ids [...] -> [..., classes] of `dtype`: 1 where the class is the id, else 0. An id outside 0 to
 * classes - 1 gives zeros (PyTorch: an error). */
WEFT_API weft_value *weft_one_hot(weft_value *ids, int64_t classes, weft_dtype dtype);
/** n values of one type and shape along a new axis, which is number `axis` of the result: two [3, 4] at 1
 * -> [3, 2, 4] */
WEFT_API weft_value *weft_stack(int n, weft_value *const *values, int axis);
/** Repeats the whole of x along its last n axes, as torch.tile and torch.Tensor.repeat: x[2, 3] by {2, 1}
 * -> [4, 3]. With more repeats than axes x gets axes of length 1 in front. Repeats are 0 or more. */
WEFT_API weft_value *weft_tile(weft_value *x, int n, const int64_t *repeats);
/** Repeats each element along `axis`: x[2] = a b -> [2 repeats] = a a b b */
WEFT_API weft_value *weft_repeat_interleave(weft_value *x, int64_t repeats, int axis);
/** Moves elements `shift` places towards the end of `axis`, to the front for a negative shift; what leaves
 * at one side enters at the other. */
WEFT_API weft_value *weft_roll(weft_value *x, int64_t shift, int axis);
/** x with its elements in the other direction along n axes. */
WEFT_API weft_value *weft_flip(weft_value *x, int n_axes, const int64_t *axes);
/** Cuts `axis` into n parts of these sizes, and puts them into `parts`. One size may be -1: it takes what
 * the others leave. x[2, 7] at axis 1 by {3, -1} -> [2, 3], [2, 4]. Returns n, or 0 after an error. */
WEFT_API int weft_split(weft_value *x, int n, const int64_t *sizes, int axis, weft_value **parts);
/** Cuts `axis` into n equal parts; if n does not divide its length, into parts of the next larger size, the
 * last of which is smaller, and which may be fewer than n: x[6] by 4 -> [2], [2], [2]; of x[0] there are n.
 * Returns how many `parts` there are, or 0 after an error. A batch on axis 0 stays a batch if n divides
 * it. */
WEFT_API int weft_chunk(weft_value *x, int n, int axis, weft_value **parts);
/** The n values x[..., i, ...] of `axis`, which must be n long, without that axis: x[2, 3] at axis 0 ->
 * [3], [3]. Returns n, or 0 after an error. */
WEFT_API int weft_unbind(weft_value *x, int n, int axis, weft_value **parts);
/** @} */

/** @name Elements by index
 * ids are integers; one outside 0 to length - 1 of the axis fails the run (WEFT_DATA).
 * @{ */
/** y[i, j, k] = x[i, ids[i, j, k], k] for axis 1. ids have as many axes as x, outside `axis` at most as long;
 * the result has their shape. */
WEFT_API weft_value *weft_gather(weft_value *x, int axis, weft_value *ids);
/** The same with x and ids broadcast to each other outside `axis`, as torch.take_along_dim. */
WEFT_API weft_value *weft_take_along_axis(weft_value *x, weft_value *ids, int axis);
/** The parts of x at places ids[n] of `axis`: x[2, 5, 3] at axis 1 -> [2, n, 3] */
WEFT_API weft_value *weft_index_select(weft_value *x, int axis, weft_value *ids);
/** x, but with y[i, ids[i, j, k], k] = src[i, j, k] for axis 1. ids have as many axes as x, outside `axis` at
 * most as long; those of src are as long or longer, or src is one number, [], for all. Where ids name a place
 * several times, the last is kept. */
WEFT_API weft_value *weft_scatter(weft_value *x, int axis, weft_value *ids, weft_value *src);
/** As weft_scatter(), but adds to x, in the order of the axis. */
WEFT_API weft_value *weft_scatter_add(weft_value *x, int axis, weft_value *ids, weft_value *src);
/** Adds parts of src[2, n, 3] to x[2, 5, 3] at places ids[n] of `axis`, here 1. */
WEFT_API weft_value *weft_index_add(weft_value *x, int axis, weft_value *ids, weft_value *src);
/** How weft_scatter_reduce() joins elements. */
typedef enum weft_scatter_reduction {
    WEFT_SCATTER_SUM = 0,  /**< their sum */
    WEFT_SCATTER_PROD = 1, /**< their product */
    WEFT_SCATTER_MEAN = 2, /**< their mean, of integers rounded down */
    WEFT_SCATTER_AMAX = 3, /**< the largest; NaN if one is NaN; equal ones share the gradient */
    WEFT_SCATTER_AMIN = 4, /**< the smallest; otherwise as the largest */
} weft_scatter_reduction;
/** As weft_scatter_add(), but joins what ids name a place for, and with include_self x's element there. */
WEFT_API weft_value *weft_scatter_reduce(weft_value *x, int axis, weft_value *ids, weft_value *src,
                                         weft_scatter_reduction reduction, bool include_self);
/** The same for parts of src at places ids[n] of `axis`, as in weft_index_add(). */
WEFT_API weft_value *weft_index_reduce(weft_value *x, int axis, weft_value *ids, weft_value *src,
                                       weft_scatter_reduction reduction, bool include_self);
/** x[i, :, j]: n indices for the first axes of x, integers that broadcast to each other, or NULL for an axis
 * that is taken whole, as those after them are. The axes of the indices stand where the first axis with an
 * index was, or in front if an axis between two of them is taken whole: x[A, B, C, D] by {NULL, i, j} of [T]
 * -> [A, T, D], by {i, NULL, j} -> [T, B, D]. An index below 0 counts from the end (in the ops above it
 * fails the run). Masks of bool are refused: the shape would depend on them. ONNX: GatherND is this with the
 * parts that weft_unbind() makes of the last axis of its indices. */
WEFT_API weft_value *weft_index(weft_value *x, int n, weft_value *const *indices);
/** x, but with values at the places that weft_index() takes, to which they broadcast, or, with `accumulate`,
 * added there. Where indices name a place several times, the last is kept (row-major), or all are added in
 * this order. One mask of bool may be the only index, with values that do not count what is true: weft_where.
 * ONNX: ScatterND, with parts as above, and reduction="add" as accumulate; mul, max and min are
 * weft_scatter_reduce() with the axes of all parts as one. */
WEFT_API weft_value *weft_index_put(weft_value *x, int n, weft_value *const *indices, weft_value *values,
                                    bool accumulate);
/** How often each of 0 to bins - 1 is in x, integers of any shape: i64[bins]. PyTorch's grows with x. */
WEFT_API weft_value *weft_bincount(weft_value *x, int64_t bins);
/** x in rising order along `axis`, or in falling order. Equal elements keep their order; NaN is larger than
 * all numbers. `places`, if not NULL, gets their places in x, i64. */
WEFT_API weft_value *weft_sort(weft_value *x, int axis, bool descending, weft_value **places);
/** The places that weft_sort() gives. */
WEFT_API weft_value *weft_argsort(weft_value *x, int axis, bool descending);
/** The k largest elements along `axis`, the largest first, or the k smallest; of equal ones the first.
 * `places` as in weft_sort(). */
WEFT_API weft_value *weft_topk(weft_value *x, int64_t k, int axis, bool largest, weft_value **places);
/** @} */

/** @name Constants and random numbers
 * @{ */
/** A tensor whose elements are all `value`, which the type must be able to hold (no 0.5 as an integer, no 1e6
 * in f16); floating-point types hold infinities and NaN. The shape may have WEFT_BATCH. */
WEFT_API weft_value *weft_constant(weft_graph *graph, weft_dtype dtype, int ndim, const int64_t *shape,
                                   double value);
/** A tensor with the elements at `data`, which are copied: row-major, as many as `shape` says, at most
 * 32 MiB. They are part of the model and saved in model.bin. Elements of bool are 0 or 1. */
WEFT_API weft_value *weft_constant_tensor(weft_graph *graph, weft_dtype dtype, int ndim, const int64_t *shape,
                                          const void *data);
/** begin, begin + step, ... before `end`: [ceil((end - begin) / step)] numbers; `end` WEFT_BATCH: as
 * many as the batch. The type must hold the first and the last, and as an integer the step. */
WEFT_API weft_value *weft_arange(weft_graph *graph, weft_dtype dtype, double begin, double end, double step);
/** n numbers at equal distances from `begin` to `end`: [n]; `begin` alone if n is 1. */
WEFT_API weft_value *weft_linspace(weft_graph *graph, weft_dtype dtype, double begin, double end, int64_t n);
/** Ones where row and column have one number, else zeros: [rows, columns] */
WEFT_API weft_value *weft_eye(weft_graph *graph, weft_dtype dtype, int64_t rows, int64_t columns);
/** f32 numbers, uniform in [low, high), new at each run: they depend on the seed, the scope path, the number
 * of the call within it, and the graph's step. */
WEFT_API weft_value *weft_random_uniform(weft_graph *graph, int ndim, const int64_t *shape, double low,
                                         double high);
/** f32 numbers from a normal distribution; otherwise as weft_random_uniform(). */
WEFT_API weft_value *weft_random_normal(weft_graph *graph, int ndim, const int64_t *shape, double mean,
                                        double std);
/** In a training graph, x / (1 - p) with probability 1 - p, else 0. In an eval graph, x. */
WEFT_API weft_value *weft_dropout(weft_value *x, double p);
/** @} */

/** @name Linear algebra
 * @{ */
/** Matrix product over the last two axes; the axes before them broadcast. A transpose means those last
 * two. */
WEFT_API weft_value *weft_matmul(weft_value *a, weft_value *b, bool transpose_a, bool transpose_b);
/** torch.einsum: sums of products of n operands, whose axes letters name: "bij,bjk->bik" is a batch of matrix
 * products, "ii" a trace, "...i,i->..." rows times a vector. Without "->" the result has the axes of "...",
 * then those whose letter stands once. Operands are joined from the left to the right. */
WEFT_API weft_value *weft_einsum(const char *equation, int n, weft_value *const *operands);
/** x[..., in] w[out, in] b[out] (or NULL) -> x w^T + b, [..., out] */
WEFT_API weft_value *weft_linear_op(weft_value *x, weft_value *w, weft_value *b);
/** Rows of w[rows, d] by integer ids [...] -> [..., d]. An id outside 0 to rows - 1 fails the run
 * (WEFT_DATA). */
WEFT_API weft_value *weft_embedding_op(weft_value *w, weft_value *ids);
/** How weft_attention() computes; NULL or zeroes: PyTorch's defaults. Row i is at position t = i + offset. */
typedef struct weft_attention_options {
    bool causal;  /**< a row sees keys j <= t only, also where there are more keys than rows */
    double scale; /**< of the scores q k^T; 0: 1/sqrt(D) */
    /** NULL, or what broadcasts to the scores [B, H, T, S]: bool, true where a row sees a key; or numbers of
     * f32 or q's type, added to the scores. Besides the other limits. A row that sees no key gives 0, and
     * gradients of 0, as in PyTorch. */
    weft_value *mask;
    double dropout; /**< probability that an element of the softmax is dropped, in training graphs only */
    int64_t window; /**< a row sees keys t - window < j only; without `ahead` this implies `causal`; 0: all */
    int64_t ahead;  /**< a row sees keys j < t + ahead only: 1 is `causal`; INT64_MAX or 0: all */
    /** Keys before the first row: past keys, as in ONNX's Attention. S - T is torch's causal_lower_right. */
    int64_t offset;
    double softcap; /**< scores become softcap tanh(score / softcap), before the mask; 0: they do not */
    uint64_t reserved[WEFT_RESERVED - 3]; /**< zeros (status.h) */
} weft_attention_options;
/** softmax(q k^T scale) v, torch.nn.functional.scaled_dot_product_attention: q [B, H, T, D], k [B, H / n, S,
 * D], v [B, H / n, S, E] -> [B, H, T, E]. Each head of k and v is shared by n heads of q that follow one
 * another (PyTorch: enable_gqa). */
WEFT_API weft_value *weft_attention(weft_value *q, weft_value *k, weft_value *v,
                                    const weft_attention_options *options);
/** How weft_rotary() rotates; NULL or zeroes: as Llama does. */
typedef struct weft_rotary_options {
    double base;      /**< pair i of n turns by base^(-i / n) from row to row; 0: 10000 */
    int64_t offset;   /**< the position of the first row */
    int64_t dims;     /**< rotates the first `dims` columns only, an even number; 0: all */
    bool interleaved; /**< pairs are columns 2 i and 2 i + 1, as in GPT-J; else i and i + dims / 2 */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_rotary_options;
/** Rotary position embedding of q or k: x[..., T, D], the row is the position. */
WEFT_API weft_value *weft_rotary(weft_value *x, const weft_rotary_options *options);
/** @} */

/** @name Recurrent steps
 * What one time takes from the time before, for layers that have made the products of all inputs at once:
 * weft_lstm(), weft_gru() and weft_rnn() in layers.h. All times are one fused node. With `reverse` the steps
 * go from the last time to the first. Initial states [B, H] may be NULL: zeros. Their gradients exist once,
 * not twice.
 * @{ */
/** x[T, B, 4 H], what the inputs and both biases of torch.nn.LSTM add to its gates, and w[4 H, H], its
 * weight_hh -> h[T, B, H]. *c (NULL: not wanted) becomes c[T, B, H]; c and c0 are f32 where x is reduced. */
WEFT_API weft_value *weft_lstm_op(weft_value *x, weft_value *w, weft_value *h0, weft_value *c0, bool reverse,
                                  weft_value **c);
/** x[T, B, 3 H], what the inputs and bias_ih of torch.nn.GRU add to its gates, w[3 H, H], its weight_hh, and
 * b[3 H], its bias_hh (NULL: none; f32 where x is reduced) -> h[T, B, H]. */
WEFT_API weft_value *weft_gru_op(weft_value *x, weft_value *w, weft_value *h0, weft_value *b, bool reverse);
/** x[T, B, H], what the inputs and both biases of torch.nn.RNN add, and w[H, H], its weight_hh -> h[T, B, H]
 * by tanh or `relu`. */
WEFT_API weft_value *weft_rnn_op(weft_value *x, weft_value *w, weft_value *h0, bool reverse, bool relu);
/** @} */

/** @name Images
 * @{ */
/** Where a convolution's kernel is placed. NULL or zeroes: PyTorch's defaults. An axis has one number each:
 * of a line its length, of an image height and width, of a volume depth, height and width; the rest is 0. */
typedef struct weft_window {
    int64_t stride[3];   /**< elements between two places of the kernel; 0: 1 */
    int64_t pad[3];      /**< zeros added on each side */
    int64_t dilation[3]; /**< elements between two elements of the kernel; 0: 1 */
    int64_t groups;      /**< channels are cut into so many independent groups; 0: 1 */
    /** Elements added to one side of each axis of a transposed convolution's result; else an error. */
    int64_t output_padding[3];
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_window;
/** Convolution: x[N, C, H, W] w[out, C/groups, kh, kw] b[out] or NULL -> [N, out, H', W'] */
WEFT_API weft_value *weft_conv2d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window);
/** Transposed convolution: x[N, C, H, W] w[C, out/groups, kh, kw] b[out] or NULL -> [N, out, H', W'] */
WEFT_API weft_value *weft_conv_transpose2d_op(weft_value *x, weft_value *w, weft_value *b,
                                              const weft_window *window);

/** Convolution of lines: x[N, C, L] w[out, C/groups, k] b[out] or NULL -> [N, out, L'] */
WEFT_API weft_value *weft_conv1d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window);
/** Transposed convolution of lines: x[N, C, L] w[C, out/groups, k] b[out] or NULL -> [N, out, L'] */
WEFT_API weft_value *weft_conv_transpose1d_op(weft_value *x, weft_value *w, weft_value *b,
                                              const weft_window *window);

/** Convolution of volumes: x[N, C, D, H, W] w[out, C/groups, kd, kh, kw] b[out] or NULL -> y[N, out, ...] */
WEFT_API weft_value *weft_conv3d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window);
/** Transposed convolution of volumes, with w[C, out/groups, kd, kh, kw]. */
WEFT_API weft_value *weft_conv_transpose3d_op(weft_value *x, weft_value *w, weft_value *b,
                                              const weft_window *window);

/** Where a pool's kernel is placed. An axis has one number each, as in weft_window. */
typedef struct weft_pool {
    int64_t kernel[3]; /**< at least 1: there is no default */
    int64_t stride[3]; /**< 0: the kernel's size */
    /** On each side. A window with nothing but padding is an error where it has no value: of maxima, and of
     * averages that do not count the padding. */
    int64_t pad[3];
    int64_t dilation[3]; /**< elements between two elements of the kernel; 0: 1 */
    bool ceil_mode;   /**< a last window that reaches beyond the padding counts too, if it begins before it */
    bool exclude_pad; /**< averages do not count the padding: count_include_pad=False in PyTorch */
    int64_t divisor;  /**< what averages divide by: divisor_override in PyTorch; 0: the elements counted */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_pool;
/** The largest element of each window: x[N, C, H, W] -> [N, C, H', W'] */
WEFT_API weft_value *weft_max_pool2d(weft_value *x, const weft_pool *pool);
/** The mean of each window: x[N, C, H, W] -> [N, C, H', W']. Zeros of the padding are counted, unless
 * exclude_pad is set. */
WEFT_API weft_value *weft_avg_pool2d(weft_value *x, const weft_pool *pool);
/** Means over windows that cut the image into height times width: x[N, C, H, W] -> [N, C, height, width] */
WEFT_API weft_value *weft_adaptive_avg_pool2d(weft_value *x, int64_t height, int64_t width);
/** The largest elements of such windows. */
WEFT_API weft_value *weft_adaptive_max_pool2d(weft_value *x, int64_t height, int64_t width);
/** The largest element of each window of a line: x[N, C, L] -> [N, C, L'] */
WEFT_API weft_value *weft_max_pool1d(weft_value *x, const weft_pool *pool);
/** The mean of each window of a line. */
WEFT_API weft_value *weft_avg_pool1d(weft_value *x, const weft_pool *pool);
/** Means over windows that cut the line into `length`: x[N, C, L] -> [N, C, length] */
WEFT_API weft_value *weft_adaptive_avg_pool1d(weft_value *x, int64_t length);
/** The largest elements of such windows. */
WEFT_API weft_value *weft_adaptive_max_pool1d(weft_value *x, int64_t length);
/** The largest element of each window of a volume: x[N, C, D, H, W] -> [N, C, D', H', W'] */
WEFT_API weft_value *weft_max_pool3d(weft_value *x, const weft_pool *pool);
/** The mean of each window of a volume. */
WEFT_API weft_value *weft_avg_pool3d(weft_value *x, const weft_pool *pool);
/** Means over windows that cut the volume into depth times height times width. */
WEFT_API weft_value *weft_adaptive_avg_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width);
/** The largest elements of such windows. */
WEFT_API weft_value *weft_adaptive_max_pool3d(weft_value *x, int64_t depth, int64_t height, int64_t width);

/** What weft_interpolate() puts between elements. */
typedef enum weft_interpolation_mode {
    WEFT_INTERPOLATE_NEAREST = 0, /**< the element at or before, PyTorch's default: mode="nearest" */
    WEFT_INTERPOLATE_NEAREST_EXACT =
        1, /**< the element whose middle is nearest, as Pillow: mode="nearest-exact" */
    WEFT_INTERPOLATE_BILINEAR = 2, /**< a weighted mean of the neighbours: mode="bilinear", "linear" for
                                      lines, "trilinear" for volumes */
    WEFT_INTERPOLATE_BICUBIC = 3,  /**< of 4 x 4 elements of an image: mode="bicubic" */
} weft_interpolation_mode;
/** The size of weft_interpolate()'s result: length, or height and width, or depth, height and width. */
typedef struct weft_interpolation {
    int64_t size[3];              /**< of the result; 0: by scale */
    double scale[3];              /**< size of the result: floor(size of x * scale); 0: by size */
    weft_interpolation_mode mode; /**< 0: the nearest element */
    bool align_corners; /**< not nearest: the middles of the corners coincide; else the corners do */
    bool antialias; /**< of images, bilinear or bicubic: a smaller result is a mean of all that it covers */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_interpolation;
/** An image x[N, C, H, W], line x[N, C, L] or volume x[N, C, D, H, W] in another size:
 * torch.nn.functional.interpolate. */
WEFT_API weft_value *weft_interpolate(weft_value *x, const weft_interpolation *options);
/** How weft_grid_sample() reads between elements. */
typedef enum weft_grid_mode {
    WEFT_GRID_BILINEAR = 0, /**< PyTorch's default; of volumes trilinear */
    WEFT_GRID_NEAREST = 1,  /**< the nearest element */
    WEFT_GRID_BICUBIC = 2,  /**< of 4 elements along an axis */
} weft_grid_mode;
/** What weft_grid_sample() reads outside of x. */
typedef enum weft_grid_padding {
    WEFT_GRID_ZEROS = 0,      /**< 0, PyTorch's default */
    WEFT_GRID_BORDER = 1,     /**< the nearest element of the border */
    WEFT_GRID_REFLECTION = 2, /**< x, reflected at its borders as often as needed */
} weft_grid_padding;
/** Options of weft_grid_sample(). */
typedef struct weft_grid_options {
    weft_grid_mode mode;       /**< between elements; 0: bilinear */
    weft_grid_padding padding; /**< outside of x; 0: zeros */
    bool align_corners; /**< -1 and 1 are the middles of the first and the last element, not their borders */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_grid_options;
/** x[N, C, H, W] at the places (x, y) of grid[N, h, w, 2], from -1 to 1 along an axis: [N, C, h, w]; or
 * x[N, C, D, H, W] at (x, y, z) of grid[N, d, h, w, 3]: torch.nn.functional.grid_sample. */
WEFT_API weft_value *weft_grid_sample(weft_value *x, weft_value *grid, const weft_grid_options *options);
/** The grid to which theta[N, 2, 3] moves the elements of images of `size` H, W: [N, H, W, 2]; or
 * theta[N, 3, 4] those of volumes D, H, W: torch.nn.functional.affine_grid. */
WEFT_API weft_value *weft_affine_grid(weft_value *theta, const int64_t *size, bool align_corners);
/** Each place of a window over x[N, C, H, W] as a column: [N, C * kh * kw, places]. Groups and output_padding
 * of `window` are not for it. */
WEFT_API weft_value *weft_unfold(weft_value *x, const int64_t kernel[2], const weft_window *window);
/** Its transpose: the sum of such columns where they are in images of `size` H, W: [N, C, H, W]. */
WEFT_API weft_value *weft_fold(weft_value *x, const int64_t size[2], const int64_t kernel[2],
                               const weft_window *window);
/** x[..., C * factor^2, H, W] -> [..., C, H * factor, W * factor]: torch.pixel_shuffle. */
WEFT_API weft_value *weft_pixel_shuffle(weft_value *x, int64_t factor);
/** Its inverse. */
WEFT_API weft_value *weft_pixel_unshuffle(weft_value *x, int64_t factor);
/** @} */

/** @name Normalization and losses
 * @{ */
WEFT_API weft_value *weft_softmax(weft_value *x, int axis);     /**< exp(x) / sum of exp(x) along `axis` */
WEFT_API weft_value *weft_log_softmax(weft_value *x, int axis); /**< The logarithm of weft_softmax(). */
/** Normalizes over the last axes of x, as many as w has (without w: the last one), then w * x + b. w and b
 * have the lengths of these axes; b may be NULL, or both. eps 0 means 1e-5, WEFT_ZERO (field.h) a true 0. */
WEFT_API weft_value *weft_layer_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps);
/** Divides by the root of the mean square over the last axes of x, as many as w has (without w: the last
 * one), then w * x. eps 0 means 2^-23 as in PyTorch, for f64 2^-52; WEFT_ZERO a true 0. */
WEFT_API weft_value *weft_rms_norm_op(weft_value *x, weft_value *w, double eps);
/** Normalizes x[N, C, ...] over the elements of each group of C / groups channels, then w * x + b; w and b
 * are [C], or NULL. eps as weft_layer_norm_op(). */
WEFT_API weft_value *weft_group_norm_op(weft_value *x, int64_t groups, weft_value *w, weft_value *b,
                                        double eps);
/** Normalizes each channel of x[N, C], x[N, C, L], x[N, C, H, W] or x[N, C, D, H, W] by its mean and
 * variance in this batch, then w * x + b; w and b are [C], or NULL. eps as weft_layer_norm_op(). *mean and
 * *variance (NULL: not wanted) become these statistics, [C], the variance unbiased:
 * torch.nn.functional.batch_norm with training, whose running statistics are the caller's (weft_batch_norm()
 * has them). */
WEFT_API weft_value *weft_batch_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps,
                                        weft_value **mean, weft_value **variance);
/** The same by given statistics [C]: torch.nn.functional.batch_norm without training. */
WEFT_API weft_value *weft_batch_norm_eval_op(weft_value *x, weft_value *mean, weft_value *variance,
                                             weft_value *w, weft_value *b, double eps);
/** Normalizes each channel of each x[n, C, ...] by its own elements, then w * x + b; w and b are [C], or
 * NULL. eps as weft_layer_norm_op(). */
WEFT_API weft_value *weft_instance_norm_op(weft_value *x, weft_value *w, weft_value *b, double eps);
/** What a loss of many elements becomes. */
typedef enum weft_reduction {
    WEFT_LOSS_MEAN = 0,      /**< their mean, [] */
    WEFT_LOSS_SUM = 1,       /**< their sum, [] */
    WEFT_LOSS_NONE = 2,      /**< each of them */
    WEFT_LOSS_BATCHMEAN = 3, /**< of weft_kl_div(): their sum divided by the length of axis 0, [] */
} weft_reduction;

/** Options of losses; NULL or zeroes: PyTorch's defaults, and the mean. A field that a loss does not have is
 * an error. */
typedef struct weft_loss {
    weft_reduction reduction; /**< 0: the mean */
    /** cross_entropy, nll: [C], what each class counts; a mean divides by what all targets count. bce,
     * bce_with_logits: what each element counts; it broadcasts. */
    weft_value *weight;
    weft_value *pos_weight;      /**< bce_with_logits: what positive targets count; it broadcasts */
    const int64_t *ignore_index; /**< cross_entropy, nll: rows of this target do not count; NULL: -100 */
    double label_smoothing;      /**< cross_entropy: this part of each target is spread over all classes */
    double beta;                 /**< smooth_l1: 0: 1; WEFT_ZERO (field.h): l1 */
    double delta;                /**< huber: 0: 1 */
    double margin;               /**< 0: 1, in margin_ranking and cosine_embedding 0; WEFT_ZERO: a true 0 */
    double p;                    /**< triplet_margin: the norm, 1 or 2; 0: 2 */
    bool swap;       /**< triplet_margin: the negative's distance to the nearer of anchor and positive */
    bool log_target; /**< kl_div: the target is the log of a probability too */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_loss;

/** The mean over rows of -log softmax(logits)[target]. Logits [N, C] and one integer target a row, [N] (not
 * [N, 1]), or [N, C, ...] and [N, ...]; or a target of the logits' shape, which is probabilities. Rows whose
 * target is -100 do not count; another one that is not a class fails the run. Options: reduction, weight,
 * ignore_index, label_smoothing. */
WEFT_API weft_value *weft_cross_entropy(weft_value *logits, weft_value *target, const weft_loss *options);
/** -x[target], x[N, C] or x[N, C, ...] being logs of probabilities; a target that is not a class fails the
 * run, as above. Options: reduction, weight, ignore_index. */
WEFT_API weft_value *weft_nll(weft_value *x, weft_value *target, const weft_loss *options);
/** max(x,0) - x t + log(1 + exp(-|x|)). The target t has x's shape or is a single number, []. (It does not
 * broadcast otherwise: [4,1] against [4] would become [4,4].) Options: reduction, weight, pos_weight. */
WEFT_API weft_value *weft_bce_with_logits(weft_value *x, weft_value *target, const weft_loss *options);
/** -t log x - (1 - t) log(1 - x), x being probabilities; logs are at least -100, and no gradient flows where
 * x is 0 or 1. Options: reduction, weight. */
WEFT_API weft_value *weft_bce(weft_value *x, weft_value *target, const weft_loss *options);
/** (x - t)^2. The target t has x's shape or is a single number, []. Option: reduction. */
WEFT_API weft_value *weft_mse(weft_value *x, weft_value *target, const weft_loss *options);
/** |x - t|. Option: reduction. */
WEFT_API weft_value *weft_l1(weft_value *x, weft_value *target, const weft_loss *options);
/** d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = x - t. Options: reduction, beta. */
WEFT_API weft_value *weft_smooth_l1(weft_value *x, weft_value *target, const weft_loss *options);
/** d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), with d = x - t. Options: reduction, delta. */
WEFT_API weft_value *weft_huber(weft_value *x, weft_value *target, const weft_loss *options);
/** t (log t - x), x being logs of probabilities. Options: reduction, log_target. */
WEFT_API weft_value *weft_kl_div(weft_value *x, weft_value *target, const weft_loss *options);
/** x where the target is 1, max(margin - x, 0) where it is -1. Options: reduction, margin. */
WEFT_API weft_value *weft_hinge_embedding(weft_value *x, weft_value *target, const weft_loss *options);
/** max(-target (a - b) + margin, 0): a should be larger where the target is 1, b where it is -1. Options:
 * reduction, margin. */
WEFT_API weft_value *weft_margin_ranking(weft_value *a, weft_value *b, weft_value *target,
                                         const weft_loss *options);
/** a and b [N, D], target [N]: 1 - cos(a, b) where it is 1, max(cos(a, b) - margin, 0) where it is -1.
 * Options: reduction, margin. */
WEFT_API weft_value *weft_cosine_embedding(weft_value *a, weft_value *b, weft_value *target,
                                           const weft_loss *options);
/** max(|anchor - positive| - |anchor - negative| + margin, 0), distances along the last axis. Options:
 * reduction, margin, p, swap. */
WEFT_API weft_value *weft_triplet_margin(weft_value *anchor, weft_value *positive, weft_value *negative,
                                         const weft_loss *options);
/** The cosine of the angle between a and b along an axis, which vanishes; PyTorch's default is 1. Lengths are
 * at least eps; 0: 1e-8. a and b broadcast, the axis is one of what they broadcast to. */
WEFT_API weft_value *weft_cosine_similarity(weft_value *a, weft_value *b, int axis, double eps);
/** x / max(|x|, eps), |x| being the 2-norm along an axis; PyTorch's default is 1. eps 0: 1e-12. */
WEFT_API weft_value *weft_normalize(weft_value *x, int axis, double eps);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
