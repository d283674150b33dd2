/* interpolate.c - interpolate and its gradient on channels-last images of f32, bf16 or f16. Along each axis
 * both are a sparse matrix: an element of the result is a weighted sum of a range of the operand. A table for
 * each axis is made first; then each row of results is one piece of work, and vectors run along the channels,
 * in blocks. Each result is written by one thread, in a fixed order, so the bits do not depend on threads. */
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/image/interpolate.h"

enum { BLOCK = 256 };

/* Which elements of the operand one element of the result reads: begin <= k < end. */
typedef struct range {
    int32_t begin, end;
} range;

/* One axis: for each element of y the elements of x that it reads, and their weights, `most` places for each;
 * for each element of the result a range of the operand. */
typedef struct table {
    float *weights;
    range *spans, *ranges;
    int64_t most;
    bool is_backward;
} table;

static const char *declines(const weft_node *n, const kernel_env *env) {
    if (!dtype_is_row(n->in[0]->type.dtype)) return "not f32, bf16 or f16";
    for (int i = 2; i < 4; i++)
        if (n->in[0]->type.shape[i] > INT32_MAX - 1 || n->out[0].type.shape[i] > INT32_MAX - 1)
            return "an axis of 2^31 elements or more";
    return n->in[0]->type.dtype != n->out[0].type.dtype ? "operand and result of two types" : NULL;
}

static bool is_backward(const weft_node *n) {
    return n->op == &weft_op_interpolate_backward;
}

/* Axis i of x and y, which is the operand of the backward op. */
static interpolate_axis axis_of(const weft_node *n, int i) {
    const tensor_type *in = &n->in[0]->type, *out = &n->out[0].type;
    return interpolate_axis_of(n->attrs, i, is_backward(n) ? out : in, is_backward(n) ? in : out);
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        interpolate_axis axis = axis_of(n, i);
        size_t one = sizeof(range) + (size_t)interpolate_most(&axis) * sizeof(float);
        bytes += (size_t)axis.out * one + (size_t)n->out[0].type.shape[2 + i] * sizeof(range);
    }
    return bytes;
}

/* Weights of two are 1 - w and w for a w in f32. */
static void fill_weights(const interpolate_axis *axis, const interpolate_span *s, float *weights) {
    int64_t n = s->end - s->begin;
    for (int64_t k = 0; k < n; k++) weights[k] = (float)interpolate_weight(axis, s, s->begin + k);
    if (axis->mode == WEFT_INTERPOLATE_BILINEAR && !axis->antialias && n == 2) weights[0] = 1 - weights[1];
}

static void forward_ranges(const interpolate_axis *axis, const table *t) {
    for (int64_t i = 0; i < axis->out; i++) t->ranges[i] = t->spans[i];
}

/* Element k of x is read by those elements of y whose spans hold it. Both ends grow with k, since those of
 * spans do. */
static void backward_ranges(const interpolate_axis *axis, const table *t) {
    int32_t begin = 0, end = 0;
    for (int64_t k = 0; k < axis->in; k++) {
        while (begin < axis->out && t->spans[begin].end <= k) begin++;
        while (end < axis->out && t->spans[end].begin <= k) end++;
        t->ranges[k] = (range){begin, end};
    }
}

/* Fills axis i's table at *room and moves that after it. */
static table table_make(const kernel_call *c, int i, char **room) {
    interpolate_axis axis = axis_of(c->node, i);
    table t = {.most = interpolate_most(&axis), .is_backward = is_backward(c->node)};
    t.spans = (range *)*room;
    t.ranges = t.spans + axis.out;
    t.weights = (float *)(t.ranges + c->out[0].type.shape[2 + i]);
    *room = (char *)(t.weights + axis.out * t.most);
    for (int64_t k = 0; k < axis.out; k++) {
        interpolate_span s = interpolate_span_of(&axis, k);
        t.spans[k] = (range){(int32_t)s.begin, (int32_t)s.end};
        fill_weights(&axis, &s, t.weights + k * t.most);
    }
    (t.is_backward ? backward_ranges : forward_ranges)(&axis, &t);
    return t;
}

/* The weight of the operand's element `from` in the result's element `to`. */
static float weight(const table *t, int64_t to, int64_t from) {
    int64_t i = t->is_backward ? from : to, k = t->is_backward ? to : from;
    return t->weights[i * t->most + k - t->spans[i].begin];
}

static void add(float *restrict y, const float *restrict x, float factor, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] += factor * x[j];
}

static void store(float *restrict y, const float *restrict x, float factor, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = factor * x[j];
}

/* Result (row, column), `n` channels; `at` is the operand's first element of the image and channels. */
static void pixel(const kernel_call *c, const table t[2], int64_t row, int64_t column, int64_t at, int64_t n,
                  float *y) {
    const tensor *x = &c->in[0];
    int64_t width = x->type.shape[3], channels = x->type.shape[1];
    range down = t[0].ranges[row], across = t[1].ranges[column];
    float room[BLOCK];
    bool is_first = true;
    for (int64_t i = down.begin; i < down.end; i++)
        for (int64_t k = across.begin; k < across.end; k++) {
            float factor = weight(&t[0], row, i) * weight(&t[1], column, k);
            if (factor == 0) continue;
            const float *from = row_read(x, at + (i * width + k) * channels, n, room);
            (is_first ? store : add)(y, from, factor, n);
            is_first = false;
        }
    for (int64_t j = 0; is_first && j < n; j++) y[j] = 0; /* an element of x that no element of y reads */
}

static void one_row(const kernel_call *c, const table t[2], int64_t image, int64_t row) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    const int64_t *in = x->type.shape, *out = y->type.shape;
    for (int64_t column = 0; column < out[3]; column++) {
        int64_t to = ((image * out[2] + row) * out[3] + column) * out[1];
        for (int64_t j = 0; j < out[1]; j += BLOCK) {
            int64_t n = out[1] - j < BLOCK ? out[1] - j : BLOCK;
            float room[BLOCK], *sums = row_place(y, to + j, room);
            pixel(c, t, row, column, image * in[2] * in[3] * in[1] + j, n, sums);
            row_write(y, to + j, n, sums);
        }
    }
}

static weft_status run(void *state, const kernel_call *c) {
    char *room = c->workspace;
    const int64_t *out = c->out[0].type.shape;
    table t[2];
    for (int i = 0; i < 2; i++) t[i] = table_make(c, i, &room);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t image = 0; image < out[0]; image++)
        for (int64_t row = 0; row < out[2]; row++) one_row(c, t, image, row);
    return WEFT_OK;
}

SIMD_KERNEL(interpolate, .declines = declines, .workspace = workspace, .run = run);
SIMD_KERNEL(interpolate_backward, .declines = declines, .workspace = workspace, .run = run);
