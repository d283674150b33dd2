/* any.c - whether any, or every, element over some axes is not 0, as bool; torch.any, torch.all. NaN is
 * not 0. Both are an extremum of bool: any is the largest, all the smallest. */
#include "ops/reduce/reduce.h"

/* x != 0, as bool. */
static weft_value *truth(weft_value *x) {
    if (x->type.dtype == WEFT_BOOL) return x;
    weft_value *zero = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    return weft_not_equal(x, zero);
}

weft_value *weft_any(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    if (!reduce_fits("any", x, false, n_axes, axes)) return NULL;
    return weft_amax(truth(x), n_axes, axes, keep);
}

weft_value *weft_all(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    if (!reduce_fits("all", x, false, n_axes, axes)) return NULL;
    return weft_amin(truth(x), n_axes, axes, keep);
}
