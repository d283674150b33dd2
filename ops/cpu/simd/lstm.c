/* lstm.c - lstm and its backward op: the cell's arithmetic; ops/cpu/simd/recurrent.h has the steps. */
#include "ops/cpu/simd/recurrent.h"

/* ---- forward: operands x, w, h0, c0; results h, c, gates ---- */

/* All pointers are rows: x, product and gates [4 H], the others [H]. gates may be x, so nothing is
 * `restrict`; each element depends on the elements at its own places only, as the pragma says. */
static void lstm_row(int64_t n, const float *x, const float *product, const float *before, float *gates,
                     float *c, float *h) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float i = vm_sigmoid(x[j] + product[j]), f = vm_sigmoid(x[n + j] + product[n + j]);
        float g = vm_tanh(x[2 * n + j] + product[2 * n + j]);
        float o = vm_sigmoid(x[3 * n + j] + product[3 * n + j]);
        float now = f * before[j] + i * g;
        gates[j] = i;
        gates[n + j] = f;
        gates[2 * n + j] = g;
        gates[3 * n + j] = o;
        c[j] = now;
        h[j] = o * vm_tanh(now);
    }
}

static void forward_row(const part *p, int64_t i) {
    const kernel_call *call = p->call;
    const tensor *x = &call->in[0], *c = &call->out[1], *gates = &call->out[2];
    int64_t n = p->walk->hidden, at = row_now(p, x, i);
    float *room = room_of(p, 0), *h = p->state + i * n, *cells = c->data;
    const float *before = p->is_first ? state_row(p, recurrent_operand(call, 3), i, room_of(p, 1))
                                      : cells + row_before(p, c, i);
    float *to = row_place(gates, at, room);
    lstm_row(n, row_read(x, at, 4 * n, room), p->product + i * p->walk->wide, before, to,
             cells + row_now(p, c, i), h);
    row_write(gates, at, 4 * n, to);
    row_keep(&call->out[0], row_now(p, &call->out[0], i), h, n);
}

static const gait lstm_gait = {.w = 1, .h0 = 2, .rooms = 2, .cell = forward_row};
RECURRENT_KERNEL(lstm);

/* ---- backward: operands gates, c, w, c0, dh, dc; results dgates, dc0 ---- */

/* gates and d are rows [4 H]; `dh` [H] without `product`, which is its part from the step after; dc_after
 * [H] becomes what the step before gets. The formulas are in ops/recurrent/lstm_backward.c. */
static void lstm_row_backward(int64_t n, const float *gates, const float *c, const float *before,
                              const float *dh, const float *product, const float *dc, float *dc_after,
                              float *restrict d) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
        float bent = vm_tanh(c[j]), dh_all = dh[j] + product[j];
        float dc_all = dc[j] + dc_after[j] + dh_all * o * (1.0f - bent * bent);
        d[j] = dc_all * g * i * (1.0f - i);
        d[n + j] = dc_all * before[j] * f * (1.0f - f);
        d[2 * n + j] = dc_all * i * (1.0f - g * g);
        d[3 * n + j] = dh_all * bent * o * (1.0f - o);
        dc_after[j] = dc_all * f;
    }
}

/* A row at the part's time of an operand that may be missing: zeros in `room`. */
static const float *row_or_zeros(const part *p, const tensor *t, int64_t i, float *room) {
    int64_t n = p->walk->hidden;
    if (t) return row_read(t, row_now(p, t, i), n, room);
    memset(room, 0, (size_t)n * sizeof *room);
    return room;
}

/* The row of dc0 holds what the step after gives. */
static void backward_row(const part *p, int64_t i) {
    const kernel_call *call = p->call;
    const tensor *gates = &call->in[0], *c = &call->in[1];
    int64_t n = p->walk->hidden, at = row_now(p, gates, i);
    const float *cells = c->data;
    float *d = p->state + i * 4 * n, *dc_after = (float *)call->out[1].data + (p->first + i) * n;
    if (p->is_last) memset(dc_after, 0, (size_t)n * sizeof *dc_after);
    const float *before = p->is_first ? state_row(p, recurrent_operand(call, 3), i, room_of(p, 1))
                                      : cells + row_before(p, c, i);
    lstm_row_backward(n, row_read(gates, at, 4 * n, room_of(p, 0)), cells + row_now(p, c, i), before,
                      row_or_zeros(p, recurrent_operand(call, 4), i, room_of(p, 2)),
                      p->product + i * p->walk->wide,
                      row_or_zeros(p, recurrent_operand(call, 5), i, room_of(p, 3)), dc_after, d);
    row_keep(&call->out[0], at, d, 4 * n);
}

static const gait lstm_backward_gait = {.backward = true, .w = 2, .rooms = 4, .cell = backward_row};
RECURRENT_KERNEL(lstm_backward);
