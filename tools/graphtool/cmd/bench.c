/* bench.c - graphtool bench: times steps of a flow as bench/torch_cpu.py does. Batches are in memory, and a
 * step runs every graph of the flow. */
#include "tools/graphtool/bench/accuracy.h"
#include "tools/graphtool/bench/alternate.h"
#include "tools/graphtool/bench/op_bench.h"
#include "tools/graphtool/bench/result.h"
#include "tools/graphtool/bench/suite.h"
#include "tools/graphtool/ranks/world.h"
#include "tools/graphtool/timeline/profile_table.h"

/* By op and scope, then node by node, to stderr, so that --json stays clean; and into the report. */
static void profile(json_t *all, const timing *t, const peaks *p) {
    text ops = {0};
    const weft_session *s = t->work.session;
    peaks_print(p);
    json_t *table = profile_table_json(s, p->is_known ? &p->roof : NULL, (int)t->o->depth);
    profile_table_text(&ops, table, p->is_known);
    char *nodes = weft_session_profile_text(s);
    if (!nodes) tool_fail("out of memory");
    fprintf(stderr, "%s%s", tool_take(&ops), nodes);
    weft_text_free(nodes);
    json_object_set_new(all, "profile", table);
}

/* The result of what ran; its peak of memory is read before the peaks are measured, which needs some. */
static json_t *result_of(const timing *t) {
    json_t *all = result_json(t);
    bool is_shown = t->o->json || t->o->profile || t->o->compare;
    if (!is_shown || world_rank(t->o)) return all;
    peaks p = peaks_of(&t->work);
    result_add_machine(all, t, &p);
    if (t->o->profile) profile(all, t, &p);
    return all;
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
        accuracy_print(json_object_get(all, "accuracy"));
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
    json_t *other = result_read(o->compare);
    compare_check(o, compare_steps(mine), STATISTICS_LEAST, o->model);
    compare_check(o, compare_steps(other), STATISTICS_LEAST, o->compare);
    comparison c = compare_results(mine, other, o->compare);
    return print(o, mine, &c);
}

/* Of the run, not of a workload, and what one process can have once. */
static const char of_both[] =
    "steps until warmup profile json config against compare fail-above check-accuracy "
    "isa launcher comm timeout rings suite with op output";

/* Before anything runs: --until runs as many steps as it needs. */
static void check_steps(const options *o, int needed) {
    if (!o->until) compare_check(o, o->steps, needed, "this run");
}

static int run_in_turns(const options *o, const options *second) {
    check_steps(o, ALTERNATE_LEAST);
    timing *mine = timing_open(tool_load(o), o), *other = timing_open(tool_load(second), second);
    comparison c = alternate(mine, other);
    c.other = json_keep(result_json(other));
    json_t *all = result_of(mine);
    return print(o, all, &c);
}

static int run_alone(const options *o) {
    if (o->check_accuracy && o->comm) tool_fail("bench: --check-accuracy is for one rank");
    comparison c = {0};
    json_t *other = o->compare ? result_read(o->compare) : NULL; /* first: it can be wrong */
    if (other)
        check_steps(o, STATISTICS_LEAST),
            compare_check(o, compare_steps(other), STATISTICS_LEAST, o->compare);
    timing *t = timing_open(tool_load(o), o);
    timing_run(t);
    json_t *all = result_of(t);
    if (o->check_accuracy) json_object_set_new(all, "accuracy", accuracy_json(t->model, o, &t->work));
    if (other) c = compare_results(all, other, o->compare);
    return print(o, all, other ? &c : NULL);
}

static int run_suite(const options *o) {
    if (o->model) tool_fail("bench: --suite has its own models: leave out %s", SHOW_PATH(o->model));
    if (o->comm) tool_fail("bench: --suite starts its own runs: leave out the launcher");
    options_only(o, "suite with output", "with --suite: it goes into --with");
    return suite_run(o);
}

static int run_ops(const options *o) {
    if (o->model) tool_fail("bench: --op runs without a model: leave out %s", SHOW_PATH(o->model));
    if (o->comm) tool_fail("bench: --op is for one rank: leave out the launcher");
    options_only(o, "op check-accuracy threads isa device dtype deterministic tf32 seed steps warmup json",
                 "with --op");
    return op_bench_run(o);
}

/* Options without effect that the table of rules does not know. */
static void check(const options *o) {
    if (option_is_given(o, "fail-above") && !o->compare && !o->against && !o->other)
        tool_fail("bench: --fail-above has no effect without --compare, --against or a second model");
    if (o->other && (o->compare || o->profile || o->check_accuracy))
        tool_fail("bench: --%s has no effect with a second model", o->compare   ? "compare"
                                                                   : o->profile ? "profile"
                                                                                : "check-accuracy");
    if (option_is_given(o, "depth") && !o->profile)
        tool_fail("bench: --depth has no effect without --profile");
    if (!o->suite && (o->with.n || o->output))
        tool_fail("bench: --%s has no effect without --suite", o->output ? "output" : "with");
}

static int bench_run(const options *o) {
    check(o);
    if (o->suite) return run_suite(o);
    if (o->op.n) return run_ops(o);
    if (is_result(o)) return compare_files(o);
    const options *second = options_second(o, of_both);
    return second ? run_in_turns(o, second) : run_alone(o);
}

const command command_bench = {
    .name = "bench",
    .summary = "Times steps of a flow, on eight synthetic batches in memory unless --data is given",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "seed guard steps until warmup profile depth against compare fail-above suite with op check-accuracy "
    "json output",
    .takes_two = true,
    .example = "graphtool bench gpt.bin --threads 2 --json",
    .run = bench_run,
    .ranks = COMMAND_JOINS,
    .defaults = {.steps = 20, .warmup = 3, .depth = 3},
};
