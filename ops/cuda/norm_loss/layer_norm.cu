/* layer_norm.cu - a row is read once and kept in registers (rows.cuh): the mean, then the squared distances
 * from it, as in the reference, then the result. Weight and bias are f32 or of x's type W. */
#include "ops/cuda/norm_loss/rows.cuh"

extern "C" {
#include "ops/norm_loss/norm.h"
}

/* x [rows, n]; also writes mean and rstd of each row for the backward op. w and b are both NULL, or
 * neither. */
template <class T, class W, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS)
    layer_norm_rows(const T *x, const W *w, const W *b, float eps, T *y, float *means, float *rstds,
                    int64_t rows, int64_t n) {
    constexpr int VEC = SHAPE::VEC;
    SHARED_ARRAY(float, scratch, [32]);
    EACH_ROW(SHAPE, at, rows) {
        row_of<T, SHAPE> row(x + at * n, n);
        /* two passes over registers: sum x^2 - (sum x)^2 would cancel */
        float sum = 0, squares = 0;
        row.each([&](int64_t, float(&v)[VEC]) {
            UNROLLED(k, VEC) sum += v[k];
        });
        float mean = row_sum<SHAPE>(sum, scratch) / (float)n;
        row.each([&](int64_t, float(&v)[VEC]) {
            UNROLLED(k, VEC) squares += (v[k] - mean) * (v[k] - mean);
        });
        float rstd = 1.0f / sqrtf(row_sum<SHAPE>(squares, scratch) / (float)n + eps);
        /* y = (x - mean) rstd w + b, in f32 until it is stored */
        auto put = [&](int64_t i, float(&v)[VEC]) {
            float scale[VEC], shift[VEC];
            UNROLLED(k, VEC) v[k] = (v[k] - mean) * rstd;
            if (!w) return;
            load_floats<VEC>(w + i, scale);
            load_floats<VEC>(b + i, shift);
            UNROLLED(k, VEC) v[k] = v[k] * scale[k] + shift[k];
        };
        row.each(put, y + at * n);
        if (row.lane == 0) {
            means[at] = mean;
            rstds[at] = rstd;
        }
    }
}

/* x [rows, n], weight and bias [n] or neither -> y, mean [rows], rstd [rows]. */
template <class T, class W> static weft_status layer_norm_launch(const kernel_call *c) {
    const tensor_type *t = &c->in[0].type;
    int64_t n = t->shape[t->ndim - 1], rows = type_elements(t) / n;
    bool has_weight = c->n_in == 3;
    const T *x = static_cast<const T *>(c->in[0].data);
    T *y = static_cast<T *>(c->out[0].data);
    const W *w = has_weight ? static_cast<const W *>(c->in[1].data) : nullptr;
    const W *b = has_weight ? static_cast<const W *>(c->in[2].data) : nullptr;
    bool vectored =
        is_vectored<T>(x, n) && is_vectored<T>(y, n) && is_vectored<W>(w, n) && is_vectored<W>(b, n);
    return with_row_shape<T>(n, vectored, [&](auto shape) {
        using S = decltype(shape);
        return launch(c, layer_norm_rows<T, W, S>, row_grid<S>(c, rows), dim3(S::THREADS), 0, x, w, b,
                      (float)static_cast<const norm_attrs *>(c->attrs)->eps, y,
                      static_cast<float *>(c->out[1].data), static_cast<float *>(c->out[2].data), rows, n);
    });
}

weft_status cuda_layer_norm_run(void *, const kernel_call *c) {
    bool is_wide = c->n_in < 3 || c->in[1].type.dtype == WEFT_F32;
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return is_wide ? layer_norm_launch<T, float>(c) : layer_norm_launch<T, T>(c);
    });
}
