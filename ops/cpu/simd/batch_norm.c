/* batch_norm.c - batch_norm and its backward op in f32, over x as [rows, C]: [N, C] as it is, and
 * channels-last [N, C, H, W] with rows = N H W. Vectors run over channels. x, y and their gradients may be
 * bf16 or f16: a chunk of them becomes floats in the cache.
 *
 * Two passes over memory forward (statistics; apply) and two backward (sums; apply). Statistics are taken
 * over fixed chunks of rows, each of which fits the cache and is one block of sums.h: the mean of the chunk,
 * then the squared distances from that mean. The chunks are merged in order in f64 (Chan, Golub, LeVeque
 * 1983), which is stable and gives the same bits for any number of threads. */
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/norm_loss/norm.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { CHUNK = 16384, LEAST_ROWS = 16 }; /* floats of a chunk (64 KiB); its least rows */

typedef struct shape2d {
    int64_t rows, channels, each, chunks; /* `each`: rows of a chunk, the last may have fewer */
} shape2d;

static shape2d shape_of(const tensor_type *t) {
    shape2d s = {.channels = t->shape[1]};
    s.rows = type_elements(t) / s.channels;
    s.each = CHUNK / s.channels > LEAST_ROWS ? CHUNK / s.channels : LEAST_ROWS;
    if (s.each > SUM_ROWS) s.each = SUM_ROWS;
    s.chunks = (s.rows + s.each - 1) / s.each;
    return s;
}

/* Rows of this chunk. */
static int64_t rows_of(const shape2d *s, int64_t chunk) {
    int64_t left = s->rows - chunk * s->each;
    return left < s->each ? left : s->each;
}

/* Returns the reason to decline. Operands [first, n) are weights and statistics. */
static const char *unfit(const weft_node *n, int first) {
    for (int i = 0; i < n->n_in; i++) {
        if (i < first && !dtype_is_row(n->in[i]->type.dtype)) return "not f32, bf16 or f16";
        if (i >= first && n->in[i]->type.dtype != WEFT_F32) return "weights and statistics must be f32";
    }
    return NULL;
}

static const char *forward_declines(const weft_node *n, const kernel_env *env) {
    return unfit(n, 1);
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    return unfit(n, 2);
}

/* Floats of workspace that all threads share: two for each chunk and channel, and three for each channel. */
static int64_t numbers(const shape2d *s) {
    return ((2 * s->chunks + 3) * s->channels + 15) / 16 * 16;
}

/* Floats of the chunks that one thread has in hand: operands [0, operands) and the result, where they are not
 * f32. */
static int64_t rooms(const weft_node *n, const shape2d *s, int operands) {
    int64_t chunk = s->each * s->channels, floats = row_room(n->out[0].type.dtype, chunk);
    for (int i = 0; i < operands; i++) floats += row_room(n->in[i]->type.dtype, chunk);
    return floats;
}

static size_t workspace_of(const weft_node *n, const kernel_env *env, int operands) {
    shape2d s = shape_of(&n->in[0]->type);
    return (size_t)(numbers(&s) + env->threads * rooms(n, &s, operands)) * sizeof(float);
}

static size_t forward_workspace(const weft_node *n, const kernel_env *env) {
    return workspace_of(n, env, 1);
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    return workspace_of(n, env, 2);
}

/* Chunk i of a tensor, as floats; chunk_place and chunk_write are for results. */
static const float *chunk_read(const tensor *t, const shape2d *s, int64_t i, float *room) {
    return row_read(t, i * s->each * s->channels, rows_of(s, i) * s->channels, room);
}

static float *chunk_place(const tensor *t, const shape2d *s, int64_t i, float *room) {
    return row_place(t, i * s->each * s->channels, room);
}

static void chunk_write(const tensor *t, const shape2d *s, int64_t i, const float *from) {
    row_write(t, i * s->each * s->channels, rows_of(s, i) * s->channels, from);
}

/* ---- forward ---- */

/* sum[channels] = sums over rows, four rows at a time: that saves three of four reads and writes of the
 * sums. */
static void chunk_sums(const float *restrict x, int64_t rows, int64_t channels, float *restrict sum) {
    int64_t r = 0;
    memset(sum, 0, (size_t)channels * sizeof *sum);
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * channels, *b = a + channels, *c = b + channels, *d = c + channels;
        for (int64_t k = 0; k < channels; k++) sum[k] += (a[k] + b[k]) + (c[k] + d[k]);
    }
    for (; r < rows; r++)
        for (int64_t k = 0; k < channels; k++) sum[k] += x[r * channels + k];
}

