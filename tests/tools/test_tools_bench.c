/* test_tools_bench.c - graphtool bench: what it reports, and which flows it runs. Times are not tested. */
#include "support/programs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first loss of `bench` by that name; NaN is never one. */
static double first_loss(const char *command, const char *name) {
    if (!ends(run("%s", command), 0)) return 0;
    json_t *out = json_out("out");
    const json_t *list = json_object_get(json_object_get(out, "losses"), name);
    double value = json_number_value(json_array_get(list, 0));
    json_decref(out);
    return value;
}

static double number(const json_t *of, const char *key) {
    return json_number_value(json_object_get(of, key));
}

/* Scopes of one part have all of the graph's time, and a scope at least that of those in it. */
static void check_scopes(const json_t *scopes, double all) {
    size_t i;
    const json_t *scope;
    double top = 0, inner = 0, net = 0;
    json_array_foreach(scopes, i, scope) {
        const char *path = json_string_value(json_object_get(scope, "scope"));
        int depth = (int)json_integer_value(json_object_get(scope, "depth"));
        CHECK_SAYS(depth == 1 + (strchr(path, '/') != NULL), "%s: %d", path, depth);
        if (depth == 1) top += number(scope, "ms");
        if (strcmp(path, "net") == 0) net = number(scope, "ms");
        if (strncmp(path, "net/", 4) == 0) inner += number(scope, "ms");
    }
    CHECK(i > 3 && fabs(top - all) < 1e-6 * all && inner > 0 && inner <= net * (1 + 1e-6));
}

/* Milliseconds of the ops are those of their graph. */
TEST(a_profile_by_op_adds_up) {
    NEED(make_model("mlp"));
    ends(run("graphtool bench mlp.bin --threads 1 --batch 64 --steps 4 --warmup 1 --profile --json"), 0);
    json_t *out = json_out("out"), *graph = json_array_get(json_object_get(out, "profile"), 0), *op;
    double sum = 0, all = json_number_value(json_object_get(graph, "ms"));
    size_t i;
    CHECK(json_array_size(json_object_get(out, "profile")) == 1);
    json_array_foreach(json_object_get(graph, "ops"), i, op) {
        sum += json_number_value(json_object_get(op, "ms"));
        CHECK(json_integer_value(json_object_get(op, "launches")) > 0);
        /* null where the op neither computes nor moves anything */
        double least = json_number_value(json_object_get(op, "least_ms"));
        const json_t *roof = json_object_get(out, "roof");
        double at_peak = json_number_value(json_object_get(op, "flops")) /
                         json_number_value(json_object_get(roof, "gflops")) * 1e-6;
        double moved = (json_number_value(json_object_get(op, "read_bytes")) +
                        json_number_value(json_object_get(op, "written_bytes"))) /
                       json_number_value(json_object_get(roof, "gb_per_s")) * 1e-6;
        CHECK_SAYS(least > 0.99 * fmax(at_peak, moved) && least < 1.01 * (at_peak + moved) + 1e-9,
                   "%s: %g, %g and %g", json_string_value(json_object_get(op, "op")), least, at_peak, moved);
    }
    CHECK(i > 8 && sum > 0 && fabs(sum - all) < 1e-6 * all);
    check_scopes(json_object_get(graph, "scopes"), all);
    json_decref(out);
    char *err = read_all("err");
    CHECK_HOLDS(err, "graph train, by op:");
    CHECK_HOLDS(err, "graph train, by scope:\n  scope ");
    CHECK_HOLDS(err, "\n    fc1 ");
    CHECK_HOLDS(err, "of peak");
    CHECK_HOLDS(err, "peaks of this processor: ");
    free(err);
}

