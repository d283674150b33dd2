/* op_bench.c - see op_bench.h. A run's time is that of its nodes, as a trace of the session has them: what a
 * session does around them does not count. */
#include "tools/graphtool/bench/op_bench.h"

#include "tools/graphtool/bench/machine.h"
#include "tools/graphtool/bench/op_case.h"
#include "tools/graphtool/bench/result.h"
#include "tools/graphtool/bench/wide.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/timeline/work_rows.h"

#include "ops/catalog/catalog.h"
#include "runtime/plan/program.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SECONDS 2.0 /* of one call, after its first run */

#define NOTHING "nothing is computed: it is a view, or is for several ranks"

/* What is open for one call. */
typedef struct op_run {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    int n_feeds;
    weft_feed feeds[OP_CASE_IN];
    double ns;           /* of the present run's nodes */
    uint64_t longest_ns; /* of its longest node */
    const char *kernel;  /* of that node; the kernel's own text */
} op_run;

static void on_node(void *context, const weft_node_event *e) {
    op_run *r = context;
    if (!e->kernel) return;
    uint64_t ns = e->finished_ns - e->began_ns;
    r->ns += (double)ns;
    if (ns >= r->longest_ns) r->longest_ns = ns, r->kernel = e->kernel;
}

static weft_status run_once(op_run *r, double *ms) {
    r->ns = 0;
    r->longest_ns = 0;
    weft_status status = weft_run(r->session, "op", r->feeds, r->n_feeds, NULL, 0, &tool_why);
    if (!status) status = weft_sync(r->session, &tool_why);
    *ms = r->ns * 1e-6;
    return status;
}

static bool open_run(const op_case *c, const options *o, op_run *r) {
    weft_compile_options how = tool_compile_options(o);
    weft_model *m = op_case_model(c);
    r->plan = m ? weft_compile(m, &how, &tool_why) : NULL;
    weft_model_free(m);
    r->store = r->plan ? weft_store_new(r->plan, (uint64_t)o->seed, &tool_why) : NULL;
    r->session = r->store ? weft_session_open(r->plan, r->store, &tool_why) : NULL;
    if (!r->session) return false;
    weft_session_trace(r->session, on_node, r);
    for (int i = 0; i < c->n_in; i++) {
        size_t bytes = c->in[i].ndim < 0 ? 0 : type_bytes(&c->in[i]);
        if (!bytes) continue;
        void *data = tool_need(malloc(bytes));
        op_case_fill(c, i, data);
        r->feeds[r->n_feeds++] = (weft_feed){.name = tool_text("in%d", i), .data = data, .bytes = bytes};
    }
    return true;
}

static void close_run(op_run *r) {
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
    for (int i = 0; i < r->n_feeds; i++) free((void *)(uintptr_t)r->feeds[i].data);
}

/* Fills ms[--warmup + --steps]; returns how many runs there were, 0 after an error. */
static int time_runs(op_run *r, const options *o, double *ms) {
    int n = 0, all = (int)(o->warmup + o->steps);
    double start = clock_seconds();
    do {
        if (run_once(r, &ms[n])) return 0;
        if (++n == 1) start = clock_seconds();
    } while (n < all && clock_seconds() - start < MOST_SECONDS);
    return n;
}

static json_t *times_json(const options *o, int n, const double *ms) {
    json_t *samples = json_array();
    int warmup = n > o->warmup ? (int)o->warmup : n - 1;
    if (!option_is_given(o, "warmup")) warmup = statistics_warmup(n, ms);
    for (int i = 0; i < n; i++) json_array_append_new(samples, json_real(ms[i]));
    interval in = statistics_median_interval(n - warmup, ms + warmup, 0);
    return json_pack("{s:o, s:i, s:i, s:f, s:o}", "samples_ms", samples, "warmup", warmup, "steps",
                     n - warmup, "median_ms", statistics_quantile(n - warmup, ms + warmup, 0.5),
                     "interval_ms", interval_json(in));
}