static float square(float x) {
    return x * x;
}

/* Sums of squared distances from the means, in the same order. */
static void chunk_squares(const float *restrict x, int64_t rows, int64_t channels, const float *restrict mean,
                          float *restrict sum) {
    int64_t r = 0;
    memset(sum, 0, (size_t)channels * sizeof *sum);
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * channels, *b = a + channels, *c = b + channels, *d = c + channels;
        for (int64_t k = 0; k < channels; k++) {
            float m = mean[k];
            sum[k] += (square(a[k] - m) + square(b[k] - m)) + (square(c[k] - m) + square(d[k] - m));
        }
    }
    for (; r < rows; r++)
        for (int64_t k = 0; k < channels; k++) sum[k] += square(x[r * channels + k] - mean[k]);
}

/* The mean of a channel that hardly varies is off by a rounding, which second gradients multiply by rstd more
 * than once; where every x is within half of it, x - mean is exact, and so is what is missing (as in norm.c).
 * Such channels are rare: each is a pass of its own. */
static void correct_means(const float *x, int64_t rows, int64_t channels, float *mean, float *squares) {
    for (int64_t k = 0; k < channels; k++) {
        if (mean[k] == 0 || !(4 * squares[k] <= square(mean[k]))) continue;
        double rest = 0, n = (double)rows;
        for (int64_t r = 0; r < rows; r++) rest += x[r * channels + k] - mean[k];
        mean[k] = (float)(mean[k] + rest / n);
        squares[k] = fmaxf((float)(squares[k] - rest * rest / n), 0);
    }
}

static void chunk_statistics(const float *x, int64_t rows, int64_t channels, float *mean, float *squares) {
    float one = 1.0f / (float)rows;
    chunk_sums(x, rows, channels, mean);
    for (int64_t k = 0; k < channels; k++) mean[k] *= one;
    chunk_squares(x, rows, channels, mean, squares);
    correct_means(x, rows, channels, mean, squares);
}

/* Merges channel k over all chunks: row 2 i of `part` holds the means of chunk i, row 2 i + 1 its squares.
 * `apart` is the distance of the chunk's mean from the mean so far. */
static void merge(const shape2d *s, const float *part, int64_t k, double *mean, double *squares) {
    double n = 0, m = 0, q = 0;
    for (int64_t i = 0; i < s->chunks; i++) {
        double more = (double)rows_of(s, i), apart = part[2 * i * s->channels + k] - m;
        q += part[(2 * i + 1) * s->channels + k] + apart * apart * n * more / (n + more);
        m += apart * more / (n + more);
        n += more;
    }
    *mean = m;
    *squares = q;
}

/* y = (x - mean) factor + bias: the difference comes first, since it is exact where x is near the mean. */
static void chunk_apply(const float *restrict x, float *restrict y, int64_t rows, int64_t channels,
                        const float *restrict mean, const float *restrict factor,
                        const float *restrict bias) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < channels; k++)
            y[r * channels + k] = (x[r * channels + k] - mean[k]) * factor[k] + bias[k];
}

/* mean, rstd = 1 / sqrt(var + eps) and the unbiased var, and factor = rstd weight for chunk_apply. */
static void channels_forward(const kernel_call *c, const shape2d *s, const float *part, float *factor) {
    const float *w = c->in[1].data;
    float *mean = c->out[1].data, *rstd = c->out[2].data, *var = c->out[3].data;
    double eps = ((const norm_attrs *)c->attrs)->eps;
    for (int64_t k = 0; k < s->channels; k++) {
        double m, squares;
        merge(s, part, k, &m, &squares);
        double r = 1 / sqrt(squares / (double)s->rows + eps);
        mean[k] = (float)m;
        rstd[k] = (float)r;
        var[k] = (float)(squares / (double)(s->rows - 1));
        factor[k] = (float)(r * w[k]);
    }
}

/* Workspace: parts [chunks, 2, C], factor [C] (and two rows that only backward uses), then a room for each
 * thread. */
static weft_status forward_run(void *state, const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    shape2d s = shape_of(&x->type);
    float *part = c->workspace, *factor = part + 2 * s.chunks * s.channels, *after = part + numbers(&s);
    int64_t room = rooms(c->node, &s, 1), room_x = row_room(x->type.dtype, s.each * s.channels);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *p = part + 2 * i * s.channels;
        const float *xi = chunk_read(x, &s, i, after + omp_get_thread_num() * room);
        chunk_statistics(xi, rows_of(&s, i), s.channels, p, p + s.channels);
    }
    channels_forward(c, &s, part, factor);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *own = after + omp_get_thread_num() * room, *yi = chunk_place(y, &s, i, own + room_x);
        const float *xi = chunk_read(x, &s, i, own);
        chunk_apply(xi, yi, rows_of(&s, i), s.channels, c->out[1].data, factor, c->in[2].data);
        chunk_write(y, &s, i, yi);
    }
    return WEFT_OK;
}

