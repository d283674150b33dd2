/* softmax.cu - softmax and log_softmax: along the last axis row by row (rows.cuh); along another axis with
 * neighbouring threads on neighbouring elements. Either way there are two passes over x: maximum and sum
 * together, then the results. */
#include "ops/cuda/norm_loss/rows.cuh"

extern "C" {
#include "ops/norm_loss/norm.h"
}

/* The result for x, given its row's maximum and sum. */
template <bool IS_LOG> struct soft_result {
    float max, rest;
    __device__ soft_result(const soft_sum &s) {
        max = s.max;
        rest = IS_LOG ? logf(s.sum) : 1.0f / s.sum;
    }
    /* log: (x - max) - log sum, since max + log sum would round away what x - max keeps */
    __device__ float of(float x) const {
        return IS_LOG ? (x - max) - rest : expf(x - max) * rest;
    }
};

/* Rows [rows, n], a warp or a block for each. */
template <bool IS_LOG, class T, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS) softmax_rows(const T *x, T *y, int64_t rows, int64_t n) {
    SHARED_ARRAY(float, scratch, [32]);
    EACH_ROW(SHAPE, at, rows) {
        row_of<T, SHAPE> row(x + at * n, n);
        /* maximum and sum in one pass; the result in a second */
        soft_sum s = soft_sum::none();
        row.each([&](int64_t, float(&v)[SHAPE::VEC]) { s.add(v); });
        s.template merge<SHAPE>(scratch);
        soft_result<IS_LOG> result(s);
        auto put = [&](int64_t, float(&v)[SHAPE::VEC]) {
            UNROLLED(k, SHAPE::VEC) v[k] = result.of(v[k]);
        };
        row.each(put, y + at * n);
    }
}

/* x [outer, n, inner]: a block has 32 neighbouring lines, with 8 threads for each. */
enum { ACROSS = 32, ALONG = 8 };

template <bool IS_LOG, class T>
__global__ void softmax_lines(const T *x, T *y, int64_t outer, int64_t n, int64_t inner) {
    SHARED_ARRAY(soft_sum, part, [ALONG][ACROSS]);
    for (int64_t first = (int64_t)blockIdx.x * ACROSS; first < outer * inner;
         first += (int64_t)gridDim.x * ACROSS) {
        int64_t line = first + threadIdx.x, at = line / inner * n * inner + line % inner;
        /* threads past the last line take part in the barriers with no elements */
        int64_t length = line < outer * inner ? n : 0;
        soft_sum s = soft_sum::none();
        for (int64_t i = threadIdx.y; i < length; i += ALONG) {
            float v[1] = {to_float(x[at + i * inner])};
            s.add(v);
        }
        /* the 8 parts of a line are merged by each of its threads in the same order */
        part[threadIdx.y][threadIdx.x] = s;
        __syncthreads();
        float most = -INFINITY, sum = 0;
        for (int k = 0; k < ALONG; k++) most = fmaxf(most, part[k][threadIdx.x].max);
        for (int k = 0; k < ALONG; k++) sum += part[k][threadIdx.x].sum_at(most);
        s.max = most;
        s.sum = sum;
        soft_result<IS_LOG> result(s);
        for (int64_t i = threadIdx.y; i < length; i += ALONG)
            y[at + i * inner] = from_float<T>(result.of(to_float(x[at + i * inner])));
        /* all have read the parts before the next lines overwrite them */
        __syncthreads();
    }
}

template <bool IS_LOG, class T>
static weft_status softmax_launch(const kernel_call *c, int64_t outer, int64_t n, int64_t inner) {
    const T *x = static_cast<const T *>(c->in[0].data);
    T *y = static_cast<T *>(c->out[0].data);
    if (inner > 1)
        return launch(c, softmax_lines<IS_LOG, T>, dim3(blocks_for(c, outer * inner, ACROSS)),
                      dim3(ACROSS, ALONG), 0, x, y, outer, n, inner);
    return with_row_shape<T>(n, is_vectored<T>(x, n) && is_vectored<T>(y, n), [&](auto shape) {
        using S = decltype(shape);
        return launch(c, softmax_rows<IS_LOG, T, S>, row_grid<S>(c, outer), dim3(S::THREADS), 0, x, y, outer,
                      n);
    });
}

template <bool IS_LOG> static weft_status softmax_run(const kernel_call *c) {
    const tensor_type *t = &c->in[0].type;
    int64_t axis = static_cast<const softmax_attrs *>(c->attrs)->axis, outer = 1, inner = 1;
    if (axis < 0) axis += t->ndim;
    for (int i = 0; i < t->ndim; i++) (i < axis ? outer : inner) *= i == axis ? 1 : t->shape[i];
    return with_float(c, t->dtype, [&](auto zero) {
        return softmax_launch<IS_LOG, decltype(zero)>(c, outer, t->shape[axis], inner);
    });
}

weft_status cuda_softmax_run(void *, const kernel_call *c) {
    return softmax_run<false>(c);
}

weft_status cuda_log_softmax_run(void *, const kernel_call *c) {
    return softmax_run<true>(c);
}
