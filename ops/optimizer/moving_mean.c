/* moving_mean.c - weft_moving_mean(), state that all ranks and micro-batches of a step have in common: a
 * parameter whose gradient is the negated value, and the optimizer moving_mean, by which it follows:
 *     p = momentum p - (1 - momentum) g       (g is the mean of -value over the micro-batches of a step)
 * So accumulation, sums over ranks, ZeRO, guards and checkpoints treat it as any parameter. The learning rate
 * has no effect. */
#include "ops/optimizer/moving_mean.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/build.h"
#include "weft/layers.h"
#include "weft/train.h"

#include <string.h>

/* ---- the optimizer ---- */

static void build(weft_update *u, const minimize_attrs *a) {
    weft_value *kept = weft_scale(u->parameter, a->momentum);
    u->parameter = weft_sub(kept, weft_scale(u->gradient, 1 - a->momentum));
}

static const char *broken(const minimize_attrs *a) {
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

bool graph_moves_mean(const weft_graph *g, const char *path) {
    for (const weft_node *n = g->last; n; n = n->prev)
        if (n->op == &weft_op_minimize && minimize_follows(n) &&
            strcmp(((const minimize_attrs *)n->attrs)->pattern, path) == 0)
            return true;
    return false;
}

/* 0, whose gradient by `mean` is -value. */
static weft_value *pull(weft_value *mean, weft_value *value) {
    weft_value *toward = weft_stop_gradient(weft_neg(value));
    weft_value *product = weft_sum(weft_mul(mean, toward), 0, NULL, false);
    return weft_sub(product, weft_stop_gradient(product));
}

weft_value *weft_moving_mean(weft_value *value, double momentum, const char *name) {
    if (!value) return NULL;
    weft_graph *g = value->node->graph;
    bool above = g->building_f32;
    if (!(momentum >= 0 && momentum < 1))
        return model_fail(g->model, g, WEFT_ARGUMENT, "moving_mean: momentum %g: it must be in [0, 1)",
                          momentum);
    g->building_f32 = true;
    weft_value *mean = weft_parameter(value, name, value->type.ndim, value->type.shape, (weft_init){0});
    if (mean && g->mode == WEFT_TRAIN) {
        weft_optimizer o = {.type = optimizer_moving_mean.type,
                            .momentum = momentum > 0 ? momentum : WEFT_ZERO};
        weft_value *loss = pull(mean, value);
        if (loss) weft_minimize(loss, mean->node->variable->path, &o);
    }
    g->building_f32 = above;
    return weft_stop_gradient(mean);
}
