/* activations.c - activations that are a few other ops: the compiler fuses them into one kernel, and their
 * gradients follow. Names, defaults and values as in torch.nn.functional. */
#include "ops/kit/op_kit.h"

weft_value *weft_hardtanh(weft_value *x, double min, double max) {
    return weft_clamp(x, min, max);
}

weft_value *weft_relu6(weft_value *x) {
    return weft_clamp(x, 0, 6);
}

weft_value *weft_hardsigmoid(weft_value *x) {
    return weft_scale(weft_clamp(weft_offset(x, 3), 0, 6), 1.0 / 6);
}

/* Klambauer et al., arXiv 1706.02515: with these numbers a layer keeps mean 0 and variance 1. */
weft_value *weft_selu(weft_value *x) {
    const double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    return weft_scale(weft_elu(x, alpha), scale);
}

weft_value *weft_softsign(weft_value *x) {
    return weft_div(x, weft_offset(weft_abs(x), 1));
}

/* Never linear: a threshold would cost digits where x is far below 0. */
weft_value *weft_logsigmoid(weft_value *x) {
    return weft_neg(weft_softplus(weft_neg(x), 1, 1e30));
}

/* The slopes [C] as [C, 1, ...], so that they broadcast along axis 1 of x; one slope, as [], serves every
 * element. NULL after an error: any other weight would broadcast to another shape than that of x. */
static weft_value *slopes_of(weft_value *x, weft_value *weight) {
    int64_t shape[WEFT_MAX_NDIM];
    int ndim = x->type.ndim - 1;
    if (weight->type.ndim <= 1 && type_elements(&weight->type) == 1) return weft_reshape(weight, 0, NULL);
    if (weight->type.ndim != 1 || ndim < 1 || weight->type.shape[0] != x->type.shape[1])
        return value_fail(
            x, WEFT_SHAPE,
            "prelu: the weight is %s: it must be [1], or have a number for each of axis 1 of %s",
            TYPE(&weight->type), TYPE(&x->type));
    for (int i = 0; i < ndim; i++) shape[i] = i ? 1 : weight->type.shape[0];
    return weft_reshape(weight, ndim, shape);
}

weft_value *weft_prelu(weft_value *x, weft_value *weight) {
    if (!x || !weight) return NULL;
    weft_value *below = weft_mul(x, slopes_of(x, weight));
    weft_value *zero = weft_constant(x->node->graph, x->type.dtype, 0, NULL, 0);
    return weft_where(weft_greater(x, zero), x, below);
}
