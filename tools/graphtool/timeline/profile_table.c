/* profile_table.c - see profile_table.h. Each node was run and waited for alone, so a row's time has no
 * launch that overlaps another; on a GPU it is that between two events of the stream. */
#include "tools/graphtool/timeline/profile_table.h"

#include "ops/cuda/cuda.h"
#include "runtime/session/state.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/timeline/work_rows.h"

#include <stdlib.h>

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

/* By the node's order; the caller frees them. NULL: out of memory. */
static node_time *times_of(const bound_program *r) {
    const weft_node *last = r->p->graph->last;
    node_time *times = calloc((size_t)(last ? last->order : 0) + 1, sizeof *times);
    double runs = (double)runs_of(r);
    for (int i = 0; times && i < r->n_steps; i++) {
        const step *st = &r->steps[i];
        times[st->node->order] = (node_time){st->nanoseconds * 1e-9 / runs, (double)st->runs / runs};
    }
    return times;
}

/* Fills rows of a program that has run; free rows->v. false: out of memory. */
static bool count(work_rows *rows, const bound_program *r, const roof *gpu) {
    node_time *times = times_of(r);
    *rows = (work_rows){0};
    bool good = times && work_rows_count(rows, r->p, gpu, times);
    free(times);
    return good;
}

/* ---- text ---- */

/* 0 where nothing was measured. */
static double rate(double work, double seconds) {
    return seconds > 0 ? work / seconds : 0;
}

static double bytes_of(const work_sum *s) {
    return s->read + s->written;
}

enum { PLAIN_COLUMNS = 8, ROOF_COLUMNS = 10 };

static void cells_of(table *to, const char *op, const char *kernel, const work_sum *s, double all) {
    table_word(to, op);
    table_word(to, kernel);
    table_print(to, "%d", s->nodes);
    table_print(to, "%d", s->launches);
    table_print(to, "%.3f", s->seconds * 1e3);
    table_print(to, "%.1f%%", 100 * rate(s->seconds, all));
    table_print(to, "%.1f", rate(s->flops, s->seconds) * 1e-9);
    table_print(to, "%.1f", rate(bytes_of(s), s->seconds) * 1e-9);
    if (to->columns == PLAIN_COLUMNS) return;
    table_print(to, "%.3f", s->least * 1e3);
    table_print(to, "%.1f%%", 100 * rate(s->least, s->seconds));
}

static void program_text(text *t, const work_rows *rows, const roof *gpu) {
    static const char *const heads[] = {"op",    "kernel",  "nodes", "launches", "ms",
                                        "share", "GFLOP/s", "GB/s",  "least ms", "of peak"};
    table cells = {.columns = gpu ? ROOF_COLUMNS : PLAIN_COLUMNS};
    for (int i = 2; i < cells.columns; i++) cells.is_right[i] = true;
    text_add(t, "graph %s, by op:\n", rows->p->graph->name);
    for (int i = 0; i < cells.columns; i++) table_word(&cells, heads[i]);
    for (int i = 0; i < rows->n; i++)
        cells_of(&cells, rows->v[i].op->name, rows->v[i].kernel, &rows->v[i].sum, rows->all.seconds);
    cells_of(&cells, "all", "", &rows->all, rows->all.seconds);
    table_write(t, &cells);
    text_add(t, "\n");
}

char *profile_table_text(const weft_session *s, const roof *gpu) {
    text t = {0};
    for (int i = 0; i < s->plan->n_programs; i++) {
        work_rows rows;
        if (!runs_of(&s->programs[i])) continue;
        t.failed |= !count(&rows, &s->programs[i], gpu);
        if (rows.v) program_text(&t, &rows, gpu);
        free(rows.v);
    }
    return text_detach(&t);
}

/* ---- JSON ---- */

static json_t *sum_json(json_t *to, const work_sum *s) {
    work_sum_json(to, s);
    json_object_set_new(to, "ms", json_number(s->seconds * 1e3));
    json_object_set_new(to, "least_ms", s->least > 0 ? json_number(s->least * 1e3) : json_null());
    return to;
}

static json_t *program_json(const work_rows *rows) {
    json_t *ops = json_array();
    for (int i = 0; i < rows->n; i++)
        json_array_append_new(ops, sum_json(json_pack("{s:s, s:s, s:i}", "op", rows->v[i].op->name, "kernel",
                                                      rows->v[i].kernel, "nodes", rows->v[i].sum.nodes),
                                            &rows->v[i].sum));
    return sum_json(json_pack("{s:s, s:o}", "graph", rows->p->name, "ops", ops), &rows->all);
}

json_t *profile_table_json(const weft_session *s, const roof *gpu) {
    json_t *all = json_array();
    bool good = true;
    for (int i = 0; i < s->plan->n_programs; i++) {
        work_rows rows;
        if (!runs_of(&s->programs[i])) continue;
        good &= count(&rows, &s->programs[i], gpu);
        if (rows.v) json_array_append_new(all, program_json(&rows));
        free(rows.v);
    }
    if (good) return all;
    json_decref(all);
    return NULL;
}
