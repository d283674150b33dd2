/* timeline_text.c - a timeline in Chrome's format: "X" is a bar, "M" names a row, and "s", "t", "f" are the
 * ends of an arrow, which must be inside bars. Times are in microseconds. */
#include "tools/graphtool/timeline/timeline.h"
#include "tools/graphtool/timeline/timeline_plan.h"

#include <string.h>

enum { COMPUTE, COMMUNICATION, DATA };

typedef struct writer {
    text *into;
    int rank;
    uint64_t zero_ns;
} writer;

/* Writes one event and frees it. */
static void put_event(const writer *w, json_t *event) {
    char *one = tool_need(json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)));
    text_add(w->into, "%s,\n", one);
    free(one);
    json_decref(event);
}

static double microseconds(const writer *w, uint64_t ns) {
    return (double)(int64_t)(ns - w->zero_ns) * 1e-3;
}

static void put_row(const writer *w, const char *kind, int row, const char *name) {
    put_event(w, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", kind, "pid", w->rank, "tid",
                           row, "args", "name", name));
}

static void put_bar(const writer *w, int row, const char *kind, const char *name, uint64_t began,
                    uint64_t finished, json_t *args) {
    put_event(w, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "cat", kind, "name", name,
                           "pid", w->rank, "tid", row, "ts", microseconds(w, began), "dur",
                           (double)(finished - began) * 1e-3, "args", args));
}

/* Where an arrow touches a bar: at the end of the node that made data ready, at the begin of the collective,
 * at the end of the node that waited. So the ends are in order of time, even if a node waited long before the
 * collective began. */
typedef struct arrow_end {
    int row;
    double at;
} arrow_end;

/* ns from the edge of a bar: inside it, but so near that nothing comes between; one at least, as a reader
 * rounds the sum of a bar's begin and length. */
static uint64_t margin(uint64_t began, uint64_t finished) {
    uint64_t hundredth = (finished - began + 99) / 100;
    return hundredth < 100 ? hundredth : 100;
}

static arrow_end near_begin(const writer *w, int row, uint64_t began, uint64_t finished) {
    return (arrow_end){row, microseconds(w, began + margin(began, finished))};
}

static arrow_end near_end(const writer *w, int row, uint64_t began, uint64_t finished) {
    return (arrow_end){row, microseconds(w, finished - margin(began, finished))};
}

/* Writes an arrow of two or three ends. Its id is made of rank, run and order, and is below 2^53 (JSON
 * numbers are doubles). */
static void put_arrow(const writer *w, const stream_event *c, const arrow_end *ends, int n) {
    uint64_t id = (((uint64_t)w->rank << 20 | (c->run & 0xfffff)) << 12) | (c->order & 0xfff);
    for (int i = 0; i < n && n > 1; i++) {
        const char *phase = i == 0 ? "s" : i == n - 1 ? "f" : "t";
        put_event(w, json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:f}", "ph", phase, "bp", "e", "cat",
                               "bucket", "name", c->name, "id", (json_int_t)id, "pid", w->rank, "tid",
                               ends[i].row, "ts", ends[i].at));
    }
}

/* The name has the layer: "qkv linear %14". */
static void put_node(const writer *w, const weft_node_event *e) {
    const char *kind = e->kernel ? "compute" : e->is_wait ? "wait" : "start", *slash = strrchr(e->scope, '/');
    const char *layer = slash ? slash + 1 : e->scope;
    put_bar(w, COMPUTE, kind, tool_text("%s%s%s %%%d", layer, *layer ? " " : "", e->op, e->id), e->began_ns,
            e->finished_ns,
            json_pack("{s:s, s:s, s:s}", "graph", e->graph, "scope", e->scope, "kernel",
                      e->kernel ? e->kernel : ""));
}

/* A bar for the collective, and the arrow from `ready` through it to `wait`. */
static void put_collective(const writer *w, const stream_event *c) {
    arrow_end ends[3];
    int n = 0;
    put_bar(w, COMMUNICATION, "collective", tool_text("%s %s", c->op, c->name), c->began_ns, c->finished_ns,
            json_pack("{s:s, s:I, s:I, s:I, s:f, s:f}", "graph", c->program, "run", (json_int_t)c->run,
                      "order", (json_int_t)c->order, "bytes", (json_int_t)c->bytes, "until_all_were_there_us",
                      (double)(c->met_ns - c->began_ns) * 1e-3, "exposed_us", (double)c->exposed_ns * 1e-3));
    if (c->ready) ends[n++] = near_end(w, COMPUTE, c->ready->began_ns, c->ready->finished_ns);
    ends[n++] = near_begin(w, COMMUNICATION, c->began_ns, c->finished_ns);
    if (c->wait) ends[n++] = near_end(w, COMPUTE, c->wait->began_ns, c->wait->finished_ns);
    put_arrow(w, c, ends, n);
}

