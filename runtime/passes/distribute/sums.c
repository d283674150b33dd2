/* sums.c - how a strategy sums buckets (weft_distribution.gradient). The pass `sums` calls the
 * builder once for each bucket, on a graph apart: what it builds is a record, whose input is this rank's
 * gradient and whose output the sum. Each program that ends a step repeats the record at its bucket:
 *      s = summed(record(bucket))
 * sum_ranks nodes in it become collectives with all others (collectives.c). State that the record keeps
 * is memory of this rank alone: no file has it, and sessions do not make it equal. */
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/passes.h"

#include "graph/settings/precision.h"
#include "graph/settings/strategy.h"
#include "ops/kit/ops.h"
#include "ops/structure/ranks.h"
#include "runtime/plan/value.h"

#include <string.h>

enum { MOST_CALLS = 4096 /* of one record */ };

/* "compile: strategy powersgd: bucket net.0: WHAT WHY" */
static bool refuse_sum(const weft_plan *plan, const weft_variable *s, weft_status status, const char *what,
                       const char *why) {
    return model_fail(plan->model, NULL, status, "compile: strategy %s: bucket %s: %s %s",
                      plan->strategy.call->name, s->path, what, why);
}

/* Why a call cannot be part of a sum; NULL: it can. Variables from number `own` on are the strategy's. */
static const char *why_no_part(const weft_node *n, int own) {
    bool is_variable = n->op == &weft_op_state || n->op == &weft_op_assign;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->op == &weft_op_assign)
            return "reads state that was assigned before: take the value that was assigned";
    if (n->op == &weft_op_sum_ranks)
        return ((const ranks_attrs *)n->attrs)->group ? "names a process group: it is the bucket's" : NULL;
    if (op_is_over_ranks(n->op)) return "is not a sum over ranks";
    if (is_variable) return n->variable->index >= own ? NULL : "names a variable of the model";
    if (n->op->flags & OP_VARIABLE) return "names a parameter";
    if (n->op->flags & OP_RANDOM) return "draws random numbers";
    if (n->op->role == ROLE_DECLARES) return "trains or differentiates";
    if (n->op->flags & (OP_EFFECT | OP_COMPILER | OP_COMMUNICATES)) return "has effects";
    return attrs_name_batch(n->op, n->attrs) ? "depends on the batch" : NULL;
}

/* The rules of a record; `sum` is what the builder returned. */
static bool check_record(const weft_plan *plan, const weft_variable *s, const weft_graph *g,
                         const weft_value *sum, int own) {
    if (sum->node->graph != g)
        return refuse_sum(plan, s, WEFT_ARGUMENT, "what its builder returns", "is a value of another graph");
    if (!type_equal(&sum->type, &s->type))
        return model_fail(plan->model, NULL, WEFT_SHAPE,
                          "compile: strategy %s: bucket %s is %s, and what its builder returns %s",
                          plan->strategy.call->name, s->path, TYPE(&s->type), TYPE(&sum->type));
    if (s->shards)
        return refuse_sum(
            plan, s, WEFT_UNSUPPORTED, "ZeRO shards it,",
            "and only whole buckets are summed by nodes of a strategy: exclude its subgraph from ZeRO "
            "(.zero = -1)");
    if (g->n_nodes > MOST_CALLS)
        return refuse_sum(plan, s, WEFT_UNSUPPORTED, "its sum", "has more than 4096 calls");
    for (const weft_node *n = g->first->next; n; n = n->next) /* the first is the gradient */
        if (why_no_part(n, own)) return refuse_sum(plan, s, WEFT_ARGUMENT, n->op->name, why_no_part(n, own));
    return true;
}

/* f16's loss scale is in the gradients and changes between steps, and a step that it skips changes
 * nothing. */
static bool is_scaled(const weft_plan *plan, const weft_variable *s) {
    for (int i = 0; i < plan->n_trainings; i++) {
        const training *t = &plan->trainings[i];
        if (t->trains[s->members[0]->index] && precision_reaches(t->graph, WEFT_F16, plan->options.precision))
            return true;
    }
    return false;
}

