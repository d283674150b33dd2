/* guard.c - rows of what decides that a step is bad: losses, their means and flags are numbers in the GPU's
 * memory; a launch takes as many as fit. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/kit/parts.h"
#include "ops/optimizer/update.h"

static void flags_work(const weft_node *n, node_work *w) {
    w->launches = launches_of((int)((const guard_attrs *)n->attrs)->count, NORM_PARTS);
}
const weft_kernel cuda_guard = {.name = "cuda", .op = &weft_op_guard, .work = flags_work, CUDA_RUN(guard)};
const weft_kernel cuda_gate = {.name = "cuda", .op = &weft_op_gate, .work = flags_work, CUDA_RUN(gate)};
const weft_kernel cuda_guard_mean = {.name = "cuda", .op = &weft_op_guard_mean, CUDA_RUN(guard_mean)};
