/* timeline.c - recording, and Chrome's format: "X" is a bar, "M" a name of a row, "s" "t" "f" an arrow whose ends lie
 * inside bars. Times are in microseconds. */
#include "tools/timeline.h"

#include "ops/collective.h"
#include "runtime/program.h"

#include <stdlib.h>
#include <string.h>

enum { COMPUTE, COMMUNICATION };

/* ---- recording ---- */

/* Room for one more; false when memory is out. */
static bool grow(void **list, size_t count, size_t *room, size_t bytes) {
    if (count < *room) return true;
    size_t more = *room ? 2 * *room : 4096;
    void *bigger = realloc(*list, more * bytes);
    if (!bigger) return false;
    *list = bigger;
    *room = more;
    return true;
}

void timeline_on_node(void *context, const weft_node_event *event) {
    timeline *t = context;
    if (grow((void **)&t->nodes, t->n_nodes, &t->room_nodes, sizeof *t->nodes))
        t->nodes[t->n_nodes++] = *event;
    else
        t->is_out_of_memory = true;
}

void timeline_on_collective(void *context, const weft_comm_event *event) {
    timeline *t = context;
    const weft_collective *c = event->collective;
    if (!c->run) return; /* graphtool's own */
    if (!grow((void **)&t->lane, t->n_lane, &t->room_lane, sizeof *t->lane)) {
        t->is_out_of_memory = true;
        return;
    }
    lane_event *e = &t->lane[t->n_lane++];
    *e = (lane_event){.run = c->run,
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
    free(t->lane);
    *t = (timeline){0};
}

/* The first node from a time on. */
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

const weft_node_event *timeline_wait(const timeline *t, const lane_event *c) {
    for (size_t i = first_from(t, c->started_ns); i < t->n_nodes && t->nodes[i].run == c->run; i++)
        if (t->nodes[i].is_wait && (uint64_t)t->nodes[i].order == c->order) return &t->nodes[i];
    return NULL;
}

/* The node of this number in a collective's run, before it started. */
static const weft_node_event *node_before(const timeline *t, const lane_event *c, int id) {
    for (size_t i = first_from(t, c->started_ns); i-- > 0 && t->nodes[i].run == c->run;)
        if (t->nodes[i].id == id) return &t->nodes[i];
    return NULL;
}

/* ---- writing ---- */

typedef struct writer {
    FILE *stream;
    int rank;
    uint64_t zero_ns;
    bool is_good;
} writer;

static void put(writer *w, json_t *event) {
    w->is_good = w->is_good && event &&
                 json_dumpf(event, w->stream, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0 &&
                 fputs(",\n", w->stream) != EOF;
    json_decref(event);
}

static double microseconds(const writer *w, uint64_t ns) {
    return (double)(int64_t)(ns - w->zero_ns) * 1e-3;
}

static void put_row(writer *w, const char *kind, int row, const char *name) {
    put(w, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", kind, "pid", w->rank, "tid", row,
                     "args", "name", name));
}

static void put_bar(writer *w, int row, const char *kind, const char *name, uint64_t began, uint64_t finished,
                    json_t *args) {
    put(w, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "cat", kind, "name", name, "pid",
                     w->rank, "tid", row, "ts", microseconds(w, began), "dur",
                     (double)(finished - began) * 1e-3, "args", args));
}

/* One end of an arrow, in the middle of a bar. Its number is of rank, run and order, and below 2^53. */
static void put_arrow(writer *w, const char *phase, int row, const lane_event *c, uint64_t began,
                      uint64_t finished) {
    uint64_t id = (((uint64_t)w->rank << 20 | (c->run & 0xfffff)) << 12) | (c->order & 0xfff);
    put(w, json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:f}", "ph", phase, "bp", "e", "cat", "bucket",
                     "name", c->name, "id", (json_int_t)id, "pid", w->rank, "tid", row, "ts",
                     microseconds(w, began + (finished - began) / 2)));
}

static void put_node(writer *w, const weft_node_event *e) {
    char name[120];
    const char *kind = e->kernel ? "compute" : e->is_wait ? "wait" : "start";
    snprintf(name, sizeof name, "%.80s %%%d", e->op, e->id);
    put_bar(w, COMPUTE, kind, name, e->began_ns, e->finished_ns,
            json_pack("{s:s, s:s, s:s}", "graph", e->graph, "scope", e->scope, "kernel",
                      e->kernel ? e->kernel : ""));
}

/* The number of the node that makes a collective's bucket ready, by the plan. */
static int ready_id(const weft_plan *plan, const lane_event *c) {
    for (int i = 0; i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        if (!p->n_collectives || strcmp(p->name, c->program) != 0) continue;
        for (const weft_node *n = p->graph->first; n; n = n->next)
            if (n->op == &weft_op_all_reduce &&
                ((const collective_attrs *)n->attrs)->order == (int64_t)c->order)
                return plan_ready_after(n->in[0]->node)->out[0].id;
    }
    return 0;
}

static void put_collective(writer *w, const timeline *t, const weft_plan *plan, const lane_event *c) {
    const weft_node_event *wait = timeline_wait(t, c);
    const weft_node_event *ready = node_before(t, c, ready_id(plan, c));
    char name[100];
    snprintf(name, sizeof name, "%s %s", c->op, c->name);
    put_bar(w, COMMUNICATION, "collective", name, c->began_ns, c->finished_ns,
            json_pack("{s:s, s:I, s:I, s:I, s:f}", "graph", c->program, "run", (json_int_t)c->run, "order",
                      (json_int_t)c->order, "bytes", (json_int_t)c->bytes, "until_all_were_there_us",
                      (double)(c->met_ns - c->began_ns) * 1e-3));
    if (ready) put_arrow(w, "s", COMPUTE, c, ready->began_ns, ready->finished_ns);
    put_arrow(w, "t", COMMUNICATION, c, c->began_ns, c->finished_ns);
    if (wait) put_arrow(w, "f", COMPUTE, c, wait->began_ns, wait->finished_ns);
}

char *timeline_text(const timeline *t, const weft_plan *plan, int rank, uint64_t zero_ns) {
    char *text = NULL, name[40];
    size_t bytes;
    writer w = {.stream = open_memstream(&text, &bytes), .rank = rank, .zero_ns = zero_ns, .is_good = true};
    if (!w.stream) return NULL;
    snprintf(name, sizeof name, "rank %d", rank);
    put_row(&w, "process_name", COMPUTE, name);
    put_row(&w, "thread_name", COMPUTE, "compute");
    if (t->n_lane) put_row(&w, "thread_name", COMMUNICATION, "communication");
    for (size_t i = 0; i < t->n_nodes; i++) put_node(&w, &t->nodes[i]);
    for (size_t i = 0; i < t->n_lane; i++)
        if (t->lane[i].began_ns >= zero_ns) put_collective(&w, t, plan, &t->lane[i]);
    if (fclose(w.stream) == 0 && w.is_good) return text;
    free(text);
    return NULL;
}
