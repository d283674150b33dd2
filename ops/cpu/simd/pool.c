/* pool.c - pooling of channels-last f32 images: vectors run along the channels. Forward, each row of results
 * is one piece of work; backward, each image (cut into blocks of channels when there are few images), so that
 * no two threads write one place and the bits do not depend on their number.
 */
#include "ops/cpu/simd/simd.h"
#include "ops/pool.h"

#include <string.h>

/* [N, H, W, C] in memory */
typedef struct image {
    int64_t n, height, width, channels;
} image;

static image image_of(const tensor *t) {
    const int64_t *s = t->type.shape;
    return (image){s[0], s[2], s[3], s[1]};
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    if (n->in[0]->type.dtype != WEFT_F32) return "not f32";
    for (int i = 0; i < n->n_in; i++)
        if (!lies_channels_last(n->in[i])) return "operands must be channels-last";
    for (int k = 0; k < n->n_out; k++)
        if (!lies_channels_last(&n->out[k])) return "results must be channels-last";
    return NULL;
}

/* ---- maximum ---- */

/* One element of the window against the best so far: a larger one wins, and so does a NaN, as in PyTorch. */
static void max_step(const float *restrict x, int32_t place, float *restrict best, int32_t *restrict index,
                     int64_t channels) {
    for (int64_t j = 0; j < channels; j++) {
        bool wins = x[j] > best[j] || x[j] != x[j];
        best[j] = wins ? x[j] : best[j];
        index[j] = wins ? place : index[j];
    }
}

static void max_row(const kernel_call *c, int64_t n, int64_t row) {
    image in = image_of(&c->in[0]), out = image_of(&c->out[0]);
    const float *x = (const float *)c->in[0].data + n * in.height * in.width * in.channels;
    int64_t at = (n * out.height + row) * out.width * out.channels, y0, y1, x0, x1;
    float *best = (float *)c->out[0].data + at;
    int32_t *index = (int32_t *)c->out[1].data + at;
    pool_window(c->attrs, 0, row, in.height, &y0, &y1);
    for (int64_t column = 0; column < out.width; column++, best += out.channels, index += out.channels) {
        pool_window(c->attrs, 1, column, in.width, &x0, &x1);
        int32_t first = (int32_t)(y0 * in.width + x0);
        memcpy(best, x + first * in.channels, (size_t)in.channels * sizeof *best);
        for (int64_t j = 0; j < in.channels; j++) index[j] = first;
        for (int64_t i = y0; i < y1; i++)
            for (int64_t k = x0; k < x1; k++) {
                int32_t place = (int32_t)(i * in.width + k);
                if (place != first) max_step(x + place * in.channels, place, best, index, in.channels);
            }
    }
}

static weft_status max_run(void *state, const kernel_call *c) {
    (void)state;
    image out = image_of(&c->out[0]);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t row = 0; row < out.height; row++) max_row(c, n, row);
    return WEFT_OK;
}

/* ---- blocks of channels for the backward kernels ---- */

enum { BLOCK = 64 };

static int64_t block_channels(const kernel_call *c, image to) {
    return to.n >= c->threads ? to.channels : BLOCK;
}

static void clear(float *y, image to, int64_t width) {
    if (width == to.channels) {
        memset(y, 0, (size_t)(to.height * to.width * to.channels) * sizeof *y);
        return;
    }
    for (int64_t i = 0; i < to.height * to.width; i++)
        memset(y + i * to.channels, 0, (size_t)width * sizeof *y);
}

/* ---- gradient of the maximum ---- */

/* Channels [first, first + width) of image n; false when an index is outside of the plane. */
static bool scatter(const kernel_call *c, int64_t n, int64_t first, int64_t width) {
    image from = image_of(&c->in[0]), to = image_of(&c->out[0]);
    int64_t pixels = from.height * from.width, plane = to.height * to.width,
            at = n * pixels * from.channels + first;
    const float *dy = (const float *)c->in[0].data + at;
    const int32_t *index = (const int32_t *)c->in[1].data + at;
    float *dx = (float *)c->out[0].data + n * plane * to.channels + first;
    clear(dx, to, width);
    for (int64_t i = 0; i < pixels; i++, dy += from.channels, index += from.channels)
        for (int64_t j = 0; j < width; j++) {
            if (index[j] < 0 || index[j] >= plane) return false;
            dx[index[j] * to.channels + j] += dy[j];
        }
    return true;
}

