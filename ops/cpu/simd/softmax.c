/* softmax.c - softmax and log_softmax in f32 (x and y may be bf16 or f16). Along the last axis each line is a
 * row; along another axis a strip of neighbouring lines runs at once, so that loads stay contiguous. Each
 * line is computed by one thread in a fixed order. */
#include "ops/cpu/simd/exp_sum.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/norm_loss/norm.h"

#include <omp.h>

enum { STRIP = 64 }; /* lines side by side: their maxima and sums stay in the first cache */

/* ---- along the last axis ---- */

/* y = e^(x - max) / sum; the exponentials are computed once, in y. */
static void softmax_row(const float *restrict x, float *restrict y, int64_t n) {
    float most = row_max(x, n);
    float factor = 1.0f / (float)exp_sum(x, y, n, most);
    for (int64_t i = 0; i < n; i++) y[i] *= factor;
}

/* y = (x - max) - log(sum): log(sum) is kept apart from max, since their sum would round away what x - max
 * kept. */
static void log_softmax_row(const float *restrict x, float *restrict y, int64_t n) {
    float most = row_max(x, n);
    float rest = vm_log((float)exp_sum(x, NULL, n, most));
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - most) - rest;
}

/* ---- along another axis: `width` neighbours, `step` elements from one place of the axis to the next ---- */

/* The maximum and the sum of e^(x - max) of each line, the sum in blocks of SUM_ROWS (sums.h). */
static void strip_sums(const float *restrict x, int64_t n, int64_t step, int width, float most[STRIP],
                       float sum[STRIP]) {
    double total[STRIP] = {0};
    for (int j = 0; j < width; j++) most[j] = x[j];
    for (int64_t i = 1; i < n; i++)
        for (int j = 0; j < width; j++) most[j] = x[i * step + j] > most[j] ? x[i * step + j] : most[j];
    for (int64_t begin = 0; begin < n; begin += SUM_ROWS) {
        int64_t end = n - begin < SUM_ROWS ? n : begin + SUM_ROWS;
        for (int j = 0; j < width; j++) sum[j] = 0;
        for (int64_t i = begin; i < end; i++)
            for (int j = 0; j < width; j++) sum[j] += vm_exp(x[i * step + j] - most[j]);
        for (int j = 0; j < width; j++) total[j] += sum[j];
    }
    for (int j = 0; j < width; j++) sum[j] = (float)total[j];
}

/* Computes the exponentials a second time rather than store them in y and read them again. */
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

typedef struct lines {
    int64_t n, inner;      /* places along the axis; elements from one place to the next */
    int64_t outer, strips; /* products of the axes before it; strips in `inner` */
} lines;

/* x as [outer, n, inner], where n is the axis of the softmax. */
static lines lines_of(const weft_node *node) {
    const tensor_type *t = &node->in[0]->type;
    int64_t axis = ((const softmax_attrs *)node->attrs)->axis;
    lines l = {.inner = 1};
    axis_resolve(&axis, t->ndim);
    for (int k = (int)axis + 1; k < t->ndim; k++) l.inner *= t->shape[k];
    l.n = t->shape[axis];
    l.outer = type_elements(t) / (l.n * l.inner);
    l.strips = (l.inner + STRIP - 1) / STRIP;
    return l;
}

/* Floats of the room in which a strip of lines is converted, where they are not f32. */
static int64_t room_of(const lines *l, weft_dtype dtype) {
    return row_room(dtype, l->n * (l->inner < STRIP ? l->inner : STRIP));
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    lines l = lines_of(n);
    int64_t room = room_of(&l, n->in[0]->type.dtype) + room_of(&l, n->out[0].type.dtype);
    return (size_t)(env->threads * room) * sizeof(float);
}

/* A row when the axis is the last one, else a strip of `width` lines. */
static void strip_run(bool is_log, const float *x, float *y, int64_t n, int64_t step, int width) {
    if (step == 1 && is_log)
        log_softmax_row(x, y, n);
    else if (step == 1)
        softmax_row(x, y, n);
    else if (is_log)
        log_softmax_strip(x, y, n, step, width);
    else
        softmax_strip(x, y, n, step, width);
}

/* The strip at element `at`, converted in `own`, where its places are `width` floats apart. */
static void reduced_strip_run(const kernel_call *c, const lines *l, bool is_log, int64_t at, int width,
                              float *own) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    float *result = own + room_of(l, WEFT_BF16); /* both tensors are reduced, so their rooms have one size */
    for (int64_t i = 0; i < l->n; i++)
        reduced_load(own + i * width, x->data, x->type.dtype, at + i * l->inner, width);
    strip_run(is_log, own, result, l->n, width, width);
    for (int64_t i = 0; i < l->n; i++)
        reduced_store(y->data, y->type.dtype, at + i * l->inner, result + i * width, width);
}

/* A task is one strip of lines, or one row when the axis is the last. */
static weft_status run(void *state, const kernel_call *c) {
    bool is_log = c->node->op == &weft_op_log_softmax, is_f32 = c->in[0].type.dtype == WEFT_F32;
    lines l = lines_of(c->node);
    int64_t room = 2 * room_of(&l, c->in[0].type.dtype);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t k = 0; k < l.outer * l.strips; k++) {
        /* strip k: its outer index, and its first line within `inner` */
        int64_t first = k % l.strips * STRIP, at = k / l.strips * l.n * l.inner + first;
        int width = l.inner - first < STRIP ? (int)(l.inner - first) : STRIP;
        const float *x = (const float *)c->in[0].data + at;
        if (is_f32)
            strip_run(is_log, x, (float *)c->out[0].data + at, l.n, l.inner, width);
        else
            reduced_strip_run(c, &l, is_log, at, width, (float *)c->workspace + omp_get_thread_num() * room);
    }
    return WEFT_OK;
}

SIMD_KERNEL(softmax, .declines = declines_rows, .workspace = workspace, .run = run);
SIMD_KERNEL(log_softmax, .declines = declines_rows, .workspace = workspace, .run = run);
