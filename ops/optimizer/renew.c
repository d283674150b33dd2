/* renew.c - the end of an update that is built from ops: operand 0, parameters or state of a bucket or of a
 * range of it, gets the values of operand 2, which were computed from it. Operand 1 is the gradient of that
 * range: nothing is read of it, but by it a plan says, and its verifier proves, which gradient an update is
 * made of. State may be shorter than the range (slot_shape). */
#include "ops/optimizer/update.h"

#include <string.h>

static bool infer(op_call *c) {
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i]) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", i);
    const tensor_type *old = op_in(c, 0), *gradient = op_in(c, 1), *values = op_in(c, 2);
    if (old->dtype != WEFT_F32 && old->dtype != WEFT_F64)
        return op_fail(c, WEFT_TYPE, "operand 0 is %s: it must be f32 or f64", TYPE(old));
    if (gradient->ndim != 1 || gradient->dtype != old->dtype)
        return op_fail(c, WEFT_SHAPE, "operand 1 is %s: it must be flat, of the elements of operand 0, %s",
                       TYPE(gradient), TYPE(old));
    if (!type_equal(values, old))
        return op_fail(c, WEFT_SHAPE, "operand 2 is %s: it must be like operand 0, %s", TYPE(values),
                       TYPE(old));
    return true; /* the new values, in the memory of operand 0 */
}

static weft_status reference(const kernel_call *c) {
    size_t bytes = type_bytes(&c->out[0].type);
    if (c->in[0].data != c->in[2].data) memcpy(c->in[0].data, c->in[2].data, bytes);
    /* Result 0 usually is operand 0's memory; a test may separate them. */
    if (c->out[0].data != c->in[0].data) memcpy(c->out[0].data, c->in[0].data, bytes);
    return WEFT_OK;
}

const weft_op weft_op_renew = {
    .name = "renew",
    .summary = "puts what an update has computed in the place of parameters or state",
    .min_in = 3,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    .writes = 1,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[7], f32[7], f32[7]", .out = "f32[7]"},
                                   {"f64[5003], f64[5003], f64[5003]"},
                                   {"f32[5], f32[9], f32[5]"},
                                   {"f32[7], f64[7], f32[7]", .error = "must be flat, of the elements"},
                                   {"f32[7], f32[7], f32[6]", .error = "must be like operand 0"},
                                   {"f32[7], f32[7]", .error = "2 operands, 3 to 3 are allowed"},
                                   {0}},
};
