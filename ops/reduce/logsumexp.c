/* logsumexp.c - log of the sum of e^x over some axes; torch.logsumexp. The maximum m is taken out, so that
 * nothing overflows: m + log(sum of e^(x - m)). That holds for any m, hence m needs no gradient; where it is
 * infinite it is replaced by 0, else x - m would be NaN. The last op is log_add: its gradient is of the
 * result, as PyTorch's. */
#include "ops/reduce/reduce.h"

/* The largest element of each result, 0 where it is infinite; with the reduced axes. */
static weft_value *finite_max(weft_value *x, int n_axes, const int64_t *axes) {
    weft_value *zero = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    weft_value *most = weft_stop_gradient(weft_amax(x, n_axes, axes, true));
    weft_value *is_infinite = weft_isinf(most);
    return weft_where(is_infinite, zero, most);
}

weft_value *weft_logsumexp(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    if (!reduce_fits("logsumexp", x, true, n_axes, axes)) return NULL;
    if (reduce_is_empty(x, n_axes, axes)) return weft_log(weft_sum(weft_exp(x), n_axes, axes, keep));
    weft_value *most = finite_max(x, n_axes, axes);
    weft_value *apart = weft_exp(weft_sub(x, most));
    weft_value *sum = weft_sum(apart, n_axes, axes, keep);
    if (!keep) most = reduce_squeeze(most, n_axes, axes);
    return op_value(&weft_op_log_add, 2, (weft_value *[]){sum, most}, NULL);
}
