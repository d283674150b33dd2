/* sweep.c - runs every sample once. The mean of a batch is weighted with its number of rows. */
#include "tools/graphtool/common/sweep.h"

#include "tools/graphtool/common/world.h"

#include "graph/core/graph.h"

#include <string.h>

/* Plan and run number `which`, for batches of `batch` rows. */
static int compile_and_bind(sweep *s, int which, const weft_model *m, const options *o, const char *graph,
                            int64_t batch, const char *fetch) {
    int status = EXIT_FINE;
    if (!(s->plan[which] = tool_compile(m, o, graph, batch, &status))) return status;
    return graph_run_bind(&s->run[which], s->plan[which], graph, &s->data, batch, fetch);
}

/* A file with fewer samples than a batch gives one batch of them all. */
int sweep_open(sweep *s, const weft_model *m, const options *o, const char *graph, const text_list *files,
               const char *fetch) {
    *s = (sweep){.alone = *o, .comm = o->comm};
    s->alone.accumulate = 0;
    s->alone.flow = NULL;
    int status = batches_load(&s->data, files);
    if (status >= 0) return status;
    int64_t batch = o->batch ? o->batch : m->batch;
    if (s->data.n && s->data.samples < batch) batch = s->data.samples;
    if ((status = batches_cut(&s->data, &(weft_loader_options){.batch = batch}, &s->alone)) >= 0)
        return status;
    s->alone.comm = NULL;
    if ((status = compile_and_bind(s, 0, m, &s->alone, graph, batch, fetch)) >= 0) return status;
    if ((status = batches_all_used(&s->data, 1, s->run)) >= 0) return status;
    int64_t rest = s->data.n ? s->data.samples % batch : 0;
    if (rest) status = compile_and_bind(s, 1, m, &s->alone, graph, rest, fetch);
    return status;
}

int sweep_attach(sweep *s, weft_store *store) {
    weft_error error = {0};
    for (int i = 0; i < 2; i++)
        if (s->plan[i] && !(s->session[i] = weft_session_open(s->plan[i], store, &error)))
            return tool_error(&error);
    sweep_restart(s);
    return -1;
}

void sweep_restart(sweep *s) {
    batches_epoch(&s->data, 0);
    /* without data there is one batch, which rank 0 runs */
    if (!s->data.n && s->comm) s->data.taken = s->comm->rank;
}

int sweep_next(sweep *s, int *which) {
    int status = !s->data.loader && s->data.taken ? BATCHES_END : batches_next(&s->data);
    if (status != -1) return status;
    *which = s->data.rows != s->data.batch;
    return graph_run_once(&s->run[*which], s->session[*which], &s->data);
}

/* sums[n] counts rows; over ranks one world_sum adds everything. */
int sweep_means(sweep *s, double *means, int64_t *samples) {
    int which, status, n = s->run[0].n_out;
    double sums[RUN_MAX_PORTS + 1] = {0};
    sweep_restart(s);
    while ((status = sweep_next(s, &which)) == -1) {
        for (int i = 0; i < n; i++) sums[i] += (double)s->run[which].values[i] * (double)s->data.rows;
        sums[n] += (double)s->data.rows;
    }
    if (status == BATCHES_END && s->comm) {
        options all = s->alone;
        all.comm = s->comm;
        int summed = world_sum(&all, n + 1, sums);
        if (summed >= 0) return summed;
    }
    *samples = (int64_t)sums[n];
    for (int i = 0; i < n && *samples; i++) means[i] = sums[i] / (double)*samples;
    return status == BATCHES_END ? -1 : status;
}

void sweep_close(sweep *s) {
    for (int i = 0; i < 2; i++) {
        weft_session_close(s->session[i]);
        weft_plan_free(s->plan[i]);
    }
    batches_free(&s->data);
}
