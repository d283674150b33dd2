/* workload.c - opens a model for training steps, and runs them. */
#include "tools/graphtool/common/workload.h"

#include "tools/graphtool/common/weights.h"

/* What a loader holds: batches that it reads ahead, by default, and the one in use. */
enum { LOADED_BATCHES = 3 };

/* Before any batch is made: they are needed beside the plan. */
static int check_memory(const workload *w, const weft_model *m, const weft_plan *plan,
                        const weft_compile_options *compile) {
    weft_error error = {0};
    int64_t batch = weft_plan_batch(plan);
    uint64_t made = dataset_synthetic_bytes(m, plan), loaded = made / SYNTHETIC_BATCHES * LOADED_BATCHES;
    weft_fit_options how = {.local_world = w->o->comm ? w->o->comm->local_world : 1,
                            .model = m,
                            .compile = compile,
                            .more_per_sample = batch ? (made + loaded) / (uint64_t)batch : 0,
                            .more_name = "synthetic batches",
                            .words = &tool_fit_words};
    weft_status status = weft_plan_fits(plan, &how, &error);
    return status ? tool_error_in(w->o->model, &error) : -1;
}

/* Synthetic batches are made for a plan's inputs. */
static int open_data(workload *w, const weft_model *m, const weft_compile_options *compile) {
    weft_error error = {0};
    if (w->o->data.n) return dataset_load(&w->data, &w->o->data);
    weft_plan *plan = weft_compile(m, compile, &error);
    if (!plan) return tool_error_in(w->o->model, &error);
    int status = check_memory(w, m, plan, compile);
    if (status < 0) status = dataset_synthetic(&w->data, m, plan, w->o);
    weft_plan_free(plan);
    return status;
}

int workload_open(workload *w, weft_model *m, const options *o) {
    *w = (workload){.o = o};
    weft_trainer_options how;
    weft_error error = {0};
    int status = tool_trainer_options(m, o, &how);
    /* The trainer's default: what is asked before there is one must be the plan that it compiles. */
    if (!how.own_guard) how.compile.guard = WEFT_GUARD_NAN;
    if (status < 0) status = open_data(w, m, &how.compile);
    if (status >= 0) return status;
    how.train = w->data.of;
    how.in_order = true;
    how.iterations = INT64_MAX; /* the command counts */
    if (!(w->trainer = tool_trainer(m, o, &how, &status))) return status;
    if ((status = weights_load(weft_trainer_store(w->trainer), o)) >= 0) return status;
    if (!(w->session = weft_trainer_session(w->trainer, &error))) return tool_error(&error);
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
