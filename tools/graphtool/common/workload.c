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
    return batches_cut(&w->data, &(weft_loader_options){.batch = batch, .drop_last = true, .all = true}, o);
}

int workload_open(workload *w, weft_model *m, const options *o) {
    *w = (workload){.o = o};
    weft_error error = {0};
    int status = EXIT_FINE;
    if (!(w->store = tool_store(m, o, &status))) return status;
    double start = clock_seconds();
    if (!(w->plan = tool_compile(m, o, NULL, 0, &status))) return status;
    w->compile_ms = (clock_seconds() - start) * 1e3;
    if ((status = open_batches(w, m)) >= 0) return status;
    if ((status = flow_open(&w->flow, w->plan, &w->data, o)) >= 0) return status;
    if (!(w->session = weft_session_open_on(w->plan, w->store, o->comm, &error))) return tool_error(&error);
    tool_watch(w->session, o);
    batches_epoch(&w->data, 0);
    return -1;
}

int workload_sync(workload *w) {
    weft_error error = {0};
    return weft_sync(w->session, &error) ? tool_error(&error) : -1;
}

/* An epoch ends early when it has too few batches left for an iteration. */
int workload_step(workload *w, bool fetches) {
    int64_t takes = flow_takes(&w->flow, w->flow.iteration), all = weft_loader_batches(w->data.loader);
    if (w->data.loader && takes > all)
        return tool_fail("an iteration takes %lld batches, the data have %lld", (long long)takes, (long long)all);
    if (w->data.loader && w->data.taken + takes > all) batches_epoch(&w->data, 0); /* starts over */
    for (int g = 0; g < w->flow.n_graphs; g++) w->flow.graphs[g].is_silent = !fetches;
    return flow_run(&w->flow, w->session, &w->data);
}

void workload_close(workload *w) {
    weft_session_close(w->session);
    weft_store_free(w->store);
    weft_plan_free(w->plan);
    batches_free(&w->data);
    flow_close(&w->flow);
}
