/* autodiff.c - reverse accumulation: `gradients` and `minimize` nodes are expanded into nodes of ops.
 *
 * Declarations are expanded from front to back, each in place, so that a later one differentiates through the
 * nodes of an earlier one: gradients of gradients need nothing more. For one loss:
 *   1. mark every value that depends on a target (value->mark), stopping at ops without a gradient;
 *   2. walk back from the loss. A node whose results have gradients (value->mapped) hands them to its op,
 *      which builds the gradients of its operands; several contributions to one value are added in the
 *      order met.
 * Each gradient that a user names becomes a value of its own, so that a later declaration can name it
 * alone. */
#include "graph/core/compare.h"
#include "graph/core/graph.h"

#include "graph/settings/ddp.h"
#include "graph/core/limits.h"
#include "graph/settings/minimize.h"
#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"
#include "weft/ops.h"

#include <stdlib.h>
#include <string.h>

/* The nodes of one loss are found from that loss backwards, so that many small declarations cost only what
 * they make. Scratch fields are not cleared between declarations: value->mark and value->mapped count only
 * where mark is the declaration's number, and node->order is the number of the declaration that last met the
 * node. node->mark is the place in the list. */
typedef struct derivation {
    weft_graph *g;
    const weft_plan *plan; /* NULL: no loss has a scale */
    double seed;           /* of a loss that is minimized */
    int64_t number;        /* number of the present declaration, from 1 */
    weft_node **needed;    /* the nodes that its loss depends on, sorted from last to first */
    size_t count, room;
    int64_t oldest;         /* place of the first target: no earlier node depends on one */
    const weft_node *asked; /* the present declaration, for errors */
    int64_t steps;          /* nodes visited so far, for all declarations */
    int first_id;           /* ids from here on were made by autodiff */
    int calls;              /* calls that the user made */
} derivation;

/* ---- the nodes of a loss ---- */

/* Adds n to the list, unless it is there or comes before all targets. */
static bool need(derivation *d, weft_node *n) {
    if (n->order == d->number || n->mark < d->oldest) return true;
    weft_node **more = mem_grow(&d->g->model->env, d->needed, &d->room, d->count + 1, sizeof *more);
    if (!more) return false;
    d->needed = more;
    n->order = (int)d->number;
    d->needed[d->count++] = n;
    return true;
}

static int last_first(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return by_number((*b)->mark, (*a)->mark);
}

/* A breadth-first walk over operands from the loss, then sorted by place, so that gradients are built in an
 * order that depends on the graph alone. */
static bool find_needed(derivation *d, weft_node *loss) {
    d->count = 0;
    if (!need(d, loss)) return false;
    for (size_t i = 0; i < d->count; i++)
        for (int k = 0; k < d->needed[i]->n_in; k++)
            if (d->needed[i]->in[k] && !need(d, d->needed[i]->in[k]->node)) return false;
    if (d->count) qsort(d->needed, d->count, sizeof *d->needed, last_first);
    if ((d->steps += (int64_t)d->count) <= GRADIENT_STEPS) return true;
    return node_fail(d->g->model, d->asked, WEFT_UNSUPPORTED,
                     "%s: graph %s: the gradients of its losses pass through more than %d nodes, counted for "
                     "each call of weft_gradients: take all gradients of one loss in one call",
                     d->asked->op->name, d->g->name, GRADIENT_STEPS);
}

/* Starts the next declaration; mark_target then notes its targets. */
static void begin_declaration(derivation *d, const weft_node *n) {
    d->asked = n;
    d->number++;
    d->oldest = INT64_MAX;
}

/* Step 1 for one value. */
static void mark(const derivation *d, weft_value *v) {
    if (v->mark != d->number) v->mapped = NULL;
    v->mark = d->number;
}

static void mark_target(derivation *d, weft_value *v) {
    if (v->node->mark < d->oldest) d->oldest = v->node->mark;
    mark(d, v);
}

/* Whether v depends on a target of the present declaration. */
static bool is_marked(const derivation *d, const weft_value *v) {
    return v && v->mark == d->number;
}

