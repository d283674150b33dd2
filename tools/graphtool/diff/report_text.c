/* report_text.c - a difference for people: what changed, then the sums, then what is alive at the peaks. */
#include "tools/graphtool/diff/report.h"

#include "graph/core/byte_count.h"
#include "runtime/plan/value.h"
#include "tools/graphtool/diff/lines.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/timeline/summary.h"

#include <math.h>
#include <string.h>

/* Lines under one heading, and rows of one table, without --all. */
enum { LINES_SHOWN = 40, ROWS_SHOWN = 8 };

/* ---- what changed ---- */

static const char *heading_of(const diff_line *line) {
    if (line->what == DIFF_SETTING) return "settings";
    if (line->what == DIFF_PARAMETER) return "parameters and state";
    return tool_text("%s %s", strchr(line->where, ',') ? "graphs" : "graph", line->where);
}

static void line_row(table *rows, const diff_line *line) {
    const char *times = line->times > 1 ? tool_text("  x%d", line->times) : "";
    bool is_plain = line->what == DIFF_NODE || line->what == DIFF_PARAMETER;
    const char *op = is_plain ? line->op : line->what == DIFF_SETTING ? "" : diff_whats[line->what];
    table_row(rows, "%s\t%s\t%s\t%s%s", diff_kinds[line->kind], *line->path ? line->path : "(no scope)", op,
              line->text, times);
}

/* The lines under the heading of line `first`, which are marked. */
static void heading_text(text *t, const diff_lines *l, int first, bool *is_done, const diff_report *r,
                         int limit) {
    table rows = {.columns = 4, .limit = limit};
    const char *heading = heading_of(&l->v[first]);
    int more = 0;
    for (int i = first; i < l->n; i++) {
        if (is_done[i] || strcmp(heading_of(&l->v[i]), heading)) continue;
        is_done[i] = true;
        if (rows.rows < LINES_SHOWN || r->all)
            line_row(&rows, &l->v[i]);
        else
            more++;
    }
    text_add(t, "\n%s\n", heading);
    table_write(t, &rows);
    if (more) text_add(t, "  and %d more: --all lists them\n", more);
}

/* "from these follow changes of 25 nodes, 4 parameters" */
static void following_text(text *t, const diff_lines *l) {
    const char *gap = l->n ? "\nfrom these follow changes of " : "\nchanges of ";
    bool is_any = false;
    for (int what = DIFF_NODE; what >= 0; what--) {
        int n = l->follow[what];
        if (!n) continue;
        text_add(t, "%s%d %s%s", gap, n, diff_whats[what], n > 1 ? "s" : "");
        gap = ", ";
        is_any = true;
    }
    if (is_any) text_add(t, ": --all lists them\n");
}

static void changes_text(text *t, const diff_report *r, int limit) {
    const diff_lines *l = diff_lines_of(r->changes, r->has_graphs, r->all);
    bool *is_done = tool_new((size_t)l->n + 1, sizeof *is_done);
    for (int i = 0; i < l->n; i++)
        if (!is_done[i]) heading_text(t, l, i, is_done, r, limit);
    following_text(t, l);
}

/* ---- sums ---- */

static const char *number_shown(sum_unit unit, double value) {
    if (unit == SUM_BYTES) return tool_text("%s", BYTES((uint64_t)value));
    if (unit == SUM_COUNT && value < 1e6) return tool_text("%.0f", value);
    static const char *const units[] = {"", " K", " M", " G", " T", " P"};
    int i = 0;
    for (; value >= 999.5 && i < 5; i++) value /= 1000;
    return tool_text("%.3g%s", value, units[i]);
}

/* "+1.2 MiB (+14%)" */
static const char *gap_shown(sum_unit unit, const double v[2]) {
    double gap = v[1] - v[0], percent = v[0] > 0 ? 100 * gap / v[0] : 0;
    const char *number = number_shown(unit, fabs(gap));
    if (gap == 0) return "";
    if (v[0] <= 0) return tool_text("+%s", number);
    return tool_text("%s%s (%+.*f%%)", gap > 0 ? "+" : "-", number, fabs(percent) < 10, percent);
}

/* Rows that differ; with --all each. */
static void sums_text(text *t, const sum_list *l, const char *title, const diff_report *r, int limit) {
    table rows = {.columns = 4, .is_right = {[1] = true, [2] = true, [3] = true}, .limit = limit};
    int same = 0;
    table_row(&rows, "%s\tfirst\tsecond\tdifference", title);
    for (int i = 0; i < l->n; i++) {
        const sum_row *s = &l->v[i];
        bool is_same = s->v[0] == s->v[1];
        same += is_same;
        if (is_same && !r->all) continue;
        table_row(&rows, "%s\t%s\t%s\t%s", s->name, number_shown(s->unit, s->v[0]),
                  number_shown(s->unit, s->v[1]), gap_shown(s->unit, s->v));
    }
    if (rows.rows < 2) return;
    text_add(t, "\n");
    table_write(t, &rows);
    if (same && !r->all) text_add(t, "  %d more %s the same\n", same, same > 1 ? "are" : "is");
}

