/* vectors.cuh - memory accesses of 16 bytes, one instruction each; and operands whose element type is known
 * only at run time (labels, ids, weights beside a reduced x). */
#ifndef WEFT_OPS_CUDA_KIT_VECTORS_CUH
#define WEFT_OPS_CUDA_KIT_VECTORS_CUH

#include "ops/cuda/kit/kernel.cuh"

#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
#define UNROLLED(i, n) UNROLL for (int i = 0; i < (n); i++)

/* N elements with the alignment that one access needs; more than 16 bytes take several accesses of 16. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) vector_of { T v[N]; };

/* Elements of T in 16 bytes. */
template <class T> constexpr int vector_width = 16 / (int)sizeof(T);

/* `from` must be aligned as vector_of<T, N> is. */
template <int N, class T> __device__ static inline vector_of<T, N> load(const T *from) {
    return *reinterpret_cast<const vector_of<T, N> *>(from);
}

template <int N, class T> __device__ static inline void load_floats(const T *from, float (&x)[N]) {
    vector_of<T, N> v = load<N>(from);
    UNROLLED(k, N) x[k] = to_float(v.v[k]);
}

/* An integer type of BYTES bytes. */
template <int BYTES> struct unit_of { using type = uint4; };
template <> struct unit_of<8> { using type = uint2; };
template <> struct unit_of<4> { using type = uint32_t; };
template <> struct unit_of<2> { using type = uint16_t; };

/* `to` must be aligned as vector_of<T, N> is. It is stored as integers because nvcc 13.0 splits the
 * assignment of a vector_of<T, N> into N stores of an element where a branch or a constant is near: the
 * gradient of cross-entropy took 7.1 ms on an H200, whose memory moves its bytes in 1.4 ms. */
template <int N, class T> __device__ static inline void store(T *to, const vector_of<T, N> &v) {
    using unit = typename unit_of<(sizeof v < 16 ? sizeof v : 16)>::type;
    constexpr int UNITS = sizeof v / sizeof(unit);
    unit units[UNITS];
    memcpy(units, &v, sizeof v);
    UNROLLED(k, UNITS) reinterpret_cast<unit *>(to)[k] = units[k];
}

template <int N, class T> __device__ static inline void store_floats(T *to, const float (&x)[N]) {
    vector_of<T, N> v;
    UNROLLED(k, N) v.v[k] = from_float<T>(x[k]);
    store(to, v);
}

/* Whether vectors of T can be read at data + any multiple of `step` elements: a multiple of 16 bytes. */
template <class T> static bool is_vectored(const void *data, int64_t step) {
    return step % vector_width<T> == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

/* A row-major operand of i64, i32 or u8. The type is a branch for each element, the same in all threads. */
struct integers {
    const void *data;
    weft_dtype dtype;
    __device__ int64_t at(int64_t i) const {
        if (dtype == WEFT_I64) return static_cast<const int64_t *>(data)[i];
        if (dtype == WEFT_I32) return static_cast<const int32_t *>(data)[i];
        return static_cast<const uint8_t *>(data)[i];
    }
};

/* A row-major operand of f32, bf16 or f16 that is small beside the others. */
struct floats {
    const void *data;
    weft_dtype dtype;
    __device__ float at(int64_t i) const {
        if (dtype == WEFT_BF16) return to_float(static_cast<const __nv_bfloat16 *>(data)[i]);
        if (dtype == WEFT_F16) return to_float(static_cast<const __half *>(data)[i]);
        return static_cast<const float *>(data)[i];
    }
};

static inline integers integers_of(const tensor *t) {
    return integers{t->data, t->type.dtype};
}

static inline floats floats_of(const tensor *t) {
    return floats{t->data, t->type.dtype};
}

#endif