/* Step 1: from front to back, marks the float results of differentiable ops that read a marked value. */
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

/* Adds a contribution to the gradient of v, which has the type of v also where an op mixes types. Sums of the
 * gradient of a parameter are kept in f32. */
static void add_gradient(weft_value *v, weft_value *gradient) {
    weft_graph *g = v->node->graph;
    gradient = as_type(gradient, v->type.dtype);
    g->building_f32 = v->node->op == &weft_op_parameter;
    if (gradient) v->mapped = v->mapped ? weft_add(v->mapped, gradient) : gradient;
    g->building_f32 = false;
}

/* Gradients of gradients grow by a factor with each declaration, so a few hundred bytes of file could fill
 * any memory. */
static bool within_budget(const derivation *d) {
    int64_t most = GRADIENT_VALUES + (int64_t)GRADIENT_VALUES_A_CALL * d->calls;
    if (d->g->next_id - d->first_id <= most) return true;
    return node_fail(d->g->model, d->asked, WEFT_UNSUPPORTED,
                     "%s: graph %s: its gradients take more than %jd values for %d calls: gradients of "
                     "gradients grow with each nested weft_gradients: nest fewer",
                     d->asked->op->name, d->g->name, most, d->calls);
}

/* Reports an op without a gradient. "attention_backward" is the gradient op of attention, and those of other
 * ops end likewise: they cannot be differentiated again. */
static bool no_gradient(const derivation *d, const weft_node *n) {
    static const char end[] = "_backward";
    int length = (int)strlen(n->op->name) - (int)strlen(end);
    shown_place by = show_place(d->asked->file, d->asked->line);
    const char *asked = *by.text ? " (asked for at " : "", *close = *by.text ? ")" : "";
    if (length <= 0 || strcmp(n->op->name + length, end))
        return node_fail(n->graph->model, n, WEFT_UNSUPPORTED,
                         "%s: this op has no gradient, so it cannot be between a parameter and the loss: "
                         "stop the gradient before it (weft_stop_gradient)%s%s%s",
                         n->op->name, asked, by.text, close);
    return node_fail(n->graph->model, n, WEFT_UNSUPPORTED,
                     "%.*s: its gradient cannot be differentiated again: build it from smaller ops "
                     "(weft_mean, weft_sub, ...), or stop the second gradient (weft_stop_gradient)%s%s%s",
                     length, n->op->name, asked, by.text, close);
}

/* Step 2 for one node: builds the gradients of its operands in its scope and with its source line. */
static bool node_backward(const derivation *d, weft_node *n) {
    weft_graph *g = n->graph;
    weft_value *dout[OP_MAX_OUT];
    bool has_gradient = false, any_wanted = false;
    for (int k = 0; k < n->n_out; k++) {
        dout[k] = is_marked(d, &n->out[k]) ? n->out[k].mapped : NULL;
        has_gradient |= dout[k] != NULL;
    }
    if (!has_gradient || n->op->flags & OP_NO_GRADIENT) return true;
    bool *wanted = scratch_array(g->model, n->n_in, sizeof *wanted);
    weft_value **din = scratch_array(g->model, n->n_in, sizeof *din);
    if (!wanted || !din) return false;
    for (int i = 0; i < n->n_in; i++) any_wanted |= wanted[i] = is_marked(d, n->in[i]);
    if (!any_wanted) return true;
    if (!n->op->gradient) return no_gradient(d, n);
    scope_entry here = {.path = n->scope}, *above = g->scope;
    g->scope = &here;
    g->model->file = n->file;
    g->model->line = n->line;
    /* The op's gradient takes dout[0] in the type of its operands. */
    const bool *wide = node_f32_output(n);
    if (wide && *wide) dout[0] = as_type(dout[0], n->in[0]->type.dtype);
    g->building_f32 = n->op->precision == PRECISION_F32 || n->stays_f32;
    n->op->gradient(n, dout, wanted, din);
    g->model->file = NULL;
    g->building_f32 = false;
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i]) add_gradient(n->in[i], din[i]);
    g->scope = above;
    return model_ok(g->model) && within_budget(d);
}

