/* timeline_plan.c - see timeline_plan.h. A value is in the arena from the first node that writes into its
 * buffer to the last that reads it; outputs stay until the end. */
#include "tools/graphtool/timeline/timeline_plan.h"

#include "tools/graphtool/output/end.h"

#include <string.h>

/* The value whose buffer holds this one: it shares that of its base, as a view or a part of a bucket. */
static const weft_value *buffer_of(const weft_value *v) {
    while (v->base) v = v->base;
    return v;
}

/* From which to which place of the schedule a buffer is in use. */
typedef struct span {
    int first, last;
} span;

static void widen_span(span *s, int order) {
    if (s->last < 0 || order < s->first) s->first = order;
    if (order > s->last) s->last = order;
}

/* Adds the bytes of each buffer to all places in its span. */
static void add_live(const weft_graph *g, const span *spans, uint64_t *live) {
    for (const weft_node *n = g->first; n; n = n->next) {
        live[n->order] += n->workspace_bytes;
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *v = &n->out[k];
            if (buffer_of(v) != v || v->variable || v->arena_offset < 0) continue;
            for (int i = spans[v->id].first; i <= spans[v->id].last; i++) live[i] += type_bytes(&v->type);
        }
    }
}

static uint64_t *live_of(const weft_graph *g) {
    span *spans = tool_new((size_t)g->next_id + 1, sizeof *spans);
    uint64_t *live = tool_new((size_t)g->n_nodes + 1, sizeof *live);
    for (int i = 0; i <= g->next_id; i++) spans[i].last = -1;
    for (const weft_node *n = g->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) widen_span(&spans[buffer_of(&n->out[k])->id], n->order);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]) widen_span(&spans[buffer_of(n->in[k])->id], n->order);
    }
    for (const graph_output *o = g->outputs; o; o = o->next)
        widen_span(&spans[buffer_of(o->value)->id], g->n_nodes - 1);
    add_live(g, spans, live);
    return live;
}

timeline_program *timeline_programs(const weft_plan *plan) {
    timeline_program *all = tool_new((size_t)plan->n_programs + 1, sizeof *all);
    for (int i = 0; i < plan->n_programs; i++) {
        const weft_graph *g = plan->programs[i].graph;
        const weft_node **node_of = tool_new((size_t)g->next_id + 1, sizeof *node_of);
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->n_out) node_of[n->id] = n;
        all[i] = (timeline_program){g, node_of, live_of(g)};
    }
    return all;
}

static const weft_node *node_in(const timeline_program *p, const weft_node_event *e) {
    const weft_node *n = e->id < p->graph->next_id ? p->node_of[e->id] : NULL;
    return n && strcmp(n->op->name, e->op) == 0 && strcmp(n->scope, e->scope) == 0 ? n : NULL;
}

const weft_node *timeline_node(const weft_plan *plan, const timeline_program *all, const weft_node_event *e,
                               const timeline_program **of) {
    if (e->is_wait) return NULL;
    if (*of && strcmp(plan->programs[*of - all].name, e->graph) == 0 && node_in(*of, e))
        return node_in(*of, e);
    for (int i = 0; i < plan->n_programs; i++) {
        const weft_node *n = strcmp(plan->programs[i].name, e->graph) == 0 ? node_in(&all[i], e) : NULL;
        if (n) *of = &all[i];
        if (n) return n;
    }
    return NULL;
}
