/* exposure.c - sums over ranks, with one slot per (graph, order). Ranks of different process groups have
 * different collectives, but their order numbers are those of one total order. */
#include "tools/graphtool/timeline/exposure.h"

#include "tools/graphtool/ranks/world.h"

enum { EXPOSED, STREAM, TIMES, FIGURES }; /* ms, ms, number of runs */

typedef struct slots {
    int *first;      /* first slot of each graph of the list; one more at the end */
    double *figures; /* [slots][FIGURES] */
} slots;

/* Makes the slots. Ranks differ in their highest order number; the sum over ranks is large enough for all. */
static slots slots_of(const options *o, const stream_list *plan) {
    double *room = tool_new((size_t)plan->n + 1, sizeof *room);
    slots s = {.first = tool_new((size_t)plan->n + 1, sizeof *s.first)};
    for (int i = 0; i < plan->n; i++) {
        const streams *l = &plan->v[i];
        room[i] = l->n_moves ? (double)l->moves[l->n_moves - 1].order + 1 : 0;
    }
    world_sum(o, plan->n, room);
    for (int i = 0; i < plan->n; i++) s.first[i + 1] = s.first[i] + (int)room[i];
    s.figures = tool_new((size_t)s.first[plan->n] * FIGURES + 1, sizeof *s.figures);
    return s;
}

static double *slot_of(const slots *s, const stream_list *plan, const streams *l, const stream_move *m) {
    return s->figures + (size_t)(s->first[l - plan->v] + (int)m->order) * FIGURES;
}

/* A wait counts in the step in which it happens, time on the stream in the step in which the collective
 * begins. So collectives in flight into the first step make up for those that the last step leaves in
 * flight. */
static void add_events(const slots *s, const timeline *t, const stream_list *plan, uint64_t zero_ns) {
    for (size_t i = 0; i < t->n_stream; i++) {
        const stream_event *c = &t->stream[i];
        if (!c->move) continue;
        double *f = slot_of(s, plan, c->of, c->move);
        f[EXPOSED] += (double)c->exposed_ns * 1e-6;
        if (c->began_ns < zero_ns) continue;
        f[STREAM] += (double)(c->finished_ns - c->began_ns) * 1e-6;
        f[TIMES]++;
    }
}

static json_t *row(const streams *l, const stream_move *m, const double f[FIGURES]) {
    double exposed = f[EXPOSED] / f[TIMES], stream = f[STREAM] / f[TIMES], hidden = stream - exposed;
    return json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f}", "graph", l->p->name, "op", m->start->op->name,
                     "bucket", m->name, "bytes", (json_int_t)m->bytes, "stream_ms", stream, "exposed_ms",
                     exposed, "hidden_ms", hidden > 0 ? hidden : 0);
}

/* All ranks sum all slots; each then lists the moves of its own plan. */
json_t *exposure_rows(const options *o, const timeline *t, const stream_list *plan, uint64_t zero_ns) {
    json_t *rows = json_array();
    const slots s = slots_of(o, plan);
    add_events(&s, t, plan, zero_ns);
    world_sum(o, s.first[plan->n] * FIGURES, s.figures);
    for (int i = 0; i < plan->n; i++)
        for (int k = 0; k < plan->v[i].n_moves; k++) {
            const stream_move *m = &plan->v[i].moves[k];
            const double *f = slot_of(&s, plan, &plan->v[i], m);
            if (f[TIMES] > 0) json_array_append_new(rows, row(&plan->v[i], m, f));
        }
    return rows;
}
