/* update.c - rows of the optimizer's ops: flat buffers of f32 or f64; scalars are f64 in the GPU's memory. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/kit/parts.h"
#include "ops/optimizer/update.h"

#define ROW(title) CUDA_KERNEL_OF(title, title, CUDA_RUN(title));
ROW(sgd_update)
ROW(adam_update)
ROW(accumulate)
ROW(clip_scale)
ROW(loss_scale)
ROW(schedule)

/* Nothing is read of the gradient; nothing is copied where the values are there already. */
static void renew_work(const weft_node *n, node_work *w) {
    if (value_is_within(n->in[2], n->in[0]))
        *w = (node_work){0};
    else
        w->read = w->written;
}
CUDA_KERNEL(renew, .work = renew_work);

/* The bucket's parameters, as many as fit a launch. */
static void squares_work(const weft_node *n, node_work *w) {
    w->launches = launches_of(n->variable->n_members, NORM_PARTS);
}
CUDA_KERNEL(chunk_squares, .work = squares_work);

static void root_work(const weft_node *n, node_work *w) {
    w->launches = launches_of(n->n_in, NORM_PARTS);
}

/* The running total, where root_sum has more operands than one launch takes. */
static size_t root_workspace(const weft_node *n, const kernel_env *env) {
    return sizeof(double);
}
CUDA_KERNEL(root_sum, .workspace = root_workspace, .work = root_work);
