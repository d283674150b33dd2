/* scan.cu - cumsum, cumprod and recurrence (ops/reduce/scan.h). Steps h -> a h + b join associatively, so
 * the threads of a warp or of a block join those of a piece of a row side by side (Blelloch, "Prefix sums
 * and their applications", CMU-CS-90-190), and the state goes from piece to piece in f64. Along another axis
 * than the last a thread has each line. The order depends on shapes alone. */
#include "ops/cuda/kit/kernel.cuh"

extern "C" {
#include "ops/reduce/scan.h"
}

/* A thread has ITEMS elements of a piece, one after the other. */
enum { SCAN_THREADS = 256, SCAN_WARPS = SCAN_THREADS / 32, ITEMS = 4, BLOCK_SCANS = 1024 };

/* A is the type of steps and states: f64, since a product of many factors must not overflow before it meets a
 * state of 0. */
template <class T> struct scan_types {
    using A = double;
    using OUT = T;
};
struct scan_integers {
    using A = uint64_t; /* modulo 2^64 */
    using OUT = int64_t;
};
template <> struct scan_types<int64_t> : scan_integers {};
template <> struct scan_types<int32_t> : scan_integers {};
template <> struct scan_types<uint8_t> : scan_integers {};

template <class T> __device__ static inline typename scan_types<T>::A scan_number(T x) {
    return (typename scan_types<T>::A)x;
}
template <> __device__ inline double scan_number(__nv_bfloat16 x) {
    return to_float(x);
}
template <> __device__ inline double scan_number(__half x) {
    return to_float(x);
}
template <class OUT, class A> __device__ static inline OUT scan_stored(A h) {
    if constexpr (sizeof(OUT) == 2)
        return from_float<OUT>((float)h);
    else
        return (OUT)h;
}

/* The step h -> a h + b; of a product h -> a h, whatever b. */
template <class A> struct scan_step {
    A a, b;
    /* The other step after this one. */
    __device__ scan_step then(scan_step next) const {
        return scan_step{a * next.a, next.a * b + next.b};
    }
};

template <class A> __device__ static inline scan_step<A> step_up(scan_step<A> s, int by) {
    return scan_step<A>{__shfl_up_sync(0xffffffffu, s.a, by), __shfl_up_sync(0xffffffffu, s.b, by)};
}

template <class T> struct scan_data {
    using TYPES = scan_types<T>;
    using A = typename TYPES::A;
    scan_lines l;
    const T *a, *b;
    typename TYPES::OUT *y;
    __device__ scan_step<A> step(int64_t at) const {
        if (l.kind == SCAN_SUM) return scan_step<A>{1, scan_number(a[at])};
        return scan_step<A>{scan_number(a[at]), l.kind == SCAN_PROD ? (A)0 : scan_number(b[at])};
    }
    __device__ int64_t place(int64_t k) const {
        return l.reverse ? l.n - 1 - k : k;
    }
    __device__ A start() const {
        return l.kind == SCAN_PROD ? 1 : 0;
    }
    __device__ A after(scan_step<A> s, A h) const {
        return l.kind == SCAN_PROD ? s.a * h : s.a * h + s.b;
    }
};

/* `lanes` threads to a row, a warp (32) or the whole block. `before` gets the steps of the piece that are
 * before this thread's; returns all steps of the piece. */
template <class A>
__device__ static inline scan_step<A> join_lanes(scan_step<A> own, int lanes, scan_step<A> *scratch,
                                                 scan_step<A> *before) {
    const scan_step<A> none = {1, 0};
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int by = 1; by < 32; by *= 2) {
        scan_step<A> left = step_up(own, by);
        if (lane >= by) own = left.then(own);
    }
    *before = step_up(own, 1);
    if (lane == 0) *before = none;
    if (lanes == 32)
        return scan_step<A>{__shfl_sync(0xffffffffu, own.a, 31), __shfl_sync(0xffffffffu, own.b, 31)};
    /* scratch may still be read for the piece before */
    __syncthreads();
    if (lane == 31) scratch[warp] = own;
    __syncthreads();
    scan_step<A> all = none, left = none;
    for (int w = 0; w < SCAN_WARPS; w++) {
        if (w == warp) left = all;
        all = all.then(scratch[w]);
    }
    *before = left.then(*before);
    return all;
}

