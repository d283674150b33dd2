/* test_tools_set.c - --set of graphtool: numbers for inputs without a batch axis in train, eval, predict,
 * bench and trace, in files of options, and what is refused. */
#include "support/programs.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN "graphtool train fed.bin " DATA " --threads 1 --seed 3 "
#define EVAL  "graphtool eval fed.bin " DATA " --threads 1 --random-weights --json "

/* What graph val gives as a number. */
static double eval_gives(const char *name, const char *set) {
    if (!ends(run(EVAL "%s", set), 0)) return 0;
    json_t *out = json_out("out");
    double value = json_number_value(json_object_get(out, name));
    json_decref(out);
    return value;
}

/* Value i of a loss that bench reports. */
static double bench_gives(const json_t *out, const char *name, size_t i) {
    return json_number_value(json_array_get(json_object_get(json_object_get(out, "losses"), name), i));
}

static void check_same(const char *a, const char *b, int differ) {
    ends(run("%s -o a.safetensors", a), 0);
    ends(run("%s -o b.safetensors", b), 0);
    ends(run("cmp -s a.safetensors b.safetensors"), differ);
}

TEST(training_evaluation_and_prediction_take_numbers) {
    make_data();
    NEED(make_fed());
    NEED(ends(run(TRAIN "--steps 4 --set tau=linear:1:2:4 --set k=-3 --val-data image=images.idx "
                        "--val-data label=labels.npy --log log.jsonl"),
              0));
    ends(run("grep -q '\"step\": *2,.*\"tau\": *1.25' log.jsonl && grep -q '\"k\": *-3' log.jsonl"), 0);
    ends(run("grep -q '\"val_tau\": *2' log.jsonl"), 0);
    CHECK(eval_gives("tau", "--set tau=0.25 --set k=7") == 0.25 &&
          eval_gives("k", "--set tau=0 --set k=7") == 7);
    const float levels[] = {1, 0.5};
    put_npy("levels.npy", "<f4", "(2,)", levels, sizeof levels);
    ends(run(TRAIN "--steps 2 --set tau=rows:levels.npy --set k=0 --log rows.jsonl"), 0);
    ends(run("grep -q '\"step\": *2,.*\"tau\": *0.5' rows.jsonl"), 0);
    const char *predict = "graphtool predict fed.bin --data image=images.idx --random-weights --threads 1";
    ends(run("%s --set tau=1 -o one.npy && %s --set tau=1 -o again.npy && cmp one.npy again.npy", predict,
             predict),
         0);
    ends(run("%s --set tau=2 -o two.npy && ! cmp -s one.npy two.npy", predict), 0);
}

TEST(a_file_of_options_has_numbers) {
    make_data();
    NEED(make_fed());
    NEED(ends(run("echo '{\"set\": {\"tau\": 0.5, \"k\": 2}}' >set.json"), 0));
    NEED(ends(run("echo '{\"set\": {\"tau\": \"cosine:1:0.5:3\", \"k\": 2}}' >curve.json"), 0));
    check_same(TRAIN "--steps 2 --config set.json", TRAIN "--steps 2 --set tau=0.5 --set k=2", 0);
    check_same(TRAIN "--steps 3 --config curve.json", TRAIN "--steps 3 --set tau=cosine:1:0.5:3 --set k=2",
               0);
    check_same(TRAIN "--steps 3 --config curve.json", TRAIN "--steps 3 --config set.json", 1);
    NEED(ends(run(TRAIN "--set tau=0.5 --set k=2 --print-config >printed.json"), 0));
    check_same("graphtool train --config printed.json", TRAIN "--set tau=0.5 --set k=2", 0);
    json_t *printed = json_out("printed.json");
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(printed, "set"), "tau")), "0.5");
    json_decref(printed);
}

