/* option_table.c - the rows, in the order of --help. */
#include "tools/graphtool/common/option_table.h"

const char *const option_devices[] = {"cpu", "cuda", NULL};
const char *const option_isas[] = {"auto", "reference", "sse2", "avx2", "avx512", NULL};
const char *const option_shards[] = {"greedy", "flat", NULL};
const char *const option_reduces[] = {"auto", "ordered", "fast", NULL};
const char *const option_dtypes[] = {"f32", "bf16", "f16", NULL};
const char *const option_ways[] = {"auto", "mpi", "nccl", "ucx", NULL};
const char *const option_views[] = {"graph", "program", "plan", NULL};
const char *const option_types[] = {"dot", "svg", "png", NULL};
const char *const option_roofs[] = {"h100", "h200", NULL};
static const char *const launchers[] = {"auto", "mpi", "slurm", "env", NULL};

#define F(field) offsetof(options, field)
enum { MILLION = 1000000 };
/* Each command lists the options that it takes: command.options. */
const option_row option_rows[] = {
    {"graph", 'g', "NAME", OPTION_TEXT, F(graph), 0, 0, "the graph to use"},
    {"data", 'd', "NAME=FILE", OPTION_LIST, F(data), 0, 0,
     "feed input NAME from .npy, IDX, .npz, images, tokens or text: [FILE or FOLDER][:option=value,...]; "
     "once for each input",
     .sharing = NAMES},
    {"val-data", 0, "NAME=FILE", OPTION_LIST, F(val_data), 0, 0,
     "run graph val on this file after each epoch; once for each input", .sharing = NAMES},
    {"val-every", 0, "N[steps]", OPTION_EVERY, F(val_every), 0, 0,
     "validate after every N epochs, or with \"500steps\" after every 500 steps; and at the end",
     .otherwise = "1"},
    {"epochs", 'e', "N", OPTION_INT, F(epochs), 1, MILLION, "passes over the data (1)", .otherwise = "1"},
    {"steps", 'k', "N", OPTION_INT, F(steps), 1, INT64_MAX / 2,
     "train: stop after N steps; bench, trace: steps to time (20, 5)"},
    {"warmup", 0, "N", OPTION_INT, F(warmup), 0, MILLION, "steps that run first, without timing (3)"},
    {"lr", 0, "RATE", OPTION_REAL, F(lr), 0, 0, "learning rate of every optimizer, instead of the model's"},
    {"clip-norm", 0, "[NAME=]X", OPTION_NAMED, F(clip_norm), 0, 0,
     "scale gradients to at most this 2-norm; of the optimizer NAME alone, or of all"},
    {"ema", 0, "[NAME=]DECAY", OPTION_NAMED, F(ema), 0, 0,
     "keep averages of the parameters, which validations read: 0.999; NAME as above"},
    {"schedule", 0, "[NAME=]PARTS", OPTION_NAMED, F(schedule), 0, 0,
     "how the learning rate changes: cosine,warmup=500; without an end it ends with the run; NAME as above"},
    {"optimizer", 0, "NAME:FIELDS", OPTION_LIST, F(optimizer), 0, 0,
     "other settings of the optimizer NAME (empty: all), as weft_optimizer_text reads them: "
     "adam:net:beta1=0.5"},
    {"weights", 'w', "FILE", OPTION_TEXT, F(weights), 0, 0, "start from these weights (safetensors)",
     .sharing = CONTENT},
    {"rename", 0, "FROM:TO", OPTION_LIST, F(rename), 0, 0,
     "names in the file of --weights that begin with FROM begin with TO instead; each may be empty"},
    {"partial", 0, NULL, OPTION_FLAG, F(partial), 0, 0,
     "load what --weights has of the model, and pass over names that the model does not have"},
    {"random-weights", 0, NULL, OPTION_FLAG, F(random_weights), 0, 0,
     "use random initial values instead of --weights"},
    {"log", 'l', "FILE", OPTION_TEXT, F(log), 0, 0, "write one line of JSON for each step", .sharing = OWN},
    {"work-dir", 0, "DIR", OPTION_TEXT, F(work_dir), 0, 0,
     "new folder for what the run writes: weights.safetensors, log.jsonl, curves.svg and config.json, unless "
     "-o, --log and --curves say others",
     .sharing = OWN},
    {"csv", 0, "FILE", OPTION_TEXT, F(csv), 0, 0, "write the numbers of the log as rows of CSV",
     .sharing = OWN},
    {"tensorboard", 0, "DIR", OPTION_TEXT, F(tensorboard), 0, 0,
     "write the numbers of the log as an event file for TensorBoard", .sharing = OWN},
    {"curves", 0, "FILE", OPTION_TEXT, F(curves), 0, 0,
     "draw curves of the numbers of the log when the run ends: .svg or .png", .sharing = OWN},
    {"samples", 0, "FILE[:FIELDS]", OPTION_TEXT, F(samples), 0, 0,
     "write images that a graph makes as a grid, photo.png as photo-500.png after step 500: "
     "photo.png:every=500,graph=predict,output=samples,rows=8,columns=8"},
    {"metric", 0, "METRIC[:FIELDS]", OPTION_LIST, F(metric), 0, 0,
     "measure evaluations by sample, too: accuracy, confusion, perplexity, mean, mse or psnr, of outputs and "
     "inputs of the graph: accuracy:top=5,scores=logits,label=label"},
    {"best", 0, "METRIC", OPTION_TEXT, F(best), 0, 0,
     "keep the weights of the best validation, too, beside the others: accuracy, or with a direction "
     "loss:min"},
    {"early-stop", 0, "METRIC", OPTION_TEXT, F(early_stop), 0, 0,
     "stop when three validations in a row are not better in this metric, as of --best"},
    {"checkpoint-dir", 0, "DIR", OPTION_TEXT, F(checkpoint_dir), 0, 0,
     "save all that the training needs to go on, while it runs and at its end, as DIR/step-N"},
    {"checkpoint-every", 0, "WHEN", OPTION_INTERVAL, F(checkpoint_every), 0, 0,
     "save after every N steps, or each time: 30s, 10m, 1h (10m)", .otherwise = "10m"},
    {"keep", 0, "K", OPTION_INT, F(keep), 1, MILLION, "checkpoints that stay, the newest (3)",
     .otherwise = "3"},
    {"keep-best", 0, "METRIC", OPTION_TEXT, F(keep_best), 0, 0,
     "save each best validation so far, and keep the best, as --best says METRIC"},
    {"resume", 0, "auto|DIR", OPTION_TEXT, F(resume), 0, 0,
     "go on from the newest checkpoint of DIR that is whole, or from DIR/step-N; auto: of --checkpoint-dir, "
     "or "
     "begin where it has none"},
    {"optimizer-state", 0, NULL, OPTION_FLAG, F(training), 0, 0,
     "save optimizer state and step counters with the weights"},
    {"guard", 0, "WHAT", OPTION_TEXT, F(guard), 0, 0,
     "what makes a step bad, which then changes nothing: nan, a loss that is not finite; "
     "spike=F, also one above F times its mean; grad, also gradients that are not finite; off (train: nan)"},
    {"on-bad-step", 0, "WHAT", OPTION_TEXT, F(on_bad_step), 0, 0,
     "stop: a bad step ends the training with status 8; skip=N: up to N in a row (3) are passed over, each "
     "with "
     "a line that names its samples, and one more ends it (stop)",
     .otherwise = "stop"},
    {"keep-going", 0, NULL, OPTION_FLAG, F(keep_going), 0, 0,
     "continue when a loss is not finite, and write weights that are not finite"},
    {"fetch", 'f', "NAME", OPTION_TEXT, F(port), 0, 0, "the output to write (the graph's first)"},
    {"grid", 0, "RxC", OPTION_TEXT, F(grid), 0, 0, "rows and columns of images in a PNG (8x8)"},
    {"batch", 'b', "N", OPTION_INT, F(batch), 1, INT32_MAX, "batch size (the model's default)"},
    {"threads", 't', "T", OPTION_INT, F(threads), 1, 1024, "threads (every core that the process may use)"},
    {"isa", 0, "NAME", OPTION_WORD, F(isa), 0, 0,
     "highest instruction set of kernels: auto, reference, sse2, avx2 or avx512 (auto)", option_isas},
    {"device", 0, "NAME", OPTION_WORD, F(device), 0, 0,
     "cpu or cuda; compiling for cuda needs no GPU, running does (cpu)", option_devices},
    {"deterministic", 0, NULL, OPTION_FLAG, F(deterministic), 0, 0, "on a GPU: the same bits in every run"},
    {"tf32", 0, NULL, OPTION_FLAG, F(tf32), 0, 0,
     "on a GPU: products of f32 may round their operands to TF32"},
    {"calibration", 0, "FILE", OPTION_TEXT, F(calibration), 0, 0,
     "on a GPU: use the algorithms of this table, made by graphtool calibrate", .sharing = CONTENT},
    {"check", 0, NULL, OPTION_FLAG, F(check), 0, 0,
     "check every node's results: the first that is not finite ends the run (slow)"},
    {"no-capture", 0, NULL, OPTION_FLAG, F(no_capture), 0, 0,
     "on a GPU: launch node by node instead of replaying captured graphs"},
    {"no-memory-check", 0, NULL, OPTION_FLAG, F(no_memory_check), 0, 0,
     "run although the memory that is free looks too small"},
    {"dtype", 0, "NAME", OPTION_WORD, F(dtype), 0, 0,
     "type of matrix products, convolutions and attention: f32, bf16 or f16 (f32)", option_dtypes},
    {"precision", 0, "PATH:TYPE", OPTION_LIST, F(precision), 0, 0,
     "the same for a graph, a scope or a scope of one graph: d_step:bf16, generator/out:f32", option_dtypes},
    {"flow", 0, "FLOW", OPTION_TEXT, F(flow), 0, 0,
     "the flow to run: a name, or steps like \"d_step*5 g_step{accumulate=4}\" (train)"},
    {"accumulate", 0, "K", OPTION_INT, F(accumulate), 1, 65536,
     "micro-batches a step, for graphs whose flow does not say it (1)", .otherwise = "1"},
    {"seed", 's', "N", OPTION_INT, F(seed), 0, INT64_MAX,
     "seed of initial values, data order and random numbers (0)", .otherwise = "0"},
    {"world", 0, "N", OPTION_INT, F(world), 1, 1 << 20,
     "compile for N ranks that train together (1); ckpt reshard: files to write"},
    {"rank", 0, "R", OPTION_INT, F(rank), 0, 1 << 20, "compile for this rank, from 0 (0)"},
    {"strategy", 0, "NAME:FIELDS", OPTION_TEXT, F(strategy), 0, 0,
     "how the training is spread over ranks: single, ddp, separate_ddp or zero, with what it takes: "
     "zero:stage=2,shard=flat (the model's, or separate_ddp)"},
    {"ddp", 0, "PATH:FIELDS", OPTION_LIST, F(ddp), 0, 0,
     "options of weft_ddp for the parameters under PATH (empty: all): generator:zero=1,bucket_cap_mb=4"},
    {"zero", 0, "STAGE", OPTION_INT, F(zero), 0, 2,
     "ZeRO stage: 1 shards optimizer state and updates over ranks, 2 gradients too (0)", .otherwise = "0"},
    {"shard", 0, "HOW", OPTION_WORD, F(shard), 0, 0,
     "how --zero shards: greedy, whole parameters; flat, equal ranges (greedy)", option_shards},
    {"bucket-cap-mb", 0, "MIB", OPTION_REAL, F(bucket_cap_mb), 0, 0,
     "size of a gradient bucket in MiB (a sixteenth of the subgraph, at most 25)"},
    {"reduce", 0, "HOW", OPTION_WORD, F(reduce), 0, 0,
     "sums over ranks: ordered, the same bits in any world; fast; auto, fast with NCCL (auto)",
     option_reduces},
    {"serial", 0, NULL, OPTION_FLAG, F(serial), 0, 0,
     "wait for each collective where it starts, so that nothing overlaps"},
    {"launcher", 0, "NAME", OPTION_WORD, F(launcher), 0, 0,
     "launcher whose variables give rank and world: auto, mpi, slurm or env (auto)", launchers, OWN},
    {"timeout", 0, "SECONDS", OPTION_REAL, F(timeout), 0, 1000 * MILLION,
     "end with status 7 when a rank waits this long for others, and name the missing ones (300)",
     .otherwise = "300"},
    {"rings", 0, "DIR", OPTION_TEXT, F(rings), 0, 0,
     "where each rank writes its last 2,000 collectives when a rank is lost, for graphtool blame "
     "(weft-rings, in "
     "--work-dir or --checkpoint-dir if given)",
     .sharing = OWN},
    {"comm", 0, "WAY", OPTION_WORD, F(way), 0, 0,
     "communication between ranks: mpi; ucx; nccl, with --device cuda; auto: mpi, under torchrun and "
     "graphtool "
     "launch ucx; with --device cuda nccl, beside mpi or there alone (auto)",
     option_ways},
    {"ranks", 'n', "N", OPTION_INT, F(ranks), 1, 4096, "processes to start on this machine (2)",
     .sharing = OWN, .otherwise = "2"},
    {"grace", 0, "SECONDS", OPTION_REAL, F(grace), 0, MILLION,
     "kill processes that have not ended so long after they were told to (30)", .sharing = OWN,
     .otherwise = "30"},
    {"profile", 0, NULL, OPTION_FLAG, F(profile), 0, 0, "print the time by op and by node to stderr",
     .sharing = OWN},
    {"after", 0, "PASS", OPTION_TEXT, F(after), 0, 0,
     "stop after this pass of the compiler, and print the plan as text"},
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
     "format: dot, svg or png (that of FILE's name, or dot)", option_types},
    {"averages", 0, NULL, OPTION_FLAG, F(averages), 0, 0,
     "averages of parameters in their place, as --ema keeps them"},
    {"markdown", 0, NULL, OPTION_FLAG, F(markdown), 0, 0, "print Markdown, as in docs/ops.md"},
    {"json", 'j', NULL, OPTION_FLAG, F(json), 0, 0, "print JSON with stable keys", .sharing = OWN},
    {"output", 'o', "FILE", OPTION_TEXT, F(output), 0, 0,
     "write to FILE; - is standard output, for text (train: weights as safetensors; predict: .png or .npy; "
     "trace: .json)",
     .sharing = OWN},
    {"config", 0, "FILE", OPTION_TEXT, F(config), 0, 0,
     "read options that are not given from a file of JSON, by their names: {\"epochs\": 5, \"data\": "
     "{\"image\": \"x.npy\"}}",
     .sharing = CONTENT},
    {"print-config", 0, NULL, OPTION_FLAG, F(print_config), 0, 0,
     "print what holds, and where it is from, as JSON that --config reads; run nothing"},
    {"help", 'h', NULL, OPTION_FLAG, 0, 0, 0, "print this text", .sharing = OWN},
};
#undef F
const int option_count = sizeof option_rows / sizeof *option_rows;
_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTIONS_MOST,
               "struct options has a byte for each");
