/* gradients.c - the gradients between the steps of options.manual: how many micro-batches the ranks have
 * added, what they add up to for one parameter, forgetting them. */
#include "runtime/session/state.h"

#include "ops/optimizer/update.h"

#include <string.h>

/* ---- before an update ---- */

/* Every rank says how many it has added; -1: it has an error. */
static weft_status compare_counts(weft_session *s, const char *graph, int64_t own, weft_error *error) {
    int me = s->comm->rank, world = s->comm->world, from = 0;
    weft_status status = comm_exchange(s->comm, graph, s->votes, (int32_t)own, own < 0 ? NULL : error);
    if (status || own < 0) return status;
    while (from < world && s->votes[from] == own) from++;
    if (from == world) return WEFT_OK;
    if (s->votes[from] < 0)
        return error_set(error, WEFT_PEER, "update: rank %d has an error, so no rank updates by graph %s",
                         from, graph);
    return error_set(
        error, WEFT_PEER,
        "update: rank %d has added %d micro-batches of graph %s, rank %d %d: nothing is updated; "
        "add as many on every rank, or call weft_zero_gradients on all",
        me, s->votes[me], graph, from, s->votes[from]);
}

weft_status session_agree_on_update(weft_session *s, const char *graph, const chosen *c, weft_status own,
                                    weft_error *error) {
    int64_t micro = own ? -1 : c->head->micro;
    weft_status status = s->comm && s->comm->world > 1 ? compare_counts(s, graph, micro, error) : WEFT_OK;
    if (own || status) return own ? own : status;
    if (micro) return WEFT_OK;
    return error_set(error, WEFT_ORDER,
                     "update: graph %s has added no gradients since its last update: call weft_run first",
                     graph);
}

/* ---- one parameter's ---- */

/* The graph's programs in a manual plan, or an error that begins with `call`. */
static weft_status find_manual(weft_session *s, const char *call, const char *graph, chosen *c,
                               weft_error *error) {
    if (!s || !graph)
        return error_set(error, WEFT_ARGUMENT, "%s: a session and a graph's name are needed", call);
    weft_status status = session_find(s, graph, c, error);
    if (status || (s->plan->options.manual && c->add)) return status;
    return error_set(error, WEFT_ORDER, "%s: graph %s keeps no gradients: %s", call, graph,
                     c->head->p->trains ? "compile with options.manual" : "it trains nothing");
}

/* The minimize call of the graph that trains the parameter; NULL: none. Variables that were made after it, as
 * buckets and optimizers' state, are not in its list. */
static const training *training_of(const weft_plan *plan, const char *graph, const weft_variable *v) {
    bool is_parameter = v && v->kind == VARIABLE_PARAMETER;
    for (int i = 0; is_parameter && i < plan->n_trainings; i++)
        if (strcmp(plan->trainings[i].name, graph) == 0 && plan->trainings[i].trains[v->index])
            return &plan->trainings[i];
    return NULL;
}

/* Adds up in `into` what the levels of the step's `micro` micro-batches have for v, as accumulate.c does: the
 * highest first. */
static weft_status add_levels(const weft_session *s, const weft_variable *v, int64_t micro, float *into,
                              weft_error *error) {
    enum { CHUNK = 4096 };
    float chunk[CHUNK];
    int64_t n = type_elements(&v->type);
    int top = accumulate_levels(micro) - 1;
    weft_status status = WEFT_OK;
    for (int l = top; l >= 0 && !status; l--) {
        const weft_variable *level = gradient_levels(s->plan, v->bucket)[l];
        const float *from = store_memory(s->store, level->path, &level->type);
        if (!(micro >> l & 1)) continue;
        if (l == top) status = store_fetch(s->store, into, from + v->offset, (size_t)n * sizeof *into, error);
        for (int64_t at = 0; l < top && at < n && !status; at += CHUNK) {
            int64_t count = n - at < CHUNK ? n - at : CHUNK;
            status =
                store_fetch(s->store, chunk, from + v->offset + at, (size_t)count * sizeof *chunk, error);
            for (int64_t i = 0; i < count && !status; i++) into[at + i] += chunk[i];
        }
    }
    return status;
}

/* Takes f16's loss scale out of n gradients. */
static weft_status unscale(const weft_session *s, const optimizer_entry *o, int64_t n, float *gradient,
                           weft_error *error) {
    double scale = 1;
    if (!o || !o->loss_scale) return WEFT_OK;
    const double *at = store_memory(s->store, o->loss_scale->path, &o->loss_scale->type);
    weft_status status = store_fetch(s->store, &scale, at, sizeof scale, error);
    for (int64_t i = 0; i < n && !status; i++) gradient[i] = (float)(gradient[i] / scale);
    return status;
}

weft_status weft_gradient_get(weft_session *s, const char *graph, const char *parameter, float *into,
                              size_t bytes, weft_error *error) {
    chosen c;
    weft_status status = find_manual(s, "weft_gradient_get", graph, &c, error);
    if (status || (status = session_check_sums(s, &c, error))) return status;
    const weft_variable *v = parameter ? variable_find(s->plan->model, parameter) : NULL;
    const training *t = training_of(s->plan, graph, v);
    if (!t)
        return error_set(error, WEFT_NAME, "weft_gradient_get: graph %s trains no parameter '%s'", graph,
                         SHOW(parameter));
    if (!into || bytes != type_bytes(&v->type))
        return error_set(error, WEFT_SHAPE,
                         "weft_gradient_get: the gradient of %s has %zu bytes; the caller has room for %zu",
                         v->path, type_bytes(&v->type), into ? bytes : 0);
    if (!c.head->micro)
        return error_set(error, WEFT_ORDER,
                         "weft_gradient_get: graph %s has added no gradients since its last update", graph);
    status = add_levels(s, v, c.head->micro, into, error);
    return status ? status
                  : unscale(s, optimizer_named(s->plan, t->optimizer), type_elements(&v->type), into, error);
}

/* ---- none ---- */

weft_status weft_zero_gradients(weft_session *s, const char *graph, weft_error *error) {
    chosen c;
    weft_status status = find_manual(s, "weft_zero_gradients", graph, &c, error);
    if (!status) session_forget_step(c.head);
    return status;
}
