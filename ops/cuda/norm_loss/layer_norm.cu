/* layer_norm.cu - layer_norm and rms_norm: a row is read once and kept in registers (rows.cuh): the mean (0
 * in rms_norm), then the squared distances from it, as in the reference, then the result. Weight and bias
 * are f32 or of x's type W. */
#include "ops/cuda/norm_loss/rows.cuh"

extern "C" {
#include "ops/norm_loss/norm.h"
}

/* x [rows, n]; also writes mean (where it is not NULL) and rstd of each row for the backward op. b is NULL,
 * or b and w are. */
template <class T, class W, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS)
    layer_norm_rows(const T *x, const W *w, const W *b, float eps, T *y, float *means, float *rstds,
                    int64_t rows, int64_t n) {
    constexpr int VEC = SHAPE::VEC;
    SHARED_ARRAY(float, scratch, [32]);
    EACH_ROW(SHAPE, at, rows) {
        row_of<T, SHAPE> row(x + at * n, n);
        /* two passes over registers: sum x^2 - (sum x)^2 would cancel; the second corrects the mean where
         * every x is within half of it, as on the CPU (ops/cpu/simd/norm.c) */
        float sum = 0, rest = 0, squares = 0;
        if (means)
            row.each([&](int64_t, float(&v)[VEC]) {
                UNROLLED(k, VEC) sum += v[k];
            });
        float mean = means ? row_sum<SHAPE>(sum, scratch) / (float)n : 0.0f;
        row.each([&](int64_t, float(&v)[VEC]) {
            UNROLLED(k, VEC) {
                float apart = v[k] - mean;
                rest += apart;
                squares += apart * apart;
            }
        });
        squares = row_sum<SHAPE>(squares, scratch);
        float variance = squares / (float)n;
        if (means && 4 * squares <= mean * mean) {
            float off = row_sum<SHAPE>(rest, scratch) / (float)n;
            mean += off;
            variance = fmaxf(variance - off * off, 0.0f);
        }
        float rstd = 1.0f / sqrtf(variance + eps);
        /* y = (x - mean) rstd w + b, in f32 until it is stored */
        auto put = [&](int64_t i, float(&v)[VEC]) {
            float scale[VEC], shift[VEC];
            UNROLLED(k, VEC) v[k] = (v[k] - mean) * rstd;
            if (!w) return;
            load_floats<VEC>(w + i, scale);
            UNROLLED(k, VEC) v[k] *= scale[k];
            if (!b) return;
            load_floats<VEC>(b + i, shift);
            UNROLLED(k, VEC) v[k] += shift[k];
        };
        row.each(put, y + at * n);
        if (row.lane == 0) {
            if (means) means[at] = mean;
            rstds[at] = rstd;
        }
    }
}

/* x [rows, n], weight and bias [n] or none -> y, mean [rows] (NULL: rms_norm), rstd [rows]. */
template <class T, class W>
static weft_status norm_launch(const kernel_call *c, const tensor *mean, const tensor *rstd) {
    const tensor_type *t = &c->in[0].type;
    int64_t n = t->shape[t->ndim - 1], rows = type_elements(t) / n;
    const T *x = static_cast<const T *>(c->in[0].data);
    T *y = static_cast<T *>(c->out[0].data);
    const W *w = c->n_in > 1 ? static_cast<const W *>(c->in[1].data) : nullptr;
    const W *b = c->n_in > 2 ? static_cast<const W *>(c->in[2].data) : nullptr;
    bool vectored =
        is_vectored<T>(x, n) && is_vectored<T>(y, n) && is_vectored<W>(w, n) && is_vectored<W>(b, n);
    return with_row_shape<T>(n, vectored, [&](auto shape) {
        using S = decltype(shape);
        return launch(c, layer_norm_rows<T, W, S>, row_grid<S>(c, rows), dim3(S::THREADS), 0, x, w, b,
                      (float)static_cast<const norm_attrs *>(c->attrs)->eps, y,
                      mean ? static_cast<float *>(mean->data) : nullptr, static_cast<float *>(rstd->data),
                      rows, n);
    });
}

static weft_status norm_run(const kernel_call *c, const tensor *mean, const tensor *rstd) {
    bool is_wide = c->n_in < 2 || c->in[1].type.dtype == WEFT_F32;
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return is_wide ? norm_launch<T, float>(c, mean, rstd) : norm_launch<T, T>(c, mean, rstd);
    });
}

weft_status cuda_layer_norm_run(void *, const kernel_call *c) {
    return norm_run(c, &c->out[1], &c->out[2]);
}

weft_status cuda_rms_norm_run(void *, const kernel_call *c) {
    return norm_run(c, nullptr, &c->out[1]);
}
