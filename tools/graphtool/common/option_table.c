/* option_table.c - the rows, in the order of --help. */
#include "tools/graphtool/common/option_table.h"

#include "runtime/plan/compile_settings.h"

const char *const option_ways[] = {"auto", "mpi", "nccl", "ucx", NULL};
const char *const option_views[] = {"graph", "program", "plan", NULL};
const char *const option_types[] = {"dot", "svg", "png", "pdf", NULL};
const char *const option_roofs[] = {"h100", "h200", NULL};
static const char *const launchers[] = {"auto", "mpi", "slurm", "env", NULL};

#define F(field) offsetof(options, field)
enum { MILLION = 1000000 };

/* The places of the compile options in their table. */
enum {
#define FIELD(field, ...)  AT_##field,
#define OPTION(field, ...) AT_##field,
#include "runtime/plan/compile_list.h"
#undef FIELD
#undef OPTION
};

/* Kinds whose fields the command line reads as its own. */
#define OF_FLAG  OPTION_FLAG
#define OF_COUNT OPTION_INT
#define OF_REAL  OPTION_REAL
#define OF_TEXT  OPTION_TEXT
#define OF_INT   OPTION_SETTING
#define OF_WORD  OPTION_SETTING
#define OF_DTYPE OPTION_SETTING

