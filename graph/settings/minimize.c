/* minimize.c - the declaration that parameters are trained to minimize a loss. Operand 0 is the loss f32[]
 * and there are no results. The autodiff pass appends the parameters and their gradients to its operands
 * (loss, p1..pn, g1..gn), and the optimizer pass replaces it by update nodes. */
#include "graph/settings/minimize.h"

#include "graph/core/nearest.h"
#include "graph/core/words.h"
#include "graph/settings/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROW(name, kind, most) {#name, kind, offsetof(minimize_attrs, name), 0, most},
static const op_attr attrs[] = {
#define TEXT(name)       ROW(name, ATTR_STRING, 0)
#define FLAG(name, ...)  ROW(name, ATTR_BOOL, 0)
#define REAL(name, ...)  ROW(name, ATTR_REAL, 0)
#define COUNT(name, ...) ROW(name, ATTR_INT, INT64_MAX)
#define PARTS(name)      ROW(name, ATTR_SCHEDULES, 0)
#include "graph/settings/minimize_list.h"
    {0},
};
#undef ROW

/* The rules that all optimizers share, mostly those of torch.optim's constructors; then the optimizer's own.
 * NULL: all hold. */
static const char *rule_broken(const minimize_attrs *a, const optimizer_kind *kind) {
    /* names are parts of variables' paths */
    if (!a->name || !*a->name || strlen(a->name) > 200 || !text_is_plain(a->name, "\",=\\"))
        return "name must be 1 to 200 printable characters without space, quote, ',', '=' and '\\'";
    if (a->lr < 0) return "lr must not be negative";
    if (a->weight_decay < 0) return "weight_decay must not be negative";
    if (kind->broken && kind->broken(a)) return kind->broken(a);
    if (a->loss_scale < 0 || a->loss_scale > 0x1p120) return "loss_scale must be from 0 (65536) to 2^120";
    if (a->clip_norm < 0 || a->clip_value < 0)
        return "clip_norm and clip_value must not be negative (0: no clipping)";
    if (!(a->ema >= 0 && a->ema < 1)) return "ema must be in [0, 1) (0: no averages)";
    if (a->ema_gamma < 0) return "ema_gamma must not be negative (0: averages without a warm-up)";
    if (a->ema == 0 && (a->ema_gamma != 0 || a->ema_buffers))
        return "ema_gamma and ema_buffers are settings of averages: set ema, too";
    if (param_groups_broken(a->groups)) return param_groups_broken(a->groups);
    return NULL;
}

/* The number that a part multiplies, before any schedule. */
static double scheduled_number(const minimize_attrs *a, const optimizer_kind *kind, weft_scheduled of) {
    if (of == WEFT_SCHEDULED_LR) return 1;
    if (of == WEFT_SCHEDULED_WEIGHT_DECAY) return a->weight_decay;
    return optimizer_reads(kind, "momentum") ? a->momentum : optimizer_reads(kind, "beta1") ? a->beta1 : 0;
}

/* Whether the schedule may make momentum 1 or more. */
static bool momentum_grows(const weft_schedule *s, double momentum) {
    double most =
        fmax(1, fmax(schedule_real(s->gamma),
                     fmax(schedule_real(s->from), fmax(schedule_real(s->middle), schedule_real(s->to)))));
    return s->of == WEFT_SCHEDULED_MOMENTUM && momentum * most >= 1;
}

/* Why the optimizer cannot follow a part; NULL: it can. */
static const char *part_broken(const minimize_attrs *a, const optimizer_kind *kind, const weft_schedule *part,
                               char why[SCHEDULE_WHY]) {
    double number = scheduled_number(a, kind, part->of);
    bool is_lr = part->of == WEFT_SCHEDULED_LR;
    if (is_lr && kind->follows)
        snprintf(why, SCHEDULE_WHY, "%s has no lr: leave it out", kind->type);
    else if (is_lr && kind->reads_lr_once)
        snprintf(why, SCHEDULE_WHY,
                 "%s reads lr at its first step alone, so a schedule would do nothing: leave it out",
                 a->type);
    else if (number == 0)
        snprintf(why, SCHEDULE_WHY, "it multiplies the %s, and %s has none, or it is 0: set it",
                 schedule_numbers[part->of], a->type);
    else if (momentum_grows(part, number))
        snprintf(why, SCHEDULE_WHY, "momentum %g times its factors must stay below 1", number);
    else
        return NULL;
    return why;
}

/* Parts are full, as weft_minimize writes them; those of a file or a dump are checked all the same. */
static bool schedule_holds(op_call *c, const minimize_attrs *a, const optimizer_kind *kind) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    char why[SCHEDULE_WHY];
    if (!schedules_parse(a->schedule, parts, why) || !schedules_fill(parts, why))
        return op_fail(c, WEFT_ARGUMENT, "%s", why);
    for (int i = 0; i < schedule_count(parts); i++)
        if (part_broken(a, kind, &parts[i], why))
            return op_fail(c, WEFT_ARGUMENT, "schedule part %d, %s: %s", i + 1, schedule_kinds[parts[i].kind],
                           why);
    return true;
}

/* The name of a flag that is set although the optimizer does not read it; NULL: there is none. */
static const char *flag_unread(const minimize_attrs *a, const optimizer_kind *kind) {
    for (const op_attr *f = attrs; f->name; f++)
        if (f->kind == ATTR_BOOL && *(const bool *)((const char *)a + f->offset) &&
            f->offset != offsetof(minimize_attrs, ema_buffers) && !optimizer_reads(kind, f->name))
            return f->name;
    return NULL;
}

