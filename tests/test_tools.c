/* test_tools.c - graphtool and weft-zoo as a user meets them: programs with options, files and exit statuses. */
#include "support/test.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const zoo[] = {"mlp", "convnet", "dcgan28", "dcgan", "gpt", "resnet18"};
enum { ZOO = 6 };

/* ---- running programs ---- */

static char folder[] = "/tmp/weft_tools_XXXXXX";

static void remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) fprintf(stderr, "%s stays\n", folder);
}

static void need_folder(void) {
    static bool made;
    if (made) return;
    made = true;
    if (!mkdtemp(folder)) abort();
    setenv("LSAN_OPTIONS", "suppressions=" TEST_DATA "/lsan.supp:print_suppressions=0",
           0); /* sanitized builds */
    atexit(remove_folder);
}

/* The whole of a file of the folder, NUL behind it; the caller frees it. */
static char *read_all(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *all = test_memory((size_t)n + 1);
    all[fread(all, 1, (size_t)n, f)] = 0;
    fclose(f);
    return all;
}

/* Runs a shell command in the folder; stdout goes to the file `out`, stderr to `err`. The exit status; 256 and
 * above: ended by a signal. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...) {
    char command[2000], all[2400];
    va_list args;
    need_folder();
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(all, sizeof all, "cd %s && PATH=%s:$PATH && { %s; } >out 2>err", folder, TEST_TOOLS, command);
    int status = system(all);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

/* The command must end so; what it said on stderr is shown when it does not. */
static bool ends(int status, int wanted) {
    char *err = read_all("err");
    bool good = test_check(status == wanted, __FILE__, __LINE__, "exit status %d, not %d: %s", status, wanted,
                           err ? err : "");
    free(err);
    return good;
}

/* Exit status 2, one line on stderr that holds `part`, nothing on stdout. */
static void refuses(int status, const char *part) {
    char *err = read_all("err"), *out = read_all("out");
    ends(status, 2);
    CHECK_HOLDS(err, part);
    CHECK_SAYS(err && strchr(err, '\n') && !strchr(err, '\n')[1], "one line is wanted, not: %s",
               err ? err : "");
    CHECK_TEXT(out, "");
    free(err);
    free(out);
}

static bool exists(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static json_t *json_out(const char *name) {
    char *all = read_all(name);
    json_error_t error;
    json_t *json = all ? json_loads(all, JSON_REJECT_DUPLICATES, &error) : NULL;
    CHECK_SAYS(json != NULL, "no JSON: %s", all ? all : "");
    free(all);
    return json;
}

static bool is_quick(void) {
    return getenv("WEFT_TEST_QUICK") != NULL;
}

/* ---- small data: 28x28 images whose brightness is their label, in IDX and .npy ---- */

enum { SAMPLES = 70 };

static void put_file(const char *name, const void *head, size_t head_bytes, const void *data, size_t bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(head, 1, head_bytes, f) != head_bytes || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        abort();
}

static void make_data(void) {
    static uint8_t images[SAMPLES][28 * 28], labels[SAMPLES];
    test_random r = {5};
    need_folder();
    if (exists("images.idx")) return;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = (uint8_t)(i % 10);
        for (int k = 0; k < 28 * 28; k++)
            images[i][k] = (uint8_t)(labels[i] * 25 + (int)(random_bits(&r) % 8));
    }
    put_file("images.idx", "\0\0\x08\x03\0\0\0\x46\0\0\0\x1c\0\0\0\x1c", 16, images, sizeof images);
    put_file("labels.idx", "\0\0\x08\x01\0\0\0\x46", 8, labels, sizeof labels);
    char npy[128] = "\x93NUMPY\x01\x00\x76";
    memset(npy + 10, ' ', 118);
    memcpy(npy + 10, "{'descr': '|u1', 'fortran_order': False, 'shape': (70,), }", 58);
    npy[127] = '\n';
    put_file("labels.npy", npy, 128, labels, sizeof labels);
}

#define DATA "--data image=images.idx --data label=labels.npy"

static bool make_model(const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s.bin", name);
    need_folder();
    return exists(file) || ends(run("weft-zoo %s -o %s", name, file), 0);
}

/* ---- the command line ---- */

