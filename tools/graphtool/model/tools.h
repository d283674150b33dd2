/* tools.h - what the subcommands share: loading models, compile options, trainers. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_TOOLS_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_TOOLS_H

#include "graph/core/byte_count.h"
#include "tools/graphtool/options/options.h"
#include "tools/graphtool/output/output.h"
#include "weft/weft.h"

/* Loads o->model with --ddp, --flow and what is said of optimizers applied, except for schedules. It is kept
 * until the end, as are plans and trainers. */
weft_model *tool_load(const options *o);
/* What it loads with. */
extern const weft_env tool_shows;
weft_model *tool_keep_model(weft_model *m);
/* The flow to compile for: that of --flow, or "train" for a command that is for a flow; NULL: all graphs, as
 * where a model that is only shown does not train. */
const char *tool_flow(const weft_model *m, const options *o);
/* Ends where --flow is one word that is neither a flow nor a graph. */
void tool_check_flow(const weft_model *m, const char *flow);
/* Ends where the plan's flow changes nothing: neither parameters nor state. */
void tool_need_training(const weft_plan *plan);
/* 16 hexadecimal digits, as `plan` prints them: what differs where plans do. */
json_t *tool_fingerprint(const weft_plan *plan);
/* The same of the model's text alone, whatever it is compiled for. */
const char *tool_model_hash(const weft_model *m);
/* Ends where the model has no graph. */
void tool_need_graph(const weft_model *m, const options *o);
/* A model with parameters needs --weights or --random-weights. */
void tool_need_weights(const weft_model *m, const options *o);
/* Compile options from the command line. */
weft_compile_options tool_compile_options(const options *o);
/* The same for a trainer, without its data; chooses the GPU of this rank. */
weft_trainer_options tool_trainer_options(const weft_model *m, const options *o);
weft_trainer *tool_trainer(const weft_model *m, const options *o, const weft_trainer_options *how);
/* The GPU of this rank, for stores and sessions. */
void tool_select_device(const options *o);
/* What errors of memory call options. */
extern const weft_fit_words tool_fit_words;
/* Compiles a graph (NULL: all) with these options. */
weft_plan *tool_compile(const weft_model *m, const options *o, const char *graph);
/* The same of o->graph, up to a pass: the caller frees it. */
weft_plan *tool_compile_until(const weft_model *m, const options *o, const char *pass);

/* The graph to evaluate or predict with: --graph, else `wanted` if the model has it, else the first graph in
 * eval mode. Not one that trains: it would change the weights on its way over the data, and its mean loss
 * would be of no weights at all. */
const char *tool_graph(const weft_model *m, const options *o, const char *wanted);

/* Seconds of the monotonic clock. */
static inline double clock_seconds(void) {
    return 1e-9 * (double)weft_clock_ns();
}

#endif
