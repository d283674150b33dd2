/* norm.c - layer_norm, rms_norm and their backward ops in f32, over x as [rows, d]; x, y and their
 * gradients may be bf16 or f16. rms_norm is a layer_norm whose mean is 0 and which has no bias. Rows are
 * independent. The sums over rows (dw, db) are taken over fixed chunks of rows, and the chunks are added in
 * order, so the bits do not depend on the number of threads. */
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/norm_loss/norm.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Returns the reason to decline. Operands [first, n) are weights and statistics. */
static const char *unfit(const weft_node *n, int first) {
    for (int i = 0; i < n->n_in; i++) {
        weft_dtype dtype = n->in[i] ? n->in[i]->type.dtype : WEFT_F32;
        if (i < first && !dtype_is_row(dtype)) return "not f32, bf16 or f16";
        if (i >= first && dtype != WEFT_F32) return "weights and statistics must be f32";
    }
    return NULL;
}

static const char *forward_declines(const weft_node *n, const kernel_env *env) {
    return unfit(n, 1);
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    return unfit(n, 2);
}

/* d, the last axis: it is normalized. */
static int64_t row_length(const weft_node *n) {
    const tensor_type *t = &n->in[0]->type;
    return t->shape[t->ndim - 1];
}

/* Floats of the rows that one thread has in hand: operands [0, operands) and the result, where they are not
 * f32. */
static int64_t rooms(const weft_node *n, int operands) {
    int64_t d = row_length(n), floats = row_room(n->out[0].type.dtype, d);
    for (int i = 0; i < operands; i++) floats += row_room(n->in[i]->type.dtype, d);
    return floats;
}

/* ---- forward: two passes over a row, which stays in the cache ---- */

/* The mean, in blocks (sums.h). */
static float row_mean(const float *x, int64_t d) {
    double total = 0;
    for (int64_t begin = 0; begin < d; begin += SUM_BLOCK) {
        int64_t end = sum_block_end(begin, d);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = begin; k < end; k++) sum += x[k];
        total += sum;
    }
    return (float)(total / (double)d);
}

/* What a row is normalized with. */
typedef struct statistics {
    float mean, rstd;
} statistics;

/* Sums of x - m and of its square, in blocks. */
static void distances(const float *x, int64_t d, float m, double *sum, double *squares) {
    *sum = *squares = 0;
    for (int64_t begin = 0; begin < d; begin += SUM_BLOCK) {
        int64_t end = sum_block_end(begin, d);
        float part = 0, part_squares = 0;
#pragma omp simd reduction(+ : part, part_squares)
        for (int64_t k = begin; k < end; k++) {
            float apart = x[k] - m;
            part += apart;
            part_squares += apart * apart;
        }
        *sum += part;
        *squares += part_squares;
    }
}

/* The mean as summed is off by rounding. The second pass, which does not cancel as sum x^2 - (sum x)^2 would,
 * also finds by how much (the corrected two-pass algorithm; Chan, Golub, LeVeque 1983, equation 1.7). That is
 * taken where every x is within half of the mean, since x - mean is exact there (Sterbenz). So the distances
 * of a constant row are 0 to the bit. It matters in second gradients: rstd, 300 at an eps of 1e-5, comes
 * into them three times. */
static statistics row_statistics(const float *x, int64_t d, double eps) {
    double sum, squares, n = (double)d;
    float mean = row_mean(x, d);
    distances(x, d, mean, &sum, &squares);
    double variance = squares / n, off = sum / n;
    if (4 * squares <= (double)mean * mean) {
        mean = (float)(mean + off);
        variance = variance > off * off ? variance - off * off : 0;
    }
    return (statistics){mean, (float)(1 / sqrt(variance + eps))};
}

/* Those of rms_norm: the mean counts as 0. */
static statistics row_square(const float *x, int64_t d, double eps) {
    double sum, squares;
    distances(x, d, 0, &sum, &squares);
    return (statistics){0, (float)(1 / sqrt(squares / (double)d + eps))};
}

/* b is NULL, or b and w are. */
static void row_forward(const float *restrict x, float *restrict y, const float *restrict w,
                        const float *restrict b, int64_t d, float mean, float rstd) {
    if (b)
        for (int64_t k = 0; k < d; k++) y[k] = (x[k] - mean) * rstd * w[k] + b[k];
    else if (w)
        for (int64_t k = 0; k < d; k++) y[k] = (x[k] - mean) * rstd * w[k];
    else
        for (int64_t k = 0; k < d; k++) y[k] = (x[k] - mean) * rstd;
}

