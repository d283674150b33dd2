/* embedding.c - embedding, which copies rows of any type, and its backward op in f32. The backward op sorts the places of
 * ids by row first, so that each row is summed in blocks (sums.h) however often its id occurs. It shares out columns, not
 * rows: no sum depends on the number of threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/embedding.h"

#include <string.h>

/* Id number i; ids lie row-major. */
static int64_t id_at(const tensor *ids, int64_t i) {
    switch (ids->type.dtype) {
    case WEFT_I64:
        return ((const int64_t *)ids->data)[i];
    case WEFT_I32:
        return ((const int32_t *)ids->data)[i];
    default:
        return ((const uint8_t *)ids->data)[i];
    }
}

static weft_status forward_run(void *state, const kernel_call *c) {
    (void)state;
    const char *w = c->in[0].data;
    char *y = c->out[0].data;
    int64_t rows = c->in[0].type.shape[0], n = type_elements(&c->in[1].type);
    int64_t bytes = c->in[0].type.shape[1] * (int64_t)dtype_bytes(c->in[0].type.dtype);
    weft_status status = embedding_ids(c, &c->in[1], rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) memcpy(y + i * bytes, w + id_at(&c->in[1], i) * bytes, (size_t)bytes);
    return WEFT_OK;
}

const weft_kernel SIMD(embedding) = {
    .name = SIMD_NAME, .op = &weft_op_embedding, .min_isa = SIMD_LEVEL, .run = forward_run};

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    (void)env;
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    return (size_t)(n->out[0].type.shape[0] + 1 + type_elements(&n->in[1]->type)) * sizeof(int64_t);
}

/* Counts, then their running sums: the places of row r, in order, become place[end[r - 1]] .. place[end[r]]. */
static void places_by_row(const tensor *ids, int64_t n, int64_t rows, int64_t *end, int64_t *place) {
    memset(end, 0, (size_t)(rows + 1) * sizeof *end);
    for (int64_t i = 0; i < n; i++) end[id_at(ids, i) + 1]++;
    for (int64_t r = 0; r < rows; r++) end[r + 1] += end[r];
    for (int64_t i = 0; i < n; i++) place[end[id_at(ids, i)]++] = i;
}

enum { STRIP = 64 }; /* columns: four cache lines, so that threads do not share any */

/* to = the sum of n rows of dy, `width` columns of them; a row is d long. */
static void block_sum(float *restrict to, const float *dy, const int64_t *place, int64_t n, int64_t d,
                      int64_t width) {
    memset(to, 0, (size_t)width * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        const float *restrict from = dy + place[i] * d;
        for (int64_t k = 0; k < width; k++) to[k] += from[k];
    }
}

static void strip_sum(float *to, const float *dy, const int64_t *place, int64_t n, int64_t d, int64_t width) {
    double total[STRIP] = {0};
    if (n <= SUM_ROWS) {
        block_sum(to, dy, place, n, d, width);
        return;
    }
    for (int64_t i = 0; i < n; i += SUM_ROWS) {
        block_sum(to, dy, place + i, n - i < SUM_ROWS ? n - i : SUM_ROWS, d, width);
        for (int64_t k = 0; k < width; k++) total[k] += to[k];
    }
    for (int64_t k = 0; k < width; k++) to[k] = (float)total[k];
}

static weft_status backward_run(void *state, const kernel_call *c) {
    (void)state;
    const float *dy = c->in[0].data;
    float *dw = c->out[0].data;
    int64_t rows = c->out[0].type.shape[0], d = c->out[0].type.shape[1], n = type_elements(&c->in[1].type);
    int64_t strips = (d + STRIP - 1) / STRIP, each = (strips + c->threads - 1) / c->threads * STRIP;
    int64_t *end = c->workspace, *place = end + rows + 1;
    weft_status status = embedding_ids(c, &c->in[1], rows);
    if (status) return status;
    places_by_row(&c->in[1], n, rows, end, place);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t first = 0; first < d; first += each)
        for (int64_t r = 0; r < rows; r++) {
            int64_t begin = r ? end[r - 1] : 0, past = first + each < d ? first + each : d;
            for (int64_t k = first; k < past; k += STRIP)
                strip_sum(dw + r * d + k, dy + k, place + begin, end[r] - begin, d,
                          past - k < STRIP ? past - k : STRIP);
        }
    return WEFT_OK;
}

const weft_kernel SIMD(embedding_backward) = {.name = SIMD_NAME,
                                              .op = &weft_op_embedding_backward,
                                              .min_isa = SIMD_LEVEL,
                                              .declines = backward_declines,
                                              .workspace = backward_workspace,
                                              .run = backward_run};
