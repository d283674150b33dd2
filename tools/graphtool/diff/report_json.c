/* report_json.c - a difference for programs: its keys are stable, and documented in docs/graphtool.md. */
#include "tools/graphtool/diff/report.h"

#include <string.h>

/* The %id that dumps have; -1: it is not there. */
static int number_of(const weft_node *n) {
    return n ? n->id : -1;
}

static json_t *changes_json(const difference *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++) {
        const diff_change *c = &d->v[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:[i, i]}", "kind",
                                        diff_kinds[c->kind], "what", diff_whats[c->what], "path", c->path,
                                        "op", c->op, "text", c->text, "graph", c->graph, "follows",
                                        c->follows, "nodes", number_of(c->node[0]), number_of(c->node[1])));
    }
    return list;
}

static json_t *graphs_json(const difference *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n_graphs; i++) {
        const diff_graph *g = &d->graphs[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "name", g->name, "in_first", g->g[0] != NULL,
                                              "in_second", g->g[1] != NULL));
    }
    return list;
}

json_t *diff_sums_json(const sum_list *l) {
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "name",
                                              l->v[i].name + strspn(l->v[i].name, " "), "unit",
                                              sum_units[l->v[i].unit], "first", (json_int_t)l->v[i].v[0],
                                              "second", (json_int_t)l->v[i].v[1]));
    return list;
}

static json_t *side_json(const alive_list *l) {
    if (!l->p) return json_null();
    return json_pack("{s:i, s:i, s:I, s:I, s:i}", "step", l->peak, "steps", l->steps, "bytes",
                     (json_int_t)l->peak_bytes, "arena", (json_int_t)l->p->arena_bytes, "node",
                     number_of(alive_peak_node(l)));
}

static json_t *rows_json(const peak *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:[I, I], s:[i, i]}", "scope", p->v[i].scope, "op",
                                              p->v[i].op, "bytes", (json_int_t)p->v[i].bytes[0],
                                              (json_int_t)p->v[i].bytes[1], "buffers", p->v[i].buffers[0],
                                              p->v[i].buffers[1]));
    return list;
}

json_t *diff_peaks_json(const difference *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n_graphs; i++) {
        const peak *p = peak_of(&d->graphs[i]);
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "graph", d->graphs[i].name, "first",
                                              side_json(&p->alive[0]), "second", side_json(&p->alive[1]),
                                              "alive", rows_json(p)));
    }
    return list;
}

json_t *diff_json(const diff_report *r) {
    return json_pack("{s:b, s:[s, s], s:o, s:o, s:o, s:o, s:o, s:o}", "same", diff_is_same(r), "models",
                     r->names[0], r->names[1], "graphs", graphs_json(r->changes), "changes",
                     changes_json(r->changes), "totals", diff_sums_json(sums_of(r->plans)), "memory",
                     diff_sums_json(sums_of_memory(r->plans)), "kernels",
                     diff_sums_json(sums_of_kernels(r->plans)), "peaks", diff_peaks_json(r->as_they_run));
}
