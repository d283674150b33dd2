/* workload.h - steps of a flow to be timed, which need not train: on eight synthetic batches in memory, or
 * repeatedly over --data. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_WORKLOAD_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_WORKLOAD_H

#include "tools/graphtool/training/dataset.h"

typedef struct workload {
    weft_trainer *trainer;
    weft_session *session; /* the trainer's, as the plan is */
    const weft_plan *plan;
    const char *set; /* numbers of inputs without a batch axis, as weft_trainer_options has them; or NULL */
} workload;

/* Opens everything for the steps of the model's flow. */
workload workload_open(weft_model *m, const options *o);
/* One iteration of the flow. Without `metrics` (which may be NULL) the losses are not fetched, so that the
 * host need not wait for a GPU. */
void workload_step(const workload *w, weft_metrics *metrics);
/* Waits until all steps are done. */
void workload_sync(const workload *w);

#endif
