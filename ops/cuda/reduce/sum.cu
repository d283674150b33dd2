/* sum.cu - sums and means, amax, amin, prod: see reduce.h. Three ways: sums down the columns of a matrix
 * (columns.cuh); along rows, with a warp or a block for each piece of a result; else with a thread for
 * each piece, neighbouring threads having neighbouring results. Blocks add the pieces in a fixed tree,
 * so the bits repeat. */
#include "ops/cuda/kit/columns.cuh"

extern "C" {
#include "ops/cuda/reduce/reduce.h"
}

/* BLOCK_SUMS: elements from which a block is faster than a warp. APART_BLOCK: elements that a thread adds one
 * after the other in f32, before f64. */
enum { SUM_THREADS = 256, BLOCK_SUMS = 2048 };
enum { APART_BLOCK = 512 };

/* f64 is folded in f64, integers and bool in i64; everything else in f32, whose long sums are in f64. */
template <class T> struct sum_of {
    using type = float;
    using total = double;
};
template <> struct sum_of<double> {
    using type = double;
    using total = double;
};
struct sum_integers {
    using type = int64_t;
    using total = int64_t;
};
template <> struct sum_of<int64_t> : sum_integers {};
template <> struct sum_of<int32_t> : sum_integers {};
template <> struct sum_of<uint8_t> : sum_integers {};
template <class T> __device__ static inline typename sum_of<T>::type number(T x) {
    return to_float(x);
}
template <> __device__ inline double number(double x) {
    return x;
}
template <> __device__ inline int64_t number(int64_t x) {
    return x;
}
template <> __device__ inline int64_t number(int32_t x) {
    return x;
}
template <> __device__ inline int64_t number(uint8_t x) {
    return x;
}

/* How two numbers become one. A sum of floats is a type of its own; the other kinds, and all of integers,
 * share one, which tells them apart at run time: few instructions beside a load, and far fewer kernels to
 * compile. (fold_sum's member is unused, but an empty struct among the arguments of a launch may share a byte
 * with the next one.) */
struct fold_sum {
    reduce_kind kind;
    template <class A> __device__ A none() const {
        return 0;
    }
    template <class A> __device__ A join(A a, A b) const {
        return a + b;
    }
};
struct fold_kind {
    reduce_kind kind;
    template <class A> __device__ A none() const {
        return kind == REDUCE_PROD ? (A)1 : kind == REDUCE_MAX ? -(A)INFINITY : (A)INFINITY;
    }
    /* A NaN on either side stays. */
    template <class A> __device__ A join(A a, A b) const {
        if (kind == REDUCE_PROD) return a * b;
        return a != a || (kind == REDUCE_MAX ? a > b : a < b) ? a : b;
    }
    /* Modulo 2^64. */
    __device__ int64_t join(int64_t a, int64_t b) const {
        uint64_t sum = (uint64_t)a + (uint64_t)b, product = (uint64_t)a * (uint64_t)b;
        if (kind == REDUCE_SUM || kind == REDUCE_PROD) return (int64_t)(kind == REDUCE_SUM ? sum : product);
        return (kind == REDUCE_MAX) == (a > b) ? a : b;
    }
};
template <> __device__ inline int64_t fold_kind::none<int64_t>() const {
    return kind == REDUCE_MAX ? INT64_MIN : kind == REDUCE_MIN ? INT64_MAX : kind == REDUCE_PROD;
}

/* Stores results, times the factor of a mean, in the result's type. */
struct sum_result {
    void *data;
    weft_dtype dtype;
    float factor;
    __device__ void put(int64_t at, int64_t sum) const {
        if (dtype == WEFT_I64)
            static_cast<int64_t *>(data)[at] = sum;
        else if (dtype == WEFT_I32)
            static_cast<int32_t *>(data)[at] = (int32_t)sum;
        else
            static_cast<uint8_t *>(data)[at] = (uint8_t)sum;
    }
    __device__ void put(int64_t at, double sum) const {
        if (dtype == WEFT_F64)
            static_cast<double *>(data)[at] = sum * factor;
        else
            put(at, (float)sum);
    }
    __device__ void put(int64_t at, float sum) const {
        float x = sum * factor;
        if (dtype == WEFT_BF16)
            static_cast<__nv_bfloat16 *>(data)[at] = from_float<__nv_bfloat16>(x);
        else if (dtype == WEFT_F16)
            static_cast<__half *>(data)[at] = from_float<__half>(x);
        else
            static_cast<float *>(data)[at] = x;
    }
};

/* Offsets of element i of a list of axes: returns the operand's, and the result's in *out. */
__device__ static inline int64_t list_offset(const reduce_list &l, int64_t i, int64_t *out) {
    int64_t in = 0, there = 0;
    for (int k = l.n - 1; k > 0; k--) {
        int64_t rest = (int64_t)divide((uint64_t)i, &l.at[k].by), place = i - rest * l.at[k].length;
        in += place * l.at[k].in;
        there += place * l.at[k].out;
        i = rest;
    }
    if (l.n) {
        in += i * l.at[0].in;
        there += i * l.at[0].out;
    }
    *out = there;
    return in;
}

