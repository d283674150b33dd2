/* batch_norm.c - rows of batch_norm and its backward op, over channels-last images (or [N, C], which is the
 * same in memory). */
#include "ops/cuda/kit/columns.h"
#include "ops/cuda/kit/row_kit.h"
#include "ops/norm_loss/norm.h"

/* Workspace: the parts of the column sums, `numbers` floats for each chunk and channel. */
static size_t parts(const tensor_type *x, int numbers) {
    int64_t channels = x->shape[1], rows = type_elements(x) / channels;
    return (size_t)(columns_chunks(rows, channels, dtype_bytes(x->dtype)) * channels * numbers) *
           sizeof(float);
}

/* The parts hold count, mean and squares. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    return parts(&n->in[0]->type, 3);
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    return parts(&n->in[1]->type, 2);
}

/* Parts of the statistics, their totals, then the result: the images (x, or dy and x) are read twice. */
static void add_passes(node_work *w, double images, double parts) {
    w->launches = 3;
    w->read += images + parts;
    w->written += parts;
}

static void work(const weft_node *n, node_work *w) {
    add_passes(w, value_bytes(n->in[0]), (double)workspace(n, NULL));
}

static void backward_work(const weft_node *n, node_work *w) {
    add_passes(w, value_bytes(n->in[0]) + value_bytes(n->in[1]), (double)backward_workspace(n, NULL));
}

CUDA_KERNEL(batch_norm, .declines = declines_types, .workspace = workspace, .work = work);
CUDA_KERNEL(batch_norm_backward, .declines = declines_types, .workspace = backward_workspace,
            .work = backward_work);
