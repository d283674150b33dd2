/* workload.c - opens a model for training steps, and runs them. */
#include "tools/graphtool/common/workload.h"

#include "tools/graphtool/common/weights.h"

/* Synthetic batches are made for a plan's inputs, which are known after the first passes. */
static int open_data(workload *w, const weft_model *m) {
    int status;
    options first = *w->o;
    first.after = "programs";
    if (w->o->data.n) return dataset_load(&w->data, &w->o->data);
    weft_plan *plan = tool_compile(m, &first, NULL, &status);
    if (plan) status = dataset_synthetic(&w->data, m, plan, w->o);
    weft_plan_free(plan);
    return status;
}

int workload_open(workload *w, weft_model *m, const options *o) {
    *w = (workload){.o = o};
    weft_trainer_options how;
    weft_error error = {0};
    int status = open_data(w, m);
    if (status < 0) status = tool_trainer_options(m, o, &how);
    if (status >= 0) return status;
    how.train = w->data.of;
    how.in_order = true;
    how.iterations = INT64_MAX; /* the command counts */
    if (!(w->trainer = tool_trainer(m, o, &how, &status))) return status;
    if ((status = weights_load(weft_trainer_store(w->trainer), o)) >= 0) return status;
    if (!(w->session = weft_trainer_session(w->trainer, &error))) return tool_error(&error);
    tool_watch(w->session, o);
    w->plan = weft_trainer_plan(w->trainer);
    w->compile_ms = weft_trainer_progress(w->trainer)->compile_seconds * 1e3;
    return -1;
}

int workload_sync(workload *w) {
    weft_error error = {0};
    return weft_sync(w->session, &error) ? tool_error(&error) : -1;
}

int workload_step(workload *w, weft_metrics *metrics) {
    weft_error error = {0};
    weft_trainer_metrics_every(w->trainer, metrics ? 1 : INT64_MAX);
    return weft_trainer_train_step(w->trainer, metrics, &error) ? tool_error(&error) : -1;
}

void workload_close(workload *w) {
    weft_trainer_free(w->trainer);
    dataset_close(&w->data);
}