/* Why a type of PyTorch's is not one of these; NULL: PyTorch does not have it either. */
static const char *why_no_type(const char *type) {
    if (type && strcasecmp(type, "lbfgs") == 0)
        return "LBFGS evaluates the loss several times in one step, as its line search goes, and a graph "
               "computes it once";
    if (type && strcasecmp(type, "sparseadam") == 0)
        return "SparseAdam is for sparse gradients, and gradients are dense here: use adam";
    return NULL;
}

/* Those that builders make for themselves end the list. */
static bool is_for_all(const optimizer_kind *kind) {
    return kind && !kind->follows;
}

/* Lists the known types: "sgd, adam or adamw". */
static bool no_such_type(op_call *c, const char *type) {
    text known = {0};
    if (why_no_type(type)) return op_fail(c, WEFT_UNSUPPORTED, "%s", why_no_type(type));
    nearest near = nearest_to(type ? type : "", type ? strlen(type) : 0);
    const optimizer_kind *const *all = c->graph->model->catalog->optimizers;
    for (int i = 0; is_for_all(all[i]); i++) {
        text_add(&known, "%s%s", !i ? "" : is_for_all(all[i + 1]) ? ", " : " or ", all[i]->type);
        nearest_try(&near, all[i]->type);
    }
    char *types = text_detach(&known);
    op_fail(c, WEFT_ARGUMENT, "there is no optimizer '%s'%s%s must be %s, or one of weft_define_optimizer",
            SHOW(type), nearest_ask(&near).question, near.name ? " The type" : ": type",
            types ? types : "an optimizer's");
    free(types);
    return false;
}

/* Whether parameters of a group have other state than those of none, or share a number with them. */
static const char *group_differs(const minimize_attrs *a, const minimize_attrs *own,
                                 const optimizer_kind *kind) {
    for (int i = 0; kind->slots[i].name; i++) {
        size_t from = kind->slots[i].initial_from;
        if (optimizer_has_slot(own, kind, i) && !optimizer_has_slot(a, kind, i))
            return "it needs state that the optimizer does not keep: set the number in the optimizer too";
        if (from && memcmp((const char *)a + from, (const char *)own + from, sizeof(double)))
            return "what state begins as holds for all groups";
    }
    return kind->has_product ? "this optimizer has no numbers of groups" : NULL;
}

/* Every group's numbers are read by the optimizer and hold its rules. */
static bool groups_hold(op_call *c, const minimize_attrs *a, const optimizer_kind *kind) {
    minimize_attrs own;
    const char *unread, *at = a->groups;
    bool has_range;
    for (int i = 0; param_groups_next(&at, a, kind, &own, &unread, &has_range); i++) {
        if (unread)
            return op_fail(c, WEFT_ARGUMENT, "parameter group %d: %s is set, but groups of %s have none", i,
                           unread, a->type);
        if (has_range && kind->has_product)
            return op_fail(c, WEFT_ARGUMENT,
                           "parameter group %d: from or to is set, but %s keeps one product for all "
                           "parameters: use another optimizer, or freeze them (weft_freeze)",
                           i, a->type);
        minimize_attrs decays = own;
        decays.weight_decay = a->weight_decay;
        if (!attrs_difference(&weft_op_minimize, a, &decays)) continue; /* multipliers alone */
        const char *why = kind->broken ? kind->broken(&own) : NULL;
        if (!why) why = group_differs(a, &own, kind);
        if (why) return op_fail(c, WEFT_ARGUMENT, "parameter group %d: %s", i, why);
        if (!schedule_holds(c, &decays, kind)) return false;
    }
    return true;
}

/* Files and dumps do not pass through weft_minimize, so all rules are checked here. */
static bool infer(op_call *c) {
    const tensor_type *loss = op_in(c, 0);
    const minimize_attrs *a = c->attrs;
    const optimizer_kind *kind = optimizer_find(c->graph->model, a->type);
    if (!kind) return no_such_type(c, a->type);
    const char *flag = flag_unread(a, kind), *why = rule_broken(a, kind);
    if (flag) return op_fail(c, WEFT_ARGUMENT, "%s is set, but %s has none: leave it false", flag, a->type);
    if (why) return op_fail(c, WEFT_ARGUMENT, "%s", why);
    if (!schedule_holds(c, a, kind) || !groups_hold(c, a, kind)) return false;
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
    /* OP_EFFECT: it has no results, so otherwise it would be dead. */
    .flags = OP_EFFECT | OP_NO_GRADIENT,
    .role = ROLE_DECLARES,
    .attrs_bytes = sizeof(minimize_attrs),
    .attrs = attrs,
    .infer = infer,
    .samples =
        (const op_sample[]){
            {"f32[]", "type=\"lyon\" name=\"x\"", .error = "type must be sgd"},
            {"f32[2]", "type=\"sgd\" name=\"x\"", .error = "one f32 number"},
            {"f32[]", "type=\"sgd\" name=\"x\" nesterov=1", .error = "nesterov needs"},
            {"f32[]", "type=\"sgd\" name=\"x\" groups=\"* 1 1 kinds=\"", .error = "groups must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" groups=\"* 1 1 kinds=bias+\"", .error = "groups must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" groups=\"* 1 1 kinds=biases\"", .error = "groups must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" groups=\"* 1 1 from=2 to=2\"", .error = "groups must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" groups=\"* 1 1 from=99999999999999999999\"",
             .error = "groups must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" loss_scale=-1", .error = "loss_scale must be"},
            {"f32[]", "type=\"sgd\" name=\"x\" growth_interval=-1", .error = "growth_interval=-1"},
            {0}},
};
