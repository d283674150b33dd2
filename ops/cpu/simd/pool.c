/* pool.c - pooling of channels-last images of f32, bf16 or f16: vectors run along the channels. Forward, each
 * row of results is one piece of work; backward, each image (cut into blocks of channels when there are few
 * images). So no two threads write to one place, and the bits do not depend on the number of threads. bf16
 * and f16 are handled in blocks of channels as floats, pixel by pixel: forward in a buffer on the stack,
 * backward in a plane of the thread's workspace. */
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/image/pool.h"

#include <omp.h>
#include <string.h>

/* [N, H, W, C], the order in memory. */
typedef struct image {
    int64_t n, height, width, channels;
} image;

static image image_of(const tensor *t) {
    const int64_t *s = t->type.shape;
    return (image){s[0], s[2], s[3], s[1]};
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    if (!dtype_is_row(n->in[0]->type.dtype)) return "not f32, bf16 or f16";
    return n->in[0]->type.dtype != n->out[0].type.dtype ? "operand and result of two types" : NULL;
}

/* ---- maximum ---- */

/* Compares one element of the window with the best so far: a larger one wins, and so does a NaN, as in
 * PyTorch. */
static void max_step(const float *restrict x, int32_t place, float *restrict best, int32_t *restrict index,
                     int64_t channels) {
    for (int64_t j = 0; j < channels; j++) {
        bool wins = x[j] > best[j] || x[j] != x[j];
        best[j] = wins ? x[j] : best[j];
        index[j] = wins ? place : index[j];
    }
}

/* Channels that are handled together: forward of reduced types, backward of f32 with few images, backward of
 * reduced types. */
enum { FORWARD_BLOCK = 256, BLOCK = 64, REDUCED_BLOCK = 32 };

static int64_t forward_block(const tensor *x) {
    return x->type.dtype == WEFT_F32 ? x->type.shape[1] : FORWARD_BLOCK;
}

/* One window: rows y[0], y[0] + step, ... below y[1], columns k[0] to k[1] likewise, channels [0, width) from
 * element `at` of the image on. index gets the pixel of the maximum within the image. */
static void max_window(const tensor *x, const pool_attrs *a, int64_t at, const int64_t y[2],
                       const int64_t k[2], int64_t width, float *best, int32_t *index) {
    image in = image_of(x);
    float room[FORWARD_BLOCK];
    int32_t first = (int32_t)(y[0] * in.width + k[0]);
    reduced_load(best, x->data, x->type.dtype, at + first * in.channels, width);
    for (int64_t j = 0; j < width; j++) index[j] = first;
    for (int64_t i = y[0]; i < y[1]; i += pool_step(a, 0))
        for (int64_t column = k[0]; column < k[1]; column += pool_step(a, 1)) {
            int32_t place = (int32_t)(i * in.width + column);
            if (place == first) continue;
            const float *from = row_read(x, at + place * in.channels, width, room);
            max_step(from, place, best, index, width);
        }
}

/* Row `row` of image n: the values in out[0], the indices in out[1], both [N, OH, OW, C]. */
static void max_row(const kernel_call *c, int64_t n, int64_t row) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    image in = image_of(x), out = image_of(y);
    int64_t image_at = n * in.height * in.width * in.channels, rows[2], columns[2], block = forward_block(x);
    /* windows are cut at the image's edge: padding never wins */
    pool_window(c->attrs, 0, row, out.height, in.height, &rows[0], &rows[1]);
    for (int64_t column = 0; column < out.width; column++) {
        int64_t at = ((n * out.height + row) * out.width + column) * out.channels;
        pool_window(c->attrs, 1, column, out.width, in.width, &columns[0], &columns[1]);
        for (int64_t j = 0; j < in.channels; j += block) {
            int64_t width = in.channels - j < block ? in.channels - j : block;
            float room[FORWARD_BLOCK], *best = row_place(y, at + j, room);
            max_window(x, c->attrs, image_at + j, rows, columns, width, best,
                       (int32_t *)c->out[1].data + at + j);
            row_write(y, at + j, width, best);
        }
    }
}

