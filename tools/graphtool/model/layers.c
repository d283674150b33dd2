/* layers.c - see layers.h. */
#include "tools/graphtool/model/layers.h"

#include "tools/graphtool/output/output.h"

#include "ops/kit/ops.h"
#include "ops/work.h"

#include <stdlib.h>
#include <string.h>

/* The length of the first `depth` parts of a path. */
static size_t cut(const char *path, int depth) {
    size_t n = 0;
    for (int i = 0; i < depth && path[n]; i++) {
        size_t part = strcspn(path + n + (n > 0), "/");
        n += part + (n > 0);
    }
    return n;
}

static bool is_in(const layer *l, const char *path) {
    size_t n = strlen(l->path);
    return n == 0 ? !*path : strncmp(l->path, path, n) == 0 && (!path[n] || path[n] == '/');
}

static int row_at(const layers *l, const char *path, size_t length) {
    for (int i = 0; i < l->n; i++)
        if (strlen(l->v[i].path) == length && memcmp(l->v[i].path, path, length) == 0) return i;
    return -1;
}

/* Behind the last row of the scope that it is in. */
static void row_add(layers *l, const char *path, size_t length, int depth) {
    int place = l->n;
    if (depth > 1) {
        place = row_at(l, path, cut(path, depth - 1)) + 1;
        while (place < l->n && l->v[place].depth >= depth) place++;
    }
    l->v = tool_need(mem_grow(NULL, l->v, &l->room, (size_t)l->n + 1, sizeof *l->v));
    memmove(&l->v[place + 1], &l->v[place], (size_t)(l->n++ - place) * sizeof *l->v);
    l->v[place] = (layer){.path = tool_text("%.*s", (int)length, path), .depth = depth};
}

/* Rows for a scope and those around it. */
static void open_rows(layers *l, const char *path, int depth) {
    size_t before = 0, n;
    for (int d = 1; d <= depth && (n = cut(path, d)) != before; d++, before = n)
        if (row_at(l, path, n) < 0) row_add(l, path, n, d);
}

/* Whether it reads the running variance, by which batch_norm of an eval graph, an expression of other ops,
 * scales. */
static bool is_eval_norm(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_variable *v = n->in[i] ? n->in[i]->node->variable : NULL;
        if (v && v->kind == VARIABLE_STATE && text_ends(v->path, "/running_var")) return true;
    }
    return false;
}

static int weight_of(const weft_node *n) {
    bool reads = false;
    if (is_eval_norm(n)) return 3;
    for (int i = 0; i < n->n_in; i++)
        reads |= n->in[i] && n->in[i]->node->variable && n->in[i]->node->variable->kind == VARIABLE_PARAMETER;
    return node_flops(n) > 0 ? 2 : reads;
}

/* Names of inputs and variables compute nothing. */
static bool computes(const weft_node *n) {
    return n->n_out > 0 && !(n->op->flags & OP_VARIABLE) && n->op != &weft_op_input;
}

static double result_bytes(const weft_node *n) {
    double bytes = 0;
    for (int i = 0; i < n->n_out && !(n->op->flags & OP_VIEW); i++)
        bytes += (double)type_bytes(&n->out[i].type);
    return bytes;
}

/* Adds a node to its row and those around it; `best` is by row, the weight of the op that it has. */
static void count(layers *l, const weft_node *n, int depth, double *best) {
    size_t length = cut(n->scope, depth);
    for (int i = 0; i < l->n; i++) {
        layer *row = &l->v[i];
        if (!is_in(row, n->scope)) continue;
        row->flops += node_flops(n);
        row->bytes += result_bytes(n);
        if (!row->output) row->output = &n->out[0].type;
        double weight = weight_of(n) + node_flops(n);
        bool is_outer = i + 1 < l->n && l->v[i + 1].depth > row->depth;
        if (strlen(row->path) != length || weight < best[i] || (is_outer && weight == 0)) continue;
        row->op = is_eval_norm(n) ? &weft_op_batch_norm : n->op;
        best[i] = weight;
    }
}

/* Of what `n` reads, results of other scopes are those scopes' outputs: the last one of each, by its id. */
static void note_outputs(layers *l, const weft_value *read, const char *by) {
    for (int i = 0; i < l->n; i++) {
        layer *row = &l->v[i];
        if (!is_in(row, read->node->scope) || (by && is_in(row, by)) || read->id < row->output_id) continue;
        row->output = &read->type;
        row->output_id = read->id;
    }
}

static void find_outputs(layers *l, const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && computes(n->in[i]->node)) note_outputs(l, n->in[i], n->scope);
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (computes(o->value->node)) note_outputs(l, o->value, NULL);
}

/* The parameters that a graph names, each once. */
static void count_parameters(layers *l, const weft_graph *g) {
    bool *is_seen = tool_new((size_t)g->model->n_variables + 1, sizeof *is_seen);
    for (const weft_node *n = g->first; n; n = n->next) {
        const weft_variable *v = n->variable;
        if (!v || v->kind != VARIABLE_PARAMETER || is_seen[v->index]) continue;
        is_seen[v->index] = true;
        l->parameters += type_elements(&v->type);
        for (int i = 0; i < l->n; i++)
            if (*l->v[i].path ? is_in(&l->v[i], v->path) : !strchr(v->path, '/'))
                l->v[i].parameters += type_elements(&v->type);
    }
}

/* The row of no scope comes last. */
static void make_rows(layers *l, const weft_graph *g, int depth) {
    bool has_none = false;
    for (const weft_node *n = g->first; n; n = n->next) {
        if (!computes(n)) continue;
        has_none |= !*n->scope;
        open_rows(l, n->scope, depth);
    }
    if (has_none) row_add(l, "", 0, 0);
}

layers layers_of(const weft_graph *g, int depth) {
    layers l = {0};
    make_rows(&l, g, depth);
    double *best = tool_new((size_t)l.n + 1, sizeof *best);
    for (const weft_node *n = g->first; n; n = n->next) {
        if (!computes(n)) continue;
        count(&l, n, depth, best);
        l.flops += node_flops(n);
        l.bytes += result_bytes(n);
    }
    find_outputs(&l, g);
    count_parameters(&l, g);
    tool_keep(l.v, free);
    return l;
}