static void put_data(const writer *w, const weft_loader_event *e) {
    const char *name =
        e->batch < 0 ? "begin an epoch" : tool_text("wait for batch %lld", (long long)e->batch);
    put_bar(w, DATA, "data", name, e->began_ns, e->finished_ns, json_object());
}

/* ---- nodes inside steps, runs, parts of a step and scopes ---- */

/* Where a node's bar is. */
typedef struct nest {
    int step, run; /* numbers; step 0: none has begun */
    const char *phase;
    const weft_node_event *event;
    uint64_t live; /* bytes of the arena while it runs; 0: unknown */
} nest;

enum { AT_STEP, AT_RUN, AT_PHASE, AT_SCOPES };

/* The name of the bar around a node on a level, of *length bytes; NULL: there is no more. */
static const char *part_of(const nest *n, int level, int *length) {
    const char *part = n->event->scope;
    if (level == AT_STEP) part = tool_text("step %d", n->step);
    if (level == AT_RUN) part = n->event->graph;
    if (level == AT_PHASE) part = n->phase;
    *length = (int)strlen(part);
    if (level < AT_SCOPES) return part;
    for (int i = AT_SCOPES; *part && i < level; i++) {
        part += strcspn(part, "/");
        part += *part == '/';
    }
    *length = (int)strcspn(part, "/");
    return *part ? part : NULL;
}

static bool are_together(const nest *a, const nest *b, int level) {
    int n = 0, m = 0;
    const char *one = part_of(a, level, &n), *other = part_of(b, level, &m);
    return one && other && n == m && strncmp(one, other, (size_t)n) == 0 &&
           (level == AT_STEP || a->run == b->run);
}

/* Writes nodes, those of one part inside a bar. */
static void put_nested(const writer *w, const nest *from, const nest *end, int level) {
    while (from < end) {
        int length = 0;
        const char *part = part_of(from, level, &length);
        const nest *to = from + 1;
        if (!part) {
            put_node(w, (from++)->event);
            continue;
        }
        while (to < end && are_together(from, to, level)) to++;
        put_bar(w, COMPUTE, level < AT_SCOPES ? "part" : "scope", tool_text("%.*s", length, part),
                from->event->began_ns, to[-1].event->finished_ns, json_object());
        put_nested(w, from, to, level + 1);
        from = to;
    }
}

static const char *phase_name(const weft_node *n) {
    return n->is_update ? "updates" : n->is_backward ? "backward" : "forward";
}

/* Finds where each node is. A run begins where the schedule begins again. An event without a node of the
 * plan, as a wait, belongs to the node before it. */
static nest *nests_of(const timeline *t, const weft_plan *plan) {
    nest *all = tool_new(t->n_nodes + 1, sizeof *all), now = {.phase = "forward"};
    const timeline_program *programs = timeline_programs(plan), *of = NULL;
    const char *graph = "";
    int order = -1;
    for (size_t i = 0; i < t->n_nodes; i++) {
        const weft_node_event *e = &t->nodes[i];
        const weft_node *n = timeline_node(plan, programs, e, &of);
        bool begins = strcmp(graph, e->graph) != 0 || (n && n->order <= order);
        while ((size_t)now.step < t->n_steps && t->steps[now.step] <= e->began_ns) now.step++, begins = true;
        if (begins) now.run++, order = -1, now.phase = "forward";
        if (n) order = n->order, now.phase = phase_name(n), now.live = of->live[n->order];
        graph = e->graph;
        now.event = e;
        all[i] = now;
    }
    return all;
}

/* A counter, where it changes. */
static void put_memory(const writer *w, const nest *n) {
    put_event(w, json_pack("{s:s, s:s, s:i, s:f, s:{s:I}}", "ph", "C", "name", "arena in use", "pid", w->rank,
                           "ts", microseconds(w, n->event->began_ns), "args", "bytes", (json_int_t)n->live));
}

/* Names of rows come first; collectives that began before zero_ns are left out. */
void timeline_text(text *into, const timeline *t, const weft_plan *plan, int rank, uint64_t zero_ns) {
    const nest *nests = nests_of(t, plan);
    const writer w = {.into = into, .rank = rank, .zero_ns = zero_ns};
    put_row(&w, "process_name", COMPUTE, tool_text("rank %d", rank));
    put_row(&w, "thread_name", COMPUTE, "compute");
    if (t->n_stream) put_row(&w, "thread_name", COMMUNICATION, "communication");
    if (t->n_data) put_row(&w, "thread_name", DATA, "data");
    put_nested(&w, nests, nests + t->n_nodes, AT_STEP);
    for (size_t i = 0; i < t->n_nodes; i++)
        if (!i || nests[i].live != nests[i - 1].live) put_memory(&w, &nests[i]);
    for (size_t i = 0; i < t->n_data; i++) put_data(&w, &t->data[i]);
    for (size_t i = 0; i < t->n_stream; i++)
        if (t->stream[i].began_ns >= zero_ns) put_collective(&w, &t->stream[i]);
}
