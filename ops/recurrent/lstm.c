/* lstm.c - the steps of torch.nn.LSTM (Hochreiter and Schmidhuber, 1997, with Gers' forget gate). x is what
 * the inputs contribute to the gates, both biases included:
 *     x [T, B, 4 H]   w [4 H, H]   h0, c0 [B, H] (may be left out: zeros)
 *     i, f, g, o = sigma, sigma, tanh, sigma of (x + w h_before)
 *     c = f c_before + i g        h = o tanh c
 * Results h [T, B, H], c [T, B, H] (f32 where x is reduced) and, for lstm_backward, the gates [T, B, 4 H],
 * which may take the memory of x. */
#include "ops/recurrent/steps.h"

#include <math.h>

enum { X, W, H0, C0 };

static bool infer(op_call *c) {
    if (!recurrent_want(c, X, W, LSTM_GATES)) return false;
    const tensor_type *x = op_in(c, X);
    int64_t hidden = op_in(c, W)->shape[1];
    if (!recurrent_want_state(c, H0, hidden, false) || !recurrent_want_state(c, C0, hidden, true))
        return false;
    c->n_out = 3;
    c->out[0] = recurrent_all(x->dtype, x, hidden);
    c->out[1] = recurrent_all(dtype_accumulator(x->dtype), x, hidden);
    c->out[2] = *x;
    return true;
}

/* What the gradient of the gates is as one of x: times the slopes of sigma and tanh. */
static weft_value *before_gates(weft_node *n, const recurrent_steps *r, weft_value *dgates) {
    weft_value *gates = steps_rows(r, &n->out[2], LSTM_GATES * r->hidden), *slope[LSTM_GATES];
    for (int k = 0; k < LSTM_GATES; k++) {
        weft_value *gate = steps_gate(r, gates, k);
        slope[k] = k == 2 ? slope_of_tanh(gate) : slope_of_sigma(gate);
    }
    weft_value *slopes = steps_gates(LSTM_GATES, slope);
    return weft_mul(steps_rows(r, dgates, LSTM_GATES * r->hidden), slopes);
}

/* Users get h and c, and lstm_backward's gradient comes by the gates, too. That part is added to what
 * lstm_backward gives, and what it gives h of the step before is added to dh. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *c0 = n->n_in > C0 ? n->in[C0] : NULL, *dh = dout[0], *by_gates = NULL;
    recurrent_steps r = steps_of(n, n->in[X], n->in[W]);
    if (!dh && !dout[1] && !dout[2]) return;
    if (dout[2]) {
        by_gates = before_gates(n, &r, dout[2]);
        dh = steps_past_w(&r, by_gates, n->in[W], dh, &n->out[0]);
    }
    weft_value *in[] = {&n->out[2], &n->out[1], n->in[W], c0, dh, dout[1]};
    weft_node *back = node_new(n->graph, &weft_op_lstm_backward, 6, in, n->attrs);
    if (!back) return;
    din[X] = &back->out[0];
    if (by_gates) din[X] = weft_add(din[X], steps_like(by_gates, din[X]));
    recurrent_gradients(n, din[X], NULL, wanted, din);
    if (c0 && wanted[C0]) din[C0] = &back->out[1];
}

/* Unit j of sample b in step s. */
static void unit(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const tensor *h = &c->out[0], *cell = &c->out[1], *gates = &c->out[2];
    int64_t hidden = h->type.shape[2], t = recurrent_time(c->attrs, h->type.shape[0], s);
    double gate[LSTM_GATES];
    for (int k = 0; k < LSTM_GATES; k++) {
        int64_t row = k * hidden + j;
        double z = element_get(&c->in[X], (int64_t[]){t, b, row}) +
                   recurrent_product(&c->in[W], h, recurrent_operand(c, H0), c->attrs, s, b, row);
        gate[k] = k == 2 ? tanh(z) : recurrent_sigma(z);
        element_set(gates, (int64_t[]){t, b, row}, gate[k]);
    }
    double before = recurrent_before(cell, recurrent_operand(c, C0), c->attrs, s, b, j);
    double now = gate[1] * before + gate[0] * gate[2];
    element_set(cell, (int64_t[]){t, b, j}, now);
    element_set(h, (int64_t[]){t, b, j}, gate[3] * tanh(now));
}

static weft_status reference(const kernel_call *c) {
    return recurrent_forward(c, &c->out[0], unit);
}

const weft_op weft_op_lstm = {
    .name = "lstm",
    .summary = "the steps of a long short-term memory: h, c and gates of all times",
    .torch = "torch.nn.LSTM",
    .min_in = 2,
    .max_in = 4,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = recurrent_attr_table,
    .in_place = 1u << X,
    .in_place_result = 2,
    .precision = PRECISION_REDUCED,
    /* All but c0 and c, which are f32. */
    .reduced_in = 1u << X | 1u << W | 1u << H0,
    .reduced_out = 1u << 0 | 1u << 2,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[3,2,12], f32[12,3], f32[2,3], f32[2,3]", .out = "f32[3,2,3], f32[3,2,3], f32[3,2,12]"},
            {"f32[3,2,12], f32[12,3]", "reverse=1", .out = "f32[3,2,3], f32[3,2,3], f32[3,2,12]"},
            {"f32[2,2,8], f32[8,2], -, f32[2,2]", "reverse=1"},
            {"f32[1,1,4], f32[4,1], f32[1,1]", NULL},
            {"f32[1,2,8], f32[8,2]", NULL},
            /* rows beyond one tile, units beyond one panel and one slice: fast kernels */
            {"f32[3,29,148], f32[148,37], f32[29,37], f32[29,37]", .low = -1, .high = 1, .no_gradient = true},
            {"f32[2,3,1056], f32[1056,264]", "reverse=1", .low = -0.5, .high = 0.5, .no_gradient = true},
            {"bf16[3,5,64], bf16[64,16], bf16[5,16], f32[5,16]", .low = -1, .high = 1,
             .out = "bf16[3,5,16], f32[3,5,16], bf16[3,5,64]", .no_gradient = true},
            {"f16[3,5,36], f16[36,9]", "reverse=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[3,2,12], f32[12,4]", .error = "they must be [T, B, 4 H] and [4 H, H]"},
            {"f32[2,12], f32[12,3]", .error = "they must be [T, B, 4 H] and [4 H, H]"},
            {"f32[3,2,12], f32[12,3], f32[3,3]", .error = "operand 2 is f32[3,3]: it must be f32[2,3]"},
            {"f32[3,2,12], f32[12,3], -, f32[2,12]", .error = "operand 3 is f32[2,12]: it must be f32[2,3]"},
            {"bf16[3,2,12], bf16[12,3], -, bf16[2,3]", .error = "it must be f32[2,3]"},
            {"f32[3,2,12], bf16[12,3]", .error = "cast one to the other's type"},
            {"i32[3,2,12], i32[12,3]", .error = "must be floating point"},
            {0}},
};

weft_value *weft_lstm_op(weft_value *x, weft_value *w, weft_value *h0, weft_value *c0, bool reverse,
                         weft_value **c) {
    weft_value *in[] = {x, w, h0, c0};
    recurrent_attrs a = {.reverse = reverse};
    place p = x ? place_of(x) : (place){0};
    weft_value *h = op_value(&weft_op_lstm, c0 ? 4 : h0 ? 3 : 2, in, &a);
    if (c) *c = h ? recurrent_given(&h->node->out[1], p) : NULL;
    return recurrent_given(h, p);
}
