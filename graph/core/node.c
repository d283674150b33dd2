/* node.c - making nodes, and changing lists of them. Every node is made here, from a program, a file, a dump
 * or a pass alike, after the same checks: number of operands, their graph, ranges of attributes, then the
 * op's infer. */
#include "graph/core/empty.h"

#include <stdio.h>
#include <string.h>

/* ---- making ---- */

/* The checks that do not depend on infer. */
static bool call_check(const op_call *c) {
    const weft_op *op = c->op;
    int most = op_max_in(op);
    char why[200];
    if (c->n_in < op->min_in && most < 0)
        return op_fail(c, WEFT_ARGUMENT, "%d operands: there must be at least %d", c->n_in, op->min_in);
    if (c->n_in < op->min_in || (most >= 0 && c->n_in > most))
        return op_fail(c, WEFT_ARGUMENT, "%d operands, %d to %d are allowed", c->n_in, op->min_in, most);
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] && c->in[i]->node->graph != c->graph)
            return op_fail(c, WEFT_ARGUMENT,
                           "operand %d belongs to graph %s%s, an operand before it to graph %s: all operands "
                           "of an op must be of one graph, so build it there again (graphs share the "
                           "parameters of a scope, but not values)",
                           i, c->in[i]->node->graph->name,
                           c->in[i]->node->graph->model == c->graph->model ? "" : " of another model",
                           c->graph->name);
    bool is_list = most < 0 || most > 16; /* a list of any length: no operand is optional */
    for (int i = 0; is_list && i < c->n_in; i++)
        if (!c->in[i]) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", i);
    for (int i = 0; i < c->n_in && !(op->flags & (OP_MOVES | OP_VIEW)); i++)
        if (c->in[i] && dtype_is_data(op_in(c, i)->dtype))
            return op_fail(c, WEFT_TYPE, "operand %d is %s, a type that only holds data: cast it (weft_cast)",
                           i, TYPE(op_in(c, i)));
    if (attrs_check(op, c->attrs, why)) return op_fail(c, WEFT_ARGUMENT, "%s", why);
    return true;
}

void graph_relink(weft_graph *g, weft_node *const *list, int count) {
    g->first = g->last = NULL;
    if (g->model->indexed == g) g->model->indexed = NULL;
    for (int i = 0; i < count; i++) graph_append(g, list[i]);
}

/* Unlike insert_after it leaves the count and the variable index alone. */
void graph_append(weft_graph *g, weft_node *n) {
    n->prev = g->last;
    n->next = NULL;
    *(g->last ? &g->last->next : &g->first) = n;
    g->last = n;
}

/* Inserts n after `place`; NULL: at the front. */
static void insert_after(weft_graph *g, weft_node *n, weft_node *place) {
    n->prev = place;
    n->next = place ? place->next : g->first;
    if (n->next)
        n->next->prev = n;
    else
        g->last = n;
    if (place)
        place->next = n;
    else
        g->first = n;
    g->n_nodes++;
    variable_note_added(n);
}

/* Copies the bytes into the arena. */
static bool bytes_keep(attr_bytes *v, arena *a) {
    uint8_t *copy = v->n ? arena_new(a, v->n) : NULL;
    if (copy) memcpy(copy, v->data, v->n);
    v->data = copy;
    return copy || !v->n;
}

/* Allocates the node of a checked call and copies into it what the arena must own: operands, attributes,
 * strings. NULL when memory is out. */
