/* root_sum.c - the square root of the sum of all elements of all operands, f64[], added in the order of
 * operands and elements. Over the results of chunk_squares it is the 2-norm of all gradients. */
#include "ops/optimizer/update.h"

#include <math.h>

static bool infer(op_call *c) {
    for (int i = 0; i < c->n_in; i++)
        if (op_in(c, i)->dtype != WEFT_F64)
            return op_fail(c, WEFT_TYPE, "operand %d is %s: it must be f64", i, TYPE(op_in(c, i)));
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

/* One running sum in f64: the order fixes the bits. */
static weft_status reference(const kernel_call *c) {
    double total = 0;
    for (int i = 0; i < c->n_in; i++)
        for (int64_t k = 0; k < type_elements(&c->in[i].type); k++) total += flat_get(&c->in[i], k);
    *(double *)c->out[0].data = sqrt(total);
    return WEFT_OK;
}

const weft_op weft_op_root_sum = {
    .name = "root_sum",
    .summary = "the square root of the sum of all elements, f64",
    .min_in = 1,
    .max_in = -1,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f64[7]", .out = "f64[]", .low = 0, .high = 3},
                                   {"f64[9], f64[1], f64[4]", .out = "f64[]", .low = 0, .high = 3},
                                   {"f64[7], f32[7]", .error = "it must be f64"},
                                   {0}},
};
