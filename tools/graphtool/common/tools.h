/* tools.h - what the subcommands share: loading, compiling, feeding. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_TOOLS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_TOOLS_H

#include "tools/graphtool/common/options.h"
#include "tools/graphtool/common/output.h"
#include "weft/weft.h"

/* The model of o->model; NULL with *status set after telling why not. */
weft_model *tool_load(const options *o, int *status);
/* Weights must be given, unless --random-weights says that they need not: -1, or the exit status. */
int tool_need_weights(const weft_model *m, const options *o);
weft_device tool_device(const options *o); /* --device */
/* Compile options from the command line: -1, or the exit status after telling why not. */
int tool_compile_options(const options *o, weft_compile_options *into);
/* --check and --no-capture, for a session. */
void tool_watch(weft_session *session, const options *o);
/* Compiles with them and `batch` (0: theirs); NULL with *status set after telling why not. */
weft_plan *tool_compile(const weft_model *m, const options *o, const char *graph, int64_t batch, int *status);
/* A store of the whole model with the seed's initial values, then the file of --weights; the same failures.
 * Made before graphs are left out, so that it holds what any of them uses. */
weft_store *tool_store(const weft_model *m, const options *o, int *status);
/* Leaves the graphs of the other mode out of what is compiled from here on; returns how many are left. */
int tool_keep_mode(weft_model *m, weft_mode mode);

/* The graph to evaluate or predict with: --graph, else `wanted` if the model has it, else its first graph in
 * eval mode. NULL with *status set after telling that there is none, or that it trains: it would change the weights on
 * its way over the data, and give the loss of no weights at all. */
const char *tool_graph(const weft_model *m, const options *o, const char *wanted, int *status);

/* Makes OpenMP's threads sleep sooner when they wait, by starting the program anew with GOMP_SPINCOUNT set (it is
 * read before main). Returns when it is set already, or starting failed: then things are as they were. */
void tool_calm_threads(char **argv);

/* "2.4 MiB" */
typedef struct byte_text {
    char text[32];
} byte_text;
byte_text show_bytes(uint64_t bytes);

/* Seconds on a clock that never jumps. */
double clock_seconds(void);

#endif
