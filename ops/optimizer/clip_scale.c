/* clip_scale.c - the factor of torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)), f64[] from
 * f64[]. A norm that is not finite gives what PyTorch's gives (NaN, or 0 for infinity), which shows in the
 * gradients. */
#include "ops/optimizer/update.h"

static const op_attr attrs[] = {
    {"max_norm", ATTR_REAL, offsetof(clip_scale_attrs, max_norm)},
    {0},
};

static bool infer(op_call *c) {
    const clip_scale_attrs *a = c->attrs;
    if (!(a->max_norm > 0)) return op_fail(c, WEFT_ARGUMENT, "max_norm %g: it must be above 0", a->max_norm);
    if (!infer_update(c, 0, 0)) return false;
    c->out[0] = type_scalar(WEFT_F64);
    return true;
}

static weft_status reference(const kernel_call *c) {
    double scale = ((const clip_scale_attrs *)c->attrs)->max_norm / (scalar_operand(c, 0, 0) + 1e-6);
    /* A NaN is not above 1, so it passes. */
    *(double *)c->out[0].data = scale > 1 ? 1 : scale;
    return WEFT_OK;
}

const weft_op weft_op_clip_scale = {
    .name = "clip_scale",
    .summary = "min(1, max_norm / (norm + 1e-6))",
    .min_in = 1,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(clip_scale_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples = (const op_sample[]){{"f64[]", "max_norm=0.5", .out = "f64[]", .low = 1, .high = 2},
                                   {"f64[]", "max_norm=0.5", .out = "f64[]", .low = 0.1, .high = 0.2},
                                   {"f64[2]", "max_norm=0.5", .error = "must be f64[]"},
                                   {"f64[]", "max_norm=0", .error = "must be above 0"},
                                   {0}},
};
