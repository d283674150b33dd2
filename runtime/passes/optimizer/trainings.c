/* trainings.c - which parameters each minimize call trains: those that its pattern matches and that are not
 * frozen. If its loss does not reach one of them, that is an error, which autodiff reports, unless the
 * subgraph has find_unused_parameters: then this call leaves the parameter alone, and the plan lists it.
 * Settings that contradict each other are errors here. */
#include "ops/kit/ops.h"
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"

#include "graph/core/limits.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"

#include <stdlib.h>
#include <string.h>

/* Indexed by value id: whether the loss of `minimize` depends on the value through ops that have a gradient.
 * One walk backward. NULL: no memory. */
static bool *reached_by(weft_model *m, const weft_node *minimize) {
    bool *reached = scratch_array(m, minimize->graph->next_id, sizeof *reached);
    if (!reached) return NULL;
    reached[minimize->in[0]->id] = true;
    for (const weft_node *n = minimize->prev; n; n = n->prev) {
        bool is_wanted = false;
        for (int k = 0; k < n->n_out; k++) is_wanted |= reached[n->out[k].id];
        /* `gradients` has none itself, but its results depend on all values that they were taken through */
        if (!is_wanted || (n->op->flags & OP_NO_GRADIENT && n->op != &weft_op_gradients)) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && dtype_is_float(n->in[i]->type.dtype)) reached[n->in[i]->id] = true;
    }
    return reached;
}

/* Adds one to plan->unused. */
static bool note_unused(weft_plan *plan, const char *graph_name, const weft_variable *v) {
    arena *a = &plan->model->arena;
    unused_parameter *more = arena_grow(a, plan->unused, (size_t)plan->n_unused, sizeof *more);
    if (!more) return false;
    plan->unused = more;
    more[plan->n_unused++] = (unused_parameter){graph_name, v->path};
    return true;
}

/* is_read[v]: whether the loss depends on variable v. Indexed like the source model's variables, whose
 * indices the plan's copy shares. */
static bool find_read(weft_plan *plan, const weft_node *minimize, bool *is_read) {
    const weft_graph *g = minimize->graph;
    bool *reached = reached_by(plan->model, minimize);
    for (const weft_node *n = g->first; n && reached; n = n->next)
        if (n->op == &weft_op_parameter) is_read[n->variable->index] = reached[n->out[0].id];
    return reached;
}

/* Marks the parameters that follow a value: only the call that says so trains them. */
static void find_followers(weft_plan *plan) {
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next) {
            if (n->op != &weft_op_minimize || !minimize_follows(n)) continue;
            weft_variable *v = variable_find(plan->model, ((const minimize_attrs *)n->attrs)->pattern);
            if (v) v->follows |= minimize_trains(n, v);
        }
}

/* Sets t->trains. */
static bool find_targets(weft_plan *plan, training *t) {
    weft_model *m = plan->model;
    bool *is_read = scratch_array(m, m->n_variables, sizeof *is_read);
    t->trains = model_array(m, m->n_variables, sizeof *t->trains);
    if (!is_read || !t->trains || !find_read(plan, t->minimize, is_read)) return false;
    for (weft_variable *v = m->variables; v; v = v->next) {
        if (!minimize_trains(t->minimize, v)) continue;
        bool may_be_unused = plan->subgraphs[v->subgraph].ddp.find_unused_parameters;
        t->trains[v->index] = !may_be_unused || is_read[v->index];
        if (!t->trains[v->index] && !note_unused(plan, t->name, v)) return false;
    }
    return true;
}

/* Updates take effect at the end of a run, assigns where they were built, so one of them would be lost. */
static bool check_assigns(weft_plan *plan, const training *t) {
    for (const weft_node *n = t->graph->first; n; n = n->next) {
        if (n->op != &weft_op_assign || n->variable->kind != VARIABLE_PARAMETER) continue;
        shown_place first = show_place(t->minimize->file, t->minimize->line);
        return node_fail(plan->model, n, WEFT_ORDER,
                         "assign: graph %s trains%s%s%s, so it cannot assign to parameter %s: assign in a "
                         "graph of its own, which runs between the steps",
                         t->graph->name, *first.text ? " (minimize at " : "", first.text,
                         *first.text ? ")" : "", n->variable->path);
    }
    return true;
}

