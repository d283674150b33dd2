/* moving_mean.c - weft_moving_mean(), state that all ranks and micro-batches of a step have in common: a
 * parameter whose gradient is the negated value, and the optimizer moving_mean, by which it follows:
 *     p = momentum p - (1 - momentum) g       (g is the mean of -value over the micro-batches of a step)
 * So accumulation, sums over ranks, ZeRO, guards and checkpoints treat it as any parameter. There is no
 * learning rate, and in f16 no loss scale: the gradient is computed in f32. */
#include "ops/optimizer/moving_mean.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/build.h"
#include "weft/layers.h"
#include "weft/train.h"

#include <stdio.h>
#include <string.h>

/* ---- the optimizer ---- */

/* Without momentum nothing of p stays, not even a NaN. */
static void build(weft_update *u, const minimize_attrs *a) {
    weft_value *now = weft_neg(u->gradient);
    u->parameter = a->momentum > 0 ? moved_by(u, u->parameter, now, a->momentum) : now;
}

static const char *broken(const minimize_attrs *a) {
    bool has_others = a->lr != 1e-3 || a->weight_decay != 0 || a->clip_norm != 0 || a->clip_value != 0 ||
                      a->ema != 0 || a->loss_scale != 0 || a->growth_interval != 0;
    if (has_others) return "it follows a value as it is, so it has no setting but momentum and its schedule";
    if (a->groups && *a->groups) return "it follows one value, so it has no parameter groups";
    return a->momentum < 0 || a->momentum >= 1 ? "momentum must be in [0, 1)" : NULL;
}

const optimizer_kind optimizer_moving_mean = {
    .type = "moving_mean",
    .build = build,
    .fields = {"momentum"},
    .follows = true,
    .broken = broken,
};

/* ---- the builder ---- */

/* Whether a call in the graph moves it. A model that was read does not know v->moved_in. */
bool graph_moves_mean(const weft_graph *g, const weft_variable *v) {
    const weft_node *n = v->moved_in == g ? NULL : g->last;
    while (n && !(n->op == &weft_op_minimize && minimize_follows(n) && minimize_trains(n, v))) n = n->prev;
    return n || v->moved_in == g;
}

static bool is_moved(const weft_variable *v, const weft_model *m) {
    const weft_graph *g = v->follows ? NULL : m->graphs;
    while (g && !graph_moves_mean(g, v)) g = g->next;
    return g || v->follows;
}

/* 0, whose gradient by `mean` is -value. The reshape fails where value follows the batch, and mean cannot. */
static weft_value *pull(weft_value *mean, weft_value *value) {
    const tensor_type *t = &mean->type;
    weft_value *toward = weft_neg(t->ndim ? weft_reshape(value, t->ndim, t->shape) : value);
    weft_value *zero = weft_sub(mean, weft_stop_gradient(mean));
    return weft_sum(weft_mul(zero, weft_stop_gradient(toward)), 0, NULL, false);
}

/* Names of optimizers have 200 characters at most. */
static void name_optimizer(const char *path, char into[200]) {
    enum { MOST = 160 };
    size_t n = strlen(path);
    if (n <= MOST)
        snprintf(into, 200, "%s:%s", optimizer_moving_mean.type, path);
    else
        snprintf(into, 200, "%s:%s+%08x", optimizer_moving_mean.type, path + n - MOST,
                 (unsigned)hash_text(path, 0));
}

static bool check_value(const weft_value *value, double momentum) {
    if (!(momentum >= 0 && momentum < 1))
        return value_fail(value, WEFT_ARGUMENT, "moving_mean: momentum %g: it must be in [0, 1)", momentum);
    if (value->type.dtype != WEFT_F32)
        return value_fail(value, WEFT_SHAPE, "moving_mean: the value is %s: it must be f32",
                          TYPE(&value->type));
    return true;
}

/* What the graph's steps do to it. */
static bool move(weft_value *mean, weft_value *value, double momentum) {
    weft_graph *g = mean->node->graph;
    weft_variable *v = mean->node->variable;
    char name[200];
    if (graph_moves_mean(g, v))
        return value_fail(mean, WEFT_ORDER,
                          "moving_mean: graph %s moves %s already: give each value a name of its own",
                          g->name, v->path);
    name_optimizer(v->path, name);
    weft_optimizer o = {
        .type = optimizer_moving_mean.type, .name = name, .momentum = momentum > 0 ? momentum : WEFT_ZERO};
    weft_value *loss = pull(mean, value);
    if (!loss || weft_minimize(loss, v->path, &o)) return false;
    v->moved_in = g;
    return true;
}

/* Operands are made one after the other: C leaves the order of arguments open. */
weft_value *weft_moving_mean(weft_value *value, double momentum, const char *name) {
    if (!value || !check_value(value, momentum)) return NULL;
    weft_graph *g = value->node->graph;
    weft_model *m = g->model;
    int before = m->n_variables;
    bool above = g->building_f32;
    weft_value *mean = weft_parameter(value, name, value->type.ndim, value->type.shape, (weft_init){0});
    weft_variable *v = mean ? mean->node->variable : NULL;
    if (v && m->n_variables == before && !is_moved(v, m))
        return model_fail(m, g, WEFT_NAME,
                          "moving_mean: %s is a parameter of another call: give the mean a name of its own",
                          v->path);
    if (v) v->follows = true;
    g->building_f32 = true;
    bool good = v && (g->mode != WEFT_TRAIN || move(mean, value, momentum));
    g->building_f32 = above;
    return good ? weft_stop_gradient(mean) : NULL;
}
