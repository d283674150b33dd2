/* embedding.c - rows of embedding and its backward op. */
#include "ops/cuda/kit/row_kit.h"
#include "ops/cuda/kit/sort.h"
#include "ops/attention/embedding.h"

/* Numbers of ids and rows are ints in the kernels: at most 2^30. */
static int64_t ids_of(const weft_node *n) {
    return type_elements(&n->in[1]->type);
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    if (ids_of(n) > 1 << 30) return "more than 2^30 ids";
    return declines_types(n, env);
}

static const char *backward_declines(const weft_node *n, const kernel_env *env) {
    return n->out[0].type.shape[0] > 1 << 30 ? "more than 2^30 rows" : declines(n, env);
}

/* The first and past slot of each row's ids, and the buffers of the sort. */
static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    (void)env;
    return (size_t)(2 * n->out[0].type.shape[0] + sort_room(ids_of(n))) * sizeof(int32_t);
}

#define IDS "ids are rows of the table"

const weft_kernel cuda_embedding = {
    .name = "cuda", .op = &weft_op_embedding, .declines = declines, .data_rule = IDS, CUDA_RUN(embedding)};
const weft_kernel cuda_embedding_backward = {.name = "cuda",
                                             .op = &weft_op_embedding_backward,
                                             .declines = backward_declines,
                                             .workspace = backward_workspace,
                                             .data_rule = IDS,
                                             CUDA_RUN(embedding_backward)};
