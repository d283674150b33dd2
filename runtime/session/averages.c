/* averages.c - weft_use_averages: averages of parameters (weft_optimizer.ema) in the place of parameters, and
 * back. Both are in the store, so they are exchanged there, and no plan has to know of it: what reads
 * parameters, such as an evaluation, a prediction or a file of weights, reads averages. With ZeRO a rank has
 * the averages of its range: it exchanges those, and then the ranks gather the whole parameter. */
#include "runtime/session/state.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 18 /* elements that are exchanged, or gathered, at once */ };

typedef struct exchange {
    weft_session *session;
    float *own, *other; /* [PIECE] */
    size_t *counts;     /* [world] */
    weft_error *error;
} exchange;

/* An average that has not begun is NaN: its parameter stays. A parameter that is NaN stays, too, so that the
 * way back exchanges the same elements. */
static void exchange_numbers(float *averages, float *parameters, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float average = averages[i];
        if (isnan(average) || isnan(parameters[i])) continue;
        averages[i] = parameters[i];
        parameters[i] = average;
    }
}

/* Exchanges this rank's range of an average with the parameter's. */
static weft_status exchange_own(const exchange *x, const store_part *average, const store_part *parameter) {
    weft_store *store = x->session->store;
    for (int64_t at = average->begin; at < average->end; at += PIECE) {
        size_t first = (size_t)(at - average->begin) * sizeof(float), of = (size_t)at * sizeof(float);
        size_t bytes = (size_t)(average->end - at < PIECE ? average->end - at : PIECE) * sizeof(float);
        if (store_read(store, average, first, x->own, bytes, x->error) ||
            store_read(store, parameter, of, x->other, bytes, x->error))
            return x->error->status;
        exchange_numbers(x->own, x->other, bytes / sizeof(float));
        if (store_write(store, average, first, x->own, bytes, x->error) ||
            store_write(store, parameter, of, x->other, bytes, x->error))
            return x->error->status;
    }
    return WEFT_OK;
}

/* The elements of [begin, end) of a parameter that rank r of its group holds the state of. */
static int64_t count_of(const store_part *average, int r, int64_t begin, int64_t end) {
    int64_t from = average->cut->starts[r] - average->offset,
            to = average->cut->starts[r + 1] - average->offset;
    if (from < begin) from = begin;
    if (to > end) to = end;
    return to > from ? to - from : 0;
}

/* Every rank gets what the others have exchanged. */
static weft_status gather_average(const exchange *x, const store_part *average, const store_part *parameter) {
    weft_store *store = x->session->store;
    weft_comm *group = part_group(x->session, average);
    int64_t all = type_elements(&parameter->type);
    for (int64_t at = 0; at < all && group->world > 1; at += PIECE) {
        int64_t end = at + PIECE < all ? at + PIECE : all;
        size_t of = (size_t)at * sizeof(float), count = (size_t)(end - at);
        for (int r = 0; r < group->world; r++) x->counts[r] = (size_t)count_of(average, r, at, end);
        weft_collective c = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                             .dtype = WEFT_F32,
                             .name = average->path,
                             .buffer = x->own,
                             .count = count,
                             .counts = x->counts};
        weft_status status;
        if ((status = store_read(store, parameter, of, x->own, count * sizeof(float), x->error)) ||
            (status = weft_comm_run(group, &c, x->error)) ||
            (status = store_write(store, parameter, of, x->own, count * sizeof(float), x->error)))
            return status;
    }
    return WEFT_OK;
}

static weft_status exchange_all(const exchange *x) {
    const weft_store *store = x->session->store;
    const store_part *average;
    for (int i = 0; (average = store_part_at(store, i)); i++) {
        if (average->kind != WEFT_STORED_AVERAGE) continue;
        const store_part *parameter = store_part_of(store, average->parameter);
        weft_status status = exchange_own(x, average, parameter);
        if (!status && average->cut && x->session->comm) status = gather_average(x, average, parameter);
        if (status) return status;
    }
    return WEFT_OK;
}

/* Whether ranks hold ranges of averages (ZeRO): else each exchanges its own, and needs no other. */
static weft_status find_any(const weft_store *store, bool *are_sharded, weft_error *error) {
    bool are_there = false;
    const store_part *p;
    *are_sharded = false;
    for (int i = 0; (p = store_part_at(store, i)); i++) {
        bool is_average = p->kind == WEFT_STORED_AVERAGE;
        are_there |= is_average;
        *are_sharded |= is_average && p->cut;
    }
    if (are_there) return WEFT_OK;
    return error_set(error, WEFT_NAME,
                     "weft_use_averages: no optimizer of the plan keeps averages: set weft_optimizer.ema");
}

bool weft_uses_averages(const weft_store *store) {
    return store && store->has_averages;
}

/* Every rank of the world has the same store, so all do the same, or settle on the error of one. */
weft_status weft_use_averages(weft_session *s, bool on, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!s) return error_set(error, WEFT_ARGUMENT, "weft_use_averages: there is no session");
    bool are_sharded = false;
    weft_status status = weft_sync(s, error);
    if (!status) status = find_any(s->store, &are_sharded, error);
    if (status || s->store->has_averages == on) return status;
    size_t world = s->comm ? (size_t)s->comm->world : 1;
    exchange x = {.session = s, .error = error};
    x.own = mem_new_array(&s->env, 2 * PIECE, sizeof *x.own);
    x.other = x.own ? x.own + PIECE : NULL;
    x.counts = mem_new_array(&s->env, world, sizeof *x.counts);
    if (!x.own || !x.counts) status = error_memory(error, "weft_use_averages");
    if (are_sharded) status = ranks_settle(s, "averages", status, error);
    if (!status) status = exchange_all(&x);
    if (!status) s->store->has_averages = on;
    mem_free(&s->env, x.own, 2 * PIECE * sizeof *x.own);
    mem_free(&s->env, x.counts, world * sizeof *x.counts);
    return status;
}
