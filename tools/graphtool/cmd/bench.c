/* bench.c - graphtool bench: times steps of a flow as bench/torch_cpu.py does. Batches are in memory, and a
 * step runs every graph of the flow. */
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

static int bench_run(const options *o) {
    timing *t = timing_open(tool_load(o), o);
    timing_run(t);
    json_t *all = result_json(t);
    if (o->profile) profile(all, t);
    if (o->json) {
        out_json(NULL, all);
    } else {
        result_print(all);
        json_decref(all);
    }
    return EXIT_FINE;
}

const command command_bench = {
    .name = "bench",
    .summary = "Times steps of a flow, on eight synthetic batches in memory unless --data is given",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "seed guard steps until warmup profile json",
    .example = "graphtool bench gpt.bin --threads 2 --json",
    .run = bench_run,
    .ranks = COMMAND_JOINS,
    .defaults = {.steps = 20, .warmup = 3},
};
