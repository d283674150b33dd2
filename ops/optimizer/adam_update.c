/* adam_update.c - the optimizers adam and adamw. One step of torch.optim.Adam (decoupled: AdamW) over a flat
 * buffer, with lr already multiplied by lr_scale and t = step, from 1:
 *     g' = scale g + weight_decay p              (decoupled: p *= 1 - lr weight_decay instead)
 *     m += (1 - beta1) (g' - m)        v = beta2 v + (1 - beta2) g'^2
 *     p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 * beta1 and weight_decay are multiplied by their factors of the step.
 * Kingma and Ba, arXiv 1412.6980, algorithm 1; Loshchilov and Hutter, arXiv 1711.05101, algorithm 2. */
#include "ops/optimizer/build.h"
#include "ops/optimizer/update.h"

#include <math.h>

/* Operands: parameters, gradients, first and second moment, then scalars. */
enum { P, G, M, V, LR, STEP, SCALE, MOMENTUM, DECAY };

#define F(field) offsetof(adam_update_attrs, field)
static const op_attr attrs[] = {
    {"lr_scale", ATTR_REAL, F(lr_scale)},
    {"beta1", ATTR_REAL, F(beta1)},
    {"beta2", ATTR_REAL, F(beta2)},
    {"eps", ATTR_REAL, F(eps)},
    {"weight_decay", ATTR_REAL, F(weight_decay)},
    {"decoupled", ATTR_BOOL, F(decoupled)},
    {0},
};
#undef F

static bool infer(op_call *c) {
    const adam_update_attrs *a = c->attrs;
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return op_fail(c, WEFT_ARGUMENT, "betas %g and %g: they must be in [0, 1)", a->beta1, a->beta2);
    return infer_update(c, LR, 1u << SCALE | 1u << MOMENTUM | 1u << DECAY);
}

/* Each element is computed in double and rounded when it is stored. */
static weft_status reference(const kernel_call *c) {
    const adam_update_attrs *a = c->attrs;
    const tensor *p = &c->in[P], *m = &c->in[M], *v = &c->in[V];
    double lr = scalar_operand(c, LR, 0) * a->lr_scale, step = scalar_operand(c, STEP, 1);
    double scale = scalar_operand(c, SCALE, 1);
    double beta1 = a->beta1 * scalar_operand(c, MOMENTUM, 1);
    double decay = a->weight_decay * scalar_operand(c, DECAY, 1);
    if (update_is_skipped(c, SCALE)) return WEFT_OK;
    double rate = lr / (1 - pow(beta1, step)), root = sqrt(1 - pow(a->beta2, step));
    for (int64_t i = 0; i < type_elements(&p->type); i++) {
        double w = flat_get(p, i), g = scale * flat_get(&c->in[G], i);
        if (a->decoupled)
            w *= 1 - lr * decay;
        else
            g += decay * w;
        double mi = flat_get(m, i) + (1 - beta1) * (g - flat_get(m, i));
        double vi = a->beta2 * flat_get(v, i) + (1 - a->beta2) * g * g;
        flat_set(m, i, mi);
        flat_set(v, i, vi);
        flat_set(p, i, w - rate * mi / (sqrt(vi) / root + a->eps));
        flat_set(&c->out[0], i, flat_get(p, i));
    }
    return WEFT_OK;
}

const weft_op weft_op_adam_update = {
    .name = "adam_update",
    .summary = "a step of Adam or AdamW on a flat buffer, in place",
    .min_in = 6,
    .max_in = 9,
    .flags = OP_EFFECT | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(adam_update_attrs, attrs),
    .writes = 1u << P | 1u << M | 1u << V,
    .infer = infer,
    .reference = reference,
    /* All operands are above 0, because v and step must be. */
    .samples =
        (const op_sample[]){
            {"f32[7], f32[7], f32[7], f32[7], f64[], f64[]",
             "lr_scale=1 beta1=0.9 beta2=0.999 eps=1e-8 weight_decay=0.1", .low = 1, .high = 3},
            {"f32[5003], f32[5003], f32[5003], f32[5003], f64[], f64[], f64[]",
             "lr_scale=0.5 beta1=0.5 beta2=0.99 eps=1e-8 weight_decay=0.1 decoupled=1", .low = 1, .high = 3},
            {"f32[99], f32[99], f32[99], f32[99], f64[], f64[], f64[]",
             "lr_scale=1 beta1=0.9 beta2=0.99 eps=1e-8", .low = -3, .high = -1}, /* skipped */
            {"f32[301], f32[301], f32[301], f32[301], f64[], f64[], -, f64[], f64[]",
             "lr_scale=1 beta1=0.3 beta2=0.99 eps=1e-8 weight_decay=0.1", .low = 1, .high = 3},
            {"f32[301], f32[301], f32[301], f32[301], f64[], f64[], f64[], f64[], f64[]",
             "lr_scale=1 beta1=0.3 beta2=0.99 eps=1e-8 weight_decay=0.1 decoupled=1", .low = 1, .high = 3},
            {"f64[7], f64[7], f64[7], f64[7], f64[], f64[]", "lr_scale=1 beta1=0.9 beta2=0.999 eps=1e-8",
             .low = 1, .high = 3},
            {"f32[7], f32[7], f32[7], f32[8], f64[], f64[]", "lr_scale=1", .error = "must be like operand 0"},
            {"f32[7], f32[7], f32[7], f32[7], f64[], f64[]", "beta1=1", .error = "must be in [0, 1)"},
            {0}},
};

/* The rules of the constructor: betas in [0, 1), eps at least 0. */
static const char *broken(const minimize_attrs *a) {
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1)) return "betas must be in [0, 1)";
    return a->eps < 0 ? "eps must not be negative" : NULL;
}

static void build_adam(weft_update *u, const minimize_attrs *a) {
    build_amsgrad(u, a, false);
}

static void build_adamw(weft_update *u, const minimize_attrs *a) {
    build_amsgrad(u, a, true);
}

const optimizer_kind optimizer_adam = {
    .type = "adam",
    .update = &weft_op_adam_update,
    .fields = {"beta1", "beta2", "eps", "amsgrad"},
    .build = build_adam,
    .slots = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", .flag = offsetof(minimize_attrs, amsgrad)}},
    .broken = broken,
};

/* The same update with decoupled decay and another default of weight_decay. */
const optimizer_kind optimizer_adamw = {
    .type = "adamw",
    .update = &weft_op_adam_update,
    .fields = {"beta1", "beta2", "eps", "amsgrad"},
    .defaults = {{"weight_decay", 1e-2}},
    .sets = {"decoupled", 1},
    .build = build_adamw,
    .slots = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", .flag = offsetof(minimize_attrs, amsgrad)}},
    .broken = broken,
};
