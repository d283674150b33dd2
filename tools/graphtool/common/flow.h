/* flow.h - runs the flow that a plan is for, iteration by iteration, on batches. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_FLOW_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_FLOW_H

#include "tools/graphtool/common/feed.h"
#include "tools/graphtool/common/progress.h"

#include "graph/core/flow.h"

enum { FLOW_MAX_GRAPHS = 64, FLOW_STEPS = FLOW_MAX_STEPS, FLOW_VALUES = PROGRESS_MAX };

typedef struct flow {
    int n_graphs, n_steps, n_values;
    graph_run *graphs; /* each graph of the flow once, in the order of its first step */
    weft_flow_step steps[FLOW_STEPS];
    int graph_of[FLOW_STEPS]; /* by step: index in graphs */
    /* The outputs of the graphs in turn: values[i] is the mean over all runs of the last iteration on this
     * rank, where has_value[i]. */
    const char *names[FLOW_VALUES];
    double values[FLOW_VALUES];
    bool has_value[FLOW_VALUES];
    int64_t runs[FLOW_MAX_GRAPHS]; /* of the last iteration, by graph */
    int rank, world;
    int64_t iteration; /* the next one */
    int64_t rows;      /* that the last iteration took, on all ranks */
} flow;

/* Binds the graphs of the plan's flow: -1, or the exit status after printing the error. */
int flow_open(flow *f, const weft_plan *plan, const batches *b, const options *o);
void flow_close(flow *f);

/* Batches that an iteration takes, on all ranks together. */
int64_t flow_takes(const flow *f, int64_t iteration);
/* Counts the iterations of so many epochs of `batches` each, from iteration 0, at most `most`; an epoch
 * ends when it has too few left. -1, or the exit status after telling of an iteration that no epoch has
 * room for. */
int flow_count(const flow *f, int64_t epochs, int64_t batches, int64_t most, int64_t *iterations);
/* Runs the next iteration from the next batch on, and moves behind those that it takes. */
int flow_run(flow *f, weft_session *session, batches *b);

#endif