static size_t forward_workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)(env->threads * rooms(n, 1)) * sizeof(float);
}

/* out: y [rows, d], mean [rows] (NULL: 0), rstd [rows]; the backward op reads the last two. */
static weft_status rows_run(const kernel_call *c, const float *b, float *mean, float *rstd) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    const float *w = c->n_in > 1 ? c->in[1].data : NULL;
    double eps = ((const norm_attrs *)c->attrs)->eps;
    int64_t d = row_length(c->node), rows = type_elements(&x->type) / d, room = rooms(c->node, 1);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        float *own = (float *)c->workspace + omp_get_thread_num() * room;
        const float *xi = row_read(x, i * d, d, own);
        float *yi = row_place(y, i * d, own + row_room(x->type.dtype, d));
        statistics of = mean ? row_statistics(xi, d, eps) : row_square(xi, d, eps);
        if (mean) mean[i] = of.mean;
        rstd[i] = of.rstd;
        row_forward(xi, yi, w, b, d, of.mean, of.rstd);
        row_write(y, i * d, d, yi);
    }
    return WEFT_OK;
}

static weft_status layer_forward(void *state, const kernel_call *c) {
    return rows_run(c, c->n_in == 3 ? c->in[2].data : NULL, c->out[1].data, c->out[2].data);
}

static weft_status rms_forward(void *state, const kernel_call *c) {
    return rows_run(c, NULL, NULL, c->out[1].data);
}

SIMD_KERNEL(layer_norm, .declines = forward_declines, .workspace = forward_workspace, .run = layer_forward);
SIMD_KERNEL(rms_norm, .declines = forward_declines, .workspace = forward_workspace, .run = rms_forward);

/* ---- backward ---- */

/* Rows of a chunk: 16 up to 4,096 rows, then so many that there are 256 chunks, up to SUM_ROWS. */
static int64_t chunk_rows(int64_t rows) {
    int64_t each = rows <= 16 * 256 ? 16 : (rows + 255) / 256;
    return each < SUM_ROWS ? each : SUM_ROWS;
}

static int64_t chunk_count(int64_t rows) {
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* Floats of dw and db (of rms_norm: dw) of every chunk: [chunks, sums, d]; none without a weight. */
static int64_t parts_floats(const weft_node *n) {
    int64_t d = row_length(n);
    return chunk_count(type_elements(&n->in[0]->type) / d) * (n->n_out - 1) * d;
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)(parts_floats(n) + env->threads * rooms(n, 2)) * sizeof(float);
}

/* One block of a row: the sums of g = dy w and of g xhat; adds the row to dw and db. db is NULL, or all of
 * w, dw and db are. */
static inline void block_sums(const float *restrict dy, const float *restrict x, const float *restrict w,
                              float *restrict dw, float *restrict db, int64_t d, float mean, float rstd,
                              float *block_g, float *block_gx) {
    float sum_g = 0, sum_gx = 0;
    if (db) {
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t k = 0; k < d; k++) {
            float xhat = (x[k] - mean) * rstd, g = dy[k] * w[k];
            dw[k] += dy[k] * xhat;
            db[k] += dy[k];
            sum_g += g;
            sum_gx += g * xhat;
        }
    } else if (w) {
#pragma omp simd reduction(+ : sum_gx)
        for (int64_t k = 0; k < d; k++) {
            float xhat = (x[k] - mean) * rstd;
            dw[k] += dy[k] * xhat;
            sum_gx += dy[k] * w[k] * xhat;
        }
    } else {
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t k = 0; k < d; k++) {
            sum_g += dy[k];
            sum_gx += dy[k] * ((x[k] - mean) * rstd);
        }
    }
    *block_g = sum_g;
    *block_gx = sum_gx;
}

/* The same for a row longer than a block. */
static void long_sums(const float *dy, const float *x, const float *w, float *dw, float *db, int64_t d,
                      float mean, float rstd, float *sum_g, float *sum_gx) {
    double total_g = 0, total_gx = 0;
    for (int64_t k = 0; k < d; k += SUM_BLOCK) {
        float g, gx;
        block_sums(dy + k, x + k, w ? w + k : NULL, w ? dw + k : NULL, db ? db + k : NULL,
                   sum_block_end(k, d) - k, mean, rstd, &g, &gx);
        total_g += g;
        total_gx += gx;
    }
    *sum_g = (float)total_g;
    *sum_gx = (float)total_gx;
}

/* What a backward op has besides rows: statistics, weight, and how many sums over rows it makes. */
typedef struct norm_back {
    const float *mean, *rstd, *w; /* mean NULL: rms_norm, whose mean is 0 */
    int sums;                     /* dw, db: 2; dw: 1; without a weight 0 */
} norm_back;

