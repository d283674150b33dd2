/* option_table.c - the rows, in the order of --help. */
#include "tools/graphtool/options/option_table.h"

#include "ops/cpu/isa.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/program.h"

#include <float.h>

#define WORD(name, joins) #name,
const char *const option_ways[] = {"auto", "nccl", WEFT_COMM_LIST(WORD) NULL};
#undef WORD
const char *const option_views[] = {"graph", "program", "plan", NULL};
const char *const option_types[] = {"dot", "svg", "png", "pdf", NULL};
const char *const option_roofs[] = {"h100", "h200", NULL};
static const char *const norm_modes[] = {"train", "eval", NULL};
static const char *const launchers[] = {"auto", "mpi", "slurm", "env", NULL};

#define F(field) offsetof(options, field)
enum { MILLION = 1000000 };

/* Name, letter, argument; the kind of its field in struct options, the field, its RANGE, WORDS or ANY; what
 * holds without it; what it is. The rest of option_row follows. */
#define ROW(name, letter, argument, kind, field, values, otherwise, means, ...)                              \
    { {name, WEFT_FIELD_##kind, F(field), values, 0, otherwise, means}, letter, argument, __VA_ARGS__ }
#define FLAG_ROW(name, letter, field, means, ...)                                                            \
    ROW(name, letter, NULL, FLAG, field, ANY, NULL, means, __VA_ARGS__)
#define TEXT_ROW(name, letter, argument, field, means, ...)                                                  \
    ROW(name, letter, argument, TEXT, field, ANY, NULL, means, __VA_ARGS__)
#define RANGE(least, most) least, most, NULL
#define WORDS(words)       0, 0, words
#define ANY                0, 0, NULL

/* Each command lists the options that it takes: command.options. */
const option_row option_rows[] = {
    TEXT_ROW("graph", 'g', "NAME", graph, "the graph to use", ),
    TEXT_ROW("data", 'd', "NAME=FILE", data,
             "feed input NAME: .npy, IDX, .npz, images, tokens, text; options follow the file: FILE:window=8",
             .form = OPTION_LIST, .sharing = NAMES, .file = READS_DATA),
    TEXT_ROW("val-data", 0, "NAME=FILE", val_data,
             "run graph val on this file after each epoch; once for each input", .form = OPTION_LIST,
             .sharing = NAMES, .file = READS_DATA,
             .elsewhere = "valid-data validation-data eval-data test-data"),
    TEXT_ROW("set", 0, "NAME=NUMBER", set,
             "feed input NAME, which has no batch axis, a number, or to train a curve: linear:FROM:TO:STEPS",
             .form = OPTION_LIST, .file = READS_ROWS),
    TEXT_ROW("axis", 0, "NAME=N", axis,
             "length of an axis that the file only names, or batch: sequence=128; once for each",
             .form = OPTION_LIST),
    TEXT_ROW("images", 0, "INPUT[:SCALE]", images,
             "feed images of bytes, scaled to 0 to 1 (unit), -1 to 1 (signed) or as imagenet", ),
    TEXT_ROW("loss", 0, "LOSS[:VALUE]", loss,
             "train VALUE, or the first output, by cross_entropy, mse, l1, huber or bce_with_logits", ),
    TEXT_ROW("minimize", 0, "TYPE[:FIELDS]", minimize,
             "the optimizer of --loss: sgd:lr=0.01,momentum=0.9 (adamw:lr=0.001)", ),
    TEXT_ROW("trainable", 0, "PATTERN", trainable, "train these parameters alone: '*fc*,layer4' (all)", ),
    TEXT_ROW("head", 0, "VALUE:N", head,
             "put a new layer with N results in the place of the linear layer that makes VALUE", ),
    ROW("batch-norm", 0, "MODE", TEXT, batch_norm, WORDS(norm_modes), NULL,
        "what BatchNorm does in training: train, or eval: it uses the running statistics (train)", ),
    ROW("val-every", 0, "N[steps]", TEXT, val_every, ANY, "1",
        "validate after every N epochs, or with \"500steps\" after every 500 steps; and at the end",
        .form = OPTION_EVERY),
    ROW("epochs", 'e', "N", COUNT, epochs, RANGE(1, MILLION), "1", "passes over the data (1)",
        .elsewhere = "num-epochs max-epochs num-train-epochs"),
    ROW("steps", 'k', "N", COUNT, steps, RANGE(1, WEFT_COUNT_MOST / 2), NULL,
        "train: stop after N steps; bench, trace: steps to time (20, 5)",
        .elsewhere = "max-steps iterations max-iters num-steps"),
    TEXT_ROW("until", 0, "PERCENT", until,
             "time more steps until the median is known so well, by a 95% interval: 1%", ),
    ROW("warmup", 0, "N", COUNT, warmup, RANGE(0, MILLION), NULL,
        "steps that run first, without timing (trace: 3; bench: found from the times)", ),
    ROW("lr", 0, "RATE", REAL, lr, RANGE(0, FLT_MAX), NULL,
        "learning rate of every optimizer, instead of the model's", .elsewhere = "learning-rate learn-rate"),
    TEXT_ROW("clip-norm", 0, "[NAME=]X", clip_norm,
             "scale gradients to at most this 2-norm; of the optimizer NAME alone, or of all",
             .form = OPTION_NAMED, .elsewhere = "max-grad-norm grad-clip gradient-clip-val"),
    TEXT_ROW("ema", 0, "[NAME=]DECAY", ema,
             "keep averages of the parameters, which validations read: 0.999; NAME as above",
             .form = OPTION_NAMED),
    TEXT_ROW("schedule", 0, "[NAME=]PARTS", schedule,
             "how the learning rate changes: cosine,warmup=500; without an end it ends with the run; NAME as "
             "above",
             .form = OPTION_NAMED, .elsewhere = "lr-scheduler scheduler"),
    TEXT_ROW("optimizer", 0, "NAME:FIELDS", optimizer,
             "other settings of the optimizer NAME (empty: all): "
             "adam:net:beta1=0.5",
             .form = OPTION_LIST),
    TEXT_ROW("weights", 'w', "FILE", weights, "start from these weights (safetensors)", .sharing = CONTENT,
             .file = READS, .elsewhere = "pretrained load init-from"),
    TEXT_ROW("rename", 0, "FROM:TO", rename,
             "names in the file of --weights that begin with FROM begin with TO instead; each may be empty",
             .form = OPTION_LIST),
    FLAG_ROW("partial", 0, partial, "load the values of --weights that the model has, and skip the others", ),
    FLAG_ROW("random-weights", 0, random_weights, "use random initial values instead of --weights", ),
    TEXT_ROW("log", 'l', "FILE", log, "write one line of JSON for each step", .sharing = OWN, .file = WRITES),
    ROW("log-every", 0, "N", COUNT, log_every, RANGE(1, MILLION), NULL,
        "steps between two lines: on the screen (about 20 in all), of --log (1), of --csv, --tensorboard "
        "(10)", ),
    TEXT_ROW("work-dir", 0, "DIR", work_dir,
             "new folder for weights, log, curves and settings of the run, unless other options name files",
             .sharing = OWN, .file = FILLS),
    TEXT_ROW("csv", 0, "FILE", csv, "write the numbers of the log as rows of CSV", .sharing = OWN,
             .file = WRITES),
    TEXT_ROW("tensorboard", 0, "DIR", tensorboard,
             "write the numbers of the log as an event file for TensorBoard", .sharing = OWN, .file = FILLS),
    TEXT_ROW("curves", 0, "FILE", curves,
             "draw curves of the numbers of the log when the run ends: .svg or .png", .sharing = OWN,
             .file = WRITES),
    TEXT_ROW("samples", 0, "FILE[:FIELDS]", samples,
             "write images: photo.png:every=500,rows=8, or one picture of all: photo.png:strip=8",
             .file = WRITES_PICTURES),
    TEXT_ROW("metric", 0, "METRIC[:FIELDS]", metric,
             "measure evaluations: accuracy:top=5, confusion, perplexity, auc, mean, mse, psnr, recall_at",
             .form = OPTION_LIST),
    TEXT_ROW("best", 0, "METRIC", best,
             "keep the weights of the best validation, too, beside the others: accuracy, or with a direction "
             "loss:min", ),
    TEXT_ROW("early-stop", 0, "METRIC", early_stop,
             "stop when three validations in a row bring no improvement in METRIC (see --best)", ),
    TEXT_ROW("checkpoint-dir", 0, "DIR", checkpoint_dir,
             "save all that the training needs to resume, while it runs and at its end, as DIR/step-N",
             .file = FILLS),
    ROW("checkpoint-every", 0, "WHEN", TEXT, checkpoint_every, ANY, "10m",
        "save after every N steps, or each time: 30s, 10m, 1h (10m)", .form = OPTION_INTERVAL),
    ROW("keep", 0, "K", COUNT, keep, RANGE(1, MILLION), "3", "checkpoints that stay, the newest (3)", ),
    TEXT_ROW("keep-best", 0, "METRIC", keep_best,
             "save each best validation so far, and keep the best, as --best says METRIC", ),
    TEXT_ROW("resume", 0, "auto|DIR", resume,
             "start from DIR's newest whole checkpoint, or DIR/step-N; auto: --checkpoint-dir's, if any",
             .file = READS_STEPS, .elsewhere = "continue resume-from"),
    FLAG_ROW("optimizer-state", 0, training, "save optimizer state and step counters with the weights", ),
    TEXT_ROW("guard", 0, "WHAT", guard,
             "what makes a step bad, so that it changes nothing: nan, spike=F, grad "
             "or off (nan; plan, diff: off)", ),
    ROW("on-bad-step", 0, "WHAT", TEXT, on_bad_step, ANY, "stop",
        "stop: end with status 8; skip=N: skip up to N bad steps in a row (stop; skip alone: 3)", ),
    FLAG_ROW("keep-going", 0, keep_going,
             "continue when a loss is not finite, and write weights that are not finite", ),
    TEXT_ROW("fetch", 'f', "NAME", port, "an output, scope or op: its value (the first output)", ),
    FLAG_ROW("argmax", 0, argmax, "the class with the highest score, instead of the scores", ),
    TEXT_ROW("grid", 0, "RxC", grid, "rows and columns of images in a PNG (8x8)", ),
    ROW("scale", 0, "N", COUNT, scale, RANGE(1, 64), NULL,
        "pixels of a PNG, each way, for one of an image (1)", ),
    TEXT_ROW("picture", 0, "TITLE=FILE", picture,
             "put this picture, a PNG or an SVG, into the page; once for each", .form = OPTION_LIST,
             .sharing = OWN, .file = READS),
    FLAG_ROW("check", 0, check,
             "check every node's results: the first that is not finite ends the run (slow)", ),
    FLAG_ROW("no-capture", 0, no_capture,
             "on a GPU: launch node by node instead of replaying captured graphs", ),
    ROW("precision", 0, "PATH:TYPE", TEXT, precision, WORDS(precision_words), NULL,
        "the same for a graph, a scope or a scope of one graph: d_step:bf16, generator/out:f32",
        .form = OPTION_LIST),
    TEXT_ROW("flow", 0, "FLOW", flow,
             "the flow to run: a name, or steps like \"d_step*5 g_step{accumulate=4}\" (train)", ),
    ROW("seed", 's', "N", SEED, seed, ANY, "0", "seed of initial values, data order and random numbers (0)",
        .elsewhere = "manual-seed"),
    TEXT_ROW("ddp", 0, "PATH:FIELDS", ddp,
             "DDP of the parameters under PATH (empty: all): "
             "generator:zero=1,bucket_cap_mb=4",
             .form = OPTION_LIST),
    ROW("launcher", 0, "NAME", TEXT, launcher, WORDS(launchers), NULL,
        "launcher whose variables give rank and world: auto, mpi, slurm or env (auto)", .sharing = OWN),
    ROW("timeout", 0, "SECONDS", REAL, timeout, RANGE(0, 1000 * MILLION), "300",
        "end with status 7 when a rank waits this long for others, and name the missing ones (300)", ),
    TEXT_ROW("rings", 0, "DIR", rings,
             "where each rank leaves its last 2,000 collectives when one is lost, for blame (weft-rings)",
             .sharing = OWN, .file = FILLS),
    ROW("comm", 0, "WAY", TEXT, way, WORDS(option_ways), NULL,
        "how ranks communicate: mpi, ucx, local (one machine), nccl with --device cuda; auto: by the "
        "launcher (auto)", ),
    ROW("ranks", 'n', "N", COUNT, ranks, RANGE(1, 4096), "2", "processes to start on this machine (2)",
        .sharing = OWN),
    ROW("grace", 0, "SECONDS", REAL, grace, RANGE(0, MILLION), "30",
        "kill processes that have not ended so long after SIGTERM (30)", .sharing = OWN),
    FLAG_ROW("profile", 0, profile,
             "print the time by op, scope and node to stderr; view: run some steps to show it",
             .sharing = OWN),
    TEXT_ROW("compare", 0, "FILE", compare,
             "give the ratio to an earlier result of bench --json; MODEL may be one, too", .sharing = CONTENT,
             .file = READS),
    ROW("fail-above", 0, "RATIO", REAL, fail_above, RANGE(0, 1000), NULL,
        "end with status 1 where the whole interval of the ratio is above this: 1.03", ),
    TEXT_ROW("suite", 0, "zoo|DIR", suite,
             "without MODEL: all models of the zoo or of a folder, training and inference; -o gets lines of "
             "JSON",
             .file = READS_MODELS),
    TEXT_ROW("with", 0, "[OPTIONS]", with,
             "a set of options that the suite runs each model with; once for each (as it is, one thread, "
             "bf16, batch 1)",
             .form = OPTION_LIST),
    TEXT_ROW("op", 0, "[CALL]", op,
             "without MODEL: time one op, \"matmul(f32[64,64], f32[64,64])\"; once for each; all: every op",
             .form = OPTION_LIST),
    FLAG_ROW("check-accuracy", 0, check_accuracy,
             "compare results and gradients of the first step with the same graph in f64 (slow)", ),
    FLAG_ROW("dump", 0, dump, "print the whole plan node by node, as text that can be read back", ),
    FLAG_ROW("bytes", 0, bytes, "print what a step launches, reads and writes, by op", ),
    ROW("estimate", 0, "GPU", TEXT, estimate, WORDS(option_roofs), NULL,
        "the same with the time that a GPU is expected to take: h100 or h200", ),
    TEXT_ROW("against", 0, "OPTIONS", against,
             "other options for the second model, or for a second run of one: \"--threads 1\"", ),
    ROW("view", 0, "VIEW", TEXT, view, WORDS(option_views), NULL,
        "graph, as written; program, as it runs; plan, buckets and streams (graph)", ),
    FLAG_ROW("all", 'a', all,
             "dot --view=graph: the backward pass and the updates too; diff: every change and row", ),
    ROW("depth", 0, "N", COUNT, depth, RANGE(0, 64), NULL,
        "levels of scopes to open (info, bench: 3; dot: as many as fit a page)", ),
    FLAG_ROW("parameters", 0, parameters,
             "list parameters and state alone, by the paths that patterns name, and which are trained", ),
    ROW("max-nodes", 0, "N", COUNT, max_nodes, RANGE(4, 100000), NULL,
        "collapse scopes until at most N nodes are left, whatever the page size (100, on a page)", ),
    TEXT_ROW("focus", 0, "VALUE", focus,
             "draw what is near VALUE: %12 of a dump, an input, output, scope, parameter or state", ),
    ROW("hops", 0, "N", COUNT, hops, RANGE(0, 1000), "2", "how many reads away from --focus (2)", ),
    TEXT_ROW("expand", 0, "PATH", expand, "open the scope PATH, and draw it apart from those like it",
             .form = OPTION_LIST),
    ROW("type", 'T', "TYPE", TEXT, format, WORDS(option_types), NULL,
        "format: dot, svg, png or pdf (that of FILE's name, or dot)", .elsewhere = "format"),
    FLAG_ROW("averages", 0, averages, "write the averages of --ema instead of the parameters", ),
    FLAG_ROW("fixed-batch", 0, fixed_batch, "the file takes the model's batch alone, not any", ),
    FLAG_ROW("external-data", 0, external_data,
             "put the weights into FILE.data beside it, as is done anyway above 2 GB", ),
    FLAG_ROW("random-inputs", 0, random_inputs,
             "make what the graph draws (random_normal, random_uniform) inputs of the file", ),
    FLAG_ROW("markdown", 0, markdown, "print Markdown, as in docs/ops.md", ),
    FLAG_ROW("json", 'j', json, "print JSON with stable keys", .sharing = OWN),
    TEXT_ROW("output", 'o', "FILE", output,
             "write to FILE; - is standard output, for text (train: "
             "weights; predict: .png, .npy; trace: .json)",
             .sharing = OWN, .file = WRITES, .elsewhere = "out save save-to"),
    TEXT_ROW("config", 0, "FILE", config,
             "read options that are not given from a JSON file, by their names: {\"epochs\": 5}",
             .sharing = CONTENT, .file = READS),
    FLAG_ROW("print-config", 0, print_config,
             "print the settings of the run, and where each is from, as JSON for --config; run nothing", ),
#undef RANGE
#undef WORDS
#define OPTION(field, kind, values, uses, otherwise, means, name, letter, argument, group_, ...)             \
    {{name, WEFT_FIELD_##kind, F(compile.field), values, uses, otherwise, means},                            \
     letter,                                                                                                 \
     argument,                                                                                               \
     .group = group_,                                                                                        \
     __VA_ARGS__},
#include "runtime/plan/compile_list.h"
    FLAG_ROW("help", 'h', all, "print this text", .sharing = OWN),
    {.field = {NULL}},
};
#undef F
_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTIONS_MOST,
               "struct options has a byte for each");
