/* batch_norm.cu - images are [rows, channels] in memory: statistics are column sums (columns.cuh), then one
 * pass writes the results. x is read twice, forward and backward; the second time from the L2 cache where it
 * fits. */
#include "ops/cuda/kit/columns.cuh"

extern "C" {
#include "ops/norm_loss/norm.h"
}

/* Count, mean and sum of squared distances from the mean: parts of any size merge without cancellation (Chan,
 * Golub, LeVeque 1979). */
struct moments {
    float count, mean, squares;

    __device__ static moments none() {
        return moments{0, 0, 0};
    }
    __device__ void merge(const moments &other) {
        float all = count + other.count, apart = other.mean - mean;
        if (other.count == 0) return;
        mean += apart * (other.count / all);
        squares += other.squares + apart * apart * (count * (other.count / all));
        count = all;
    }
};

/* The SOURCE (columns.cuh) of the statistics. */
template <class T> struct batch_norm_source {
    const T *x;
    int64_t rows, channels;
    float eps;
    float *mean, *rstd, *var;

    /* Sums of x - x0, where x0 is the first element that the thread sees: the error by cancellation is then a
     * small multiple of the count, whatever the mean. */
    using part = moments;
    template <int VEC> struct columns_of {
        float zero[VEC], sum[VEC], squares[VEC];
        bool is_begun = false;

        /* x0 is not known before the first row */
        __device__ void begin(const batch_norm_source &, int64_t) {
        }
        __device__ void add(const batch_norm_source &s, int64_t row, int64_t column, part (&m)[VEC]) {
            float v[VEC];
            load_floats<VEC>(s.x + row * s.channels + column, v);
            UNROLLED(k, VEC) {
                if (!is_begun) {
                    zero[k] = v[k];
                    sum[k] = squares[k] = 0;
                }
                sum[k] += v[k] - zero[k];
                squares[k] += (v[k] - zero[k]) * (v[k] - zero[k]);
                m[k].count += 1.0f;
            }
            is_begun = true;
        }
        __device__ void end(part (&m)[VEC]) {
            UNROLLED(k, VEC) {
                if (!is_begun) return;
                /* the sum of squares around the mean, from that around x0 */
                float off = sum[k] / m[k].count, left = squares[k] - sum[k] * off;
                m[k].mean = zero[k] + off;
                /* rounding may make it negative; NaN stays NaN */
                m[k].squares = left > 0 ? left : 0 * left;
            }
        }
    };
    /* var is unbiased: over rows - 1. */
    __device__ void finish(int64_t channel, const part &m) const {
        mean[channel] = m.mean;
        rstd[channel] = 1.0f / sqrtf(m.squares / m.count + eps);
        var[channel] = m.squares / (m.count - 1.0f);
    }
};

/* y = (x - mean) (rstd w) + b by channel; the grid is that of the column sums. */
template <class T, int VEC>
__global__ void __launch_bounds__(COLUMN_THREADS)
    batch_norm_apply(const T *x, const float *mean, const float *rstd, floats w, floats b, T *y, int64_t rows,
                     int64_t channels, int64_t chunk, int lanes) {
    column_place at(lanes, VEC, rows, chunk);
    if (at.column >= channels) return;
    float scale[VEC], center[VEC], shift[VEC];
    UNROLLED(k, VEC) {
        /* the numbers of the thread's channels, once for all its rows */
        center[k] = mean[at.column + k];
        scale[k] = rstd[at.column + k] * w.at(at.column + k);
        shift[k] = b.at(at.column + k);
    }
#pragma unroll 4
    for (int64_t row = at.first + at.turn; row < at.past; row += at.turns) {
        float v[VEC];
        load_floats<VEC>(x + row * channels + at.column, v);
        UNROLLED(k, VEC) v[k] = (v[k] - center[k]) * scale[k] + shift[k];
        store_floats<VEC>(y + row * channels + at.column, v);
    }
}

/* The SOURCE of dw and db, and what dx needs. */
template <class T> struct batch_norm_gradient {
    const T *dy, *x;
    floats w;
    const float *mean, *rstd;
    T *dx;
    float *dw, *db;
    int64_t rows, channels;

    using part = column_pair; /* a: sum of dy xhat, b: sum of dy */
    template <int VEC> struct columns_of {
        float mean[VEC], rstd[VEC];
        __device__ void begin(const batch_norm_gradient &s, int64_t column) {
            UNROLLED(k, VEC) {
                mean[k] = s.mean[column + k];
                rstd[k] = s.rstd[column + k];
            }
        }
        __device__ void add(const batch_norm_gradient &s, int64_t row, int64_t column, part (&sum)[VEC]) {
            float g[VEC], v[VEC];
            load_floats<VEC>(s.dy + row * s.channels + column, g);
            load_floats<VEC>(s.x + row * s.channels + column, v);
            UNROLLED(k, VEC) sum[k].merge(part{g[k] * (v[k] - mean[k]) * rstd[k], g[k]});
        }
        __device__ void end(part (&)[VEC]) {
        }
    };
    __device__ void finish(int64_t channel, const part &sum) const {
        dw[channel] = sum.a;
        db[channel] = sum.b;
    }
};

