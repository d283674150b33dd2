/* update.c - rows of the optimizer's ops: flat buffers of f32 or f64; scalars are f64 in the GPU's memory. */
#include "ops/cuda/cuda.h"
#include "ops/optimizer/update.h"

#define ROW(title) const weft_kernel cuda_##title = {.name = "cuda", .op = &weft_op_##title, CUDA_RUN(title)};
ROW(sgd_update)
ROW(adam_update)
ROW(accumulate)
ROW(chunk_squares)
ROW(clip_scale)
ROW(loss_scale)
ROW(schedule)

/* The running total, where root_sum has more operands than one launch takes. */
static size_t root_workspace(const weft_node *n, const kernel_env *env) {
    (void)n;
    (void)env;
    return sizeof(double);
}
const weft_kernel cuda_root_sum = {
    .name = "cuda", .op = &weft_op_root_sum, .workspace = root_workspace, CUDA_RUN(root_sum)};
