/* predict.c - one output of a graph for every sample of a data set, batch after batch into one array. */
#include "runtime/train/trainer.h"

/* Whether the output of run `which` has a row for each of `rows` samples, as the one of run 0 except for
 * their number. */
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
    return weft_array_new(p->dtype, ndim, shape, NULL, env, error);
}

static weft_status collect(sweep *s, weft_store *store, char *into, weft_error *error) {
    int which = 0;
    sweep_restart(s);
    while (which >= 0) {
        for (int i = 0; i < 2; i++)
            if (s->plan[i]) s->run[i].fetches[0].data = into;
        if (sweep_next(s, store, &which, error)) return error->status;
        if (which >= 0) into += s->run[which].fetches[0].bytes;
    }
    return WEFT_OK;
}

/* Plans for the graph are made here, as only this call knows the data. */
weft_status prediction_open(sweep *s, const weft_trainer *t, const char *graph, const char *output,
                            const weft_dataset *data, weft_error *error) {
    weft_dataset none = {0};
    if (data && dataset_check(data, "data: n", error)) return error->status;
    sweep_options of = {.graph = graph ? graph : "predict",
                        .data = data ? data : &none,
                        .fed = &t->fed,
                        .output = output ? output : "",
                        .env = t->env,
                        .checks = t->options.check,
                        .no_capture = t->options.no_capture};
    return sweep_open(s, t->model, &t->options.compile, &of, error);
}

weft_status prediction_type(const sweep *s, tensor *type, weft_error *error) {
    const weft_port *out = &s->run[0].out[0];
    weft_status status = check_rows(s, error);
    *type = tensor_of(out->dtype, out->ndim, out->shape);
    return status;
}

weft_array *prediction_run(sweep *s, const weft_trainer *t, weft_error *error) {
    if (t->session && weft_sync(t->session, error)) return NULL;
    fed_now(t);
    weft_array *result = room_for(s, t->env, error);
    if (result && collect(s, t->store, weft_array_mutable_data(result), error)) {
        weft_array_free(result);
        result = NULL;
    }
    for (int i = 0; i < 2; i++) { /* they are of the store, which may end first */
        weft_session_close(s->session[i]);
        s->session[i] = NULL;
    }
    return result;
}

weft_array *weft_trainer_predict(weft_trainer *t, const char *graph, const char *output,
                                 const weft_dataset *data, weft_error *error) {
    weft_error own;
    sweep s = {0};
    weft_array *result = NULL;
    error = kit_error(error, &own);
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "weft_trainer_predict: the trainer is NULL"), NULL;
    if (!prediction_open(&s, t, graph, output, data, error)) {
        if (data) batches_tell(&s.data, data, t);
        result = prediction_run(&s, t, error);
    }
    sweep_close(&s);
    return result;
}
