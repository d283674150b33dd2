/* workload.c - opens a model for training steps, and runs them. */
#include "tools/graphtool/training/workload.h"

#include "tools/graphtool/model/weights.h"

/* What a loader holds: batches that it reads ahead, by default, and the one in use. */
enum { LOADED_BATCHES = 3 };

/* Before any batch is made: they are needed beside the plan. */
static void check_memory(const options *o, const weft_model *m, const weft_plan *plan,
                         const weft_compile_options *compile) {
    int64_t batch = weft_plan_batch(plan);
    uint64_t made = dataset_synthetic_bytes(plan, o), loaded = made / SYNTHETIC_BATCHES * LOADED_BATCHES;
    weft_fit_options how = {.local_world = o->comm ? o->comm->local_world : 1,
                            .model = m,
                            .compile = compile,
                            .more_per_sample = batch ? (made + loaded) / (uint64_t)batch : 0,
                            .more_name = "synthetic batches",
                            .words = &tool_fit_words};
    if (weft_plan_fits(plan, &how, &tool_why)) tool_error_in(o->model);
}

/* Synthetic batches and numbers are made for a plan's inputs. */
static const dataset *open_data(const options *o, const weft_model *m, weft_trainer_options *how) {
    if (o->data.n) return dataset_load(&o->data);
    weft_plan *plan = weft_compile(m, &how->compile, &tool_why);
    if (!plan) tool_error_in(o->model);
    check_memory(o, m, plan, &how->compile);
    const dataset *made = dataset_synthetic(m, plan, o, &how->set);
    weft_plan_free(plan);
    return made;
}

workload workload_open(weft_model *m, const options *o) {
    weft_trainer_options how = tool_trainer_options(m, o);
    /* The trainer's default: what is asked before there is one must be the plan that it compiles. */
    if (!how.own_guard) how.compile.guard = WEFT_GUARD_NAN;
    how.train = open_data(o, m, &how)->of;
    how.in_order = true;
    how.iterations = INT64_MAX; /* the command counts */
    weft_trainer *t = tool_trainer(m, o, &how);
    weights_load(weft_trainer_store(t), o);
    return (workload){t, tool_got(weft_trainer_session(t, &tool_why)), weft_trainer_plan(t), how.set};
}

void workload_sync(const workload *w) {
    tool_must(weft_sync(w->session, &tool_why));
}

void workload_step(const workload *w, weft_metrics *metrics) {
    weft_trainer_set_metrics_every(w->trainer, metrics ? 1 : INT64_MAX);
    tool_must(weft_trainer_train_step(w->trainer, metrics, &tool_why));
}
