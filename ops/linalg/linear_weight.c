/* linear_weight.c - the gradients of a linear layer's weight and bias, in one kernel.
 *     dy [rows, out]   x [rows, in]   ->   dw = dy^T x [out, in],   db = sum over rows of dy [out]
 * With f32_output the results of bf16 and f16 operands are f32. The epilogue pass makes it after autodiff, so
 * it has no gradient. */
#include "ops/linalg/epilogue.h"

static const op_attr attrs[] = {
    {"f32_output", ATTR_BOOL, offsetof(linear_attrs, f32_output)},
    {0},
};

/* dw as a matmul of dy and x. */
static matmul_attrs product_attrs(const void *attrs) {
    return (matmul_attrs){.transpose_a = true, .f32_output = ((const linear_attrs *)attrs)->f32_output};
}

static bool infer(op_call *c) {
    matmul_attrs a = product_attrs(c->attrs);
    op_call product = *c;
    product.attrs = &a;
    if (op_in(c, 0)->ndim != 2 || op_in(c, 1)->ndim != 2)
        return op_fail(c, WEFT_SHAPE, "dy %s and x %s: both must have 2 axes", TYPE(op_in(c, 0)),
                       TYPE(op_in(c, 1)));
    if (!weft_op_matmul.infer(&product)) return false;
    c->n_out = 2;
    c->out[0] = product.out[0];
    c->out[1] = type_of(c->out[0].dtype, 1, c->out[0].shape);
    return true;
}

static weft_status reference(const kernel_call *c) {
    matmul_attrs a = product_attrs(c->attrs);
    const tensor *dy = &c->in[0], *db = &c->out[1];
    kernel_call product = *c;
    product.attrs = &a;
    weft_status status = weft_op_matmul.reference(&product);
    for (int64_t column = 0; column < db->type.shape[0] && status == WEFT_OK; column++) {
        double sum = 0;
        for (int64_t row = 0; row < dy->type.shape[0]; row++)
            sum += element_get(dy, (int64_t[]){row, column});
        element_set(db, &column, sum);
    }
    return status;
}

const weft_op weft_op_linear_weight = {
    .name = "linear_weight",
    .summary = "gradients of a linear layer's weight and bias (made by the epilogue pass)",
    .min_in = 2,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(linear_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[4,3], f32[4,5]", .out = "f32[3,5], f32[3]"},
                                   {"f32[70,65], f32[70,33]", .out = "f32[65,33], f32[65]"},
                                   {"f32[1,8], f32[1,16]", .out = "f32[8,16], f32[8]"},
                                   {"bf16[64,48], bf16[64,32]", "f32_output=1", .out = "f32[48,32], f32[48]"},
                                   {"f32[4,3], f32[5,3]", .error = "the inner axes are 4 and 5"},
                                   {"f32[2,4,3], f32[4,5]", .error = "both must have 2 axes"},
                                   {0}},
};
