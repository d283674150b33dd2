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

/* What one element of y reads of x: x[first] and, with weight `second`, x[first + 1]. */
typedef struct tap {
    int32_t first;
    float second;
} tap;

/* One axis: a tap for each element of y, a range for each element of the result. */
typedef struct table {
    tap *taps;
    range *ranges;
    bool is_backward;
} table;

static const char *declines(const weft_node *n, const kernel_env *env) {
    if (!dtype_is_row(n->in[0]->type.dtype)) return "not f32, bf16 or f16";
    for (int i = 2; i < 4; i++)
        if (n->in[0]->type.shape[i] > INT32_MAX - 1 || n->out[0].type.shape[i] > INT32_MAX - 1)
            return "an axis of 2^31 elements or more";
    return n->in[0]->type.dtype != n->out[0].type.dtype ? "operand and result of two types" : NULL;
}

/* Taps are for y, which is the operand of the backward op; ranges for the result. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    const tensor_type *y = n->op == &weft_op_interpolate ? &n->out[0].type : &n->in[0]->type;
    const tensor_type *result = &n->out[0].type;
    return (size_t)(y->shape[2] + y->shape[3]) * sizeof(tap) +
           (size_t)(result->shape[2] + result->shape[3]) * sizeof(range);
}

static void forward_ranges(const interpolate_axis *axis, const table *t) {
    for (int64_t i = 0; i < axis->out; i++)
        t->ranges[i] = (range){t->taps[i].first, t->taps[i].first + (t->taps[i].second != 0 ? 2 : 1)};
}

/* Element k of x is read by those elements of y whose first is k or, where they have a second, k - 1. Both
 * ends grow with k, since the firsts grow with i. */
static void backward_ranges(const interpolate_axis *axis, const table *t) {
    int32_t reach = axis->mode == WEFT_INTERPOLATE_BILINEAR, begin = 0, end = 0;
    for (int64_t k = 0; k < axis->in; k++) {
        while (begin < axis->out && t->taps[begin].first < k - reach) begin++;
        while (end < axis->out && t->taps[end].first <= k) end++;
        t->ranges[k] = (range){begin, end};
    }
}

/* Fills axis i's table at *room and moves that after it. */
static table table_make(const kernel_call *c, int i, char **room) {
    bool is_backward = c->node->op == &weft_op_interpolate_backward;
    const tensor_type *in = &c->in[0].type, *out = &c->out[0].type;
    interpolate_axis axis = interpolate_axis_of(c->attrs, i, is_backward ? out : in, is_backward ? in : out);
    table t = {(tap *)*room, (range *)(*room + (size_t)axis.out * sizeof(tap)), is_backward};
    *room = (char *)(t.ranges + out->shape[2 + i]);
    for (int64_t k = 0; k < axis.out; k++) {
        double second;
        t.taps[k].first = (int32_t)interpolate_tap(&axis, k, &second);
        t.taps[k].second = (float)second;
    }
    (is_backward ? backward_ranges : forward_ranges)(&axis, &t);
    return t;
}

/* The weight of the operand's element `from` in the result's element `to`; 0 where the range is wider than
 * needed. */
static float weight(const table *t, int64_t to, int64_t from) {
    const tap *of = &t->taps[t->is_backward ? from : to];
    int64_t k = t->is_backward ? to : from;
    return k == of->first ? 1 - of->second : k == of->first + 1 ? of->second : 0;
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