template <class T> __global__ void __launch_bounds__(SCAN_THREADS) scan_rows(scan_data<T> d, int lanes) {
    using A = typename scan_data<T>::A;
    using OUT = typename scan_types<T>::OUT;
    SHARED_ARRAY(scan_step<A>, scratch, [SCAN_WARPS]);
    int64_t rows_a_block = SCAN_THREADS / lanes, n = d.l.n;
    for (int64_t row = (int64_t)blockIdx.x * rows_a_block + threadIdx.x / lanes; row < d.l.outer;
         row += (int64_t)gridDim.x * rows_a_block) {
        A carry = d.start();
        for (int64_t piece = 0; piece < n; piece += (int64_t)lanes * ITEMS) {
            int64_t first = piece + (int64_t)(threadIdx.x % lanes) * ITEMS;
            scan_step<A> steps[ITEMS], own = {1, 0}, before;
            for (int j = 0; j < ITEMS; j++) {
                steps[j] = first + j < n ? d.step(row * n + d.place(first + j)) : scan_step<A>{1, 0};
                own = own.then(steps[j]);
            }
            scan_step<A> all = join_lanes(own, lanes, scratch, &before);
            A h = d.after(before, carry);
            for (int j = 0; j < ITEMS && first + j < n; j++) {
                A next = d.after(steps[j], h);
                d.y[row * n + d.place(first + j)] = scan_stored<OUT>(d.l.exclusive ? h : next);
                h = next;
            }
            carry = d.after(all, carry);
        }
    }
}

/* A thread to a line; neighbours have neighbouring lines. */
template <class T> __global__ void __launch_bounds__(SCAN_THREADS) scan_apart(scan_data<T> d) {
    using OUT = typename scan_types<T>::OUT;
    int64_t lines = d.l.outer * d.l.inner;
    for (int64_t line = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x; line < lines;
         line += (int64_t)gridDim.x * SCAN_THREADS) {
        int64_t begin = line / d.l.inner * d.l.n * d.l.inner + line % d.l.inner;
        typename scan_types<T>::A h = d.start();
        for (int64_t k = 0; k < d.l.n; k++) {
            int64_t at = begin + d.place(k) * d.l.inner;
            auto next = d.after(d.step(at), h);
            d.y[at] = scan_stored<OUT>(d.l.exclusive ? h : next);
            h = next;
        }
    }
}

template <class T> static weft_status run(const kernel_call *c) {
    scan_data<T> d = {scan_lines_of(c->node), static_cast<const T *>(c->in[0].data),
                      static_cast<const T *>(c->in[c->n_in - 1].data),
                      static_cast<typename scan_types<T>::OUT *>(c->out[0].data)};
    dim3 threads(SCAN_THREADS);
    if (d.l.inner > 1)
        return launch(c, scan_apart<T>, dim3(blocks_for(c, d.l.outer * d.l.inner, SCAN_THREADS)), threads, 0,
                      d);
    int lanes = d.l.n >= BLOCK_SCANS ? (int)SCAN_THREADS : 32;
    return launch(c, scan_rows<T>, dim3(blocks_for(c, d.l.outer, SCAN_THREADS / lanes)), threads, 0, d,
                  lanes);
}

extern "C" weft_status cuda_cumsum_run(void *, const kernel_call *c) {
    switch (c->in[0].type.dtype) {
    case WEFT_F64:
        return run<double>(c);
    case WEFT_I64:
        return run<int64_t>(c);
    case WEFT_I32:
        return run<int32_t>(c);
    case WEFT_U8:
    case WEFT_BOOL:
        return run<uint8_t>(c);
    default:
        return with_float(c, c->in[0].type.dtype, [&](auto zero) { return run<decltype(zero)>(c); });
    }
}
