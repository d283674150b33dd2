/* work_table.c - see work_table.h. Nodes of one op and one kernel are one row. A step is every program that
 * trains, as often as it runs for the micro-batches of a step; collectives are not in it. */
#include "tools/graphtool/timeline/work_table.h"

#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/common/tools.h"
#include "runtime/plan/refresh.h"
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/timeline/work_rows.h"

#include <stdlib.h>

static bool has_training(const weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].trains) return true;
    return false;
}

/* Whether the program is shown: it runs in a training step, or nothing trains. */
static bool is_shown(const weft_plan *plan, const program *p) {
    return has_training(plan) ? p->trains && program_runs_in_step(p) > 0 : true;
}

/* ---- text ---- */

enum { MEGA = 1000000 };

static void sum_text(text *t, const work_sum *s) {
    text_add(t, "%d launches, %.1f MB read, %.1f MB written, %.1f GFLOP", s->launches, s->read / MEGA,
             s->written / MEGA, s->flops * 1e-9);
    if (s->seconds > 0) text_add(t, ", %.3f ms", s->seconds * 1e3);
}

static void row_cells(table *to, const work_row *row, const work_sum *all) {
    const work_sum *s = &row->sum;
    table_word(to, row->op->name);
    table_word(to, row->kernel);
    table_print(to, "%d", s->nodes);
    table_print(to, "%d", s->launches);
    table_print(to, "%.1f", s->read / MEGA);
    table_print(to, "%.1f", s->written / MEGA);
    table_print(to, "%.1f", s->flops * 1e-9);
    if (to->columns == 7) return;
    table_print(to, "%.3f", s->seconds * 1e3);
    table_print(to, "%.1f%%", 100 * s->seconds / all->seconds);
    table_word(to, roof_bound_name(work_bound(s)));
}

static void program_text(text *t, const work_rows *rows, const roof *gpu) {
    static const char *const heads[] = {"op",         "kernel", "nodes", "launches", "read MB",
                                        "written MB", "GFLOP",  "ms",    "share",    "bound"};
    table cells = {.columns = gpu ? 10 : 7};
    for (int i = 2; i < 9; i++) cells.is_right[i] = true;
    text_add(t, "\ngraph %s", rows->p->graph->name);
    if (rows->times != 1) text_add(t, ", %d times a step", rows->times);
    text_add(t, ": ");
    sum_text(t, &rows->all);
    text_add(t, "\n");
    for (int i = 0; i < cells.columns; i++) table_word(&cells, heads[i]);
    for (int i = 0; i < rows->n; i++) row_cells(&cells, &rows->v[i], &rows->all);
    table_write(t, &cells);
}

/* The utilization is of the peak for bf16, as is usual, whatever the plan's type. Graphs that do not train
 * are not added up: nobody runs them in a row. */
static void step_text(text *t, const weft_plan *plan, const work_sum *s, const roof *gpu) {
    if (!has_training(plan)) return;
    text_add(t, "\na step%s: ", plan->options.world > 1 ? " of this rank, without collectives" : "");
    sum_text(t, s);
    if (gpu)
        text_add(
            t, ", %.0f samples/s, %.1f%% of %.0f TFLOP/s",
            (double)(plan->options.batch * (plan->options.accumulate > 1 ? plan->options.accumulate : 1)) /
                s->seconds,
            100 * s->flops / s->seconds / gpu->tensor, gpu->tensor * 1e-12);
    text_add(t, "\n");
}

char *work_table_text(const weft_plan *plan, const roof *gpu) {
    text t = {0};
    work_sum step = {0};
    plan_head(&t, plan);
    if (gpu) text_add(&t, "times are an estimate for %s, not a measurement (docs/cuda.md)\n", gpu->name);
    for (int i = 0; i < plan->n_programs; i++) {
        work_rows rows;
        if (!is_shown(plan, &plan->programs[i])) continue;
        t.failed |= !work_rows_count(&rows, &plan->programs[i], gpu, NULL);
        if (rows.v) program_text(&t, &rows, gpu);
        work_sum_add(&step, &rows.all, rows.times);
        free(rows.v);
    }
    step_text(&t, plan, &step, gpu);
    return text_detach(&t);
}

/* ---- JSON ---- */

/* Adds the sum's keys to `to`. */
static void sum_json(json_t *to, const work_sum *s, bool has_times) {
    work_sum_json(to, s);
    if (!has_times) return;
    json_object_set_new(to, "estimated_ms", json_number(s->seconds * 1e3));
    json_object_set_new(to, "bound", json_string(roof_bound_name(work_bound(s))));
}

static json_t *program_json(const work_rows *rows, bool has_times) {
    json_t *ops = json_array();
    for (int i = 0; i < rows->n; i++) {
        const work_row *row = &rows->v[i];
        json_t *one =
            json_pack("{s:s, s:s, s:i}", "op", row->op->name, "kernel", row->kernel, "nodes", row->sum.nodes);
        sum_json(one, &row->sum, has_times);
        json_array_append_new(ops, one);
    }
    json_t *all =
        json_pack("{s:s, s:i, s:o}", "name", rows->p->graph->name, "times", rows->times, "ops", ops);
    sum_json(all, &rows->all, has_times);
    return all;
}

json_t *work_table_json(const weft_plan *plan, const roof *gpu) {
    json_t *graphs = json_array(), *step = json_object();
    work_sum sum = {0};
    bool good = true;
    for (int i = 0; i < plan->n_programs; i++) {
        work_rows rows;
        if (!is_shown(plan, &plan->programs[i])) continue;
        good &= work_rows_count(&rows, &plan->programs[i], gpu, NULL);
        if (rows.v) json_array_append_new(graphs, program_json(&rows, gpu));
        work_sum_add(&sum, &rows.all, rows.times);
        free(rows.v);
    }
    sum_json(step, &sum, gpu);
    json_t *all = json_pack("{s:s, s:I, s:s, s:s, s:s?, s:o, s:o}", "model", plan->model->name, "batch",
                            (json_int_t)plan->options.batch, "device", device_name(plan->options.device),
                            "dtype", dtype_name(plan->options.precision), "estimate", gpu ? gpu->name : NULL,
                            "graphs", graphs, "step", step);
    if (good) return all;
    json_decref(all);
    return NULL;
}
