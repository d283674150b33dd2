/* amin.c - the smallest element over some axes; torch.amin. NaN if any element is NaN. Any element type (bool
 * too: all); 64-bit integers are compared as double, which is exact below 2^53. The gradient is shared evenly
 * among equal ones, as in PyTorch. */
#include "ops/reduce/reduce.h"

const weft_op weft_op_amin = {
    .name = "amin",
    .summary = "the smallest element over axes",
    .torch = "torch.amin",
    .min_in = 1,
    .max_in = 1,
    .attrs_bytes = sizeof(sum_attrs),
    .attrs = reduce_extremum_attrs,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .reduced_out = 1,
    .infer = reduce_extremum_infer,
    .gradient = reduce_extremum_gradient,
    .reference = reduce_reference,
    .samples = reduce_extremum_samples,
};

weft_value *weft_amin(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce_value(&weft_op_amin, x, n_axes, axes, (sum_attrs){.keep = keep});
}