TEST(help_tells_options_and_an_example) {
    static const char *const commands[] = {"info", "dot",     "plan",  "ops",   "train",
                                           "eval", "predict", "bench", "verify"};
    ends(run("graphtool --help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *list = NULL, *help = NULL;
        if (ends(run("graphtool --help"), 0)) list = read_all("out");
        CHECK_HOLDS(list, commands[i]);
        if (ends(run("graphtool %s --help", commands[i]), 0)) help = read_all("out");
        CHECK_HOLDS(help, "Example: graphtool");
        CHECK_HOLDS(help, "--help");
        free(list);
        free(help);
    }
    ends(run("weft-zoo --help"), 0);
    ends(run("graphtool --version"), 0);
}

TEST(wrong_use_is_one_line_and_exit_2) {
    NEED(make_model("mlp"));
    refuses(run("graphtool"), "a command is needed");
    refuses(run("graphtool fly"), "no command 'fly'");
    refuses(run("graphtool info"), "a model file is needed");
    refuses(run("graphtool info mlp.bin mlp.bin"), "one model is enough");
    refuses(run("graphtool info mlp.bin --colour"), "no option --colour");
    refuses(run("graphtool info mlp.bin -z"), "no option -z");
    refuses(run("graphtool plan mlp.bin --batch"), "--batch needs a value");
    refuses(run("graphtool plan mlp.bin --batch=0"), "from 1 to 2147483647");
    refuses(run("graphtool plan mlp.bin --batch=12x"), "a whole number");
    refuses(run("graphtool plan mlp.bin --isa=mmx"), "avx512 is needed");
    refuses(run("graphtool plan mlp.bin --after=lunch"), "lunch");
    refuses(run("graphtool plan mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin -T gif"), "dot, svg or png");
    refuses(run("graphtool train mlp.bin --data image"), "NAME=FILE is needed");
    refuses(run("graphtool train mlp.bin --lr=-1"), "a number above 0");
    refuses(run("graphtool info nothing.bin"), "nothing.bin");
    refuses(run("printf nonsense >junk.bin; graphtool info junk.bin"), "junk.bin");
    refuses(run("weft-zoo nothing -o x.bin"), "no such model");
    refuses(run("weft-zoo gpt --heads 7 -o x.bin"), "multiple of --heads");
}

TEST(outputs_that_cannot_be_written_leave_nothing) {
    make_data();
    NEED(make_model("mlp"));
    refuses(run("graphtool plan mlp.bin -o no/such/plan.txt"), "no/such/plan.txt");
    refuses(run("graphtool dot mlp.bin -T svg -o no/such/x.svg"), "no/such/x.svg");
    refuses(run("graphtool train mlp.bin " DATA " --batch 10 -o no/such/w.safetensors"),
            "no/such/w.safetensors");
    refuses(run("graphtool train mlp.bin " DATA " --batch 10 --log no/such/log"), "no/such/log");
    refuses(run("weft-zoo mlp -o no/such/mlp.bin"), "no/such/mlp.bin");
    ends(run("graphtool plan mlp.bin >/dev/full"), 2);
    ends(run("! ls | grep -q tmp"), 0);
}

/* ---- models and pictures ---- */

TEST(zoo_lists_and_writes_its_models) {
    char *list = NULL;
    if (ends(run("weft-zoo --list"), 0)) list = read_all("out");
    for (int i = 0; i < ZOO; i++) {
        CHECK_HOLDS(list, zoo[i]);
        if (!make_model(zoo[i]) || !ends(run("graphtool info %s.bin --json", zoo[i]), 0)) continue;
        json_t *info = json_out("out");
        CHECK_TEXT(json_string_value(json_object_get(info, "model")), zoo[i]);
        CHECK(json_array_size(json_object_get(info, "graphs")) >= 3);
        json_decref(info);
        ends(run("graphtool info %s.bin", zoo[i]), 0);
    }
    free(list);
}

/* What gc (of graphviz) counts; the legend is no node of the graph. */
static int nodes_drawn(const char *file) {
    if (!ends(run("gc -n %s", file), 0)) return -1;
    char *out = read_all("out");
    int n = out ? atoi(out) - 1 : -1;
    free(out);
    return n;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(pictures_parse_and_stay_below_max_nodes) {
    for (int i = 0; i < ZOO; i++) {
        if (!make_model(zoo[i])) continue;
        ends(run("graphtool dot %s.bin -o a.dot", zoo[i]), 0);
        int n = nodes_drawn("a.dot");
        CHECK_SAYS(n > 3 && n <= 80, "%s: %d nodes", zoo[i], n);
        ends(run("graphtool dot %s.bin --max-nodes 12 -o b.dot", zoo[i]), 0);
        n = nodes_drawn("b.dot");
        CHECK_SAYS(n >= 1 && n <= 12, "%s: %d nodes of at most 12", zoo[i], n);
        ends(run("graphtool dot %s.bin --all --max-nodes 40 -o c.dot", zoo[i]), 0);
        n = nodes_drawn("c.dot");
        CHECK_SAYS(n >= 3 && n <= 40, "%s --all: %d nodes of at most 40", zoo[i], n);
        ends(run("graphtool dot %s.bin --plan -o d.dot && gc d.dot", zoo[i]), 0);
    }
}

TEST(repeated_scopes_are_drawn_once) {
    ends(run("weft-zoo gpt --layers 48 --d 96 --ctx 32 -o deep.bin"), 0);
    ends(run("graphtool dot deep.bin -o deep.dot"), 0);
    char *dot = read_all("deep.dot");
    CHECK_HOLDS(dot, "\xc3\x97"
                     "48"); /* x48 */
    free(dot);
    int n = nodes_drawn("deep.dot");
    CHECK_SAYS(n > 10 && n < 60, "%d nodes", n);
}

/* conv1 and conv2 of convnet have weights of different shapes, whatever their names. */
TEST(scopes_of_different_weights_are_not_folded) {
    NEED(make_model("convnet"));
    ends(run("graphtool dot convnet.bin -o c.dot && grep -q 'weight 32.*1.*3.*3' c.dot && grep -q 'weight "
             "32.*32.*3.*3' c.dot"),
         0);
    ends(run("! grep -q 'conv1.*conv2' c.dot"), 0);
}

TEST(drawing_takes_less_than_two_seconds) {
    NEED(make_model("dcgan28"));
    double start = now();
    ends(run("graphtool dot dcgan28.bin --graph d_step -T svg -o p.svg"), 0);
    CHECK_SAYS(now() - start < (is_quick() ? 20 : 2), "%.2f s", now() - start);
    char *svg = read_all("p.svg");
    CHECK_HOLDS(svg, "generator");
    CHECK_HOLDS(svg, "discriminator");
    CHECK_HOLDS(svg, "</svg>");
    free(svg);
    ends(run("graphtool dot dcgan28.bin --graph g_step -T png -o p.png && head -c 4 p.png | grep -q PNG"), 0);
}

/* ---- plans ---- */

TEST(plans_are_text_json_and_verified) {
    NEED(make_model("dcgan28"));
    ends(run("graphtool plan dcgan28.bin --graph g_step --batch 4"), 0);
    char *text = read_all("out");
    CHECK_HOLDS(text, "graph g_step");
    CHECK_HOLDS(text, "generator/fc/weight");
    free(text);
    ends(run("graphtool plan dcgan28.bin --after=autodiff"), 0);
    ends(run("graphtool plan dcgan28.bin --json -o plan.json"), 0);
    json_t *plan = json_out("plan.json");
    CHECK(json_integer_value(json_object_get(json_object_get(plan, "memory"), "total")) > 0);
    json_decref(plan);
    ends(run("graphtool verify dcgan28.bin --batch 4"), 0);
}

TEST(plans_of_a_world_list_its_collectives) {
    NEED(make_model("dcgan28"));
    ends(run("graphtool plan dcgan28.bin --world 4 --batch 4 --json"), 0);
    json_t *plan = json_out("out");
    json_t *graph = json_array_get(json_object_get(plan, "graphs"), 0), *one;
    size_t i, order = 0;
    CHECK(json_integer_value(json_object_get(plan, "world")) == 4);
    CHECK(json_integer_value(json_object_get(json_object_get(plan, "memory"), "communication")) > 0);
    json_array_foreach(json_object_get(graph, "collectives"), i, one) {
        CHECK(json_integer_value(json_object_get(one, "order")) == (json_int_t)order++);
        CHECK_HOLDS(json_string_value(json_object_get(one, "bucket")), "discriminator.");
        CHECK_HOLDS(json_string_value(json_object_get(one, "ready_after")), "(discriminator/");
        CHECK_HOLDS(json_string_value(json_object_get(one, "needed_by")), "adam_update");
    }
    CHECK(order >= 1);
    json_array_foreach(json_object_get(plan, "subgraphs"), i, one)
        CHECK(json_is_true(json_object_get(one, "ddp")));
    json_decref(plan);
    ends(run("graphtool verify dcgan28.bin --batch 4 --world 4 --accumulate 2"), 0);
}

TEST(a_trace_holds_every_node_of_every_step) {
    NEED(make_model("mlp"));
    ends(run("graphtool trace mlp.bin --batch 4 --steps 3 --warmup 1 -o trace.json"), 0);
    json_t *all = json_out("trace.json"), *events = json_object_get(all, "traceEvents"), *one;
    size_t i, adam = 0;
    double last = 0;
    json_array_foreach(events, i, one) {
        if (strcmp(json_string_value(json_object_get(one, "ph")), "X") != 0) continue;
        double begin = json_number_value(json_object_get(one, "ts"));
        CHECK(begin >= last);
        last = begin;
        adam += strncmp(json_string_value(json_object_get(one, "name")), "adam_update", 11) == 0;
    }
    CHECK(adam > 0 && adam % 3 == 0);
    json_decref(all);
    ends(run("graphtool trace mlp.bin --batch 4"), 2);
    ends(run("graphtool trace mlp.bin -o no/such.json"), 2);
}

TEST(ops_are_listed_for_people_and_machines) {
    ends(run("graphtool ops --json"), 0);
    json_t *ops = json_out("out");
    CHECK(json_array_size(json_object_get(ops, "ops")) > 40);
    json_decref(ops);
    ends(run("graphtool ops --markdown -o ops.md && grep -q '| `conv2d` |' ops.md"), 0);
    ends(run("graphtool ops | grep -q cross_entropy"), 0);
}

/* ---- training ---- */

static json_t *last_line(const char *name) {
    char *all = read_all(name), *last = all;
    for (char *p = all; p && *p; p++)
        if (*p == '\n' && p[1]) last = p + 1;
    json_t *json = last ? json_loads(last, 0, NULL) : NULL;
    free(all);
    return json;
}

TEST(training_logs_saves_and_is_repeatable) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --epochs 4 --seed 3 --threads 2 --log";
    NEED(ends(run("%s a.jsonl -o a.safetensors", train), 0));
    NEED(ends(run("%s b.jsonl -o b.safetensors", train), 0));
    ends(run("cmp a.safetensors b.safetensors"), 0);
    ends(run("test $(wc -l <a.jsonl) = 28"), 0); /* 4 epochs of 7 steps */
    json_t *line = last_line("a.jsonl");
    CHECK(json_integer_value(json_object_get(line, "step")) == 28);
    CHECK(json_integer_value(json_object_get(line, "epoch")) == 4);
    double loss = json_real_value(json_object_get(line, "loss"));
    CHECK_SAYS(loss > 0 && loss < 2, "loss %g after 4 epochs", loss);
    json_decref(line);
    ends(run("graphtool train mlp.bin " DATA " --batch 10 --steps 3 --weights a.safetensors --lr 1e-4 "
             "--val-data image=images.idx --val-data label=labels.idx --log c.jsonl"),
         0);
    line = last_line("c.jsonl");
    CHECK(json_object_get(line, "val_accuracy") != NULL);
    json_decref(line);
}

TEST(eval_counts_every_sample_once) {
    make_data();
    NEED(make_model("mlp"));
    double loss[2] = {0};
    for (int i = 0; i < 2; i++) { /* 70 = 4 x 16 + 6 = 1 x 70: the same mean */
        NEED(ends(run("graphtool eval mlp.bin " DATA " --batch %d --seed 3 --json", i ? 70 : 16), 0));
        json_t *out = json_out("out");
        CHECK(json_integer_value(json_object_get(out, "samples")) == SAMPLES);
        CHECK(json_object_get(out, "accuracy") != NULL);
        loss[i] = json_real_value(json_object_get(out, "loss"));
        json_decref(out);
    }
    CHECK_SAYS(loss[0] > 0 && loss[0] - loss[1] < 1e-5 && loss[1] - loss[0] < 1e-5, "%g and %g", loss[0],
               loss[1]);
}

TEST(gans_train_both_graphs_and_sample) {
    make_data();
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool train dcgan28.bin --data image=images.idx --batch 16 --steps 3 --log g.jsonl "
                  "-o g.safetensors"),
              0));
    json_t *line = last_line("g.jsonl");
    CHECK(json_is_real(json_object_get(line, "d_loss")) && json_is_real(json_object_get(line, "g_loss")));
    json_decref(line);
    ends(run("graphtool predict dcgan28.bin --weights g.safetensors --fetch samples --grid 2x3 -o s.png"), 0);
    ends(run("head -c 4 s.png | grep -q PNG"), 0);
    ends(run("graphtool predict dcgan28.bin --weights g.safetensors --batch 4 -o s.npy"), 0);
    ends(run("test $(wc -c <s.npy) = %d", 128 + 4 * 28 * 28), 0);
}

