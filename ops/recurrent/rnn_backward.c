/* rnn_backward.c - the gradient of rnn by x, from its last step to its first: with dh the gradient of its
 * result and `next` the step after,
 *     dx = (dh + dx_next w) act'        act' = 1 - h^2 of tanh; of relu 1 where h > 0, else 0
 * dx [T, B, H] may take the memory of dh or of h. */
#include "ops/recurrent/recurrent.h"

enum { DH, H, W };

static bool infer(op_call *c) {
    if (!recurrent_want(c, H, W, RNN_GATES) || !recurrent_want_type(c, DH, *op_in(c, H))) return false;
    c->n_out = 1;
    c->out[0] = *op_in(c, H);
    return true;
}

static void rnn_unit_backward(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const recurrent_attrs *a = c->attrs;
    const tensor *dx = &c->out[0];
    double h = recurrent_at(&c->in[H], a, s, b, j);
    double dh = recurrent_at(&c->in[DH], a, s, b, j) + recurrent_back(&c->in[W], dx, a, s, b, j);
    element_set(dx, (int64_t[]){recurrent_time(a, dx->type.shape[0], s), b, j},
                a->act == RECURRENT_TANH ? dh * (1 - h * h)
                : h > 0                  ? dh
                                         : 0);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_backward(c, &c->out[0], rnn_unit_backward);
}

const weft_op weft_op_rnn_backward = {
    .name = "rnn_backward",
    .summary = "gradient of rnn by x",
    .min_in = 3,
    .max_in = 3,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = rnn_attr_table,
    .in_place = 1u << DH | 1u << H,
    .precision = PRECISION_REDUCED,
    .reduced_in = 7,
    .reduced_out = 1,
    .infer = infer,
    .reference = reference,
    /* No gradient of its own: rnn says OP_GRADIENT_ONCE. */
    .samples =
        (const op_sample[]){
            {"f32[3,2,4], f32[3,2,4], f32[4,4]", .out = "f32[3,2,4]", .no_gradient = true},
            {"f32[3,2,4], f32[3,2,4], f32[4,4]", "reverse=1 act=relu", .no_gradient = true},
            {"f32[1,1,1], f32[1,1,1], f32[1,1]", .no_gradient = true},
            {"f32[3,29,37], f32[3,29,37], f32[37,37]", "act=relu", .low = -0.5, .high = 0.5,
             .no_gradient = true},
            {"f32[2,3,264], f32[2,3,264], f32[264,264]", "reverse=1", .low = -0.25, .high = 0.25,
             .no_gradient = true},
            {"bf16[3,5,16], bf16[3,5,16], bf16[16,16]", .low = -0.5, .high = 0.5, .no_gradient = true},
            {"f16[3,5,9], f16[3,5,9], f16[9,9]", "reverse=1 act=relu", .low = -0.5, .high = 0.5,
             .no_gradient = true},
            {"f32[3,2,3], f32[3,2,4], f32[4,4]", .error = "operand 0 is f32[3,2,3]"},
            {"f32[3,2,4], f32[3,2,4], f32[4,3]", .error = "[T, B, 1 H] and [1 H, H]"},
            {0}},
};
