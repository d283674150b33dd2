/* lstm_backward.c - the gradients of lstm, from its last step to its first. With dh and dc (either may be
 * left out) the gradients of its results, and `next` the step after:
 *     dh' = dh + dgates_next w        dc' = dc + dc'_next f_next + dh' o (1 - tanh^2 c)
 *     di = dc' g i (1 - i)    df = dc' c_before f (1 - f)    dg = dc' i (1 - g^2)
 *     do = dh' tanh c o (1 - o)
 * Results dgates [T, B, 4 H], which is the gradient of x too and may take the memory of the gates, and
 * dc0 [B, H], which is dc' f of the first step.
 *
 * Its own gradients: dgates is k (dc', dc', dc', dh') with factors k of the gates, and in dc' dh' has the
 * factor m = o (1 - tanh^2 c). With u, u0 the gradients of dgates and dc0, from the first step to the last,
 *     u' = u + p_before w^T        q = u0 or v_before        (p, v: the gradients of dh' and dc')
 *     v = q f + (k u')_i + (k u')_f + (k u')_g        p = (k u')_o + m v
 * Then k has the gradient u' (dc', dc', dc', dh'), m has v dh', f has q dc', w the sum of dgates_next^T p. */
#include "ops/recurrent/steps.h"

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

/* ---- the gradient ---- */

/* Rows of the operands and what is computed of them: the gates, tanh c, c_before, k and m. */
typedef struct lstm_rows {
    recurrent_steps r;
    weft_value *w, *gate[LSTM_GATES], *slope[LSTM_GATES], *bent, *slope_c, *before, *k, *m;
} lstm_rows;

static void rows_read(lstm_rows *l, weft_node *n) {
    int64_t hidden = n->in[W]->type.shape[1];
    weft_value *c0 = n->n_in > C0 ? n->in[C0] : NULL, *k[LSTM_GATES];
    l->r = steps_of(n, n->in[GATES], n->in[W]);
    l->w = steps_one(&l->r, n->in[W], hidden);
    weft_value *gates = steps_rows(&l->r, n->in[GATES], LSTM_GATES * hidden);
    weft_value *c = steps_rows(&l->r, n->in[C], hidden), *first = steps_one(&l->r, c0, hidden);
    for (int i = 0; i < LSTM_GATES; i++) {
        l->gate[i] = steps_gate(&l->r, gates, i);
        l->slope[i] = i == 2 ? slope_of_tanh(l->gate[i]) : slope_of_sigma(l->gate[i]);
    }
    l->bent = weft_tanh(c);
    l->slope_c = slope_of_tanh(l->bent);
    l->before = steps_before(&l->r, c, first);
    weft_value *const factors[] = {l->gate[2], l->before, l->gate[0], l->bent};
    for (int i = 0; i < LSTM_GATES; i++) k[i] = weft_mul(factors[i], l->slope[i]);
    l->k = steps_gates(LSTM_GATES, k);
    l->m = weft_mul(l->gate[3], l->slope_c);
}

/* dh' and dc' again: dh' is of what the step after has left in dgates, dc' goes from step to step. */
static bool states_again(const lstm_rows *l, weft_node *n, weft_value **dh, weft_value **dc) {
    const recurrent_steps *r = &l->r;
    weft_value **list = arena_new_array(&r->g->model->arena, (size_t)r->steps, sizeof *list), *next = NULL;
    weft_value *dgates = steps_rows(r, &n->out[0], LSTM_GATES * r->hidden);
    if (!list) return model_fail(r->g->model, r->g, WEFT_MEMORY, "lstm: out of memory");
    weft_value *back = weft_matmul(steps_after(r, dgates), l->w, false, false);
    *dh = weft_add(steps_rows(r, n->n_in > DH ? n->in[DH] : NULL, r->hidden), back);
    weft_value *own = steps_rows(r, n->n_in > DC ? n->in[DC] : NULL, r->hidden);
    own = weft_add(own, weft_mul(*dh, l->m));
    for (int64_t s = r->steps - 1; s >= 0; s--) {
        weft_value *now = steps_at(r, own, s);
        if (next) now = weft_add(now, next);
        list[r->reverse ? r->steps - 1 - s : s] = now;
        next = weft_mul(now, steps_at(r, l->gate[1], s));
    }
    *dc = steps_join(r, list);
    return *dc != NULL;
}

/* (k u')_i + (k u')_f + (k u')_g of one step. */
static weft_value *of_cell(const recurrent_steps *r, weft_value *ku) {
    const int64_t shape[] = {r->batch, LSTM_GATES - 1, r->hidden}, axis = 1;
    weft_value *three = weft_slice(ku, 1, 0, (LSTM_GATES - 1) * r->hidden);
    return weft_sum(weft_reshape(three, 3, shape), 1, &axis, false);
}

/* u', p, v and q of all steps. */
typedef struct lstm_reached {
    weft_value *u, *p, *v, *q;
} lstm_reached;

