/* gru_backward.c - the gradients of gru, from its last step to its first. With dh the gradient of its result
 * and `next` the step after:
 *     dh' = dh + dh'_next z_next + dgates_next w        dn = dh' (1 - z) (1 - n^2)
 *     dz = dh' (h_before - n) z (1 - z)        dr = dn m r (1 - r)        dm = dn r
 * Results dx = dr, dz, dn [T, B, 3 H], which may take the memory of the gates; dgates = dr, dz, dm [T, B, 3
 * H], the gradient of w h_before + b; and dh' z of the first step [B, H], what h0 gets past w. */
#include "ops/recurrent/recurrent.h"

enum { GATES, M, H, W, DH, H0 };

static bool infer(op_call *c) {
    if (!recurrent_want(c, GATES, W, GRU_GATES)) return false;
    const tensor_type *gates = op_in(c, GATES);
    int64_t hidden = op_in(c, W)->shape[1];
    tensor_type h = recurrent_all(gates->dtype, gates, hidden);
    if (!recurrent_want_type(c, M, h) || !recurrent_want_type(c, H, h) || !recurrent_want_type(c, DH, h) ||
        !recurrent_want_state(c, H0, hidden, false))
        return false;
    c->n_out = 3;
    c->out[0] = c->out[1] = *gates;
    c->out[2] = recurrent_one(dtype_accumulator(gates->dtype), gates, hidden);
    return true;
}

/* Unit j of sample b in step s; result 2 holds dh'_next z_next until the first step is done. */
static void gru_unit_backward(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const tensor *in = c->in, *carry = &c->out[2];
    int64_t steps = in[H].type.shape[0], hidden = in[H].type.shape[2], at[] = {b, j};
    int64_t t = recurrent_time(c->attrs, steps, s);
    double r = recurrent_at(&in[GATES], c->attrs, s, b, j);
    double z = recurrent_at(&in[GATES], c->attrs, s, b, hidden + j);
    double n = recurrent_at(&in[GATES], c->attrs, s, b, 2 * hidden + j);
    double before = recurrent_before(&in[H], recurrent_operand(c, H0), c->attrs, s, b, j);
    double dh = recurrent_at(&in[DH], c->attrs, s, b, j) +
                recurrent_back(&in[W], &c->out[1], c->attrs, s, b, j) +
                (s + 1 < steps ? element_get(carry, at) : 0);
    double dn = dh * (1 - z) * (1 - n * n), dz = dh * (before - n) * z * (1 - z);
    double dr = dn * recurrent_at(&in[M], c->attrs, s, b, j) * r * (1 - r);
    double dx[] = {dr, dz, dn}, dgates[] = {dr, dz, dn * r};
    for (int k = 0; k < GRU_GATES; k++) {
        element_set(&c->out[0], (int64_t[]){t, b, k * hidden + j}, dx[k]);
        element_set(&c->out[1], (int64_t[]){t, b, k * hidden + j}, dgates[k]);
    }
    element_set(carry, at, dh * z);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_backward(c, &c->in[H], gru_unit_backward);
}

const weft_op weft_op_gru_backward = {
    .name = "gru_backward",
    .summary = "gradients of gru",
    .min_in = 5,
    .max_in = 6,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = recurrent_attr_table,
    .in_place = 1u << GATES,
    .precision = PRECISION_REDUCED,
    /* All but result 2, which is f32. */
    .reduced_in = 63,
    .reduced_out = 3,
    .infer = infer,
    .reference = reference,
    /* gates need not be between 0 and 1 for kernels to agree. No gradient of its own: gru says
       OP_GRADIENT_ONCE. */
    .samples =
        (const op_sample[]){
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[3,2,3], f32[2,3]", .low = -1, .high = 1,
             .out = "f32[3,2,9], f32[3,2,9], f32[2,3]", .no_gradient = true},
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[3,2,3]", "reverse=1", .low = -1, .high = 1,
             .no_gradient = true},
            {"f32[1,1,3], f32[1,1,1], f32[1,1,1], f32[3,1], f32[1,1,1]", .low = -1, .high = 1,
             .no_gradient = true},
            {"f32[3,29,111], f32[3,29,37], f32[3,29,37], f32[111,37], f32[3,29,37], f32[29,37]", .low = -0.5,
             .high = 0.5, .no_gradient = true},
            {"f32[2,3,792], f32[2,3,264], f32[2,3,264], f32[792,264], f32[2,3,264]", "reverse=1",
             .low = -0.25, .high = 0.25, .no_gradient = true},
            {"bf16[3,5,48], bf16[3,5,16], bf16[3,5,16], bf16[48,16], bf16[3,5,16], bf16[5,16]", .low = -0.5,
             .high = 0.5, .out = "bf16[3,5,48], bf16[3,5,48], f32[5,16]", .no_gradient = true},
            {"f16[3,5,27], f16[3,5,9], f16[3,5,9], f16[27,9], f16[3,5,9]", "reverse=1", .low = -0.5,
             .high = 0.5, .no_gradient = true},
            {"f32[3,2,9], f32[3,2,4], f32[3,2,3], f32[9,3], f32[3,2,3]", .error = "operand 1 is f32[3,2,4]"},
            {"f32[3,2,9], f32[3,2,3], f32[2,2,3], f32[9,3], f32[3,2,3]", .error = "operand 2 is f32[2,2,3]"},
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[2,3]", .error = "operand 4 is f32[2,3]"},
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[3,2,3], f32[3]",
             .error = "operand 5 is f32[3]"},
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[12,3], f32[3,2,3]",
             .error = "[T, B, 3 H] and [3 H, H]"},
            {0}},
};
