/* load.c - loads a checkpoint into a store of the same model, whatever plan either was made for. All is
 * checked before the first value changes. */
#include "graph/core/compare.h"
#include "runtime/checkpoint/checkpoint.h"

typedef struct loading {
    const weft_checkpoint *c;
    weft_store *store;
    weights w;
    entries from;
    const weight **to;     /* [from.n_wholes]; NULL: this store has no such value, and need not */
    const entry **by_file; /* [from.n] */
} loading;

/* A step of 1e300 or a negative lr would show only in the results of training. */
static weft_status check_number(loading *l, const whole *from, const store_part *to, weft_error *error) {
    double value;
    if (!stored_is_number(to->kind)) return WEFT_OK;
    weft_status status = entries_read(&l->from, from, 0, &value, sizeof value, error);
    const char *why = status ? NULL : store_number_rule(to, value);
    return why ? error_set(error, WEFT_FILE, "%.400s: %s is %g: %s", l->c->path, SHOW(from->name), value, why)
               : status;
}

/* Finds the value that a tensor is of. */
static weft_status match(loading *l, int i, weft_error *error) {
    const whole *from = &l->from.wholes[i];
    const weight *to = weights_find(&l->w, from->name);
    if (!to && stored_is_optional(from->value.kind)) return WEFT_OK;
    if (!to)
        return error_set(error, WEFT_NAME, "%.400s: the model has no %s: it is a checkpoint of another model",
                         l->c->path, SHOW(from->name));
    if (!type_equal(&from->type, &to->part->type))
        return error_set(error, WEFT_SHAPE,
                         "%.400s: %s is %s, the model's is %s: it is a checkpoint of another model",
                         l->c->path, SHOW(from->name), TYPE(&from->type), TYPE(&to->part->type));
    if (from->first_rank != to->part->first_rank) return WEFT_OK; /* another process group's */
    if (weights_check_kind(l->c->path, &from->value, to, error)) return error->status;
    l->to[i] = to;
    return check_number(l, from, to->part, error);
}

static weft_status check_complete(const loading *l, weft_error *error) {
    for (int i = 0; i < l->w.n; i++)
        if (!entries_find(&l->from, l->w.list[i].name, l->w.list[i].part->first_rank) &&
            !stored_is_optional(l->w.list[i].part->kind))
            return error_set(
                error, WEFT_NAME,
                "%.400s: %s is missing: it is a checkpoint of another model, or of other process groups",
                l->c->path, SHOW(l->w.list[i].name));
    return WEFT_OK;
}

weft_status checkpoint_check_form(const weft_checkpoint *c, uint64_t form, const char *advice,
                                  weft_error *error) {
    if (c->m.form == form) return WEFT_OK;
    return error_set(
        error, WEFT_FILE,
        "%.400s: it is a checkpoint of another model (its fingerprint is %016jx, this model's %016jx)%s",
        c->path, c->m.form, form, advice);
}

static int by_file(const void *a, const void *b) {
    const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
    return by_numbers(x->file, y->file, (int64_t)x->tensor->begin, (int64_t)y->tensor->begin);
}

/* Before the first value changes. */
static weft_status check_fit(loading *l, weft_error *error) {
    if (entries_open(&l->from, l->c, error)) return error->status;
    l->to = arena_new_array(&l->from.arena, l->from.n_wholes, sizeof *l->to);
    l->by_file = arena_new_array(&l->from.arena, l->from.n, sizeof *l->by_file);
    if (!l->to || !l->by_file) return error_memory(error, l->c->path);
    for (int i = 0; i < l->from.n_wholes; i++)
        if (match(l, i, error)) return error->status;
    for (int i = 0; i < l->from.n; i++) l->by_file[i] = &l->from.list[i];
    if (l->from.n) qsort(l->by_file, (size_t)l->from.n, sizeof *l->by_file, by_file);
    if (check_complete(l, error)) return error->status;
    return checkpoint_check_form(l->c, l->store->form, ": " ANOTHER_MODEL, error);
}

/* The elements of an entry that this rank holds, piece by piece. */
static weft_status load_entry(loading *l, const entry *e, const store_part *p, char *piece,
                              weft_error *error) {
    int64_t begin = e->key.begin > p->begin ? e->key.begin : p->begin;
    int64_t end = e->key.end < p->end ? e->key.end : p->end;
    int64_t width = (int64_t)dtype_bytes(p->type.dtype), most = SAFETENSORS_PIECE / width;
    if (begin < end && entries_wake(&l->from, e->file, error)) return error->status;
    for (int64_t at = begin; at < end; at += most) {
        size_t bytes = (size_t)((end - at < most ? end - at : most) * width);
        if (safetensors_read_range(&l->from.files[e->file], e->tensor,
                                   (uint64_t)((at - e->key.begin) * width), piece, bytes, error) ||
            store_write(l->store, p, (size_t)((at - p->begin) * width), piece, bytes, error))
            return error->status;
    }
    return WEFT_OK;
}

static weft_status load_all(loading *l, weft_error *error) {
    char *piece = mem_raw(&l->c->env, SAFETENSORS_PIECE);
    weft_status status = piece ? WEFT_OK : error_memory(error, l->c->path);
    for (int i = 0; !status && i < l->from.n; i++) {
        const entry *e = l->by_file[i];
        if (l->to[e->whole]) status = load_entry(l, e, l->to[e->whole]->part, piece, error);
    }
    mem_free(&l->c->env, piece, SAFETENSORS_PIECE);
    l->store->seed = l->c->m.seed;
    l->store->loaded |= LOADED_STATE | LOADED_VALUES;
    return status;
}

weft_status weft_checkpoint_load(const weft_checkpoint *c, weft_store *store, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!c || !store)
        return error_set(error, WEFT_ARGUMENT, "weft_checkpoint_load: a checkpoint and a store are needed");
    loading l = {.c = c, .store = store};
    if (store_check_settled(store, c->path, error) || store_check_parameters(store, c->path, error))
        return error->status;
    bool failed =
        weights_collect(&l.w, store, true, c->path, error) || check_fit(&l, error) || load_all(&l, error);
    entries_close(&l.from);
    arena_free(&l.w.arena);
    return failed ? error->status : WEFT_OK;
}
