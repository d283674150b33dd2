/* work_table.c - see work_table.h. Nodes of one op and one kernel are one row. A step is every program that
 * trains, as often as it runs for the micro-batches of a step; collectives are not in it. */
#include "tools/graphtool/timeline/work_table.h"

#include "tools/graphtool/output/table.h"
#include "runtime/plan/refresh.h"
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/timeline/work_rows.h"

/* Whether the program is shown: it runs in a training step, or nothing trains. */
static bool is_shown(const weft_plan *plan, const program *p) {
    return plan_trains(plan) ? p->trains && program_runs_in_step(p) > 0 : true;
}

static void add_times(json_t *to, const work_sum *s, double all_seconds) {
    json_object_update_new(to, json_pack("{s:f, s:f, s:s}", "estimated_ms", s->seconds * 1e3, "share",
                                         s->seconds / all_seconds, "bound", roof_bound_name(work_bound(s))));
}

json_t *work_table_json(const weft_plan *plan, const char *estimate) {
    const roof *gpu = estimate ? roof_find(estimate) : NULL;
    json_t *graphs = json_array();
    work_sum sum = {0};
    for (int i = 0; i < plan->n_programs; i++) {
        if (!is_shown(plan, &plan->programs[i])) continue;
        work_rows rows = work_rows_of(&plan->programs[i], gpu, NULL);
        json_t *one = work_rows_json(&rows, gpu ? add_times : NULL);
        json_object_update_new(one,
                               json_pack("{s:s, s:i}", "name", rows.p->graph->name, "times", rows.times));
        json_array_append_new(graphs, one);
        work_sum_add(&sum, &rows.all, rows.times);
    }
    return json_pack("{s:s, s:I, s:s, s:s, s:s?, s:o, s:o}", "model", plan->model->name, "batch",
                     (json_int_t)plan->options.batch, "device", device_name(plan->options.device), "dtype",
                     dtype_name(plan->options.precision), "estimate", gpu ? gpu->name : NULL, "graphs",
                     graphs, "step", work_sum_json(&sum, gpu ? add_times : NULL));
}

/* ---- text, of the same ---- */

static void sum_text(text *t, const json_t *s) {
    double ms = json_at(s, "estimated_ms");
    text_add(t, "%.0f launches, %.1f MB read, %.1f MB written, %.1f GFLOP", json_at(s, "launches"),
             json_at(s, "read_bytes") * 1e-6, json_at(s, "written_bytes") * 1e-6, json_at(s, "flops") * 1e-9);
    if (ms > 0) text_add(t, ", %.3f ms", ms);
}

/* The utilization is of the peak for bf16, as is usual, whatever the plan's type. Graphs that do not train
 * are not added up: nobody runs them in a row. */
static void step_text(text *t, const weft_plan *plan, const json_t *s, const char *estimate) {
    const weft_compile_options *o = &plan->options;
    const roof *gpu = estimate ? roof_find(estimate) : NULL;
    double samples = (double)(o->batch * (o->accumulate > 1 ? o->accumulate : 1));
    double seconds = json_at(s, "estimated_ms") * 1e-3;
    if (!plan_trains(plan)) return;
    text_add(t, "\na step%s: ", o->world > 1 ? " of this rank, without collectives" : "");
    sum_text(t, s);
    if (gpu)
        text_add(t, ", %.0f samples/s, %.1f%% of %.0f TFLOP/s", samples / seconds,
                 100 * json_at(s, "flops") / seconds / gpu->tensor, gpu->tensor * 1e-12);
    text_add(t, "\n");
}

void work_table_text(text *t, const weft_plan *plan, const char *estimate) {
    static const table_column columns[] = {{"op", "op"},
                                           {"kernel", "kernel"},
                                           {"nodes", "nodes", 1},
                                           {"launches", "launches", 1},
                                           {"read MB", "read_bytes", 1e-6, 1},
                                           {"written MB", "written_bytes", 1e-6, 1},
                                           {"GFLOP", "flops", 1e-9, 1},
                                           {"ms", "estimated_ms", 1, 3},
                                           {"share", "share", 100, 1, "%"},
                                           {"bound", "bound"}};
    enum { COUNTS = 7, ALL = sizeof columns / sizeof *columns };
    json_t *all = work_table_json(plan, estimate);
    size_t i;
    const json_t *graph;
    plan_head(t, plan);
    text_add(t, "\n");
    if (estimate)
        text_add(t, "times are an estimate for %s, not a measurement (docs/cuda.md)\n",
                 json_string_value(json_object_get(all, "estimate")));
    json_array_foreach(json_object_get(all, "graphs"), i, graph) {
        text_add(t, "\ngraph %s", json_string_value(json_object_get(graph, "name")));
        if (json_at(graph, "times") != 1) text_add(t, ", %.0f times a step", json_at(graph, "times"));
        text_add(t, ": ");
        sum_text(t, graph);
        text_add(t, "\n");
        table_json(t, json_object_get(graph, "ops"), estimate ? ALL : COUNTS, columns);
    }
    step_text(t, plan, json_object_get(all, "step"), estimate);
    json_decref(all);
}
