/* autodiff.c - reverse accumulation: `gradients` and `minimize` become nodes made from ops.
 *
 * Declarations are expanded front to back, each in place, so that a later one differentiates through the nodes
 * of an earlier one: gradients of gradients need nothing more. For one loss:
 *   1. mark every value that depends on a target (value->mark), stopping at ops without a gradient;
 *   2. walk back from the loss; a node whose results have gradients (value->mapped) hands them to its op, which
 *      builds the gradients of its operands; several contributions to one value are added in the order met.
 * A gradient that a user named is a value of its own, as every value is that a later declaration may name.
 */
#include "graph/core/graph.h"

#include "graph/core/ddp.h"
#include "graph/core/limits.h"
#include "graph/core/minimize.h"
#include "weft/ops.h"

#include <stdlib.h>
#include <string.h>

/* What one loss needs is found from that loss backwards, so that many small declarations cost what they make. Scratch
 * is not cleared in between: value->mark and value->mapped count only where mark is the declaration's own number, and
 * node->order only says in whose walk the node was met. node->mark is the place in the list. */
typedef struct derivation {
    weft_graph *g;
    int64_t number;     /* of the present declaration, from 1 */
    weft_node **needed; /* what its loss is made of, the last first */
    size_t count, room;
    int64_t oldest; /* place of the first target: what stands before it depends on none */
    int64_t steps;  /* nodes looked at so far */
    int first_id;   /* values from here on are made by autodiff */
    int calls;      /* that the user made */
} derivation;

/* ---- what a loss is made of ---- */

static bool need(derivation *d, weft_node *n) {
    if (n->order == d->number || n->mark < d->oldest) return true;
    weft_node **more = mem_grow(&d->g->model->env, d->needed, &d->room, d->count + 1, sizeof *more);
    if (!more) return model_fail(d->g->model, d->g, WEFT_MEMORY, "autodiff: memory could not be had");
    d->needed = more;
    n->order = (int)d->number;
    d->needed[d->count++] = n;
    return true;
}

static int last_first(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return ((*a)->mark < (*b)->mark) - ((*a)->mark > (*b)->mark);
}

static bool find_needed(derivation *d, weft_node *loss) {
    d->count = 0;
    if (!need(d, loss)) return false;
    for (size_t i = 0; i < d->count; i++)
        for (int k = 0; k < d->needed[i]->n_in; k++)
            if (d->needed[i]->in[k] && !need(d, d->needed[i]->in[k]->node)) return false;
    if (d->count) qsort(d->needed, d->count, sizeof *d->needed, last_first);
    if ((d->steps += (int64_t)d->count) <= GRADIENT_STEPS) return true;
    return model_fail(
        d->g->model, NULL, WEFT_UNSUPPORTED,
        "graph %s: its losses lead through more than %d nodes, counted for each call of `gradients`: "
        "take all gradients of one loss by one call",
        d->g->name, GRADIENT_STEPS);
}

/* The number of the next declaration, whose targets are to be noted. */
static void begin_declaration(derivation *d) {
    d->number++;
    d->oldest = INT64_MAX;
}

/* 1 */
static void mark(const derivation *d, weft_value *v) {
    if (v->mark != d->number) v->mapped = NULL;
    v->mark = d->number;
}

static void mark_target(derivation *d, weft_value *v) {
    if (v->node->mark < d->oldest) d->oldest = v->node->mark;
    mark(d, v);
}

static bool is_marked(const derivation *d, const weft_value *v) {
    return v && v->mark == d->number;
}

/* From the front, everything that depends on a marked value through differentiable ops. */
static void mark_dependents(const derivation *d) {
    for (size_t at = d->count; at--;) {
        weft_node *n = d->needed[at];
        bool depends = false;
        for (int i = 0; i < n->n_in; i++) depends |= is_marked(d, n->in[i]);
        if (!depends || n->op->flags & OP_NO_GRADIENT) continue;
        for (int k = 0; k < n->n_out; k++)
            if (dtype_is_float(n->out[k].type.dtype)) mark(d, &n->out[k]);
    }
}

