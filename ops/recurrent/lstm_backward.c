/* lstm_backward.c - the gradients of lstm, from its last step to its first. With dh and dc (either may be
 * left out) the gradients of its results, and `next` the step after:
 *     dh' = dh + dgates_next w        dc' = dc + dc'_next f_next + dh' o (1 - tanh^2 c)
 *     di = dc' g i (1 - i)    df = dc' c_before f (1 - f)    dg = dc' i (1 - g^2)    do = dh' tanh c o (1 -
 * o) Results dgates [T, B, 4 H], which is the gradient of x too and may take the memory of the gates, and
 * dc0 [B, H], which is dc' f of the first step. */
#include "ops/recurrent/recurrent.h"

#include <math.h>

enum { GATES, C, W, C0, DH, DC };

static bool infer(op_call *c) {
    if (!recurrent_want(c, GATES, W, LSTM_GATES)) return false;
    const tensor_type *gates = op_in(c, GATES);
    int64_t hidden = op_in(c, W)->shape[1];
    weft_dtype wide = dtype_accumulator(gates->dtype);
    tensor_type cell = recurrent_all(wide, gates, hidden), h = recurrent_all(gates->dtype, gates, hidden);
    if (!recurrent_want_type(c, C, cell) || !recurrent_want_state(c, C0, hidden, true) ||
        !recurrent_want_type(c, DH, h) || !recurrent_want_type(c, DC, cell))
        return false;
    c->n_out = 2;
    c->out[0] = *gates;
    c->out[1] = recurrent_one(wide, gates, hidden);
    return true;
}

/* Unit j of sample b in step s; dc0 holds dc'_next f_next until the first step is done. */
static void unit(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const tensor *in = c->in, *dgates = &c->out[0], *dc0 = &c->out[1];
    int64_t steps = in[C].type.shape[0], hidden = in[C].type.shape[2], at[] = {b, j};
    int64_t t = recurrent_time(c->attrs, steps, s);
    double i = recurrent_at(&in[GATES], c->attrs, s, b, j);
    double f = recurrent_at(&in[GATES], c->attrs, s, b, hidden + j);
    double g = recurrent_at(&in[GATES], c->attrs, s, b, 2 * hidden + j);
    double o = recurrent_at(&in[GATES], c->attrs, s, b, 3 * hidden + j);
    double bent = tanh(recurrent_at(&in[C], c->attrs, s, b, j));
    double before = recurrent_before(&in[C], recurrent_operand(c, C0), c->attrs, s, b, j);
    double dh = recurrent_at(recurrent_operand(c, DH), c->attrs, s, b, j) +
                recurrent_back(&in[W], dgates, c->attrs, s, b, j);
    double dc = recurrent_at(recurrent_operand(c, DC), c->attrs, s, b, j) +
                (s + 1 < steps ? element_get(dc0, at) : 0) + dh * o * (1 - bent * bent);
    double d[] = {dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g),
                  dh * bent * o * (1 - o)};
    for (int k = 0; k < LSTM_GATES; k++) element_set(dgates, (int64_t[]){t, b, k * hidden + j}, d[k]);
    element_set(dc0, at, dc * f);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_backward(c, &c->in[C], unit);
}

const weft_op weft_op_lstm_backward = {
    .name = "lstm_backward",
    .summary = "gradients of lstm",
    .min_in = 3,
    .max_in = 6,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = recurrent_attr_table,
    .in_place = 1u << GATES,
    .precision = PRECISION_REDUCED,
    /* All but c, c0, dc and dc0, which are f32. */
    .reduced_in = 1u << GATES | 1u << W | 1u << DH,
    .reduced_out = 1,
    .infer = infer,
    .reference = reference,
    /* gates need not be between 0 and 1 for kernels to agree. No gradient of its own: lstm says
       OP_GRADIENT_ONCE. */
    .samples =
        (const op_sample[]){
            {"f32[3,2,12], f32[3,2,3], f32[12,3], f32[2,3], f32[3,2,3], f32[3,2,3]", .low = -1, .high = 1,
             .out = "f32[3,2,12], f32[2,3]", .no_gradient = true},
            {"f32[3,2,12], f32[3,2,3], f32[12,3], -, f32[3,2,3], -", "reverse=1", .low = -1, .high = 1,
             .no_gradient = true},
            {"f32[2,2,4], f32[2,2,1], f32[4,1], f32[2,1], -, f32[2,2,1]", "reverse=1", .low = -1, .high = 1,
             .no_gradient = true},
            {"f32[1,1,4], f32[1,1,1], f32[4,1], -, f32[1,1,1], -", .low = -1, .high = 1, .no_gradient = true},
            {"f32[3,29,148], f32[3,29,37], f32[148,37], f32[29,37], f32[3,29,37], f32[3,29,37]", .low = -0.5,
             .high = 0.5, .no_gradient = true},
            {"f32[2,3,1056], f32[2,3,264], f32[1056,264], -, f32[2,3,264], -", "reverse=1", .low = -0.25,
             .high = 0.25, .no_gradient = true},
            {"bf16[3,5,64], f32[3,5,16], bf16[64,16], f32[5,16], bf16[3,5,16], f32[3,5,16]", .low = -0.5,
             .high = 0.5, .out = "bf16[3,5,64], f32[5,16]", .no_gradient = true},
            {"f16[3,5,36], f32[3,5,9], f16[36,9], -, f16[3,5,9], -", "reverse=1", .low = -0.5, .high = 0.5,
             .no_gradient = true},
            {"f32[3,2,12], f32[3,2,4], f32[12,3], -, -, -", .error = "operand 1 is f32[3,2,4]"},
            {"f32[3,2,12], f32[3,2,3], f32[12,3], f32[3,3], -, -", .error = "operand 3 is f32[3,3]"},
            {"f32[3,2,12], f32[3,2,3], f32[12,3], -, f32[2,3], -", .error = "operand 4 is f32[2,3]"},
            {"f32[3,2,12], f32[3,2,3], f32[12,3], -, -, f32[2,3]", .error = "operand 5 is f32[2,3]"},
            {"f32[3,2,12], f32[3,2,3], f32[9,3], -, -, -", .error = "[T, B, 4 H] and [4 H, H]"},
            {0}},
};
