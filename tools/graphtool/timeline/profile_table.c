/* profile_table.c - see profile_table.h. Each node was run and waited for alone, so a row's time has no
 * launch that overlaps another; on a GPU it is that between two events of the stream. */
#include "tools/graphtool/timeline/profile_table.h"

#include "ops/cuda/cuda.h"
#include "runtime/session/state.h"
#include "tools/graphtool/output/output.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/timeline/work_rows.h"

#include <string.h>

const roof *profile_roof(const weft_session *s) {
    return s->kernels.cuda ? s->kernels.cuda->roof : NULL;
}

/* ---- the times of a program ---- */

/* Timed runs: those of the step that ran most often, since derived values are made only when stale. */
static int64_t runs_of(const bound_program *r) {
    int64_t runs = 0;
    for (int i = 0; i < r->n_steps; i++)
        if (r->steps[i].runs > runs) runs = r->steps[i].runs;
    return runs;
}

/* By the node's order. */
static const node_time *times_of(const bound_program *r) {
    const weft_node *last = r->p->graph->last;
    node_time *times = tool_new((size_t)(last ? last->order : 0) + 1, sizeof *times);
    double runs = (double)runs_of(r);
    for (int i = 0; i < r->n_steps; i++) {
        const step *st = &r->steps[i];
        times[st->node->order] = (node_time){st->nanoseconds * 1e-9 / runs, (double)st->runs / runs};
    }
    return times;
}

/* 0 where nothing was measured. */
static double rate(double work, double seconds) {
    return seconds > 0 ? work / seconds : 0;
}

static void add_rates(json_t *to, const work_sum *s, double all_seconds) {
    json_object_update_new(to, json_pack("{s:f, s:f, s:f, s:f, s:o, s:f}", "ms", s->seconds * 1e3, "share",
                                         rate(s->seconds, all_seconds), "gflops",
                                         rate(s->flops, s->seconds) * 1e-9, "gb_per_s",
                                         rate(s->read + s->written, s->seconds) * 1e-9, "least_ms",
                                         s->least > 0 ? json_real(s->least * 1e3) : json_null(), "of_peak",
                                         rate(s->least, s->seconds)));
}

json_t *profile_table_json(const weft_session *s, const roof *gpu, int depth) {
    json_t *all = json_array();
    for (int i = 0; i < s->plan->n_programs; i++) {
        const bound_program *r = &s->programs[i];
        if (!runs_of(r)) continue;
        const node_time *times = times_of(r);
        work_rows rows = work_rows_of(r->p, gpu, times), scopes = work_scopes_of(r->p, gpu, times, depth);
        json_t *one = work_rows_json(&rows, add_rates);
        json_object_set_new(one, "scopes", work_scopes_json(&scopes, add_rates));
        json_object_set_new(one, "graph", json_string(r->p->name));
        json_array_append_new(all, one);
    }
    return all;
}

/* The last row has all ops. */
static json_t *rows_of(const json_t *graph) {
    json_t *rows = json_copy(json_object_get(graph, "ops")), *sum = json_copy((json_t *)graph);
    json_object_set_new(sum, "op", json_string("all"));
    json_array_append_new(rows, sum);
    return rows;
}

/* The scopes with their names indented by depth. */
static json_t *scopes_of(const json_t *graph) {
    size_t i;
    json_t *rows = json_array();
    const json_t *scope;
    json_array_foreach(json_object_get(graph, "scopes"), i, scope) {
        json_t *row = json_copy((json_t *)scope);
        const char *path = json_string_value(json_object_get(scope, "scope")), *last = strrchr(path, '/');
        int indent = 2 * (int)json_at(scope, "depth") - 2;
        json_object_set_new(row, "scope",
                            json_sprintf("%*s%s", indent, "",
                                         !*path ? "(no scope)"
                                         : last ? last + 1
                                                : path));
        json_array_append_new(rows, row);
    }
    return rows;
}

#define RATE_COLUMNS                                                                                         \
    {"nodes", "nodes", 1}, {"launches", "launches", 1}, {"ms", "ms", 1, 3}, {"share", "share", 100, 1, "%"}, \
        {"GFLOP/s", "gflops", 1, 1}, {"GB/s", "gb_per_s", 1, 1}, {"least ms", "least_ms", 1, 3}, {           \
        "of peak", "of_peak", 100, 1, "%"                                                                    \
    }

void profile_table_text(text *t, const json_t *profile, bool has_peaks) {
    static const table_column of_ops[] = {{"op", "op"}, {"kernel", "kernel"}, RATE_COLUMNS};
    static const table_column of_scopes[] = {{"scope", "scope"}, RATE_COLUMNS};
    enum { OPS = sizeof of_ops / sizeof *of_ops, SCOPES = sizeof of_scopes / sizeof *of_scopes, PEAKS = 2 };
    size_t i;
    const json_t *graph;
    json_array_foreach(profile, i, graph) {
        const char *name = json_string_value(json_object_get(graph, "graph"));
        json_t *ops = rows_of(graph), *scopes = scopes_of(graph);
        text_add(t, "graph %s, by op:\n", name);
        table_json(t, ops, has_peaks ? OPS : OPS - PEAKS, of_ops);
        text_add(t, "\ngraph %s, by scope:\n", name);
        table_json(t, scopes, has_peaks ? SCOPES : SCOPES - PEAKS, of_scopes);
        text_add(t, "\n");
        json_decref(ops);
        json_decref(scopes);
    }
}
