/* accumulate.c - total += more, in place: gradients of micro-batches. The result is the total from there on:
 * in a session it is the operand's own memory. */
#include "ops/update.h"

static bool infer(op_call *c) {
    if (!infer_update(c, 2, 0)) return false;
    c->n_out = 1;
    c->out[0] = *op_in(c, 0);
    return true;
}

static weft_status reference(const kernel_call *c) {
    for (int64_t i = 0; i < type_elements(&c->in[0].type); i++) {
        flat_set(&c->in[0], i, flat_get(&c->in[0], i) + flat_get(&c->in[1], i));
        flat_set(&c->out[0], i, flat_get(&c->in[0], i));
    }
    return WEFT_OK;
}

const weft_op weft_op_accumulate = {
    .name = "accumulate",
    .summary = "total += more, in place",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    .writes = 1,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[7], f32[7]"},
                                   {"f32[50003], f32[50003]"},
                                   {"f64[7], f64[7]"},
                                   {"f32[7], f32[8]", .error = "must be like operand 0"},
                                   {"i32[7], i32[7]", .error = "f32 or f64"},
                                   {0}},
};
