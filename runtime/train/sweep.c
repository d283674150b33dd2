/* sweep.c - every sample of a data set once. The mean of a batch counts as many times as it has rows; so the
 * mean over all is exact whatever the batch, the ranks and the rest. */
#include "runtime/train/trainer.h"

/* Plan number `which`, at another batch size than the options' where `rows` is not 0. */
static weft_status compile(sweep *s, int which, const weft_model *m, const weft_compile_options *how,
                           const char *graph, int64_t rows, weft_error *error) {
    weft_compile_options alone = *how;
    alone.graph = graph;
    alone.flow = NULL;
    alone.accumulate = 0;
    alone.world = alone.rank = 0; /* ranks share the batches, not the steps */
    if (rows) alone.batch = rows;
    weft_plan_free(s->plan[which]);
    s->plan[which] = weft_compile(m, &alone, error);
    return s->plan[which] ? WEFT_OK : error->status;
}

static weft_status bind(sweep *s, int which, const char *graph, int64_t rows, const char *output,
                        weft_error *error) {
    weft_status status = bound_open(&s->run[which], s->plan[which], graph, &s->data, rows, output, error);
    return status || output || which ? status : metrics_add(&s->metrics, &s->run[which], error);
}

/* The smaller last batch. Its metrics are those of whole batches, at the same places. */
static weft_status open_rest(sweep *s, const weft_model *m, const weft_compile_options *how,
                             const char *graph, int64_t rest, const char *output, weft_error *error) {
    weft_error why = {0};
    weft_status status = compile(s, 1, m, how, graph, rest, &why);
    if (status)
        return kit_fail(error, status, "the last batch of %lld samples, graph %s: %s", (long long)rest, graph,
                        why.text);
    return status ? status : bind(s, 1, graph, rest, output, error);
}

/* A data set with fewer samples than a batch is one batch. */
weft_status sweep_open(sweep *s, const weft_model *m, const weft_compile_options *how, const char *graph,
                       const weft_dataset *data, weft_comm *comm, const char *output, const weft_env *env,
                       weft_error *error) {
    *s = (sweep){.comm = comm, .metrics = {.env = env}};
    weft_status status = compile(s, 0, m, how, graph, 0, error);
    if (status) return status;
    int64_t samples = dataset_samples(data), rows = plan_rows(s->plan[0], graph);
    if (data->n && samples < rows) status = compile(s, 0, m, how, graph, rows = samples, error);
    weft_loader_options cut = {.batch = rows};
    if (comm) cut.rank = comm->rank, cut.num_replicas = comm->world;
    if (!status) status = batches_open(&s->data, data, &cut, comm, env, error);
    if (!status) status = bind(s, 0, graph, rows, output, error);
    if (!status) status = batches_all_used(&s->data, 1, s->run, error);
    return status || samples % rows == 0 ? status
                                         : open_rest(s, m, how, graph, samples % rows, output, error);
}

void sweep_close(sweep *s) {
    for (int i = 0; i < 2; i++) {
        weft_session_close(s->session[i]);
        bound_close(&s->run[i]);
        weft_plan_free(s->plan[i]);
    }
    metrics_close(&s->metrics);
    batches_close(&s->data);
}

void sweep_restart(sweep *s) {
    batches_epoch(&s->data, 0);
    /* without data there is one batch, which rank 0 runs */
    if (!s->data.loader && s->comm) s->data.taken = s->comm->rank;
    metrics_clear(&s->metrics);
    s->is_begun = true;
}

static weft_status open_sessions(sweep *s, weft_store *store, weft_error *error) {
    for (int i = 0; i < 2; i++)
        if (s->plan[i] && !s->session[i] && !(s->session[i] = weft_session_open(s->plan[i], store, error)))
            return error->status;
    return WEFT_OK;
}

weft_status sweep_next(sweep *s, weft_store *store, int *which, weft_error *error) {
    weft_status status = open_sessions(s, store, error);
    *which = -1;
    if (!s->is_begun) sweep_restart(s);
    bool is_left = s->data.loader || s->data.taken == 0;
    if (!status && is_left) status = batches_next(&s->data, &is_left, error);
    if (status || !is_left) return status;
    *which = s->data.rows != s->data.batch;
    return bound_run(&s->run[*which], s->session[*which], &s->data, true, error);
}

weft_status sweep_means(sweep *s, weft_store *store, weft_metrics *out, weft_error *error) {
    int which = 0;
    double samples = 0;
    weft_status status = WEFT_OK;
    sweep_restart(s);
    while (!status && !(status = sweep_next(s, store, &which, error)) && which >= 0) {
        metrics_note(&s->metrics, &s->run[which], (double)s->data.rows);
        samples += (double)s->data.rows;
    }
    s->is_begun = false;
    if (!status) status = metrics_means(&s->metrics, s->comm, &samples, 1, out, error);
    out->samples = (int64_t)samples;
    return status;
}