/* The f16 loss scale that the gradient of this minimize starts from; NULL where its optimizer has none. */
static weft_value *loss_factor(const derivation *d, const weft_node *n) {
    const optimizer_entry *o =
        d->plan ? optimizer_named(d->plan, ((const minimize_attrs *)n->attrs)->name) : NULL;
    return o && o->loss_scale ? variable_value(d->g, o->loss_scale) : NULL;
}

/* d loss / d loss, for the declaration at `place`. */
static weft_value *seed_of(const derivation *d, const weft_value *loss, const weft_node *place) {
    const tensor_type *t = &loss->type;
    bool is_minimized = place->op == &weft_op_minimize;
    weft_value *v = weft_constant(d->g, t->dtype, t->ndim, t->shape, is_minimized ? d->seed : 1);
    weft_value *factor = is_minimized ? loss_factor(d, place) : NULL;
    return factor ? weft_mul(v, as_type(factor, t->dtype)) : v;
}

/* Leaves the gradient of each marked value that the loss depends on in value->mapped. New nodes go before
 * `place`. */
static bool backward(derivation *d, weft_value *loss, weft_node *place) {
    weft_graph *g = d->g;
    if (!find_needed(d, loss->node)) return false;
    mark_dependents(d);
    if (!is_marked(d, loss)) return true;
    build_place at;
    build_begin(&at, g, place->scope, place->prev);
    g->building_backward = true;
    loss->mapped = seed_of(d, loss, place);
    bool good = loss->mapped != NULL;
    for (size_t i = 0; good && i < d->count; i++) good = node_backward(d, d->needed[i]);
    build_end(&at);
    return good;
}

/* After backward: the gradient with respect to v, or NULL. */
static weft_value *found_gradient(const derivation *d, const weft_value *v) {
    return is_marked(d, v) ? v->mapped : NULL;
}

/* The gradient with respect to v as a new value made before node `place` (zeros where the loss does not
 * depend on v). It is new because two values can share a gradient (a and b in a + b), and a later `gradients`
 * that names one of them means only that one. */
static weft_value *gradient_of(const derivation *d, weft_value *v, const weft_node *place) {
    weft_graph *g = place->graph;
    weft_value *found = found_gradient(d, v);
    const tensor_type *t = &v->type;
    g->cursor = place->prev;
    weft_value *gradient = found ? value_again(found) : weft_constant(g, t->dtype, t->ndim, t->shape, 0);
    g->cursor = NULL;
    return gradient;
}

/* Readers of n's results come after n, and find in `mapped` the value to read instead. */
static bool expand_gradients(derivation *d, weft_node *n) {
    begin_declaration(d, n);
    for (int i = 1; i < n->n_in; i++) mark_target(d, n->in[i]);
    if (!backward(d, n->in[0], n)) return false;
    for (int i = 1; i < n->n_in; i++)
        if (!(n->out[i - 1].mapped = gradient_of(d, n->in[i], n))) return false;
    node_remove(n);
    return true;
}

/* The gradient that replaces a result of a `gradients` node; other values as they are. */
static weft_value *read_now(weft_value *v) {
    return v && v->node->op == &weft_op_gradients ? v->mapped : v;
}

/* ---- minimize: its targets are the trainable parameters that its pattern matches ---- */

static int minimize_targets(weft_node *n, weft_variable **list) {
    int count = 0;
    for (weft_variable *v = n->graph->model->variables; v; v = v->next)
        if (minimize_trains(n, v)) list[count++] = v;
    return count;
}

static bool not_reached(weft_node *n, const weft_variable *v) {
    const minimize_attrs *a = n->attrs;
    return node_fail(
        n->graph->model, n, WEFT_ORDER,
        "minimize: graph %s minimizes over '%s', but its loss does not depend on parameter %s: narrow the "
        "pattern, freeze it, or set find_unused_parameters (weft_model_set_ddp)",
        n->graph->name, *a->pattern ? a->pattern : "(all)", v->path);
}

/* With find_unused_parameters a parameter that the loss does not reach is left as it is. */
static bool may_be_unused(const weft_variable *v, const weft_model *m) {
    const struct ddp_entry *e = ddp_find(m, v->path);
    return e && e->attrs.find_unused_parameters;
}

