/* lstm.cu - runs of lstm and its backward op: for each step a product, then a thread for each unit of each
 * sample. The formulas are in ops/recurrent. */
#include "ops/cuda/recurrent/recurrent.cuh"

enum { THREADS = 256 };

/* One step; rows [B, ..] of its time. product: NULL in a first step without h0. gates may be x. */
template <class T> struct lstm_step {
    const T *x;
    const float *product, *before;
    T *gates, *h;
    float *c;
    int64_t count, hidden;
};

template <class T> __global__ void __launch_bounds__(THREADS) lstm_forward(lstm_step<T> s) {
    int64_t step = (int64_t)gridDim.x * THREADS, n = s.hidden;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.count; i += step) {
        int64_t at = i / n * 4 * n + i % n;
        float in = sigmoid_of(to_float(s.x[at]) + or_zero(s.product, at));
        float keep = sigmoid_of(to_float(s.x[at + n]) + or_zero(s.product, at + n));
        float add = tanhf(to_float(s.x[at + 2 * n]) + or_zero(s.product, at + 2 * n));
        float out = sigmoid_of(to_float(s.x[at + 3 * n]) + or_zero(s.product, at + 3 * n));
        float c = keep * or_zero(s.before, i) + in * add;
        s.gates[at] = from_float<T>(in);
        s.gates[at + n] = from_float<T>(keep);
        s.gates[at + 2 * n] = from_float<T>(add);
        s.gates[at + 3 * n] = from_float<T>(out);
        s.c[i] = c;
        s.h[i] = from_float<T>(out * tanhf(c));
    }
}

template <class T> static weft_status forward_steps(const recurrent_state *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *w = &c->in[1], *h = &c->out[0], *cells = &c->out[1];
    const tensor *h0 = recurrent_operand(c, 2), *c0 = recurrent_operand(c, 3);
    int64_t steps = h->type.shape[0], hidden = h->type.shape[2], count = h->type.shape[1] * hidden;
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = 0; i < steps; i++) {
        step_times t = times_of_step(c, steps, i);
        const void *from = !t.is_first ? time_of<T>(h, t.before) : h0 ? h0->data : nullptr;
        const float *before = c0 ? static_cast<const float *>(c0->data) : nullptr;
        weft_status status = from ? recurrent_multiply(state, c, from, w) : WEFT_OK;
        if (!t.is_first) before = time_of<float>(cells, t.before);
        lstm_step<T> s = {time_of<T>(x, t.now),
                          from ? static_cast<const float *>(c->workspace) : nullptr,
                          before,
                          time_of<T>(&c->out[2], t.now),
                          time_of<T>(h, t.now),
                          time_of<float>(cells, t.now),
                          count,
                          hidden};
        if (status == WEFT_OK) status = launch(c, lstm_forward<T>, grid, dim3(THREADS), 0, s);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* One step back; rows [B, ..] of its time, NULL: zeros. dc_after is what the step after gives, and becomes
 * what this one gives: in the last step it has no value yet. dgates may be gates. */
template <class T> struct lstm_step_back {
    const T *gates;
    const float *c, *before;
    const T *dh;
    const float *product, *dc;
    T *dgates;
    float *dc_after;
    bool is_last;
    int64_t count, hidden;
};

template <class T> __global__ void __launch_bounds__(THREADS) lstm_backward(lstm_step_back<T> s) {
    int64_t step = (int64_t)gridDim.x * THREADS, n = s.hidden;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < s.count; i += step) {
        int64_t at = i / n * 4 * n + i % n;
        float in = to_float(s.gates[at]), keep = to_float(s.gates[at + n]);
        float add = to_float(s.gates[at + 2 * n]), out = to_float(s.gates[at + 3 * n]);
        float bent = tanhf(s.c[i]), dh = or_zero(s.dh, i) + or_zero(s.product, i);
        float dc = or_zero(s.dc, i) + (s.is_last ? 0.0f : s.dc_after[i]) + dh * out * (1 - bent * bent);
        s.dgates[at] = from_float<T>(dc * add * in * (1 - in));
        s.dgates[at + n] = from_float<T>(dc * or_zero(s.before, i) * keep * (1 - keep));
        s.dgates[at + 2 * n] = from_float<T>(dc * in * (1 - add * add));
        s.dgates[at + 3 * n] = from_float<T>(dh * bent * out * (1 - out));
        s.dc_after[i] = dc * keep;
    }
}

template <class T> static weft_status backward_steps(const recurrent_state *state, const kernel_call *c) {
    const tensor *gates = &c->in[0], *cells = &c->in[1], *w = &c->in[2], *dgates = &c->out[0];
    const tensor *c0 = recurrent_operand(c, 3), *dh = recurrent_operand(c, 4), *dc = recurrent_operand(c, 5);
    int64_t steps = cells->type.shape[0], hidden = cells->type.shape[2],
            count = cells->type.shape[1] * hidden;
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = steps - 1; i >= 0; i--) {
        step_times t = times_of_step(c, steps, i);
        weft_status status = WEFT_OK;
        const float *before = c0 ? static_cast<const float *>(c0->data) : nullptr;
        if (!t.is_first) before = time_of<float>(cells, t.before);
        if (!t.is_last) status = recurrent_multiply(state, c, time_of<T>(dgates, t.after), w);
        lstm_step_back<T> s = {time_of<T>(gates, t.now),
                               time_of<float>(cells, t.now),
                               before,
                               dh ? time_of<T>(dh, t.now) : nullptr,
                               t.is_last ? nullptr : static_cast<const float *>(c->workspace),
                               dc ? time_of<float>(dc, t.now) : nullptr,
                               time_of<T>(dgates, t.now),
                               static_cast<float *>(c->out[1].data),
                               t.is_last,
                               count,
                               hidden};
        if (status == WEFT_OK) status = launch(c, lstm_backward<T>, grid, dim3(THREADS), 0, s);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

RECURRENT(lstm, forward_steps)
RECURRENT(lstm_backward, backward_steps)