/* Inputs that nobody sets: 0.5, of an integer 1. */
TEST(bench_and_trace_make_the_numbers_that_nobody_sets) {
    NEED(make_fed());
    NEED(ends(run("graphtool bench fed.bin --steps 2 --warmup 0 --threads 1 --json"), 0));
    json_t *out = json_out("out");
    CHECK(bench_gives(out, "tau", 0) == 0.5 && bench_gives(out, "k", 1) == 1);
    CHECK_TEXT(json_string_value(json_object_get(out, "set")), "tau=0.5 k=1");
    json_decref(out);
    char *err = read_all("err");
    CHECK_HOLDS(err,
                "input tau has no batch axis: it is 0.5 in each step, unless --set tau=NUMBER says another");
    CHECK_HOLDS(err, "input k has no batch axis: it is 1 in each step");
    free(err);
    NEED(ends(run("graphtool bench fed.bin --steps 3 --warmup 0 --threads 1 --json --set tau=linear:1:2:2"),
              0));
    out = json_out("out");
    CHECK(bench_gives(out, "tau", 0) == 1 && bench_gives(out, "tau", 1) == 1.5 &&
          bench_gives(out, "tau", 2) == 2);
    CHECK_TEXT(json_string_value(json_object_get(out, "set")), "tau=linear:1:2:2 k=1");
    json_decref(out);
    ends(run("grep -q 'input tau' err"), 1);
    ends(run("graphtool trace fed.bin --steps 1 --warmup 0 --threads 1 --set tau=1 -o t.json"), 0);
}

/* Six rows x[6,3] times a vector of three, whose number is a mean that the graph gives: no shape names
 * WEFT_BATCH. */
static bool make_rows(void) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("rows");
    path_of("rows.bin", path);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *by = weft_input(g, "by", WEFT_F32, WEFT_SHAPE(3));
    weft_value *x = weft_mul(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(6, 3)), by);
    weft_minimize(weft_mean(weft_square(weft_linear(x, 1, "fc", NULL)), WEFT_ALL, false), "",
                  &(weft_optimizer){.type = "sgd", .lr = 1e-2});
    weft_output(weft_mean(by, WEFT_ALL, false), "by");
    bool is_made = CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
    return is_made;
}

/* The batch is what is left when numbers are set: the vector comes first, and is not the batch. */
TEST(batches_of_one_size_are_made_beside_numbers) {
    NEED(make_fed() && make_rows());
    NEED(ends(run("graphtool bench rows.bin --steps 1 --warmup 0 --threads 1 --json --set by=0.25"), 0));
    json_t *out = json_out("out");
    CHECK(bench_gives(out, "by", 0) == 0.25);
    json_decref(out);
}

TEST(what_set_cannot_say_is_refused) {
    make_data();
    NEED(make_fed());
    refuses(run(TRAIN "--set k=1"),
            "fed.bin: graph train: input tau f32[] is not fed: it has no batch axis, so "
            "give it a number, options.set=\"tau=NUMBER\" (graphtool: --set tau=NUMBER)");
    refuses(run("graphtool bench fed.bin " DATA " --set k=1"), "(graphtool: --set tau=NUMBER)");
    refuses(run(EVAL), "(graphtool: --set tau=NUMBER)");
    refuses(run(TRAIN "--set tau=1 --set k=0.5"), "input k is i32, which does not hold 0.5");
    refuses(run(TRAIN "--set tua=1 --set k=1"), "has an input 'tua': did you mean 'tau'?");
    refuses(run(TRAIN "--set tau --set k=1"), "--set=tau: NAME=NUMBER is needed");
    refuses(run(TRAIN "--set tau=1 --set tau=2 --set k=1"), "tau is given twice");
    refuses(run(TRAIN "--set tau=fast --set k=1"),
            "tau=fast: it must be a number, a curve over N iterations");
    refuses(run(TRAIN "--set tau=1 --set k=1 --set label=3"), "input label u8[10] has a batch axis");
    refuses(run(TRAIN "--data tau=labels.npy --set k=1"), "which has no batch axis, so no sample feeds it");
    refuses(run(TRAIN "--data tau=labels.npy --set tau=1 --set k=1"), "has data and a number, tau=1");
    refuses(run(EVAL "--set tau=linear:0:1:9 --set k=1"), "graph val alone has no iterations to count");
    refuses(run("graphtool predict fed.bin --data image=images.idx --random-weights -o o.npy --set tau=1 "
                "--set k=1"),
            "graph predict has no input 'k'");
    refuses(run(TRAIN "--set tau=rows:fed.bin --set k=1 -o fed.bin"), "fed.bin");
    refuses(run(TRAIN "--set tau=rows:levels.npy --set k=1 -o levels.npy"), "levels.npy");
    refuses(run("graphtool plan fed.bin --set tau=1"), "no option --set");
}

SUITE("tools: numbers of inputs",
      {T(training_evaluation_and_prediction_take_numbers), T(a_file_of_options_has_numbers),
       T(bench_and_trace_make_the_numbers_that_nobody_sets), T(batches_of_one_size_are_made_beside_numbers),
       T(what_set_cannot_say_is_refused)})