/* Each command lists the options that it takes: command.options. */
const option_row option_rows[] = {
    {"graph", 'g', "NAME", OPTION_TEXT, F(graph), 0, 0, "the graph to use"},
    {"data", 'd', "NAME=FILE", OPTION_LIST, F(data), 0, 0,
     "feed input NAME: .npy, IDX, .npz, images, tokens, text; options follow the file: FILE:window=8",
     .sharing = NAMES, .file = READS_DATA},
    {"val-data", 0, "NAME=FILE", OPTION_LIST, F(val_data), 0, 0,
     "run graph val on this file after each epoch; once for each input", .sharing = NAMES, .file = READS_DATA,
     .elsewhere = "valid-data validation-data eval-data test-data"},
    {"val-every", 0, "N[steps]", OPTION_EVERY, F(val_every), 0, 0,
     "validate after every N epochs, or with \"500steps\" after every 500 steps; and at the end",
     .otherwise = "1"},
    {"epochs", 'e', "N", OPTION_INT, F(epochs), 1, MILLION, "passes over the data (1)", .otherwise = "1",
     .elsewhere = "num-epochs max-epochs num-train-epochs"},
    {"steps", 'k', "N", OPTION_INT, F(steps), 1, INT64_MAX / 2,
     "train: stop after N steps; bench, trace: steps to time (20, 5)",
     .elsewhere = "max-steps iterations max-iters num-steps"},
    {"warmup", 0, "N", OPTION_INT, F(warmup), 0, MILLION, "steps that run first, without timing (3)"},
    {"lr", 0, "RATE", OPTION_REAL, F(lr), 0, 0, "learning rate of every optimizer, instead of the model's",
     .elsewhere = "learning-rate learn-rate"},
    {"clip-norm", 0, "[NAME=]X", OPTION_NAMED, F(clip_norm), 0, 0,
     "scale gradients to at most this 2-norm; of the optimizer NAME alone, or of all",
     .elsewhere = "max-grad-norm grad-clip gradient-clip-val"},
    {"ema", 0, "[NAME=]DECAY", OPTION_NAMED, F(ema), 0, 0,
     "keep averages of the parameters, which validations read: 0.999; NAME as above"},
    {"schedule", 0, "[NAME=]PARTS", OPTION_NAMED, F(schedule), 0, 0,
     "how the learning rate changes: cosine,warmup=500; without an end it ends with the run; NAME as above",
     .elsewhere = "lr-scheduler scheduler"},
    {"optimizer", 0, "NAME:FIELDS", OPTION_LIST, F(optimizer), 0, 0,
     "other settings of the optimizer NAME (empty: all), as weft_optimizer_text reads them: "
     "adam:net:beta1=0.5"},
    {"weights", 'w', "FILE", OPTION_TEXT, F(weights), 0, 0, "start from these weights (safetensors)",
     .sharing = CONTENT, .file = READS, .elsewhere = "pretrained load init-from"},
    {"rename", 0, "FROM:TO", OPTION_LIST, F(rename), 0, 0,
     "names in the file of --weights that begin with FROM begin with TO instead; each may be empty"},
    {"partial", 0, NULL, OPTION_FLAG, F(partial), 0, 0,
     "load the values of --weights that the model has, and skip the others"},
    {"random-weights", 0, NULL, OPTION_FLAG, F(random_weights), 0, 0,
     "use random initial values instead of --weights"},
    {"log", 'l', "FILE", OPTION_TEXT, F(log), 0, 0, "write one line of JSON for each step", .sharing = OWN,
     .file = WRITES},
    {"log-every", 0, "N", OPTION_INT, F(log_every), 1, MILLION,
     "steps between two lines: on the screen (about 20 in all), of --log (1), of --csv, --tensorboard (10)"},
    {"work-dir", 0, "DIR", OPTION_TEXT, F(work_dir), 0, 0,
     "new folder for weights, log, curves and settings of the run, unless other options name files",
     .sharing = OWN, .file = FILLS},
    {"csv", 0, "FILE", OPTION_TEXT, F(csv), 0, 0, "write the numbers of the log as rows of CSV",
     .sharing = OWN, .file = WRITES},
    {"tensorboard", 0, "DIR", OPTION_TEXT, F(tensorboard), 0, 0,
     "write the numbers of the log as an event file for TensorBoard", .sharing = OWN, .file = FILLS},
    {"curves", 0, "FILE", OPTION_TEXT, F(curves), 0, 0,
     "draw curves of the numbers of the log when the run ends: .svg or .png", .sharing = OWN, .file = WRITES},
    {"samples", 0, "FILE[:FIELDS]", OPTION_TEXT, F(samples), 0, 0,
     "write images: photo.png:every=500,rows=8, or one picture of all: photo.png:strip=8",
     .file = WRITES_PICTURES},
    {"metric", 0, "METRIC[:FIELDS]", OPTION_LIST, F(metric), 0, 0,
     "measure evaluations by sample: accuracy:top=5, confusion, perplexity, mean, mse or psnr"},
    {"best", 0, "METRIC", OPTION_TEXT, F(best), 0, 0,
     "keep the weights of the best validation, too, beside the others: accuracy, or with a direction "
     "loss:min"},
    {"early-stop", 0, "METRIC", OPTION_TEXT, F(early_stop), 0, 0,
     "stop when three validations in a row are not better in this metric, as of --best"},
    {"checkpoint-dir", 0, "DIR", OPTION_TEXT, F(checkpoint_dir), 0, 0,
     "save all that the training needs to resume, while it runs and at its end, as DIR/step-N",
     .file = FILLS},
    {"checkpoint-every", 0, "WHEN", OPTION_INTERVAL, F(checkpoint_every), 0, 0,
     "save after every N steps, or each time: 30s, 10m, 1h (10m)", .otherwise = "10m"},
    {"keep", 0, "K", OPTION_INT, F(keep), 1, MILLION, "checkpoints that stay, the newest (3)",
     .otherwise = "3"},
    {"keep-best", 0, "METRIC", OPTION_TEXT, F(keep_best), 0, 0,
     "save each best validation so far, and keep the best, as --best says METRIC"},
    {"resume", 0, "auto|DIR", OPTION_TEXT, F(resume), 0, 0,
     "start from DIR's newest whole checkpoint, or DIR/step-N; auto: --checkpoint-dir's, if any",
     .file = READS_STEPS, .elsewhere = "continue resume-from"},
    {"optimizer-state", 0, NULL, OPTION_FLAG, F(training), 0, 0,
     "save optimizer state and step counters with the weights"},
    {"guard", 0, "WHAT", OPTION_TEXT, F(guard), 0, 0,
     "what makes a step bad, so that it changes nothing: nan, spike=F, grad or off (nan; plan: off)"},
    {"on-bad-step", 0, "WHAT", OPTION_TEXT, F(on_bad_step), 0, 0,
     "stop: end with status 8; skip=N: skip up to N bad steps in a row (stop; skip alone: 3)",
     .otherwise = "stop"},
    {"keep-going", 0, NULL, OPTION_FLAG, F(keep_going), 0, 0,
     "continue when a loss is not finite, and write weights that are not finite"},
    {"fetch", 'f', "NAME", OPTION_TEXT, F(port), 0, 0, "the output to write (the graph's first)"},
    {"grid", 0, "RxC", OPTION_TEXT, F(grid), 0, 0, "rows and columns of images in a PNG (8x8)"},
    {"scale", 0, "N", OPTION_INT, F(scale), 1, 64, "pixels of a PNG, each way, for one of an image (1)"},
    {"picture", 0, "TITLE=FILE", OPTION_LIST, F(picture), 0, 0,
     "put this picture, a PNG or an SVG, into the page; once for each", .sharing = OWN, .file = READS},
    {"check", 0, NULL, OPTION_FLAG, F(check), 0, 0,
     "check every node's results: the first that is not finite ends the run (slow)"},
    {"no-capture", 0, NULL, OPTION_FLAG, F(no_capture), 0, 0,
     "on a GPU: launch node by node instead of replaying captured graphs"},
    {"precision", 0, "PATH:TYPE", OPTION_LIST, F(precision), 0, 0,
     "the same for a graph, a scope or a scope of one graph: d_step:bf16, generator/out:f32",
     precision_words},
    {"flow", 0, "FLOW", OPTION_TEXT, F(flow), 0, 0,
     "the flow to run: a name, or steps like \"d_step*5 g_step{accumulate=4}\" (train)"},
    {"seed", 's', "N", OPTION_INT, F(seed), 0, INT64_MAX,
     "seed of initial values, data order and random numbers (0)", .otherwise = "0",
     .elsewhere = "manual-seed"},
    {"ddp", 0, "PATH:FIELDS", OPTION_LIST, F(ddp), 0, 0,
     "options of weft_ddp for the parameters under PATH (empty: all): generator:zero=1,bucket_cap_mb=4"},
    {"launcher", 0, "NAME", OPTION_WORD, F(launcher), 0, 0,
     "launcher whose variables give rank and world: auto, mpi, slurm or env (auto)", launchers, OWN},
    {"timeout", 0, "SECONDS", OPTION_REAL, F(timeout), 0, 1000 * MILLION,
     "end with status 7 when a rank waits this long for others, and name the missing ones (300)",
     .otherwise = "300"},
    {"rings", 0, "DIR", OPTION_TEXT, F(rings), 0, 0,
     "where each rank leaves its last 2,000 collectives when one is lost, for blame (weft-rings)",
     .sharing = OWN, .file = FILLS},
    {"comm", 0, "WAY", OPTION_WORD, F(way), 0, 0,
     "communication between ranks: mpi, ucx, nccl with --device cuda, or auto, by the launcher (auto)",
     option_ways},
    {"ranks", 'n', "N", OPTION_INT, F(ranks), 1, 4096, "processes to start on this machine (2)",
     .sharing = OWN, .otherwise = "2"},
    {"grace", 0, "SECONDS", OPTION_REAL, F(grace), 0, MILLION,
     "kill processes that have not ended so long after SIGTERM (30)", .sharing = OWN, .otherwise = "30"},
    {"profile", 0, NULL, OPTION_FLAG, F(profile), 0, 0, "print the time by op and by node to stderr",
     .sharing = OWN},
    {"dump", 0, NULL, OPTION_FLAG, F(dump), 0, 0,
     "print the whole plan node by node, as text that can be read back"},
    {"bytes", 0, NULL, OPTION_FLAG, F(bytes), 0, 0, "print what a step launches, reads and writes, by op"},
    {"estimate", 0, "GPU", OPTION_WORD, F(estimate), 0, 0,
     "the same with the time that a GPU is expected to take: h100 or h200", option_roofs},
    {"view", 0, "VIEW", OPTION_WORD, F(view), 0, 0,
     "graph, as written; program, as it runs; plan, buckets and streams (graph)", option_views},
    {"all", 'a', NULL, OPTION_FLAG, F(all), 0, 0, "with --view=graph: the backward pass and the updates too"},
    {"depth", 0, "N", OPTION_INT, F(depth), 0, 64,
     "levels of scopes to open (info: 3; dot: as many as fit a page)"},
    {"max-nodes", 0, "N", OPTION_INT, F(max_nodes), 4, 100000,
     "collapse scopes until at most N nodes are left, whatever the page size (80, on a page)"},
    {"type", 'T', "TYPE", OPTION_WORD, F(format), 0, 0,
     "format: dot, svg, png or pdf (that of FILE's name, or dot)", option_types, .elsewhere = "format"},
    {"averages", 0, NULL, OPTION_FLAG, F(averages), 0, 0,
     "write the averages of --ema instead of the parameters"},
    {"markdown", 0, NULL, OPTION_FLAG, F(markdown), 0, 0, "print Markdown, as in docs/ops.md"},
    {"json", 'j', NULL, OPTION_FLAG, F(json), 0, 0, "print JSON with stable keys", .sharing = OWN},
    {"output", 'o', "FILE", OPTION_TEXT, F(output), 0, 0,
     "write to FILE; - is standard output, for text (train: weights; predict: .png, .npy; trace: .json)",
     .sharing = OWN, .file = WRITES, .elsewhere = "out save save-to"},
    {"config", 0, "FILE", OPTION_TEXT, F(config), 0, 0,
     "read options that are not given from a JSON file, by their names: {\"epochs\": 5}", .sharing = CONTENT,
     .file = READS},
    {"print-config", 0, NULL, OPTION_FLAG, F(print_config), 0, 0,
     "print the settings of the run, and where each is from, as JSON for --config; run nothing"},
#define RANGE(least, most) (least), (most)
#define WORDS(words)       0, 0
#define FIELD(...)
#define OPTION(field, kind, values, uses, otherwise_, means, name, letter, argument, group_, ...)            \
    {name,       letter,           argument,                                                                 \
     OF_##kind,  F(compile.field), values,                                                                   \
     means,      .group = group_,  .setting = &compile_settings[AT_##field],                                 \
     __VA_ARGS__},
#include "runtime/plan/compile_list.h"
#undef RANGE
#undef WORDS
#undef FIELD
#undef OPTION
    {"help", 'h', NULL, OPTION_FLAG, 0, 0, 0, "print this text", .sharing = OWN},
};
#undef F
const int option_count = sizeof option_rows / sizeof *option_rows;
_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTIONS_MOST,
               "struct options has a byte for each");
