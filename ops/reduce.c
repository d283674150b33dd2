/* reduce.c - as all_reduce, but only rank `root` gets the sum; the others' buffers are used up. ZeRO sums a bucket's
 * gradients to the rank that owns its optimizer state. */
#include "ops/collective.h"

const weft_op weft_op_reduce = {
    .name = "reduce",
    .summary = "starts the sum of a bucket to one rank",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_VARIABLE | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    .attrs_bytes = sizeof(collective_attrs),
    .attrs = sum_attr_table,
    .writes = 1,
    .infer = infer_sum,
    .samples =
        (const op_sample[]){{"f32[8]", "path=\"no/such\" scratch=64", .error = "there is no segment"}, {0}},
};
