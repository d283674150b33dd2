/* rnn.c - rnn and its backward op: the cell's arithmetic; ops/cpu/simd/recurrent.h has the steps. */
#include "ops/cpu/simd/recurrent.h"

static bool is_relu(const part *p) {
    return ((const recurrent_attrs *)p->call->attrs)->act == RECURRENT_RELU;
}

/* ---- forward: operands x, w, h0; result h, which may take the memory of x ---- */

/* NaN passes relu, as in relu.c. */
static void rnn_row(int64_t n, const float *x, const float *product, bool relu, float *h) {
    if (relu)
        for (int64_t j = 0; j < n; j++) {
            float y = x[j] + product[j];
            h[j] = y < 0.0f ? 0.0f : y;
        }
    else
        for (int64_t j = 0; j < n; j++) h[j] = vm_tanh(x[j] + product[j]);
}

static void rnn_forward_row(const part *p, int64_t i) {
    const tensor *x = &p->call->in[0], *h = &p->call->out[0];
    int64_t n = p->walk->hidden, at = row_now(p, x, i);
    float *state = p->state + i * n;
    rnn_row(n, row_read(x, at, n, room_of(p, 0)), p->product + i * p->walk->wide, is_relu(p), state);
    row_keep(h, at, state, n);
}

static const gait rnn_gait = {.w = 1, .h0 = 2, .rooms = 2, .cell = rnn_forward_row};
RECURRENT_KERNEL(rnn);

/* ---- backward: operands dh, h, w; result dx ---- */

static void rnn_row_backward(int64_t n, const float *dh, const float *h, const float *product, bool relu,
                             float *dx) {
    if (relu)
        for (int64_t j = 0; j < n; j++) {
            float all = dh[j] + product[j];
            dx[j] = h[j] > 0.0f ? all : 0.0f;
        }
    else
        for (int64_t j = 0; j < n; j++) dx[j] = (dh[j] + product[j]) * (1.0f - h[j] * h[j]);
}

static void rnn_backward_row(const part *p, int64_t i) {
    const tensor *dh = &p->call->in[0], *h = &p->call->in[1];
    int64_t n = p->walk->hidden, at = row_now(p, dh, i);
    float *dx = p->state + i * n;
    rnn_row_backward(n, row_read(dh, at, n, room_of(p, 0)), row_read(h, at, n, room_of(p, 1)),
                     p->product + i * p->walk->wide, is_relu(p), dx);
    row_keep(&p->call->out[0], at, dx, n);
}

static const gait rnn_backward_gait = {.backward = true, .w = 2, .rooms = 2, .cell = rnn_backward_row};
RECURRENT_KERNEL(rnn_backward);
