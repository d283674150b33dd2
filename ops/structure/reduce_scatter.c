/* reduce_scatter.c - like all_reduce, but each rank of the process group gets only the sum of its own range
 * of the bucket; the rest of its buffer is undefined afterwards. ZeRO sums gradients to the ranks that update
 * by them this way. */
#include "ops/structure/collective.h"

static bool infer(op_call *c) {
    return op_bucket(c) && infer_sum(c);
}

const weft_op weft_op_reduce_scatter = {
    .name = "reduce_scatter",
    .summary = "starts the sum of a bucket, each rank getting its own range",
    STARTS_IN_PLACE,
    .infer = infer,
    .samples =
        (const op_sample[]){{"f32[8]", "path=\"no/such\" scratch=64", .error = "there is no bucket"}, {0}},
};