TEST(bench_prints_the_keys_of_the_design) {
    static const char *const keys[] = {
        "model",      "graphs",        "flow",         "device",       "dtype",        "world",
        "threads",    "batch",         "accumulate",   "strategy",     "guard",        "seed",
        "set",        "isa",           "library",      "fingerprint",  "steps",        "warmup",
        "samples_ms", "median_ms",     "interval_ms",  "quartiles_ms", "min_ms",       "first_step_ms",
        "ready_ms",   "compile_ms",    "peak_rss_mib", "plan_bytes",   "beyond_bytes", "gflops",
        "losses",     "other_cpus",    "steal_cpus",   "machine",      "limit_ms",     "of_limit",
        "roof",       "until_reached", "model_hash",   "schema"};
    static const char *const of_machine[] = {"processor",       "architecture", "cores", "usable_cores",
                                             "caches",          "governor",     "gpu",   "memory_bytes",
                                             "memory_gb_per_s", "system",       "weft",  "commit"};
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool bench dcgan28.bin --threads 2 --batch 8 --steps 3 --warmup 1 --json"), 0));
    json_t *out = json_out("out");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_SAYS(json_object_get(out, keys[i]) != NULL, "no key %s", keys[i]);
    CHECK(json_object_size(out) == sizeof keys / sizeof *keys);
    const json_t *machine = json_object_get(out, "machine");
    for (size_t i = 0; i < sizeof of_machine / sizeof *of_machine; i++)
        CHECK_SAYS(json_object_get(machine, of_machine[i]) != NULL, "no key %s", of_machine[i]);
    CHECK(json_object_size(machine) == sizeof of_machine / sizeof *of_machine);
    CHECK(json_array_size(json_object_get(out, "samples_ms")) == 4);
    CHECK(number(out, "steps") == 3 && number(out, "warmup") == 1 && number(out, "batch") == 8);
    CHECK(json_array_size(json_object_get(json_object_get(out, "losses"), "g_loss")) >= 4);
    json_decref(out);
    if (test_is_quick()) return;
    NEED(make_model("gpt")); /* integer inputs must be in range by themselves */
    ends(run("graphtool bench gpt.bin --batch 1 --steps 1 --warmup 0"), 0);
}

/* What is reported follows from the raw times: here of as many steps as the warm-up that was found needs. */
TEST(statistics_are_of_the_samples) {
    NEED(make_model("mlp"));
    NEED(ends(run("graphtool bench mlp.bin --batch 2 --steps 6 -t 1 --json"), 0));
    json_t *out = json_out("out"), *samples = json_object_get(out, "samples_ms");
    size_t n = json_array_size(samples), warmup = (size_t)number(out, "warmup");
    CHECK(number(out, "steps") == (double)(n - warmup) && n >= 9 && n - warmup >= 6 && 2 * warmup <= n);
    double least = 1e30, low = json_number_value(json_array_get(json_object_get(out, "interval_ms"), 0)),
           high = json_number_value(json_array_get(json_object_get(out, "interval_ms"), 1));
    int below = 0, above = 0;
    for (size_t i = warmup; i < n; i++) {
        double ms = json_number_value(json_array_get(samples, i));
        least = fmin(least, ms);
        below += ms < number(out, "median_ms");
        above += ms > number(out, "median_ms");
    }
    CHECK(fabs(number(out, "min_ms") - least) < 1e-6 * least && abs(below - above) <= 1);
    CHECK(low <= number(out, "median_ms") && number(out, "median_ms") <= high);
    CHECK(json_is_null(json_object_get(out, "until_reached")));
    CHECK(number(out, "first_step_ms") == json_number_value(json_array_get(samples, 0)));
    json_decref(out);
}

