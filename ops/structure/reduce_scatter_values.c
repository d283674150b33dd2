/* reduce_scatter_values.c - starts the sum of a buffer over the ranks of a process group, of which each rank
 * gets its part: rank r of w ends with range r of w equal ones, and the rest of its buffer is undefined.
 * Unlike reduce_scatter (of a bucket's gradients), whose ranges follow from shards. Results as those of
 * all_reduce. */
#include "ops/structure/collective.h"

const weft_op weft_op_reduce_scatter_values = {
    .name = "reduce_scatter_values",
    .summary = "starts the sum of a value, each rank getting its own part",
    .min_in = 1,
    .flags = OP_VARIABLE | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    OP_ATTRS(collective_attrs, sum_attr_table),
    /* the sum of the own range overwrites the operand */
    .writes = 1,
    .infer = infer_sum,
    .samples =
        (const op_sample[]){
            {"f32[8]", "path=\"no such\" scratch=64", .error = "neither a bucket nor a scope"}, {0}},
};