/* The updates of one run take effect together at its end, so two updates of one parameter would undo each
 * other. */
static bool check_once(weft_plan *plan, const training *t) {
    for (const training *other = plan->trainings; other != t; other++)
        for (const weft_variable *v = plan->model->variables; other->graph == t->graph && v; v = v->next)
            if (t->trains[v->index] && other->trains[v->index]) {
                shown_place first = show_place(other->minimize->file, other->minimize->line);
                return node_fail(plan->model, t->minimize, WEFT_ORDER,
                                 "minimize: graph %s: two minimize calls train %s%s%s: add their losses, or "
                                 "train it in two graphs",
                                 t->graph->name, v->path, *first.text ? ", the other one at " : "",
                                 first.text);
            }
    return true;
}

/* ---- settings that contradict ---- */

/* A field as " lr=0.1" for messages, also when it is 0. */
static char *show_field(const op_attr *f, const void *attrs) {
    text t = {0};
    attr_write(&t, f, attrs);
    if (!t.length) text_add(&t, " %s=0", f->name);
    return text_detach(&t);
}

/* An optimizer is known by its name alone: one state, one step counter and one learning rate in the store. So
 * calls of different graphs that name one must agree in all settings but the pattern. */
static bool check_same(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    for (const training *other = plan->trainings; other != t; other++) {
        minimize_attrs b = *(const minimize_attrs *)other->minimize->attrs;
        if (other->graph == t->graph || strcmp(a->name, b.name))
            continue;           /* the optimizer pass reports two of one graph */
        b.pattern = a->pattern; /* each call has its own */
        const op_attr *f = attrs_difference(&weft_op_minimize, a, &b);
        if (!f) continue;
        char *here = show_field(f, a), *there = show_field(f, &b);
        node_fail(plan->model, t->minimize, WEFT_ARGUMENT,
                  "minimize: graphs %s and %s share the optimizer '%s', but the first with%s, the second "
                  "with%s: use equal settings, or two names (weft_optimizer.name)",
                  other->graph->name, t->graph->name, SHOW(a->name), there ? there : "", here ? here : "");
        free(here);
        free(there);
        return false;
    }
    return true;
}

bool training_averages(const minimize_attrs *a, const weft_variable *v) {
    return a->ema_buffers && v->kind == VARIABLE_STATE && v->type.dtype == WEFT_F32 &&
           path_matches(a->pattern ? a->pattern : "", v->path);
}

static bool keeps_average(const training *t, const weft_variable *v) {
    const minimize_attrs *a = t->minimize->attrs;
    if (v->kind == VARIABLE_PARAMETER) return a->ema > 0 && t->trains[v->index];
    return training_averages(a, v);
}

/* Two averages of one variable could not both be in its place; and ema_buffers must have an effect. */
static bool check_averages(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    bool has_states = false;
    for (const weft_variable *v = a->ema_buffers ? plan->model->variables : NULL; v; v = v->next)
        has_states |= training_averages(a, v);
    if (a->ema_buffers && !has_states)
        return node_fail(
            plan->model, t->minimize, WEFT_ARGUMENT,
            "minimize: optimizer '%s' sets ema_buffers, but no f32 state is under '%s': leave it false",
            SHOW(a->name), SHOW(a->pattern));
    for (const training *other = plan->trainings; other != t; other++) {
        const minimize_attrs *b = other->minimize->attrs;
        if (a->ema == 0 || b->ema == 0 || !strcmp(a->name, b->name)) continue;
        for (const weft_variable *v = plan->model->variables; v; v = v->next)
            if (keeps_average(t, v) && keeps_average(other, v))
                return node_fail(
                    plan->model, t->minimize, WEFT_ARGUMENT,
                    "minimize: optimizers '%s' and '%s' both keep an average of %s: leave %s in one of them",
                    SHOW(b->name), SHOW(a->name), v->path,
                    v->kind == VARIABLE_STATE ? "ema_buffers false" : "ema 0");
    }
    return true;
}

