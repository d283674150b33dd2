/* grid_sample.cu - grid_sample and its gradient by x, channels-last. Forward, a thread has one place and
 * channel. Backward it has one image and channel, and adds what the places give in their order: nothing is
 * added atomically, and the bits repeat. */
#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "ops/image/grid_sample.h"
}

enum { THREADS = 256, TAPS = GRID_TAPS };

/* Elements of x along one axis, -1 outside, and their weights, as grid_axis of ops/image/grid_sample.h. */
struct grid_taps {
    int n, at[TAPS];
    float weight[TAPS];
};

struct grid_rule {
    int mode, padding, align_corners, axes, order[3], length[3]; /* of depth, height, width */
    int64_t n, channels, places, pixels;

    /* The index of a place along an axis, and its derivative. */
    __device__ double index(double p, int length, double &slope) const {
        slope = align_corners ? (length - 1) / 2.0 : length / 2.0;
        return align_corners ? (p + 1) / 2 * (length - 1) : ((p + 1) * length - 1) / 2;
    }
    __device__ double reflect(double i, int length, double &slope) const {
        double low = align_corners ? 0 : -0.5, span = align_corners ? length - 1 : length;
        if (span == 0) {
            slope = 0;
            return 0;
        }
        if (i < low) slope = -slope;
        i = fabs(i - low);
        double rest = fmod(i, span);
        if (fmod(floor(i / span), 2.0) != 0) {
            slope = -slope;
            rest = span - rest;
        }
        return rest + low;
    }
    __device__ double pad(double i, int length, double &slope) const {
        bool is_number = fabs(i) < 1099511627776.0; /* 2^40 */
        if (padding == WEFT_GRID_ZEROS) return is_number ? i : -9;
        if (padding == WEFT_GRID_REFLECTION) i = is_number ? reflect(i, length, slope) : -1;
        if (i > 0 && i < length - 1) return i;
        slope = 0;
        return i >= length - 1 ? length - 1 : 0;
    }
    __device__ static int held(double k, int length) {
        return k >= 0 && k < length ? (int)k : -1;
    }
    /* The derivative of a cubic weight with a = -0.75 at distance x. */
    __device__ static double cubic(double x, int order) {
        const double a = -0.75;
        double u = fabs(x), sign = x < 0 && order % 2 ? -1 : 1;
        bool is_near = u < 1;
        if (u >= 2 || order > 3) return 0;
        if (order == 0) return is_near ? ((a + 2) * u - (a + 3)) * u * u + 1 : ((u - 5) * u + 8) * u * a - 4 * a;
        if (order == 1) return sign * (is_near ? (3 * (a + 2) * u - 2 * (a + 3)) * u : (3 * u - 10) * u * a + 8 * a);
        if (order == 2) return is_near ? 6 * (a + 2) * u - 2 * (a + 3) : (6 * u - 10) * a;
        return sign * (is_near ? 6 * (a + 2) : 6 * a);
    }
    __device__ void cubic_taps(double i, int length, double slope, int degree, grid_taps &t) const {
        double none = 0, factor = 1;
        if (!(fabs(i) < 1099511627776.0)) i = -9;
        double first = floor(i);
        for (int k = 0; k < degree; k++) factor *= -slope;
        t.n = TAPS;
        for (int j = 0; j < TAPS; j++) {
            t.at[j] = held(pad(first + j - 1, length, none), length);
            t.weight[j] = (float)(cubic(j - 1 - (i - first), degree) * factor);
        }
    }
    /* Axis k: 0 is depth. */
    __device__ void taps(int k, float p, grid_taps &t) const {
        double slope, i = index(p, length[k], slope);
        int degree = order[k];
        if (mode == WEFT_GRID_BICUBIC) return cubic_taps(i, length[k], slope, degree, t);
        i = pad(i, length[k], slope);
        t.n = mode == WEFT_GRID_NEAREST ? 1 : 2;
        double first = mode == WEFT_GRID_NEAREST ? rint(i) : floor(i);
        t.at[0] = held(first, length[k]);
        t.weight[0] = degree == 0;
        if (t.n == 1) return;
        t.at[1] = held(first + 1, length[k]);
        t.weight[1] = (float)(degree == 0 ? i - first : degree == 1 ? slope : 0);
        t.weight[0] = degree == 0 ? (float)(1 - (i - first)) : -t.weight[1];
    }
    /* All three axes of a place; an image has a depth of one element. */
    __device__ void place(const float *grid, int64_t at, grid_taps t[3]) const {
        t[0].n = 1;
        t[0].at[0] = 0;
        t[0].weight[0] = 1;
        for (int k = 0; k < axes; k++) taps(2 - k, grid[at * axes + k], t[2 - k]);
    }
    /* Calls f(pixel, weight) for each tap inside x. */
    template <class F> __device__ void each(const grid_taps t[3], F f) const {
        for (int d = 0; d < t[0].n; d++)
            for (int i = 0; i < t[1].n; i++)
                for (int j = 0; j < t[2].n; j++) {
                    float weight = t[0].weight[d] * t[1].weight[i] * t[2].weight[j];
                    if (t[0].at[d] < 0 || t[1].at[i] < 0 || t[2].at[j] < 0 || weight == 0) continue;
                    f(((int64_t)t[0].at[d] * length[1] + t[1].at[i]) * length[2] + t[2].at[j], weight);
                }
    }
};

