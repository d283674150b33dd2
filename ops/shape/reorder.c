/* reorder.c - x in another memory layout; torch.Tensor.contiguous with a memory format. The layout pass makes
 * it where a kernel needs a layout that its operand does not have; graph_order_edges uses it for copies. The
 * strides are those of the values (value->stride). It is made after autodiff, so it has no gradient. */
#include "ops/kit/op_kit.h"

static bool infer(op_call *c) {
    return true;
}

const weft_op weft_op_reorder = {
    .name = "reorder",
    .summary = "x in another layout (made by the layout pass)",
    .min_in = 1,
    .flags = OP_NO_GRADIENT | OP_COMPILER | OP_MOVES,
    .role = ROLE_REORDER,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .infer = infer,
    .reference = reference_copy,
    .samples = (const op_sample[]){{"f32[2,5,4,3]", .out = "f32[2,5,4,3]"},
                                   {"u8[3]", .out = "u8[3]"},
                                   {"f32[2,37,19,21]"},
                                   {"u8[2,3,70,70]"},
                                   {"f32[70000]"},
                                   {0}},
};
