/* blas.c - see blas.h: the plan of a product, and the rows of `matmul`, `linear` and the ops of
 * ops/linalg/epilogue.h. */
#include "ops/cuda/linalg/blas.h"

#include "ops/cuda/kit/columns.h"
#include "ops/cuda/kit/operand.h"

/* ---- the plan ---- */

/* BLAS_LEAST: scratch of any product, in bytes; also holds the parts of a bias' gradient (columns.h).
 * BLAS_PARTS: parts of a long sum for which there is room. */
enum { BLAS_LEAST = 1 << 20, BLAS_PARTS = 32 };

/* Reserves bytes of workspace and returns their offset. */
static size_t reserve(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += size_align(bytes, OPERAND_ALIGN);
    return here;
}

/* Scratch of the library, in bytes: it splits long sums (split-k) and keeps the parts in f32. Small results
 * need little room for many parts. */
static size_t library_bytes(const product *p) {
    size_t bytes =
        (size_t)(p->out.rows * p->out.columns * matrices_count(&p->out, p->n_batch)) * sizeof(float);
    size_t room = BLAS_LEAST + bytes * BLAS_PARTS;
    return room < CUDA_BLAS_WORKSPACE ? room : CUDA_BLAS_WORKSPACE;
}

/* The longest batch axis is done by one call (strided batch); the others are loops of calls. */
static void choose_axis(blas_plan *plan) {
    const product *p = &plan->p;
    plan->count = plan->calls = 1;
    for (int i = 0; i < p->n_batch; i++)
        if (p->out.batch[i] > p->out.batch[plan->along]) plan->along = i;
    if (p->n_batch) plan->count = p->out.batch[plan->along];
    plan->calls = matrices_count(&p->out, p->n_batch) / plan->count;
}

/* What follows the product, from the op and its attributes. */
static blas_epilogue epilogue_of(const weft_node *n) {
    blas_epilogue e = {.sums = n->op == &weft_op_linear_weight};
    if (n->op == &weft_op_linear_act) {
        const linear_act_attrs *a = n->attrs;
        e.act = (epilogue_act)a->act;
        e.keeps = a->keep;
    }
    if (n->op == &weft_op_matmul_act_backward) {
        e.act = (epilogue_act)((const matmul_act_attrs *)n->attrs)->act;
        e.is_backward = true;
    }
    tensor_type kept = act_kept(e.act, &n->out[0].type);
    e.kept_columns = kept.shape[kept.ndim - 1] * (e.act == ACT_RELU ? 8 : 1);
    return e;
}

/* Workspace: dense copies, the converted bias, the library's scratch. */
blas_plan blas_plan_of(const weft_node *n) {
    blas_plan plan = {.p = product_of(n), .epilogue = epilogue_of(n)};
    matrices *in[2] = {&plan.p.a, &plan.p.b};
    size_t width = dtype_bytes(n->in[0]->type.dtype), at = 0;
    for (int i = 0; i < 2; i++) {
        plan.from[i] = *in[i];
        plan.copies[i] = !matrices_are_plain(in[i]);
        plan.copy_at[i] = at;
        if (plan.copies[i]) reserve(&at, (size_t)matrices_make_dense(in[i], plan.p.n_batch) * width);
    }
    weft_dtype result = n->out[0].type.dtype;
    plan.converts_bias = plan.p.bias && n->in[2]->type.dtype != result;
    plan.bias_at = at;
    if (plan.converts_bias) reserve(&at, (size_t)plan.p.bias * dtype_bytes(result));
    plan.library_at = at;
    plan.library_bytes = library_bytes(&plan.p);
    plan.bytes = at + SCRATCH_SLACK + plan.library_bytes;
    choose_axis(&plan);
    return plan;
}

/* The walk over the batch axes that are not in one call, the last one fastest; an axis of length 1
 * broadcasts. */
int64_t blas_offset(const blas_plan *plan, const matrices *m, int64_t call) {
    int64_t offset = 0;
    for (int i = plan->p.n_batch - 1; i >= 0; i--) {
        if (i == plan->along) continue;
        int64_t length = plan->p.out.batch[i];
        if (m->batch[i] > 1) offset += call % length * m->batch_stride[i];
        call /= length;
    }
    return offset;
}

