/* bench.c - graphtool bench: times training steps as bench/torch_cpu.py does. Batches are in memory, and a
 * step runs every training graph once. */
#include "ops/cpu/isa.h"
#include "tools/graphtool/timeline/cpu_roof.h"
#include "tools/graphtool/training/workload.h"
#include "tools/graphtool/ranks/world.h"
#include "tools/graphtool/timeline/profile_table.h"

#include "runtime/plan/refresh.h"

#include <string.h>
#include <sys/resource.h>

enum { FIRST_LOSSES = 5 };

typedef struct timing {
    const options *o;
    workload work;
    json_t *losses; /* name -> [first five..., last] */
    double first_ms;
    int64_t steps;
    double *ms; /* of each timed step */
} timing;

/* Records the losses of an iteration, which are means over all ranks. */
static void note_losses(timing *t, const weft_metrics *m) {
    for (int i = 0; i < m->n; i++) {
        const char *name = m->list[i].name;
        if (!json_object_get(t->losses, name)) json_object_set_new(t->losses, name, json_array());
        json_array_append_new(json_object_get(t->losses, name), json_number(m->list[i].value));
    }
}

/* A GPU runs asynchronously: its steps are timed together, and each gets the mean. */
static bool is_ahead(const timing *t) {
    return t->work.plan->options.device == WEFT_DEVICE_CUDA && !t->o->profile;
}

static void spread_time(timing *t, double seconds) {
    for (int64_t i = 0; i < t->steps; i++) t->ms[i] = seconds * 1e3 / (double)t->steps;
}

/* Steps of the warm-up load and choose kernels; they are not in the profile. */
static void profile_from_here(const timing *t) {
    if (t->o->profile) weft_session_set_profile(t->work.session, true);
}

/* Records the losses of the first steps and the last. On a GPU no others are fetched: fetching waits. */
static void run_steps(timing *t) {
    int64_t all = t->o->warmup + t->steps;
    double timed_from = clock_seconds();
    if (!t->o->warmup) profile_from_here(t);
    for (int64_t i = 0; i < all; i++) {
        bool is_told = i < FIRST_LOSSES || i == all - 1;
        double start = clock_seconds();
        weft_metrics metrics;
        workload_step(&t->work, is_told || !is_ahead(t) ? &metrics : NULL);
        double ms = (clock_seconds() - start) * 1e3;
        if (i == 0) t->first_ms = ms;
        if (i >= t->o->warmup) t->ms[i - t->o->warmup] = ms;
        if (is_told) note_losses(t, &metrics);
        if (i != t->o->warmup - 1) continue;
        workload_sync(&t->work);
        profile_from_here(t);
        timed_from = clock_seconds();
    }
    workload_sync(&t->work);
    if (is_ahead(t)) spread_time(t, clock_seconds() - timed_from);
}

/* ---- the report ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Floating-point operations of a graph's step, with all its micro-batches. */
static double graph_flops(const weft_plan *plan, const char *graph) {
    double flops = 0;
    for (int i = 0; i < plan->n_programs; i++)
        if (strcmp(plan->programs[i].name, graph) == 0)
            flops += program_runs_in_step(&plan->programs[i]) * program_flops(&plan->programs[i]);
    return flops;
}

/* Floating-point operations of one iteration; 0 if unknown, and where iterations differ. */
static double step_flops(const timing *t) {
    double flops = 0;
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(t->work.plan, i, &s); i++) {
        if (s.from > 0 || s.to < INT64_MAX) return 0;
        flops += s.repeat * graph_flops(t->work.plan, s.graph);
    }
    return flops;
}

/* The graphs of the flow, each once, in the order of their first steps. */
static json_t *graph_names(const weft_plan *plan) {
    json_t *names = json_array();
    weft_flow_step s, before;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++) {
        bool is_first = true;
        for (int k = 0; k < i && weft_plan_flow(plan, k, &before); k++)
            is_first = is_first && strcmp(before.graph, s.graph) != 0;
        if (is_first) json_array_append_new(names, json_string(s.graph));
    }
    return names;
}

/* Bytes in use on the GPU beyond the plan's (context, libraries, other programs); null on a CPU. */
static json_t *beyond_plan(const timing *t) {
    uint64_t bytes;
    bool counts = t->work.plan->options.device != WEFT_DEVICE_CPU &&
                  weft_session_extra_bytes(t->work.session, &bytes, NULL) == WEFT_OK;
    return counts ? json_integer((json_int_t)bytes) : json_null();
}

/* What the numbers were computed by, beside Weft; null: nothing. */
static json_t *library_json(const plan_library *l) {
    return l->name ? json_pack("{s:s, s:s, s:s}", "name", l->name, "version", l->version, "isa", l->isa)
                   : json_null();
}