/* ---- the peak ---- */

/* "first: 12.1 MiB in step 31 of 80, conv2d of layer4/1" */
static void peak_head(text *t, const alive_list *l, const char *which) {
    const weft_node *n = l->p ? alive_peak_node(l) : NULL;
    if (!l->p) return;
    text_add(t, "  %s: %s of an arena of %s, in step %d of %d", which, BYTES(l->peak_bytes),
             BYTES(l->p->arena_bytes), l->peak, l->steps);
    if (n) text_add(t, ", %s%s%s", n->op->name, *n->scope ? " of " : "", n->scope);
    text_add(t, "\n");
}

static void peak_rows(text *t, const peak *p, const diff_report *r, int limit) {
    table rows = {.columns = 5, .is_right = {[2] = true, true, true}, .limit = limit};
    int more = 0;
    table_row(&rows, "alive in it, of scope\top\tfirst\tsecond\tdifference");
    for (int i = 0; i < p->n; i++) {
        const peak_row *row = &p->v[i];
        const double v[2] = {(double)row->bytes[0], (double)row->bytes[1]};
        if (!r->all && (rows.rows > ROWS_SHOWN || v[0] == v[1])) {
            more++;
            continue;
        }
        table_row(&rows, "%s\t%s\t%s\t%s\t%s", *row->scope ? row->scope : "(no scope)", row->op,
                  BYTES(row->bytes[0]), BYTES(row->bytes[1]), gap_shown(SUM_BYTES, v));
    }
    table_write(t, &rows);
    if (more) text_add(t, "  %d more differ less: --all lists them\n", more);
}

static void peak_text(text *t, const diff_graph *g, const diff_report *r, int limit) {
    bool is_of_both = g->p[0] && g->p[1];
    const peak *p = peak_of(g);
    text_add(t, "\npeak of graph %s%s\n", g->name, is_of_both ? "" : ", which one of the two has");
    peak_head(t, &p->alive[0], "first");
    peak_head(t, &p->alive[1], "second");
    if (is_of_both) peak_rows(t, p, r, limit);
}

static uint64_t larger_arena(const diff_graph *g) {
    uint64_t first = g->p[0] ? g->p[0]->arena_bytes : 0, second = g->p[1] ? g->p[1]->arena_bytes : 0;
    return first > second ? first : second;
}

static bool has_same_arena(const diff_graph *g) {
    return g->p[0] && g->p[1] && g->p[0]->arena_bytes == g->p[1]->arena_bytes;
}

/* Of the graph that needs most, as all of a plan share one arena; with --all of each. */
static void peaks_text(text *t, const diff_report *r, int limit) {
    const difference *d = r->as_they_run;
    const diff_graph *most = NULL;
    int differ = 0;
    for (int i = 0; i < d->n_graphs; i++) {
        const diff_graph *g = &d->graphs[i];
        differ += !has_same_arena(g);
        if (r->all) peak_text(t, g, r, limit);
        if (!most || larger_arena(g) > larger_arena(most)) most = g;
    }
    if (r->all || !differ) return;
    if (!has_same_arena(most)) peak_text(t, most, r, limit);
    differ -= !has_same_arena(most);
    if (differ) text_add(t, "\npeaks of %d other graph%s: --all\n", differ, differ > 1 ? "s" : "");
}

/* ---- the whole ---- */

/* Names from files stay within their lines. */
static void add_safely(text *t, const char *all) {
    while (*all) {
        size_t n = strcspn(all, "\n"), room = 4 * n + 8;
        char *line = tool_new(room, 1);
        show_line(line, room, tool_cut(all, all + n));
        text_add(t, "%s\n", line);
        all += n + (all[n] == '\n');
    }
}

bool diff_is_same(const diff_report *r) {
    return r->changes->n == 0;
}

void diff_text(text *t, const diff_report *r, int columns) {
    text all = {0};
    for (int i = 0; i < 2; i++) {
        text_add(&all, "%s %s: ", i ? "second" : "first ", SHOW_PATH(r->names[i]));
        plan_head(&all, r->plans[i]);
        text_add(&all, "\n");
    }
    changes_text(&all, r, columns);
    if (diff_is_same(r)) text_add(&all, "the two are the same\n");
    if (!diff_is_same(r) || r->all) {
        sums_text(&all, sums_of(r->plans), "in numbers", r, columns);
        sums_text(&all, sums_of_memory(r->plans), "memory", r, columns);
        sums_text(&all, sums_of_kernels(r->plans), "nodes that run, by kernel", r, columns);
        peaks_text(&all, r, columns);
    }
    add_safely(t, tool_take(&all));
}