/* Keeps the targets[0 .. count) that this graph reads and returns how many; -1 after an error. */
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

/* Names the nearest parameter, also as an example of how paths look. */
static bool no_target(const weft_node *n, const char *pattern) {
    const weft_variable *v = pattern_nearest(n->graph->model, pattern);
    const weft_variable *mean = n->graph->model->variables;
    while (mean && !(mean->follows && path_matches(pattern, mean->path))) mean = mean->next;
    if (mean)
        return node_fail(n->graph->model, n, WEFT_NAME,
                         "minimize: graph %s: '%s' matches %s alone, which follows a value "
                         "(weft_moving_mean) and is trained by no other call: leave it out",
                         n->graph->name, pattern, mean->path);
    if (!v)
        return node_fail(n->graph->model, n, WEFT_NAME,
                         "minimize: graph %s: no trainable parameter matches '%s', since the model has none: "
                         "layers (weft_linear) and weft_parameter make them",
                         n->graph->name, pattern);
    return node_fail(n->graph->model, n, WEFT_NAME,
                     "minimize: graph %s: no trainable parameter matches '%s': a pattern is a path or "
                     "contains '*', and parameters have names like (%s%s)",
                     n->graph->name, pattern, v->path, v->is_frozen ? ", frozen" : "");
}

/* Each of the patterns must match a target. */
static bool check_patterns(const weft_node *n, weft_variable *const *targets, int count) {
    const minimize_attrs *a = n->attrs;
    char one[PATTERN_ROOM];
    for (size_t at = 0; pattern_next(a->pattern ? a->pattern : "", &at, one);) {
        int k = 0;
        while (k < count && !path_matches(one, targets[k]->path)) k++;
        if (k == count) return no_target(n, one);
    }
    return true;
}

/* Gives the node its operands: the loss, the parameters p[i] and their gradients d loss / d p[i]. */
static bool expand_minimize(derivation *d, weft_node *n) {
    weft_graph *g = n->graph;
    weft_variable **targets = scratch_array(g->model, g->model->n_variables, sizeof *targets);
    if (!targets) return false;
    int count = minimize_targets(n, targets);
    if (!check_patterns(n, targets, count)) return false;
    begin_declaration(d, n);
    weft_value **in = model_array(g->model, 1 + 2 * count, sizeof *in);
    if (!in) return false;
    in[0] = n->in[0];
    if ((count = used_targets(n, targets, count)) < 0) return false;
    for (int i = 0; i < count; i++) mark_target(d, variable_in_graph(g, targets[i]));
    if (!backward(d, in[0], n)) return false;
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

/* Expands from front to back. New nodes get their place in the list (node->mark) after each expansion, so
 * that later declarations can differentiate through them. */
static bool expand_all(derivation *d) {
    weft_graph *g = d->g;
    int64_t place = 0;
    for (weft_node *n = g->first, *next; n; n = next) {
        weft_node *before = n->prev;
        next = n->next;
        for (int i = 0; i < n->n_in; i++) n->in[i] = read_now(n->in[i]);
        if (n->op == &weft_op_gradients && !expand_gradients(d, n)) return false;
        if (n->op == &weft_op_minimize && n->n_in == 1 && !expand_minimize(d, n)) return false;
        for (weft_node *m = before ? before->next : g->first; m != next; m = m->next) m->mark = ++place;
    }
    for (graph_output *o = g->outputs; o; o = o->next) o->value = read_now(o->value);
    return true;
}

bool pass_autodiff(weft_graph *g, double seed, const weft_plan *plan) {
    derivation d = {.g = g, .plan = plan, .seed = seed, .first_id = g->next_id, .calls = g->n_nodes};
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = 0;
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = 0;
    }
    bool good = expand_all(&d);
    mem_free(&g->model->env, d.needed, d.room * sizeof *d.needed);
    for (weft_node *n = g->first; n; n = n->next) n->order = 0; /* schedule places come later */
    g->is_expanded = good;
    return good;
}
