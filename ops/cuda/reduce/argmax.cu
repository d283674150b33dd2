/* argmax.cu - the position of the largest element along an axis, or, for argmin, of the largest of -x; the
 * first of equal ones, and NaN above everything. A warp has each row that is contiguous, else a thread has
 * each row. */
#include "ops/cuda/kit/divide.h"
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/reduce/arg.h"
}

enum { ARGMAX_THREADS = 256 };

/* The rows that are searched: their strides in the operand and in the result, in elements. */
struct argmax_rows {
    int sign;                    /* arg_sign() */
    int n;                       /* axes other than the searched one, outermost first */
    int64_t count, length, step; /* rows, elements of a row, elements from one to the next */
    int64_t in[WEFT_MAX_NDIM], out[WEFT_MAX_NDIM];
    divisor by[WEFT_MAX_NDIM]; /* division by the lengths of the axes */
};

/* What elements are compared as. */
template <class T> struct compared { using type = float; };
template <> struct compared<double> { using type = double; };
template <> struct compared<int64_t> { using type = int64_t; };
template <> struct compared<int32_t> { using type = int32_t; };

/* The largest of these is searched. ~x falls as x rises, for every wide integer x. */
template <class T> __device__ static inline typename compared<T>::type ranked(T x, int sign) {
    if constexpr (sizeof(T) == 2)
        return sign * to_float(x);
    else
        return sign * static_cast<typename compared<T>::type>(x);
}
template <> __device__ inline int64_t ranked(int64_t x, int sign) {
    return sign < 0 ? ~x : x;
}
template <> __device__ inline int32_t ranked(int32_t x, int sign) {
    return sign < 0 ? ~x : x;
}

/* The best element so far. */
template <class A> struct best_of {
    A value;
    int64_t at; /* its position; -1: none yet */
    /* Of equal elements the lower position wins, so the order of the calls does not matter. */
    __device__ void meet(A v, int64_t i) {
        bool is_nan = v != v, has_nan = value != value;
        bool wins = at < 0 || (is_nan && !has_nan) || v > value;
        bool ties = (is_nan && has_nan) || v == value;
        if (i < 0 || !(wins || (ties && i < at))) return;
        value = v;
        at = i;
    }
};

/* LANES threads to a row (1 or a warp); a butterfly gives the result to all of them. */
template <class T, int LANES>
__global__ void __launch_bounds__(ARGMAX_THREADS) argmax(const T *x, argmax_rows r, int64_t *y) {
    using A = typename compared<T>::type;
    int64_t row = ((int64_t)blockIdx.x * ARGMAX_THREADS + threadIdx.x) / LANES, rest = row, in = 0, out = 0;
    if (row >= r.count) return;
    for (int k = r.n - 1; k >= 0; k--) {
        int64_t next = (int64_t)divide((uint64_t)rest, &r.by[k]),
                place = rest - next * (int64_t)r.by[k].length;
        in += place * r.in[k];
        out += place * r.out[k];
        rest = next;
    }
    best_of<A> best = {0, -1};
    for (int64_t i = threadIdx.x % LANES; i < r.length; i += LANES)
        best.meet(ranked(x[in + i * r.step], r.sign), i);
    for (int step = LANES / 2; step > 0; step /= 2)
        best.meet(__shfl_xor_sync(0xffffffffu, best.value, step),
                  __shfl_xor_sync(0xffffffffu, best.at, step));
    if (threadIdx.x % LANES == 0) y[out] = best.at;
}

template <class T> static weft_status run(const kernel_call *c, const argmax_rows *r) {
    const T *x = static_cast<const T *>(c->in[0].data);
    int64_t *y = static_cast<int64_t *>(c->out[0].data), lanes = r->step == 1 ? 32 : 1;
    dim3 blocks((unsigned)((r->count * lanes + ARGMAX_THREADS - 1) / ARGMAX_THREADS));
    if (lanes == 1) return launch(c, argmax<T, 1>, blocks, dim3(ARGMAX_THREADS), 0, x, *r, y);
    return launch(c, argmax<T, 32>, blocks, dim3(ARGMAX_THREADS), 0, x, *r, y);
}

/* x at any strides -> i64 positions. */
extern "C" weft_status cuda_argmax_run(void *, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    const axis_attrs *a = static_cast<const axis_attrs *>(c->attrs);
    int64_t along = a->axis;
    if (!axis_resolve(&along, x->type.ndim)) return WEFT_INTERNAL;
    argmax_rows r = {};
    r.sign = arg_sign(c->node->op);
    r.count = type_elements(&y->type);
    r.length = x->type.shape[along];
    r.step = x->stride[along];
    for (int i = 0, k = 0; i < x->type.ndim; i++) {
        if (i != along) {
            r.in[r.n] = x->stride[i];
            r.out[r.n] = y->stride[k];
            r.by[r.n++] = divisor_of(x->type.shape[i], r.count);
        }
        if (i != along || a->keep) k++;
    }
    switch (x->type.dtype) {
    case WEFT_F64:
        return run<double>(c, &r);
    case WEFT_I64:
        return run<int64_t>(c, &r);
    case WEFT_I32:
        return run<int32_t>(c, &r);
    case WEFT_U8:
    case WEFT_BOOL:
        return run<uint8_t>(c, &r);
    default:
        return with_float(c, x->type.dtype, [&](auto zero) { return run<decltype(zero)>(c, &r); });
    }
}
