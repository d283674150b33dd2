/* loss_scale.c - dynamic loss scaling, as torch.amp.GradScaler, computed in the graph so that no step waits
 * for the host:
 *     good:      factor = min(1, max_norm / (norm / scale + 1e-6)) / scale      (no clipping: 1 / scale)
 *                the scale doubles after growth_interval good steps in a row, as long as f32 can hold it
 *     overflow:  factor = -1: the updates do nothing; scale / 2; no step is counted
 * A gradient that is not finite makes the norm not finite. The norm is over all gradients of all ranks, so
 * all ranks decide alike. */
#include "ops/optimizer/update.h"

#include <float.h>
#include <math.h>

#define F(field) offsetof(loss_scale_attrs, field)
static const op_attr attrs[] = {
    {"max_norm", ATTR_REAL, F(max_norm)},
    {"growth_interval", ATTR_INT, F(growth_interval), 1, INT64_MAX},
    {0},
};
#undef F

/* Operands norm, scale, good steps; results factor, next scale, next good steps, steps done; all f64[]. */
static bool infer(op_call *c) {
    const loss_scale_attrs *a = c->attrs;
    if (a->max_norm < 0)
        return op_fail(c, WEFT_ARGUMENT, "max_norm %g: it must not be negative", a->max_norm);
    if (!infer_update(c, 0, 0)) return false;
    c->n_out = 4;
    for (int k = 0; k < c->n_out; k++) c->out[k] = type_scalar(WEFT_F64);
    return true;
}

static weft_status reference(const kernel_call *c) {
    const loss_scale_attrs *a = c->attrs;
    double norm = scalar_operand(c, 0, 0), scale = scalar_operand(c, 1, 1), good = scalar_operand(c, 2, 0);
    bool is_good = isfinite(norm), grows = is_good && good + 1 >= (double)a->growth_interval;
    /* norm is of scaled gradients, so norm / scale is the true one. */
    double clip = a->max_norm > 0 ? fmin(1, a->max_norm / (norm / scale + 1e-6)) : 1;
    double grown = 2 * scale <= FLT_MAX ? 2 * scale : scale;
    const double out[] = {is_good ? clip / scale : -1,
                          is_good ? (grows ? grown : scale) : fmax(0.5 * scale, FLT_MIN),
                          is_good && !grows ? good + 1 : 0, is_good};
    for (int k = 0; k < 4; k++) *(double *)c->out[k].data = out[k];
    return WEFT_OK;
}

const weft_op weft_op_loss_scale = {
    .name = "loss_scale",
    .summary = "f16's dynamic loss scale: the factor on the gradients, and the next scale",
    .min_in = 3,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(loss_scale_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){{"f64[], f64[], f64[]", "growth_interval=2", .out = "f64[], f64[], f64[], f64[]",
                             .low = 1, .high = 3},
                            {"f64[], f64[], f64[]", "max_norm=0.5 growth_interval=9", .low = 1, .high = 2},
                            {"f64[], f64[], f32[]", "growth_interval=1", .error = "must be f64[]"},
                            {"f64[], f64[], f64[]", .error = "growth_interval=0: it must be at least 1"},
                            {0}},
};
