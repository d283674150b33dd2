/* result.c - see result.h. */
#include "tools/graphtool/bench/result.h"

#include "tools/graphtool/bench/machine.h"
#include "tools/graphtool/ranks/world.h"

#include "ops/cpu/isa.h"
#include "graph/settings/flow.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/program.h"

#include <string.h>
#include <sys/resource.h>

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

/* What was run, and how. */
static json_t *set_json(const timing *t) {
    const weft_plan *plan = t->work.plan;
    text flow = {0};
    flow_steps_write(&flow, plan->n_flow, plan->flow);
    return json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:s, s:i, s:i, s:I, s:i, s:s, s:s, s:I, s:s?}",
                     "model", t->model->name, "model_hash", tool_model_hash(t->model), "fingerprint",
                     tool_fingerprint(plan), "graphs", graph_names(plan), "flow", tool_take(&flow), "device",
                     device_name(plan->options.device), "isa", isa_name(plan->options.isa), "library",
                     library_json(&plan->library), "dtype", dtype_name(plan->options.precision), "world",
                     world_size(t->o), "threads", plan->kernels.threads, "batch",
                     (json_int_t)weft_plan_batch(plan), "accumulate", plan->accumulate_most, "strategy",
                     plan->strategy.text, "guard", guard_words[plan->options.guard], "seed",
                     (json_int_t)t->o->seed, "set", t->work.set);
}

/* ---- times ---- */

static json_t *pair_json(double low, double high) {
    return json_pack("[f, f]", low, high);
}

static json_t *samples_json(const timing *t) {
    json_t *samples = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(samples, json_real(t->ms[i]));
    return samples;
}

json_t *interval_json(interval in) {
    return interval_is_known(in) ? pair_json(in.low, in.high) : json_null();
}

/* Whether --until was reached; null: it was not given. */
static json_t *reached_json(const timing *t) {
    return t->until > 0 ? json_boolean(t->is_reached) : json_null();
}

static json_t *load_json(double cpus, const cpu_load *load) {
    return load->is_known ? json_real(cpus) : json_null();
}

static json_t *times_json(const timing *t) {
    int n = timing_count(t);
    const double *ms = t->ms + t->warmup;
    interval in = statistics_median_interval(n, ms, 0);
    return json_pack(
        "{s:I, s:i, s:o, s:f, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:o}", "steps", (json_int_t)n, "warmup",
        t->warmup, "samples_ms", samples_json(t), "median_ms", statistics_quantile(n, ms, 0.5), "interval_ms",
        interval_json(in), "until_reached", reached_json(t), "quartiles_ms",
        pair_json(statistics_quantile(n, ms, 0.25), statistics_quantile(n, ms, 0.75)), "min_ms",
        statistics_quantile(n, ms, 0), "first_step_ms", t->ms[0], "ready_ms", t->ready_ms, "other_cpus",
        load_json(t->load.others, &t->load), "steal_cpus", load_json(t->load.steal, &t->load));
}

json_t *result_json(const timing *t) {
    struct rusage use;
    const weft_plan *plan = t->work.plan;
    json_t *all = set_json(t), *times = times_json(t);
    double flops = limit_flops(plan), median = json_at(times, "median_ms");
    getrusage(RUSAGE_SELF, &use);
    json_object_update_new(all, times);
    json_object_update_new(
        all, json_pack("{s:f, s:f, s:I, s:o, s:o, s:O}", "compile_ms",
                       weft_trainer_progress(t->work.trainer)->compile_seconds * 1e3, "peak_rss_mib",
                       (double)use.ru_maxrss / 1024, "plan_bytes", (json_int_t)weft_plan_memory(plan).total,
                       "beyond_bytes", beyond_plan(t), "gflops",
                       flops > 0 ? json_number(flops / median / 1e6) : json_null(), "losses", t->losses));
    return all;
}

void result_add_machine(json_t *result, const timing *t, const peaks *p) {
    double least = limit_ms(t->work.plan, p);
    json_t *limit = least > 0 ? json_real(least) : json_null();
    json_t *share = least > 0 ? json_real(least / json_at(result, "median_ms")) : json_null();
    json_object_update_new(result, json_pack("{s:o, s:o, s:o, s:o}", "limit_ms", limit, "of_limit", share,
                                             "roof", peaks_json(p), "machine", machine_json(p)));
}

static double at(const json_t *of, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(of, key), i));
}

void result_print(const json_t *r) {
    bool has_beyond = json_is_integer(json_object_get(r, "beyond_bytes"));
    printf("%s: median %.2f ms, min %.2f, first %.1f; compiled in %.1f ms; peak %.0f MiB, plan %s%s%s; %.0f "
           "GFLOP/s\n",
           json_string_value(json_object_get(r, "model")), json_at(r, "median_ms"), json_at(r, "min_ms"),
           json_at(r, "first_step_ms"), json_at(r, "compile_ms"), json_at(r, "peak_rss_mib"),
           BYTES((uint64_t)json_at(r, "plan_bytes")), has_beyond ? ", beyond it on the GPU " : "",
           has_beyond ? BYTES((uint64_t)json_at(r, "beyond_bytes")) : "", json_at(r, "gflops"));
    printf("%.0f steps after %.0f of warm-up: quartiles %.2f and %.2f ms", json_at(r, "steps"),
           json_at(r, "warmup"), at(r, "quartiles_ms", 0), at(r, "quartiles_ms", 1));
    if (json_is_array(json_object_get(r, "interval_ms")))
        printf(", median within %.2f to %.2f (95%%)", at(r, "interval_ms", 0), at(r, "interval_ms", 1));
    else
        printf(", too few for an interval: --steps %d", STATISTICS_LEAST);
    if (json_is_real(json_object_get(r, "other_cpus")))
        printf("; other processes used %.2f CPUs, steal %.2f", json_at(r, "other_cpus"),
               json_at(r, "steal_cpus"));
    printf("\n");
    if (json_is_false(json_object_get(r, "until_reached")))
        printf("--until is not reached: the interval is still wider\n");
}