/* dx = rstd w (dy - mean(dy) - xhat mean(dy xhat)), from dw and db. */
template <class T, int VEC>
__global__ void __launch_bounds__(COLUMN_THREADS)
    batch_norm_dx(batch_norm_gradient<T> s, int64_t chunk, int lanes) {
    column_place at(lanes, VEC, s.rows, chunk);
    if (at.column >= s.channels) return;
    float mean[VEC], rstd[VEC], scale[VEC], mean_g[VEC], mean_gx[VEC], n = (float)s.rows;
    UNROLLED(k, VEC) {
        int64_t channel = at.column + k;
        mean[k] = s.mean[channel];
        rstd[k] = s.rstd[channel];
        scale[k] = s.w.at(channel) * rstd[k];
        /* db and dw are complete: the kernels of the column sums came before on the stream */
        mean_g[k] = s.db[channel] / n;
        mean_gx[k] = s.dw[channel] / n;
    }
#pragma unroll 2
    for (int64_t row = at.first + at.turn; row < at.past; row += at.turns) {
        float g[VEC], v[VEC];
        load_floats<VEC>(s.dy + row * s.channels + at.column, g);
        load_floats<VEC>(s.x + row * s.channels + at.column, v);
        UNROLLED(k, VEC) v[k] = scale[k] * (g[k] - mean_g[k] - (v[k] - mean[k]) * rstd[k] * mean_gx[k]);
        store_floats<VEC>(s.dx + row * s.channels + at.column, v);
    }
}

/* x, weight, bias -> y, mean, rstd, var; [rows, C] in memory. */
template <class T> static weft_status batch_norm_launch(const kernel_call *c) {
    constexpr int V = vector_width<T>;
    const tensor_type *t = &c->in[0].type;
    T *y = static_cast<T *>(c->out[0].data);
    batch_norm_source<T> s = {};
    s.x = static_cast<const T *>(c->in[0].data);
    s.channels = t->shape[1];
    s.rows = type_elements(t) / s.channels;
    s.eps = (float)static_cast<const norm_attrs *>(c->attrs)->eps;
    s.mean = static_cast<float *>(c->out[1].data);
    s.rstd = static_cast<float *>(c->out[2].data);
    s.var = static_cast<float *>(c->out[3].data);
    bool vectored = is_vectored<T>(s.x, s.channels) && is_vectored<T>(y, s.channels);
    weft_status status =
        column_sums<T>(c, s, s.rows, s.channels, vectored, static_cast<moments *>(c->workspace));
    if (status) return status;
    /* the grid of the column sums again: each thread keeps its channels' numbers in registers */
    column_grid grid(s.rows, s.channels, sizeof(T), vectored ? V : 1);
    return launch(c, vectored ? batch_norm_apply<T, V> : batch_norm_apply<T, 1>, grid.blocks,
                  dim3(COLUMN_THREADS), 0, s.x, s.mean, s.rstd, floats_of(&c->in[1]), floats_of(&c->in[2]), y,
                  s.rows, s.channels, grid.chunk, grid.lanes);
}

weft_status cuda_batch_norm_run(void *, const kernel_call *c) {
    return with_float(c, c->in[0].type.dtype,
                      [&](auto zero) { return batch_norm_launch<decltype(zero)>(c); });
}

/* dy, x, weight, mean, rstd -> dx, dw, db; [rows, C] in memory. */
template <class T> static weft_status batch_norm_backward_launch(const kernel_call *c) {
    constexpr int V = vector_width<T>;
    const tensor_type *t = &c->in[1].type;
    batch_norm_gradient<T> s = {};
    s.dy = static_cast<const T *>(c->in[0].data);
    s.x = static_cast<const T *>(c->in[1].data);
    s.w = floats_of(&c->in[2]);
    s.mean = static_cast<const float *>(c->in[3].data);
    s.rstd = static_cast<const float *>(c->in[4].data);
    s.dx = static_cast<T *>(c->out[0].data);
    s.dw = static_cast<float *>(c->out[1].data);
    s.db = static_cast<float *>(c->out[2].data);
    s.channels = t->shape[1];
    s.rows = type_elements(t) / s.channels;
    bool vectored = is_vectored<T>(s.dy, s.channels) && is_vectored<T>(s.x, s.channels) &&
                    is_vectored<T>(s.dx, s.channels);
    weft_status status =
        column_sums<T>(c, s, s.rows, s.channels, vectored, static_cast<column_pair *>(c->workspace));
    if (status) return status;
    column_grid grid(s.rows, s.channels, sizeof(T), vectored ? V : 1);
    return launch(c, vectored ? batch_norm_dx<T, V> : batch_norm_dx<T, 1>, grid.blocks, dim3(COLUMN_THREADS),
                  0, s, grid.chunk, grid.lanes);
}

weft_status cuda_batch_norm_backward_run(void *, const kernel_call *c) {
    return with_float(c, c->in[1].type.dtype,
                      [&](auto zero) { return batch_norm_backward_launch<decltype(zero)>(c); });
}