static weft_value *as_type(weft_value *v, weft_dtype dtype) {
    return v && v->type.dtype != dtype ? weft_cast(v, dtype) : v;
}

/* A value's gradient has its type, also where an op mixes types. What reaches a parameter is added up in f32. */
static void add_gradient(weft_value *v, weft_value *gradient) {
    weft_graph *g = v->node->graph;
    gradient = as_type(gradient, v->type.dtype);
    g->building_f32 = v->node->op == &weft_op_parameter;
    if (gradient) v->mapped = v->mapped ? weft_add(v->mapped, gradient) : gradient;
    g->building_f32 = false;
}

/* Gradients of gradients grow with each declaration by a factor: a few hundred bytes of file could fill any memory. */
static bool within_budget(const derivation *d) {
    int64_t most = GRADIENT_VALUES + (int64_t)GRADIENT_VALUES_A_CALL * d->calls;
    if (d->g->next_id - d->first_id <= most) return true;
    return model_fail(
        d->g->model, NULL, WEFT_UNSUPPORTED,
        "graph %s: its gradients take more than %lld values for %d calls: gradients of gradients grow "
        "many times over with each `gradients`, nest fewer",
        d->g->name, (long long)most, d->calls);
}

/* "batch_norm_backward" is the gradient of batch_norm; those of pools and losses end so too. */
static bool no_gradient(const weft_node *n) {
    static const char end[] = "_backward";
    int length = (int)strlen(n->op->name) - (int)strlen(end);
    if (length <= 0 || strcmp(n->op->name + length, end))
        return node_fail(n->graph->model, n, WEFT_UNSUPPORTED,
                         "%s: this op has no gradient: keep it off the way from a parameter to the loss "
                         "(weft_stop_gradient)",
                         n->op->name);
    return node_fail(
        n->graph->model, n, WEFT_UNSUPPORTED,
        "%.*s: its gradient is final, a gradient of that gradient does not exist: build it from "
        "smaller ops (weft_mean, weft_sub, ...), or take no gradients through those of weft_gradients "
        "(weft_stop_gradient)",
        length, n->op->name);
}

/* 2, for one node. */
static bool node_backward(const derivation *d, weft_node *n) {
    weft_graph *g = n->graph;
    arena *a = &g->model->arena;
    weft_value *dout[OP_MAX_OUT];
    bool has_gradient = false, any_wanted = false;
    for (int k = 0; k < n->n_out; k++) {
        dout[k] = is_marked(d, &n->out[k]) ? n->out[k].mapped : NULL;
        has_gradient |= dout[k] != NULL;
    }
    if (!has_gradient || n->op->flags & OP_NO_GRADIENT) return true;
    bool *wanted = arena_new_array(a, (size_t)n->n_in + 1, sizeof *wanted);
    weft_value **din = arena_new_array(a, (size_t)n->n_in + 1, sizeof *din);
    if (!wanted || !din) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    for (int i = 0; i < n->n_in; i++) any_wanted |= wanted[i] = is_marked(d, n->in[i]);
    if (!any_wanted) return true;
    if (!n->op->gradient) return no_gradient(n);
    scope_entry here = {.path = n->scope}, *above = g->scope;
    g->scope = &here;
    g->model->file = n->file;
    g->model->line = n->line;
    const bool *wide = node_f32_output(n);
    if (wide && *wide) dout[0] = as_type(dout[0], n->in[0]->type.dtype);
    g->building_f32 = n->op->precision == PRECISION_F32 || n->stays_f32;
    n->op->gradient(n, dout, wanted, din);
    g->building_f32 = false;
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) add_gradient(n->in[i], din[i]);
    g->scope = above;
    return model_ok(g->model) && within_budget(d);
}