TEST(predictions_cover_all_data) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run("graphtool predict mlp.bin --data image=images.idx --batch 16 --fetch class -o c.npy"), 0));
    ends(run("test $(wc -c <c.npy) = %d", 128 + SAMPLES * 8), 0);
}

TEST(an_interrupt_keeps_the_weights) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("timeout --preserve-status -s INT 3 graphtool train mlp.bin " DATA
             " --batch 10 --epochs 1000000 "
             "-o i.safetensors"),
         130);
    CHECK(exists("i.safetensors"));
}

TEST(wrong_feeds_are_told_before_training) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin --batch 10 -o never.safetensors";
    refuses(run("%s --data image=images.idx", train), "input label u8[10] is not fed");
    refuses(run("%s " DATA " --data more=labels.idx", train), "more: no graph");
    refuses(run("%s --data image=labels.idx --data label=labels.idx", train), "takes u8[10,28,28]");
    refuses(run("%s " DATA " --data image=images.idx", train), "a file already");
    refuses(run("%s --data image=images.idx --data label=none.npy", train), "none.npy");
    refuses(run("%s " DATA " --batch 71", train), "fewer than a batch");
    refuses(run("%s", train), "--steps=N");
    CHECK(!exists("never.safetensors"));
}

TEST(losses_that_are_not_numbers_stop_training) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --epochs 3 --lr 1e30 -o nan.safetensors";
    ends(run("%s", train), 1);
    char *err = read_all("err");
    CHECK_HOLDS(err, "training stops");
    free(err);
    CHECK(!exists("nan.safetensors"));
    ends(run("%s --keep-going", train), 0);
    CHECK(exists("nan.safetensors"));
}

