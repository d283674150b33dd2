/* list.h - the CPU's kernels. For each op the compiler selects the first kernel that does not decline.
 * ONE(name) is one `const weft_kernel name`. ALL(name) is one kernel for each instruction set, compiled from
 * ops/cpu/simd. The reference kernel of every op follows these without a line here. */
/* pointwise: one line for each op, from pointwise_list.h */
ALL(pointwise_fused)
#define X(op, operands, numbers, expression) ALL(pointwise_##op)
#include "ops/pointwise/pointwise_list.h"
#undef X
/* linear algebra and images; cast_* come after oneDNN's own kernel of the op, columns and parts before its
 * plain weight gradient */
ONE(onednn_matmul)
ALL(cast_matmul)
ONE(onednn_linear)
ALL(cast_linear)
ONE(onednn_conv2d)
ALL(cast_conv2d)
ALL(conv_transpose2d_thin)
ONE(onednn_conv_transpose2d)
ALL(cast_conv_transpose2d)
ONE(onednn_columns_weight)
ONE(onednn_parts_weight)
ONE(onednn_conv2d_weight)
ALL(cast_conv2d_weight)
ONE(onednn_pack)
ALL(max_pool2d)
ALL(max_pool2d_backward)
ALL(adaptive_max_pool2d)
ALL(avg_pool2d)
ALL(avg_pool2d_backward)
ALL(adaptive_avg_pool2d)
ALL(adaptive_avg_pool2d_backward)
ALL(interpolate)
ALL(interpolate_backward)
/* reductions */
ALL(reduce_sum)
ALL(reduce_amax)
ALL(reduce_amin)
ALL(reduce_argmax)
ALL(reduce_argmin)
/* shape */
ALL(copy_permute)
ALL(copy_slice)
ALL(copy_broadcast_to)
ALL(copy_reshape)
ALL(copy_reorder)
ALL(copy_concat)
ALL(copy_pad)
ALL(arange)
/* elements by index */
ALL(gather)
ALL(scatter)
ALL(scatter_add)
/* random */
ALL(random_uniform)
ALL(random_normal)
ALL(dropout)
/* optimizers */
ALL(chunk_squares)
ALL(accumulate)
ALL(sgd_update)
ALL(adam_update)
/* normalization and losses */
ALL(softmax)
ALL(log_softmax)
ALL(layer_norm)
ALL(layer_norm_backward)
ALL(rms_norm)
ALL(rms_norm_backward)
ALL(batch_norm)
ALL(batch_norm_backward)
ALL(cross_entropy)
ALL(cross_entropy_backward)
/* embedding and attention */
ALL(embedding)
ALL(embedding_backward)
ALL(attention)
ALL(attention_backward)
/* recurrent */
ALL(lstm)
ALL(lstm_backward)
ALL(rotary)
