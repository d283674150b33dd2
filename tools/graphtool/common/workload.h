/* workload.h - training steps to be timed: on eight synthetic batches in memory, or on --data around and around. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H

#include "tools/graphtool/common/feed.h"

enum { WORKLOAD_GRAPHS = 16 };

typedef struct workload {
    const options *o;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    batches data;
    int n_graphs;
    graph_run graphs[WORKLOAD_GRAPHS];
    double compile_ms;
} workload;

/* Leaves m with its training graphs alone; it must outlive the workload. -1, or the exit status after telling why
 * not; workload_close after either. */
int workload_open(workload *w, weft_model *m, const options *o);
/* One step; without `fetches` losses stay where they are, so that a GPU need not be waited for. */
int workload_step(workload *w, bool fetches);
/* Returns when all steps are done. */
int workload_sync(workload *w);
void workload_close(workload *w);

#endif