/* ---- along rows ---- */

/* The sum over `lanes` threads, a warp (32) or the whole block; `scratch` is 8 numbers of shared memory. */
template <class FOLD, class A> __device__ static inline A lanes_sum(FOLD fold, A x, int lanes, A *scratch) {
    for (int step = 16; step > 0; step /= 2) x = fold.join(x, __shfl_xor_sync(0xffffffffu, x, step));
    if (lanes == 32) return x;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    A sum = scratch[0];
    for (int w = 1; w < SUM_THREADS / 32; w++) sum = fold.join(sum, scratch[w]);
    return sum;
}

/* `lanes` threads for each piece, V elements at a time. With one piece for each result, this writes the
 * results. */
template <class T, int V, class FOLD>
__global__ void __launch_bounds__(SUM_THREADS)
    sum_rows(const T *x, FOLD fold, reduce_plan r, int lanes, typename sum_of<T>::type *pieces, sum_result y) {
    using A = typename sum_of<T>::type;
    SHARED_ARRAY(A, scratch, [SUM_THREADS / 32]);
    int64_t task = ((int64_t)blockIdx.x * SUM_THREADS + threadIdx.x) / lanes, none, there;
    if (task >= r.kept.count * r.pieces)
        /* whole warps leave together, and with more lanes no block has such threads */
        return;
    int64_t m = task / r.pieces, begin = task % r.pieces * r.piece, end = begin + r.piece;
    if (end > r.reduced.count) end = r.reduced.count;
    const T *from = x + list_offset(r.kept, m, &there);
    A sum[V];
    UNROLL for (int k = 0; k < V; k++) sum[k] = fold.template none<A>();
    for (int64_t i = begin + (int64_t)(threadIdx.x % lanes) * V; i < end; i += (int64_t)lanes * V) {
        vector_of<T, V> v = load<V>(from + list_offset(r.reduced, i, &none));
        UNROLL for (int k = 0; k < V; k++) sum[k] = fold.join(sum[k], number(v.v[k]));
    }
    /* the V sums of a thread, in halves */
    for (int half = V / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) sum[k] = fold.join(sum[k], sum[k + half]);
    A total = lanes_sum(fold, sum[0], lanes, scratch);
    if (threadIdx.x % lanes) return;
    if (r.pieces > 1)
        pieces[task] = total;
    else
        y.put(there, total);
}

/* Adds the pieces of each result, which are contiguous. */
template <class A, class FOLD>
__global__ void __launch_bounds__(SUM_THREADS)
    sum_pieces(const A *pieces, FOLD fold, reduce_list kept, int64_t n, int lanes, sum_result y) {
    SHARED_ARRAY(A, scratch, [SUM_THREADS / 32]);
    int64_t m = ((int64_t)blockIdx.x * SUM_THREADS + threadIdx.x) / lanes, there;
    if (m >= kept.count) return;
    A sum = fold.template none<A>();
    for (int64_t i = threadIdx.x % lanes; i < n; i += lanes) sum = fold.join(sum, pieces[m * n + i]);
    sum = lanes_sum(fold, sum, lanes, scratch);
    if (threadIdx.x % lanes) return;
    list_offset(kept, m, &there);
    y.put(there, sum);
}

/* ---- anything else: a thread for each piece ---- */

/* Task = piece * results + result, so that neighbouring threads read neighbouring elements. */
template <class T, class FOLD>
__global__ void __launch_bounds__(SUM_THREADS)
    sum_apart(const T *x, FOLD fold, reduce_plan r, typename sum_of<T>::type *pieces, sum_result y) {
    using A = typename sum_of<T>::type;
    int64_t tasks = r.kept.count * r.pieces, step = (int64_t)gridDim.x * SUM_THREADS;
    for (int64_t task = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; task < tasks; task += step) {
        int64_t piece = task / r.kept.count, m = task % r.kept.count, there, none;
        int64_t begin = piece * r.piece, end = begin + r.piece;
        if (end > r.reduced.count) end = r.reduced.count;
        const T *from = x + list_offset(r.kept, m, &there);
        /* with many results a piece may have millions of elements: it is summed in blocks */
        using TOTAL = typename sum_of<T>::total;
        TOTAL total = fold.template none<TOTAL>();
        for (; begin < end; begin += APART_BLOCK) {
            int64_t block_end = end - begin < APART_BLOCK ? end : begin + APART_BLOCK;
            A sum = fold.template none<A>();
#pragma unroll 4
            for (int64_t i = begin; i < block_end; i++)
                sum = fold.join(sum, number(from[list_offset(r.reduced, i, &none)]));
            total = fold.join(total, (TOTAL)sum);
        }
        if (r.pieces > 1)
            pieces[m * r.pieces + piece] = (A)total;
        else
            y.put(there, (A)total);
    }
}

