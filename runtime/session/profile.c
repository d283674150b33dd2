/* profile.c - times of nodes: sums for weft_session_profile_text, events for a tracer. Times are in ns of the
 * monotonic clock. */
#include "graph/core/compare.h"
#include "graph/text/text.h"
#include "runtime/session/state.h"

#include "ops/structure/collective.h"

#include <stdlib.h>

/* The fields that all events of a node have. */
static weft_node_event event_of(const weft_session *s, const bound_program *r, const weft_node *n,
                                uint64_t began, uint64_t finished) {
    return (weft_node_event){.graph = r->p->name,
                             .op = n->op->name,
                             .scope = n->scope,
                             .id = n->n_out ? n->out[0].id : 0,
                             .run = r->p->n_collectives ? s->run : 0,
                             .order = -1,
                             .began_ns = began,
                             .finished_ns = finished};
}

/* A wait's event has the number of the collective that it waits for. */
void note_time(weft_session *s, const bound_program *r, step *st, uint64_t began, uint64_t finished) {
    const weft_node *n = st->node, *start = n->op == &weft_op_wait ? n->in[0]->node : n;
    weft_node_event e = event_of(s, r, n, began, finished);
    /* Sums are kept even if only a tracer is on. */
    st->nanoseconds += (double)(e.finished_ns - began);
    st->runs++;
    if (!s->event) return;
    if (st->kernel)
        e.kernel = st->kernel->name;
    else
        e.order = ((const collective_attrs *)start->attrs)->order;
    e.is_wait = start != n;
    s->event(s->event_context, &e);
}

void note_arrival(weft_session *s, const bound_program *r, const step *st, uint64_t began) {
    weft_node_event e = event_of(s, r, st->node, began, weft_clock_ns());
    e.op = weft_op_wait.name;
    e.is_wait = true;
    s->event(s->event_context, &e);
}

/* Times add up over runs, also when profiling is switched off and on between them. */
void weft_session_set_profile(weft_session *s, bool on) {
    if (s) s->profiles = on;
}

void weft_session_trace(weft_session *s, void (*event)(void *context, const weft_node_event *event),
                        void *context) {
    if (!s) return;
    s->event = event;
    s->event_context = context;
}

/* For qsort: the largest sum of times first. */
static int slower_first(const void *pa, const void *pb) {
    const step *a = *(step *const *)pa, *b = *(step *const *)pb;
    return by_number(b->nanoseconds, a->nanoseconds);
}

/* The slowest nodes first. Averages are over timed runs, separately for the program and for each of its
 * nodes. */
static void profile_program(text *t, const bound_program *r) {
    double total = 0;
    int64_t runs = 0;
    step **list = malloc(((size_t)r->n_steps + 1) * sizeof *list);
    if (!list) return;
    for (int i = 0; i < r->n_steps; i++) {
        list[i] = &r->steps[i];
        total += r->steps[i].nanoseconds;
        if (r->steps[i].runs > runs) runs = r->steps[i].runs;
    }
    qsort(list, (size_t)r->n_steps, sizeof *list, slower_first);
    text_add(t, "program %s: %.3f ms a run in %d nodes\n", r->p->graph->name,
             runs ? total * 1e-6 / (double)runs : 0, r->n_steps);
    for (int i = 0; i < r->n_steps; i++) {
        if (!list[i]->runs) continue;
        text_add(t, "%10.1f us %5.1f%%  %%%-5d %s ", list[i]->nanoseconds * 1e-3 / (double)list[i]->runs,
                 total > 0 ? 100 * list[i]->nanoseconds / total : 0, list[i]->node->id,
                 list[i]->kernel ? list[i]->kernel->name : "collective");
        node_signature(t, list[i]->node);
        if (*list[i]->node->scope) text_add(t, " in %s", list[i]->node->scope);
        text_add(t, "\n");
    }
    free(list);
}

char *weft_session_profile_text(const weft_session *s) {
    text t = {0};
    for (int i = 0; s && i < s->plan->n_programs; i++) profile_program(&t, &s->programs[i]);
    return text_detach(&t);
}
