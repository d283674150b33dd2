/* workload.h - training steps to be timed: on eight synthetic batches in memory, or repeatedly over
 * --data. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_WORKLOAD_H

#include "tools/graphtool/common/dataset.h"

typedef struct workload {
    const options *o;
    dataset data;
    weft_trainer *trainer;
    weft_session *session; /* the trainer's, as are plan and store */
    const weft_plan *plan;
    double compile_ms; /* of the timed plan */
} workload;

/* Opens everything for the steps of the model's flow. m must outlive the workload. -1, or
 * the exit status after printing the error; call workload_close in either case. */
int workload_open(workload *w, weft_model *m, const options *o);
/* One iteration of the flow. Without `metrics` (which may be NULL) the losses are not fetched, so that the
 * host need not wait for a GPU. */
int workload_step(workload *w, weft_metrics *metrics);
/* Waits until all steps are done. */
int workload_sync(workload *w);
void workload_close(workload *w);

#endif
