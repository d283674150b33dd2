/* epilogue.cu - what follows a product where cuBLASLt has no algorithm that does it in the same kernel: an
 * activation or its derivative over the result, a bias' gradient. Masks have the library's bits, so a forward
 * with its epilogue here fits a backward whose epilogue is in the library. */
#include "ops/cuda/linalg/blas_call.cuh"
#include "ops/cuda/kit/columns.cuh"

enum { THREADS = 256, BITS = 8 };

/* gelu by tanh, or its slope: ops/pointwise/gelu_tanh.c, ops/pointwise/gelu_tanh_backward.c */
__device__ static inline float gelu_tanh_of(float z, bool slope) {
    const float k = 0.79788456080286535588f, c = 0.044715f;
    float t = tanhf(k * (z + c * z * z * z));
    return slope ? 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * k * (1 + 3 * c * z * z) : 0.5f * z * (1 + t);
}

typedef struct work {
    blas_epilogue e;
    int64_t rows, columns;
    uint8_t *bits; /* ReLU's mask [rows, kept_columns / 8]; NULL: no mask */
} work;

/* In place over y [rows, columns]; a thread takes the 8 elements of one byte of the mask, so no two threads
 * write one byte. */
template <class T> __global__ static void activate(T *y, T *kept, work w) {
    int64_t groups = (w.columns + BITS - 1) / BITS, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < w.rows * groups; i += step) {
        int64_t row = i / groups, first = i % groups * BITS;
        uint8_t *byte = w.bits ? w.bits + row * (w.e.kept_columns / BITS) + i % groups : nullptr;
        unsigned bits = byte && w.e.is_backward ? *byte : 0;
        for (int k = 0; k < BITS && first + k < w.columns; k++) {
            int64_t at = row * w.columns + first + k;
            float z = to_float(y[at]);
            if (w.e.act == ACT_GELU_TANH && w.e.is_backward) {
                y[at] = from_float<T>(z * gelu_tanh_of(to_float(kept[at]), true));
            } else if (w.e.act == ACT_GELU_TANH) {
                if (kept) kept[at] = y[at];
                y[at] = from_float<T>(gelu_tanh_of(z, false));
            } else {
                /* NaN passes, as in relu.c */
                if (!w.e.is_backward) bits |= (unsigned)!(z <= 0) << k;
                bool passes = w.e.is_backward ? bits >> k & 1 : !(z <= 0);
                if (!passes) y[at] = from_float<T>(0.0f);
            }
        }
        if (byte && !w.e.is_backward) *byte = (uint8_t)bits;
    }
}

/* Where column sums go. */
template <class T> struct bias_gradient {
    T *data;
    __device__ void put(int64_t at, float sum) const {
        data[at] = from_float<T>(sum);
    }
};

/* The sum down the columns of dy. Its parts use the library's scratch, which is free after the product. */
static weft_status sum_apart(const kernel_call *c, const blas_plan *plan) {
    int64_t rows = c->in[0].type.shape[0], columns = c->in[0].type.shape[1];
    column_sum *parts = (column_sum *)blas_workspace(plan, c->workspace);
    return with_float(c, c->in[0].type.dtype, [&](auto from) {
        return with_float(c, c->out[1].type.dtype, [&](auto as) {
            typedef decltype(from) T;
            typedef bias_gradient<decltype(as)> results;
            column_source<T, results> source = {
                (const T *)c->in[0].data, columns, 1, {(decltype(as) *)c->out[1].data}};
            bool vectored = columns % vector_width<T> == 0 && is_vectored<T>(source.x, columns);
            return column_sums<T>(c, source, rows, columns, vectored, parts);
        });
    });
}

/* Either the gradient of a bias, or an activation (or its slope) over the result. */
weft_status blas_epilogue_apart(const kernel_call *c, const blas_plan *plan) {
    const blas_epilogue *e = &plan->epilogue;
    if (e->sums) return sum_apart(c, plan);
    void *kept = e->is_backward ? c->in[2].data : e->keeps ? c->out[1].data : nullptr;
    bool is_mask = e->act == ACT_RELU;
    work w = {*e, plan->p.out.rows, plan->p.out.columns, is_mask ? (uint8_t *)kept : nullptr};
    dim3 grid(blocks_for(c, w.rows * ((w.columns + BITS - 1) / BITS), THREADS));
    return with_float(c, c->out[0].type.dtype, [&](auto as) {
        typedef decltype(as) element;
        return launch(c, activate<element>, grid, dim3(THREADS), 0, (element *)c->out[0].data,
                      is_mask ? (element *)nullptr : (element *)kept, w);
    });
}