static weft_status max_run(void *state, const kernel_call *c) {
    image out = image_of(&c->out[0]);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t row = 0; row < out.height; row++) max_row(c, n, row);
    return WEFT_OK;
}

/* ---- blocks of channels for the backward kernels ---- */

/* Channels [first, first + width) of the gradient of one image, to be added to; `step` floats from pixel to
 * pixel. */
typedef struct plane {
    float *data;
    int64_t step, first, width, pixels, at; /* at: element of the tensor where the image begins */
} plane;

/* Channels of a piece of work: the whole image when there are enough images. */
static int64_t block_channels(const tensor *dx, int threads) {
    image to = image_of(dx);
    return dx->type.dtype != WEFT_F32 ? REDUCED_BLOCK : to.n >= threads ? to.channels : BLOCK;
}

/* One plane for each thread, for results that are not f32. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    const tensor_type *t = &n->out[0].type;
    return (size_t)(env->threads * row_room(t->dtype, t->shape[2] * t->shape[3] * REDUCED_BLOCK)) *
           sizeof(float);
}

/* A plane of zeros: in the result itself for f32, else in the thread's workspace. */
static plane plane_of(const kernel_call *c, int64_t n, int64_t first, int64_t block) {
    const tensor *dx = &c->out[0];
    image to = image_of(dx);
    plane p = {.step = to.channels, .first = first, .pixels = to.height * to.width};
    p.width = first + block < to.channels ? block : to.channels - first;
    p.at = n * p.pixels * to.channels;
    if (dx->type.dtype == WEFT_F32) {
        p.data = (float *)dx->data + p.at + first;
    } else {
        p.data =
            (float *)c->workspace + omp_get_thread_num() * row_room(dx->type.dtype, p.pixels * REDUCED_BLOCK);
        p.step = p.width;
    }
    if (p.step == p.width)
        memset(p.data, 0, (size_t)(p.pixels * p.width) * sizeof *p.data);
    else
        for (int64_t i = 0; i < p.pixels; i++)
            memset(p.data + i * p.step, 0, (size_t)p.width * sizeof *p.data);
    return p;
}

/* Rounds a plane of the workspace into the result. */
static void plane_done(const kernel_call *c, const plane *p) {
    const tensor *dx = &c->out[0];
    int64_t channels = dx->type.shape[1];
    for (int64_t i = 0; dx->type.dtype != WEFT_F32 && i < p->pixels; i++)
        reduced_store(dx->data, dx->type.dtype, p->at + i * channels + p->first, p->data + i * p->step,
                      p->width);
}

/* ---- gradient of the maximum ---- */

/* Adds dy into a plane of image n. Returns false when an index is outside of the plane. */
static bool scatter(const kernel_call *c, int64_t n, const plane *p) {
    const tensor *dy = &c->in[0];
    image from = image_of(dy);
    int64_t pixels = from.height * from.width, at = n * pixels * from.channels + p->first;
    const int32_t *index = (const int32_t *)c->in[1].data + at;
    float room[REDUCED_BLOCK];
    for (int64_t i = 0; i < pixels; i++, at += from.channels, index += from.channels) {
        const float *dyi = row_read(dy, at, p->width, room);
        for (int64_t j = 0; j < p->width; j++) {
            if (index[j] < 0 || index[j] >= p->pixels) return false;
            p->data[index[j] * p->step + j] += dyi[j];
        }
    }
    return true;
}

/* dy and indices [N, OH, OW, C] -> dx [N, H, W, C]. */
static weft_status max_backward_run(void *state, const kernel_call *c) {
    image to = image_of(&c->out[0]);
    int64_t block = block_channels(&c->out[0], c->threads);
    int wrong = 0;
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2) reduction(| : wrong)
    for (int64_t n = 0; n < to.n; n++)
        for (int64_t j = 0; j < to.channels; j += block) {
            plane p = plane_of(c, n, j, block);
            wrong |= !scatter(c, n, &p);
            plane_done(c, &p);
        }
    return wrong ? kernel_fail(c, "max_pool2d_backward: an index is outside the plane") : WEFT_OK;
}

