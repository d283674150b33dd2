/* random.cu - Philox, and uniform, normal and dropout made of it: four elements for each counter. The
 * arithmetic is that of ops/kit/philox.h, which the CPU compiles too; this file is compiled without fused
 * multiply-add (CMakeLists.txt), so that the bits are the CPU's. */
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/kit/philox.h"
#include "ops/random/random.h"
}

enum { RANDOM_THREADS = 256 };

/* Stores elements [at, at + 4); nothing past n. */
__device__ static inline void store_some(float *y, int64_t at, int64_t n, bool aligned, const float (&z)[4]) {
    if (aligned && at + 4 <= n)
        store_floats<4>(y + at, z);
    else
        for (int k = 0; k < 4 && at + k < n; k++) y[at + k] = z[k];
}

/* A counter to a thread; make(words, z) turns its four words into four numbers. Seed, step and micro-batch
 * are read from `run`, in the GPU's memory, so that a captured graph can be replayed. */
template <class MAKE>
__global__ void __launch_bounds__(RANDOM_THREADS)
    random_numbers(float *y, int64_t n, bool aligned, const run_state *run, uint64_t key, MAKE make) {
    philox_stream s = philox_stream_of(run, key);
    int64_t step = (int64_t)gridDim.x * RANDOM_THREADS;
    for (int64_t b = (int64_t)blockIdx.x * RANDOM_THREADS + threadIdx.x; b * 4 < n; b += step) {
        uint32_t words[4];
        float z[4];
        philox_block(&s, (uint64_t)b, words);
        make(words, z);
        store_some(y, b * 4, n, aligned, z);
    }
}

template <class MAKE> static weft_status numbers_launch(const kernel_call *c, MAKE make) {
    int64_t n = type_elements(&c->out[0].type);
    const random_attrs *a = static_cast<const random_attrs *>(c->attrs);
    return launch(c, random_numbers<MAKE>, dim3(blocks_for(c, (n + 3) / 4, RANDOM_THREADS)),
                  dim3(RANDOM_THREADS), 0, static_cast<float *>(c->out[0].data), n,
                  is_vectored<float>(c->out[0].data, 0), c->run, a->key, make);
}

struct make_uniform {
    float low, width, below;
    __device__ void operator()(const uint32_t (&words)[4], float (&z)[4]) const {
        UNROLL for (int k = 0; k < 4; k++) z[k] = philox_uniform(words[k], low, width, below);
    }
};

/* `below` is the largest float below `high`: rounding must not reach `high` itself. */
extern "C" weft_status cuda_random_uniform_run(void *, const kernel_call *c) {
    const random_attrs *a = static_cast<const random_attrs *>(c->attrs);
    float low = (float)a->a, high = (float)a->b;
    return numbers_launch(c, make_uniform{low, high - low, nextafterf(high, low)});
}

struct make_normal {
    float mean, deviation;
    __device__ void operator()(const uint32_t (&words)[4], float (&z)[4]) const {
        philox_normal_pair(words[0], words[1], &z[0], &z[1]);
        philox_normal_pair(words[2], words[3], &z[2], &z[3]);
        UNROLL for (int k = 0; k < 4; k++) z[k] = mean + deviation * z[k];
    }
};

extern "C" weft_status cuda_random_normal_run(void *, const kernel_call *c) {
    const random_attrs *a = static_cast<const random_attrs *>(c->attrs);
    return numbers_launch(c, make_normal{(float)a->a, (float)a->b});
}

/* ---- dropout: operand and result have one layout, and elements are counted in its order ---- */

struct dropout_rule {
    uint64_t key, threshold; /* words below the threshold drop; 2^32 drops all */
    double factor;           /* 1 / (1 - p) */
};

/* f32, bf16 and f16 are scaled in f32, f64 in f64. */
__device__ static inline float scaled(float x, double factor) {
    return x * (float)factor;
}
__device__ static inline double scaled(double x, double factor) {
    return x * factor;
}

template <class T> struct dropped {
    static __device__ T of(T x, bool drop, double factor) {
        return drop ? from_float<T>(0.0f) : from_float<T>(scaled(to_float(x), factor));
    }
};
template <> struct dropped<double> {
    static __device__ double of(double x, bool drop, double factor) {
        return drop ? 0.0 : scaled(x, factor);
    }
};

/* A thread has N elements, which are whole counters; `aligned`: both memories start at multiples of 16
 * bytes. */
template <class T, int N>
__global__ void __launch_bounds__(RANDOM_THREADS)
    dropout(const T *x, T *y, int64_t n, bool aligned, const run_state *run, dropout_rule rule) {
    philox_stream s = philox_stream_of(run, rule.key);
    int64_t step = (int64_t)gridDim.x * RANDOM_THREADS;
    for (int64_t g = (int64_t)blockIdx.x * RANDOM_THREADS + threadIdx.x; g * N < n; g += step) {
        /* the last elements are read and written one by one */
        bool is_whole = aligned && (g + 1) * N <= n;
        vector_of<T, N> v;
        if (is_whole)
            v = load<N>(x + g * N);
        else
            for (int k = 0; k < N; k++) v.v[k] = g * N + k < n ? x[g * N + k] : T();
        UNROLL for (int b = 0; b < N / 4; b++) {
            uint32_t words[4];
            philox_block(&s, (uint64_t)(g * (N / 4) + b), words);
            UNROLL for (int k = 0; k < 4; k++) {
                T &one = v.v[b * 4 + k];
                one = dropped<T>::of(one, words[k] < rule.threshold, rule.factor);
            }
        }
        if (is_whole)
            store(y + g * N, v);
        else
            for (int k = 0; k < N && g * N + k < n; k++) y[g * N + k] = v.v[k];
    }
}

/* 16 bytes of f32, bf16 or f16 to a thread. */
template <class T> static weft_status dropout_launch(const kernel_call *c) {
    constexpr int N = sizeof(T) == 2 ? 8 : 4;
    const dropout_attrs *a = static_cast<const dropout_attrs *>(c->attrs);
    const T *x = static_cast<const T *>(c->in[0].data);
    T *y = static_cast<T *>(c->out[0].data);
    int64_t n = type_elements(&c->out[0].type);
    dropout_rule rule = {a->key, dropout_threshold(a->p), a->p < 1 ? 1 / (1 - a->p) : 0};
    return launch(c, dropout<T, N>, dim3(blocks_for(c, (n + N - 1) / N, RANDOM_THREADS)),
                  dim3(RANDOM_THREADS), 0, x, y, n, is_vectored<T>(x, 0) && is_vectored<T>(y, 0), c->run,
                  rule);
}

extern "C" weft_status cuda_dropout_run(void *, const kernel_call *c) {
    if (c->in[0].type.dtype == WEFT_F64) return dropout_launch<double>(c);
    return with_float(c, c->in[0].type.dtype, [&](auto zero) { return dropout_launch<decltype(zero)>(c); });
}
