/* broadcast.c - starts to send a buffer from rank `root` of the process group to all its ranks, in place, on
 * the communication stream. Results as those of all_reduce; the nodes between it and its `wait` overlap with
 * it. */
#include "ops/structure/collective.h"

const weft_op weft_op_broadcast = {
    .name = "broadcast",
    .summary = "starts to send a buffer from one rank to all",
    STARTS_IN_PLACE,
    .infer = infer_sum,
    .samples = start_samples,
};