/* What the nodes of its program do, over the median. */
static void add_work(json_t *row, const op_run *r, const peaks *p) {
    work_rows work = work_rows_of(&r->plan->programs[0], p->is_known ? &p->roof : NULL, NULL);
    double seconds = json_at(row, "median_ms") * 1e-3, moved = work.all.read + work.all.written;
    double least = p->is_known ? work.all.least : 0;
    json_object_update_new(row,
                           json_pack("{s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "nodes", work.all.nodes,
                                     "kernel", r->kernel ? r->kernel : "", "flops", work.all.flops,
                                     "read_bytes", work.all.read, "written_bytes", work.all.written, "gflops",
                                     seconds > 0 ? work.all.flops / seconds * 1e-9 : 0, "gb_per_s",
                                     seconds > 0 ? moved / seconds * 1e-9 : 0, "least_ms",
                                     least > 0 ? json_real(least * 1e3) : json_null(), "of_peak",
                                     least > 0 && seconds > 0 ? json_real(least / seconds) : json_null()));
}

static void feed_wide(wide *w, const weft_graph *g, const op_run *r) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; n->op == &weft_op_input && i < r->n_feeds; i++)
            if (strcmp(r->feeds[i].name, input_name(n)) == 0) wide_set_input(w, &n->out[0], r->feeds[i].data);
}

/* Adds how far the results are from f64, the worst of them; null where the op has no kernel for f64. */
static void add_accuracy(json_t *row, const op_case *c, const op_run *r, const options *o) {
    difference worst = {0};
    weft_port port;
    weft_fetch got[OP_MAX_OUT];
    weft_dtype types[OP_MAX_OUT];
    int n = 0, k = 0;
    const weft_graph *g = tool_keep_model(tool_got(op_case_model(c)))->graphs;
    wide *w = wide_new(g, r->plan->kernels.threads, (uint64_t)o->seed);
    for (; n < OP_MAX_OUT && weft_plan_output(r->plan, "op", n, &port); n++) {
        got[n] = (weft_fetch){port.name, tool_new(port.bytes + 1, 1), port.bytes};
        types[n] = port.dtype;
    }
    for (const graph_output *out = g->outputs; out; out = out->next) wide_keep(w, out->value);
    feed_wide(w, g, r);
    tool_must(weft_run(r->session, "op", r->feeds, r->n_feeds, got, n, &tool_why));
    bool good = wide_run(w, &tool_why) == WEFT_OK;
    for (const graph_output *out = good ? g->outputs : NULL; out; out = out->next, k++) {
        difference d = wide_difference(w, out->value, types[k], got[k].data);
        if (difference_rms(&d) >= difference_rms(&worst)) worst = d;
    }
    wide_free(w);
    if (good)
        json_object_update_new(row, difference_json(&worst));
    else
        json_object_update_new(row, json_pack("{s:n, s:n}", "rms", "most"));
}

/* A row; with `error` where the call cannot run. */
static json_t *measure(const op_case *c, const options *o, const peaks *p) {
    op_run r = {NULL};
    json_t *row = json_pack("{s:s, s:s}", "op", c->op->name, "call", op_case_text(c));
    double *ms = tool_new((size_t)(o->warmup + o->steps), sizeof *ms);
    bool is_open = open_run(c, o, &r);
    if (is_open && o->check_accuracy) add_accuracy(row, c, &r, o); /* its random numbers are the first ones */
    int n = is_open ? time_runs(&r, o, ms) : 0;
    if (n && !r.kernel) {
        json_object_set_new(row, "error", json_string(NOTHING));
    } else if (n) {
        json_object_update_new(row, times_json(o, n, ms));
        add_work(row, &r, p);
    } else {
        json_object_set_new(row, "error", json_string(tool_why.text));
    }
    close_run(&r);
    return row;
}

/* ---- which calls ---- */