/* The gradient of a loss by itself. */
typedef struct loss_seed {
    double value;
    weft_value *(*factor)(const weft_node *minimize, const void *of); /* may be NULL, and give NULL */
    const void *of;
} loss_seed;

static weft_value *seed_of(const weft_value *loss, const weft_node *place, loss_seed seed) {
    const tensor_type *t = &loss->type;
    weft_value *v = weft_constant(place->graph, t->dtype, t->ndim, t->shape, seed.value);
    weft_value *factor = seed.factor ? seed.factor(place, seed.of) : NULL;
    return factor ? weft_mul(v, as_type(factor, t->dtype)) : v;
}

/* Leaves the gradient of each marked value that the loss depends on in value->mapped; new nodes go before `place`. */
static bool backward(derivation *d, weft_value *loss, weft_node *place, loss_seed seed) {
    weft_graph *g = d->g;
    if (!find_needed(d, loss->node)) return false;
    mark_dependents(d);
    if (!is_marked(d, loss)) return true;
    build_place at;
    build_begin(&at, g, place->scope, place->prev);
    g->building_backward = true;
    loss->mapped = seed_of(loss, place, seed);
    bool good = loss->mapped != NULL;
    for (size_t i = 0; good && i < d->count; i++) good = node_backward(d, d->needed[i]);
    build_end(&at);
    return good;
}

/* After backward: the gradient by v, or NULL. */
static weft_value *found_gradient(const derivation *d, const weft_value *v) {
    return is_marked(d, v) ? v->mapped : NULL;
}

/* The gradient by v, before node `place`: a new value, since gradients by two values can be one (of a + b by a and b),
 * and a later `gradients` that names the one means only it. */
static weft_value *gradient_of(const derivation *d, weft_value *v, const weft_node *place) {
    weft_graph *g = place->graph;
    weft_value *found = found_gradient(d, v);
    const tensor_type *t = &v->type;
    g->cursor = place->prev;
    weft_value *gradient = found ? value_again(found) : weft_constant(g, t->dtype, t->ndim, t->shape, 0);
    g->cursor = NULL;
    return gradient;
}

/* Readers of n's results, which all stand behind it, find in `mapped` what to read. */
static bool expand_gradients(derivation *d, weft_node *n) {
    begin_declaration(d);
    for (int i = 1; i < n->n_in; i++) mark_target(d, n->in[i]);
    if (!backward(d, n->in[0], n, (loss_seed){.value = 1})) return false;
    for (int i = 1; i < n->n_in; i++)
        if (!(n->out[i - 1].mapped = gradient_of(d, n->in[i], n))) return false;
    node_remove(n);
    return true;
}

static weft_value *read_now(weft_value *v) {
    return v && v->node->op == &weft_op_gradients ? v->mapped : v;
}

/* ---- minimize: targets are the trainable parameters that its pattern matches ---- */

static int minimize_targets(weft_node *n, weft_variable **list) {
    const minimize_attrs *a = n->attrs;
    int count = 0;
    for (weft_variable *v = n->graph->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && !v->is_frozen && path_matches(a->pattern, v->path))
            list[count++] = v;
    return count;
}

static bool not_reached(weft_node *n, const weft_variable *v) {
    const minimize_attrs *a = n->attrs;
    return node_fail(
        n->graph->model, n, WEFT_ORDER,
        "minimize: graph %s minimizes over '%s', but its loss does not depend on parameter %s: narrow the "
        "pattern, freeze it, or leave it out here by find_unused_parameters (weft_ddp)",
        n->graph->name, *a->pattern ? a->pattern : "(all)", v->path);
}

/* find_unused_parameters: left alone where the loss does not reach it. */
static bool may_be_unused(const weft_variable *v, const weft_model *m) {
    const struct ddp_entry *e = ddp_find(m, v->path);
    return e && e->attrs.find_unused_parameters;
}