static weft_status max_backward_run(void *state, const kernel_call *c) {
    (void)state;
    image to = image_of(&c->out[0]);
    int64_t width = block_channels(c, to);
    int wrong = 0;
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2) reduction(| : wrong)
    for (int64_t n = 0; n < to.n; n++)
        for (int64_t j = 0; j < to.channels; j += width)
            wrong |= !scatter(c, n, j, j + width < to.channels ? width : to.channels - j);
    return wrong ? kernel_fail(c, "max_pool2d_backward: an index is outside of the plane") : WEFT_OK;
}

/* ---- averages: sliding and adaptive ---- */

static void average_row(const kernel_call *c, int64_t n, int64_t row) {
    image in = image_of(&c->in[0]), out = image_of(&c->out[0]);
    const float *x = (const float *)c->in[0].data + n * in.height * in.width * in.channels;
    float *y = (float *)c->out[0].data + (n * out.height + row) * out.width * out.channels;
    for (int64_t column = 0; column < out.width; column++, y += out.channels) {
        pool_cell cell = pool_cell_at(c->attrs, &c->in[0].type, &c->out[0].type, row, column);
        float factor = (float)(1.0 / cell.divisor);
        memset(y, 0, (size_t)out.channels * sizeof *y);
        for (int64_t i = cell.begin[0]; i < cell.end[0]; i++)
            for (int64_t k = cell.begin[1]; k < cell.end[1]; k++) {
                const float *from = x + (i * in.width + k) * in.channels;
                for (int64_t j = 0; j < in.channels; j++) y[j] += from[j];
            }
        for (int64_t j = 0; j < out.channels; j++) y[j] *= factor;
    }
}

static weft_status average_run(void *state, const kernel_call *c) {
    (void)state;
    image out = image_of(&c->out[0]);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t row = 0; row < out.height; row++) average_row(c, n, row);
    return WEFT_OK;
}

static void spread(const kernel_call *c, int64_t n, int64_t first, int64_t width) {
    image from = image_of(&c->in[0]), to = image_of(&c->out[0]);
    const float *dy = (const float *)c->in[0].data + n * from.height * from.width * from.channels + first;
    float *dx = (float *)c->out[0].data + n * to.height * to.width * to.channels + first;
    clear(dx, to, width);
    for (int64_t p = 0; p < from.height * from.width; p++, dy += from.channels) {
        pool_cell cell =
            pool_cell_at(c->attrs, &c->out[0].type, &c->in[0].type, p / from.width, p % from.width);
        float factor = (float)(1.0 / cell.divisor);
        for (int64_t i = cell.begin[0]; i < cell.end[0]; i++)
            for (int64_t k = cell.begin[1]; k < cell.end[1]; k++) {
                float *restrict into = dx + (i * to.width + k) * to.channels;
                for (int64_t j = 0; j < width; j++) into[j] += dy[j] * factor;
            }
    }
}

static weft_status average_backward_run(void *state, const kernel_call *c) {
    (void)state;
    image to = image_of(&c->out[0]);
    int64_t width = block_channels(c, to);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < to.n; n++)
        for (int64_t j = 0; j < to.channels; j += width)
            spread(c, n, j, j + width < to.channels ? width : to.channels - j);
    return WEFT_OK;
}

/* ---- the kernels ---- */

#define POOL_KERNEL(of, does)                                                                                \
    const weft_kernel SIMD(of) = {                                                                           \
        .name = SIMD_NAME, .op = &weft_op_##of, .min_isa = SIMD_LEVEL, .declines = declines, .run = does}
POOL_KERNEL(max_pool2d, max_run);
POOL_KERNEL(max_pool2d_backward, max_backward_run);
POOL_KERNEL(avg_pool2d, average_run);
POOL_KERNEL(avg_pool2d_backward, average_backward_run);
POOL_KERNEL(adaptive_avg_pool2d, average_run);
POOL_KERNEL(adaptive_avg_pool2d_backward, average_backward_run);
