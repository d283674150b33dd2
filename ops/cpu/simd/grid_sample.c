/* grid_sample.c - grid_sample and its gradient by x on channels-last images and volumes of f32: vectors run
 * along the channels. Forward, threads share the places; backward, the images, or blocks of their channels,
 * so that no two threads write to one place, and the bits do not depend on the number of threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/image/grid_sample.h"

#include <string.h>

enum { BLOCK = 64 };

/* Lengths of x: depth (1 of an image), height, width, channels; places of the grid for each image. */
typedef struct sizes {
    int64_t n, length[3], channels, places, pixels;
} sizes;

static sizes sizes_of(const tensor_type *x, const tensor_type *grid) {
    sizes s = {x->shape[0], {1, 1, 1}, x->shape[1], 1, 1};
    for (int i = 2; i < x->ndim; i++) {
        s.length[3 - x->ndim + i] = x->shape[i];
        s.pixels *= x->shape[i];
        s.places *= grid->shape[i - 1];
    }
    return s;
}

static void axes_of(const kernel_call *c, const sizes *s, int64_t place, int axes, grid_axis axis[3]) {
    const float *p = (const float *)c->in[1].data + place * axes;
    axis[0] = (grid_axis){1, {0}, {1}};
    for (int k = 0; k < axes; k++) axis[2 - k] = grid_axis_of(c->attrs, k, p[k], s->length[2 - k]);
}

/* Taps of a place: pixels of the image and weights; returns how many there are. */
enum { MOST_TAPS = GRID_TAPS * GRID_TAPS * GRID_TAPS };
static int taps_of(const kernel_call *c, const sizes *s, int64_t place, int axes, int64_t *pixel,
                   float *weight) {
    grid_axis axis[3];
    int n = 0;
    axes_of(c, s, place, axes, axis);
    for (int d = 0; d < axis[0].n; d++)
        for (int i = 0; i < axis[1].n; i++)
            for (int j = 0; j < axis[2].n; j++) {
                double w = axis[0].weight[d] * axis[1].weight[i] * axis[2].weight[j];
                if (axis[0].at[d] < 0 || axis[1].at[i] < 0 || axis[2].at[j] < 0 || w == 0) continue;
                pixel[n] = (axis[0].at[d] * s->length[1] + axis[1].at[i]) * s->length[2] + axis[2].at[j];
                weight[n++] = (float)w;
            }
    return n;
}

static void add(float *restrict y, const float *restrict x, float factor, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] += factor * x[j];
}

static void one_place(const kernel_call *c, const sizes *s, int64_t place, int axes) {
    int64_t pixel[MOST_TAPS];
    float weight[MOST_TAPS], *y = (float *)c->out[0].data + place * s->channels;
    const float *x = (const float *)c->in[0].data + place / s->places * s->pixels * s->channels;
    int n = taps_of(c, s, place, axes, pixel, weight);
    memset(y, 0, (size_t)s->channels * sizeof *y);
    for (int i = 0; i < n; i++) add(y, x + pixel[i] * s->channels, weight[i], s->channels);
}

static weft_status run(void *state, const kernel_call *c) {
    int axes = c->in[0].type.ndim - 2;
    sizes s = sizes_of(&c->in[0].type, &c->in[1].type);
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t place = 0; place < s.n * s.places; place++) one_place(c, &s, place, axes);
    return WEFT_OK;
}

/* Channels [first, first + width) of the gradient of image n. */
static void spread_places(const kernel_call *c, const sizes *s, int64_t n, int64_t first, int64_t width,
                          int axes) {
    int64_t pixel[MOST_TAPS];
    float weight[MOST_TAPS], *dx = (float *)c->out[0].data + n * s->pixels * s->channels + first;
    for (int64_t i = 0; i < s->pixels; i++) memset(dx + i * s->channels, 0, (size_t)width * sizeof *dx);
    for (int64_t place = n * s->places; place < (n + 1) * s->places; place++) {
        const float *dy = (const float *)c->in[0].data + place * s->channels + first;
        int taps = taps_of(c, s, place, axes, pixel, weight);
        for (int i = 0; i < taps; i++) add(dx + pixel[i] * s->channels, dy, weight[i], width);
    }
}

static weft_status backward_run(void *state, const kernel_call *c) {
    int axes = c->out[0].type.ndim - 2;
    sizes s = sizes_of(&c->out[0].type, &c->in[1].type);
    int64_t block = s.n >= c->threads ? s.channels : BLOCK;
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2) if (c->threads > 1)
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t j = 0; j < s.channels; j += block)
            spread_places(c, &s, n, j, s.channels - j < block ? s.channels - j : block, axes);
    return WEFT_OK;
}

SIMD_KERNEL(grid_sample, .declines = declines_all_but_f32, .run = run);
SIMD_KERNEL(grid_sample_backward, .declines = declines_all_but_f32, .run = backward_run);