static weft_node *node_store(const op_call *c) {
    weft_graph *g = c->graph;
    arena *a = &g->model->arena;
    weft_node *n = arena_new(&g->model->nodes, sizeof *n);
    if (!n) return NULL;
    n->graph = g;
    n->op = c->op;
    n->n_in = c->n_in;
    n->n_out = c->n_out;
    n->in = arena_new_array(a, c->n_in, sizeof *n->in);
    n->out = arena_new_array(&g->model->values, c->n_out, sizeof *n->out);
    n->attrs = arena_new(a, c->op->attrs_bytes + 1);
    if (!n->in || !n->out || !n->attrs) return NULL;
    for (int i = 0; i < c->n_in; i++) n->in[i] = c->in[i];
    if (c->attrs) memcpy(n->attrs, c->attrs, c->op->attrs_bytes);
    for (const op_attr *f = c->op->attrs; f && f->name; f++) {
        const char **string = (const char **)((char *)n->attrs + f->offset);
        if ((f->kind == ATTR_STRING || f->kind == ATTR_SCHEDULES) && *string &&
            !(*string = arena_copy(a, *string)))
            return NULL;
        /* a twin is freed before the model whose bytes it has */
        if (f->kind == ATTR_BYTES && !g->model->is_twin &&
            !bytes_keep(&ATTR_FIELD(attr_bytes, n->attrs, f), a))
            return NULL;
    }
    n->made = g->next_made++;
    n->id = g->next_id;
    for (int k = 0; k < c->n_out; k++)
        n->out[k] =
            (weft_value){.node = n, .index = k, .id = g->next_id++, .type = c->out[k], .arena_offset = -1};
    if (c->op->flags & OP_VARIABLE) {
        n->variable = variable_find(g->model, ((variable_attrs *)n->attrs)->path);
        if (c->op->flags & (OP_IS_VARIABLE | OP_WRITES)) n->out[0].variable = n->variable;
    }
    if (c->op->writes && c->n_out)
        n->out[0].variable = c->in[0]->variable; /* the result is the variable's value after the write */
    g->model->names_batch |= attrs_name_batch(n->op, n->attrs);
    n->scope = scope_intern(g->model, g->scope->path);
    n->is_backward = g->building_backward;
    n->is_update = g->building_update;
    n->stays_f32 = g->building_f32;
    n->file = g->model->file;
    n->line = g->model->line;
    return n->scope ? n : NULL;
}

/* The end of node_new and node_new_typed: `c` holds the types of the results. */
static weft_node *node_finish(const op_call *c) {
    weft_graph *g = c->graph;
    for (int k = 0; k < c->n_out; k++)
        if (!type_check_or_empty(&c->out[k]))
            return op_fail(c, WEFT_SHAPE,
                           "result %s: no axis may be below 0, and the whole must be below 2^46 bytes",
                           TYPE(&c->out[k])),
                   NULL;
    bool is_empty = call_is_empty(c);
    if (is_empty && !call_may_be_empty(c)) return NULL;
    weft_node *n = node_store(c);
    if (n && is_empty && g->model->is_bound) return empty_replace(c, n) ? n : NULL;
    if (n && n->op == &weft_op_input && !table_add(&g->inputs, &g->model->arena, input_name(n), n)) n = NULL;
    if (!n) return graph_fail(g, WEFT_MEMORY, "%s: out of memory", c->op->name);
    insert_after(g, n, g->cursor ? g->cursor : g->last);
    if (g->cursor) g->cursor = n; /* nodes of one build_place stay in order */
    variable_note_kinds(n);
    return n;
}

/* Reports a required operand that is NULL although no call has failed: the caller never set it. */
static bool operands_are_there(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in) {
    for (int i = 0; i < op->min_in && i < n_in; i++)
        if (!in[i])
            return graph_fail(g, WEFT_ARGUMENT,
                              "%s: operand %d is NULL, and no call before this one failed: was it ever set?",
                              op->name, i);
    return true;
}

weft_graph *op_graph(const weft_op *op, int n_in, weft_value *const *in) {
    for (int i = 0; i < n_in; i++)
        if (in[i]) return operands_are_there(in[i]->node->graph, op, n_in, in) ? in[i]->node->graph : NULL;
    return NULL;
}

weft_value *op_value(const weft_op *op, int n_in, weft_value *const *in, const void *attrs) {
    return node_value(op_graph(op, n_in, in), op, n_in, in, attrs);
}

static bool infer(op_call *c) {
    c->n_out = 1;
    if (c->n_in && c->in[0]) c->out[0] = c->in[0]->type;
    return c->op->infer(c);
}

weft_node *node_new(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs) {
    if (!g || !model_ok(g->model)) return NULL;
    op_call c = {.op = op, .graph = g, .n_in = n_in, .in = in, .attrs = attrs};
    /* No op's attributes are larger. */
    char zeroes[512] = {0};
    if (!attrs) c.attrs = zeroes;
    return operands_are_there(g, op, n_in, in) && call_check(&c) && infer(&c) ? node_finish(&c) : NULL;
}

