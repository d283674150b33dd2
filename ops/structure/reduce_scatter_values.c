/* reduce_scatter_values.c - starts the sum of a buffer over the ranks of a process group, of which each rank
 * gets its part: rank r of w ends with range r of w equal ones, and the rest of its buffer is undefined.
 * Unlike reduce_scatter (of a bucket's gradients), whose ranges follow from shards. Results as those of
 * all_reduce. */
#include "ops/structure/collective.h"

const weft_op weft_op_reduce_scatter_values = {
    .name = "reduce_scatter_values",
    .summary = "starts the sum of a value, each rank getting its own part",
    STARTS_IN_PLACE,
    .infer = infer_sum,
    .samples = start_samples,
};
