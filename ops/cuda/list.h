/* list.h - the kernels for GPUs. For each op the compiler selects the first kernel that does not decline.
 * RUN(name) is the row cuda_NAME in a .c file of this folder and cuda_NAME_run in a .cu file. OPEN(name) has
 * cuda_NAME_open and cuda_NAME_close too, for what a session builds once (libraries' plans, compiled
 * sources). */
/* pointwise: one line for each op, from ops/pointwise/pointwise_list.h; `pointwise` itself runs fused
 * nodes */
OPEN(pointwise)
#define X(op, operands, numbers, expression) OPEN(pointwise_##op)
#include "ops/pointwise/pointwise_list.h"
#undef X
/* linear algebra and images, by NVIDIA's libraries */
OPEN(matmul)
OPEN(linear)
OPEN(linear_act)
OPEN(linear_weight)
OPEN(matmul_act_backward)
OPEN(conv2d)
OPEN(conv_transpose2d)
OPEN(conv2d_weight)
OPEN(pack)
/* shape */
RUN(permute)
RUN(slice)
RUN(broadcast_to)
RUN(reshape)
RUN(reorder)
RUN(concat)
RUN(pad)
RUN(flip)
RUN(constant)
RUN(arange)
/* elements by index */
RUN(gather)
RUN(scatter)
RUN(scatter_add)
RUN(sort)
/* variables and buckets */
RUN(assign)
RUN(bucket)
RUN(sum_ranks)
/* reductions */
RUN(sum)
RUN(amax)
RUN(amin)
RUN(prod)
RUN(argmax)
RUN(argmin)
RUN(cumsum)
RUN(cumprod)
RUN(recurrence)
/* random */
RUN(random_uniform)
RUN(random_normal)
RUN(dropout)
/* optimizers */
RUN(schedule)
RUN(chunk_squares)
RUN(root_sum)
RUN(clip_scale)
RUN(loss_scale)
RUN(accumulate)
RUN(sgd_update)
RUN(adam_update)
/* norms, losses, softmax */
RUN(softmax)
RUN(log_softmax)
RUN(layer_norm)
RUN(layer_norm_backward)
RUN(rms_norm)
RUN(rms_norm_backward)
RUN(batch_norm)
RUN(batch_norm_backward)
RUN(cross_entropy)
RUN(cross_entropy_backward)
RUN(embedding)
RUN(embedding_backward)
/* pools, images in another size */
RUN(max_pool2d)
RUN(max_pool2d_backward)
RUN(max_pool2d_gather)
RUN(adaptive_max_pool2d)
RUN(avg_pool2d)
RUN(avg_pool2d_backward)
RUN(adaptive_avg_pool2d)
RUN(adaptive_avg_pool2d_backward)
RUN(interpolate)
RUN(interpolate_backward)
/* attention */
RUN(attention)
RUN(attention_plain)
RUN(attention_dropout)
RUN(attention_dropout_plain)
RUN(attention_backward)
RUN(attention_plain_backward)
/* recurrent */
OPEN(lstm)
OPEN(lstm_backward)
RUN(rotary)
