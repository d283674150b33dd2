/* bench.c - graphtool bench: times training steps as bench/torch_cpu.py does: batches lie in memory, a step runs
 * every training graph once. */
#include "tools/feed.h"

#include "graph/graph.h"
#include "runtime/program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_GRAPHS = 16, FIRST_LOSSES = 5 };

typedef struct timing {
    const options *o;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    batches data;
    int n_graphs;
    graph_run graphs[MAX_GRAPHS];
    json_t *losses; /* name -> [first five..., last] */
    double compile_ms, first_ms;
    int64_t steps;
    double *ms; /* of each timed step */
} timing;

static int open_batches(timing *t, const weft_model *m) {
    const options *o = t->o;
    if (!o->data.n) return batches_synthetic(&t->data, m, t->plan, (uint64_t)o->seed + 1234);
    int status = batches_load(&t->data, &o->data);
    if (status >= 0) return status;
    int64_t batch = o->batch ? o->batch : m->batch;
    if (t->data.samples < batch)
        return tool_fail("%lld samples are fewer than a batch of %lld", (long long)t->data.samples,
                         (long long)batch);
    return batches_cut(&t->data, &(weft_loader_options){.batch = batch, .drop_last = true});
}

static int prepare(timing *t, weft_model *m) {
    weft_error error = {0};
    int status = EXIT_FINE;
    if (!(t->store = tool_store(m, t->o, &status))) return status;
    if (!tool_keep_mode(m, WEFT_TRAIN)) return tool_fail("%s: the model has no training graph", t->o->model);
    double start = clock_seconds();
    if (!(t->plan = tool_compile(m, t->o, NULL, 0, &status))) return status;
    t->compile_ms = (clock_seconds() - start) * 1e3;
    if ((status = open_batches(t, m)) >= 0) return status;
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        if (t->n_graphs == MAX_GRAPHS) return tool_fail("more than %d training graphs", MAX_GRAPHS);
        if ((status = graph_run_bind(&t->graphs[t->n_graphs++], t->plan, g->name, &t->data, NULL)) >= 0)
            return status;
    }
    if ((status = batches_all_used(&t->data, t->n_graphs, t->graphs)) >= 0) return status;
    if (!(t->session = weft_session_open(t->plan, t->store, &error))) return tool_error(&error);
    if (t->o->profile) weft_session_profile(t->session, true);
    return -1;
}

/* Each k-th run of a graph applies its update: a step is k batches. */
static int one_step(timing *t) {
    for (int64_t k = 0; k < (t->o->accumulate ? t->o->accumulate : 1); k++) {
        if (!batches_next(&t->data)) { /* --data: around again */
            weft_loader_epoch(t->data.loader, 0);
            if (!batches_next(&t->data)) return tool_fail("the data have no batch");
        }
        for (int g = 0; g < t->n_graphs; g++) {
            int status = graph_run_once(&t->graphs[g], t->session, &t->data);
            if (status >= 0) return status;
        }
    }
    return -1;
}

static void note_losses(timing *t) {
    for (int g = 0; g < t->n_graphs; g++)
        for (int i = 0; i < t->graphs[g].n_out; i++) {
            const char *name = t->graphs[g].out[i].name;
            if (!json_object_get(t->losses, name)) json_object_set_new(t->losses, name, json_array());
            json_array_append_new(json_object_get(t->losses, name), json_number(t->graphs[g].values[i]));
        }
}

static int run_steps(timing *t) {
    int64_t all = t->o->warmup + t->steps;
    if (t->data.loader) weft_loader_epoch(t->data.loader, 0);
    for (int64_t i = 0; i < all; i++) {
        double start = clock_seconds();
        int status = one_step(t);
        if (status >= 0) return status;
        double ms = (clock_seconds() - start) * 1e3;
        if (i == 0) t->first_ms = ms;
        if (i >= t->o->warmup) t->ms[i - t->o->warmup] = ms;
        if (i < FIRST_LOSSES || i == all - 1) note_losses(t);
    }
    return -1;
}

/* ---- the report ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double step_flops(const timing *t) {
    double flops = 0;
    for (int i = 0; i < t->plan->n_programs; i++)
        if (t->plan->programs[i].phase == PHASE_WHOLE) flops += program_flops(&t->plan->programs[i]);
    return flops;
}

static json_t *report(const timing *t, const weft_model *m) {
    struct rusage use;
    json_t *names = json_array();
    qsort(t->ms, (size_t)t->steps, sizeof *t->ms, by_size);
    double median = (t->ms[(t->steps - 1) / 2] + t->ms[t->steps / 2]) / 2, flops = step_flops(t);
    for (int g = 0; g < t->n_graphs; g++) json_array_append_new(names, json_string(t->graphs[g].name));
    getrusage(RUSAGE_SELF, &use);
    return json_pack("{s:s, s:o, s:s, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:O}", "model",
                     m->name, "graphs", names, "dtype", "f32", "world", 1, "threads",
                     t->plan->kernels.threads, "steps", (json_int_t)t->steps, "median_ms", median, "min_ms",
                     t->ms[0], "first_step_ms", t->first_ms, "compile_ms", t->compile_ms, "peak_rss_mib",
                     (double)use.ru_maxrss / 1024, "plan_bytes", (json_int_t)weft_plan_memory(t->plan).total,
                     "gflops", flops > 0 ? json_number(flops / median / 1e6) : json_null(), "losses",
                     t->losses);
}

static int print_report(const timing *t, json_t *all) {
    if (t->o->json) return out_json(NULL, all);
    printf(
        "%s: median %.2f ms, min %.2f, first %.1f; compiled in %.1f ms; peak %.0f MiB, plan %s; %.0f "
        "GFLOP/s\n",
        json_string_value(json_object_get(all, "model")), json_real_value(json_object_get(all, "median_ms")),
        t->ms[0], t->first_ms, t->compile_ms, json_real_value(json_object_get(all, "peak_rss_mib")),
        show_bytes(weft_plan_memory(t->plan).total).text, json_number_value(json_object_get(all, "gflops")));
    json_decref(all);
    return fflush(stdout) ? tool_fail("standard output: writing failed") : EXIT_FINE;
}

static int measure(timing *t, weft_model *m) {
    int status = prepare(t, m);
    if (status < 0) status = run_steps(t);
    if (status >= 0) return status;
    if (t->o->profile) {
        char *profile = weft_session_profile_text(t->session);
        fputs(profile ? profile : "", stderr);
        free(profile);
    }
    json_t *all = report(t, m);
    return all ? print_report(t, all) : tool_fail("memory could not be had");
}

int bench_run(const options *o) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    timing *t = calloc(1, sizeof *t);
    if (t) {
        *t = (timing){.o = o,
                      .losses = json_object(),
                      .steps = o->steps,
                      .ms = calloc((size_t)o->steps, sizeof(double))};
        status =
            t->ms ? measure(t, m) : tool_fail("--steps=%lld: memory could not be had", (long long)o->steps);
        weft_session_close(t->session);
        weft_store_free(t->store);
        weft_plan_free(t->plan);
        batches_free(&t->data);
        json_decref(t->losses);
        free(t->ms);
    } else {
        status = tool_fail("memory could not be had");
    }
    free(t);
    weft_model_free(m);
    return status;
}
