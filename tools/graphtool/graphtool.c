/* graphtool.c - the list of subcommands; each is one file of its own name. */
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/paths.h"
#include "tools/graphtool/common/world.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const command commands[] = {
    {"info", FOR_INFO, "Tells what a model holds: graphs, inputs, outputs, subgraphs, parameters", true, NULL,
     "graphtool info dcgan28.bin", info_run},
    {"dot",
     FOR_DOT,
     "Draws a graph, or with --view=plan how a whole plan spreads over ranks",
     true,
     "Scopes are boxes, shapes stand on edges; repeated scopes of one structure are drawn once, with their "
     "count.",
     "graphtool dot dcgan28.bin --graph d_step -T svg -o d_step.svg",
     dot_run,
     {.depth = -1}},
    {"plan", FOR_PLAN, "Compiles a model and tells the plan: buckets, collectives, lanes, memory", true,
     "--dump and --after print it node by node instead, with kernels and places in memory.",
     "graphtool plan dcgan28.bin --world 4096 --rank 4095 --zero 2", plan_run},
    {"ops", FOR_OPS, "Lists every op with its operands, attributes and kernels", false, NULL,
     "graphtool ops --json", ops_run},
    {"train", FOR_TRAIN, "Trains a model: each step runs all its training graphs, in order, on one batch",
     true, "Outputs that are one number and end in \"loss\" or \"accuracy\" are shown and logged.",
     "graphtool train convnet.bin --data image=train-images-idx3-ubyte.gz \\\n"
     "             --data label=train-labels-idx1-ubyte.gz --epochs 5 --log log.jsonl -o weights.safetensors",
     train_run},
    {"eval", FOR_EVAL, "Runs the evaluation graph over data, every sample once, and prints mean losses", true,
     NULL,
     "graphtool eval convnet.bin --weights weights.safetensors --data image=t10k-images-idx3-ubyte.gz \\\n"
     "             --data label=t10k-labels-idx1-ubyte.gz --json",
     eval_run},
    {"predict", FOR_PREDICT, "Runs a graph once and writes one output, as .npy or as a PNG of many images",
     true, NULL, "graphtool predict dcgan28.bin --weights weights.safetensors --fetch samples -o samples.png",
     predict_run},
    {"bench",
     FOR_BENCH,
     "Times training steps, on eight synthetic batches in memory unless --data is given",
     true,
     NULL,
     "graphtool bench gpt.bin --threads 2 --json",
     bench_run,
     {.steps = 20, .warmup = 3}},
    {"trace",
     FOR_TRACE,
     "Writes when each node and each collective of some training steps ran",
     true,
     "The file is for ui.perfetto.dev and chrome://tracing.",
     "mpirun -n 2 graphtool trace gpt.bin --threads 1 -o trace.json",
     trace_run,
     {.steps = 5, .warmup = 3}},
    {"calibrate",
     FOR_CALIBRATE,
     "Times a GPU's algorithms for a model's nodes, and writes the fastest as a table",
     true,
     "--calibration=FILE has plans use it; it belongs to one model, batch size and kind of GPU.",
     "graphtool calibrate gpt2_124m.bin --dtype=bf16 -o h200.calibration",
     calibrate_run,
     {.device = "cuda"}},
    {"verify", FOR_VERIFY, "Proves the plan behind every pass of the compiler", true, NULL,
     "graphtool verify dcgan28.bin", verify_run},
};
enum { COMMANDS = sizeof commands / sizeof *commands, RUNS = FOR_TRAIN | FOR_EVAL | FOR_PREDICT | FOR_BENCH };

static int help(void) {
    printf("Usage: graphtool COMMAND [MODEL] [OPTION]...\nWorks with models of static op graphs.\n\n");
    for (int i = 0; i < COMMANDS; i++) printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("\ngraphtool COMMAND --help tells its options. Exit status: 0 fine, 1 found wrong, 2 misused.\n"
           "Example: graphtool dot model.bin -T svg -o model.svg\n");
    return EXIT_FINE;
}

/* All commands and their options, for tools/scripts/manual.py, which makes manual pages and completions from them. */
static int table(void) {
    json_t *list = json_array();
    for (const command *c = commands; c < commands + COMMANDS; c++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:b, s:o}", "name", c->name, "summary",
                                              c->summary, "details", c->details ? c->details : "", "example",
                                              c->example, "takes_model", c->takes_model, "options",
                                              options_json(c)));
    return out_json(NULL, json_pack("{s:s, s:o}", "version", weft_version(), "commands", list));
}

static int version(void) {
    printf("graphtool (Weft) %s\n", weft_version());
    return EXIT_FINE;
}

/* Where 0, 1 or 2 is closed, the first file opened would get its number and what is printed. Opened the wrong way round,
 * each use of them fails. A file that grows past its limit is an error of writing, not a signal. */
static void guard_process(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
    signal(SIGXFSZ, SIG_IGN);
}

static int run(const command *c, int argc, char **argv) {
    options o;
    int status = options_parse(c, argc - 1, argv + 1, &o);
    if (status < 0) status = paths_check(&o);
    if (status < 0 && c->bit & (RUNS | FOR_TRACE)) tool_calm_threads(argv);
    if (status >= 0 || !(c->bit & RUNS)) return status >= 0 ? status : c->run(&o);
    status = world_open(&o, c->bit == FOR_PREDICT ? WORLD_LEADS : WORLD_JOINS, NULL);
    return world_close(&o, status >= 0 ? status : c->run(&o));
}

int main(int argc, char **argv) {
    prctl(PR_SET_NAME, "graphtool", 0, 0, 0); /* started anew by tool_calm_threads it is called "exe" */
    guard_process();
    if (argc < 2) return tool_fail("a command is needed; see graphtool --help");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return out_end(help());
    if (strcmp(name, "--version") == 0) return out_end(version());
    if (strcmp(name, "--table") == 0) return out_end(table());
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return out_end(run(&commands[i], argc, argv));
    return tool_fail("no command '%.60s'; see graphtool --help", name);
}