TEST(until_is_a_percentage) {
    NEED(make_model("mlp"));
    const char *const wrong[] = {"1", "x%", "0%", "-1%", "100%", "1%%", "nan%"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses(run("graphtool bench mlp.bin --until '%s'", wrong[i]), "it must be a percentage above 0");
    /* it ends: the interval is narrow enough, or 100 times 3 steps were timed */
    NEED(ends(run("graphtool bench mlp.bin --batch 2 --steps 3 --until 0.001%% -t 1 --warmup 0 --json"), 0));
    json_t *out = json_out("out");
    double width = json_number_value(json_array_get(json_object_get(out, "interval_ms"), 1)) -
                   json_number_value(json_array_get(json_object_get(out, "interval_ms"), 0));
    bool is_reached = width <= 1e-5 * number(out, "median_ms");
    CHECK(number(out, "steps") == 300 || is_reached);
    CHECK(json_is_boolean(json_object_get(out, "until_reached")) &&
          json_is_true(json_object_get(out, "until_reached")) == is_reached);
    json_decref(out);
    /* one ratio has no interval: a width of 0 is not an end; 3 ratios of 5 ms within 99% are 6 or more */
    NEED(ends(run("graphtool bench mlp.bin --batch 2 --steps 1 --until 99%% -t 1 --warmup 0 --json --against "
                  "--guard=off"),
              0));
    out = json_out("out");
    CHECK(number(out, "steps") >= 12);
    json_decref(out);
    ends(run("graphtool bench mlp.bin --batch 2 --steps 1 --until 0.0000001%% -t 1 --warmup 0"), 0);
    char *said = read_all("out");
    CHECK_HOLDS(said, "--until is not reached");
    free(said);
}

/* What is compared is in the files: n times around a median. */
static void write_some(const char *name, int n, double median, double step, const char *more) {
    char path[300];
    path_of(name, path);
    FILE *f = fopen(path, "w");
    NEED(f != NULL);
    fprintf(f, "{\"warmup\": 2, %s\"samples_ms\": [900, 800", more);
    for (int i = 0; i < n; i++) fprintf(f, ", %.17g", median + step * (i * 8 % 21 - 10)); /* no order */
    fprintf(f, "]}");
    fclose(f);
}

static void write_times(const char *name, double median, double step, const char *more) {
    write_some(name, 21, median, step, more);
}

/* Twice as slow, of too few times to know it; either of the two may have too few. */
TEST(few_times_show_no_difference) {
    static const int rows[][2] = {{1, 1}, {5, 21}, {21, 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_some("mine.json", rows[i][0], 20, 0.01, "");
        write_some("other.json", rows[i][1], 10, 0.01, "");
        NEED(ends(run("graphtool bench mine.json --compare other.json --json"), 0));
        json_t *out = json_out("out"), *c = json_object_get(out, "comparison");
        CHECK(json_is_null(json_object_get(c, "interval")) && fabs(number(c, "ratio") - 2) < 0.1);
        CHECK_TEXT(json_string_value(json_object_get(c, "verdict")), "no difference is shown");
        json_decref(out);
        ends(run("graphtool bench mine.json --compare other.json"), 0);
        char *said = read_all("out");
        CHECK_HOLDS(said, "without an interval: no difference is shown; give both --steps 6 or more");
        free(said);
        refuses(run("graphtool bench mine.json --compare other.json --fail-above 1.1"),
                "--steps of 6 or more are needed");
    }
    write_some("mine.json", 6, 20, 0.01, "");
    ends(run("graphtool bench mine.json --compare mine.json --fail-above 1.1"), 0);
    NEED(make_model("mlp"));
    refuses(run("graphtool bench mlp.bin --steps 10 --fail-above 2 --against --guard=off"),
            "--steps of 11 or more are needed");
    refuses(run("graphtool bench mlp.bin --steps 5 --fail-above 2 --compare mine.json"),
            "--steps of 6 or more are needed");
}

TEST(verdicts_follow_from_the_times) {
    static const struct {
        double median, step, ratio;
        const char *verdict;
        double fails_above; /* 0: it does not */
    } rows[] = {{10, 0.01, 1, "no difference is shown", 0},
                {10.02, 0.01, 1.002, "no difference is shown", 0},
                {11, 0.01, 1.1, "slower", 1.05},
                {11, 1, 1.1, "no difference is shown", 0}, /* too wide */
                {9, 0.01, 0.9, "faster", 0.85}};
    write_times("other.json", 10, 0.01,
                "\"threads\": 1, \"flow\": \"a\", \"set\": null, \"model_hash\": \"1\", \"schema\": 1, ");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_times("mine.json", rows[i].median, rows[i].step, "\"threads\": 2, ");
        NEED(ends(run("graphtool bench mine.json --compare other.json --json"), 0));
        json_t *out = json_out("out"), *c = json_object_get(out, "comparison");
        double low = json_number_value(json_array_get(json_object_get(c, "interval"), 0)),
               high = json_number_value(json_array_get(json_object_get(c, "interval"), 1));
        CHECK_SAYS(fabs(number(c, "ratio") - rows[i].ratio) < 1e-9, "%zu: %g", i, number(c, "ratio"));
        CHECK_TEXT(json_string_value(json_object_get(c, "verdict")), rows[i].verdict);
        CHECK(low <= number(c, "ratio") && number(c, "ratio") <= high);
        CHECK_TEXT(json_string_value(json_object_get(c, "with")), "other.json");
        json_decref(out);
        if (rows[i].fails_above <= 0) continue;
        ends(run("graphtool bench mine.json --compare other.json --fail-above %g", rows[i].fails_above), 1);
        char *err = read_all("err");
        CHECK_HOLDS(err, "graphtool: bench: the time is above ");
        free(err);
    }
    write_times("mine.json", 11, 0.01, "\"threads\": 2, ");
    ends(run("graphtool bench mine.json --compare other.json --fail-above 1.2"), 0);
    write_times(
        "mine.json", 11, 1,
        "\"threads\": 2, \"flow\": \"b\", \"set\": \"tau=1\", \"model_hash\": \"2\", "); /* above 1.05, but that is not sure */
    ends(run("graphtool bench mine.json --compare other.json --fail-above 1.05"), 0);
    char *out = read_all("out");
    CHECK_HOLDS(out, "time / that of other.json: 1.100, within ");
    CHECK_HOLDS(out,
                "\nthey differ in: flow \"b\" and \"a\", threads 2 and 1, set \"tau=1\" and null, model_hash "
                "\"2\" and \"1\"\n");
    free(out);
    write_times("mine.json", 10, 0.01, "\"fingerprint\": \"3\", "); /* of a setting without a key */
    write_times("other.json", 10, 0.01, "\"fingerprint\": \"4\", ");
    ends(run("graphtool bench mine.json --compare other.json"), 0);
    out = read_all("out");
    CHECK_HOLDS(out, "\nthey differ in: fingerprint \"3\" and \"4\"\n");
    free(out);
}

TEST(files_that_are_no_results_are_refused) {
    NEED(make_model("mlp"));
    write_times("other.json", 10, 0.01, "");
    static const char *const wrong[] = {"[]",
                                        "{}",
                                        "{\"warmup\": 0}",
                                        "{\"warmup\": 0, \"samples_ms\": []}",
                                        "{\"warmup\": 2, \"samples_ms\": [1, 2]}",
                                        "{\"warmup\": -1, \"samples_ms\": [1, 2]}",
                                        "{\"warmup\": 0.5, \"samples_ms\": [1, 2]}",
                                        "{\"warmup\": 0, \"samples_ms\": [1, 0]}",
                                        "{\"warmup\": 0, \"samples_ms\": [1, \"x\"]}",
                                        "{\"warmup\": 0, \"samples_ms\": [5e-324, 1]}",
                                        "{\"warmup\": 0, \"samples_ms\": [1, 1e308]}",
                                        "{\"warmup\": 0, \"samples_ms\": {}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        NEED(ends(run("echo '%s' >wrong.json", wrong[i]), 0));
        refuses(run("graphtool bench other.json --compare wrong.json"),
                "wrong.json: it must be what bench --json");
    }
    refuses(run("graphtool bench mlp.bin --compare wrong.json"), "wrong.json: it must be what bench --json");
    static const char *const schemas[] = {"2", "0", "\"1\"", "null"};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        write_times("wrong.json", 10, 0.01, ""); /* the key is before its others */
        NEED(ends(run("sed -i 's/{/{\"schema\": %s, /' wrong.json", schemas[i]), 0));
        refuses(run("graphtool bench other.json --compare wrong.json"), "wrong.json: \"schema\" is ");
    }
    NEED(ends(run("echo '{' >wrong.json"), 0));
    refuses(run("graphtool bench wrong.json --compare other.json"), "wrong.json:");
    refuses(run("graphtool bench other.json --compare nothere.json"), "nothere.json: it cannot be read");
    refuses(run("graphtool bench other.json"), "--compare=FILE is needed");
    refuses(run("graphtool bench other.json --compare other.json --steps 3"),
            "--steps has no effect on a result");
    refuses(run("graphtool bench mlp.bin --fail-above 1.1"), "--fail-above has no effect without");
    refuses(run("graphtool bench mlp.bin --compare other.json --against --threads=1"),
            "--compare has no effect with --against");
}

