/* gru.c - gru and its backward op: the cell's arithmetic; ops/cpu/simd/recurrent.h has the steps. */
#include "ops/cpu/simd/recurrent.h"

/* ---- forward: operands x, w, h0, b; results h, gates, m ---- */

/* x, product, b and gates are rows [3 H], the others [H]. gates may be x; h is the state before, then the
 * state. */
static void gru_row(int64_t n, const float *x, const float *product, const float *b, float *gates, float *m,
                    float *h) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float r = vm_sigmoid(x[j] + (product[j] + b[j]));
        float z = vm_sigmoid(x[n + j] + (product[n + j] + b[n + j]));
        float of_h = product[2 * n + j] + b[2 * n + j];
        float new = vm_tanh(x[2 * n + j] + r * of_h);
        gates[j] = r;
        gates[n + j] = z;
        gates[2 * n + j] = new;
        m[j] = of_h;
        h[j] = (1.0f - z) * new + z *h[j];
    }
}

static void gru_forward_row(const part *p, int64_t i) {
    const kernel_call *call = p->call;
    const tensor *x = &call->in[0], *b = recurrent_operand(call, 3), *h = &call->out[0],
                 *gates = &call->out[1], *m = &call->out[2];
    int64_t n = p->walk->hidden, at = row_now(p, x, i);
    float *room = room_of(p, 0), *zeros = room_of(p, 1), *state = p->state + i * n;
    float *to = row_place(gates, at, room);
    float *m_to = row_place(m, row_now(p, m, i), room_of(p, 2));
    if (!b) memset(zeros, 0, (size_t)(3 * n) * sizeof *zeros);
    gru_row(n, row_read(x, at, 3 * n, room), p->product + i * p->walk->wide, b ? b->data : zeros, to, m_to,
            state);
    row_write(gates, at, 3 * n, to);
    row_write(m, row_now(p, m, i), n, m_to);
    row_keep(h, row_now(p, h, i), state, n);
}

static const gait gru_gait = {.w = 1, .h0 = 2, .rooms = 3, .cell = gru_forward_row};
RECURRENT_KERNEL(gru);

/* ---- backward: operands gates, m, h, w, dh, h0; results dx, dgates, carry ---- */

/* gates, dx and d are rows [3 H], the others [H]. dx may be gates. `dh` is without `product` and `carry`,
 * which the step after gives; carry becomes what the step before gets. */
static void gru_row_backward(int64_t n, const float *gates, const float *m, const float *before,
                             const float *dh, const float *product, float *carry, float *dx, float *d) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float r = gates[j], z = gates[n + j], new = gates[2 * n + j];
        float dh_all = dh[j] + product[j] + carry[j];
        float dn = dh_all * (1.0f - z) * (1.0f - new *new);
        float dz = dh_all * (before[j] - new) * z * (1.0f - z), dr = dn * m[j] * r * (1.0f - r);
        dx[j] = d[j] = dr;
        dx[n + j] = d[n + j] = dz;
        dx[2 * n + j] = dn;
        d[2 * n + j] = dn * r;
        carry[j] = dh_all * z;
    }
}

/* The state before, of h or h0. */
static const float *gru_before(const part *p, int64_t i, float *room) {
    const tensor *h = &p->call->in[2];
    if (p->is_first) return state_row(p, recurrent_operand(p->call, 5), i, room);
    return row_read(h, row_before(p, h, i), p->walk->hidden, room);
}

static void gru_backward_row(const part *p, int64_t i) {
    const kernel_call *call = p->call;
    const tensor *gates = &call->in[0], *m = &call->in[1], *dh = &call->in[4], *dx = &call->out[0];
    int64_t n = p->walk->hidden, at = row_now(p, gates, i);
    float *d = p->state + i * 3 * n, *carry = (float *)call->out[2].data + (p->first + i) * n;
    float *to = row_place(dx, at, room_of(p, 0));
    if (p->is_last) memset(carry, 0, (size_t)n * sizeof *carry);
    gru_row_backward(n, row_read(gates, at, 3 * n, room_of(p, 0)),
                     row_read(m, row_now(p, m, i), n, room_of(p, 1)), gru_before(p, i, room_of(p, 2)),
                     row_read(dh, row_now(p, dh, i), n, room_of(p, 3)), p->product + i * p->walk->wide, carry,
                     to, d);
    row_write(dx, at, 3 * n, to);
    row_keep(&call->out[1], at, d, 3 * n);
}

static const gait gru_backward_gait = {.backward = true, .w = 3, .rooms = 4, .cell = gru_backward_row};
RECURRENT_KERNEL(gru_backward);
