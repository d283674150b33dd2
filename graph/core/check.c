/* check.c - the rules that hold for a graph after every pass, checked in one walk. Rules:
 *   G1  operands come from nodes before their reader, of the same graph (I1)
 *   G2  every type has passed type_check (I2)
 *   G3  ids are unique; results know their node and place
 *   G4  the number of operands and the attributes are what the op allows
 *   G5  outputs name values of nodes that are in the list
 *   G6  a fused node's body reads its operands or earlier body nodes only, and makes all its results
 *   G7  nodes that must come first (`after`) come before it in the list
 *   G8  until gradients are made: the user's nodes read what they named, or all read in its place one new
 *       value, which stands for nothing else and which no other node reads
 *   G9  the list has as many nodes as the graph counts, to its last one
 */
#include "graph/core/graph.h"

typedef struct checker {
    weft_graph *g;
    const char *after; /* pass */
    bool *seen;        /* by id */
} checker;

/* Records which rule is broken, where, and after which pass; always false. */
static bool graph_broken(const checker *c, const char *rule, const weft_node *n, const char *what) {
    char node[200];
    c->g->model->file = NULL; /* a defect of a pass, not of a line of the program */
    model_fail(c->g->model, NULL, WEFT_INTERNAL, "%s: graph %s, after %s: %s: %s", rule, c->g->name, c->after,
               n ? node_show(n, node) : "outputs", what);
    return false;
}

/* G6; body nodes have one result each. */
static bool check_body(const checker *c, const weft_node *n) {
    for (int b = 0; b < n->n_body; b++)
        for (int i = 0; i < n->body[b]->n_in; i++) {
            bool found = false;
            for (int k = 0; k < n->n_in; k++) found |= n->body[b]->in[i] == n->in[k];
            for (int k = 0; k < b; k++) found |= n->body[b]->in[i] == &n->body[k]->out[0];
            if (!found) return graph_broken(c, "G6", n, "a body node reads a value that is not there");
        }
    for (int k = 0; n->n_body && k < n->n_out; k++) {
        bool found = false;
        for (int b = 0; b < n->n_body; b++) found |= n->body_out[k] == &n->body[b]->out[0];
        if (!found) return graph_broken(c, "G6", n, "no body node makes one of its results");
    }
    return true;
}

/* G1 to G4 and G6. The list is walked in order, so `seen` holds exactly the values that the node may read. */
static bool check_node(const checker *c, const weft_node *n) {
    char why[200];
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        if (!v && i < n->op->min_in) return graph_broken(c, "G4", n, "an operand is missing");
        if (v && (v->node->graph != c->g || v->id < 0 || v->id >= c->g->next_id || !c->seen[v->id]))
            return graph_broken(c, "G1", n, "an operand is not made before it");
    }
    if (n->n_in < n->op->min_in || (op_max_in(n->op) >= 0 && n->n_in > op_max_in(n->op)))
        return graph_broken(c, "G4", n, "its number of operands is wrong");
    if (attrs_check(n->op, n->attrs, why)) return graph_broken(c, "G4", n, why);
    for (int k = 0; k < n->n_out; k++) {
        const weft_value *v = &n->out[k];
        if (v->node != n || v->index != k)
            return graph_broken(c, "G3", n, "a result belongs to another node");
        if (v->id < 0 || v->id >= c->g->next_id || c->seen[v->id])
            return graph_broken(c, "G3", n, "an id is out of range or used twice");
        if (!type_check(&v->type)) return graph_broken(c, "G2", n, "a type that is not valid");
        c->seen[v->id] = true;
    }
    return check_body(c, n);
}

/* G7 without a table: from the end to the front each node is cleared, and then marks its `after` nodes. A
 * node in `after` that comes earlier in the list is cleared after that, so a mark that is left belongs to a
 * node at or after its waiter. */
static bool check_edges(const checker *c) {
    for (weft_node *n = c->g->last; n; n = n->prev) {
        n->mark = 0;
        for (int i = 0; i < n->n_after; i++) n->after[i]->mark = -1;
    }
    for (weft_node *n = c->g->first; n; n = n->next)
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->mark)
                return graph_broken(c, "G7", n, "waits for a node that is not before it in the list");
    return true;
}

/* G9, and the rules of each node. */
static bool check_nodes(const checker *c) {
    const weft_node *last = NULL;
    int count = 0;
    for (const weft_node *n = c->g->first; n; last = n, n = n->next, count++)
        if (!check_node(c, n)) return false;
    if (count == c->g->n_nodes && last == c->g->last) return true;
    return graph_broken(c, "G9", last, "the list ends here, with more or fewer nodes than are counted");
}

