/* var.c - the variance and the standard deviation over some axes; torch.var, torch.std. The sum of (x -
 * mean)^2 over n - correction: two passes, so that a large mean costs no digits. n depends on the batch,
 * hence the correction is an attribute of the mean. */
#include "ops/reduce/reduce.h"

#include <math.h>

static weft_value *variance(const char *name, weft_value *x, double correction, int n_axes,
                            const int64_t *axes, bool keep) {
    if (!reduce_fits(name, x, true, n_axes, axes)) return NULL;
    weft_graph *g = x->node->graph;
    if (!isfinite(correction))
        return model_fail(g->model, g, WEFT_ARGUMENT, "%s: correction=%g: it must be a finite number", name,
                          correction);
    place p = place_of(x);
    weft_value *mean = weft_mean(x, n_axes, axes, true), *apart = weft_sub(placed(x, p), mean);
    weft_value *squares = weft_square(placed(apart, p));
    sum_attrs a = {.keep = keep, .mean = true, .correction = correction};
    return reduce_value(&weft_op_sum, placed(squares, p), n_axes, axes, a);
}

weft_value *weft_var(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep) {
    return variance("var", x, correction, n_axes, axes, keep);
}

weft_value *weft_std(weft_value *x, double correction, int n_axes, const int64_t *axes, bool keep) {
    if (!x) return NULL;
    place p = place_of(x);
    weft_value *v = variance("std", x, correction, n_axes, axes, keep);
    return v ? reduce_root(v, 0.5, p) : NULL;
}
