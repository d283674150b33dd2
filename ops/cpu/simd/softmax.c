/* softmax.c - softmax and log_softmax in f32: line by line along the last axis, or, along another one, for a
 * strip of neighbouring lines at once so that loads stay contiguous. Lines are independent of threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/vecmath.h"
#include "ops/norm.h"

enum { STRIP = 64 }; /* lines side by side: their running numbers stay in registers and the first cache */

static const char *declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

/* ---- along the last axis ---- */

static float row_max(const float *x, int64_t n) {
    float most = x[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static void softmax_row(const float *restrict x, float *restrict y, int64_t n) {
    float most = row_max(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = vm_exp(x[i] - most);
        y[i] = e;
        sum += e;
    }
    float factor = 1.0f / sum;
    for (int64_t i = 0; i < n; i++) y[i] *= factor;
}

static void log_softmax_row(const float *restrict x, float *restrict y, int64_t n) {
    float most = row_max(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += vm_exp(x[i] - most);
    float rest = vm_log(sum); /* apart from `most`: their sum would round away what x - most kept */
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - most) - rest;
}

/* ---- along an axis before others: `width` neighbours, `step` elements from one place of the axis to the
 * next ---- */

static void strip_sums(const float *restrict x, int64_t n, int64_t step, int width, float most[STRIP],
                       float sum[STRIP]) {
    for (int j = 0; j < width; j++) {
        most[j] = x[j];
        sum[j] = 0;
    }
    for (int64_t i = 1; i < n; i++)
        for (int j = 0; j < width; j++) most[j] = x[i * step + j] > most[j] ? x[i * step + j] : most[j];
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++) sum[j] += vm_exp(x[i * step + j] - most[j]);
}

static void softmax_strip(const float *restrict x, float *restrict y, int64_t n, int64_t step, int width) {
    float most[STRIP], sum[STRIP];
    strip_sums(x, n, step, width, most, sum);
    for (int j = 0; j < width; j++) sum[j] = 1.0f / sum[j];
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++) y[i * step + j] = vm_exp(x[i * step + j] - most[j]) * sum[j];
}

static void log_softmax_strip(const float *restrict x, float *restrict y, int64_t n, int64_t step,
                              int width) {
    float most[STRIP], sum[STRIP];
    strip_sums(x, n, step, width, most, sum);
    for (int j = 0; j < width; j++) sum[j] = vm_log(sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++) y[i * step + j] = (x[i * step + j] - most[j]) - sum[j];
}

/* ---- both ---- */

static weft_status run(void *state, const kernel_call *c) {
    (void)state;
    const tensor_type *t = &c->in[0].type;
    bool is_log = c->node->op == &weft_op_log_softmax;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    int64_t axis = ((const softmax_attrs *)c->attrs)->axis, inner = 1;
    axis_resolve(&axis, t->ndim);
    for (int k = (int)axis + 1; k < t->ndim; k++) inner *= t->shape[k];
    int64_t n = t->shape[axis], outer = type_elements(t) / (n * inner), strips = (inner + STRIP - 1) / STRIP;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t k = 0; k < outer * strips; k++) {
        int64_t first = k % strips * STRIP, at = k / strips * n * inner + first;
        int width = inner - first < STRIP ? (int)(inner - first) : STRIP;
        if (inner == 1 && is_log)
            log_softmax_row(x + at, y + at, n);
        else if (inner == 1)
            softmax_row(x + at, y + at, n);
        else if (is_log)
            log_softmax_strip(x + at, y + at, n, inner, width);
        else
            softmax_strip(x + at, y + at, n, inner, width);
    }
    return WEFT_OK;
}

const weft_kernel SIMD(softmax) = {
    .name = SIMD_NAME, .op = &weft_op_softmax, .min_isa = SIMD_LEVEL, .declines = declines, .run = run};
const weft_kernel SIMD(log_softmax) = {
    .name = SIMD_NAME, .op = &weft_op_log_softmax, .min_isa = SIMD_LEVEL, .declines = declines, .run = run};
