/* losses.c - losses composed of other ops, and the check of a loss's two operands, prediction and target. */
#include "ops/kit/op_kit.h"

/* Broadcasting [N] against [N, 1] would give N x N losses without an error, a frequent mistake. */
bool loss_fits(const char *loss, const weft_value *x, const weft_value *target) {
    const weft_value *known = x ? x : target;
    if (!known) return false;
    weft_graph *g = known->node->graph;
    if (!x || !target)
        return model_fail(g->model, g, WEFT_ARGUMENT,
                          "%s: the %s is NULL, and no call before this one failed", loss,
                          x ? "target" : "prediction");
    return target->type.ndim == 0 || shape_equal(&x->type, &target->type) ||
           model_fail(g->model, g, WEFT_SHAPE,
                      "%s: the prediction is %s, the target %s: they must have one shape, as elements are "
                      "compared one "
                      "by one (weft_reshape one of them), or the target be a single number, []",
                      loss, TYPE(&x->type), TYPE(&target->type));
}

/* torch.nn.functional.mse_loss: the mean over all elements. */
weft_value *weft_mse(weft_value *x, weft_value *target) {
    if (!loss_fits("mse", x, target)) return NULL;
    return weft_mean(weft_square(weft_sub(x, target)), 0, NULL, false);
}

/* Without the mean: the caller takes it. */
weft_value *weft_bce_with_logits(weft_value *x, weft_value *target) {
    if (!loss_fits("bce_with_logits", x, target)) return NULL;
    return op_value(&weft_op_bce_with_logits, 2, (weft_value *[]){x, target}, NULL);
}
