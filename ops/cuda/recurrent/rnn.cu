/* rnn.cu - runs of rnn and its backward op: for each step a product, then a thread for each unit of each
 * sample. */
#include "ops/cuda/recurrent/recurrent.cuh"

enum { THREADS = 256 };

static bool has_relu(const kernel_call *c) {
    return static_cast<const recurrent_attrs *>(c->attrs)->act == RECURRENT_RELU;
}

/* h may be x. product: NULL in a first step without h0. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    rnn_forward(const T *x, const float *product, T *h, int64_t count, bool relu) {
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        float y = to_float(x[i]) + or_zero(product, i);
        h[i] = from_float<T>(!relu ? tanhf(y) : y < 0 ? 0.0f : y);
    }
}

template <class T> static weft_status rnn_steps(const recurrent_state *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *h = &c->out[0], *h0 = recurrent_operand(c, 2);
    int64_t steps = h->type.shape[0], count = h->type.shape[1] * h->type.shape[2];
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = 0; i < steps; i++) {
        step_times t = times_of_step(c, steps, i);
        const void *from = !t.is_first ? time_of<T>(h, t.before) : h0 ? h0->data : nullptr;
        weft_status status = from ? recurrent_multiply(state, c, from, &c->in[1]) : WEFT_OK;
        const float *product = from ? static_cast<const float *>(c->workspace) : nullptr;
        if (status == WEFT_OK)
            status = launch(c, rnn_forward<T>, grid, dim3(THREADS), 0, (const T *)time_of<T>(x, t.now), product,
                            time_of<T>(h, t.now), count, has_relu(c));
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

/* dx may be dh or h. product: NULL in the last step. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    rnn_backward(const T *dh, const T *h, const float *product, T *dx, int64_t count, bool relu) {
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        float d = to_float(dh[i]) + or_zero(product, i), y = to_float(h[i]);
        dx[i] = from_float<T>(!relu ? d * (1 - y * y) : y > 0 ? d : 0.0f);
    }
}

template <class T> static weft_status rnn_steps_back(const recurrent_state *state, const kernel_call *c) {
    const tensor *dh = &c->in[0], *h = &c->in[1], *dx = &c->out[0];
    int64_t steps = h->type.shape[0], count = h->type.shape[1] * h->type.shape[2];
    dim3 grid(blocks_for(c, count, THREADS));
    for (int64_t i = steps - 1; i >= 0; i--) {
        step_times t = times_of_step(c, steps, i);
        weft_status status = t.is_last ? WEFT_OK : recurrent_multiply(state, c, time_of<T>(dx, t.after), &c->in[2]);
        const float *product = t.is_last ? nullptr : static_cast<const float *>(c->workspace);
        if (status == WEFT_OK)
            status = launch(c, rnn_backward<T>, grid, dim3(THREADS), 0, (const T *)time_of<T>(dh, t.now),
                            (const T *)time_of<T>(h, t.now), product, time_of<T>(dx, t.now), count, has_relu(c));
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

RECURRENT(rnn, rnn_steps)
RECURRENT(rnn_backward, rnn_steps_back)