/* Settings of the loss scale are errors where nothing computes in f16: nothing would read them. */
static bool check_scale(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    const char *only = plan->options.graph;
    if ((a->loss_scale == 0 && a->growth_interval == 0) || (only && strcmp(only, t->graph->name)) ||
        precision_reaches(t->graph, WEFT_F16, plan->options.precision))
        return true;
    return node_fail(plan->model, t->minimize, WEFT_ARGUMENT,
                     "minimize: graph %s: optimizer '%s' sets %s, but nothing in the graph computes in f16: "
                     "leave it 0, or set the precision (weft_model_set_precision, options.precision)",
                     t->graph->name, SHOW(a->name), a->loss_scale != 0 ? "loss_scale" : "growth_interval");
}

/* Whether another optimizer than muon could train v: it needs matrices. */
static bool check_shape(weft_plan *plan, const training *t, const optimizer_kind *kind,
                        const weft_variable *v) {
    if (!kind->is_for_matrices || v->type.ndim == 2) return true;
    return node_fail(plan->model, t->minimize, WEFT_SHAPE,
                     "minimize: graph %s: %s is %s: %s updates matrices only, of two axes: train it by "
                     "another optimizer, in a call of its own",
                     t->graph->name, v->path, TYPE(&v->type), kind->type);
}

/* Flat shards cut parameters, so that an update of them must go element by element. */
static bool check_flat(weft_plan *plan, const training *t, const optimizer_kind *kind,
                       const weft_variable *v) {
    const subgraph *s = &plan->subgraphs[v->subgraph];
    if (!s->ddp.zero || s->ddp.shard != WEFT_SHARD_FLAT) return true;
    return node_fail(plan->model, t->minimize, WEFT_ARGUMENT,
                     "minimize: graph %s: subgraph %s has shard=flat, which cuts parameters, but the update "
                     "of %s is not element by element: use shard=greedy, or zero=0",
                     t->graph->name, s->name, kind->type);
}

/* The shapes and shards that the optimizer can train. */
static bool check_parameters(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    const optimizer_kind *kind = optimizer_find(plan->model, a->type);
    bool is_elementwise;
    if (!optimizer_is_elementwise(plan->model, kind, a, &is_elementwise)) return false;
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER || !t->trains[v->index]) continue;
        if (!check_shape(plan, t, kind, v) || (!is_elementwise && !check_flat(plan, t, kind, v)))
            return false;
    }
    return true;
}

/* For each rank the lowest rank of its process group: equal for two texts that name the same groups. */
static int *leaders(weft_plan *plan, const char *groups) {
    int world = plan->options.world;
    const char *why;
    int *least = scratch_array(plan->model, world, sizeof *least);
    int *ranks = scratch_array(plan->model, world, sizeof *ranks);
    bool *is_known = scratch_array(plan->model, world, sizeof *is_known);
    for (int r = 0; least && ranks && is_known && r < world; r++) {
        int n = is_known[r] ? 0 : process_group_of(groups, world, r, ranks, &why);
        for (int i = 0; i < n; i++) {
            least[ranks[i]] = r;
            is_known[ranks[i]] = true;
        }
    }
    return ranks && is_known ? least : NULL;
}

/* *answer: whether the two subgraphs have the same process groups. False only when memory is out. */
static bool share_groups(weft_plan *plan, const subgraph *a, const subgraph *b, bool *answer) {
    const char *of_a = a->ddp.process_group, *of_b = b->ddp.process_group;
    *answer = true;
    if (of_a == of_b || (of_a && of_b && strcmp(of_a, of_b) == 0)) return true;
    int *x = leaders(plan, of_a), *y = leaders(plan, of_b);
    if (!x || !y) return false;
    *answer = memcmp(x, y, (size_t)plan->options.world * sizeof *x) == 0;
    return true;
}

