/* all_gather_values.c - starts to send every rank's part of a buffer to all ranks, in place: rank r of w
 * gives range r of w equal ones. Unlike all_gather (of updated parameters), which later runs await, it
 * has its wait in its own program. Results as those of all_reduce. */
#include "ops/structure/collective.h"

const weft_op weft_op_all_gather_values = {
    .name = "all_gather_values",
    .summary = "starts to send each rank's part of a value to all ranks",
    STARTS_IN_PLACE,
    .infer = infer_sum,
    .samples = start_samples,
};