SIMD_KERNEL(batch_norm, .declines = forward_declines, .workspace = forward_workspace, .run = forward_run);

/* ---- backward ---- */

/* Sums over rows of dy and of dy (x - mean), two rows at a time. */
static void chunk_dots(const float *restrict dy, const float *restrict x, int64_t rows, int64_t channels,
                       const float *restrict mean, float *restrict sum, float *restrict dot) {
    int64_t r = 0;
    memset(sum, 0, (size_t)channels * sizeof *sum);
    memset(dot, 0, (size_t)channels * sizeof *dot);
    for (; r + 2 <= rows; r += 2) {
        const float *a = dy + r * channels, *b = a + channels, *p = x + r * channels, *q = p + channels;
        for (int64_t k = 0; k < channels; k++) {
            sum[k] += a[k] + b[k];
            dot[k] += a[k] * (p[k] - mean[k]) + b[k] * (q[k] - mean[k]);
        }
    }
    for (; r < rows; r++)
        for (int64_t k = 0; k < channels; k++) {
            sum[k] += dy[r * channels + k];
            dot[k] += dy[r * channels + k] * (x[r * channels + k] - mean[k]);
        }
}

/* dx = factor dy - slope (x - mean) - shift */
static void chunk_dx(const float *restrict dy, const float *restrict x, float *restrict dx, int64_t rows,
                     int64_t channels, const float *restrict mean, const float *restrict number) {
    const float *factor = number, *slope = number + channels, *shift = slope + channels;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < channels; k++)
            dx[r * channels + k] =
                factor[k] * dy[r * channels + k] - slope[k] * (x[r * channels + k] - mean[k]) - shift[k];
}

/* dw = rstd sum dy (x - mean), db = sum dy, and the three numbers of chunk_dx for each channel. */
static void channels_backward(const kernel_call *c, const shape2d *s, const float *part, float *number) {
    const float *w = c->in[2].data, *rstd = c->in[4].data;
    float *dw = c->out[1].data, *db = c->out[2].data;
    for (int64_t k = 0; k < s->channels; k++) {
        double sum = 0, dot = 0, n = (double)s->rows, r = rstd[k], factor = r * w[k];
        for (int64_t i = 0; i < s->chunks; i++) {
            sum += part[2 * i * s->channels + k];
            dot += part[(2 * i + 1) * s->channels + k];
        }
        db[k] = (float)sum;
        dw[k] = (float)(dot * r);
        number[k] = (float)factor;
        number[s->channels + k] = (float)(factor * r * r * dot / n);
        number[2 * s->channels + k] = (float)(factor * sum / n);
    }
}

/* dx = rstd w (dy - mean(dy) - xhat mean(dy xhat)), as chunk_dx has it. */
static weft_status backward_run(void *state, const kernel_call *c) {
    const tensor *dy = &c->in[0], *x = &c->in[1], *dx = &c->out[0];
    shape2d s = shape_of(&dy->type);
    const float *mean = c->in[3].data;
    float *part = c->workspace, *number = part + 2 * s.chunks * s.channels, *after = part + numbers(&s);
    int64_t room = rooms(c->node, &s, 2), chunk = s.each * s.channels;
    int64_t at_x = row_room(dy->type.dtype, chunk), at_dx = at_x + row_room(x->type.dtype, chunk);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *own = after + omp_get_thread_num() * room, *p = part + 2 * i * s.channels;
        const float *dyi = chunk_read(dy, &s, i, own), *xi = chunk_read(x, &s, i, own + at_x);
        chunk_dots(dyi, xi, rows_of(&s, i), s.channels, mean, p, p + s.channels);
    }
    channels_backward(c, &s, part, number);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *own = after + omp_get_thread_num() * room, *dxi = chunk_place(dx, &s, i, own + at_dx);
        const float *dyi = chunk_read(dy, &s, i, own), *xi = chunk_read(x, &s, i, own + at_x);
        chunk_dx(dyi, xi, dxi, rows_of(&s, i), s.channels, mean, number);
        chunk_write(dx, &s, i, dxi);
    }
    return WEFT_OK;
}

SIMD_KERNEL(batch_norm_backward, .declines = backward_declines, .workspace = backward_workspace,
            .run = backward_run);
