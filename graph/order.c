/* order.c - what must run before what: operands, and readers and writers of one variable.
 *
 * A value read from a variable is the variable as it was when the read was built: parameters as of the start of
 * the run, state as the last earlier assign left it. A write therefore waits for all readers of what was there
 * before. graph_order_edges writes that down as edges, so that later passes may move nodes freely as long as
 * they respect operands and edges. Where a reader of the old value also waits for the write (y = old + new, or
 * an output), it gets a copy made before.
 */
#include "graph/graph.h"

extern const weft_op weft_op_reorder;

static bool overlaps(const weft_variable *a, const weft_variable *b) {
    if (!a || !b) return false;
    if (variable_is_part(a) && variable_is_part(b))
        return a->segment == b->segment && a->offset < b->offset + type_elements(&b->type) &&
               b->offset < a->offset + type_elements(&a->type);
    return a == b || (variable_is_part(a) && a->segment == b) || (variable_is_part(b) && b->segment == a);
}

static bool writes(const weft_node *n, const weft_variable *v) {
    if (n->op->flags & OP_WRITES && overlaps(n->variable, v)) return true;
    for (int i = 0; i < n->n_in && i < 32; i++)
        if (n->op->writes >> i & 1 && n->in[i] && overlaps(n->in[i]->variable, v)) return true;
    return false;
}

static bool is_writer(const weft_node *n) {
    return n->op->flags & OP_WRITES || n->op->writes;
}

/* Views are read through: what they look at is what counts. */
static const weft_value *looked_at(const weft_value *v) {
    while (v->node->op->flags & OP_VIEW) v = v->node->in[0];
    return v;
}

/* Whether `v` is (a view of) what a variable held before `writer` writes it. */
static bool is_old_value(const weft_value *v, const weft_node *writer) {
    const weft_value *root = looked_at(v);
    if (!root->variable || root->node == writer || !writes(writer, root->variable)) return false;
    return root->variable->kind == VARIABLE_PARAMETER || root->node->id < writer->id;
}

static bool reads_old(const weft_node *n, const weft_node *writer) {
    if (n == writer) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && is_old_value(n->in[i], writer)) return true;
    return false;
}

/* ---- copies ---- */

static weft_value *copy_of(weft_value *v) {
    weft_graph *g = v->node->graph;
    for (weft_node *m = v->node->next; m; m = m->next)
        if (m->op == &weft_op_reorder && m->in[0] == v) return &m->out[0];
    g->cursor = v->node;
    scope_entry here = {.path = v->node->scope}, *above = g->scope;
    g->scope = &here;
    weft_value *copy = node_value(g, &weft_op_reorder, 1, &v, NULL);
    g->scope = above;
    g->cursor = NULL;
    return copy;
}

/* node->mark: whether it waits for `writer` through operands. */
static void mark_waiting(weft_graph *g, const weft_node *writer) {
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n == writer;
        for (int i = 0; i < n->n_in && !n->mark; i++) n->mark = n->in[i] && n->in[i]->node->mark;
    }
}

static bool copy_for_late_readers(weft_graph *g, const weft_node *writer) {
    mark_waiting(g, writer);
    for (weft_node *n = writer->next; n; n = n->next) {
        if (!n->mark || n == writer || is_writer(n)) continue;
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i] || !is_old_value(n->in[i], writer)) continue;
            if (!(n->in[i] = copy_of(n->in[i]))) return false;
        }
    }
    for (graph_output *o = g->outputs; o; o = o->next)
        if (is_old_value(o->value, writer) && !(o->value = copy_of(o->value))) return false;
    return true;
}

/* ---- edges ---- */

static bool set_edges(weft_node *n, weft_node **found) {
    weft_graph *g = n->graph;
    int edges = 0;
    for (weft_node *m = g->first; m; m = m->next)
        if (m != n && reads_old(m, n) && !(m->op->flags & OP_VIEW)) found[edges++] = m;
    n->n_after = edges;
    if (!edges) return true;
    n->after = arena_new_array(&g->model->arena, (size_t)edges, sizeof *n->after);
    if (!n->after) return model_fail(g->model, g, WEFT_MEMORY, "order: memory could not be had");
    for (int i = 0; i < edges; i++) n->after[i] = found[i];
    return true;
}

bool graph_order_edges(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next) {
        n->n_after = 0;
        if (is_writer(n) && !copy_for_late_readers(g, n)) return false;
    }
    weft_node **found = arena_new_array(&g->model->arena, (size_t)graph_node_count(g) + 1, sizeof *found);
    if (!found) return model_fail(g->model, g, WEFT_MEMORY, "order: memory could not be had");
    for (weft_node *n = g->first; n; n = n->next)
        if (is_writer(n) && !set_edges(n, found)) return false;
    return graph_sort(g);
}

/* ---- sorting ---- */

enum { UNSEEN = 0, OPEN = 1, PLACED = 2 };

/* The next node that must be placed before `n`, or NULL. Operands first, in order. */
static weft_node *missing(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->mark != PLACED) return n->in[i]->node;
    for (int i = 0; i < n->n_after; i++)
        if (n->after[i]->mark != PLACED) return n->after[i];
    return NULL;
}

static void append(weft_graph *g, weft_node *n) {
    n->mark = PLACED;
    n->prev = g->last;
    n->next = NULL;
    if (g->last)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
}

bool graph_sort(weft_graph *g) {
    size_t count = (size_t)graph_node_count(g), i = 0;
    weft_node **list = arena_new_array(&g->model->arena, count + 1, sizeof *list);
    weft_node **stack = arena_new_array(&g->model->arena, count + 1, sizeof *stack);
    if (!list || !stack) return model_fail(g->model, g, WEFT_MEMORY, "sort: memory could not be had");
    for (weft_node *n = g->first; n; n = n->next) {
        list[i++] = n;
        n->mark = UNSEEN;
    }
    g->first = g->last = NULL;
    if (g->model->indexed == g) g->model->indexed = NULL;
    for (i = 0; i < count; i++) {
        size_t depth = 0;
        if (list[i]->mark == UNSEEN) stack[depth++] = list[i];
        while (depth) {
            weft_node *n = stack[depth - 1], *before = missing(n);
            if (!before) {
                append(g, n);
                depth--;
            } else if (before->mark == OPEN || before == n) {
                return model_fail(g->model, g, WEFT_INTERNAL, "sort: %s %%%d waits for itself", n->op->name,
                                  n->id);
            } else {
                n->mark = OPEN;
                stack[depth++] = before;
            }
        }
    }
    return true;
}
