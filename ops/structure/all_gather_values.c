/* all_gather_values.c - starts to send every rank's part of a buffer to all ranks, in place: rank r of w
 * gives range r of w equal ones. Unlike all_gather (of updated parameters), which later runs await, it
 * has its wait in its own program. Results as those of all_reduce. */
#include "ops/structure/collective.h"

const weft_op weft_op_all_gather_values = {
    .name = "all_gather_values",
    .summary = "starts to send each rank's part of a value to all ranks",
    .min_in = 1,
    .flags = OP_VARIABLE | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    OP_ATTRS(collective_attrs, sum_attr_table),
    /* all ranks receive into the operand */
    .writes = 1,
    .infer = infer_sum,
    .samples =
        (const op_sample[]){
            {"f32[8]", "path=\"no such\" scratch=64", .error = "neither a bucket nor a scope"}, {0}},
};
