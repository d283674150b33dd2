/* gru_backward.c - the gradients of gru, from its last step to its first. With dh the gradient of its result
 * and `next` the step after:
 *     dh' = dh + dh'_next z_next + dgates_next w        dn = dh' (1 - z) (1 - n^2)
 *     dz = dh' (h_before - n) z (1 - z)        dr = dn m r (1 - r)        dm = dn r
 * Results dx = dr, dz, dn [T, B, 3 H], which may take the memory of the gates; dgates = dr, dz, dm [T, B, 3
 * H], the gradient of w h_before + b; and dh' z of the first step [B, H], what h0 gets past w.
 *
 * Its own gradients: dx and dgates are dh' times factors k and k' of the gates: of r, z, n and of r, z, m.
 * With a, u and u0 the gradients of the results, from the first step to the last, p the gradient of dh':
 *     u' = u + p_before w^T        q = u0 or p_before        p = q z + sum over gates of (k a + k' u')
 * Then k has the gradient a dh', k' has u' dh', z has q dh', and w the sum of dgates_next^T p. */
#include "ops/recurrent/steps.h"

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

/* ---- the gradient ---- */

/* Rows of the operands and what is computed of them: gates, m, h_before, dn's factor (1 - z) (1 - n^2), the
 * slopes of r and z, k and k'. */
typedef struct gru_rows {
    recurrent_steps r;
    weft_value *w, *gate[GRU_GATES], *m, *apart, *kn, *slope_n, *slope_r, *slope_z, *k, *k_state;
} gru_rows;

static void rows_read(gru_rows *l, weft_node *n) {
    int64_t hidden = n->in[W]->type.shape[1];
    l->r = steps_of(n, n->in[GATES], n->in[W]);
    const recurrent_steps *r = &l->r;
    l->w = steps_one(r, n->in[W], hidden);
    weft_value *gates = steps_rows(r, n->in[GATES], GRU_GATES * hidden);
    for (int i = 0; i < GRU_GATES; i++) l->gate[i] = steps_gate(r, gates, i);
    l->m = steps_rows(r, n->in[M], hidden);
    weft_value *first = steps_one(r, n->n_in > H0 ? n->in[H0] : NULL, hidden);
    weft_value *before = steps_before(r, steps_rows(r, n->in[H], hidden), first);
    l->apart = weft_sub(before, l->gate[2]);
    l->slope_r = slope_of_sigma(l->gate[0]);
    l->slope_z = slope_of_sigma(l->gate[1]);
    l->slope_n = slope_of_tanh(l->gate[2]);
    l->kn = weft_sub(l->slope_n, weft_mul(l->gate[1], l->slope_n));
    weft_value *kr = weft_mul(weft_mul(l->kn, l->m), l->slope_r), *kz = weft_mul(l->apart, l->slope_z);
    l->k = steps_gates(GRU_GATES, (weft_value *[]){kr, kz, l->kn});
    weft_value *km = weft_mul(l->kn, l->gate[0]);
    l->k_state = steps_gates(GRU_GATES, (weft_value *[]){kr, kz, km});
}

/* dh' again: what the step after has left in dgates, and dh' z from step to step. */
static weft_value *state_again(const gru_rows *l, weft_node *n) {
    const recurrent_steps *r = &l->r;
    weft_value *dgates = steps_rows(r, &n->out[1], GRU_GATES * r->hidden);
    weft_value *back = weft_matmul(steps_after(r, dgates), l->w, false, false);
    weft_value *own = weft_add(steps_rows(r, n->in[DH], r->hidden), back);
    return steps_carried(r, own, l->gate[1]);
}

/* u' and p of all steps; ka: k a. */
static bool reached(const gru_rows *l, weft_value *ka, weft_value *du, weft_value *u0, weft_value **all_u,
                    weft_value **all_p) {
    const recurrent_steps *r = &l->r;
    const int64_t shape[] = {r->batch, GRU_GATES, r->hidden}, axis = 1;
    weft_value **u = steps_list(r, 2);
    if (!u) return false;
    weft_value **p = u + r->steps, *last = NULL;
    for (int64_t s = 0; s < r->steps; s++) {
        int64_t t = steps_time(r, s);
        u[t] = steps_at(r, du, s);
        if (last) u[t] = weft_add(u[t], weft_matmul(last, l->w, false, true));
        weft_value *sum = weft_mul(u[t], steps_at(r, l->k_state, s));
        sum = weft_sum(weft_reshape(weft_add(sum, steps_at(r, ka, s)), 3, shape), 1, &axis, false);
        last = p[t] = weft_add(sum, weft_mul(last ? last : u0, steps_at(r, l->gate[1], s)));
    }
    *all_u = steps_join(r, u);
    *all_p = steps_join(r, p);
    return *all_p != NULL;
}

