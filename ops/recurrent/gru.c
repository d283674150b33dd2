/* gru.c - the steps of torch.nn.GRU (Cho et al., arXiv 1406.1078, with the reset after the product). x is
 * what the inputs contribute to the gates, with their bias; b is the bias of the state's part:
 *     x [T, B, 3 H]   w [3 H, H]   h0 [B, H], b [3 H] (may be left out: zeros)
 *     r, z = sigma of (x + w h_before + b)        n = tanh(x + r m) with m = w h_before + b
 *     h = (1 - z) n + z h_before
 * Results h [T, B, H] and, for gru_backward, the gates r, z, n [T, B, 3 H], which may take the memory of x,
 * and m [T, B, H]. */
#include "ops/recurrent/steps.h"

#include <math.h>

enum { X, W, H0, BIAS };

static bool infer(op_call *c) {
    if (!recurrent_want(c, X, W, GRU_GATES)) return false;
    const tensor_type *x = op_in(c, X);
    int64_t hidden = op_in(c, W)->shape[1];
    tensor_type bias = type_of(dtype_accumulator(x->dtype), 1, &x->shape[2]);
    if (!recurrent_want_state(c, H0, hidden, false) || !recurrent_want_type(c, BIAS, bias)) return false;
    c->n_out = 3;
    c->out[0] = c->out[2] = recurrent_all(x->dtype, x, hidden);
    c->out[1] = *x;
    return true;
}

/* The gradients of the gates and of m (each may be NULL) as gradients of x and, *state, of w h_before + b. */
static weft_value *before_gates(weft_node *n, const recurrent_steps *r, weft_value *dgates, weft_value *dm,
                                weft_value **state) {
    int64_t hidden = r->hidden, columns = GRU_GATES * hidden;
    weft_value *gates = steps_rows(r, &n->out[1], columns), *m = steps_rows(r, &n->out[2], hidden), *g[3];
    for (int k = 0; k < GRU_GATES; k++) g[k] = steps_gate(r, gates, k);
    weft_value *d = steps_rows(r, dgates, columns), *d_m = steps_rows(r, dm, hidden);
    weft_value *of_r = steps_gate(r, d, 0), *of_z = steps_gate(r, d, 1), *of_n = steps_gate(r, d, 2);
    of_n = weft_mul(of_n, slope_of_tanh(g[2]));
    of_r = weft_add(of_r, weft_mul(of_n, m));
    of_r = weft_mul(of_r, slope_of_sigma(g[0]));
    of_z = weft_mul(of_z, slope_of_sigma(g[1]));
    weft_value *of_m = weft_add(d_m, weft_mul(of_n, g[0]));
    *state = steps_gates(GRU_GATES, (weft_value *[]){of_r, of_z, of_m});
    return steps_gates(GRU_GATES, (weft_value *[]){of_r, of_z, of_n});
}

/* Users get h alone, and gru_backward's gradient comes by the gates and m, too. That part is added to what
 * gru_backward gives, and what it gives h of the step before is added to dh. */
static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    weft_value *h0 = n->n_in > H0 ? n->in[H0] : NULL, *dh = dout[0], *by_gates = NULL, *by_state = NULL;
    recurrent_steps r = steps_of(n, n->in[X], n->in[W]);
    if (!dh && !dout[1] && !dout[2]) return;
    if (dout[1] || dout[2]) {
        by_gates = before_gates(n, &r, dout[1], dout[2], &by_state);
        dh = steps_past_w(&r, by_state, n->in[W], dh, &n->out[0]);
    }
    weft_value *in[] = {&n->out[1], &n->out[2], &n->out[0], n->in[W], dh, h0};
    weft_node *back = node_new(n->graph, &weft_op_gru_backward, 6, in, n->attrs);
    if (!back) return;
    weft_value *state = &back->out[1];
    din[X] = &back->out[0];
    if (by_gates) {
        din[X] = weft_add(din[X], steps_like(by_gates, din[X]));
        state = weft_add(state, steps_like(by_state, state));
    }
    recurrent_gradients(n, state, &back->out[2], wanted, din);
    if (n->n_in > BIAS && n->in[BIAS] && wanted[BIAS])
        din[BIAS] = weft_cast(weft_sum(state, 2, (int64_t[]){0, 1}, false), n->in[BIAS]->type.dtype);
}

