/* workload.c - opens a model for training steps, and runs them. */
#include "tools/graphtool/common/workload.h"

#include "graph/core/graph.h"

static int open_batches(workload *w, const weft_model *m) {
    const options *o = w->o;
    if (!o->data.n) return batches_synthetic(&w->data, m, w->plan, o);
    int status = batches_load(&w->data, &o->data);
    if (status >= 0) return status;
    int64_t batch = o->batch ? o->batch : m->batch;
    if (w->data.samples < batch)
        return tool_fail("%lld samples are fewer than a batch of %lld", (long long)w->data.samples,
                         (long long)batch);
    return batches_cut(&w->data, &(weft_loader_options){.batch = batch, .drop_last = true}, o);
}

/* The store is made before tool_keep_mode removes graphs, as tool_store asks. */
int workload_open(workload *w, weft_model *m, const options *o) {
    *w = (workload){.o = o};
    weft_error error = {0};
    int status = EXIT_FINE;
    if (!(w->store = tool_store(m, o, &status))) return status;
    if (!tool_keep_mode(m, WEFT_TRAIN)) return tool_fail("%s: the model has no training graph", o->model);
    double start = clock_seconds();
    if (!(w->plan = tool_compile(m, o, NULL, 0, &status))) return status;
    w->compile_ms = (clock_seconds() - start) * 1e3;
    if ((status = open_batches(w, m)) >= 0) return status;
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        if (w->n_graphs == WORKLOAD_GRAPHS) return tool_fail("more than %d training graphs", WORKLOAD_GRAPHS);
        if ((status = graph_run_bind(&w->graphs[w->n_graphs++], w->plan, g->name, &w->data, w->data.batch,
                                     NULL)) >= 0)
            return status;
    }
    if ((status = batches_all_used(&w->data, w->n_graphs, w->graphs)) >= 0) return status;
    if (!(w->session = weft_session_open_on(w->plan, w->store, o->comm, &error))) return tool_error(&error);
    tool_watch(w->session, o);
    batches_epoch(&w->data, 0);
    return -1;
}

int workload_sync(workload *w) {
    weft_error error = {0};
    return weft_sync(w->session, &error) ? tool_error(&error) : -1;
}

/* An epoch ends early when it has too few batches left for a step. */
int workload_step(workload *w, bool fetches) {
    int64_t micro = w->o->accumulate ? w->o->accumulate : 1;
    if (w->data.loader && w->data.taken + micro > weft_loader_batches(w->data.loader))
        batches_epoch(&w->data, 0); /* starts over */
    for (int g = 0; g < w->n_graphs; g++) w->graphs[g].is_silent = !fetches;
    return graph_runs_step(w->graphs, w->n_graphs, w->session, &w->data, micro, 0, NULL);
}

void workload_close(workload *w) {
    weft_session_close(w->session);
    weft_store_free(w->store);
    weft_plan_free(w->plan);
    batches_free(&w->data);
}