/* What the builder sees of the bucket. */
static bool describe(const weft_plan *plan, const weft_variable *s, weft_bucket *of) {
    const subgraph *g = &plan->subgraphs[s->subgraph];
    weft_bucket_member *members = model_array(plan->model, s->n_members, sizeof *members);
    for (int i = 0; members && i < s->n_members; i++) {
        const weft_variable *v = s->members[i];
        members[i] = (weft_bucket_member){.path = v->path, .ndim = v->type.ndim, .begin = v->offset};
        memcpy(members[i].shape, v->type.shape, (size_t)v->type.ndim * sizeof *members[i].shape);
    }
    *of = (weft_bucket){.name = s->path,
                        .subgraph = g->path,
                        .ranks = g->n_ranks,
                        .n_members = s->n_members,
                        .members = members,
                        .call = plan->strategy.call};
    return members != NULL;
}

/* Records the sum of one bucket, unless the builder leaves it as it is. */
static bool record(weft_plan *plan, weft_variable *s) {
    weft_model *m = plan->model;
    weft_graph *g = graph_apart(m, s->path, WEFT_TRAIN);
    const char *text = arena_printf(&m->arena, STRATEGY_STATE "%s", s->path);
    const char *scope = text ? scope_intern(m, text) : NULL;
    weft_bucket of;
    build_place at;
    int own = m->n_variables;
    if (!g || !scope || !describe(plan, s, &of)) return false;
    build_begin(&at, g, scope, NULL);
    of.gradient = weft_input(g, "gradient", WEFT_F32, 1, s->type.shape);
    weft_value *sum = of.gradient ? plan->strategy.gradient(&of) : NULL;
    build_end(&at);
    for (weft_variable *v = m->variables; v; v = v->next)
        if (v->index >= own) v->kind = VARIABLE_OPTIMIZER; /* no name for users, and no other rank's */
    if (!model_ok(m) || !sum || sum == of.gradient) return model_ok(m);
    if (!check_record(plan, s, g, sum, own)) return false;
    if (m->n_variables > own && is_scaled(plan, s))
        return refuse_sum(plan, s, WEFT_UNSUPPORTED, "its sum keeps state,",
                          "and gradients in f16 have another scale in each step: compute in bf16");
    weft_output(sum, "sum");
    s->sum = g;
    plan->strategy.is_compressed = true;
    return model_ok(m);
}

/* In a world of one rank there is nothing to sum. What a moving mean follows is not a gradient. */
bool own_sums_build(weft_plan *plan) {
    if (!plan->strategy.gradient || plan->options.world == 1) return true;
    for (weft_variable *s = plan->model->variables; s; s = s->next)
        if (s->kind == VARIABLE_BUCKET && !s->members[0]->follows && !record(plan, s)) return false;
    return true;
}

/* ---- repeating a record ---- */

/* A sum over ranks goes over the bucket's process group, under the bucket's name. */
static bool repeat_sum(program *p, const weft_variable *s, const weft_node *n, weft_value **map) {
    build_place at;
    ranks_attrs attrs = *(const ranks_attrs *)n->attrs;
    attrs.path = s->path;
    build_begin(&at, p->graph, n->scope, NULL);
    weft_value *v = node_value(p->graph, &weft_op_sum_ranks, 1, &map[n->in[0]->id], &attrs);
    build_end(&at);
    return (map[n->out[0].id] = v) != NULL;
}

weft_value *own_sum(program *p, const weft_variable *s, weft_value *flat) {
    const weft_graph *g = s->sum;
    weft_value **map = scratch_array(p->graph->model, g->next_id, sizeof *map);
    if (!map) return NULL;
    map[g->first->out[0].id] = flat;
    for (const weft_node *n = g->first->next; n; n = n->next)
        if (!(n->op == &weft_op_sum_ranks ? repeat_sum(p, s, n, map) : node_replay(n, p->graph, map)))
            return NULL;
    return node_value(p->graph, &weft_op_summed, 1, &map[g->outputs->value->id], &(variable_attrs){s->path});
}