/* Unit j of sample b in step s. */
static void gru_unit(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const tensor *h = &c->out[0], *h0 = recurrent_operand(c, H0), *bias = recurrent_operand(c, BIAS);
    int64_t hidden = h->type.shape[2], t = recurrent_time(c->attrs, h->type.shape[0], s);
    double x[GRU_GATES], m[GRU_GATES];
    for (int k = 0; k < GRU_GATES; k++) {
        int64_t row = k * hidden + j;
        x[k] = element_get(&c->in[X], (int64_t[]){t, b, row});
        m[k] =
            recurrent_product(&c->in[W], h, h0, c->attrs, s, b, row) + (bias ? element_get(bias, &row) : 0);
    }
    double r = recurrent_sigma(x[0] + m[0]), z = recurrent_sigma(x[1] + m[1]), n = tanh(x[2] + r * m[2]);
    double before = recurrent_before(h, h0, c->attrs, s, b, j), gates[] = {r, z, n};
    for (int k = 0; k < GRU_GATES; k++) element_set(&c->out[1], (int64_t[]){t, b, k * hidden + j}, gates[k]);
    element_set(&c->out[2], (int64_t[]){t, b, j}, m[2]);
    element_set(h, (int64_t[]){t, b, j}, (1 - z) * n + z * before);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_forward(c, &c->out[0], gru_unit);
}

const weft_op weft_op_gru = {
    .name = "gru",
    .summary = "the steps of a gated recurrent unit: h, gates and products of all times",
    .torch = "torch.nn.GRU",
    .min_in = 2,
    .max_in = 4,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = recurrent_attr_table,
    .in_place = 1u << X,
    .in_place_result = 1,
    .precision = PRECISION_REDUCED,
    /* All but the bias, which is f32. */
    .reduced_in = 1u << X | 1u << W | 1u << H0,
    .reduced_out = 7,
    .kinds = {0, 0, 0, WEFT_PARAMS_BIAS},
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[3,2,9], f32[9,3], f32[2,3], f32[9]", .out = "f32[3,2,3], f32[3,2,9], f32[3,2,3]"},
            {"f32[3,2,9], f32[9,3]", "reverse=1", .out = "f32[3,2,3], f32[3,2,9], f32[3,2,3]"},
            {"f32[2,2,6], f32[6,2], -, f32[6]", "reverse=1"},
            {"f32[1,1,3], f32[3,1], f32[1,1]", NULL},
            {"f32[1,2,6], f32[6,2]", NULL},
            /* rows beyond one tile, units beyond one panel and one slice: fast kernels */
            {"f32[3,29,111], f32[111,37], f32[29,37], f32[111]", .low = -1, .high = 1, .no_gradient = true},
            {"f32[2,3,792], f32[792,264]", "reverse=1", .low = -0.5, .high = 0.5, .no_gradient = true},
            {"bf16[3,5,48], bf16[48,16], bf16[5,16], f32[48]", .low = -1, .high = 1,
             .out = "bf16[3,5,16], bf16[3,5,48], bf16[3,5,16]", .no_gradient = true},
            {"f16[3,5,27], f16[27,9]", "reverse=1", .low = -1, .high = 1, .no_gradient = true},
            {"f32[3,2,12], f32[12,3]", .error = "they must be [T, B, 3 H] and [3 H, H]"},
            {"f32[3,2,9], f32[9,3], f32[3,3]", .error = "operand 2 is f32[3,3]: it must be f32[2,3]"},
            {"f32[3,2,9], f32[9,3], -, f32[3]", .error = "operand 3 is f32[3]: it must be f32[9]"},
            {"bf16[3,2,9], bf16[9,3], -, bf16[9]", .error = "it must be f32[9]"},
            {"f32[3,2,9], f64[9,3]", .error = "cast one to the other's type"},
            {0}},
};

weft_value *weft_gru_op(weft_value *x, weft_value *w, weft_value *h0, weft_value *b, bool reverse) {
    weft_value *in[] = {x, w, h0, b};
    recurrent_attrs a = {.reverse = reverse};
    place p = x ? place_of(x) : (place){0};
    return recurrent_given(op_value(&weft_op_gru, b ? 4 : h0 ? 3 : 2, in, &a), p);
}
