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
    alone.manual = false;
    alone.world = alone.rank = 0; /* ranks share the batches, not the steps */
    if (rows) alone.batch = rows;
    weft_plan_free(s->plan[which]);
    s->plan[which] = weft_compile(m, &alone, error);
    return s->plan[which] ? WEFT_OK : error->status;
}

/* Ranks take other batches, and not equally many. */
static weft_status check_ranks(const sweep *s, const char *graph, weft_error *error) {
    const char *op = weft_plan_over_ranks(s->plan[0], graph);
    if (!op || !s->comm || s->comm->world == 1) return WEFT_OK;
    return kit_fail(
        error, WEFT_UNSUPPORTED,
        "graph %s has an op over ranks, %s: ranks evaluate different batches, so it cannot run: take "
        "it out of this graph, or call weft_run() on all ranks",
        graph, op);
}

/* Metrics of the smaller last batch are those of whole batches, at the same places. */
static weft_status bind(sweep *s, int which, const sweep_options *of, int64_t rows, weft_error *error) {
    bound *r = &s->run[which];
    return bound_open(r, s->plan[which], of->graph, &s->data, of->fed, rows, of->output, error) ||
                   (!of->output && !which && metrics_add(&s->metrics, r, error)) ||
                   measures_bind(&s->measures, which, s->plan[which], r, rows, error)
               ? error->status
               : WEFT_OK;
}

static weft_status open_rest(sweep *s, const weft_model *m, const weft_compile_options *how,
                             const sweep_options *of, int64_t rest, weft_error *error) {
    weft_error why = {0};
    weft_status status = compile(s, 1, m, how, of->graph, rest, &why);
    if (status)
        return kit_fail(error, status, "the last batch of %jd samples, graph %s: %s", rest, of->graph,
                        why.text);
    return bind(s, 1, of, rest, error);
}

/* A data set with fewer samples than a batch is one batch. */
weft_status sweep_open(sweep *s, const weft_model *m, const weft_compile_options *how,
                       const sweep_options *of, weft_error *error) {
    *s = (sweep){.comm = of->comm,
                 .metrics = {.memory = kit_arena_of(of->env)},
                 .is_open = true,
                 .checks = of->checks,
                 .no_capture = of->no_capture};
    if (measures_open(&s->measures, of->n_evaluators, of->evaluators, of->env, error) ||
        compile(s, 0, m, how, of->graph, 0, error) || check_ranks(s, of->graph, error))
        return error->status;
    int64_t samples = dataset_samples(of->data), rows = plan_rows(s->plan[0], of->graph, of->fed);
    if (of->data->n && samples < rows && compile(s, 0, m, how, of->graph, rows = samples, error))
        return error->status;
    weft_loader_options cut = {.batch = rows};
    if (of->comm) cut.rank = of->comm->rank, cut.num_replicas = of->comm->world;
    if (batches_open(&s->data, of->data, s->plan[0], of->graph, &cut, of->comm, of->env, error) ||
        bind(s, 0, of, rows, error) || batches_all_used(&s->data, 1, s->run, error))
        return error->status;
    return samples % rows ? open_rest(s, m, how, of, samples % rows, error) : WEFT_OK;
}

void sweep_close(sweep *s) {
    for (int i = 0; i < 2; i++) {
        weft_session_close(s->session[i]);
        bound_close(&s->run[i]);
        weft_plan_free(s->plan[i]);
    }
    kit_release(s->metrics.memory);
    measures_close(&s->measures);
    batches_close(&s->data);
    *s = (sweep){0};
}

uint64_t sweep_bytes(const sweep *s) {
    uint64_t bytes = 0;
    for (int i = 0; i < 2 && s->plan[i]; i++) {
        weft_memory m = weft_plan_memory(s->plan[i]);
        bytes += m.activations + m.derived + m.inputs;
    }
    return bytes;
}

void sweep_restart(sweep *s) {
    batches_epoch(&s->data, 0);
    /* without data there is one batch, which rank 0 runs */
    if (!s->data.loader && s->comm) s->data.taken = s->comm->rank;
    metrics_clear(&s->metrics);
    measures_clear(&s->measures);
    s->is_begun = true;
}

weft_status sweep_sessions(sweep *s, weft_store *store, weft_error *error) {
    for (int i = 0; i < 2; i++) {
        if (!s->plan[i] || s->session[i]) continue;
        if (!(s->session[i] = weft_session_open(s->plan[i], store, error))) return error->status;
        weft_session_set_check(s->session[i], s->checks);
        weft_session_set_capture(s->session[i], !s->no_capture);
    }
    return WEFT_OK;
}

weft_status sweep_next(sweep *s, weft_store *store, int *which, weft_error *error) {
    *which = -1;
    if (sweep_sessions(s, store, error)) return error->status;
    if (!s->is_begun) sweep_restart(s);
    bool is_left = s->data.loader || s->data.taken == 0;
    if (is_left && batches_next(&s->data, &is_left, error)) return error->status;
    if (!is_left) return WEFT_OK;
    *which = s->data.rows != s->data.batch;
    return bound_run(&s->run[*which], s->session[*which], &s->data, true, error);
}

weft_status sweep_run(sweep *s, weft_store *store, weft_error *error) {
    int which = 0;
    sweep_restart(s);
    s->samples = 0;
    while (!sweep_next(s, store, &which, error) && which >= 0) {
        metrics_note(&s->metrics, &s->run[which], (double)s->data.rows);
        if (measures_batch(&s->measures, which, &s->data, error)) break;
        s->samples += (double)s->data.rows;
    }
    s->is_begun = false;
    return error->status;
}

weft_status sweep_means(sweep *s, weft_metrics *out, weft_error *error) {
    double samples = s->samples;
    weft_status status = metrics_means(&s->metrics, s->comm, &samples, out, error);
    if (!status) status = measures_report(&s->measures, s->comm, out, error);
    out->samples = (int64_t)samples;
    return status;
}