/* Of gates, m, h and h0, from the gradients b of k, bm of km and of_z of z. */
static void gates_gradient(const gru_rows *l, weft_node *n, weft_value *const *b, weft_value *bm,
                           weft_value *of_z, const bool *wanted, weft_value **din) {
    const recurrent_steps *r = &l->r;
    weft_value *br = weft_mul(b[0], l->slope_r), *of_before = weft_mul(b[1], l->slope_z);
    weft_value *bn = weft_add(b[2], weft_mul(br, l->m));
    bn = weft_add(bn, weft_mul(bm, l->gate[0]));
    weft_value *of_m = weft_mul(br, l->kn);
    weft_value *of_r = weft_mul(weft_mul(b[0], l->kn), l->m), *bend_r = bend_of_sigma(l->gate[0]);
    of_r = weft_mul(of_r, bend_r);
    of_r = weft_add(of_r, weft_mul(bm, l->kn));
    of_z = weft_sub(of_z, weft_mul(bn, l->slope_n));
    weft_value *by_slope = weft_mul(b[1], l->apart);
    of_z = weft_add(of_z, weft_mul(by_slope, bend_of_sigma(l->gate[1])));
    weft_value *left = weft_offset(weft_neg(l->gate[1]), 1);
    weft_value *of_n = weft_scale(weft_mul(weft_mul(bn, left), l->gate[2]), -2);
    of_n = weft_sub(of_n, of_before);
    din[GATES] = steps_like(steps_gates(GRU_GATES, (weft_value *[]){of_r, of_z, of_n}), n->in[GATES]);
    din[M] = steps_like(of_m, n->in[M]);
    din[H] = steps_like(steps_after(r, of_before), n->in[H]);
    if (n->n_in > H0 && n->in[H0] && wanted[H0]) din[H0] = steps_like(steps_at(r, of_before, 0), n->in[H0]);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    gru_rows l;
    weft_value *b[GRU_GATES], *u = NULL, *p = NULL;
    rows_read(&l, n);
    const recurrent_steps *r = &l.r;
    int64_t columns = GRU_GATES * r->hidden;
    weft_value *a = steps_rows(r, dout[0], columns), *du = steps_rows(r, dout[1], columns);
    weft_value *u0 = steps_one(r, dout[2], r->hidden), *dh = state_again(&l, n);
    if (!dh || !reached(&l, weft_mul(a, l.k), du, u0, &u, &p)) return;
    for (int i = 0; i < GRU_GATES; i++) {
        b[i] = steps_gate(r, a, i);
        if (i < 2) b[i] = weft_add(b[i], steps_gate(r, u, i)); /* k' has the k of r and z */
        b[i] = weft_mul(b[i], dh);
    }
    weft_value *bm = weft_mul(steps_gate(r, u, 2), dh), *of_z = weft_mul(steps_before(r, p, u0), dh);
    gates_gradient(&l, n, b, bm, of_z, wanted, din);
    weft_value *later = steps_after(r, steps_rows(r, &n->out[1], columns));
    if (wanted[W]) din[W] = steps_like(weft_matmul(later, p, true, false), n->in[W]);
    din[DH] = steps_like(p, n->in[DH]);
}

/* ---- the reference ---- */

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
    OP_ATTRS(recurrent_attrs, recurrent_attr_table),
    .in_place = 1u << GATES,
    .precision = PRECISION_REDUCED,
    .f32_out = 1 << 2,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    /* gates need not be between 0 and 1 for kernels to agree, nor for differences */
    .samples =
        (const op_sample[]){
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[3,2,3], f32[2,3]", .low = -1, .high = 1,
             .out = "f32[3,2,9], f32[3,2,9], f32[2,3]"},
            {"f32[3,2,9], f32[3,2,3], f32[3,2,3], f32[9,3], f32[3,2,3]", "reverse=1", .low = -1, .high = 1},
            {"f32[1,1,3], f32[1,1,1], f32[1,1,1], f32[3,1], f32[1,1,1]", .low = -1, .high = 1},
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
