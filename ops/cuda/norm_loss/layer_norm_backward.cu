/* layer_norm_backward.cu - gradients of layer_norm, and of rms_norm, whose mean is 0 and which has no
 * bias. Short rows: one kernel reads x and dy once, writes dx, and sums dw and db over its rows in
 * registers; a second one adds the parts of the blocks. Long rows: dx, then the column sums. */
#include "ops/cuda/kit/columns.cuh"
#include "ops/cuda/norm_loss/rows.cuh"

extern "C" {
#include "ops/cuda/norm_loss/layer_norm.h"
#include "ops/norm_loss/norm.h"
}

/* The operands and results; W is the weight's type. */
template <class T, class W> struct layer_norm_source {
    const T *dy, *x;
    const float *mean, *rstd; /* mean NULL: rms_norm */
    const W *w;               /* NULL: no weight */
    T *dx;
    float *dw, *db; /* db NULL: not wanted */
    int64_t rows, n;

    /* For column_sums: the sums of dy xhat and of dy. */
    using part = column_pair;
    template <int VEC> struct columns_of {
        __device__ void begin(const layer_norm_source &, int64_t) {
        }
        __device__ void add(const layer_norm_source &s, int64_t row, int64_t column, part (&sum)[VEC]) {
            float g[VEC], v[VEC], mean = s.mean ? s.mean[row] : 0.0f, rstd = s.rstd[row];
            load_floats<VEC>(s.dy + row * s.n + column, g);
            load_floats<VEC>(s.x + row * s.n + column, v);
            UNROLLED(k, VEC) sum[k].merge(part{g[k] * (v[k] - mean) * rstd, g[k]});
        }
        __device__ void end(part (&)[VEC]) {
        }
    };
    __device__ void finish(int64_t column, const part &sum) const {
        dw[column] = sum.a;
        if (db) db[column] = sum.b;
    }
};

/* dx of row `at` = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy w, in rms_norm without mean(g). Calls
 * seen(step, mean, rstd, x, dy) for VEC elements at a time. */
template <class SHAPE, class T, class W, class F>
__device__ static inline void layer_norm_dx(const layer_norm_source<T, W> &s, int64_t at, float *scratch,
                                            F seen) {
    constexpr int VEC = SHAPE::VEC;
    row_of<T, SHAPE> x(s.x + at * s.n, s.n), dy(s.dy + at * s.n, s.n);
    float mean = s.mean ? s.mean[at] : 0.0f, rstd = s.rstd[at], sum_g = 0, sum_gx = 0;
    /* v, g: x and dy become xhat and dy w */
    auto prepare = [&](int64_t i, float(&v)[VEC], float(&g)[VEC]) {
        float w[VEC];
        UNROLLED(k, VEC) v[k] = (v[k] - mean) * rstd;
        if (!s.w) return;
        load_floats<VEC>(s.w + i, w);
        UNROLLED(k, VEC) g[k] *= w[k];
    };
    each_pair(x, dy, [&](int step, int64_t i, float(&v)[VEC], float(&g)[VEC]) {
        seen(step, mean, rstd, v, g);
        prepare(i, v, g);
        UNROLLED(k, VEC) sum_g += g[k];
        UNROLLED(k, VEC) sum_gx += g[k] * v[k];
    });
    /* both sums over the row, then dx in a second pass over the registers */
    float mean_g = s.mean ? row_sum<SHAPE>(sum_g, scratch) / (float)s.n : 0.0f,
          mean_gx = row_sum<SHAPE>(sum_gx, scratch) / (float)s.n;
    auto put = [&](int, int64_t i, float(&v)[VEC], float(&g)[VEC]) {
        prepare(i, v, g);
        UNROLLED(k, VEC) v[k] = rstd * (g[k] - mean_g - v[k] * mean_gx);
    };
    each_pair(x, dy, put, s.dx + at * s.n);
}

template <class T, class W, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS) layer_norm_dx_rows(layer_norm_source<T, W> s) {
    SHARED_ARRAY(float, scratch, [32]);
    EACH_ROW(SHAPE, at, s.rows)
        layer_norm_dx<SHAPE>(s, at, scratch,
                             [](int, float, float, float(&)[SHAPE::VEC], float(&)[SHAPE::VEC]) {});
}

/* Short rows, one for each warp: dx, and parts [blocks, n] of dw and db. A lane sums its own columns in
 * registers over all its rows; the warps of a block are then added in order. */
