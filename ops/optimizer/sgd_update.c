/* sgd_update.c - the optimizer sgd. One step of torch.optim.SGD over a flat buffer:
 *     g' = scale g + weight_decay p
 *     buf = g' at the first step, else momentum buf + (1 - dampening) g'         (momentum > 0)
 *     d = nesterov ? g' + momentum buf : buf                                     (no momentum: g')
 *     p -= lr lr_scale d
 * momentum and weight_decay are multiplied by their factors of the step. */
#include "ops/optimizer/update.h"

#include "graph/settings/minimize.h"

/* Operands: parameters, gradients, momentum buffer (optional), then scalars. */
enum { P, G, BUF, LR, STEP, SCALE, MOMENTUM, DECAY };

#define F(field) offsetof(sgd_update_attrs, field)
static const op_attr attrs[] = {
    {"lr_scale", ATTR_REAL, F(lr_scale)},         {"momentum", ATTR_REAL, F(momentum)},
    {"dampening", ATTR_REAL, F(dampening)},       {"nesterov", ATTR_BOOL, F(nesterov)},
    {"weight_decay", ATTR_REAL, F(weight_decay)}, {0},
};
#undef F

static bool infer(op_call *c) {
    const sgd_update_attrs *a = c->attrs;
    if (!infer_update(c, LR, 1u << BUF | 1u << SCALE | 1u << MOMENTUM | 1u << DECAY)) return false;
    if (c->n_in <= STEP) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", c->n_in);
    if (a->momentum != 0 && !c->in[BUF])
        return op_fail(c, WEFT_ARGUMENT, "momentum needs its buffer, operand 2");
    return true;
}

static weft_status reference(const kernel_call *c) {
    const sgd_update_attrs *a = c->attrs;
    const tensor *p = &c->in[P], *g = &c->in[G], *buf = &c->in[BUF];
    double lr = scalar_operand(c, LR, 0) * a->lr_scale, scale = scalar_operand(c, SCALE, 1);
    double momentum = a->momentum * scalar_operand(c, MOMENTUM, 1);
    double decay = a->weight_decay * scalar_operand(c, DECAY, 1);
    /* The first step sets the buffer, so its initial value does not matter. */
    bool first = scalar_operand(c, STEP, 1) <= 1;
    if (update_is_skipped(c, SCALE)) return WEFT_OK;
    for (int64_t i = 0; i < type_elements(&p->type); i++) {
        double d = scale * flat_get(g, i) + decay * flat_get(p, i);
        if (a->momentum != 0) {
            double moved = first ? d : momentum * flat_get(buf, i) + (1 - a->dampening) * d;
            flat_set(buf, i, moved);
            d = a->nesterov ? d + momentum * moved : moved;
        }
        flat_set(p, i, flat_get(p, i) - lr * d);
        flat_set(&c->out[0], i, flat_get(p, i));
    }
    return WEFT_OK;
}

const weft_op weft_op_sgd_update = {
    .name = "sgd_update",
    .summary = "a step of SGD on a flat buffer, in place",
    .min_in = 2,
    .max_in = 8,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(sgd_update_attrs, attrs),
    .writes = 1u << P | 1u << BUF,
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            {"f32[7], f32[7], f32[7], f64[], f64[]",
             "lr_scale=1 momentum=0.9 dampening=0.1 weight_decay=0.01"},
            {"f32[5003], f32[5003], f32[5003], f64[], f64[], f64[]", "lr_scale=0.5 momentum=0.9 nesterov=1",
             .low = 2, .high = 3}, /* step > 1 */
            {"f32[99], f32[99], f32[99], f64[], f64[], f64[]", "lr_scale=1 momentum=0.9", .low = -3,
             .high = -1}, /* skipped */
            {"f32[5003], f32[5003], -, f64[], f64[]", "lr_scale=1 weight_decay=0.1"},
            {"f32[301], f32[301], f32[301], f64[], f64[], -, f64[], f64[]",
             "lr_scale=1 momentum=0.3 weight_decay=0.1", .low = 2, .high = 3},
            {"f32[301], f32[301], -, f64[], f64[], f64[], -, f64[]", "lr_scale=1 weight_decay=0.1", .low = 2,
             .high = 3},
            {"f64[7], f64[7], f64[7], f64[], f64[]", "lr_scale=1 momentum=0.9"},
            {"f32[7], f32[7], -, f64[], f64[]", "lr_scale=1 momentum=0.9",
             .error = "momentum needs its buffer"},
            {"f32[7], f32[6], f32[7], f64[], f64[]", "lr_scale=1", .error = "must be like operand 0"},
            {"f32[7], f32[7], f32[7], f32[], f64[]", "lr_scale=1", .error = "must be f64[]"},
            {"f32[7], f32[7]", "lr_scale=1", .error = "is missing"},
            {0}},
};

/* The rules of the constructor, and one of ours: dampening without momentum has no effect in PyTorch. */
static const char *broken(const minimize_attrs *a) {
    if (a->momentum < 0) return "momentum must not be negative";
    if (a->nesterov && (a->momentum == 0 || a->dampening != 0))
        return "nesterov needs momentum > 0 and dampening 0";
    if (a->dampening != 0 && a->momentum == 0) return "dampening is set, but it damps momentum, which is 0";
    return NULL;
}

const optimizer_kind optimizer_sgd = {
    .type = "sgd",
    .update = &weft_op_sgd_update,
    .fields = {"momentum", "dampening", "nesterov"},
    .slots = {{"momentum_buffer", .need = offsetof(minimize_attrs, momentum)}},
    .broken = broken,
};
