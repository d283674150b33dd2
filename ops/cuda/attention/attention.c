/* attention.c - rows of attention and its backward op: tensor cores for bf16 and f16 with heads up to 128,
 * plain kernels for the rest. None of them stores the scores. */
#include "ops/attention/attention.h"

#include "ops/cuda/kit/row_kit.h"

/* Largest head size of each kind. */
enum { TENSOR_CORE_HEAD = 128, PLAIN_HEAD = 256 };

/* Of q and k, or of v. */
static int64_t widest_head(const weft_node *n, int q) {
    int64_t d = n->in[q]->type.shape[3], e = n->in[q + 2]->type.shape[3];
    return d > e ? d : e;
}

/* The limits of all kernels here; q is the operand that holds the queries. Rows and columns of scores are
 * ints. */
static const char *declines_head(const weft_node *n, const kernel_env *env, int q) {
    const int64_t *s = n->in[q]->type.shape;
    int64_t keys = n->in[q + 1]->type.shape[2];
    if (widest_head(n, q) > PLAIN_HEAD) return "heads of more than 256 elements";
    if (s[2] > 1 << 30 || keys > 1 << 30) return "more than 2^30 queries or keys";
    return declines_types(n, env);
}

static const char *declines_tensor_cores(const weft_node *n, int q) {
    const attention_attrs *a = n->attrs;
    if (!dtype_is_reduced(n->in[q]->type.dtype)) return "not bf16 or f16";
    if (widest_head(n, q) > TENSOR_CORE_HEAD) return "heads of more than 128 elements";
    /* a running maximum of scaled scores needs a scale that keeps the order */
    return a->scale < 0 ? "the scale is negative" : NULL;
}

static const char *plain_declines(const weft_node *n, const kernel_env *env) {
    return declines_head(n, env, 0);
}

static const char *plain_backward_declines(const weft_node *n, const kernel_env *env) {
    return declines_head(n, env, 1);
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    const char *why = declines_head(n, env, 0);
    return why ? why : declines_tensor_cores(n, 0);
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    const char *why = declines_head(n, env, 1);
    return why ? why : declines_tensor_cores(n, 1);
}

/* delta = dy . y of each query, in f32: as many numbers as lse. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)type_elements(&n->in[5]->type) * sizeof(float);
}

/* dq, then dk and dv: each reads all but y; the second reads what the first wrote of delta. */
static void backward_work(const weft_node *n, node_work *w) {
    double delta = (double)backward_workspace(n, NULL);
    w->launches = 2;
    for (int i = 0; i < 4; i++) w->read += value_bytes(n->in[i]);
    if (n->n_in > BACKWARD_MASK) w->read += value_bytes(n->in[BACKWARD_MASK]);
    w->read += delta;
    w->written += delta;
}

const weft_kernel cuda_attention = {.name = "tensor cores",
                                    .op = &weft_op_attention,
                                    .strided_in = ATTENTION_STRIDED,
                                    .declines = declines,
                                    CUDA_RUN(attention)};
CUDA_KERNEL_OF(attention_plain, attention, .strided_in = ATTENTION_STRIDED, .declines = plain_declines,
               CUDA_RUN(attention_plain));
const weft_kernel cuda_attention_dropout = {.name = "tensor cores",
                                            .op = &weft_op_attention_dropout,
                                            .strided_in = ATTENTION_STRIDED,
                                            .declines = declines,
                                            CUDA_RUN(attention_dropout)};
CUDA_KERNEL_OF(attention_dropout_plain, attention_dropout, .strided_in = ATTENTION_STRIDED,
               .declines = plain_declines, CUDA_RUN(attention_dropout_plain));
const weft_kernel cuda_attention_backward = {.name = "tensor cores",
                                             .op = &weft_op_attention_backward,
                                             .strided_in = ATTENTION_BACKWARD_STRIDED,
                                             .declines = backward_declines,
                                             .workspace = backward_workspace,
                                             .work = backward_work,
                                             CUDA_RUN(attention_backward)};
CUDA_KERNEL_OF(attention_plain_backward, attention_backward, .strided_in = ATTENTION_BACKWARD_STRIDED,
               .declines = plain_backward_declines, .workspace = backward_workspace, .work = backward_work,
               CUDA_RUN(attention_plain_backward));