/* Ranks of other process groups would judge other gradients, and some would end a step that others make. */
static bool check_guard(weft_plan *plan, const training *t) {
    const weft_compile_options *o = &plan->options;
    for (const weft_variable *v = plan->model->variables; v && o->guard == WEFT_GUARD_GRAD; v = v->next) {
        const subgraph *s =
            v->kind == VARIABLE_PARAMETER && t->trains[v->index] ? &plan->subgraphs[v->subgraph] : NULL;
        if (s && s->n_ranks < o->world)
            return node_fail(plan->model, t->minimize, WEFT_UNSUPPORTED,
                             "minimize: graph %s: guard=grad judges gradients on all ranks, but %s has "
                             "process groups: use guard=nan or spike",
                             t->graph->name, s->name);
    }
    return true;
}

/* A norm over subgraphs of different process groups would differ between ranks, and so would the updates of
 * ranks that must stay equal. */
static bool check_clip(weft_plan *plan, const training *t) {
    const minimize_attrs *a = t->minimize->attrs;
    const subgraph *first = NULL;
    bool alike = true, *is_trained;
    bool is_scaled = precision_reaches(t->graph, WEFT_F16, plan->options.precision);
    if (a->clip_norm <= 0 && (!is_scaled || minimize_follows(t->minimize))) return true;
    is_trained = scratch_array(plan->model, plan->n_subgraphs, sizeof *is_trained);
    if (!is_trained) return false;
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) is_trained[v->subgraph] |= t->trains[v->index];
    for (int i = 0; i < plan->n_subgraphs && plan->options.world > 1; i++) {
        const subgraph *s = &plan->subgraphs[i];
        if (!is_trained[i]) continue;
        if (!first) first = s;
        if (!share_groups(plan, first, s, &alike)) return false;
        if (!alike)
            return node_fail(plan->model, t->minimize, WEFT_ARGUMENT,
                             "minimize: graph %s %s the gradients of %s and %s by one norm, but their "
                             "process groups differ, so ranks that share one of them would scale it "
                             "differently: call weft_minimize for each of them",
                             t->graph->name, a->clip_norm > 0 ? "clips" : "judges (f16)", first->name,
                             s->name);
    }
    return true;
}

static bool add_training(weft_plan *plan, const weft_node *n) {
    arena *memory = &plan->model->arena;
    size_t count = (size_t)plan->n_trainings;
    if (count == MODEL_MAX_TRAININGS)
        return node_fail(plan->model, n, WEFT_UNSUPPORTED,
                         "minimize: more than %d calls in the model: train more parameters by one call",
                         MODEL_MAX_TRAININGS);
    training *list = plan->trainings = arena_grow(memory, plan->trainings, count, sizeof *list);
    training *t = list ? &list[plan->n_trainings++] : NULL;
    const minimize_attrs *a = n->attrs;
    if (!t) return false;
    *t = (training){.graph = n->graph,
                    .minimize = n,
                    .name = arena_copy(memory, n->graph->name),
                    .optimizer = arena_copy(memory, a->name),
                    .clips = a->clip_norm > 0};
    return t->name && t->optimizer && check_assigns(plan, t) && find_targets(plan, t) &&
           check_once(plan, t) && check_same(plan, t) && check_averages(plan, t) && check_scale(plan, t) &&
           check_clip(plan, t) && check_guard(plan, t) && check_parameters(plan, t);
}

/* In the order of the model's graphs and of the calls in each, which buckets and signatures rely on. */
bool trainings_find(weft_plan *plan) {
    find_followers(plan);
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->op == &weft_op_minimize && !minimize_is_still(n) && !add_training(plan, n)) return false;
    return true;
}
