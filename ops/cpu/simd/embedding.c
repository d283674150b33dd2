/* embedding.c - embedding, which copies rows of any type, and its backward op in f32. The backward op shares out columns, not rows: every
 * thread walks all ids in order and adds its columns, so no sum depends on the number of threads. */
#include "ops/cpu/simd/simd.h"
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

static void add_row(float *restrict to, const float *restrict from, int64_t n) {
    for (int64_t k = 0; k < n; k++) to[k] += from[k];
}

static weft_status backward_run(void *state, const kernel_call *c) {
    (void)state;
    enum { STRIP = 64 }; /* columns: four cache lines, so that threads do not share any */
    const float *dy = c->in[0].data;
    float *dw = c->out[0].data;
    int64_t rows = c->out[0].type.shape[0], d = c->out[0].type.shape[1], n = type_elements(&c->in[1].type);
    int64_t strips = (d + STRIP - 1) / STRIP, each = (strips + c->threads - 1) / c->threads * STRIP;
    weft_status status = embedding_ids(c, &c->in[1], rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) memset(dw + i * d, 0, (size_t)d * sizeof *dw);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t first = 0; first < d; first += each) {
        int64_t width = first + each < d ? each : d - first;
        for (int64_t i = 0; i < n; i++)
            add_row(dw + id_at(&c->in[1], i) * d + first, dy + i * d + first, width);
    }
    return WEFT_OK;
}

const weft_kernel SIMD(embedding_backward) = {.name = SIMD_NAME,
                                              .op = &weft_op_embedding_backward,
                                              .min_isa = SIMD_LEVEL,
                                              .declines = backward_declines,
                                              .run = backward_run};