static bool reached(const lstm_rows *l, weft_value *du, weft_value *u0, lstm_reached *to) {
    const recurrent_steps *r = &l->r;
    weft_value **u = arena_new_array(&r->g->model->arena, 3 * (size_t)r->steps, sizeof *u);
    if (!u) return model_fail(r->g->model, r->g, WEFT_MEMORY, "lstm: out of memory");
    weft_value **p = u + r->steps, **v = p + r->steps, *last_p = NULL, *q = u0;
    for (int64_t s = 0; s < r->steps; s++) {
        int64_t t = r->reverse ? r->steps - 1 - s : s;
        u[t] = steps_at(r, du, s);
        if (last_p) u[t] = weft_add(u[t], weft_matmul(last_p, l->w, false, true));
        weft_value *ku = weft_mul(u[t], steps_at(r, l->k, s));
        weft_value *kept = weft_mul(q, steps_at(r, l->gate[1], s));
        q = v[t] = weft_add(kept, of_cell(r, ku));
        weft_value *past = weft_mul(q, steps_at(r, l->m, s));
        last_p = p[t] = weft_add(past, steps_gate(r, ku, 3));
    }
    to->u = steps_join(r, u);
    to->p = steps_join(r, p);
    to->v = steps_join(r, v);
    to->q = steps_before(r, to->v, u0);
    return to->q != NULL;
}

/* a b + c d; each of the four exists already. */
static weft_value *sum_of_products(weft_value *a, weft_value *b, weft_value *c, weft_value *d) {
    weft_value *ab = weft_mul(a, b);
    return weft_add(ab, weft_mul(c, d));
}

/* Of the gates, from the gradients b of k and bm of m. */
static void gates_gradient(const lstm_rows *l, weft_node *n, const lstm_reached *at, weft_value *const *b,
                           weft_value *bm, weft_value *dc, weft_value **din) {
    weft_value *const *gate = l->gate, *const *slope = l->slope, *d[LSTM_GATES];
    weft_value *of_i = weft_mul(b[0], gate[2]), *of_f = weft_mul(b[1], l->before);
    weft_value *of_g = weft_mul(weft_mul(b[2], gate[0]), gate[2]), *of_o = weft_mul(b[3], l->bent);
    d[0] = sum_of_products(of_i, bend_of_sigma(gate[0]), b[2], slope[2]);
    d[1] = sum_of_products(of_f, bend_of_sigma(gate[1]), at->q, dc);
    of_g = weft_scale(of_g, 2);
    d[2] = weft_sub(weft_mul(b[0], slope[0]), of_g);
    d[3] = sum_of_products(of_o, bend_of_sigma(gate[3]), bm, l->slope_c);
    din[GATES] = steps_like(steps_gates(LSTM_GATES, d), n->in[GATES]);
}

/* Of c, as c_before and by tanh c, and of c0. */
static void cell_gradient(const lstm_rows *l, weft_node *n, weft_value *const *b, weft_value *bm,
                          const bool *wanted, weft_value **din) {
    const recurrent_steps *r = &l->r;
    weft_value *of_before = weft_mul(b[1], l->slope[1]);
    weft_value *of_m = weft_scale(weft_mul(weft_mul(bm, l->gate[3]), l->bent), -2);
    weft_value *of_bent = weft_add(weft_mul(b[3], l->slope[3]), of_m);
    weft_value *later = steps_after(r, of_before);
    weft_value *of_c = weft_add(weft_mul(of_bent, l->slope_c), later);
    din[C] = steps_like(of_c, n->in[C]);
    if (n->n_in > C0 && n->in[C0] && wanted[C0]) din[C0] = steps_like(steps_at(r, of_before, 0), n->in[C0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    lstm_rows l;
    lstm_reached at = {0};
    weft_value *dh = NULL, *dc = NULL, *b[LSTM_GATES];
    rows_read(&l, n);
    const recurrent_steps *r = &l.r;
    weft_value *du = steps_rows(r, dout[0], LSTM_GATES * r->hidden), *u0 = steps_one(r, dout[1], r->hidden);
    if (!states_again(&l, n, &dh, &dc) || !reached(&l, du, u0, &at)) return;
    weft_value *all = weft_mul(at.u, steps_gates(LSTM_GATES, (weft_value *[]){dc, dc, dc, dh}));
    for (int i = 0; i < LSTM_GATES; i++) b[i] = steps_gate(r, all, i);
    weft_value *bm = weft_mul(at.v, dh);
    gates_gradient(&l, n, &at, b, bm, dc, din);
    cell_gradient(&l, n, b, bm, wanted, din);
    weft_value *later = steps_after(r, steps_rows(r, &n->out[0], LSTM_GATES * r->hidden));
    if (wanted[W]) din[W] = steps_like(weft_matmul(later, at.p, true, false), n->in[W]);
    if (n->n_in > DH && n->in[DH]) din[DH] = steps_like(at.p, n->in[DH]);
    if (n->n_in > DC && n->in[DC]) din[DC] = steps_like(at.v, n->in[DC]);
}

/* ---- the reference ---- */

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
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = recurrent_attr_table,
    .in_place = 1u << GATES,
    .precision = PRECISION_REDUCED,
    /* All but c, c0, dc and dc0, which are f32. */
    .reduced_in = 1u << GATES | 1u << W | 1u << DH,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    /* gates need not be between 0 and 1 for kernels to agree, nor for differences */
    .samples =
        (const op_sample[]){
            {"f32[3,2,12], f32[3,2,3], f32[12,3], f32[2,3], f32[3,2,3], f32[3,2,3]", .low = -1, .high = 1,
             .out = "f32[3,2,12], f32[2,3]"},
            {"f32[3,2,12], f32[3,2,3], f32[12,3], -, f32[3,2,3], -", "reverse=1", .low = -1, .high = 1},
            {"f32[2,2,4], f32[2,2,1], f32[4,1], f32[2,1], -, f32[2,2,1]", "reverse=1", .low = -1, .high = 1},
            {"f32[1,1,4], f32[1,1,1], f32[4,1], -, f32[1,1,1], -", .low = -1, .high = 1},
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
