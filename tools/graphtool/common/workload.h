/* workload.h - training steps to be timed: on eight synthetic batches in memory, or repeatedly over
 * --data. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H

#include "tools/graphtool/common/flow.h"

typedef struct workload {
    const options *o;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    batches data;
    flow flow;
    double compile_ms; /* of the timed plan */
} workload;

/* Opens everything for the steps of the model's flow. m must outlive the workload. -1, or
 * the exit status after printing the error; call workload_close in either case. */
int workload_open(workload *w, weft_model *m, const options *o);
/* One iteration of the flow. Without `fetches` the losses are not copied, so that the host need not wait
 * for a GPU. */
int workload_step(workload *w, bool fetches);
/* Waits until all steps are done. */
int workload_sync(workload *w);
void workload_close(workload *w);

#endif