/* ---- gradient of that: elements by index ---- */

/* Row `row` of y and the indices, both [N, OH, OW, C]; false when an index is outside of the plane. */
static bool gather_row(const kernel_call *c, int64_t n, int64_t row) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    image in = image_of(x), out = image_of(y);
    int64_t pixels = in.height * in.width, from = n * pixels * in.channels;
    int64_t first = (n * out.height + row) * out.width * out.channels, count = out.width * out.channels;
    const int32_t *index = (const int32_t *)c->in[1].data + first;
    bool is_f32 = x->type.dtype == WEFT_F32; /* else 16 bits, which are copied as they are */
    for (int64_t i = 0, j = 0; i < count; i++, j = j + 1 < in.channels ? j + 1 : 0) {
        if (index[i] < 0 || index[i] >= pixels) return false;
        int64_t at = from + index[i] * in.channels + j;
        if (is_f32)
            ((float *)y->data)[first + i] = ((const float *)x->data)[at];
        else
            ((uint16_t *)y->data)[first + i] = ((const uint16_t *)x->data)[at];
    }
    return true;
}

static weft_status gather_run(void *state, const kernel_call *c) {
    image out = image_of(&c->out[0]);
    int wrong = 0;
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2) reduction(| : wrong)
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t row = 0; row < out.height; row++) wrong |= !gather_row(c, n, row);
    return wrong ? kernel_fail(c, "max_pool2d_gather: an index is outside the plane") : WEFT_OK;
}

/* ---- averages: sliding and adaptive ---- */

/* y = the sum over a window's pixels of `width` channels, from element `at` of the image on. */
static void window_sum(const tensor *x, int64_t at, const int64_t begin[2], const int64_t end[2],
                       const int64_t step[2], int64_t width, float *y) {
    image in = image_of(x);
    float room[FORWARD_BLOCK];
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t i = begin[0]; i < end[0]; i += step[0])
        for (int64_t k = begin[1]; k < end[1]; k += step[1]) {
            int64_t pixel = at + (i * in.width + k) * in.channels;
            const float *from = row_read(x, pixel, width, room);
            for (int64_t j = 0; j < width; j++) y[j] += from[j];
        }
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The same for a window with more pixels than a block (sums.h), BLOCK channels at most: parts of at most
 * SUM_ROWS pixels in f32, their sums in f64. */
static void long_window_sum(const tensor *x, int64_t at, const pool_cell *cell, int64_t width, float *y) {
    double total[BLOCK] = {0};
    int64_t across = least((cell->end[1] - cell->begin[1] + cell->step[1] - 1) / cell->step[1], SUM_ROWS);
    int64_t down = SUM_ROWS / across * cell->step[0];
    across *= cell->step[1];
    for (int64_t i = cell->begin[0]; i < cell->end[0]; i += down)
        for (int64_t k = cell->begin[1]; k < cell->end[1]; k += across) {
            int64_t end[2] = {least(i + down, cell->end[0]), least(k + across, cell->end[1])};
            window_sum(x, at, (int64_t[]){i, k}, end, cell->step, width, y);
            for (int64_t j = 0; j < width; j++) total[j] += y[j];
        }
    for (int64_t j = 0; j < width; j++) y[j] = (float)total[j];
}

