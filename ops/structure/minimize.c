/* minimize.c - "make this loss smaller": which parameters, by which optimizer. A declaration: the autodiff pass
 * appends the parameters and their gradients to its operands (loss, p1..pn, g1..gn), and the optimizer pass puts
 * update nodes in its place. */
#include "graph/core/minimize.h"

#include "ops/kit/op_kit.h"

#include <stdlib.h>
#include <string.h>

#define F(field) offsetof(minimize_attrs, field)
static const op_attr attrs[] = {
    {"pattern", ATTR_STRING, F(pattern), 0, 0},
    {"type", ATTR_STRING, F(type), 0, 0},
    {"name", ATTR_STRING, F(name), 0, 0},
    {"lr", ATTR_REAL, F(lr), 0, 0},
    {"momentum", ATTR_REAL, F(momentum), 0, 0},
    {"dampening", ATTR_REAL, F(dampening), 0, 0},
    {"nesterov", ATTR_BOOL, F(nesterov), 0, 0},
    {"beta1", ATTR_REAL, F(beta1), 0, 0},
    {"beta2", ATTR_REAL, F(beta2), 0, 0},
    {"eps", ATTR_REAL, F(eps), 0, 0},
    {"weight_decay", ATTR_REAL, F(weight_decay), 0, 0},
    {"clip_norm", ATTR_REAL, F(clip_norm), 0, 0},
    {"schedule", ATTR_INT, F(schedule), 0, WEFT_SCHEDULE_COSINE},
    {"warmup_steps", ATTR_INT, F(warmup_steps), 0, INT64_MAX},
    {"step_size", ATTR_INT, F(step_size), 0, INT64_MAX},
    {"total_steps", ATTR_INT, F(total_steps), 0, INT64_MAX},
    {"gamma", ATTR_REAL, F(gamma), 0, 0},
    {"floor", ATTR_REAL, F(floor), 0, 0},
    {"groups", ATTR_STRING, F(groups), 0, 0},
    {"loss_scale", ATTR_REAL, F(loss_scale), 0, 0},
    {"growth_interval", ATTR_INT, F(growth_interval), 0, INT64_MAX},
    {0},
};
#undef F

static bool is_printable(const char *string) {
    while (*string > ' ' && *string <= '~') string++;
    return !*string;
}

/* The rules of torch.optim's constructors that all share. */
static const char *rule_broken(const minimize_attrs *a, const optimizer_kind *kind) {
    if (!a->name || !*a->name || strlen(a->name) > 200 || strpbrk(a->name, " \",=\\") ||
        !is_printable(a->name))
        return "name must be 1 to 200 printable characters without space, quote, ',', '=' and '\\'";
    if (a->lr < 0) return "lr must not be negative";
    if (a->weight_decay < 0) return "weight_decay must not be negative";
    if (kind->broken(a)) return kind->broken(a);
    if (a->loss_scale < 0 || a->loss_scale > 0x1p120) return "loss_scale must be from 0 (65536) to 2^120";
    if (a->clip_norm < 0) return "clip_norm must not be negative (0: no clipping)";
    if (param_groups_broken(a->groups)) return param_groups_broken(a->groups);
    if (a->schedule == WEFT_SCHEDULE_STEP && a->step_size < 1) return "a step schedule needs step_size >= 1";
    if (a->schedule == WEFT_SCHEDULE_COSINE && a->total_steps <= a->warmup_steps)
        return "a cosine schedule needs total_steps above warmup_steps";
    return NULL;
}

static bool no_such_type(op_call *c) {
    text known = {0};
    for (int i = 0; optimizer_at(i); i++)
        text_add(&known, "%s%s", !i ? "" : optimizer_at(i + 1) ? ", " : " or ", optimizer_at(i)->type);
    char *types = text_detach(&known);
    op_fail(c, WEFT_ARGUMENT, "type must be %s", types ? types : "an optimizer's");
    free(types);
    return false;
}

static bool infer(op_call *c) {
    const tensor_type *loss = op_in(c, 0);
    const minimize_attrs *a = c->attrs;
    const optimizer_kind *kind = optimizer_find(a->type);
    if (!kind) return no_such_type(c);
    if (a->nesterov && !optimizer_reads(kind, "nesterov"))
        return op_fail(c, WEFT_ARGUMENT, "nesterov is set, but %s has none: leave it false", a->type);
    const char *why = rule_broken(a, kind);
    if (why) return op_fail(c, WEFT_ARGUMENT, "%s", why);
    if (c->graph->mode != WEFT_TRAIN)
        return op_fail(c, WEFT_ORDER, "graph %s is in eval mode; only WEFT_TRAIN graphs train",
                       c->graph->name);
    if (type_elements(loss) != 1 || loss->dtype != WEFT_F32)
        return op_fail(c, WEFT_SHAPE, "the loss is %s: it must be one f32 number (take a mean)", TYPE(loss));
    c->n_out = 0;
    return true;
}

bool graph_trains(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_minimize) return true;
    return false;
}

const weft_op weft_op_minimize = {
    .name = "minimize",
    .summary = "trains parameters by an optimizer (expanded by autodiff and optimizer)",
    .min_in = 1,
    .max_in = -1,
    .flags = OP_EFFECT | OP_NO_GRADIENT,
    .attrs_bytes = sizeof(minimize_attrs),
    .attrs = attrs,
    .infer = infer,
    .samples =
        (const op_sample[]){
            {"f32[]", "type=\"lion\" name=\"x\"", .error = "sgd, adam or adamw"},
            {"f32[2]", "type=\"sgd\" name=\"x\"", .error = "one f32 number"},
            {"f32[]", "type=\"sgd\" name=\"x\" nesterov=1", .error = "nesterov needs"},
            {"f32[]", "type=\"sgd\" name=\"x\" loss_scale=-1", .error = "loss_scale must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" growth_interval=-1", .error = "growth_interval=-1"},
            {0}},
};
