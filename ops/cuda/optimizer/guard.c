/* guard.c - rows of what decides that a step is bad: losses, their means and flags are numbers in the GPU's
 * memory; a launch takes as many as fit. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/kit/parts.h"
#include "ops/optimizer/update.h"

static void flags_work(const weft_node *n, node_work *w) {
    w->launches = launches_of((int)((const guard_attrs *)n->attrs)->count, NORM_PARTS);
}
CUDA_KERNEL(guard, .work = flags_work);
CUDA_KERNEL(gate, .work = flags_work);
CUDA_KERNEL_OF(guard_mean, guard_mean, CUDA_RUN(guard_mean));