/* Every stride that a call may add lowers the alignment to its own lowest bit. */
int blas_alignment(const blas_plan *plan, const matrices *m, const weft_value *v, size_t width) {
    uint64_t bits = v ? (uint64_t)operand_alignment(v) : OPERAND_ALIGN;
    for (int i = 0; i < plan->p.n_batch; i++)
        if (i != plan->along && m->batch[i] > 1) bits |= (uint64_t)m->batch_stride[i] * width;
    return (int)(bits & -bits);
}

/* ---- the rows ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    weft_dtype type = n->in[0]->type.dtype;
    return type == WEFT_F32 || dtype_is_reduced(type) ? NULL : "operands must be f32, bf16 or f16";
}

/* CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD must be a multiple of 8 for GELU (and of 128 bits for ReLU, which
 * act_kept provides). */
static const char *kept_declines(const weft_node *n) {
    enum { KEPT_MULTIPLE = 8 };
    blas_plan plan = blas_plan_of(n);
    bool fits = !blas_reads_kept(&plan) || plan.epilogue.kept_columns % KEPT_MULTIPLE == 0;
    return fits ? NULL : "the operand that GELU keeps must have a multiple of 8 columns";
}

static const char *act_declines(const weft_node *n, const kernel_env *env) {
    const char *why = declines(n, env);
    return why ? why : kept_declines(n);
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    return blas_plan_of(n).bytes;
}

static double matrices_bytes(const matrices *m, const blas_plan *plan, size_t width) {
    return (double)(m->rows * m->columns * matrices_count(m, plan->p.n_batch)) * (double)width;
}

/* The gradient of a bias, which is apart unless a table says otherwise (blas_open): dy is read again, and its
 * column sums are made in parts. */
static void add_sums(const weft_node *n, node_work *w) {
    const tensor_type *dy = &n->in[0]->type;
    double parts =
        (double)(columns_chunks(dy->shape[0], dy->shape[1], dtype_bytes(dy->dtype)) * dy->shape[1]) *
        sizeof(float);
    w->launches += 2;
    w->read += value_bytes(n->in[0]) + parts;
    w->written += parts;
    w->apart += value_bytes(n->in[0]) + 2 * parts;
}

/* Calls for the batch, dense copies of operands, the conversion of a bias. Each call counts as one launch:
 * the library may split a sum and add its parts by another kernel. */
static void work(const weft_node *n, node_work *w) {
    blas_plan plan = blas_plan_of(n);
    w->launches = (int)plan.calls + plan.copies[0] + plan.copies[1] + plan.converts_bias;
    for (int i = 0; i < 2; i++) {
        double bytes = matrices_bytes(&plan.from[i], &plan, dtype_bytes(n->in[i]->type.dtype));
        if (!plan.copies[i]) continue;
        w->read += bytes;
        w->written += bytes;
        w->apart += 2 * bytes;
    }
    if (plan.epilogue.sums) add_sums(n, w);
}

#ifdef WEFT_HAS_CUDA
#define TUNE blas_tune
#else
#define TUNE NULL
#endif

#define ROW(of, any_strides, why)                                                                            \
    const weft_kernel cuda_##of = {                                                                          \
        .name = "cublaslt",                                                                                  \
        .op = &weft_op_##of,                                                                                 \
        .strided_in = any_strides,                                                                           \
        .declines = why,                                                                                     \
        .workspace = workspace,                                                                              \
        .work = work,                                                                                        \
        CUDA_OPEN(of),                                                                                       \
        .tune = TUNE,                                                                                        \
    }
ROW(matmul, 3, declines);
ROW(linear, 0, declines);
ROW(linear_act, 0, act_declines);
/* Its left operand (dy) must be row-major: where the bias' gradient is computed apart, the sum goes down the
 * columns. */
ROW(linear_weight, 2, declines);
ROW(matmul_act_backward, 3, act_declines);
