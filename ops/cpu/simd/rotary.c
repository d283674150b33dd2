/* rotary.c - rotary in f32, bf16 and f16. A task is CHUNK rows of HEADS heads: it makes a table of the rows'
 * sines and cosines, by rotating from row to row in f64, and applies it to the heads. Every chunk begins
 * again with exact ones, so that the bits do not depend on the threads. */
#include "ops/attention/rotary.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"

#include <math.h>
#include <omp.h>

enum { CHUNK = 64, HEADS = 32 };

/* A thread's scratch: `turn` and `now` hold cos and sin, in f64, of the angle from row to row and of a row's
 * own; cos and sin are tables of CHUNK rows; in and out are rows of x and y. */
typedef struct scratch {
    double *turn, *now;
    float *cos, *sin, *in, *out;
} scratch;

static int64_t scratch_doubles(const weft_node *n) {
    const tensor_type *x = &n->in[0]->type;
    int64_t columns = x->shape[x->ndim - 1], pairs = rotary_pairs(n->attrs, columns);
    return 4 * pairs + CHUNK * pairs + columns;
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)env->threads * (size_t)scratch_doubles(n) * sizeof(double);
}

static scratch scratch_at(double *from, int64_t pairs, int64_t columns) {
    float *table = (float *)(from + 4 * pairs), *rows = table + 2 * CHUNK * pairs;
    return (scratch){from, from + 2 * pairs, table, table + CHUNK * pairs, rows, rows + columns};
}

/* The tables of `rows` rows from `first` on. */
static void table_fill(const rotary_attrs *a, const scratch *s, int64_t first, int64_t rows, int64_t pairs) {
    double sign = a->inverse ? -1 : 1, *now_sin = s->now + pairs, *turn_sin = s->turn + pairs;
    for (int64_t i = 0; i < pairs; i++) {
        double turn = pow(a->base, (double)-i / (double)pairs), angle = (double)(a->offset + first) * turn;
        s->turn[i] = cos(turn);
        turn_sin[i] = sign * sin(turn);
        s->now[i] = cos(angle);
        now_sin[i] = sign * sin(angle);
    }
    for (int64_t t = 0; t < rows; t++) {
        float *to_cos = s->cos + t * pairs, *to_sin = s->sin + t * pairs;
#pragma omp simd
        for (int64_t i = 0; i < pairs; i++) {
            double c = s->now[i], d = now_sin[i];
            to_cos[i] = (float)c;
            to_sin[i] = (float)d;
            s->now[i] = c * s->turn[i] - d * turn_sin[i];
            now_sin[i] = d * s->turn[i] + c * turn_sin[i];
        }
    }
}

/* x and y may be the same memory. */
static void rotate_halves(const float *x, float *y, const float *c, const float *s, int64_t pairs) {
#pragma omp simd
    for (int64_t i = 0; i < pairs; i++) {
        float a = x[i], b = x[i + pairs];
        y[i] = a * c[i] - b * s[i];
        y[i + pairs] = b * c[i] + a * s[i];
    }
}

static void rotate_neighbours(const float *x, float *y, const float *c, const float *s, int64_t pairs) {
#pragma omp simd
    for (int64_t i = 0; i < pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * c[i] - b * s[i];
        y[2 * i + 1] = b * c[i] + a * s[i];
    }
}

/* The row at element `at` of x as floats: in place where it lies so, else in `room`. */
static const float *row_floats(const tensor *x, int64_t at, float *room) {
    int64_t columns = x->type.shape[x->type.ndim - 1], step = x->stride[x->type.ndim - 1];
    if (step == 1) {
        if (x->type.dtype == WEFT_F32) return (const float *)x->data + at;
        reduced_load(room, x->data, x->type.dtype, at, columns);
    } else {
        for (int64_t k = 0; k < columns; k++) room[k] = reduced_get(x->data, x->type.dtype, at + k * step);
    }
    return room;
}

/* Rows [first, first + rows) of a head that begins at element x_at of x and y_at of y. */
static void head_rotate(const kernel_call *c, const scratch *s, int64_t x_at, int64_t y_at, int64_t rows,
                        int64_t pairs) {
    const rotary_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    int last = x->type.ndim - 1;
    int64_t columns = x->type.shape[last];
    for (int64_t t = 0; t < rows; t++) {
        const float *from = row_floats(x, x_at + t * x->stride[last - 1], s->in);
        int64_t to_at = y_at + t * columns;
        float *to = y->type.dtype == WEFT_F32 ? (float *)y->data + to_at : s->out;
        (a->interleaved ? rotate_neighbours : rotate_halves)(from, to, s->cos + t * pairs, s->sin + t * pairs,
                                                             pairs);
        for (int64_t k = 2 * pairs; k < columns; k++) to[k] = from[k];
        if (to == s->out) reduced_store(y->data, y->type.dtype, to_at, to, columns);
    }
}

/* The first element of head h, counted over all axes but the last two. */
static int64_t head_at(const tensor *x, int64_t h) {
    int64_t at = 0;
    for (int i = x->type.ndim - 3; i >= 0; i--) {
        at += h % x->type.shape[i] * x->stride[i];
        h /= x->type.shape[i];
    }
    return at;
}

static weft_status run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0];
    int last = x->type.ndim - 1;
    int64_t columns = x->type.shape[last], rows = x->type.shape[last - 1];
    int64_t pairs = rotary_pairs(c->attrs, columns), heads = type_elements(&x->type) / (rows * columns);
    int64_t chunks = (rows + CHUNK - 1) / CHUNK, parts = (heads + HEADS - 1) / HEADS;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t task = 0; task < chunks * parts; task++) {
        int64_t first = task / parts * CHUNK, count = rows - first < CHUNK ? rows - first : CHUNK;
        int64_t h = task % parts * HEADS, past = h + HEADS < heads ? h + HEADS : heads;
        scratch s = scratch_at((double *)c->workspace + omp_get_thread_num() * scratch_doubles(c->node),
                               pairs, columns);
        table_fill(c->attrs, &s, first, count, pairs);
        for (; h < past; h++)
            head_rotate(c, &s, head_at(x, h) + first * x->stride[last - 1], (h * rows + first) * columns,
                        count, pairs);
    }
    return WEFT_OK;
}

SIMD_KERNEL(rotary, .strided_in = 1, .declines = declines_rows, .workspace = workspace, .run = run);
