/* broadcast.c - starts to send a buffer from rank `root` of the process group to all its ranks, in place, on
 * the communication stream. Results as those of all_reduce; the nodes between it and its `wait` overlap with
 * it. */
#include "ops/structure/collective.h"

const weft_op weft_op_broadcast = {
    .name = "broadcast",
    .summary = "starts to send a buffer from one rank to all",
    .min_in = 1,
    .flags = OP_VARIABLE | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    OP_ATTRS(collective_attrs, sum_attr_table),
    /* all ranks but the root receive into the operand */
    .writes = 1,
    .infer = infer_sum,
    .samples =
        (const op_sample[]){
            {"f32[8]", "path=\"no such\" scratch=64", .error = "neither a bucket nor a scope"}, {0}},
};