template <class T, class W, class SHAPE>
__global__ void __launch_bounds__(LAYER_NORM_WARPS * 32)
    layer_norm_short(layer_norm_source<T, W> s, column_pair *parts) {
    constexpr int VEC = SHAPE::VEC, STEPS = SHAPE::STEPS;
    SHARED_ARRAY(column_pair, shared, [LAYER_NORM_WARPS][LAYER_NORM_SHORT]);
    column_pair sum[STEPS * VEC];
    UNROLLED(k, STEPS * VEC) sum[k] = column_pair::none();
    EACH_ROW(SHAPE, at, s.rows) {
        layer_norm_dx<SHAPE>(
            s, at, nullptr, [&](int step, float mean, float rstd, float(&v)[VEC], float(&g)[VEC]) {
                UNROLLED(k, VEC) sum[step * VEC + k].merge(column_pair{g[k] * (v[k] - mean) * rstd, g[k]});
            });
    }
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    UNROLLED(k, STEPS * VEC) {
        /* column of the lane's k-th number */
        int i = (k / VEC * 32 + lane) * VEC + k % VEC;
        if (i < s.n) shared[warp][i] = sum[k];
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < s.n; i += LAYER_NORM_WARPS * 32) {
        column_pair all = shared[0][i];
        for (int k = 1; k < LAYER_NORM_WARPS; k++) all.merge(shared[k][i]);
        parts[blockIdx.x * s.n + i] = all;
    }
}

/* SHAPE keeps up to 32 elements for each lane: 1,024 elements in a warp. */
template <class T, class W>
static weft_status layer_norm_short_launch(const kernel_call *c, layer_norm_source<T, W> s, bool vectored) {
    constexpr int V = vector_width<T>;
    column_pair *parts = static_cast<column_pair *>(c->workspace);
    int64_t blocks = layer_norm_parts(s.rows, s.n, sizeof(T));
    dim3 grid((unsigned)blocks), block(LAYER_NORM_WARPS * 32);
    weft_status status =
        vectored ? launch(c, layer_norm_short<T, W, row_shape<V, 32, 32 / V>>, grid, block, 0, s, parts)
                 : launch(c, layer_norm_short<T, W, row_shape<1, 32, 32>>, grid, block, 0, s, parts);
    return status ? status : column_totals_launch(c, s, s.n, blocks, parts);
}

/* dy, x [rows, n], mean (NULL: rms_norm), rstd [rows], weight [n] or none -> dx, and with a weight dw, and in
 * layer_norm db, [n]. */
template <class T, class W>
static weft_status norm_backward_launch(const kernel_call *c, const tensor *mean, const tensor *rstd,
                                        const tensor *w) {
    const tensor_type *t = &c->in[1].type;
    layer_norm_source<T, W> s = {};
    s.dy = static_cast<const T *>(c->in[0].data);
    s.x = static_cast<const T *>(c->in[1].data);
    s.mean = mean ? static_cast<const float *>(mean->data) : nullptr;
    s.rstd = static_cast<const float *>(rstd->data);
    s.w = w ? static_cast<const W *>(w->data) : nullptr;
    s.dx = static_cast<T *>(c->out[0].data);
    s.dw = c->n_out > 1 ? static_cast<float *>(c->out[1].data) : nullptr;
    s.db = c->n_out > 2 ? static_cast<float *>(c->out[2].data) : nullptr;
    s.n = t->shape[t->ndim - 1];
    s.rows = type_elements(t) / s.n;
    /* rows of 16-byte pieces, for all operands and the weight */
    bool vectored = is_vectored<T>(s.dy, s.n) && is_vectored<T>(s.x, s.n) && is_vectored<T>(s.dx, s.n) &&
                    is_vectored<W>(s.w, s.n);
    if (w && s.n <= LAYER_NORM_SHORT) return layer_norm_short_launch(c, s, vectored);
    weft_status status = with_row_shape<T>(s.n, vectored, [&](auto shape) {
        using S = decltype(shape);
        return launch(c, layer_norm_dx_rows<T, W, S>, row_grid<S>(c, s.rows), dim3(S::THREADS), 0, s);
    });
    if (status || !w) return status;
    return column_sums<T>(c, s, s.rows, s.n, vectored, static_cast<column_pair *>(c->workspace));
}

static weft_status norm_backward_run(const kernel_call *c, const tensor *mean, const tensor *rstd,
                                     const tensor *w) {
    bool is_wide = !w || w->type.dtype == WEFT_F32;
    return with_float(c, c->in[1].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return is_wide ? norm_backward_launch<T, float>(c, mean, rstd, w)
                       : norm_backward_launch<T, T>(c, mean, rstd, w);
    });
}

weft_status cuda_layer_norm_backward_run(void *, const kernel_call *c) {
    return norm_backward_run(c, &c->in[2], &c->in[3], c->n_out > 1 ? &c->in[4] : nullptr);
}

weft_status cuda_rms_norm_backward_run(void *, const kernel_call *c) {
    return norm_backward_run(c, nullptr, &c->in[2], c->n_out > 1 ? &c->in[3] : nullptr);
}
