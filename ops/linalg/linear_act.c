/* linear_act.c - an activation of x w^T + b, in one kernel.
 *     x [..., in]   w [out, in]   b [out] (may be left out)
 *     ->   y = act(z) [..., out] with z = x w^T + b; with `keep` result 1 is for matmul_act_backward
 *          (epilogue.h)
 * The epilogue pass makes it after autodiff, so it has no gradient. */
#include "ops/linalg/epilogue.h"
#include "ops/kit/ops.h"

const char *const act_words[] = {"none", "relu", "gelu_tanh", NULL};

static const op_attr attrs[] = {
    ACT_ATTR(linear_act_attrs),
    {"keep", ATTR_BOOL, offsetof(linear_act_attrs, keep)},
    {0},
};

tensor_type act_kept(epilogue_act act, const tensor_type *z) {
    enum { ROW_BITS = 128, BYTE = 8 };
    tensor_type kept = *z;
    if (act == ACT_GELU_TANH) return kept;
    int64_t columns = z->shape[z->ndim - 1];
    kept.dtype = WEFT_U8;
    kept.shape[z->ndim - 1] = (columns + ROW_BITS - 1) / ROW_BITS * (ROW_BITS / BYTE);
    return kept;
}

double act_slope(epilogue_act act, const tensor *kept, const int64_t *at) {
    if (act == ACT_GELU_TANH)
        return weft_op_gelu_tanh_backward.scalar((double[]){1, element_get(kept, at)}, NULL);
    int64_t place[WEFT_MAX_NDIM], last = kept->type.ndim - 1;
    for (int i = 0; i < kept->type.ndim; i++) place[i] = at[i];
    place[last] = at[last] / 8;
    return (double)(element_int(kept, place) >> at[last] % 8 & 1);
}

static bool infer(op_call *c) {
    const linear_act_attrs *a = c->attrs;
    op_call product = *c;
    product.attrs = &(linear_attrs){0};
    if (!weft_op_linear.infer(&product)) return false;
    c->n_out = a->keep ? 2 : 1;
    c->out[0] = product.out[0];
    if (a->keep) c->out[1] = act_kept((epilogue_act)a->act, &c->out[0]);
    return true;
}

/* Writes all bytes of the mask, also the padding. A bit is set unless z <= 0, so NaN passes its gradient as
 * in relu_backward. */
static void keep_signs(const tensor *z, const tensor *mask) {
    int64_t at[WEFT_MAX_NDIM] = {0}, last = z->type.ndim - 1;
    do {
        int64_t bits = 0, from[WEFT_MAX_NDIM];
        for (int i = 0; i < last; i++) from[i] = at[i];
        for (int bit = 0; bit < 8; bit++) {
            from[last] = at[last] * 8 + bit;
            if (from[last] < z->type.shape[last] && !(element_get(z, from) <= 0)) bits |= 1 << bit;
        }
        element_set_int(mask, at, bits);
    } while (index_next(&mask->type, at));
}

static weft_status reference(const kernel_call *c) {
    const linear_act_attrs *a = c->attrs;
    const tensor *y = &c->out[0];
    const weft_op *act = a->act == ACT_RELU ? &weft_op_relu : &weft_op_gelu_tanh;
    int64_t at[WEFT_MAX_NDIM] = {0};
    weft_status status = weft_op_linear.reference(c); /* y is z so far */
    if (status != WEFT_OK) return status;
    if (a->keep && a->act == ACT_RELU) keep_signs(y, &c->out[1]);
    do {
        double z = element_get(y, at);
        if (a->keep && a->act == ACT_GELU_TANH) element_set(&c->out[1], at, z);
        element_set(y, at, act->scalar(&z, NULL));
    } while (index_next(&y->type, at));
    return WEFT_OK;
}

const weft_op weft_op_linear_act = {
    .name = "linear_act",
    .summary = "an activation of x w^T + b (made by the epilogue pass)",
    .min_in = 2,
    .max_in = 3,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(linear_act_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[4,3], f32[5,3], f32[5]", "act=relu", .out = "f32[4,5]"},
            {"f32[2,3,16], f32[24,16]", "act=gelu_tanh", .out = "f32[2,3,24]"},
            {"f32[3,17,64], f32[80,64], f32[80]", "act=gelu_tanh keep=1",
             .out = "f32[3,17,80], f32[3,17,80]"},
            {"f32[33,16], f32[128,16], f32[128]", "act=relu keep=1", .out = "f32[33,128], u8[33,16]"},
            {"f32[2,3,16], f32[256,16]", "act=relu keep=1", .out = "f32[2,3,256], u8[2,3,32]"},
            {"bf16[4,64], bf16[48,64], f32[48]", "act=gelu_tanh keep=1", .out = "bf16[4,48], bf16[4,48]"},
            {"f16[33,64], f16[48,64], f16[48]", "act=relu", .out = "f16[33,48]"},
            {"f32[4,3], f32[5,4]", "act=relu", .error = "the last axis of x must be the weight's axis 1"},
            {"f32[4,3], f32[5,3]", .error = "act"},
            {0}},
};
