/* work_rows.c - see work_rows.h. */
#include "tools/graphtool/timeline/work_rows.h"

#include "runtime/plan/refresh.h"
#include "tools/graphtool/output/end.h"

#include <string.h>

void work_sum_add(work_sum *to, const work_sum *from, int times) {
    to->nodes += times * from->nodes;
    to->launches += times * from->launches;
    to->read += times * from->read;
    to->written += times * from->written;
    to->flops += times * from->flops;
    to->seconds += times * from->seconds;
    to->least += times * from->least;
    for (int b = 0; b < BOUNDS; b++) to->bound[b] += times * from->bound[b];
}

/* Of a measured node, the work of a mean run: a derived value is made only in some of them. */
static work_sum sum_of(const program *p, const weft_node *n, const roof *gpu, const node_time *measured) {
    node_work w = node_work_of(n);
    work_sum sum = {
        .nodes = 1, .launches = w.launches, .read = w.read, .written = w.written, .flops = w.flops};
    if (measured) {
        double share = measured[n->order].share;
        sum.seconds = measured[n->order].seconds;
        sum.read *= share;
        sum.written *= share;
        sum.flops *= share;
        if (gpu) sum.least = share * roof_least(gpu, n, &w, p->plan->options.tf32);
        return sum;
    }
    if (!gpu) return sum;
    roof_bound bound;
    sum.least = roof_least(gpu, n, &w, p->plan->options.tf32);
    sum.seconds = roof_estimate(gpu, n, &w, p->plan->options.tf32, &bound);
    sum.bound[bound] = sum.seconds;
    return sum;
}

/* The row of this op and kernel, new at the end if need be; there is room for one for each node. */
static work_row *row_of(work_rows *rows, const weft_node *n) {
    for (int i = 0; i < rows->n; i++)
        if (rows->v[i].op == n->op && strcmp(rows->v[i].kernel, n->kernel->name) == 0) return &rows->v[i];
    rows->v[rows->n] = (work_row){.op = n->op, .kernel = n->kernel->name};
    return &rows->v[rows->n++];
}

static int larger_first(const void *pa, const void *pb) {
    const work_sum *a = &((const work_row *)pa)->sum, *b = &((const work_row *)pb)->sum;
    double x = a->seconds + 1e-30 * (a->read + a->written), y = b->seconds + 1e-30 * (b->read + b->written);
    return (x < y) - (x > y);
}

/* Whether the node is counted: it launches something, and runs in a step (of a measured program: ran). */
static bool is_counted(const program *p, const weft_node *n, const node_time *measured) {
    if (!n->kernel || node_work_of(n).launches == 0) return false;
    return measured ? measured[n->order].share > 0 : program_runs_node(p, n);
}

work_rows work_rows_of(const program *p, const roof *gpu, const node_time *measured) {
    work_rows rows = {.p = p, .times = program_runs_in_step(p)};
    rows.v = tool_new((size_t)graph_node_count(p->graph) + 1, sizeof *rows.v);
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!is_counted(p, n, measured)) continue;
        work_sum sum = sum_of(p, n, gpu, measured);
        work_sum_add(&row_of(&rows, n)->sum, &sum, 1);
        work_sum_add(&rows.all, &sum, 1);
    }
    qsort(rows.v, (size_t)rows.n, sizeof *rows.v, larger_first);
    return rows;
}

/* ---- by scope ---- */

/* The length of the first `depth` parts of a path; below 0: it has fewer. */
static int cut_path(const char *path, int depth) {
    const char *at = path;
    for (int i = 1; *at; at++)
        if (*at == '/' && i++ == depth) return (int)(at - path);
    int parts = 1;
    for (const char *p = path; *p; p++) parts += *p == '/';
    return parts >= depth ? (int)(at - path) : -1;
}

static work_row *scope_row(work_rows *rows, int *room, const char *path, int length, int depth) {
    for (int i = 0; i < rows->n; i++)
        if ((int)strlen(rows->v[i].scope) == length && strncmp(rows->v[i].scope, path, (size_t)length) == 0)
            return &rows->v[i];
    if (rows->n == *room) {
        work_row *more = tool_new(2 * (size_t)*room + 16, sizeof *more);
        if (rows->n) memcpy(more, rows->v, (size_t)rows->n * sizeof *more);
        rows->v = more;
        *room = 2 * *room + 16;
    }
    rows->v[rows->n] = (work_row){.scope = tool_cut(path, path + length), .depth = depth};
    return &rows->v[rows->n++];
}

/* A scope before those in it, whatever their names are. */
static int by_path(const void *pa, const void *pb) {
    const unsigned char *a = (const unsigned char *)((const work_row *)pa)->scope,
                        *b = (const unsigned char *)((const work_row *)pb)->scope;
    while (*a && *a == *b) a++, b++;
    int of_a = *a == '/' ? 1 : *a ? *a + 1 : 0, of_b = *b == '/' ? 1 : *b ? *b + 1 : 0;
    return of_a - of_b;
}

work_rows work_scopes_of(const program *p, const roof *gpu, const node_time *measured, int depth) {
    work_rows rows = {.p = p, .times = program_runs_in_step(p)};
    int room = 0, length;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!is_counted(p, n, measured)) continue;
        const char *path = n->scope ? n->scope : "";
        work_sum sum = sum_of(p, n, gpu, measured);
        for (int d = 1; d <= depth && (length = cut_path(path, d)) >= 0; d++)
            work_sum_add(&scope_row(&rows, &room, path, length, d)->sum, &sum, 1);
        work_sum_add(&rows.all, &sum, 1);
    }
    if (rows.n) qsort(rows.v, (size_t)rows.n, sizeof *rows.v, by_path);
    return rows;
}

roof_bound work_bound(const work_sum *s) {
    roof_bound best = BOUND_LAUNCH;
    for (int b = 0; b < BOUNDS; b++)
        if (s->bound[b] > s->bound[best]) best = (roof_bound)b;
    return best;
}

static json_t *sum_json(const work_sum *s, double all_seconds, work_more *more) {
    json_t *to = json_pack("{s:i, s:i, s:I, s:I, s:I}", "nodes", s->nodes, "launches", s->launches,
                           "read_bytes", (json_int_t)s->read, "written_bytes", (json_int_t)s->written,
                           "flops", (json_int_t)s->flops);
    if (more) more(to, s, all_seconds);
    return to;
}

json_t *work_sum_json(const work_sum *s, work_more *more) {
    return sum_json(s, s->seconds, more);
}

json_t *work_rows_json(const work_rows *rows, work_more *more) {
    json_t *ops = json_array();
    for (int i = 0; i < rows->n; i++) {
        const work_row *row = &rows->v[i];
        json_t *one = sum_json(&row->sum, rows->all.seconds, more);
        json_object_update_new(one, json_pack("{s:s, s:s}", "op", row->op->name, "kernel", row->kernel));
        json_array_append_new(ops, one);
    }
    json_t *all = work_sum_json(&rows->all, more);
    json_object_set_new(all, "ops", ops);
    return all;
}

json_t *work_scopes_json(const work_rows *rows, work_more *more) {
    json_t *scopes = json_array();
    for (int i = 0; i < rows->n; i++) {
        json_t *one = sum_json(&rows->v[i].sum, rows->all.seconds, more);
        json_object_update_new(one,
                               json_pack("{s:s, s:i}", "scope", rows->v[i].scope, "depth", rows->v[i].depth));
        json_array_append_new(scopes, one);
    }
    return scopes;
}
