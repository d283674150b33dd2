/* low_peak.c - an order of a program's nodes with a low peak of live bytes.
 *
 * There are two candidates: the order of the list (forward, backward, updates), and a greedy one. Among all
 * ready nodes the greedy order takes one that shrinks what is live, if there is one (an optimizer's update
 * frees its bucket), else the first of the list. The candidate with the lower peak wins; the list's order
 * wins ties.
 *
 * What orders are compared by is read from the graph once, into arrays of numbers: a graph of many layers
 * fits no cache, and three walks through it cost more than all else here. */
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "graph/core/users.h"

#include <string.h>

/* By place of a node in the list: the bytes that it makes, and the roots that it reads, each once:
 * reads[first[i]] to before reads[first[i + 1]]. Roots are numbered in the order in which they are made. */
typedef struct traffic {
    int count, n_roots;
    int64_t *made;
    int *first, *reads;
    int64_t *bytes; /* by root; 0: its memory is a variable's or an input's */
    bool *is_shown; /* by root: an output needs it, so it is never freed */
    node_users users;
} traffic;

/* A simulated run. readers[root] counts the nodes that still read it. who[root] is the exclusive or of their
 * places: once one is left, it is the place of that reader, which frees the root's bytes. */
typedef struct progress {
    int64_t *freed; /* by place: bytes that are freed if the node runs next */
    int *pending;   /* by place: how many nodes it still waits for */
    int *readers, *who;
} progress;

/* ---- what the graph says ---- */

/* Numbers the results that are roots (value->mark), and notes their bytes. */
static void note_results(traffic *t, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        if (v->base) continue;
        if (value_is_arenas(v)) t->bytes[t->n_roots] = (int64_t)value_span(v);
        t->made[n->order] += t->bytes[t->n_roots];
        v->mark = t->n_roots++;
    }
}

/* Lists the roots that n reads, each once, from reads[at] on; returns the end. seen[root] is 1 + the place of
 * its last reader so far. */
static int note_reads(traffic *t, const weft_node *n, int *seen, int at) {
    t->first[n->order] = at;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        int root = (int)value_root(n->in[i])->mark;
        if (seen[root] == n->order + 1) continue;
        seen[root] = n->order + 1;
        t->reads[at++] = root;
    }
    return at;
}

static bool traffic_read(traffic *t, weft_graph *g, weft_node **list, int count) {
    weft_model *m = g->model;
    int values = 0, operands = 0;
    for (int i = 0; i < count; i++) {
        values += list[i]->n_out;
        operands += list[i]->n_in;
    }
    int *seen = scratch_array(m, values, sizeof *seen);
    *t = (traffic){.count = count,
                   .made = scratch_array(m, count, sizeof *t->made),
                   .first = scratch_array(m, count + 1, sizeof *t->first),
                   .reads = scratch_array(m, operands, sizeof *t->reads),
                   .bytes = scratch_array(m, values, sizeof *t->bytes),
                   .is_shown = scratch_array(m, values, sizeof *t->is_shown)};
    if (!seen || !t->made || !t->first || !t->reads || !t->bytes || !t->is_shown) return false;
    for (int i = 0; i < count; i++) note_results(t, list[i]);
    for (int i = 0; i < count; i++) t->first[i + 1] = note_reads(t, list[i], seen, t->first[i]);
    for (const graph_output *o = g->outputs; o; o = o->next) t->is_shown[value_root(o->value)->mark] = true;
    return node_users_find(&t->users, &m->scratch, list, count);
}

/* ---- a run ---- */

static bool progress_open(progress *s, const traffic *t, weft_graph *g) {
    *s = (progress){.freed = scratch_array(g->model, t->count, sizeof *s->freed),
                    .pending = scratch_array(g->model, t->count, sizeof *s->pending),
                    .readers = scratch_array(g->model, t->n_roots, sizeof *s->readers),
                    .who = scratch_array(g->model, t->n_roots, sizeof *s->who)};
    return s->freed && s->pending && s->readers && s->who;
}

