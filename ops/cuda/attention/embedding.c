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
    return (size_t)(2 * n->out[0].type.shape[0] + sort_room(ids_of(n))) * sizeof(int32_t);
}

/* The rows that the ids name, not the whole table. */
static void work(const weft_node *n, node_work *w) {
    w->read = value_bytes(n->in[1]) + w->written;
}

/* Keys, three kernels for each byte of them, the ends of each row's ids, the sums. Keys and numbers go
 * from one list to the other for each byte. */
static void backward_work(const weft_node *n, node_work *w) {
    int64_t rows = n->out[0].type.shape[0];
    double list = 2.0 * (double)ids_of(n) * sizeof(int32_t), ends = 2.0 * (double)rows * sizeof(int32_t);
    int passes = 0;
    for (int64_t rest = rows; rest; rest >>= 8) passes++;
    w->launches = 3 + 3 * passes;
    w->read += list * (passes + 2) + ends;
    w->written += list * (passes + 1) + ends;
}

#define IDS "ids are rows of the table"

CUDA_KERNEL(embedding, .declines = declines, .work = work, .data_rule = IDS);
CUDA_KERNEL(embedding_backward, .declines = backward_declines, .workspace = backward_workspace,
            .work = backward_work, .data_rule = IDS);