TEST(bench_prints_the_keys_of_the_design) {
    static const char *const keys[] = {"model",        "graphs",     "dtype",  "world",         "threads",
                                       "steps",        "median_ms",  "min_ms", "first_step_ms", "compile_ms",
                                       "peak_rss_mib", "plan_bytes", "gflops", "losses"};
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool bench dcgan28.bin --threads 2 --batch 8 --steps 3 --warmup 1 --json"), 0));
    json_t *out = json_out("out");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_SAYS(json_object_get(out, keys[i]) != NULL, "no key %s", keys[i]);
    CHECK(json_object_size(out) == sizeof keys / sizeof *keys);
    CHECK(json_array_size(json_object_get(json_object_get(out, "losses"), "g_loss")) >= 4);
    json_decref(out);
    if (is_quick()) return;
    NEED(make_model("gpt")); /* integer inputs must be in range by themselves */
    ends(run("graphtool bench gpt.bin --batch 1 --steps 1 --warmup 0"), 0);
}

SUITE("tools", {T(help_tells_options_and_an_example),
                T(wrong_use_is_one_line_and_exit_2),
                T(outputs_that_cannot_be_written_leave_nothing),
                T(zoo_lists_and_writes_its_models),
                T(pictures_parse_and_stay_below_max_nodes),
                T(repeated_scopes_are_drawn_once),
                T(scopes_of_different_weights_are_not_folded),
                T(drawing_takes_less_than_two_seconds),
                T(plans_are_text_json_and_verified),
                T(plans_of_a_world_list_its_collectives),
                T(a_trace_holds_every_node_of_every_step),
                T(ops_are_listed_for_people_and_machines),
                T(training_logs_saves_and_is_repeatable),
                T(eval_counts_every_sample_once),
                T(gans_train_both_graphs_and_sample),
                T(predictions_cover_all_data),
                T(an_interrupt_keeps_the_weights),
                T(wrong_feeds_are_told_before_training),
                T(losses_that_are_not_numbers_stop_training),
                T(bench_prints_the_keys_of_the_design)})