bool graph_check(weft_graph *g, const char *after) {
    /* One byte per id: O(nodes) memory, freed before returning. */
    const weft_env *env = &g->model->env;
    size_t ids = (size_t)g->next_id + 1;
    checker c = {g, after, mem_new_array(env, ids, sizeof(bool))};
    if (!c.seen) return graph_fail(g, WEFT_MEMORY, "check: out of memory");
    bool good = check_nodes(&c);
    for (graph_output *o = g->outputs; o && good; o = o->next)
        if (o->value->id >= g->next_id || !c.seen[o->value->id]) good = graph_broken(&c, "G5", NULL, o->name);
    mem_free(env, c.seen, ids * sizeof(bool));
    return good && check_edges(&c);
}

/* ---- G8 ---- */

/* A copy of a graph, and the source from which replay made its nodes in order. */
typedef struct names {
    checker c;
    int first_new;        /* ids from here on were made by passes */
    weft_value **present; /* by id in the source: its value in the copy; NULL: not met yet */
    int *meant;           /* by id in the copy: 1 + the id of the source's value that it is */
} names;

/* The copy reads value `now` where the source reads `then`. The first such pair may introduce one new value
 * for `then`; all others must agree. */
static bool name_read(const names *t, const weft_node *n, const weft_value *then, weft_value *now) {
    if (!t->present[then->id] && now->id >= t->first_new && !t->meant[now->id]) {
        t->present[then->id] = now;
        t->meant[now->id] = then->id + 1;
    }
    return t->present[then->id] == now ||
           graph_broken(&t->c, "G8", n, "it reads another value than the user named");
}

/* Compares a node with its source and enters its results. */
static bool names_of_node(const names *t, const weft_node *source, const weft_node *n) {
    if (source->n_in != n->n_in || source->op != n->op || !attrs_equal(n->op, source->attrs, n->attrs))
        return graph_broken(&t->c, "G8", n, "the user made another node");
    for (int k = 0; k < n->n_out; k++) {
        t->present[source->out[k].id] = &n->out[k];
        t->meant[n->out[k].id] = source->out[k].id + 1;
    }
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !name_read(t, n, source->in[i], n->in[i])) return false;
    return true;
}

/* Enters the nodes that stand for results of a call with an empty operand, each of which has the id of its
 * result. Returns the node after them. */
static const weft_node *names_of_nothing(const names *t, const weft_node *source, int id,
                                         const weft_node *n) {
    for (; n && n->is_of_nothing && n->id >= id && n->id < id + source->n_out; n = n->next) {
        int then = source->out[n->id - id].id;
        t->present[then] = &n->out[0];
        t->meant[n->id] = then + 1;
    }
    return n;
}

/* Walks over both lists in step. Nodes that passes have removed enter no values, so their readers must read a
 * new value. */
static bool names_kept(const names *t, const weft_graph *source) {
    const weft_node *n = t->c.g->first;
    int id = 0; /* replay gives its nodes the ids 0, 1, ... */
    for (const weft_node *s = source->first; s; id += s->n_out, s = s->next) {
        while (n && n->id >= t->first_new) n = n->next;
        n = names_of_nothing(t, s, id, n);
        if (!n || n->id != id || n->n_out != s->n_out) continue;
        if (!names_of_node(t, s, n)) return false;
        n = n->next;
    }
    const graph_output *o = t->c.g->outputs;
    for (const graph_output *s = source->outputs; s && o; s = s->next, o = o->next)
        if (!name_read(t, o->value->node, s->value, o->value)) return false;
    return true;
}

/* Nodes made by passes read no new value that stands for a user's value. */
static bool names_apart(const names *t) {
    for (const weft_node *n = t->c.g->first; n; n = n->next)
        for (int i = 0; n->id >= t->first_new && i < n->n_in; i++)
            if (n->in[i] && n->in[i]->id >= t->first_new && t->meant[n->in[i]->id])
                return graph_broken(&t->c, "G8", n, "it reads a value that replaces one of the user's");
    return true;
}

/* Replay gives the copy's nodes the ids of the source's, so ids from the number of the source's results on
 * are new. */
bool graph_check_names(const weft_graph *source, weft_graph *g, const char *after) {
    const weft_env *env = &g->model->env;
    size_t ids = (size_t)g->next_id + 1, source_ids = (size_t)source->next_id + 1;
    names t = {.c = {.g = g, .after = after},
               .present = mem_new_array(env, source_ids, sizeof *t.present),
               .meant = mem_new_array(env, ids, sizeof *t.meant)};
    for (const weft_node *n = source->first; n; n = n->next) t.first_new += n->n_out;
    bool good = t.present && t.meant;
    if (!good) graph_fail(g, WEFT_MEMORY, "check: out of memory");
    good = good && names_kept(&t, source) && names_apart(&t);
    if (t.meant) mem_free(env, t.meant, ids * sizeof *t.meant);
    if (t.present) mem_free(env, t.present, source_ids * sizeof *t.present);
    return good;
}