__global__ void __launch_bounds__(THREADS)
    grid_sample(const float *x, const float *grid, float *y, grid_rule r) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < r.n * r.places * r.channels;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t place = i / r.channels, channel = i % r.channels;
        const float *from = x + place / r.places * r.pixels * r.channels + channel;
        grid_taps t[3];
        float sum = 0;
        r.place(grid, place, t);
        r.each(t, [&](int64_t pixel, float weight) { sum += weight * from[pixel * r.channels]; });
        y[i] = sum;
    }
}

__global__ void __launch_bounds__(THREADS)
    grid_sample_backward(const float *dy, const float *grid, float *dx, grid_rule r) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < r.n * r.channels;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t n = i / r.channels, channel = i % r.channels;
        float *to = dx + n * r.pixels * r.channels + channel;
        for (int64_t pixel = 0; pixel < r.pixels; pixel++) to[pixel * r.channels] = 0;
        for (int64_t place = n * r.places; place < (n + 1) * r.places; place++) {
            grid_taps t[3];
            float v = dy[place * r.channels + channel];
            r.place(grid, place, t);
            r.each(t, [&](int64_t pixel, float weight) { to[pixel * r.channels] += weight * v; });
        }
    }
}

/* ---- launches ---- */

static grid_rule rule_of(const kernel_call *c, const tensor_type *x) {
    const grid_attrs *a = static_cast<const grid_attrs *>(c->attrs);
    const tensor_type *grid = &c->in[1].type;
    int axes = x->ndim - 2;
    grid_rule r = {(int)a->mode, (int)a->padding, a->align_corners, axes, {0, 0, 0}, {1, 1, 1}, x->shape[0],
                   x->shape[1],  1,               1};
    for (int k = 0; k < axes; k++) {
        r.order[2 - k] = a->order.n ? (int)a->order.v[k] : 0;
        r.length[2 - k] = (int)x->shape[1 + axes - k];
        r.pixels *= x->shape[2 + k];
        r.places *= grid->shape[1 + k];
    }
    return r;
}

weft_status cuda_grid_sample_run(void *, const kernel_call *c) {
    grid_rule r = rule_of(c, &c->in[0].type);
    return launch(c, grid_sample, dim3(blocks_for(c, r.n * r.places * r.channels, THREADS)), dim3(THREADS), 0,
                  static_cast<const float *>(c->in[0].data), static_cast<const float *>(c->in[1].data),
                  static_cast<float *>(c->out[0].data), r);
}

weft_status cuda_grid_sample_backward_run(void *, const kernel_call *c) {
    grid_rule r = rule_of(c, &c->out[0].type);
    return launch(c, grid_sample_backward, dim3(blocks_for(c, r.n * r.channels, THREADS)), dim3(THREADS), 0,
                  static_cast<const float *>(c->in[0].data), static_cast<const float *>(c->in[1].data),
                  static_cast<float *>(c->out[0].data), r);
}
