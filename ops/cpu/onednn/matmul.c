/* matmul.c - matmul and linear by oneDNN in f32 and bf16.
 *
 * Operands of matmul may have any strides (ops/linalg/product.h). An operand that oneDNN cannot take (neither
 * its rows nor its columns are contiguous, a broadcast within a matrix, an order of batch axes for which it
 * has only its reference) is first copied into the workspace. */
#include "ops/cpu/onednn/onednn.h"
#include "ops/linalg/product.h"
#include "ops/work.h"

#include <string.h>

/* ---- a product as a problem ---- */

/* How a product runs: which operands are copied, and where in the workspace. */
typedef struct matmul_plan {
    onednn_problem problem;
    onednn_description description;
    matrices from[2]; /* the operands with the strides of the node */
    int n_batch;
    bool copies[2];    /* operand i is first copied into contiguous memory */
    size_t copy_at[2]; /* byte offset in the workspace */
    size_t bytes;      /* of workspace: the copies, then oneDNN's scratch */
} matmul_plan;

/* [batch..., rows, columns]; a stride of 0 (a batch axis of length 1) becomes that of dense matrices. */
static onednn_tensor matrices_tensor(const matrices *m, int n_batch, weft_dtype dtype) {
    onednn_tensor t = {.dtype = dtype, .ndim = n_batch + 2};
    for (int i = 0; i < n_batch; i++) {
        t.shape[i] = m->batch[i];
        t.stride[i] = m->batch_stride[i] ? m->batch_stride[i] : m->rows * m->columns;
    }
    t.shape[n_batch] = m->rows;
    t.stride[n_batch] = m->row_stride;
    t.shape[n_batch + 1] = m->columns;
    t.stride[n_batch + 1] = m->column_stride;
    return t;
}

/* Plans with m->copies as given. Returns false when oneDNN has no primitive for that. */
static bool plan_with(const product *p, const weft_node *n, const kernel_env *env, matmul_plan *m) {
    matrices in[2] = {p->a, p->b};
    weft_dtype dtype = n->in[0]->type.dtype;
    size_t at = 0, width = dtype_bytes(dtype);
    m->n_batch = p->n_batch;
    for (int i = 0; i < 2; i++) {
        m->from[i] = in[i];
        m->copy_at[i] = at;
        /* a copy is dense, so in[i] gets the strides of dense matrices */
        if (m->copies[i])
            at += size_align((size_t)matrices_make_dense(&in[i], p->n_batch) * width, MEM_ALIGN);
    }
    m->problem = (onednn_problem){.kind = ONEDNN_MATMUL,
                                  .threads = node_threads(n, env->threads),
                                  .plain = dtype,
                                  .src = matrices_tensor(&in[0], p->n_batch, dtype),
                                  .weight = matrices_tensor(&in[1], p->n_batch, dtype),
                                  .dst = matrices_tensor(&p->out, p->n_batch, n->out[0].type.dtype)};
    if (p->bias)
        m->problem.bias =
            (onednn_tensor){n->in[2]->type.dtype, .ndim = 2, .shape = {1, p->bias}, .stride = {p->bias, 1}};
    bool fine = onednn_describe(&m->problem, &m->description);
    m->bytes = at + m->description.scratch_bytes;
    return fine;
}

/* What oneDNN cannot take. A single row with gaps is a column-major matrix, too, but oneDNN 3.7 reads the
 * gaps on AVX-512; it is copied everywhere, so that a plan does not depend on the library. */
static bool must_copy(const matrices *m) {
    return !matrices_are_plain(m) || (m->rows == 1 && m->columns > 1 && m->column_stride != 1);
}

/* First copies only what oneDNN cannot take at all; where that leaves its reference, copies every operand
 * that is not dense. */
static bool plan_of(const weft_node *n, const kernel_env *env, matmul_plan *m) {
    product p = product_of(n);
    *m = (matmul_plan){.copies = {must_copy(&p.a), must_copy(&p.b)}};
    if (plan_with(&p, n, env, m) && !m->description.is_reference) return true;
    const matrices *in[2] = {&p.a, &p.b};
    for (int i = 0; i < 2; i++) {
        matrices dense = *in[i];
        matrices_make_dense(&dense, p.n_batch);
        m->copies[i] = memcmp(&dense, in[i], sizeof dense) != 0;
    }
    return plan_with(&p, n, env, m);
}

/* ---- the kernel ---- */