/* Both run the steps of one training each: the same losses as alone. */
TEST(two_workloads_run_in_turns) {
    NEED(make_model("mlp") && make_model("dcgan28"));
    double alone = first_loss("graphtool bench mlp.bin --batch 4 --steps 3 --warmup 1 -t 1 --json", "loss");
    NEED(ends(run("graphtool bench mlp.bin dcgan28.bin --batch 4 --steps 3 --warmup 1 -t 1 --json --against "
                  "'--threads 2 --batch 2'"),
              0));
    json_t *out = json_out("out"), *c = json_object_get(out, "comparison"),
           *other = json_object_get(c, "other");
    CHECK(number(out, "steps") == 4 && number(out, "warmup") == 1 && number(other, "steps") == 4);
    CHECK(json_array_size(json_object_get(out, "samples_ms")) == 5);
    CHECK(number(out, "threads") == 1 && number(other, "threads") == 2 && number(other, "batch") == 2);
    CHECK_TEXT(json_string_value(json_object_get(other, "model")), "dcgan28");
    const json_t *losses = json_object_get(json_object_get(out, "losses"), "loss");
    CHECK(json_number_value(json_array_get(losses, 0)) == alone && json_array_size(losses) == 6);
    json_decref(out);
    ends(run("graphtool launch -n 2 bench mlp.bin --batch 4 --steps 2 -t 1 --against --guard=off"), 0);
    refuses(run("graphtool bench mlp.bin --against --isa=sse2"), "--against: --isa is for both");
    static const char *const of_both[] = {"steps=3", "suite=zoo",    "op=all",   "with=x",
                                          "help",    "against=none", "output=x", "check-accuracy"};
    for (size_t i = 0; i < sizeof of_both / sizeof *of_both; i++)
        refuses(run("graphtool bench mlp.bin --against --%s", of_both[i]), "is for both: give it outside");
    refuses(run("graphtool bench mlp.bin --check-accuracy --against --guard=off"),
            "--check-accuracy has no effect with --against");
    refuses(run("graphtool bench mlp.bin mlp.bin --check-accuracy"),
            "--check-accuracy has no effect with a second model");
    refuses(run("graphtool bench mlp.bin --against a.bin"), "a second model is an argument");
    refuses(run("graphtool bench mlp.bin nothere.bin"), "nothere.bin");
    refuses(run("graphtool bench mlp.bin mlp.bin mlp.bin"), "two models are enough");
    refuses(run("graphtool bench mlp.bin mlp.bin --profile"), "--profile has no effect with a second model");
    refuses(run("graphtool bench mlp.bin --against --nothing"), "no option --nothing");
}

