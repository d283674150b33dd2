/* var.c - the variance and the standard deviation over some axes; torch.var, torch.std. The sum of (x -
 * mean)^2 over n - correction: two passes, so that a large mean costs no digits. n depends on the batch,
 * hence the correction is an attribute of the mean.
 *
 * Both are computed of x minus its first element along the axes. Otherwise the mean of a constant row would
 * be off by its rounding, and where a deviation should be 0, as should its gradient (x - mean) / std, that
 * would be a quotient of roundings, of the order of 1. */
#include "ops/reduce/reduce.h"

#include <math.h>

/* The first element of x along each axis, kept with length 1; no gradient goes through it. */
static weft_value *first_along(weft_value *x, int n_axes, const int64_t *axes) {
    int count = axes ? n_axes : x->type.ndim;
    weft_value *v = weft_stop_gradient(x);
    for (int i = 0; v && i < count; i++) v = weft_slice(v, axes ? axes[i] : i, 0, 1);
    return v;
}

static weft_value *variance(const char *name, weft_value *x, double correction, int n_axes,
                            const int64_t *axes, bool keep) {
    if (!reduce_fits(name, x, true, n_axes, axes)) return NULL;
    if (!isfinite(correction))
        return value_fail(x, WEFT_ARGUMENT, "%s: correction=%g: it must be a finite number", name,
                          correction);
    weft_value *shifted = x;
    if (!reduce_is_empty(x, n_axes, axes)) shifted = weft_sub(x, first_along(x, n_axes, axes));
    weft_value *mean = weft_mean(shifted, n_axes, axes, true);
    weft_value *apart = weft_sub(shifted, mean), *squares = weft_square(apart);
    sum_attrs a = {.keep = keep, .mean = true, .correction = correction};
    return reduce_value(&weft_op_sum, squares, n_axes, axes, a);
}

weft_value *weft_var(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep) {
    return variance("var", x, correction, n_axes, axes, keep);
}

weft_value *weft_std(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep) {
    if (!x) return NULL;
    weft_value *v = variance("std", x, correction, n_axes, axes, keep);
    return v ? reduce_root(v, 0.5) : NULL;
}