/* Sorts the times; the median of an even count is the mean of the middle two. */
static json_t *report(const timing *t, const weft_model *m) {
    struct rusage use;
    const weft_plan *plan = t->work.plan;
    qsort(t->ms, (size_t)t->steps, sizeof *t->ms, by_size);
    double median = (t->ms[(t->steps - 1) / 2] + t->ms[t->steps / 2]) / 2, flops = step_flops(t);
    getrusage(RUSAGE_SELF, &use);
    return json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:o, s:s, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:o, s:o}",
        "model", m->name, "fingerprint", tool_fingerprint(plan), "graphs", graph_names(plan), "device",
        device_name(plan->options.device), "isa", isa_name(plan->options.isa), "library",
        library_json(&plan->library), "dtype", dtype_name(plan->options.precision), "world", world_size(t->o),
        "threads", plan->kernels.threads, "steps", (json_int_t)t->steps, "median_ms", median, "min_ms",
        t->ms[0], "first_step_ms", t->first_ms, "compile_ms",
        weft_trainer_progress(t->work.trainer)->compile_seconds * 1e3, "peak_rss_mib",
        (double)use.ru_maxrss / 1024, "plan_bytes", (json_int_t)weft_plan_memory(plan).total, "beyond_bytes",
        beyond_plan(t), "gflops", flops > 0 ? json_number(flops / median / 1e6) : json_null(), "losses",
        t->losses);
}

static void print_report(json_t *all) {
    bool has_beyond = json_is_integer(json_object_get(all, "beyond_bytes"));
    printf("%s: median %.2f ms, min %.2f, first %.1f; compiled in %.1f ms; peak %.0f MiB, plan %s%s%s; %.0f "
           "GFLOP/s\n",
           json_string_value(json_object_get(all, "model")), json_at(all, "median_ms"),
           json_at(all, "min_ms"), json_at(all, "first_step_ms"), json_at(all, "compile_ms"),
           json_at(all, "peak_rss_mib"), BYTES((uint64_t)json_at(all, "plan_bytes")),
           has_beyond ? ", beyond it on the GPU " : "",
           has_beyond ? BYTES((uint64_t)json_at(all, "beyond_bytes")) : "", json_at(all, "gflops"));
    json_decref(all);
}

/* The roof of the device: a GPU's by its name, a processor's as it is measured now. NULL: an unknown GPU. */
static const roof *find_roof(const timing *t, roof *own) {
    weft_compile_options like = t->work.plan->options;
    if (like.device != WEFT_DEVICE_CPU) return profile_roof(t->work.session);
    like.threads = t->work.plan->kernels.threads;
    *own = cpu_roof(&like);
    return own;
}

static json_t *roof_json(const roof *r) {
    return r ? json_pack("{s:s, s:f, s:f, s:f}", "name", r->name, "gflops", r->f32 * 1e-9, "reduced_gflops",
                         r->tensor * 1e-9, "gb_per_s", r->memory * 1e-9)
             : json_null();
}

/* By op, then node by node, to stderr, so that --json stays clean; and into the report. */
static void profile(json_t *all, const weft_session *s, const roof *r) {
    text ops = {0};
    if (r) {
        fprintf(stderr, "peaks of %s: %.0f GFLOP/s", r->name, r->f32 * 1e-9);
        if (r->tensor > r->f32) fprintf(stderr, ", %.0f in a reduced type", r->tensor * 1e-9);
        fprintf(stderr, ", %.0f GB/s%s\n", r->memory * 1e-9, profile_roof(s) ? "" : ", measured now");
    }
    json_t *table = profile_table_json(s, r);
    profile_table_text(&ops, table, r != NULL);
    char *nodes = weft_session_profile_text(s);
    if (!nodes) tool_fail("out of memory");
    fprintf(stderr, "%s%s", tool_take(&ops), nodes);
    weft_text_free(nodes);
    json_object_set_new(all, "profile", table);
    json_object_set_new(all, "roof", roof_json(r));
}

static int bench_run(const options *o) {
    roof own;
    weft_model *m = tool_load(o);
    timing *t = tool_new(1, sizeof *t);
    *t = (timing){.o = o, .losses = json_object(), .steps = o->steps};
    t->ms = tool_new((size_t)o->steps, sizeof *t->ms);
    t->work = workload_open(m, o);
    run_steps(t);
    json_t *all = report(t, m);
    json_object_set_new(all, "set", json_pack("s?", t->work.set));
    if (o->profile) profile(all, t->work.session, find_roof(t, &own));
    if (o->json)
        out_json(NULL, all);
    else
        print_report(all);
    return EXIT_FINE;
}

const command command_bench = {
    .name = "bench",
    .summary = "Times steps of a flow, on eight synthetic batches in memory unless --data is given",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "seed guard steps warmup profile json",
    .example = "graphtool bench gpt.bin --threads 2 --json",
    .run = bench_run,
    .ranks = COMMAND_JOINS,
    .defaults = {.steps = 20, .warmup = 3},
};