/* Keeps of targets[0 .. count) those that this graph reads; -1 after an error. */
static int used_targets(weft_node *n, weft_variable **targets, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        weft_value *v = variable_in_graph(n->graph, targets[i]);
        if (!v && !may_be_unused(targets[i], n->graph->model)) {
            not_reached(n, targets[i]);
            return -1;
        }
        if (v) targets[kept++] = targets[i];
    }
    return kept;
}

static bool no_target(const weft_node *n) {
    const minimize_attrs *a = n->attrs;
    const weft_variable *v = n->graph->model->variables;
    while (v && v->kind != VARIABLE_PARAMETER) v = v->next;
    return node_fail(
        n->graph->model, n, WEFT_NAME,
        "minimize: graph %s: no trainable parameter matches '%s': a pattern is a scope or has '*'s, as "
        "parameters are called (%s%s)",
        n->graph->name, a->pattern, v ? v->path : "there is none", v && v->is_frozen ? ", frozen" : "");
}

static bool expand_minimize(derivation *d, weft_node *n, loss_seed seed) {
    weft_graph *g = n->graph;
    arena *a = &g->model->arena;
    weft_variable **targets = arena_new_array(a, (size_t)g->model->n_variables + 1, sizeof *targets);
    if (!targets) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    int count = minimize_targets(n, targets);
    if (count == 0) return no_target(n);
    begin_declaration(d);
    weft_value **in = arena_new_array(a, 1 + 2 * (size_t)count, sizeof *in);
    if (!in) return model_fail(g->model, g, WEFT_MEMORY, "autodiff: memory could not be had");
    in[0] = n->in[0];
    if ((count = used_targets(n, targets, count)) < 0) return false;
    for (int i = 0; i < count; i++) mark_target(d, variable_in_graph(g, targets[i]));
    if (!backward(d, in[0], n, seed)) return false;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        weft_value *v = variable_in_graph(g, targets[i]);
        if (!found_gradient(d, v) && !may_be_unused(targets[i], g->model)) return not_reached(n, targets[i]);
        if (found_gradient(d, v)) targets[kept++] = targets[i];
    }
    for (int i = 0; i < kept; i++) {
        in[1 + i] = variable_in_graph(g, targets[i]);
        in[1 + kept + i] = in[1 + i]->mapped;
    }
    n->in = in;
    n->n_in = 1 + 2 * kept;
    return true;
}

static bool expand(derivation *d, weft_node *n, loss_seed minimized) {
    if (n->op == &weft_op_gradients) return expand_gradients(d, n);
    return n->op != &weft_op_minimize || n->n_in > 1 || expand_minimize(d, n, minimized);
}

/* Front to back; what an expansion has put before its node gets its place in the list then. */
static bool expand_all(derivation *d, loss_seed minimized) {
    weft_graph *g = d->g;
    int64_t place = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        weft_node *before = n->prev;
        next = n->next;
        for (int i = 0; i < n->n_in; i++) n->in[i] = read_now(n->in[i]);
        if (!expand(d, n, minimized)) return false;
        for (weft_node *m = before ? before->next : g->first; m != next; m = m->next) m->mark = ++place;
    }
    for (graph_output *o = g->outputs; o; o = o->next) o->value = read_now(o->value);
    return true;
}

bool pass_autodiff(weft_graph *g, double seed,
                   weft_value *(*factor)(const weft_node *minimize, const void *of), const void *of) {
    derivation d = {.g = g, .first_id = g->next_id, .calls = graph_node_count(g)};
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = 0;
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = 0;
    }
    bool good = expand_all(&d, (loss_seed){seed, factor, of});
    for (weft_node *n = g->first; n; n = n->next) n->order = 0; /* until there is a schedule */
    mem_free(&g->model->env, d.needed, d.room * sizeof *d.needed);
    g->is_expanded = good;
    return good;
}
