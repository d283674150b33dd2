/* scan.c - cumsum, cumprod and recurrence in f32 (ops/reduce/scan.h); the state is f64. Along the last axis
 * a line is a row; along another one a strip of neighbouring lines runs at once, which is vector code.
 * Threads share the lines, and each line is computed from its first step to its last, so the bits do not
 * depend on them. */
#include "ops/cpu/simd/simd.h"
#include "ops/reduce/scan.h"

enum { STRIP = 128 /* lines side by side: their state stays in registers and the first cache */ };

/* One line, or `width` neighbours: a (factors) and b (what is added) begin at its first element in memory;
 * `step` is from one place of the axis to the next. */
#define SCAN(name, start, formula)                                                                           \
    static void name##_row(const scan_lines *l, const float *a, const float *b, float *y) {                  \
        double h = start;                                                                                    \
        for (int64_t k = 0; k < l->n; k++) {                                                                 \
            int64_t i = l->reverse ? l->n - 1 - k : k;                                                       \
            double before = h;                                                                               \
            h = formula(a[i], b[i], h);                                                                      \
            y[i] = (float)(l->exclusive ? before : h);                                                       \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_strip(const scan_lines *l, const float *a, const float *b, float *y, int64_t width) { \
        double h[STRIP];                                                                                     \
        for (int64_t j = 0; j < width; j++) h[j] = start;                                                    \
        for (int64_t k = 0; k < l->n; k++) {                                                                 \
            int64_t at = (l->reverse ? l->n - 1 - k : k) * l->inner;                                         \
            if (l->exclusive)                                                                                \
                for (int64_t j = 0; j < width; j++) y[at + j] = (float)h[j];                                 \
            for (int64_t j = 0; j < width; j++) h[j] = formula(a[at + j], b[at + j], h[j]);                  \
            if (!l->exclusive)                                                                               \
                for (int64_t j = 0; j < width; j++) y[at + j] = (float)h[j];                                 \
        }                                                                                                    \
    }
#define ADDED(a, b, h)      ((h) + (b))
#define MULTIPLIED(a, b, h) ((h) * (a))
#define STEPPED(a, b, h)    ((a) * (h) + (b))
SCAN(sum, 0, ADDED)
SCAN(product, 1, MULTIPLIED)
SCAN(linear, 0, STEPPED)

static const struct {
    void (*row)(const scan_lines *l, const float *a, const float *b, float *y);
    void (*strip)(const scan_lines *l, const float *a, const float *b, float *y, int64_t width);
} loops[] = {[SCAN_SUM] = {sum_row, sum_strip},
             [SCAN_PROD] = {product_row, product_strip},
             [SCAN_LINEAR] = {linear_row, linear_strip}};

static weft_status run(void *state, const kernel_call *c) {
    scan_lines l = scan_lines_of(c->node);
    int64_t strips = (l.inner + STRIP - 1) / STRIP, tasks = l.outer * strips;
    const float *a = c->in[0].data, *b = c->in[c->n_in - 1].data;
    float *y = c->out[0].data;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t % strips * STRIP, at = t / strips * l.n * l.inner + first;
        int64_t width = l.inner - first < STRIP ? l.inner - first : STRIP;
        if (l.inner == 1)
            loops[l.kind].row(&l, a + at, b + at, y + at);
        else
            loops[l.kind].strip(&l, a + at, b + at, y + at, width);
    }
    return WEFT_OK;
}

SIMD_KERNEL(cumsum, .declines = declines_all_but_f32, .run = run);
SIMD_KERNEL(cumprod, .declines = declines_all_but_f32, .run = run);
SIMD_KERNEL(recurrence, .declines = declines_all_but_f32, .run = run);
