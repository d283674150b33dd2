/* wait.c - waits until a collective has finished. Operands are the collective's results; the result is the
 * finished buffer, in the same memory. The nodes between a collective and its wait overlap with it. */
#include "ops/structure/collective.h"

/* Both operands must be results of one collective. */
static bool infer(op_call *c) {
    if (!(c->in[0]->node->op->flags & OP_COMMUNICATES) || (c->n_in > 1 && c->in[1]->node != c->in[0]->node))
        return op_fail(c, WEFT_ARGUMENT, "operands must be a collective's results");
    return true;
}

const weft_op weft_op_wait = {
    .name = "wait",
    .summary = "returns when a collective has finished",
    .min_in = 1,
    .max_in = 2,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER | OP_COMMUNICATES,
    /* Where the buffer is a variable's, the result is the variable's value after the collective. */
    .writes = 1,
    .infer = infer,
    .samples = (const op_sample[]){{"f32[8], u8[64]", .error = "must be a collective's results"}, {0}},
};