/* A reduced product that only the reference could run is declined: simd/cast.c runs it in f32. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    matmul_plan m;
    bool is_f32 = n->in[0]->type.dtype == WEFT_F32;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !onednn_knows(n->in[i]->type.dtype)) return "not f32 or bf16";
    if (!onednn_knows(n->out[0].type.dtype)) return "not f32 or bf16";
    const char *why = onednn_exceeds(env);
    if (why) return why;
    if (!plan_of(n, env, &m))
        return is_f32 ? "oneDNN has no primitive for these shapes"
                      : "oneDNN has no bf16 primitive for this here";
    /* f32 runs by the reference if there is nothing better */
    return m.description.is_reference && !is_f32 ? "oneDNN has only its reference for this in bf16" : NULL;
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    matmul_plan m;
    return plan_of(n, env, &m) ? m.bytes : SIZE_MAX;
}

static bool implementation(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]) {
    matmul_plan m;
    if (!plan_of(n, env, &m)) return false;
    memcpy(name, m.description.implementation, KERNEL_IMPLEMENTATION);
    return true;
}

/* `plan` points nowhere: it is a copy, made again from the node in open. */
typedef struct matmul_state {
    const weft_env *env;
    onednn *primitive;
    matmul_plan plan;
} matmul_state;

static void matmul_close(void *state) {
    matmul_state *s = state;
    if (!s) return;
    onednn_free(s->primitive);
    mem_free(s->env, s, sizeof *s);
}

static weft_status matmul_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    matmul_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a matrix product");
    s->env = env->env;
    weft_status status = plan_of(n, env, &s->plan)
                             ? onednn_new(&s->plan.problem, ONEDNN_GIVEN, env->env, &s->primitive, error)
                             : error_set(error, WEFT_UNSUPPORTED, "oneDNN: no primitive for %s", n->op->name);
    if (status == WEFT_OK)
        *state = s;
    else
        matmul_close(s);
    return status;
}

/* Where row `at` (counted over all batches) of operand `from` begins, in elements; the last batch axis runs
 * fastest. */
static int64_t row_at(const matrices *from, int n_batch, int64_t at) {
    int64_t place = at % from->rows * from->row_stride;
    at /= from->rows;
    for (int i = n_batch - 1; i >= 0; i--) {
        place += at % from->batch[i] * from->batch_stride[i];
        at /= from->batch[i];
    }
    return place;
}

/* Rows of any strides into dense row-major matrices, rows divided among the threads; width 4 or 2 bytes. */
static void copy_dense(const void *data, size_t width, const matrices *from, int n_batch, void *to,
                       int threads) {
    int64_t rows = from->rows * matrices_count(from, n_batch), columns = from->columns,
            step = from->column_stride;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = row_at(from, n_batch, r);
        if (width == sizeof(float))
            for (int64_t j = 0; j < columns; j++)
                ((float *)to)[r * columns + j] = ((const float *)data)[at + j * step];
        else
            for (int64_t j = 0; j < columns; j++)
                ((uint16_t *)to)[r * columns + j] = ((const uint16_t *)data)[at + j * step];
    }
}

/* Workspace: dense copies of the operands that need one, then oneDNN's scratch. */
static weft_status matmul_run(void *state, const kernel_call *c) {
    matmul_state *s = state;
    const matmul_plan *m = &s->plan;
    char *copies = (char *)c->workspace;
    void *in[2] = {c->in[0].data, c->in[1].data};
    for (int i = 0; i < 2; i++) {
        if (!m->copies[i]) continue;
        copy_dense(in[i], dtype_bytes(m->problem.src.dtype), &m->from[i], m->n_batch, copies + m->copy_at[i],
                   c->threads);
        in[i] = copies + m->copy_at[i];
    }
    onednn_buffers b = {.src = in[0], .weight = in[1], .dst = c->out[0].data};
    if (c->n_in == 3) b.bias = c->in[2].data;
    /* the scratch is last */
    if (m->description.scratch_bytes) b.scratch = copies + (m->bytes - m->description.scratch_bytes);
    return onednn_run(s->primitive, &b, c->error);
}

const weft_kernel onednn_matmul = {
    .name = "onednn",
    .op = &weft_op_matmul,
    .min_isa = WEFT_ISA_SSE2,
    .strided_in = 3,
    .declines = declines,
    .workspace = workspace,
    .implementation = implementation,
    .open = matmul_open,
    .run = matmul_run,
    .close = matmul_close,
};

const weft_kernel onednn_linear = {
    .name = "onednn",
    .op = &weft_op_linear,
    .min_isa = WEFT_ISA_SSE2,
    .declines = declines,
    .workspace = workspace,
    .implementation = implementation,
    .open = matmul_open,
    .run = matmul_run,
    .close = matmul_close,
};