/* Operations and bytes of calls whose numbers are plain: 2 m n k, and each operand and result once. */
TEST(an_op_s_work_is_that_of_its_call) {
    static const struct {
        const char *call, *shown;
        double flops, read, written;
    } rows[] = {{"matmul(f32[32,64], f32[64,16]) in net/fc1", "matmul(f32[32,64], f32[64,16])",
                 2 * 32 * 64 * 16, 4 * (32 * 64 + 64 * 16), 4 * 32 * 16},
                {"matmul(f32[64,32], f32[64,16]) transpose_a=1", NULL, 2 * 32 * 64 * 16,
                 4 * (32 * 64 + 64 * 16), 4 * 32 * 16},
                {"relu(bf16[1000])", NULL, 0, 2000, 2000},
                {"cross_entropy(f32[20,10], i64[20])", NULL, 0, 4 * 200 + 8 * 20, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED(ends(run("graphtool bench --op '%s' --steps 2 --warmup 1 -t 1 --json", rows[i].call), 0));
        json_t *out = json_out("out"), *row = json_array_get(json_object_get(out, "ops"), 0);
        const char *call = json_string_value(json_object_get(row, "call"));
        CHECK_HOLDS(call ? call : "", rows[i].shown ? rows[i].shown : rows[i].call);
        CHECK(number(row, "flops") == rows[i].flops && number(row, "read_bytes") == rows[i].read);
        CHECK(rows[i].written <= 0 || number(row, "written_bytes") == rows[i].written);
        CHECK(json_array_size(json_object_get(row, "samples_ms")) == 3 && number(row, "steps") == 2);
        CHECK(json_is_object(json_object_get(out, "roof")) &&
              json_is_object(json_object_get(out, "machine")));
        json_decref(out);
    }
}

TEST(calls_that_cannot_run_are_told) {
    static const char *const wrong[][2] = {
        {"all of it", "a call such as"},
        {"matmull(f32[3])", "there is no op 'matmull': did you mean matmul?"},
        {"matmul(f32[3)", "types of operands such as f32[2,3] are needed"},
        {"matmul(3)", "types of operands such as f32[2,3] are needed"},
        {"matmul(f32[3] f32[3])", "types of operands such as f32[2,3] are needed"}};
    static const char *const failing[][2] = {
        {"matmul(f32[3,4], f32[5,6])", "matmul(f32[3,4], f32[5,6]): matmul: "},
        {"matmul(f32[3])", "matmul(f32[3]): matmul: 1 operands"},
        {"conv2d(f32[2,3,5,6], f32[4,3,3,3]) stride=2,2 pad=1,1 dilation=1,1 groups=1",
         "not given: out, kernel, as in conv2d("},
        {"relu(f32[3]) x=3", "relu has no attribute 'x'"},
        {"reshape(f32[2,3]) shape=6", "nothing is computed"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses(run("graphtool bench --op '%s'", wrong[i][0]), wrong[i][1]);
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        ends(run("graphtool bench --op '%s' --steps 1", failing[i][0]), 1);
        char *out = read_all("out");
        CHECK_HOLDS(out, failing[i][1]);
        free(out);
    }
    NEED(make_model("mlp"));
    refuses(run("graphtool bench mlp.bin --op 'relu(f32[3])'"), "--op runs without a model");
    refuses(run("graphtool bench --op 'relu(f32[3])' --batch 3"), "--batch has no effect with --op");
}

/* Each op that computes something alone does, at the size that is made for it. */
TEST(all_ops_are_timed) {
    size_t i;
    const json_t *row;
    if (test_is_quick()) return;
    NEED(ends(run("graphtool bench --op all --steps 1 --warmup 0 --json"), 0));
    json_t *out = json_out("out"), *rows = json_object_get(out, "ops");
    CHECK_SAYS(json_array_size(rows) > 140, "%zu ops", json_array_size(rows));
    double before = 0;
    json_array_foreach(rows, i, row) {
        double share = number(row, "of_peak");
        CHECK_SAYS(number(row, "median_ms") > 0 && (share <= 0 || share >= before), "%zu: %g after %g", i,
                   share, before);
        before = share;
    }
    json_decref(out);
}

/* Rounding to f32 and to bf16 is seen as what it is: 6e-8 and 4e-3 of a number, of which many are added. */
TEST(accuracy_is_that_of_the_type) {
    static const struct {
        const char *options;
        double least, most; /* of the gradients' error */
    } rows[] = {{"", 1e-9, 1e-5}, {"--dtype bf16", 1e-4, 0.2}, {"--isa reference", 1e-9, 1e-5} /* slow */};
    NEED(make_model("convnet"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows - (test_is_quick() ? 1 : 0); i++) {
        NEED(ends(
            run("graphtool bench convnet.bin --batch 4 --steps 1 --warmup 0 -t 1 --check-accuracy --json %s",
                rows[i].options),
            0));
        json_t *out = json_out("out"), *graph = json_array_get(json_object_get(out, "accuracy"), 0);
        const json_t *outputs = json_object_get(graph, "outputs"),
                     *all = json_object_get(graph, "all_gradients");
        CHECK(json_array_size(json_object_get(out, "accuracy")) == 1 && json_array_size(outputs) == 1);
        CHECK(json_array_size(json_object_get(graph, "gradients")) == 16);
        CHECK_SAYS(number(all, "rms") > rows[i].least && number(all, "rms") < rows[i].most, "%s: %g",
                   rows[i].options, number(all, "rms"));
        CHECK(number(json_array_get(outputs, 0), "rms") < rows[i].most);
        json_decref(out);
    }
    refuses(run("graphtool bench convnet.bin --check-accuracy --data label=labels.npy"),
            "--check-accuracy has no effect with --data");
}

/* Dropout and noise are the same numbers in both, a gradient of a gradient is one, and flows may evaluate. */
TEST(accuracy_knows_random_numbers_and_gradients_of_gradients) {
    static const char *const models[] = {"vae", "wgan_gp", "lstm_char"};
    for (size_t i = 0; i < sizeof models / sizeof *models - (test_is_quick() ? 1 : 0); i++) {
        NEED(ends(run("weft-zoo %s -b 2 -o small.bin", models[i]), 0));
        NEED(ends(run("graphtool bench small.bin --steps 1 --warmup 0 -t 2 --check-accuracy --json"), 0));
        json_t *out = json_out("out");
        const json_t *graph;
        size_t k;
        json_array_foreach(json_object_get(out, "accuracy"), k, graph) {
            double rms = number(json_object_get(graph, "all_gradients"), "rms");
            CHECK_SAYS(rms > 0 && rms < 1e-4, "%s: %g", models[i], rms);
        }
        CHECK(k > 0);
        json_decref(out);
    }
    NEED(make_fed());
    NEED(
        ends(run("graphtool bench fed.bin --flow val --steps 1 --warmup 0 -t 1 --check-accuracy --json"), 0));
    json_t *out = json_out("out"), *graph = json_array_get(json_object_get(out, "accuracy"), 0);
    CHECK(json_is_null(json_object_get(graph, "all_gradients")));
    CHECK(number(json_array_get(json_object_get(graph, "outputs"), 0), "rms") < 1e-5);
    json_decref(out);
}

TEST(an_op_s_accuracy_is_that_of_its_type) {
    static const struct {
        const char *call;
        double least, most;
    } rows[] = {{"matmul(f32[64,256], f32[256,64])", 1e-9, 1e-5},
                {"matmul(bf16[64,256], bf16[256,64])", 1e-4, 1e-2},
                {"relu(f32[100])", 0, 0},
                {"dropout(f32[64,64]) p=0.5 key=0x7", 0, 1e-6},
                {"layer_norm(f32[8,64], f32[64], f32[64]) eps=1e-5", 1e-10, 1e-5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED(ends(run("graphtool bench --op '%s' --steps 1 -t 1 --check-accuracy --json", rows[i].call), 0));
        json_t *out = json_out("out"), *row = json_array_get(json_object_get(out, "ops"), 0);
        CHECK_SAYS(json_is_number(json_object_get(row, "rms")) && number(row, "rms") >= rows[i].least &&
                       number(row, "rms") <= rows[i].most && number(row, "most") <= 10 * rows[i].most,
                   "%s: %g", rows[i].call, number(row, "rms"));
        json_decref(out);
    }
}

/* Lines of a suite; the caller frees them. */
static json_t *lines_of(const char *name) {
    json_t *lines = json_array();
    char *all = read_all(name), *rest = NULL;
    for (char *line = all ? strtok_r(all, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        json_array_append_new(lines, json_loads(line, 0, NULL));
    free(all);
    return lines;
}

static const char *text_of(const json_t *lines, size_t i, const char *key) {
    const char *text = json_string_value(json_object_get(json_array_get(lines, i), key));
    return text ? text : "";
}

static bool text_ends_so(const char *text, const char *end) {
    size_t n = strlen(text), of_end = strlen(end);
    return n >= of_end && strcmp(text + n - of_end, end) == 0;
}

/* Two models, training and inference, two sets of options of which one fails; then again: what failed, and a
 * third set. */
TEST(a_suite_has_a_line_for_each_run) {
    static const char *const runs[][3] = {
        {"mlp", "train", "--steps 1"},      {"mlp", "train", "--threads none"},
        {"mlp", "infer", "--steps 1"},      {"mlp", "infer", "--threads none"},
        {"vae", "train", "--steps 1"},      {"vae", "train", "--threads none"},
        {"vae", "infer", "--steps 1"},      {"vae", "infer", "--threads none"},
        {"mlp", "train", "--threads none"}, {"mlp", "infer", "--threads none"},
        {"vae", "train", "--threads none"}, {"vae", "infer", "--threads none"}};
    NEED(ends(
        run("mkdir models && weft-zoo mlp -b 4 -o models/mlp.bin && weft-zoo vae -b 4 -o models/vae.bin"),
        0));
    const char *suite =
        "graphtool bench --suite models -o lines.jsonl --with '--steps 1' --with '--threads none'";
    ends(run("%s", suite), 1);
    char *out = read_all("out");
    CHECK_TEXT(out, "runs: 8, failed: 4; lines in lines.jsonl\n");
    free(out);
    ends(run("%s", suite), 1);
    json_t *lines = lines_of("lines.jsonl");
    CHECK(json_array_size(lines) == sizeof runs / sizeof *runs);
    for (size_t i = 0; i < json_array_size(lines) && i < sizeof runs / sizeof *runs; i++) {
        const json_t *line = json_array_get(lines, i);
        CHECK_TEXT(text_of(lines, i, "file"), runs[i][0]);
        CHECK_TEXT(text_of(lines, i, "phase"), runs[i][1]);
        CHECK_TEXT(text_of(lines, i, "options"), runs[i][2]);
        CHECK_TEXT(text_of(lines, i, "engine"), "weft");
        CHECK(text_ends_so(text_of(lines, i, "suite"), "/models"));
        bool fails = strcmp(runs[i][2], "--steps 1") != 0;
        CHECK((number(line, "median_ms") > 0) == !fails && (strlen(text_of(lines, i, "error")) > 0) == fails);
        if (fails) CHECK_HOLDS(text_of(lines, i, "error"), "bench: --threads=none: ");
    }
    json_decref(lines);
}

/* Runs that a file has lines of do not run again: not of the folder by another name, but of another folder,
 * of a model that has changed, and of a line that was cut. */
TEST(a_suite_knows_what_it_has_run) {
    static const struct {
        const char *before, *folder, *says;
    } rows[] = {{"true", "one", "runs: 3, failed: 1;"}, /* the file that is not a model runs each time */
                {"true", "./one/", "runs: 1, failed: 1;"},
                {"true", "two", "runs: 2, failed: 0;"},
                {"weft-zoo mlp -b 3 -o two/m.bin", "two", "runs: 2, failed: 0;"},
                {"truncate -s -9 l.jsonl", "two", "runs: 1, failed: 0;"},
                {"true", "two", "runs: 0, failed: 0;"}};
    NEED(ends(run("mkdir one two && weft-zoo mlp -b 2 -o one/m.bin && cp one/m.bin two && echo x >one/a.bin"),
              0));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED(ends(run("%s", rows[i].before), 0));
        run("graphtool bench --suite %s -o l.jsonl --with '--steps 1 --warmup 0 -t 1'", rows[i].folder);
        char *out = read_all("out");
        CHECK_HOLDS(out, rows[i].says);
        free(out);
    }
    json_t *lines = lines_of("l.jsonl");
    CHECK(json_array_size(lines) == 8);
    CHECK_TEXT(text_of(lines, 0, "file"), "a");
    CHECK_HOLDS(text_of(lines, 0, "error"), "one/a.bin");
    json_decref(lines);
    NEED(ends(run("echo '[3' >>l.jsonl && tail -n 1 l.jsonl | cat - l.jsonl >m.jsonl"), 0));
    refuses(run("graphtool bench --suite two -o m.jsonl"), "m.jsonl:1: it must be a line of JSON");
}

/* Models that are read stay as they are, also by a link, and so does their folder. */
TEST(a_suite_s_folder_is_not_written) {
    NEED(ends(run("mkdir some && echo x >m.bin && ln -s ../m.bin some/m.bin && ln -s some same"), 0));
    static const char *const files[] = {"some/m.bin", "same/m.bin", "m.bin", "some/new.jsonl",
                                        "./some/../same/n"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        refuses(run("graphtool bench --suite some -o %s", files[i]), "it lies in the folder of --suite");
    CHECK(!exists("some/new.jsonl"));
    static const char *const flows[] = {"--flow x", "--steps 1 --flow=x", "--fl x"};
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++)
        refuses(run("graphtool bench --suite some -o s.jsonl --with '%s'", flows[i]), "--flow has no effect");
}

TEST(a_suite_that_cannot_run_is_refused) {
    NEED(make_model("mlp"));
    NEED(ends(run("mkdir empty"), 0));
    refuses(run("graphtool bench --suite empty -o x.jsonl"), "no file there ends in .bin");
    refuses(run("graphtool bench --suite nothere -o x.jsonl"),
            "--suite=nothere: it must be zoo, or a folder of models");
    refuses(run("graphtool bench --suite empty"), "-o FILE is needed");
    refuses(run("graphtool bench mlp.bin --suite empty -o x.jsonl"), "leave out mlp.bin");
    refuses(run("graphtool bench --suite empty -o x.jsonl --steps 3"), "--steps has no effect with --suite");
    refuses(run("graphtool bench mlp.bin -o x.jsonl"), "--output has no effect without --suite");
    refuses(run("graphtool bench mlp.bin --with x"), "--with has no effect without --suite");
    refuses(run("graphtool bench"), "a model file is needed");
}

TEST(ranks_report_one_time_for_each_step) {
    NEED(make_model("mlp"));
    NEED(ends(run("graphtool launch -n 2 bench mlp.bin --batch 2 --steps 3 --warmup 1 -t 1 --json"), 0));
    json_t *out = json_out("out");
    CHECK(number(out, "world") == 2 && json_array_size(json_object_get(out, "samples_ms")) == 4);
    json_decref(out);
    /* the warm-up that is found is that of the times reported, so as many steps are left */
    for (int i = 0; i < (test_is_quick() ? 1 : 3); i++) {
        NEED(ends(run("graphtool launch -n 2 bench mlp.bin --batch 2 --steps 8 -t 1 --json"), 0));
        out = json_out("out");
        CHECK_SAYS(number(out, "steps") >= 8, "%g steps", number(out, "steps"));
        json_decref(out);
    }
}

/* Batches have labels below the number of classes: a guess among ten costs log 10 = 2.3. */
TEST(flows_that_evaluate_run_on_synthetic_batches) {
    NEED(make_model("mlp") && make_model("dcgan28") && make_fed());
    double loss =
        first_loss("graphtool bench mlp.bin --flow val --batch 8 --steps 1 --warmup 0 -t 1 --json", "loss");
    CHECK_SAYS(loss > 1.5 && loss < 3.5, "%g", loss);
    ends(run("graphtool bench mlp.bin --flow predict --batch 8 --steps 1 --warmup 0 -t 1"), 0);
    ends(run("graphtool bench dcgan28.bin --flow predict --batch 2 --steps 1 --warmup 0 -t 1"), 0);
    ends(run("graphtool trace mlp.bin --flow predict --batch 8 --steps 1 --warmup 0 -t 1 -o t.json"), 0);
    /* an input that a graph outside the flow has is neither made nor reported */
    NEED(ends(run("graphtool bench fed.bin --flow predict --steps 1 --warmup 0 -t 1 --json"), 0));
    json_t *out = json_out("out");
    CHECK_TEXT(json_string_value(json_object_get(out, "set")), "tau=0.5");
    json_decref(out);
}

SUITE("tools: bench", {T(bench_prints_the_keys_of_the_design),
                       T(a_profile_by_op_adds_up),
                       T(statistics_are_of_the_samples),
                       T(until_is_a_percentage),
                       T(verdicts_follow_from_the_times),
                       T(few_times_show_no_difference),
                       T(files_that_are_no_results_are_refused),
                       T(two_workloads_run_in_turns),
                       T(an_op_s_work_is_that_of_its_call),
                       T(calls_that_cannot_run_are_told),
                       T(all_ops_are_timed),
                       T(accuracy_is_that_of_the_type),
                       T(accuracy_knows_random_numbers_and_gradients_of_gradients),
                       T(an_op_s_accuracy_is_that_of_its_type),
                       T(a_suite_has_a_line_for_each_run),
                       T(a_suite_knows_what_it_has_run),
                       T(a_suite_s_folder_is_not_written),
                       T(a_suite_that_cannot_run_is_refused),
                       T(ranks_report_one_time_for_each_step),
                       T(flows_that_evaluate_run_on_synthetic_batches)})
