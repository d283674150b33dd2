/* rnn.c - the steps of torch.nn.RNN (Elman, 1990). x is what the inputs contribute, both biases included:
 *     x [T, B, H]   w [H, H]   h0 [B, H] (may be left out: zeros)   ->   h = act(x + w h_before) [T, B, H]
 * act is tanh or relu. h may take the memory of x, and is all that rnn_backward needs. */
#include "ops/recurrent/recurrent.h"

#include <math.h>

enum { X, W, H0 };

static bool infer(op_call *c) {
    if (!recurrent_want(c, X, W, RNN_GATES) || !recurrent_want_state(c, H0, op_in(c, W)->shape[1], false))
        return false;
    c->n_out = 1;
    c->out[0] = *op_in(c, X);
    return true;
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *in[] = {dout[0], &n->out[0], n->in[W]};
    weft_value *dx = op_value(&weft_op_rnn_backward, 3, in, n->attrs);
    if (!dx) return;
    din[X] = dx;
    recurrent_gradients(n, dx, NULL, wanted, din);
}

static void rnn_unit(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const recurrent_attrs *a = c->attrs;
    const tensor *h = &c->out[0];
    double y = recurrent_at(&c->in[X], a, s, b, j) +
               recurrent_product(&c->in[W], h, recurrent_operand(c, H0), a, s, b, j);
    y = a->act == RECURRENT_TANH ? tanh(y) : y < 0 ? 0 : y;
    element_set(h, (int64_t[]){recurrent_time(a, h->type.shape[0], s), b, j}, y);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_forward(c, &c->out[0], rnn_unit);
}

const weft_op weft_op_rnn = {
    .name = "rnn",
    .summary = "the steps of a recurrent layer without gates: act(x + w h)",
    .torch = "torch.nn.RNN",
    .min_in = 2,
    .max_in = 3,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = rnn_attr_table,
    .in_place = 1u << X,
    .precision = PRECISION_REDUCED,
    .reduced_in = 7,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[3,2,4], f32[4,4], f32[2,4]", .out = "f32[3,2,4]"},
            /* above 0: differences must not meet the kink of a relu inside; large ones below and
             * test_goldens do */
            {"f32[3,2,4], f32[4,4]", "reverse=1 act=relu", .low = 0.05, .high = 1, .out = "f32[3,2,4]"},
            {"f32[3,2,4], f32[4,4], f32[2,4]", "reverse=1", .out = "f32[3,2,4]"},
            {"f32[1,1,1], f32[1,1]", "act=relu", .low = 0.05, .high = 1},
            /* rows beyond one tile, units beyond one panel and one slice: fast kernels */
            {"f32[3,29,37], f32[37,37], f32[29,37]", .low = -0.25, .high = 0.25, .no_gradient = true},
            {"f32[2,3,264], f32[264,264]", "reverse=1 act=relu", .low = -0.25, .high = 0.25,
             .no_gradient = true},
            {"bf16[3,5,16], bf16[16,16], bf16[5,16]", .low = -1, .high = 1, .out = "bf16[3,5,16]",
             .no_gradient = true},
            {"f16[3,5,9], f16[9,9]", "reverse=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[3,2,4], f32[4,3]", .error = "they must be [T, B, 1 H] and [1 H, H]"},
            {"f32[3,2,4], f32[4,4], f32[4]", .error = "operand 2 is f32[4]: it must be f32[2,4]"},
            {"f32[3,2,4], f32[4,4]", "act=gelu", .error = "act"},
            {0}},
};

weft_value *weft_rnn_op(weft_value *x, weft_value *w, weft_value *h0, bool reverse, bool relu) {
    weft_value *in[] = {x, w, h0};
    recurrent_attrs a = {.reverse = reverse, .act = relu ? RECURRENT_RELU : RECURRENT_TANH};
    place p = x ? place_of(x) : (place){0};
    return recurrent_given(op_value(&weft_op_rnn, h0 ? 3 : 2, in, &a), p);
}
