/* batch_norm.c - batch_norm and its backward op in f32, over x as [rows, C]: that is what [N, C] is, and
 * channels-last [N, C, H, W] with rows = N H W. Vectors run over channels.
 *
 * Memory is passed twice forward (statistics; apply) and twice backward (sums; apply). Statistics are taken
 * over fixed chunks of rows that fit the cache: the chunk's mean, then its squared distances from that mean,
 * and the chunks are merged in order in f64 (Chan, Golub, LeVeque 1983): stable, and the same bits for any
 * thread count.
 */
#include "ops/cpu/simd/simd.h"
#include "ops/norm.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 16384, LEAST_ROWS = 16 }; /* floats of a chunk: 64 KiB */

typedef struct shape2d {
    int64_t rows, channels, each, chunks; /* `each` rows a chunk */
} shape2d;

static shape2d shape_of(const tensor_type *t) {
    shape2d s = {.channels = t->shape[1]};
    s.rows = type_elements(t) / s.channels;
    s.each = CHUNK / s.channels > LEAST_ROWS ? CHUNK / s.channels : LEAST_ROWS;
    s.chunks = (s.rows + s.each - 1) / s.each;
    return s;
}

static int64_t rows_of(const shape2d *s, int64_t chunk) {
    int64_t left = s->rows - chunk * s->each;
    return left < s->each ? left : s->each;
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

/* Two numbers a chunk and channel, and three a channel. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    shape2d s = shape_of(&n->in[0]->type);
    return (size_t)((2 * s.chunks + 3) * s.channels) * sizeof(float);
}

/* ---- forward ---- */

/* Sums over rows; four at a time, which spares three of four reads and writes of the running sums. */
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

/* Squared distances from the means. */
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

static void chunk_statistics(const float *x, int64_t rows, int64_t channels, float *mean, float *squares) {
    float one = 1.0f / (float)rows;
    chunk_sums(x, rows, channels, mean);
    for (int64_t k = 0; k < channels; k++) mean[k] *= one;
    chunk_squares(x, rows, channels, mean, squares);
}

/* Channel k over all chunks: part[2 i] holds means, part[2 i + 1] squares. */
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

/* y = (x - mean) factor + bias: the difference first, which is exact where it matters. */
static void chunk_apply(const float *restrict x, float *restrict y, int64_t rows, int64_t channels,
                        const float *restrict mean, const float *restrict factor,
                        const float *restrict bias) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < channels; k++)
            y[r * channels + k] = (x[r * channels + k] - mean[k]) * factor[k] + bias[k];
}

static weft_status forward_run(void *state, const kernel_call *c) {
    (void)state;
    shape2d s = shape_of(&c->in[0].type);
    const float *x = c->in[0].data, *w = c->in[1].data, *b = c->in[2].data;
    float *y = c->out[0].data, *mean = c->out[1].data, *rstd = c->out[2].data, *var = c->out[3].data;
    float *part = c->workspace, *factor = part + 2 * s.chunks * s.channels;
    double eps = ((const norm_attrs *)c->attrs)->eps;
    int64_t step = s.each * s.channels;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *p = part + 2 * i * s.channels;
        chunk_statistics(x + i * step, rows_of(&s, i), s.channels, p, p + s.channels);
    }
    for (int64_t k = 0; k < s.channels; k++) {
        double m, squares;
        merge(&s, part, k, &m, &squares);
        double r = 1 / sqrt(squares / (double)s.rows + eps);
        mean[k] = (float)m;
        rstd[k] = (float)r;
        var[k] = (float)(squares / (double)(s.rows - 1));
        factor[k] = (float)(r * w[k]);
    }
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++)
        chunk_apply(x + i * step, y + i * step, rows_of(&s, i), s.channels, mean, factor, b);
    return WEFT_OK;
}

const weft_kernel SIMD(batch_norm) = {.name = SIMD_NAME,
                                      .op = &weft_op_batch_norm,
                                      .min_isa = SIMD_LEVEL,
                                      .declines = declines,
                                      .workspace = workspace,
                                      .run = forward_run};

/* ---- backward ---- */

/* Sums over rows of dy and of dy (x - mean). */
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

static weft_status backward_run(void *state, const kernel_call *c) {
    (void)state;
    shape2d s = shape_of(&c->in[0].type);
    const float *dy = c->in[0].data, *x = c->in[1].data, *w = c->in[2].data, *mean = c->in[3].data;
    const float *rstd = c->in[4].data;
    float *dx = c->out[0].data, *dw = c->out[1].data, *db = c->out[2].data;
    float *part = c->workspace, *number = part + 2 * s.chunks * s.channels;
    int64_t step = s.each * s.channels;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++) {
        float *p = part + 2 * i * s.channels;
        chunk_dots(dy + i * step, x + i * step, rows_of(&s, i), s.channels, mean, p, p + s.channels);
    }
    for (int64_t k = 0; k < s.channels; k++) {
        double sum = 0, dot = 0, n = (double)s.rows, r = rstd[k], factor = r * w[k];
        for (int64_t i = 0; i < s.chunks; i++) {
            sum += part[2 * i * s.channels + k];
            dot += part[(2 * i + 1) * s.channels + k];
        }
        db[k] = (float)sum;
        dw[k] = (float)(dot * r);
        number[k] = (float)factor;
        number[s.channels + k] = (float)(factor * r * r * dot / n);
        number[2 * s.channels + k] = (float)(factor * sum / n);
    }
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < s.chunks; i++)
        chunk_dx(dy + i * step, x + i * step, dx + i * step, rows_of(&s, i), s.channels, mean, number);
    return WEFT_OK;
}

const weft_kernel SIMD(batch_norm_backward) = {.name = SIMD_NAME,
                                               .op = &weft_op_batch_norm_backward,
                                               .min_isa = SIMD_LEVEL,
                                               .declines = declines,
                                               .workspace = workspace,
                                               .run = backward_run};
