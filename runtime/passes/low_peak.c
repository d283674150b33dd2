/* low_peak.c - an order of a program's nodes with a low peak of live bytes.
 *
 * Two candidates: the order of the list (forward, backward, updates), and a greedy one that among all ready nodes
 * runs one that shrinks what is live as soon as there is one (an optimizer update frees its bucket), else the
 * first in list order. The one with the lower peak stays; the list order wins ties.
 *
 * What the orders are judged by is read off the graph once, into arrays of numbers: a graph of many layers lies in no
 * cache, and three walks through it cost more than all else here.
 */
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "graph/core/users.h"

#include <string.h>

/* By place of a node in the list: bytes that it makes, and the roots that it reads, reads[first[i]] to before
 * reads[first[i + 1]], each once. Roots are numbered as they are made. */
typedef struct traffic {
    int count, n_roots;
    int64_t *made;
    int *first, *reads;
    int64_t *bytes; /* of a root; 0: it is a variable's or an input's */
    bool *is_shown; /* of a root: an output, never freed */
    node_users users;
} traffic;

/* A run on the way. `readers` of a root: how many nodes still read it; `who`: the exclusive or of their places, so that
 * with one left it is that one's, and the root's bytes die with it. */
typedef struct progress {
    int64_t *freed; /* by place: bytes that die when the node runs now */
    int *pending;   /* by place: what the node waits for */
    int *readers, *who;
} progress;

static bool takes_memory(const weft_value *v) {
    return !v->base && !v->variable && v->node->op != &weft_op_input;
}

static bool out_of_memory(weft_graph *g) {
    return model_fail(g->model, g, WEFT_MEMORY, "schedule: memory could not be had");
}

/* ---- what the graph says ---- */

/* Numbers the results that are roots (mark) and notes their bytes. */
static void note_results(traffic *t, const weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        if (v->base) continue;
        if (takes_memory(v)) t->bytes[t->n_roots] = (int64_t)value_span(v);
        t->made[n->order] += t->bytes[t->n_roots];
        v->mark = t->n_roots++;
    }
}

/* `seen`, by root: 1 + the place of the node that was last seen to read it. */
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
    arena *a = &g->model->arena;
    size_t room = (size_t)count + 1, values = 1, operands = 1;
    for (int i = 0; i < count; i++) {
        values += (size_t)list[i]->n_out;
        operands += (size_t)list[i]->n_in;
    }
    int *seen = arena_new_array(a, values, sizeof *seen);
    *t = (traffic){.count = count,
                   .made = arena_new_array(a, room, sizeof *t->made),
                   .first = arena_new_array(a, room, sizeof *t->first),
                   .reads = arena_new_array(a, operands, sizeof *t->reads),
                   .bytes = arena_new_array(a, values, sizeof *t->bytes),
                   .is_shown = arena_new_array(a, values, sizeof *t->is_shown)};
    if (!seen || !t->made || !t->first || !t->reads || !t->bytes || !t->is_shown) return out_of_memory(g);
    for (int i = 0; i < count; i++) note_results(t, list[i]);
    for (int i = 0; i < count; i++) t->first[i + 1] = note_reads(t, list[i], seen, t->first[i]);
    for (const graph_output *o = g->outputs; o; o = o->next) t->is_shown[value_root(o->value)->mark] = true;
    return node_users_find(&t->users, a, list, count) || out_of_memory(g);
}

/* ---- a run ---- */

static bool progress_open(progress *s, const traffic *t, weft_graph *g) {
    arena *a = &g->model->arena;
    *s = (progress){.freed = arena_new_array(a, (size_t)t->count + 1, sizeof *s->freed),
                    .pending = arena_new_array(a, (size_t)t->count + 1, sizeof *s->pending),
                    .readers = arena_new_array(a, (size_t)t->n_roots + 1, sizeof *s->readers),
                    .who = arena_new_array(a, (size_t)t->n_roots + 1, sizeof *s->who)};
    return (s->freed && s->pending && s->readers && s->who) || out_of_memory(g);
}

static void note_last_reader(progress *s, const traffic *t, int root) {
    if (s->readers[root] == 1 && !t->is_shown[root]) s->freed[s->who[root]] += t->bytes[root];
}

/* Before the first node. */
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

static void progress_node(progress *s, const traffic *t, int i) {
    for (int k = t->first[i]; k < t->first[i + 1]; k++) {
        int root = t->reads[k];
        s->readers[root]--;
        s->who[root] ^= i;
        note_last_reader(s, t, root);
    }
    for (int u = t->users.first[i]; u < t->users.first[i + 1]; u++) s->pending[t->users.of[u]]--;
}

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

/* Nodes that wait long for a late operand stay unready; the scan looks at a window of what is left of the list only, so that
 * a graph of many thousand nodes is ordered in linear time. next[i]: the one behind i. */
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

static bool greedy(progress *s, const traffic *t, weft_graph *g, weft_node **list, weft_node **order) {
    arena *a = &g->model->arena;
    int *next = arena_new_array(a, (size_t)t->count + 1, sizeof *next), first = 0;
    int *prev = arena_new_array(a, (size_t)t->count + 1, sizeof *prev);
    if (!next || !prev) return out_of_memory(g);
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
    weft_node **order = arena_new_array(&g->model->arena, (size_t)count + 1, sizeof *order);
    if (!order) return out_of_memory(g), NULL;
    if (!traffic_read(&t, g, list, count) || !progress_open(&s, &t, g) || !greedy(&s, &t, g, list, order))
        return NULL;
    return peak_of(&s, &t, order) < peak_of(&s, &t, plain) ? order : plain;
}
