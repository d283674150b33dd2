/* logsumexp.c - log of the sum of e^x over some axes; torch.logsumexp. The maximum m is taken out, so that
 * nothing overflows: m + log(sum of e^(x - m)). That holds for any m, hence m needs no gradient; where it is
 * infinite it is replaced by 0, else x - m would be NaN. The last op is log_add: its gradient is of the
 * result, as PyTorch's. */
#include "ops/reduce/reduce.h"

/* The largest element of each result, 0 where it is infinite; with the reduced axes. */
static weft_value *finite_max(weft_value *x, int n_axes, const int64_t *axes, place p) {
    weft_value *zero = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    weft_value *most = weft_stop_gradient(weft_amax(placed(x, p), n_axes, axes, true));
    weft_value *is_infinite = weft_isinf(placed(most, p));
    return weft_where(placed(is_infinite, p), zero, most);
}

weft_value *weft_logsumexp(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    if (!reduce_fits("logsumexp", x, true, n_axes, axes)) return NULL;
    place p = place_of(x);
    weft_value *most = finite_max(x, n_axes, axes, p);
    weft_value *apart = weft_exp(weft_sub(placed(x, p), most));
    weft_value *sum = weft_sum(placed(apart, p), n_axes, axes, keep);
    if (!keep) most = reduce_squeeze(most, n_axes, axes, p);
    return op_value(&weft_op_log_add, 2, (weft_value *[]){placed(sum, p), most}, NULL);
}
