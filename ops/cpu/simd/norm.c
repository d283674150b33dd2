/* norm.c - layer_norm and its backward op in f32. Rows are independent; the sums over rows (dw, db) are taken
 * over fixed chunks of rows and the chunks added in order, so the bits do not depend on threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/norm.h"

#include <math.h>
#include <string.h>

static const char *declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

/* ---- forward: two passes over a row, which the cache holds ---- */

static void row_statistics(const float *x, int64_t d, double eps, float *mean, float *rstd) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < d; k++) sum += x[k];
    float m = sum / (float)d;
#pragma omp simd reduction(+ : squares)
    for (int64_t k = 0; k < d; k++) squares += (x[k] - m) * (x[k] - m);
    *mean = m;
    *rstd = (float)(1 / sqrt((double)squares / (double)d + eps));
}

static weft_status forward_run(void *state, const kernel_call *c) {
    (void)state;
    const tensor_type *t = &c->in[0].type;
    const float *x = c->in[0].data, *w = c->n_in == 3 ? c->in[1].data : NULL, *b = w ? c->in[2].data : NULL;
    float *y = c->out[0].data, *mean = c->out[1].data, *rstd = c->out[2].data;
    double eps = ((const norm_attrs *)c->attrs)->eps;
    int64_t d = t->shape[t->ndim - 1], rows = type_elements(t) / d;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *restrict xi = x + i * d;
        float *restrict yi = y + i * d, m, r;
        row_statistics(xi, d, eps, &m, &r);
        mean[i] = m;
        rstd[i] = r;
        if (w)
            for (int64_t k = 0; k < d; k++) yi[k] = (xi[k] - m) * r * w[k] + b[k];
        else
            for (int64_t k = 0; k < d; k++) yi[k] = (xi[k] - m) * r;
    }
    return WEFT_OK;
}

const weft_kernel SIMD(layer_norm) = {.name = SIMD_NAME,
                                      .op = &weft_op_layer_norm,
                                      .min_isa = SIMD_LEVEL,
                                      .declines = declines,
                                      .run = forward_run};

/* ---- backward ---- */

/* Rows of a chunk: at least 16, and at most 256 chunks in all. */
static int64_t chunk_rows(int64_t rows) {
    return rows <= 16 * 256 ? 16 : (rows + 255) / 256;
}

static int64_t chunk_count(int64_t rows) {
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* dw and db of every chunk; nothing without a weight. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    const tensor_type *t = &n->in[0]->type;
    size_t d = (size_t)t->shape[t->ndim - 1];
    return n->n_out == 3 ? (size_t)chunk_count(type_elements(t) / (int64_t)d) * 2 * d * sizeof(float) : 0;
}

/* One row; w, dw, db are NULL together. */
static void row_backward(const float *restrict dy, const float *restrict x, float *restrict dx,
                         const float *restrict w, float *restrict dw, float *restrict db, int64_t d,
                         float mean, float rstd) {
    float sum_g = 0, sum_gx = 0;
    if (w) {
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t k = 0; k < d; k++) {
            float xhat = (x[k] - mean) * rstd, g = dy[k] * w[k];
            dw[k] += dy[k] * xhat;
            db[k] += dy[k];
            sum_g += g;
            sum_gx += g * xhat;
        }
    } else {
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t k = 0; k < d; k++) {
            sum_g += dy[k];
            sum_gx += dy[k] * ((x[k] - mean) * rstd);
        }
    }
    float mean_g = sum_g / (float)d, slope = sum_gx / (float)d;
    if (w)
        for (int64_t k = 0; k < d; k++) dx[k] = rstd * (dy[k] * w[k] - mean_g - (x[k] - mean) * rstd * slope);
    else
        for (int64_t k = 0; k < d; k++) dx[k] = rstd * (dy[k] - mean_g - (x[k] - mean) * rstd * slope);
}

static void add_chunks(const float *parts, int64_t chunks, int64_t d, int64_t k, float *dw, float *db) {
    double w = 0, b = 0;
    for (int64_t i = 0; i < chunks; i++) {
        w += parts[2 * i * d + k];
        b += parts[(2 * i + 1) * d + k];
    }
    dw[k] = (float)w;
    db[k] = (float)b;
}

static weft_status backward_run(void *state, const kernel_call *c) {
    (void)state;
    const tensor_type *t = &c->in[0].type;
    const float *dy = c->in[0].data, *x = c->in[1].data, *mean = c->in[2].data, *rstd = c->in[3].data;
    const float *w = c->n_out == 3 ? c->in[4].data : NULL;
    float *dx = c->out[0].data, *parts = c->workspace;
    int64_t d = t->shape[t->ndim - 1], rows = type_elements(t) / d, each = chunk_rows(rows),
            chunks = chunk_count(rows);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        float *dw = w ? parts + 2 * i * d : NULL, *db = w ? dw + d : NULL;
        if (w) memset(dw, 0, (size_t)(2 * d) * sizeof *dw);
        for (int64_t r = i * each; r < rows && r < (i + 1) * each; r++)
            row_backward(dy + r * d, x + r * d, dx + r * d, w, dw, db, d, mean[r], rstd[r]);
    }
    if (!w) return WEFT_OK;
    float *dw = c->out[1].data, *db = c->out[2].data;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t k = 0; k < d; k++) add_chunks(parts, chunks, d, k, dw, db);
    return WEFT_OK;
}

const weft_kernel SIMD(layer_norm_backward) = {.name = SIMD_NAME,
                                               .op = &weft_op_layer_norm_backward,
                                               .min_isa = SIMD_LEVEL,
                                               .declines = declines,
                                               .workspace = backward_workspace,
                                               .run = backward_run};
