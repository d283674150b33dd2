/* onednn_matmul.c - matmul and linear by oneDNN in f32.
 *
 * Operands of matmul come at any strides: permuted and transposed views are handed over as they are, batch
 * axes that lie evenly are merged, and a batch that only the left operand has becomes more rows of one
 * product. What oneDNN does not take (neither rows nor columns contiguous, a broadcast inside a matrix, an
 * order of batch axes that has only its reference) is copied into the workspace first.
 */
#include "ops/cpu/onednn.h"
#include "ops/matmul.h"

#include <string.h>

enum { BATCH_AXES = WEFT_MAX_NDIM - 2 };

/* rows x columns, once for every place of the batch axes; an axis of length 1 serves all places of the
 * others'. */
typedef struct matrices {
    int64_t batch[BATCH_AXES], batch_stride[BATCH_AXES];
    int64_t rows, columns, row_stride, column_stride;
} matrices;

typedef struct product {
    int n_batch;
    matrices a, b, out; /* out is row-major */
    int64_t bias;       /* its length, 0: none */
} product;

/* ---- a node as a product ---- */

static void value_strides(const weft_value *v, int64_t stride[WEFT_MAX_NDIM]) {
    if (v->has_layout)
        memcpy(stride, v->stride, sizeof v->stride);
    else
        stride_row_major(&v->type, stride);
}

/* Strides along axes of length 1 say nothing; they become what a contiguous matrix would have. */
static void tidy(matrices *m) {
    if (m->columns == 1) m->column_stride = 1;
    if (m->rows == 1) m->row_stride = m->column_stride == 1 ? m->columns : 1;
}

static void load(const weft_value *v, bool transposed, int n_batch, matrices *m) {
    int64_t stride[WEFT_MAX_NDIM];
    value_strides(v, stride);
    int last = v->type.ndim - 1, row = transposed ? last : last - 1, column = transposed ? last - 1 : last;
    *m = (matrices){.rows = v->type.shape[row],
                    .columns = v->type.shape[column],
                    .row_stride = stride[row],
                    .column_stride = stride[column]};
    for (int i = 0; i < n_batch; i++) {
        int from = i - (n_batch - (last - 1));
        bool repeats = from < 0 || v->type.shape[from] == 1 || stride[from] == 0;
        m->batch[i] = repeats ? 1 : v->type.shape[from];
        m->batch_stride[i] = repeats ? 0 : stride[from];
    }
    tidy(m);
}

/* Whether axes i and i + 1 of m step evenly, or repeat both. */
static bool is_even(const matrices *m, int i, int64_t inner) {
    if (m->batch[i] == 1 && m->batch[i + 1] == 1) return true;
    return m->batch[i] > 1 && m->batch[i + 1] == inner &&
           m->batch_stride[i] == inner * m->batch_stride[i + 1];
}

/* Takes axis i out; what it counted is in axis i + 1 by now, or was nothing. */
static void drop_axis(matrices *m, int i, int n_batch, bool merge) {
    if (merge) m->batch[i + 1] *= m->batch[i];
    for (int k = i; k + 1 < n_batch; k++) {
        m->batch[k] = m->batch[k + 1];
        m->batch_stride[k] = m->batch_stride[k + 1];
    }
}

static void merge_batches(product *p) {
    for (int i = p->n_batch - 1; i >= 0; i--) {
        bool nothing = p->out.batch[i] == 1, more = i + 1 < p->n_batch;
        int64_t inner = more ? p->out.batch[i + 1] : 0;
        bool even =
            more && is_even(&p->a, i, inner) && is_even(&p->b, i, inner) && is_even(&p->out, i, inner);
        if (!nothing && !even) continue;
        drop_axis(&p->a, i, p->n_batch, !nothing);
        drop_axis(&p->b, i, p->n_batch, !nothing);
        drop_axis(&p->out, i, p->n_batch, !nothing);
        p->n_batch--;
    }
}

/* One batch axis that b does not have is more rows of a. */
static void batch_to_rows(product *p) {
    matrices *a = &p->a;
    if (p->n_batch != 1 || p->b.batch[0] != 1 || a->batch[0] == 1) return;
    if (a->batch_stride[0] != a->rows * a->row_stride && a->rows != 1) return;
    if (a->rows == 1) a->row_stride = a->batch_stride[0];
    a->rows *= a->batch[0];
    p->out.rows = a->rows;
    p->out.row_stride = p->out.columns;
    p->n_batch = 0;
}

static product product_of(const weft_node *n) {
    product p = {0};
    const weft_value *x = n->in[0], *w = n->in[1], *y = &n->out[0];
    if (n->op == &weft_op_linear) {
        int64_t in = w->type.shape[1], out = w->type.shape[0], rows = type_elements(&x->type) / in;
        p.a = (matrices){.rows = rows, .columns = in, .row_stride = in, .column_stride = 1};
        p.b = (matrices){.rows = in, .columns = out, .row_stride = 1, .column_stride = in};
        p.out = (matrices){.rows = rows, .columns = out, .row_stride = out, .column_stride = 1};
        p.bias = n->n_in == 3 && n->in[2] ? out : 0;
        tidy(&p.b);
        return p;
    }
    const matmul_attrs *t = n->attrs;
    p.n_batch = y->type.ndim - 2;
    load(x, t->transpose_a, p.n_batch, &p.a);
    load(w, t->transpose_b, p.n_batch, &p.b);
    load(y, false, p.n_batch, &p.out);
    merge_batches(&p);
    batch_to_rows(&p);
    return p;
}

