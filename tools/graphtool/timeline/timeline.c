/* timeline.c - records events, and joins what belongs together: a collective, the node that made it ready,
 * the one that waited. */
#include "tools/graphtool/timeline/timeline.h"

#include <string.h>

/* ---- recording ---- */

/* The place of one more element of a list, which may move; NULL: out of memory. Any thread may call it. */
static void *grow(timeline *t, void *list, size_t *n, size_t *room, size_t width) {
    void **at = list, *more = mem_grow(NULL, *at, room, *n + 1, width);
    t->is_out_of_memory |= !more;
    if (!more) return NULL;
    *at = more;
    return (char *)more + width * (*n)++;
}

void timeline_on_node(void *context, const weft_node_event *event) {
    timeline *t = context;
    weft_node_event *e = grow(t, &t->nodes, &t->n_nodes, &t->room_nodes, sizeof *e);
    if (e) *e = *event;
}

void timeline_on_data(void *context, const weft_loader_event *event) {
    timeline *t = context;
    weft_loader_event *e = grow(t, &t->data, &t->n_data, &t->room_data, sizeof *e);
    if (e) *e = *event;
}

void timeline_on_step(timeline *t, uint64_t began_ns) {
    uint64_t *at = grow(t, &t->steps, &t->n_steps, &t->room_steps, sizeof *at);
    if (at) *at = began_ns;
}

double timeline_data_ms(const timeline *t) {
    double ms = 0;
    for (size_t i = 0; i < t->n_data; i++)
        ms += 1e-6 * (double)(t->data[i].finished_ns - t->data[i].began_ns);
    return ms;
}

void timeline_on_collective(void *context, const weft_comm_event *event) {
    timeline *t = context;
    const weft_collective *c = event->collective;
    if (!c->run) return; /* a collective of graphtool itself */
    stream_event *e = grow(t, &t->stream, &t->n_stream, &t->room_stream, sizeof *e);
    if (!e) return;
    *e = (stream_event){.run = c->run,
                        .order = c->order,
                        .started_ns = event->started_ns,
                        .began_ns = event->began_ns,
                        .met_ns = event->met_ns,
                        .finished_ns = event->finished_ns,
                        .bytes = c->count * dtype_bytes(c->dtype)};
    snprintf(e->program, sizeof e->program, "%s", c->program ? c->program : "");
    snprintf(e->name, sizeof e->name, "%s", c->name ? c->name : "");
    snprintf(e->op, sizeof e->op, "%s", weft_collective_name(c->kind));
}

void timeline_free(timeline *t) {
    free(t->nodes);
    free(t->stream);
    free(t->data);
    free(t->steps);
    *t = (timeline){0};
}

/* ---- joining ---- */

/* Index of the first node that began at `ns` or later; nodes are in order of time. */
static size_t first_from(const timeline *t, uint64_t ns) {
    size_t low = 0, high = t->n_nodes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->nodes[middle].began_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last node of a run up to a time: the one that started collective `order` or, if order is -1, the one
 * with number `id`. */
static const weft_node_event *node_before(const timeline *t, uint64_t run, uint64_t ns, int64_t order,
                                          int id) {
    for (size_t i = first_from(t, ns + 1); i-- > 0 && (!t->nodes[i].run || t->nodes[i].run >= run);) {
        const weft_node_event *e = &t->nodes[i];
        bool is_arrival = e->is_wait && e->order < 0; /* it has the number of the node after it */
        if (e->run == run && (order >= 0 ? !e->is_wait && e->order == order : !is_arrival && e->id == id))
            return e;
    }
    return NULL;
}

/* Finds the move of a collective: by the node that started it, whose graph has its full name; or, if nodes
 * were not traced yet, by the name that the communicator kept, cut to its length. */
static void find_move(const timeline *t, stream_event *c, const stream_list *plan) {
    const weft_node_event *start = node_before(t, c->run, c->started_ns, (int64_t)c->order, 0);
    size_t cut = sizeof c->program - 1;
    for (int i = 0; i < plan->n && !c->move; i++) {
        const streams *l = &plan->v[i];
        if (start ? strcmp(start->graph, l->p->name) : strncmp(c->program, l->p->name, cut)) continue;
        for (int k = 0; k < l->n_moves; k++)
            if (l->moves[k].order == (int64_t)c->order &&
                (!start || l->moves[k].start->out[0].id == start->id)) {
                c->of = l;
                c->move = &l->moves[k];
            }
    }
    const weft_node *ready = c->move ? c->move->ready : NULL;
    if (ready && ready->n_out) c->ready = node_before(t, c->run, c->started_ns, -1, ready->out[0].id);
}

/* Does the event's node read the bucket, in any phase of its graph? */
static bool event_reads(const weft_plan *plan, const weft_node_event *e, const weft_variable *bucket) {
    for (int i = 0; i < plan->n_programs; i++) {
        if (strcmp(plan->programs[i].name, e->graph) != 0) continue;
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            for (int k = 0; n->n_out && n->out[0].id == e->id && k < n->n_in; k++)
                if (n->in[k] && bucket_of(n->in[k]) == bucket) return true;
    }
    return false;
}

/* No later event can wait for this collective. A run's deferred part is over before the next run but one. A
 * gather always finds a reader, at the latest its bucket's next update. */
static bool is_settled(const stream_event *c, const weft_node_event *w) {
    return c->wait || !c->move || (c->move->wait && c->run + 1 < w->run);
}

/* Finds the collective that a wait is for, the latest if several are in flight. All before *first are
 * settled. */
static stream_event *awaited_by(timeline *t, const weft_node_event *w, const weft_plan *plan, size_t *first) {
    stream_event *latest = NULL;
    while (*first < t->n_stream && is_settled(&t->stream[*first], w)) ++*first;
    stream_event *end = t->stream + t->n_stream;
    for (stream_event *c = t->stream + *first; c < end && c->started_ns <= w->finished_ns; c++) {
        if (is_settled(c, w)) continue;
        bool is_it = w->order >= 0
                         ? c->run == w->run && (int64_t)c->order == w->order
                         : !c->move->wait && c->move->bucket && event_reads(plan, w, c->move->bucket);
        if (!is_it) continue;
        c->wait = w;
        latest = c;
    }
    return latest;
}

/* Distributes the time of one wait over the collectives that ran during it; the rest goes to `awaited`. All
 * before *first finished before earlier waits began. */
static void expose(timeline *t, const weft_node_event *w, stream_event *awaited, size_t *first) {
    uint64_t left = w->finished_ns - w->began_ns;
    while (*first < t->n_stream && t->stream[*first].finished_ns <= w->began_ns) ++*first;
    stream_event *end = t->stream + t->n_stream;
    for (stream_event *c = t->stream + *first; c < end && c->began_ns < w->finished_ns; c++) {
        uint64_t begin = c->began_ns > w->began_ns ? c->began_ns : w->began_ns;
        uint64_t end = c->finished_ns < w->finished_ns ? c->finished_ns : w->finished_ns;
        if (end <= begin) continue;
        c->exposed_ns += end - begin;
        left -= end - begin < left ? end - begin : left; /* the stream is serial, so no moment counts twice */
    }
    if (awaited) awaited->exposed_ns += left;
}

void timeline_join(timeline *t, const stream_list *plan) {
    size_t unsettled = 0, unfinished = 0;
    for (size_t i = 0; i < t->n_stream; i++) find_move(t, &t->stream[i], plan);
    for (const weft_node_event *w = t->nodes; w < t->nodes + t->n_nodes; w++)
        if (w->is_wait) expose(t, w, awaited_by(t, w, plan->plan, &unsettled), &unfinished);
}
