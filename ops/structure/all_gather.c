/* all_gather.c - starts to send every rank's updated range of a bucket to all ranks, in place in the bucket's
 * memory.
 *
 * Operands are nodes that must have finished: the update, or, on a rank without a range, what the update
 * would have waited for. No `wait` of its program waits for it: the first later node that reads one of the
 * parameters does, in whichever graph runs next, so the transfer overlaps with that forward. It outlasts the
 * run, so the session keeps it. */
#include "ops/structure/collective.h"

static const op_attr attrs[] = {
    {"path", ATTR_STRING, offsetof(collective_attrs, path)},
    {"order", ATTR_INT, offsetof(collective_attrs, order), 0, INT64_MAX},
    {"group", ATTR_INT, offsetof(collective_attrs, group), 0, INT32_MAX},
    {0},
};

/* Result 0 has the type of the bucket. */
static bool infer(op_call *c) {
    const weft_variable *s = op_bucket(c);
    if (!s) return false;
    c->out[0] = s->type;
    return true;
}

const weft_op weft_op_all_gather = {
    .name = "all_gather",
    .summary = "starts to send updated parameters to all ranks",
    .min_in = 1,
    .max_in = 2,
    /* OP_WRITES: it is ordered after earlier readers of the bucket. */
    .flags = OP_VARIABLE | OP_WRITES | OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    OP_ATTRS(collective_attrs, attrs),
    .infer = infer,
    .samples = (const op_sample[]){{"f32[8]", "path=\"no/such\"", .error = "there is no bucket"}, {0}},
};
