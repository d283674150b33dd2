/* diagram_focus.c - the part of a graph around a value: what is at most `hops` reads away from it. */
#include "tools/graphtool/diagram/diagram.h"

#include "ops/kit/ops.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/output/names.h"

#include <stdio.h>
#include <string.h>

bool diagram_is_below(const char *path, const char *scope) {
    size_t n = strlen(scope);
    return strncmp(path, scope, n) == 0 && (!path[n] || path[n] == '/');
}

static const weft_variable *variable_of(const weft_node *n) {
    return n->op->flags & OP_VARIABLE ? n->variable : NULL;
}

static const graph_output *output_of(const weft_graph *g, const weft_node *n, const char *name) {
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (o->value->node == n && strcmp(o->name, name) == 0) return o;
    return NULL;
}

/* Is the node what is named: %12 of a dump, an input, an output, a scope or a variable? */
static bool is_named(const weft_graph *g, const weft_node *n, const char *name) {
    int id, end = 0;
    if (sscanf(name, "%%%d%n", &id, &end) == 1 && !name[end])
        return n->n_out && id >= n->out[0].id && id < n->out[0].id + n->n_out;
    if (n->op == &weft_op_input && strcmp(input_name(n), name) == 0) return true;
    if (*n->scope && diagram_is_below(n->scope, name)) return true;
    if (variable_of(n) && strcmp(variable_of(n)->path, name) == 0) return true;
    return output_of(g, n, name) != NULL;
}

void diagram_no_scope(const weft_graph *g, const char *option, const char *name, bool with_values) {
    names all = names_for(name);
    const char *last = "";
    for (const weft_node *n = g->first; n; n = n->next) {
        for (const char *p = strcmp(n->scope, last) ? n->scope : ""; *p; p++)
            if (!p[1] || p[1] == '/') names_add(&all, tool_cut(n->scope, p + 1));
        last = n->scope;
        if (!with_values) continue;
        if (n->op == &weft_op_input) names_add(&all, input_name(n));
        if (variable_of(n)) names_add(&all, variable_of(n)->path);
    }
    for (const graph_output *o = with_values ? g->outputs : NULL; o; o = o->next) names_add(&all, o->name);
    tool_take(&all.all); /* it has scopes many times, and is not shown */
    names_refuse(&all, "dot: %s=%s: graph %s has no %s of that name", option, name, g->name,
                 with_values ? "value, scope or variable" : "scope");
}

/* Values that much of a graph may read lead nowhere, unless they are the focus. */
static bool leads_on(const weft_node *n) {
    return n->op != &weft_op_parameter &&
           !(n->op == &weft_op_constant && type_elements(&n->out[0].type) == 1);
}

/* One hop further: from what is `hop` away, over reads in both directions. `away` is by value id. */
static void hop_once(const weft_graph *g, int *away, int hop) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; n->n_out && k < n->n_in; k++) {
            if (!n->in[k]) continue;
            const weft_node *made = n->in[k]->node;
            int *from = &away[made->id], *to = &away[n->id];
            if (*from == hop && *to > hop + 1 && (hop == 0 || leads_on(made))) *to = hop + 1;
            if (*to == hop && *from > hop + 1) *from = hop + 1;
        }
}

/* Nodes without a result are as far away as what they read. */
static int away_of(const weft_node *n, const int *away, int far) {
    if (n->n_out) return away[n->id];
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && away[n->in[k]->node->id] < far) far = away[n->in[k]->node->id];
    return far;
}

bool *diagram_focus(diagram *s) {
    const weft_graph *g = s->graph;
    int place = 0, far = s->how.hops + 1, found = 0;
    int *away = diagram_new(s, g->next_id + 1, sizeof *away);
    bool *is_near = diagram_new(s, g->n_nodes + 1, sizeof *is_near);
    for (int i = 0; i <= g->next_id; i++) away[i] = far;
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->n_out && is_named(g, n, s->how.focus)) away[n->id] = 0, found++;
    if (!found) diagram_no_scope(g, "--focus", s->how.focus, true);
    for (int hop = 0; hop < s->how.hops; hop++) hop_once(g, away, hop);
    for (const weft_node *n = g->first; n; n = n->next) is_near[place++] = away_of(n, away, far) < far;
    return is_near;
}
