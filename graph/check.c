/* check.c - what holds for a graph after every pass, proved by walking it once. Rules:
 *   G1  operands come from nodes before their reader, of the same graph (I1)
 *   G2  every type has passed type_check (I2)
 *   G3  ids are unique; results know their node and place
 *   G4  the number of operands and the attributes are what the op allows
 *   G5  outputs name values of nodes that are in the list
 *   G6  a fused node's body reads its operands or earlier body nodes only, and makes all its results
 *   G7  nodes that must come first (`after`) are in the list
 */
#include "graph/graph.h"

typedef struct checker {
    weft_graph *g;
    const char *after; /* pass */
    bool *seen;        /* by id */
} checker;

static bool broken(const checker *c, const char *rule, const weft_node *n, const char *what) {
    char node[200];
    model_fail(c->g->model, NULL, WEFT_INTERNAL, "%s: graph %s, after %s: %s: %s", rule, c->g->name, c->after,
               n ? node_show(n, node) : "outputs", what);
    return false;
}

static bool check_body(const checker *c, const weft_node *n) {
    for (int b = 0; b < n->n_body; b++)
        for (int i = 0; i < n->body[b]->n_in; i++) {
            bool found = false;
            for (int k = 0; k < n->n_in; k++) found |= n->body[b]->in[i] == n->in[k];
            for (int k = 0; k < b; k++) found |= n->body[b]->in[i] == &n->body[k]->out[0];
            if (!found) return broken(c, "G6", n, "a body node reads what is not there");
        }
    for (int k = 0; n->n_body && k < n->n_out; k++) {
        bool found = false;
        for (int b = 0; b < n->n_body; b++) found |= n->body_out[k] == &n->body[b]->out[0];
        if (!found) return broken(c, "G6", n, "no body node makes one of its results");
    }
    return true;
}

static bool check_node(const checker *c, const weft_node *n) {
    char why[200];
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v && i < n->op->min_in) return broken(c, "G4", n, "an operand is missing");
        if (v && (v->node->graph != c->g || v->id < 0 || v->id >= c->g->next_id || !c->seen[v->id]))
            return broken(c, "G1", n, "an operand is not made before it");
    }
    if (n->n_in < n->op->min_in || (n->op->max_in >= 0 && n->n_in > n->op->max_in))
        return broken(c, "G4", n, "the number of operands");
    if (attrs_check(n->op, n->attrs, why)) return broken(c, "G4", n, why);
    for (int k = 0; k < n->n_out; k++) {
        const weft_value *v = &n->out[k];
        if (v->node != n || v->index != k) return broken(c, "G3", n, "a result belongs to another node");
        if (v->id < 0 || v->id >= c->g->next_id || c->seen[v->id])
            return broken(c, "G3", n, "an id is taken");
        if (!type_check(&v->type)) return broken(c, "G2", n, "a type that cannot be");
        c->seen[v->id] = true;
    }
    return check_body(c, n);
}

static bool check_edges(const checker *c) {
    for (weft_node *n = c->g->first; n; n = n->next)
        for (int i = 0; i < n->n_after; i++) n->after[i]->mark = -1;
    for (weft_node *n = c->g->first; n; n = n->next) n->mark = 0;
    for (weft_node *n = c->g->first; n; n = n->next)
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->mark) return broken(c, "G7", n, "waits for a node that is gone");
    return true;
}

bool graph_check(weft_graph *g, const char *after) {
    const weft_env *env = &g->model->env;
    size_t ids = (size_t)g->next_id + 1;
    checker c = {g, after, mem_new_array(env, ids, sizeof(bool))};
    if (!c.seen) return model_fail(g->model, g, WEFT_MEMORY, "check: memory could not be had");
    bool good = true;
    for (weft_node *n = g->first; n && good; n = n->next) good = check_node(&c, n);
    for (graph_output *o = g->outputs; o && good; o = o->next)
        if (o->value->id >= g->next_id || !c.seen[o->value->id]) good = broken(&c, "G5", NULL, o->name);
    mem_free(env, c.seen, ids * sizeof(bool));
    return good && check_edges(&c);
}
