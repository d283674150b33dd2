/* alive.c - see alive.h: lifetimes read from the plan, as the bases and the schedule say them. */
#include "tools/graphtool/diff/alive.h"

#include "runtime/plan/value.h"
#include "tools/graphtool/output/end.h"

typedef struct lifetimes {
    int *first, *last; /* by id of a value without a base */
} lifetimes;

static void note_use(lifetimes *l, const weft_value *v, int step) {
    int id = value_root(v)->id;
    if (step < l->first[id]) l->first[id] = step;
    if (step > l->last[id]) l->last[id] = step;
}

static lifetimes lifetimes_of(const weft_graph *g, int steps) {
    lifetimes l = {.first = tool_new((size_t)g->next_id + 1, sizeof(int)),
                   .last = tool_new((size_t)g->next_id + 1, sizeof(int))};
    for (int i = 0; i < g->next_id; i++) l.first[i] = steps;
    for (const weft_node *n = g->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) note_use(&l, &n->out[k], n->order);
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) note_use(&l, n->in[i], n->order);
    }
    for (const graph_output *o = g->outputs; o; o = o->next) note_use(&l, o->value, steps);
    return l;
}

static void add_buffer(alive_list *l, int64_t *change, alive_buffer b) {
    b.bytes = size_align(b.bytes, MEM_ALIGN);
    l->v[l->n++] = b;
    change[b.first] += (int64_t)b.bytes;
    change[b.last + 1] -= (int64_t)b.bytes;
}

static void find_peak(alive_list *l, const int64_t *change) {
    int64_t now = 0;
    for (int step = 0; step <= l->steps; step++) {
        now += change[step];
        if (now <= (int64_t)l->peak_bytes) continue;
        l->peak_bytes = (uint64_t)now;
        l->peak = step;
    }
}

alive_list alive_of(const program *p) {
    alive_list l = {.p = p, .steps = graph_node_count(p->graph), .peak = -1};
    const lifetimes lives = lifetimes_of(p->graph, l.steps);
    size_t most = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) most += (size_t)n->n_out + 1;
    int64_t *change = tool_new((size_t)l.steps + 2, sizeof *change);
    l.v = tool_new(most, sizeof *l.v);
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *v = &n->out[k];
            if (value_is_arenas(v))
                add_buffer(&l, change,
                           (alive_buffer){v, n, value_span(v), lives.first[v->id], lives.last[v->id]});
        }
        if (n->workspace_bytes)
            add_buffer(&l, change, (alive_buffer){NULL, n, n->workspace_bytes, n->order, n->order});
    }
    find_peak(&l, change);
    return l;
}

const weft_node *alive_peak_node(const alive_list *l) {
    const weft_node *n = l->p->graph->first;
    while (n && n->order != l->peak) n = n->next;
    return n;
}
