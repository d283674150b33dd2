/* vector_norm.c - (sum of |x|^p)^(1/p) over some axes; torch.linalg.vector_norm. p may be any number:
 * infinity takes the largest |x|, -infinity the smallest, 0 counts what is not 0. The gradient is 0 where
 * the norm is 0, and at elements that are 0, as in PyTorch. */
#include "ops/reduce/reduce.h"

#include <math.h>

static weft_value *number(weft_value *x, double value) {
    return weft_constant(x->node->graph, x->type.dtype, 0, NULL, value);
}

/* x^p for x >= 0. Slopes at 0 may be infinite, and infinity times 0 NaN: there 1 stands in for 0. */
static weft_value *power_of_size(weft_value *x, double p) {
    weft_value *exponent = number(x, p);
    if (p < 0 || p > 2) return weft_pow(x, exponent);
    weft_value *zero = number(x, 0), *one = number(x, 1), *is_zero = weft_equal(x, zero);
    weft_value *safe = weft_where(is_zero, one, x), *power = weft_pow(safe, exponent);
    return weft_where(is_zero, zero, power);
}

/* |x|^p of each element, for finite p. */
static weft_value *power(weft_value *x, double p) {
    if (p == 2) return weft_square(x);
    if (p == 0) return weft_cast(weft_not_equal(x, number(x, 0)), x->type.dtype);
    weft_value *size = weft_abs(x);
    return p == 1 ? size : power_of_size(size, p);
}

weft_value *weft_vector_norm(weft_value *x, double p, int n_axes, const int64_t *axes, bool keep) {
    if (!reduce_fits("vector_norm", x, true, n_axes, axes)) return NULL;
    if (isnan(p)) return value_fail(x, WEFT_ARGUMENT, "vector_norm: p is NaN: it must be a number");
    if (isinf(p)) {
        weft_value *size = weft_abs(x);
        return p > 0 ? weft_amax(size, n_axes, axes, keep) : weft_amin(size, n_axes, axes, keep);
    }
    weft_value *sum = weft_sum(power(x, p), n_axes, axes, keep);
    return p == 0 || p == 1 || !sum ? sum : reduce_root(sum, 1 / p);
}