/* ---- launching ---- */

static unsigned blocks_of(int64_t tasks, int lanes) {
    return (unsigned)((tasks * lanes + SUM_THREADS - 1) / SUM_THREADS);
}

static int lanes_for(int64_t elements) {
    return elements >= BLOCK_SUMS ? (int)SUM_THREADS : 32;
}

/* Whether rows can be read 16 bytes at a time: the innermost axis is contiguous, and every other stride a
 * multiple of a vector. */
template <class T> static bool rows_are_vectored(const reduce_plan *r, const void *x) {
    if (!r->reduced.n || r->reduced.at[r->reduced.n - 1].in != 1) return false;
    bool good = is_vectored<T>(x, r->reduced.at[r->reduced.n - 1].length);
    for (int k = 0; k < r->reduced.n - 1; k++) good = good && r->reduced.at[k].in % vector_width<T> == 0;
    for (int k = 0; k < r->kept.n; k++) good = good && r->kept.at[k].in % vector_width<T> == 0;
    return good;
}

/* Elements that a thread reads at once; pieces are whole multiples of 8 elements. */
template <class T> constexpr int row_width = vector_width<T> < 8 ? vector_width<T> : 8;

/* With several pieces, the workspace holds their sums and a second kernel adds them. */
template <class T, class FOLD>
static weft_status sum_launch(const kernel_call *c, FOLD fold, const reduce_plan *r) {
    using A = typename sum_of<T>::type;
    const T *x = static_cast<const T *>(c->in[0].data);
    A *pieces = static_cast<A *>(c->workspace);
    sum_result y = {c->out[0].data, c->out[0].type.dtype, r->factor};
    /* a warp for short pieces, a block for long ones */
    int lanes = lanes_for(r->piece);
    dim3 blocks(blocks_of(r->kept.count * r->pieces, r->along_rows ? lanes : 1)), threads(SUM_THREADS);
    weft_status status;
    if (!r->along_rows)
        status = launch(c, sum_apart<T, FOLD>, blocks, threads, 0, x, fold, *r, pieces, y);
    else if (rows_are_vectored<T>(r, x))
        status =
            launch(c, sum_rows<T, row_width<T>, FOLD>, blocks, threads, 0, x, fold, *r, lanes, pieces, y);
    else
        status = launch(c, sum_rows<T, 1, FOLD>, blocks, threads, 0, x, fold, *r, lanes, pieces, y);
    if (status != WEFT_OK || r->pieces == 1) return status;
    lanes = lanes_for(r->pieces);
    return launch(c, sum_pieces<A, FOLD>, dim3(blocks_of(r->kept.count, lanes)), threads, 0, pieces, fold,
                  r->kept, r->pieces, lanes, y);
}

template <class T> static weft_status columns_launch(const kernel_call *c, const reduce_plan *r) {
    int64_t row = r->reduced.at[0].in, columns = r->kept.count;
    sum_result y = {c->out[0].data, c->out[0].type.dtype, r->factor};
    column_source<T, sum_result> source = {static_cast<const T *>(c->in[0].data), row, r->kept.at[0].out, y};
    bool vectored = columns % vector_width<T> == 0 && is_vectored<T>(source.x, row);
    return column_sums<T>(c, source, r->reduced.count, columns, vectored,
                          static_cast<column_sum *>(c->workspace));
}

/* amax, amin and prod of any type, and sums of integers and bool. */
static weft_status kind_launch(const kernel_call *c, const reduce_plan *r) {
    fold_kind fold = {r->kind};
    switch (c->in[0].type.dtype) {
    case WEFT_F64:
        return sum_launch<double>(c, fold, r);
    case WEFT_I64:
        return sum_launch<int64_t>(c, fold, r);
    case WEFT_I32:
        return sum_launch<int32_t>(c, fold, r);
    case WEFT_U8:
    case WEFT_BOOL:
        return sum_launch<uint8_t>(c, fold, r);
    default:
        return with_float(c, c->in[0].type.dtype,
                          [&](auto zero) { return sum_launch<decltype(zero)>(c, fold, r); });
    }
}

extern "C" weft_status cuda_sum_run(void *, const kernel_call *c) {
    reduce_plan r;
    reduce_plan_of(&r, c->node);
    if (r.kind != REDUCE_SUM || !dtype_is_float(c->in[0].type.dtype)) return kind_launch(c, &r);
    if (c->in[0].type.dtype == WEFT_F64) return sum_launch<double>(c, fold_sum{REDUCE_SUM}, &r);
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return reduce_is_columns(&r) ? columns_launch<T>(c, &r) : sum_launch<T>(c, fold_sum{REDUCE_SUM}, &r);
    });
}
