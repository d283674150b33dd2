/* matmul_act_backward.c - the gradient that a layer passes on through the activation before it, in one
 * kernel.
 *     a [m, k] ([k, m] with transpose_a)   b [k, n] ([n, k])   kept: result 1 of linear_act for z [m, n]
 *     ->   (a b) act'(z) [m, n]   (epilogue.h)
 * The epilogue pass makes it after autodiff, so it has no gradient. */
#include "ops/linalg/epilogue.h"

static const op_attr attrs[] = {
    {"transpose_a", ATTR_BOOL, offsetof(matmul_act_attrs, product.transpose_a), 0, 0},
    {"transpose_b", ATTR_BOOL, offsetof(matmul_act_attrs, product.transpose_b), 0, 0},
    ACT_ATTR(matmul_act_attrs),
    {0},
};

static bool infer(op_call *c) {
    const matmul_act_attrs *a = c->attrs;
    op_call product = *c;
    product.n_in = 2;
    if (op_in(c, 0)->ndim != 2 || op_in(c, 1)->ndim != 2)
        return op_fail(c, WEFT_SHAPE, "a %s and b %s: both must have 2 axes", TYPE(op_in(c, 0)),
                       TYPE(op_in(c, 1)));
    if (!weft_op_matmul.infer(&product)) return false;
    tensor_type kept = act_kept((epilogue_act)a->act, &product.out[0]);
    if (!type_equal(op_in(c, 2), &kept))
        return op_fail(c, WEFT_SHAPE, "the kept operand is %s: it must be %s", TYPE(op_in(c, 2)),
                       TYPE(&kept));
    c->out[0] = product.out[0];
    return true;
}

static weft_status reference(const kernel_call *c) {
    const matmul_act_attrs *a = c->attrs;
    const tensor *out = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0};
    weft_status status = weft_op_matmul.reference(c);
    if (status != WEFT_OK) return status;
    do element_set(out, at, element_get(out, at) * act_slope((epilogue_act)a->act, &c->in[2], at));
    while (index_next(&out->type, at));
    return WEFT_OK;
}

const weft_op weft_op_matmul_act_backward = {
    .name = "matmul_act_backward",
    .summary = "a b, times the derivative of linear_act's activation (made by the epilogue pass)",
    .min_in = 3,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(matmul_act_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,3], f32[3,8], f32[4,8]", "act=gelu_tanh", .out = "f32[4,8]"},
            {"f32[33,64], f32[64,48], f32[33,48]", "act=gelu_tanh", .out = "f32[33,48]"},
            {"f32[64,33], f32[48,64], f32[33,48]", "transpose_a=1 transpose_b=1 act=gelu_tanh"},
            {"f32[33,20], f32[20,130], u8[33,32]", "act=relu", .out = "f32[33,130]", .below = 256},
            {"bf16[33,64], bf16[64,128], u8[33,16]", "act=relu", .out = "bf16[33,128]", .below = 256},
            {"f32[4,3], f32[3,8], f32[4,7]", "act=gelu_tanh",
             .error = "the kept operand is f32[4,7]: it must be f32[4,8]"},
            {"f32[4,3], f32[3,8], f32[4,8]", "act=relu", .error = "it must be u8[4,16]"},
            {"f32[2,4,3], f32[3,8], f32[2,4,8]", "act=gelu_tanh", .error = "both must have 2 axes"},
            {0}},
};
