/* amax.c - the largest element over some axes; torch.amax. NaN if any element is NaN. Any element type (bool
 * too: any); 64-bit integers are compared as double, which is exact below 2^53. The gradient is shared evenly
 * among equal ones, as in PyTorch. */
#include "ops/reduce/reduce.h"

const weft_op weft_op_amax = {
    .name = "amax",
    .summary = "the largest element over axes",
    .torch = "torch.amax",
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

weft_value *weft_amax(weft_value *x, int n_axes, const int64_t *axes, bool keep) {
    return reduce_value(&weft_op_amax, x, n_axes, axes, (sum_attrs){.keep = keep});
}
