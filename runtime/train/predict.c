/* predict.c - one output of a graph for every sample of a data set, batch after batch into one array. */
#include "runtime/train/trainer.h"

#include <string.h>

/* The first output of a graph, for when none is named: the trainer's plan may be for other graphs. NULL after
 * an error. */
static const char *first_output(const weft_trainer *t, const weft_compile_options *how, const char *graph,
                                weft_port *port, weft_plan **own, weft_error *error) {
    if (weft_plan_output(t->plan, graph, 0, port)) return port->name;
    if (!(*own = weft_compile(t->model, how, error))) return NULL;
    if (weft_plan_output(*own, graph, 0, port)) return port->name;
    kit_fail(error, WEFT_NAME, "predict: graph %s has no output", graph);
    return NULL;
}

/* Whether the output of run `which` has a row for each of `rows` samples, as the one of run 0 but for their
 * number. */
static bool has_rows(const sweep *s, int which, int64_t rows) {
    const weft_port *p = &s->run[which].out[0], *first = &s->run[0].out[0];
    if (!p->ndim || p->ndim != first->ndim || p->shape[0] != rows) return false;
    for (int i = 1; i < p->ndim; i++)
        if (p->shape[i] != first->shape[i]) return false;
    return true;
}

/* All batches have rows by sample, or there is one without. */
static weft_status check_rows(const sweep *s, weft_error *error) {
    if (!s->data.loader) return WEFT_OK;
    int64_t rest = s->data.samples % s->data.batch;
    if (has_rows(s, 0, s->data.batch) && (!rest || has_rows(s, 1, rest))) return WEFT_OK;
    return kit_fail(error, WEFT_SHAPE, "predict: output %s has no axis of samples", s->run[0].out[0].name);
}

/* An array for the rows of all batches. An output without a batch axis (its rows are not those of a batch) is
 * that of the one batch there is. */
static weft_array *room_for(const sweep *s, weft_env const *env, weft_error *error) {
    const weft_port *p = &s->run[0].out[0];
    int64_t shape[WEFT_MAX_NDIM] = {1};
    int ndim = p->ndim ? p->ndim : 1;
    if (p->ndim) memcpy(shape, p->shape, sizeof shape);
    if (check_rows(s, error)) return NULL;
    if (s->data.loader) shape[0] = s->data.samples;
    return weft_array_of(p->dtype, ndim, shape, NULL, env, error);
}

static weft_status collect(sweep *s, weft_store *store, char *into, weft_error *error) {
    int which = 0;
    weft_status status = WEFT_OK;
    sweep_restart(s);
    while (!status && which >= 0) {
        for (int i = 0; i < 2; i++)
            if (s->plan[i]) s->run[i].fetches[0].data = into;
        status = sweep_next(s, store, &which, error);
        if (which >= 0) into += s->run[which].fetches[0].bytes;
    }
    return status;
}

/* Compiles and binds. Plans for the graph are made here, as only this call knows the data. *own: a plan whose
 * texts the output's name may be. */
static weft_status open_sweep(sweep *s, const weft_trainer *t, const char *graph, const char *output,
                              const weft_dataset *data, weft_plan **own, weft_error *error) {
    weft_dataset none = {0};
    weft_port port;
    graph = graph ? graph : "predict";
    weft_compile_options how = t->options.compile;
    how.graph = graph;
    how.flow = NULL;
    how.world = how.rank = how.accumulate = 0;
    how.manual = false;
    if (!output && !(output = first_output(t, &how, graph, &port, own, error))) return error->status;
    sweep_options of = {.graph = graph,
                        .data = data ? data : &none,
                        .output = output,
                        .env = t->env,
                        .checks = t->options.check,
                        .no_capture = t->options.no_capture};
    return sweep_open(s, t->model, &how, &of, error);
}

weft_status prediction_open(prediction *p, const weft_trainer *t, const char *graph, const char *output,
                            const weft_dataset *data, weft_error *error) {
    return open_sweep(&p->sweep, t, graph, output, data, &p->names, error);
}

weft_status prediction_type(const prediction *p, tensor *type, weft_error *error) {
    const weft_port *out = &p->sweep.run[0].out[0];
    weft_status status = check_rows(&p->sweep, error);
    *type = (tensor){.dtype = out->dtype, .ndim = out->ndim};
    memcpy(type->shape, out->shape, sizeof type->shape);
    return status;
}

weft_array *prediction_run(prediction *p, const weft_trainer *t, weft_error *error) {
    weft_array *result = NULL;
    weft_status status = t->session ? weft_sync(t->session, error) : WEFT_OK;
    if (!status && (result = room_for(&p->sweep, t->env, error)) &&
        collect(&p->sweep, t->store, weft_array_write(result), error)) {
        weft_array_free(result);
        result = NULL;
    }
    for (int i = 0; i < 2; i++) { /* they are of the store, which may end first */
        weft_session_close(p->sweep.session[i]);
        p->sweep.session[i] = NULL;
    }
    return result;
}

void prediction_close(prediction *p) {
    sweep_close(&p->sweep);
    weft_plan_free(p->names);
}

weft_array *weft_trainer_predict(weft_trainer *t, const char *graph, const char *output,
                                 const weft_dataset *data, weft_error *error) {
    weft_error own = {0};
    prediction p = {0};
    weft_array *result = NULL;
    error = error ? error : &own;
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "weft_trainer_predict: the trainer is NULL"), NULL;
    bool is_open = !prediction_open(&p, t, graph, output, data, error);
    if (is_open && data) batches_tell(&p.sweep.data, data, t);
    if (is_open) result = prediction_run(&p, t, error);
    prediction_close(&p);
    return result;
}