/* ---- a product as a problem ---- */

typedef struct matmul_plan {
    onednn_problem problem;
    onednn_facts facts;
    matrices from[2]; /* the operands as they come */
    int n_batch;
    bool copies[2];    /* whether they are made contiguous first */
    size_t copy_at[2]; /* in the workspace */
    size_t bytes;      /* of workspace */
} matmul_plan;

static bool is_taken(const matrices *m) {
    return (m->column_stride == 1 && m->row_stride >= m->columns) ||
           (m->row_stride == 1 && m->column_stride >= m->rows);
}

/* Row-major, batch by batch; returns the number of elements. */
static int64_t make_dense(matrices *m, int n_batch) {
    int64_t count = m->rows * m->columns;
    m->row_stride = m->columns;
    m->column_stride = 1;
    for (int i = n_batch - 1; i >= 0; i--) {
        m->batch_stride[i] = count;
        count *= m->batch[i];
    }
    return count;
}

static onednn_tensor matrices_tensor(const matrices *m, int n_batch) {
    onednn_tensor t = {.ndim = n_batch + 2};
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

static bool plan_with(const product *p, const kernel_env *env, matmul_plan *m) {
    matrices in[2] = {p->a, p->b};
    size_t at = 0;
    m->n_batch = p->n_batch;
    for (int i = 0; i < 2; i++) {
        m->from[i] = in[i];
        m->copy_at[i] = at;
        if (m->copies[i]) at += size_align((size_t)make_dense(&in[i], p->n_batch) * sizeof(float), MEM_ALIGN);
    }
    m->problem = (onednn_problem){.kind = ONEDNN_MATMUL,
                                  .threads = env->threads,
                                  .src = matrices_tensor(&in[0], p->n_batch),
                                  .weight = matrices_tensor(&in[1], p->n_batch),
                                  .dst = matrices_tensor(&p->out, p->n_batch)};
    if (p->bias) m->problem.bias = (onednn_tensor){.ndim = 2, .shape = {1, p->bias}, .stride = {p->bias, 1}};
    bool fine = onednn_describe(&m->problem, &m->facts);
    m->bytes = at + m->facts.scratch_bytes;
    return fine;
}

/* Copies what cannot be handed over at all; when that leaves oneDNN with its reference, everything uneven. */
static bool plan_of(const weft_node *n, const kernel_env *env, matmul_plan *m) {
    product p = product_of(n);
    *m = (matmul_plan){.copies = {!is_taken(&p.a), !is_taken(&p.b)}};
    if (plan_with(&p, env, m) && !m->facts.is_reference) return true;
    const matrices *in[2] = {&p.a, &p.b};
    for (int i = 0; i < 2; i++) {
        matrices dense = *in[i];
        make_dense(&dense, p.n_batch);
        m->copies[i] = memcmp(&dense, in[i], sizeof dense) != 0;
    }
    return plan_with(&p, env, m);
}

/* ---- the kernel ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    matmul_plan m;
    if (n->out[0].type.dtype != WEFT_F32) return "not f32";
    const char *why = onednn_exceeds(env);
    if (why) return why;
    for (int i = 0; n->op == &weft_op_linear && i < n->n_in; i++)
        if (n->in[i] && !lies_row_major(n->in[i])) return "operands must be row-major";
    if (!lies_row_major(&n->out[0])) return "the result must be row-major";
    return plan_of(n, env, &m) ? NULL : "oneDNN has no primitive for these shapes";
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    matmul_plan m;
    return plan_of(n, env, &m) ? m.bytes : SIZE_MAX;
}

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

/* Row `at` (counted over all batches) of operand `from`. */
static const float *row_at(const float *data, const matrices *from, int n_batch, int64_t at) {
    data += at % from->rows * from->row_stride;
    at /= from->rows;
    for (int i = n_batch - 1; i >= 0; i--) {
        data += at % from->batch[i] * from->batch_stride[i];
        at /= from->batch[i];
    }
    return data;
}

static void copy_dense(const float *data, const matrices *from, int n_batch, float *to, int threads) {
    int64_t rows = from->rows, columns = from->columns, step = from->column_stride;
    for (int i = 0; i < n_batch; i++) rows *= from->batch[i];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *x = row_at(data, from, n_batch, r);
        for (int64_t j = 0; j < columns; j++) to[r * columns + j] = x[j * step];
    }
}

static weft_status matmul_run(void *state, const kernel_call *c) {
    matmul_state *s = state;
    const matmul_plan *m = &s->plan;
    char *copies = (char *)c->workspace;
    void *in[2] = {c->in[0].data, c->in[1].data};
    for (int i = 0; i < 2; i++) {
        if (!m->copies[i]) continue;
        copy_dense(in[i], &m->from[i], m->n_batch, (float *)(copies + m->copy_at[i]), c->threads);
        in[i] = copies + m->copy_at[i];
    }
    onednn_buffers b = {.src = in[0], .weight = in[1], .dst = c->out[0].data};
    if (c->n_in == 3) b.bias = c->in[2].data;
    if (m->facts.scratch_bytes) b.scratch = copies + (m->bytes - m->facts.scratch_bytes);
    return onednn_run(s->primitive, &b, c->error);
}

const weft_kernel onednn_matmul = {
    .name = "onednn",
    .op = &weft_op_matmul,
    .min_isa = WEFT_ISA_SSE2,
    .strided_in = 3,
    .declines = declines,
    .workspace = workspace,
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
    .open = matmul_open,
    .run = matmul_run,
    .close = matmul_close,
};
