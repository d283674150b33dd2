/* rows.cuh - kernels that work row by row: a warp has a short row, a block a long one. A row of up to 32
 * elements for each thread stays in registers, so that a kernel reads memory once however often it passes
 * over the row.
 *
 * LANES threads share a row (32, or the whole block), VEC elements at a time. Each keeps STEPS times VEC of
 * them in registers; STEPS 0: none, and every pass reads memory (the cache) again. */
#ifndef WEFT_OPS_CUDA_NORM_LOSS_ROWS_CUH
#define WEFT_OPS_CUDA_NORM_LOSS_ROWS_CUH

#include "ops/cuda/kit/vectors.cuh"

template <int VEC_, int LANES_, int STEPS_> struct row_shape {
    static constexpr int VEC = VEC_, LANES = LANES_, STEPS = STEPS_;
    static constexpr int THREADS = LANES > 128 ? LANES : 128; /* of a block */
    static constexpr int ROWS = THREADS / LANES;              /* of a block */
};

/* Calls f(row_shape<...>()) with the shape that suits rows of n elements of T. */
template <class T, class F> static weft_status with_row_shape(int64_t n, bool vectored, F f) {
    constexpr int V = vector_width<T>;
    if (!vectored) return n <= 1024 ? f(row_shape<1, 32, 32>()) : f(row_shape<1, 512, 0>());
    if (n <= 1024) return f(row_shape<V, 32, 32 / V>());
    if (n <= 8192) return f(row_shape<V, 256, 32 / V>());
    return f(row_shape<V, 512, 0>());
}

/* Blocks for `rows` rows; a block has every gridDim-th group of ROWS. */
template <class SHAPE> static dim3 row_grid(const kernel_call *c, int64_t rows) {
    return dim3(blocks_for(c, rows, SHAPE::ROWS));
}

/* The rows of a thread. Warps of one block may leave the loop at different times, but only where a row
 * belongs to one warp: so block barriers within the loop are safe. */
#define EACH_ROW(SHAPE, row, rows)                                                                           \
    for (int64_t row = (int64_t)blockIdx.x * SHAPE::ROWS + threadIdx.x / SHAPE::LANES; row < (rows);         \
         row += (int64_t)gridDim.x * SHAPE::ROWS)

/* A row as its threads see it. */
template <class T, class SHAPE> struct row_of {
    static constexpr int VEC = SHAPE::VEC, LANES = SHAPE::LANES, STEPS = SHAPE::STEPS;
    const T *x;
    int64_t n;
    int lane;
    vector_of<T, VEC> kept[STEPS ? STEPS : 1];

    __device__ row_of(const T *from, int64_t count) : x(from), n(count), lane((int)threadIdx.x % LANES) {
        UNROLLED(s, STEPS)
            if (place(s) < n) kept[s] = load<VEC>(x + place(s));
    }
    /* First element of a thread in a step: lanes are side by side. */
    __device__ int64_t place(int64_t step) const {
        return (step * LANES + lane) * VEC;
    }
    /* Calls f(i, v) with elements [i, i + VEC) as floats, which f may change; stores them to `to` where it is
     * given. */
    template <class F> __device__ void each(F f, T *to = nullptr) const {
        if constexpr (STEPS > 0) {
            UNROLLED(s, STEPS) {
                if (place(s) < n) piece(place(s), kept[s], f, to);
            }
        } else {
#pragma unroll 4
            for (int64_t i = place(0); i < n; i += LANES * VEC) piece(i, load<VEC>(x + i), f, to);
        }
    }
    template <class F> __device__ static void piece(int64_t i, const vector_of<T, VEC> &from, F &f, T *to) {
        float v[VEC];
        UNROLLED(k, VEC) v[k] = to_float(from.v[k]);
        f(i, v);
        if (to) store_floats<VEC>(to + i, v);
    }
};

/* Calls f(step, i, v, w) with elements [i, i + VEC) of two rows; stores v to `to` where it is given. */
template <class T, class SHAPE, class F>
__device__ static inline void each_pair(const row_of<T, SHAPE> &a, const row_of<T, SHAPE> &b, F f,
                                        T *to = nullptr) {
    constexpr int VEC = SHAPE::VEC;
    auto piece = [&](int step, int64_t i, const vector_of<T, VEC> &from_a, const vector_of<T, VEC> &from_b) {
        float v[VEC], w[VEC];
        UNROLLED(k, VEC) v[k] = to_float(from_a.v[k]);
        UNROLLED(k, VEC) w[k] = to_float(from_b.v[k]);
        f(step, i, v, w);
        if (to) store_floats<VEC>(to + i, v);
    };
    if constexpr (SHAPE::STEPS > 0) {
        UNROLLED(s, SHAPE::STEPS) {
            if (a.place(s) < a.n) piece(s, a.place(s), a.kept[s], b.kept[s]);
        }
    } else {
        for (int64_t i = a.place(0); i < a.n; i += SHAPE::LANES * VEC)
            piece(0, i, load<VEC>(a.x + i), load<VEC>(b.x + i));
    }
}

/* The sum (row_max: maximum) over the threads of a row. `scratch` is 32 floats of shared memory. */
template <class SHAPE> __device__ static inline float row_sum(float x, float *scratch) {
    return SHAPE::LANES == 32 ? warp_sum(x) : block_sum(x, scratch);
}

template <class SHAPE> __device__ static inline float row_max(float x, float *scratch) {
    return SHAPE::LANES == 32 ? warp_max(x) : block_max(x, scratch);
}

/* The largest element and the sum of e^(x - max), in one pass (Milakov and Gimelshein, arXiv 1805.02867):
 * when the maximum grows, the sum is scaled down. e^x as 2^(x log2 e) costs a rounding and saves an
 * instruction for each element. */
struct soft_sum {
    float max, sum;

    __device__ static soft_sum none() {
        return soft_sum{-INFINITY, 0};
    }
    __device__ static float exp_of(float difference) {
        return exp2f(difference * 1.4426950408889634f);
    }
    /* The N exponentials are added in pairs first: a thread's chain of sums is N times shorter. */
    template <int N> __device__ void add(const float (&v)[N]) {
        float most = v[0], e[N];
        UNROLL for (int k = 1; k < N; k++) most = fmaxf(most, v[k]);
        if (most > max) {
            sum *= exp_of(max - most);
            max = most;
        }
        if (max == -INFINITY) return add_nothing(v);
        UNROLLED(k, N) e[k] = exp_of(v[k] - max);
        UNROLL for (int step = 1; step < N; step *= 2) UNROLL for (int k = 0; k + step < N; k += 2 * step)
            e[k] += e[k + step];
        sum += e[0];
    }
    /* Everything so far is -inf: e^-inf adds 0, but a NaN must stay one. */
    template <int N> __device__ void add_nothing(const float (&v)[N]) {
        UNROLLED(k, N) sum += v[k] == -INFINITY ? 0.0f : v[k];
    }
    /* The sum relative to another maximum. */
    __device__ float sum_at(float most) const {
        return max == most ? sum : sum * exp_of(max - most);
    }
    /* Merges the sums of all threads of a row. */
    template <class SHAPE> __device__ void merge(float *scratch) {
        float most = row_max<SHAPE>(max, scratch);
        sum = row_sum<SHAPE>(sum_at(most), scratch);
        max = most;
    }
};

#endif
