/* bench.c - graphtool bench: times steps of a flow as bench/torch_cpu.py does. Batches are in memory, and a
 * step runs every graph of the flow. */
#include "tools/graphtool/bench/alternate.h"
#include "tools/graphtool/bench/result.h"
#include "tools/graphtool/timeline/cpu_roof.h"
#include "tools/graphtool/timeline/profile_table.h"

#include "runtime/plan/program.h"

/* The roof of the device: a GPU's by its name, a processor's as it is measured now, with the load meanwhile.
 * NULL: an unknown GPU. */
static const roof *find_roof(const timing *t, roof *own, cpu_load *load) {
    weft_compile_options like = t->work.plan->options;
    if (like.device != WEFT_DEVICE_CPU) return profile_roof(t->work.session);
    like.threads = t->work.plan->kernels.threads;
    load_moment from = load_now();
    *own = cpu_roof(&like);
    *load = load_since(&from);
    return own;
}

static json_t *roof_json(const roof *r, const cpu_load *load) {
    return r ? json_pack("{s:s, s:f, s:f, s:f, s:o}", "name", r->name, "gflops", r->f32 * 1e-9,
                         "reduced_gflops", r->tensor * 1e-9, "gb_per_s", r->memory * 1e-9, "other_cpus",
                         load->is_known ? json_real(load->others + load->steal) : json_null())
             : json_null();
}

/* Peaks that were measured beside other processes are too low. */
static void print_roof(const roof *r, const cpu_load *load, bool is_measured) {
    const double busy = 0.1; /* CPUs, as in bench/ */
    fprintf(stderr, "peaks of %s: %.0f GFLOP/s", r->name, r->f32 * 1e-9);
    if (r->tensor > r->f32) fprintf(stderr, ", %.0f in a reduced type", r->tensor * 1e-9);
    fprintf(stderr, ", %.0f GB/s%s", r->memory * 1e-9, is_measured ? ", measured now" : "");
    if (load->others + load->steal > busy)
        fprintf(stderr, " under load, so they are too low: other processes used %.2f CPUs, steal %.2f",
                load->others, load->steal);
    fprintf(stderr, "\n");
}

/* By op, then node by node, to stderr, so that --json stays clean; and into the report. */
static void profile(json_t *all, const timing *t) {
    roof own;
    text ops = {0};
    cpu_load load = {false};
    const weft_session *s = t->work.session;
    const roof *r = find_roof(t, &own, &load);
    if (r) print_roof(r, &load, r == &own);
    json_t *table = profile_table_json(s, r);
    profile_table_text(&ops, table, r != NULL);
    char *nodes = weft_session_profile_text(s);
    if (!nodes) tool_fail("out of memory");
    fprintf(stderr, "%s%s", tool_take(&ops), nodes);
    weft_text_free(nodes);
    json_object_set_new(all, "profile", table);
    json_object_set_new(all, "roof", roof_json(r, &load));
}

/* A model that ends so is a result of an earlier run. */
static bool is_result(const options *o) {
    return text_ends(o->model, ".json");
}

static int print(const options *o, json_t *all, const comparison *c) {
    if (c) compare_add(all, c);
    if (o->json) {
        out_json(NULL, all);
    } else {
        if (!is_result(o)) result_print(all);
        if (c) compare_print(all, c);
        json_decref(all);
    }
    return c ? compare_status(o, c) : EXIT_FINE;
}

/* Two files: nothing runs. */
static int compare_files(const options *o) {
    json_t *mine = json_incref(result_read(o->model));
    options_only(o, "compare fail-above json", "on a result of an earlier run");
    if (!o->compare) tool_fail("bench: %s is a result of an earlier run: --compare=FILE is needed", o->model);
    comparison c = compare_results(mine, result_read(o->compare), o->compare);
    return print(o, mine, &c);
}

static int run_in_turns(const options *o) {
    const options *others = alternate_options(o);
    timing *mine = timing_open(tool_load(o), o), *other = timing_open(tool_load(others), others);
    comparison c = alternate(mine, other);
    json_t *all = result_json(mine);
    c.other = result_json(other);
    if (o->json) json_object_set_new(all, "machine", result_machine(mine));
    return print(o, all, &c);
}

static int run_alone(const options *o) {
    comparison c = {0};
    json_t *other = o->compare ? result_read(o->compare) : NULL; /* first: it can be wrong */
    timing *t = timing_open(tool_load(o), o);
    timing_run(t);
    json_t *all = result_json(t);
    if (o->json || other) json_object_set_new(all, "machine", result_machine(t));
    if (o->profile) profile(all, t);
    if (other) c = compare_results(all, other, o->compare);
    return print(o, all, other ? &c : NULL);
}

static int bench_run(const options *o) {
    bool compares = o->compare || o->against;
    if (option_is_given(o, "fail-above") && !compares)
        tool_fail("bench: --fail-above has no effect without --compare or --against");
    return is_result(o) ? compare_files(o) : o->against ? run_in_turns(o) : run_alone(o);
}

const command command_bench = {
    .name = "bench",
    .summary = "Times steps of a flow, on eight synthetic batches in memory unless --data is given",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "seed guard steps until warmup profile against compare fail-above json",
    .example = "graphtool bench gpt.bin --threads 2 --json",
    .run = bench_run,
    .ranks = COMMAND_JOINS,
    .defaults = {.steps = 20, .warmup = 3},
};
