/* global_norm.c - the 2-norm of all operands together, f64. Squares are summed in f64 over chunks of
 * NORM_CHUNK elements from each operand's start, chunks in order, operands in order: however the operands are
 * spread over ranks later, the sum is the same. */
#include "ops/update.h"

#include <math.h>

static bool infer(op_call *c) {
    for (int i = 0; i < c->n_in; i++) {
        if (!c->in[i]) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", i);
        if (op_in(c, i)->dtype != WEFT_F32 && op_in(c, i)->dtype != WEFT_F64)
            return op_fail(c, WEFT_TYPE, "operand %d is %s: it must be f32 or f64", i, TYPE(op_in(c, i)));
    }
    c->n_out = 1;
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

static weft_status reference(const kernel_call *c) {
    double total = 0;
    for (int i = 0; i < c->n_in; i++) {
        int64_t n = type_elements(&c->in[i].type);
        for (int64_t begin = 0; begin < n; begin += NORM_CHUNK) {
            double sum = 0;
            for (int64_t k = begin; k < n && k < begin + NORM_CHUNK; k++) {
                double g = flat_get(&c->in[i], k);
                sum += g * g;
            }
            total += sum;
        }
    }
    *(double *)c->out[0].data = sqrt(total);
    return WEFT_OK;
}

const weft_op weft_op_global_norm = {
    .name = "global_norm",
    .summary = "the 2-norm of all operands together, f64",
    .min_in = 1,
    .max_in = -1,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[7]", .out = "f64[]"},
                                   {"f32[9000], f32[3], f32[4096]", .out = "f64[]"},
                                   {"f64[7], f64[2]", .out = "f64[]"},
                                   {"i32[7]", .error = "f32 or f64"},
                                   {0}},
};
