/* save.c - writes one file of what the ranks of a world hold together, as torch's ZeroRedundancyOptimizer
 * does after consolidate_state_dict; but no rank ever holds all of it.
 *
 * Rank 0 writes. All ranks walk through the file's tensors in the same pieces. A piece that all hold is rank
 * 0's own. A piece of sharded state is gathered in rank 0's process group: each rank sends the part of it in
 * its range. Other groups have state of their own, which is not saved. */
#include "runtime/session/state.h"
#include "runtime/store/weights.h"
#include "weft/file.h"

typedef struct saving {
    weft_session *session;
    weights w;
    safetensors_writer file;
    safetensors_tensor *tensors; /* those of w, then those of more */
    const save_more *more;
    size_t *counts; /* [world]: elements of each rank in a gather */
} saving;

static bool is_alone(const weft_session *s) {
    return !s->comm || s->comm->world == 1;
}

/* Elements [begin, end) of a tensor. */
typedef struct span {
    int64_t begin, end;
} span;

static span common(span a, span b) {
    span c = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (c.end < c.begin) c.end = c.begin;
    return c;
}

/* Rank 0's place in the process group of a part, or -1: another group, whose state is not saved. */
static int place_of_writer(const weft_session *s, const store_part *p) {
    const subgraph *g = subgraph_of(s->plan, p->parameter);
    for (int i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == 0) return i;
    return -1;
}

/* Gathers the elements `wanted` of a sharded part. The writer gets them in `into`; the other ranks of its
 * group need the room too. */
static weft_status gather(saving *v, const store_part *p, span wanted, void *into, weft_error *error) {
    weft_session *s = v->session;
    int writer = place_of_writer(s, p);
    if (writer < 0) return WEFT_OK;
    size_t count = (size_t)(wanted.end - wanted.begin), width = dtype_bytes(p->type.dtype);
    span own = common((span){p->begin, p->end}, wanted);
    weft_status status = WEFT_OK;
    if (own.begin < own.end)
        status = store_read(s->store, p, (size_t)(own.begin - p->begin) * width,
                            (char *)into + (size_t)(own.begin - wanted.begin) * width,
                            (size_t)(own.end - own.begin) * width, error);
    if (status) return status;
    for (int r = 0; r < p->cut->n_ranks; r++) {
        span has = {p->cut->starts[r] - p->offset, p->cut->starts[r + 1] - p->offset};
        span part = common(has, wanted);
        v->counts[r] = (size_t)(part.end - part.begin);
    }
    if (v->counts[writer] == count) return WEFT_OK;
    weft_collective c = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                         .dtype = p->type.dtype,
                         .name = p->path,
                         .buffer = into,
                         .count = count,
                         .counts = v->counts};
    return weft_comm_run(part_group(s, p), &c, error);
}

/* safetensors_data asks for bytes [at, at + bytes) of a tensor; see there. */
static weft_status give(void *context, int index, uint64_t at, void *into, size_t bytes, weft_error *error) {
    saving *v = context;
    if (index >= v->w.n) return v->more->fill(v->more->context, index - v->w.n, at, into, bytes, error);
    const store_part *p = v->w.list[index].part;
    int64_t width = (int64_t)dtype_bytes(p->type.dtype), first = (int64_t)at / width;
    if (p->cut && !is_alone(v->session))
        return gather(v, p, (span){first, first + (int64_t)bytes / width}, into, error);
    if (!is_alone(v->session) && v->session->comm->rank) return WEFT_OK;
    return store_read(v->session->store, p, at, into, bytes, error);
}

/* Checks that session and store were made for plans with the same process groups. */
static weft_status check_groups(const saving *v, const char *path, weft_error *error) {
    for (int i = 0; i < v->w.n; i++) {
        const store_part *p = v->w.list[i].part;
        if (p->cut && !is_alone(v->session) && part_group(v->session, p)->world != p->cut->n_ranks)
            return error_set(error, WEFT_ORDER,
                             "%.400s: the store shards %s over %d ranks, but the session's group has %d",
                             path, SHOW(p->path), p->cut->n_ranks, part_group(v->session, p)->world);
    }
    return WEFT_OK;
}

/* The tensors of the file: those of the store, then what is more. With more it is not a file of weights, and
 * says nothing of what they are. */
static bool list_tensors(saving *v) {
    int n = v->w.n, more = v->more ? v->more->n : 0;
    v->tensors = arena_new_array(&v->w.arena, n + more, sizeof *v->tensors);
    for (int i = 0; v->tensors && i < n; i++) {
        v->tensors[i] = v->w.tensors[i];
        if (!v->more) continue;
        v->tensors[i].says = NULL;
        v->tensors[i].name = arena_printf(&v->w.arena, "%s%s", v->more->prefix, v->w.tensors[i].name);
        if (!v->tensors[i].name) return false;
    }
    for (int i = 0; v->tensors && i < more; i++) v->tensors[n + i] = v->more->tensors[i];
    return v->tensors != NULL;
}

/* Collects the tensors and, on rank 0, opens the file. The other ranks walk through the same list without
 * one. */
static weft_status begin_file(saving *v, const char *path, bool training, weft_error *error) {
    weft_session *s = v->session;
    bool writes = is_alone(s) || s->comm->rank == 0;
    const char *name = path ? path : "weights";
    if (weights_collect(&v->w, s->store, training, name, error)) return error->status;
    if (writes && !path) return error_set(error, WEFT_ARGUMENT, "weft_session_save: a path is needed");
    if (check_groups(v, name, error) || (training && store_check_parameters(s->store, name, error)))
        return error->status;
    v->counts = arena_new_array(&v->w.arena, s->comm ? (size_t)s->comm->world : 1, sizeof *v->counts);
    if (!v->counts || !list_tensors(v)) return error_memory(error, name);
    return safetensors_begin(&v->file, writes ? path : NULL, &s->store->env,
                             v->w.n + (v->more ? v->more->n : 0), v->tensors, v->more ? v->more->hash : NULL,
                             error);
}

/* The file's stages; after each the ranks settle, so that all return an error if one fails. */
weft_status session_save_with(weft_session *s, const char *path, bool training, const save_more *more,
                              weft_error *error) {
    saving v = {.session = s, .more = more};
    weft_status status = begin_file(&v, path, training, error);
    bool has_begun = !status, is_agreed;
    status = ranks_settle(s, training ? "save training" : "save", status, error);
    is_agreed = !status;
    if (is_agreed) status = safetensors_data(&v.file, give, &v);
    if (has_begun) status = safetensors_finish(&v.file, status);
    if (is_agreed) status = ranks_settle(s, "saved", status, error);
    arena_free(&v.w.arena);
    return status;
}

/* Called by every rank of the world. */
weft_status weft_session_save(weft_session *s, const char *path, bool training, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!s) return error_set(error, WEFT_ARGUMENT, "weft_session_save: there is no session");
    weft_status status = weft_sync(s, error); /* its failure ends the communicator on all ranks */
    if (status) return status;
    if (is_alone(s)) return weft_weights_save(s->store, path, training, error);
    return session_save_with(s, path, training, NULL, error);
}