static void note_last_reader(progress *s, const traffic *t, int root) {
    if (s->readers[root] == 1 && !t->is_shown[root]) s->freed[s->who[root]] += t->bytes[root];
}

/* Sets s to before the first node. */
static void progress_begin(progress *s, const traffic *t) {
    memset(s->freed, 0, (size_t)t->count * sizeof *s->freed);
    memset(s->pending, 0, (size_t)t->count * sizeof *s->pending);
    memset(s->readers, 0, (size_t)t->n_roots * sizeof *s->readers);
    memset(s->who, 0, (size_t)t->n_roots * sizeof *s->who);
    for (int i = 0; i < t->count; i++)
        for (int k = t->first[i]; k < t->first[i + 1]; k++) {
            s->readers[t->reads[k]]++;
            s->who[t->reads[k]] ^= i;
        }
    for (int i = 0; i < t->users.first[t->count]; i++) s->pending[t->users.of[i]]++;
    for (int root = 0; root < t->n_roots; root++) note_last_reader(s, t, root);
}

/* Node i has run: its reads are done, and its users wait for one node less. */
static void progress_node(progress *s, const traffic *t, int i) {
    for (int k = t->first[i]; k < t->first[i + 1]; k++) {
        int root = t->reads[k];
        s->readers[root]--;
        s->who[root] ^= i;
        note_last_reader(s, t, root);
    }
    for (int u = t->users.first[i]; u < t->users.first[i + 1]; u++) s->pending[t->users.of[u]]--;
}

/* Most bytes live at once in this order: results are counted before operands are freed. */
static int64_t peak_of(progress *s, const traffic *t, weft_node **order) {
    int64_t live = 0, peak = 0;
    progress_begin(s, t);
    for (int k = 0; k < t->count; k++) {
        int i = order[k]->order;
        live += t->made[i];
        if (live > peak) peak = live;
        live -= s->freed[i];
        progress_node(s, t, i);
    }
    return peak;
}

/* ---- the greedy order ---- */

/* The next node of the greedy order; next[i] is the node after i in what is left of the list. Nodes that wait
 * for a late operand stay unready for long, so only a window of the list is searched: a graph of many
 * thousand nodes is ordered in linear time. */
static int pick(const progress *s, const traffic *t, const int *next, int first) {
    enum { WINDOW = 64 };
    int chosen = -1;
    for (int i = first, seen = 0; i < t->count && (seen < WINDOW || chosen < 0); i = next[i], seen++) {
        if (s->pending[i]) continue;
        if (chosen < 0) chosen = i;
        if (t->made[i] < s->freed[i]) return i;
    }
    return chosen;
}

/* next[] and prev[] are a linked list of the nodes that are left; `first` is its head. */
static bool greedy(progress *s, const traffic *t, weft_graph *g, weft_node **list, weft_node **order) {
    int *next = scratch_array(g->model, t->count + 1, sizeof *next), first = 0;
    int *prev = scratch_array(g->model, t->count + 1, sizeof *prev);
    if (!next || !prev) return false;
    for (int i = 0; i <= t->count; i++) {
        next[i] = i + 1;
        prev[i] = i - 1;
    }
    progress_begin(s, t);
    for (int i = 0; i < t->count; i++) {
        int at = pick(s, t, next, first);
        order[i] = list[at];
        prev[next[at]] = prev[at];
        *(at == first ? &first : &next[prev[at]]) = next[at];
        progress_node(s, t, at);
    }
    return true;
}

weft_node **order_low_peak(weft_graph *g, weft_node **list, weft_node **plain, int count) {
    traffic t;
    progress s;
    weft_node **order = scratch_array(g->model, count, sizeof *order);
    if (!order || !traffic_read(&t, g, list, count) || !progress_open(&s, &t, g) ||
        !greedy(&s, &t, g, list, order))
        return NULL;
    return peak_of(&s, &t, order) < peak_of(&s, &t, plain) ? order : plain;
}