weft_node *node_new_typed(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in,
                          const void *attrs, int n_out, const tensor_type *types) {
    if (!g || !model_ok(g->model)) return NULL;
    op_call c = {.op = op, .graph = g, .n_in = n_in, .in = in, .attrs = attrs, .n_out = n_out};
    if (n_out > OP_MAX_OUT) return graph_fail(g, WEFT_ARGUMENT, "%s: %d results", op->name, n_out);
    for (int k = 0; k < n_out; k++) c.out[k] = types[k];
    if (!call_check(&c)) return NULL;
    if (call_is_empty(&c)) return graph_fail(g, WEFT_SHAPE, "%s: every axis must be at least 1", op->name);
    return node_finish(&c);
}

/* Other shapes would be a defect of the pass: readers were inferred from the old ones. */
bool node_retype(weft_node *n) {
    weft_graph *g = n->graph;
    op_call c = {.op = n->op, .graph = g, .n_in = n->n_in, .in = n->in, .attrs = n->attrs};
    if (!model_ok(g->model) || !infer(&c)) return false;
    for (int k = 0; k < c.n_out && k < n->n_out; k++) {
        if (c.n_out != n->n_out || !shape_equal(&c.out[k], &n->out[k].type))
            return op_fail(&c, WEFT_INTERNAL, "result %d was %s and would be %s", k, TYPE(&n->out[k].type),
                           TYPE(&c.out[k]));
        n->out[k].type = c.out[k];
    }
    return true;
}

weft_value *node_result(weft_node *n, int k) {
    return n->out[k].mapped ? n->out[k].mapped : &n->out[k];
}

bool node_is_integer(const weft_node *n) {
    bool any = false;
    if (!n->op->integer || dtype_is_float(n->out[0].type.dtype)) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (dtype_is_float(n->in[i]->type.dtype)) return false;
        any |= dtype_is_wide(n->in[i]->type.dtype);
    }
    return any;
}

bool *node_f32_output(const weft_node *n) {
    for (const op_attr *f = n->op->attrs; f && f->name; f++)
        if (f->kind == ATTR_BOOL && strcmp(f->name, "f32_output") == 0)
            return (bool *)((char *)n->attrs + f->offset);
    return NULL;
}

weft_value *node_value(weft_graph *g, const weft_op *op, int n_in, weft_value *const *in, const void *attrs) {
    weft_node *n = node_new(g, op, n_in, in, attrs);
    return n ? node_result(n, 0) : NULL;
}

/* ---- changing ---- */

void node_remove(weft_node *n) {
    weft_graph *g = n->graph;
    variable_note_removed(n);
    /* New nodes then go where n was. */
    if (g->cursor == n) g->cursor = n->prev;
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    n->next = n->prev = NULL;
    g->n_nodes--;
}

void node_move_after(weft_node *n, weft_node *place) {
    node_remove(n);
    insert_after(n->graph, n, place);
}

/* Fused bodies are replaced in too, whatever their depth. */
static void node_replace(weft_node *n, weft_value *from, weft_value *to) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == from) n->in[i] = to;
    for (int b = 0; b < n->n_body; b++) node_replace(n->body[b], from, to);
}

void graph_replace(weft_graph *g, weft_value *from, weft_value *to) {
    for (weft_node *n = g->first; n; n = n->next) node_replace(n, from, to);
    for (graph_output *o = g->outputs; o; o = o->next)
        if (o->value == from) o->value = to;
}

void graph_clear_mapped(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mapped = NULL;
}

void node_replace_mapped(weft_node *n) {
    /* A replacement may itself have been replaced. */
    for (int i = 0; i < n->n_in; i++)
        while (n->in[i] && n->in[i]->mapped) n->in[i] = n->in[i]->mapped;
}

/* Replaces in all nodes and outputs in one walk, however many values are mapped. */
void graph_replace_mapped(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next) node_replace_mapped(n);
    for (graph_output *o = g->outputs; o; o = o->next)
        while (o->value->mapped) o->value = o->value->mapped;
}

/* Operands of fused bodies do not count: their fused node's operands do. */
void graph_count_uses(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].uses = 0;
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) n->in[i]->uses++;
    for (graph_output *o = g->outputs; o; o = o->next) o->value->uses++;
}

void graph_number(weft_graph *g) {
    int64_t place = 0;
    for (weft_node *n = g->first; n; n = n->next) n->mark = place++;
}

int graph_node_count(const weft_graph *g) {
    return g->n_nodes;
}

const char *node_show(const weft_node *n, char buffer[200]) {
    snprintf(buffer, 200, "%.40s %%%d (%.100s)", n->op->name, n->id, *n->scope ? n->scope : "top");
    return buffer;
}