/* dx = rstd (g - mean(g) - xhat mean(g xhat)) for one row, in rms_norm without mean(g); dw and db are NULL
 * where they are not summed. */
static void norm_row_backward(const norm_back *n, int64_t row, const float *restrict dy,
                              const float *restrict x, float *restrict dx, float *restrict dw,
                              float *restrict db, int64_t d) {
    const float *restrict w = n->w;
    float sum_g, sum_gx, mean = n->mean ? n->mean[row] : 0, rstd = n->rstd[row];
    if (d <= SUM_BLOCK)
        block_sums(dy, x, w, dw, db, d, mean, rstd, &sum_g, &sum_gx);
    else
        long_sums(dy, x, w, dw, db, d, mean, rstd, &sum_g, &sum_gx);
    /* means over the row; slope is the mean of g xhat */
    float mean_g = n->mean ? sum_g / (float)d : 0, slope = sum_gx / (float)d;
    if (w)
        for (int64_t k = 0; k < d; k++) dx[k] = rstd * (dy[k] * w[k] - mean_g - (x[k] - mean) * rstd * slope);
    else
        for (int64_t k = 0; k < d; k++) dx[k] = rstd * (dy[k] - mean_g - (x[k] - mean) * rstd * slope);
}

/* The sum over chunks of number `at` of their parts, in order, in f64. */
static float chunks_sum(const float *parts, int64_t chunks, int64_t part, int64_t at) {
    double sum = 0;
    for (int64_t i = 0; i < chunks; i++) sum += parts[i * part + at];
    return (float)sum;
}

/* Rows [begin, end); adds to dw and db of their chunk. `own` is the room of the thread. */
static void rows_backward(const kernel_call *c, const norm_back *n, int64_t begin, int64_t end, float *dw,
                          float *db, float *own) {
    const tensor *dy = &c->in[0], *x = &c->in[1], *dx = &c->out[0];
    int64_t d = row_length(c->node);
    float *room_x = own + row_room(dy->type.dtype, d), *room_dx = room_x + row_room(x->type.dtype, d);
    for (int64_t r = begin; r < end; r++) {
        const float *dyr = row_read(dy, r * d, d, own);
        const float *xr = row_read(x, r * d, d, room_x);
        float *dxr = row_place(dx, r * d, room_dx);
        norm_row_backward(n, r, dyr, xr, dxr, dw, db, d);
        row_write(dx, r * d, d, dxr);
    }
}

/* Workspace: parts [chunks, sums, d], then a room for each thread. */
static weft_status back_run(const kernel_call *c, const norm_back *n) {
    int64_t d = row_length(c->node), rows = type_elements(&c->in[0].type) / d, each = chunk_rows(rows),
            chunks = chunk_count(rows), room = rooms(c->node, 2), part = n->sums * d;
    float *parts = c->workspace;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        /* a chunk is one task: its sums have one owner */
        float *own = parts + parts_floats(c->node) + omp_get_thread_num() * room;
        float *dw = n->sums > 0 ? parts + i * part : NULL, *db = n->sums > 1 ? dw + d : NULL;
        if (dw) memset(dw, 0, (size_t)part * sizeof *dw);
        rows_backward(c, n, i * each, (i + 1) * each < rows ? (i + 1) * each : rows, dw, db, own);
    }
    for (int s = 0; s < n->sums; s++) {
        float *sum = c->out[1 + s].data;
#pragma omp parallel for num_threads(c->threads) schedule(static)
        for (int64_t k = 0; k < d; k++) sum[k] = chunks_sum(parts, chunks, part, s * d + k);
    }
    return WEFT_OK;
}

/* Operands dy, x, mean, rstd, w. */
static weft_status layer_backward(void *state, const kernel_call *c) {
    norm_back n = {c->in[2].data, c->in[3].data, c->n_out == 3 ? c->in[4].data : NULL, c->n_out - 1};
    return back_run(c, &n);
}

/* Operands dy, x, rstd, w. */
static weft_status rms_backward(void *state, const kernel_call *c) {
    norm_back n = {NULL, c->in[2].data, c->n_out == 2 ? c->in[3].data : NULL, c->n_out - 1};
    return back_run(c, &n);
}

SIMD_KERNEL(layer_norm_backward, .declines = backward_declines, .workspace = backward_workspace,
            .run = layer_backward);
SIMD_KERNEL(rms_norm_backward, .declines = backward_declines, .workspace = backward_workspace,
            .run = rms_backward);
