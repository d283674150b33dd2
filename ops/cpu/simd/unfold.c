/* unfold.c - unfold and fold in f32: threads share the planes [H, W]; a row of the window's places is a copy,
 * or a sum, along a row of the image. */
#include "ops/cpu/simd/simd.h"
#include "ops/image/unfold.h"

#include <string.h>

/* One plane of an image beside its columns, [kh kw, h w]. */
typedef struct planes {
    const unfold_attrs *attrs;
    int64_t height, width, down, across, window, n;
} planes;

static planes planes_of(const kernel_call *c, const tensor_type *image) {
    const unfold_attrs *a = c->attrs;
    return (planes){a,
                    image->shape[2],
                    image->shape[3],
                    unfold_count(a, 0, image->shape[2]),
                    unfold_count(a, 1, image->shape[3]),
                    a->kernel.v[0] * a->kernel.v[1],
                    image->shape[0] * image->shape[1]};
}

/* Places [begin, end) along the row that element j of the window has inside the image. */
static void inside(const planes *p, int64_t j, int64_t *begin, int64_t *end) {
    int64_t stride = p->attrs->stride.v[1], first = unfold_at(p->attrs, 1, 0, j);
    *begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
    *end = first < p->width ? (p->width - 1 - first) / stride + 1 : 0;
    if (*end > p->across) *end = p->across;
    if (*begin > *end) *begin = *end;
}

static void unfold_row(const float *x, float *y, int64_t stride, int64_t n) {
    if (stride == 1)
        memcpy(y, x, (size_t)n * sizeof *y);
    else
        for (int64_t i = 0; i < n; i++) y[i] = x[i * stride];
}

/* Element k of the window in all places. */
static void unfold_line(const planes *p, int64_t k, const float *x, float *y) {
    int64_t i = k / p->attrs->kernel.v[1], j = k % p->attrs->kernel.v[1], begin, end;
    inside(p, j, &begin, &end);
    for (int64_t r = 0; r < p->down; r++, y += p->across) {
        int64_t row = unfold_at(p->attrs, 0, r, i), from = unfold_at(p->attrs, 1, begin, j);
        bool is_outside = row < 0 || row >= p->height || begin == end;
        if (is_outside || begin > 0 || end < p->across) memset(y, 0, (size_t)p->across * sizeof *y);
        if (!is_outside) unfold_row(x + row * p->width + from, y + begin, p->attrs->stride.v[1], end - begin);
    }
}

static weft_status unfold_run(void *state, const kernel_call *c) {
    planes p = planes_of(c, &c->in[0].type);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t line = 0; line < p.n * p.window; line++)
        unfold_line(&p, line % p.window, x + line / p.window * p.height * p.width,
                    y + line * p.down * p.across);
    return WEFT_OK;
}

static void fold_row(const float *restrict x, float *restrict y, int64_t stride, int64_t n) {
    if (stride == 1)
        for (int64_t i = 0; i < n; i++) y[i] += x[i];
    else
        for (int64_t i = 0; i < n; i++) y[i * stride] += x[i];
}

static void fold_line(const planes *p, int64_t k, const float *x, float *y) {
    int64_t i = k / p->attrs->kernel.v[1], j = k % p->attrs->kernel.v[1], begin, end;
    inside(p, j, &begin, &end);
    for (int64_t r = 0; r < p->down; r++, x += p->across) {
        int64_t row = unfold_at(p->attrs, 0, r, i), to = unfold_at(p->attrs, 1, begin, j);
        if (row >= 0 && row < p->height && begin < end)
            fold_row(x + begin, y + row * p->width + to, p->attrs->stride.v[1], end - begin);
    }
}

static weft_status fold_run(void *state, const kernel_call *c) {
    planes p = planes_of(c, &c->out[0].type);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t n = 0; n < p.n; n++) {
        float *to = y + n * p.height * p.width;
        memset(to, 0, (size_t)(p.height * p.width) * sizeof *to);
        for (int64_t k = 0; k < p.window; k++)
            fold_line(&p, k, x + (n * p.window + k) * p.down * p.across, to);
    }
    return WEFT_OK;
}

SIMD_KERNEL(unfold, .declines = declines_all_but_f32, .run = unfold_run);
SIMD_KERNEL(fold, .declines = declines_all_but_f32, .run = fold_run);