/* The mean of one window for `width` channels, from element `at` of the image on. */
static void average_window(const tensor *x, int64_t at, const pool_cell *cell, int64_t width, float *y) {
    /* a multiplication for each channel in place of a division */
    float factor = (float)(1.0 / cell->divisor);
    if ((cell->end[0] - cell->begin[0]) * (cell->end[1] - cell->begin[1]) <= SUM_ROWS)
        window_sum(x, at, cell->begin, cell->end, cell->step, width, y);
    else
        for (int64_t j = 0; j < width; j += BLOCK)
            long_window_sum(x, at + j, cell, least(width - j, BLOCK), y + j);
    for (int64_t j = 0; j < width; j++) y[j] *= factor;
}

/* Row `row` of image n, channel block by channel block. */
static void average_row(const kernel_call *c, int64_t n, int64_t row) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    image in = image_of(x), out = image_of(y);
    int64_t image_at = n * in.height * in.width * in.channels, block = forward_block(x);
    for (int64_t column = 0; column < out.width; column++) {
        int64_t at = ((n * out.height + row) * out.width + column) * out.channels;
        pool_cell cell = pool_cell_at(c->attrs, &x->type, &y->type, row, column);
        for (int64_t j = 0; j < in.channels; j += block) {
            int64_t width = in.channels - j < block ? in.channels - j : block;
            float room[FORWARD_BLOCK], *sums = row_place(y, at + j, room);
            average_window(x, image_at + j, &cell, width, sums);
            row_write(y, at + j, width, sums);
        }
    }
}

static weft_status average_run(void *state, const kernel_call *c) {
    image out = image_of(&c->out[0]);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t row = 0; row < out.height; row++) average_row(c, n, row);
    return WEFT_OK;
}

/* Adds dy / divisor to every pixel of each window, windows in row-major order. */
static void spread_gradient(const kernel_call *c, int64_t n, const plane *p) {
    const tensor *dy = &c->in[0];
    image from = image_of(dy), to = image_of(&c->out[0]);
    int64_t at = n * from.height * from.width * from.channels + p->first;
    float room[REDUCED_BLOCK];
    for (int64_t i = 0; i < from.height * from.width; i++, at += from.channels) {
        pool_cell cell =
            pool_cell_at(c->attrs, &c->out[0].type, &c->in[0].type, i / from.width, i % from.width);
        float factor = (float)(1.0 / cell.divisor);
        const float *dyi = row_read(dy, at, p->width, room);
        for (int64_t y = cell.begin[0]; y < cell.end[0]; y += cell.step[0])
            for (int64_t x = cell.begin[1]; x < cell.end[1]; x += cell.step[1]) {
                float *restrict into = p->data + (y * to.width + x) * p->step;
                for (int64_t j = 0; j < p->width; j++) into[j] += dyi[j] * factor;
            }
    }
}

/* dy [N, OH, OW, C] -> dx [N, H, W, C]; an image, or a block of its channels, is one task. */
static weft_status average_backward_run(void *state, const kernel_call *c) {
    image to = image_of(&c->out[0]);
    int64_t block = block_channels(&c->out[0], c->threads);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < to.n; n++)
        for (int64_t j = 0; j < to.channels; j += block) {
            plane p = plane_of(c, n, j, block);
            spread_gradient(c, n, &p);
            plane_done(c, &p);
        }
    return WEFT_OK;
}

/* ---- the kernels ---- */

SIMD_KERNEL(max_pool2d, .declines = declines, .run = max_run);
SIMD_KERNEL(adaptive_max_pool2d, .declines = declines, .run = max_run);
SIMD_KERNEL(max_pool2d_backward, .declines = declines, .workspace = backward_workspace,
            .run = max_backward_run);
SIMD_KERNEL(max_pool2d_gather, .declines = declines, .run = gather_run);
SIMD_KERNEL(avg_pool2d, .declines = declines, .run = average_run);
SIMD_KERNEL(avg_pool2d_backward, .declines = declines, .workspace = backward_workspace,
            .run = average_backward_run);
SIMD_KERNEL(adaptive_avg_pool2d, .declines = declines, .run = average_run);
SIMD_KERNEL(adaptive_avg_pool2d_backward, .declines = declines, .workspace = backward_workspace,
            .run = average_backward_run);
