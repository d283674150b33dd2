/* index.cuh - what kernels of elements by index share: axes that a thread's number runs over, and what is put
 * or added. */
#ifndef WEFT_OPS_CUDA_INDEX_INDEX_CUH
#define WEFT_OPS_CUDA_INDEX_INDEX_CUH

#include "ops/cuda/kit/divide.h"
#include "ops/cuda/kit/sort.cuh"
#include "ops/cuda/kit/vectors.cuh"

#include <type_traits>

enum { THREADS = 256 };
/* What an index along an axis moves in: x, the result, src, ids, and the place along the indexed axis. */
enum { X, Y, SRC, IDS, PLACE, SIDES };

#define EACH_THREAD(i, count)                                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                            \
         i += (int64_t)gridDim.x * blockDim.x)

/* Axes that a number runs over, row-major. */
struct walk {
    int n;
    int64_t count, limit[WEFT_MAX_NDIM], stride[SIDES][WEFT_MAX_NDIM];
    divisor by[WEFT_MAX_NDIM]; /* division by the lengths */
    /* Adds the offsets of number i to `at`. False: an index is not below its axis' limit. */
    __device__ bool add(int64_t i, int64_t (&at)[SIDES]) const {
        bool is_inside = true;
        for (int k = n - 1; k >= 0; k--) {
            int64_t next = (int64_t)divide((uint64_t)i, &by[k]), index = i - next * (int64_t)by[k].length;
            is_inside = is_inside && index < limit[k];
            UNROLLED(s, SIDES) at[s] += index * stride[s][k];
            i = next;
        }
        return is_inside;
    }
};

/* Appends an axis of this length; it joins the last axis where all sides run on evenly. */
static inline void push_axis(walk *w, int64_t length, int64_t limit, const int64_t (&stride)[SIDES]) {
    bool joins = w->n > 0 && limit == length;
    if (length == 1) return;
    for (int s = 0; s < SIDES; s++) joins = joins && w->stride[s][w->n - 1] == stride[s] * length;
    if (joins) {
        w->n--;
        limit *= w->limit[w->n];
        length *= (int64_t)w->by[w->n].length;
    }
    for (int s = 0; s < SIDES; s++) w->stride[s][w->n] = stride[s];
    w->limit[w->n] = limit;
    w->by[w->n++].length = (uint64_t)length;
}

/* No number that is divided is above the count. */
static inline void end_walk(walk *w) {
    w->count = 1;
    for (int k = 0; k < w->n; k++) w->count *= (int64_t)w->by[k].length;
    for (int k = 0; k < w->n; k++) w->by[k] = divisor_of((int64_t)w->by[k].length, w->count);
}

/* Calls f(T()) where T is an unsigned type of the width of the elements. */
template <class F> static weft_status with_width(weft_dtype dtype, F f) {
    switch (dtype_bytes(dtype)) {
    case 1:
        return f(uint8_t());
    case 2:
        return f(uint16_t());
    case 4:
        return f(uint32_t());
    default:
        return f(uint64_t());
    }
}

/* ---- what is put or added ---- */

/* Elements with the bits of T replace what is there. */
template <class T> struct put {
    using type = T;
    using sum = T;
    static constexpr bool joins = false;
    __device__ static sum from(T x) {
        return x;
    }
    __device__ static T to(sum x) {
        return x;
    }
    __device__ static sum join(sum, sum x) {
        return x;
    }
    __device__ static sum neutral() {
        return sum();
    }
};

/* How two numbers are joined, and what leaves a number as it is. Integers are joined as `integer`. */
struct as_sum {
    using integer = unsigned long long; /* wraps around */
    template <class S> __device__ static S join(S a, S b) {
        return a + b;
    }
    template <class S> __device__ static S neutral() {
        return S(0);
    }
};
struct as_product {
    using integer = unsigned long long;
    template <class S> __device__ static S join(S a, S b) {
        return a * b;
    }
    template <class S> __device__ static S neutral() {
        return S(1);
    }
};
__device__ static inline double lowest(double) {
    return -INFINITY;
}
__device__ static inline long long lowest(long long) {
    return -0x7fffffffffffffffll - 1;
}
__device__ static inline double highest(double) {
    return INFINITY;
}
__device__ static inline long long highest(long long) {
    return 0x7fffffffffffffffll;
}
/* A NaN stays: nothing is above it, and nothing below. */
struct as_largest {
    using integer = long long;
    template <class S> __device__ static S join(S a, S b) {
        return a == a && (b > a || b != b) ? b : a;
    }
    template <class S> __device__ static S neutral() {
        return lowest(S());
    }
};
struct as_smallest {
    using integer = long long;
    template <class S> __device__ static S join(S a, S b) {
        return a == a && (b < a || b != b) ? b : a;
    }
    template <class S> __device__ static S neutral() {
        return highest(S());
    }
};

/* Floating-point numbers are joined in f64, which costs little beside the memory. */
template <class T, class HOW> struct join_float {
    using type = T;
    using sum = double;
    static constexpr bool joins = true;
    __device__ static sum from(T x) {
        if constexpr (std::is_same<T, double>::value) return x;
        else return static_cast<double>(to_float(x));
    }
    __device__ static T to(sum x) {
        if constexpr (std::is_same<T, double>::value) return x;
        else return from_float<T>(static_cast<float>(x));
    }
    __device__ static sum join(sum a, sum b) {
        return HOW::join(a, b);
    }
    __device__ static sum neutral() {
        return HOW::template neutral<sum>();
    }
};

template <class T, class HOW> struct join_integer {
    using type = T;
    using sum = typename HOW::integer;
    static constexpr bool joins = true;
    __device__ static sum from(T x) {
        return static_cast<sum>(x);
    }
    __device__ static T to(sum x) {
        return static_cast<T>(x);
    }
    __device__ static sum join(sum a, sum b) {
        return HOW::join(a, b);
    }
    __device__ static sum neutral() {
        return HOW::template neutral<sum>();
    }
};

/* Calls f(R()) where R joins elements of the type. */
template <class HOW, class F> static weft_status with_join(const kernel_call *c, weft_dtype dtype, F f) {
    switch (dtype) {
    case WEFT_F64:
        return f(join_float<double, HOW>());
    case WEFT_I64:
        return f(join_integer<long long, HOW>());
    case WEFT_I32:
        return f(join_integer<int, HOW>());
    case WEFT_U8:
        return f(join_integer<uint8_t, HOW>());
    default:
        return with_float(c, dtype, [&](auto zero) { return f(join_float<decltype(zero), HOW>()); });
    }
}

#endif