/* Of all ops those that compute something. */
static void add_all(json_t *rows, const options *o, const peaks *p) {
    op_case c;
    for (int i = 0; i < op_count(); i++) {
        if (!op_case_of(op_at(i), &c)) continue;
        json_t *row = measure(&c, o, p);
        const char *error = json_string_value(json_object_get(row, "error"));
        if (!error || strcmp(error, NOTHING)) json_array_append(rows, row);
        json_decref(row);
    }
}

static int farthest_first(const void *a, const void *b) {
    double x = json_at(*(json_t *const *)a, "of_peak"), y = json_at(*(json_t *const *)b, "of_peak");
    return (x > y) - (x < y);
}

/* Rows whose share is not known, as nothing was computed, come last. */
static json_t *sorted(json_t *rows) {
    size_t n = json_array_size(rows), k = 0;
    json_t **list = tool_new(n + 1, sizeof *list), *all = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_at(json_array_get(rows, i), "of_peak") > 0) list[k++] = json_array_get(rows, i);
    qsort(list, k, sizeof *list, farthest_first);
    for (size_t i = 0; i < k; i++) json_array_append(all, list[i]);
    for (size_t i = 0; i < n; i++)
        if (!(json_at(json_array_get(rows, i), "of_peak") > 0))
            json_array_append(all, json_array_get(rows, i));
    json_decref(rows);
    return all;
}

/* The peaks, by a plan of an op: a session tells which GPU it runs on. */
static peaks measure_peaks(const options *o) {
    op_run r = {NULL};
    const op_case c = op_case_read("relu(f32[16])");
    if (!open_run(&c, o, &r)) tool_error(&tool_why);
    peaks p = peaks_of(&(workload){.session = r.session, .plan = r.plan});
    close_run(&r);
    return p;
}

static json_t *rows_with(const json_t *rows, bool error) {
    size_t i;
    json_t *row, *found = json_array();
    json_array_foreach(rows, i, row) if ((json_object_get(row, "error") != NULL) == error)
        json_array_append(found, row);
    return found;
}

static void print_rows(const json_t *rows, bool has_accuracy) {
    static const table_column columns[] = {
        {"kernel", "kernel"},       {"ms", "median_ms", 1, 3},      {"GFLOP/s", "gflops", 1, 1},
        {"GB/s", "gb_per_s", 1, 1}, {"least ms", "least_ms", 1, 3}, {"of peak", "of_peak", 100, 1, "%"},
        {"call", "call"},           {"rms", "rms", 1, -2}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    size_t i;
    const json_t *row;
    text t = {0};
    json_t *good = rows_with(rows, false), *failed = rows_with(rows, true);
    if (json_array_size(good)) table_json(&t, good, COLUMNS - !has_accuracy, columns);
    json_array_foreach(failed, i, row)
        text_add(&t, "%s: %s\n", json_string_value(json_object_get(row, "call")),
                 json_string_value(json_object_get(row, "error")));
    out_text(NULL, &t);
    json_decref(good);
    json_decref(failed);
}

int op_bench_run(const options *o) {
    int failed = 0;
    size_t i;
    json_t *rows = json_array(), *row;
    op_case cases[OPTIONS_MAX_DATA];
    bool is_all = o->op.n == 1 && strcmp(o->op.v[0], "all") == 0;
    tool_select_device(o);
    for (int k = 0; !is_all && k < o->op.n; k++) cases[k] = op_case_read(o->op.v[k]);
    peaks p = measure_peaks(o);
    if (is_all) add_all(rows, o, &p);
    for (int k = 0; !is_all && k < o->op.n; k++) json_array_append_new(rows, measure(&cases[k], o, &p));
    if (is_all) rows = sorted(rows);
    json_array_foreach(rows, i, row) failed += json_object_get(row, "error") != NULL;
    if (!o->json) peaks_print(&p);
    if (!o->json) print_rows(rows, o->check_accuracy);
    if (o->json)
        out_json(NULL, json_pack("{s:O, s:o, s:o}", "ops", rows, "roof", peaks_json(&p), "machine",
                                 machine_json(&p)));
    json_decref(rows);
    return failed ? EXIT_WRONG : EXIT_FINE;
}
