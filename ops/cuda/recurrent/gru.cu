/* gru.cu - runs of gru and its backward op: for each step a product, then a thread for each unit of each
 * sample. The formulas are in ops/recurrent. */
#include "ops/cuda/recurrent/recurrent.cuh"

enum { THREADS = 256 };

/* One step; rows [B, ..] of its time. NULL: zeros. gates may be x. */
template <class T> struct gru_step {
    const T *x;
    const float *product, *bias;
    const T *before;
    T *gates, *m, *h;
    int64_t count, hidden;
};

template <class T> __global__ void __launch_bounds__(THREADS) gru_forward(gru_step<T> s) {
    int64_t step = (int64_t)gridDim.x * THREADS, n = s.hidden;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.count; i += step) {
        int64_t j = i % n, at = i / n * 3 * n + j;
        float r = sigmoid_of(to_float(s.x[at]) + (or_zero(s.product, at) + or_zero(s.bias, j)));
        float z = sigmoid_of(to_float(s.x[at + n]) + (or_zero(s.product, at + n) + or_zero(s.bias, j + n)));
        float m = or_zero(s.product, at + 2 * n) + or_zero(s.bias, j + 2 * n);
        float fresh = tanhf(to_float(s.x[at + 2 * n]) + r * m);
        s.gates[at] = from_float<T>(r);
        s.gates[at + n] = from_float<T>(z);
        s.gates[at + 2 * n] = from_float<T>(fresh);
        s.m[i] = from_float<T>(m);
        s.h[i] = from_float<T>((1 - z) * fresh + z * or_zero(s.before, i));
    }
}

template <class T> static weft_status gru_steps(const recurrent_state *state, const kernel_call *c) {
    const tensor *w = &c->in[1], *h = &c->out[0];
    const tensor *h0 = recurrent_operand(c, 2), *bias = recurrent_operand(c, 3);
    int64_t steps = h->type.shape[0], hidden = h->type.shape[2], count = h->type.shape[1] * hidden;
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = 0; i < steps; i++) {
        step_times t = times_of_step(c, steps, i);
        const T *before = !t.is_first ? time_of<T>(h, t.before) : h0 ? static_cast<const T *>(h0->data) : nullptr;
        weft_status status = before ? recurrent_multiply(state, c, before, w) : WEFT_OK;
        gru_step<T> s = {time_of<T>(&c->in[0], t.now),
                         before ? static_cast<const float *>(c->workspace) : nullptr,
                         bias ? static_cast<const float *>(bias->data) : nullptr,
                         before,
                         time_of<T>(&c->out[1], t.now),
                         time_of<T>(&c->out[2], t.now),
                         time_of<T>(h, t.now),
                         count,
                         hidden};
        if (status == WEFT_OK) status = launch(c, gru_forward<T>, grid, dim3(THREADS), 0, s);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* One step back; rows [B, ..] of its time. NULL: zeros. carry is what the step after gives, and becomes what
 * this one gives: in the last step it has no value yet. dx may be gates. */
template <class T> struct gru_step_back {
    const T *gates, *m, *before, *dh;
    const float *product;
    T *dx, *dgates;
    float *carry;
    bool is_last;
    int64_t count, hidden;
};

template <class T> __global__ void __launch_bounds__(THREADS) gru_backward(gru_step_back<T> s) {
    int64_t step = (int64_t)gridDim.x * THREADS, n = s.hidden;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.count; i += step) {
        int64_t at = i / n * 3 * n + i % n;
        float r = to_float(s.gates[at]), z = to_float(s.gates[at + n]);
        float fresh = to_float(s.gates[at + 2 * n]);
        float dh = to_float(s.dh[i]) + or_zero(s.product, i) + (s.is_last ? 0.0f : s.carry[i]);
        float dn = dh * (1 - z) * (1 - fresh * fresh);
        float dz = dh * (or_zero(s.before, i) - fresh) * z * (1 - z);
        float dr = dn * to_float(s.m[i]) * r * (1 - r);
        s.dx[at] = s.dgates[at] = from_float<T>(dr);
        s.dx[at + n] = s.dgates[at + n] = from_float<T>(dz);
        s.dx[at + 2 * n] = from_float<T>(dn);
        s.dgates[at + 2 * n] = from_float<T>(dn * r);
        s.carry[i] = dh * z;
    }
}

template <class T> static weft_status gru_steps_back(const recurrent_state *state, const kernel_call *c) {
    const tensor *h = &c->in[2], *w = &c->in[3], *dgates = &c->out[1], *h0 = recurrent_operand(c, 5);
    int64_t steps = h->type.shape[0], hidden = h->type.shape[2], count = h->type.shape[1] * hidden;
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = steps - 1; i >= 0; i--) {
        step_times t = times_of_step(c, steps, i);
        weft_status status = WEFT_OK;
        const T *before = !t.is_first ? time_of<T>(h, t.before) : h0 ? static_cast<const T *>(h0->data) : nullptr;
        if (!t.is_last) status = recurrent_multiply(state, c, time_of<T>(dgates, t.after), w);
        gru_step_back<T> s = {time_of<T>(&c->in[0], t.now),
                              time_of<T>(&c->in[1], t.now),
                              before,
                              time_of<T>(&c->in[4], t.now),
                              t.is_last ? nullptr : static_cast<const float *>(c->workspace),
                              time_of<T>(&c->out[0], t.now),
                              time_of<T>(dgates, t.now),
                              static_cast<float *>(c->out[2].data),
                              t.is_last,
                              count,
                              hidden};
        if (status == WEFT_OK) status = launch(c, gru_backward<T>, grid, dim3(THREADS), 0, s);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

RECURRENT(gru, gru_steps)
RECURRENT(gru_backward, gru_steps_back)
