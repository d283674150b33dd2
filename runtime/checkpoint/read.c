/* read.c - opens checkpoints, proves that they are whole, and loads them. */
#include "runtime/checkpoint/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weft_checkpoint {
    weft_env env;
    char path[CHECKPOINT_ROOM];
    manifest m;
};

/* ---- opening ---- */

weft_checkpoint *weft_checkpoint_open(const char *path, const weft_env *env, weft_error *error) {
    char file[CHECKPOINT_ROOM];
    weft_error own = {0};
    error = error ? error : &own;
    *error = (weft_error){0};
    if (!path || strlen(path) >= CHECKPOINT_ROOM - 200 || !checkpoint_file_path(file, path, MANIFEST_NAME)) {
        error_set(error, WEFT_ARGUMENT, "a checkpoint: a path is needed, of at most %d bytes",
                  CHECKPOINT_ROOM - 200);
        return NULL;
    }
    weft_checkpoint *c = mem_new(env, sizeof *c);
    if (!c) {
        error_memory(error, path);
        return NULL;
    }
    c->env = env ? *env : (weft_env){0};
    snprintf(c->path, sizeof c->path, "%s", path);
    if (!manifest_read(&c->m, file, &c->env, error)) return c;
    weft_checkpoint_close(c);
    return NULL;
}

void weft_checkpoint_close(weft_checkpoint *c) {
    if (!c) return;
    weft_env env = c->env;
    arena_free(&c->m.arena);
    mem_free(&env, c, sizeof *c);
}

uint64_t weft_checkpoint_seed(const weft_checkpoint *c) {
    return c ? c->m.seed : 0;
}

const char *weft_checkpoint_path(const weft_checkpoint *c) {
    return c ? c->path : NULL;
}

int64_t weft_checkpoint_step(const weft_checkpoint *c) {
    return c ? c->m.step : -1;
}

double weft_checkpoint_note(const weft_checkpoint *c, const char *name) {
    for (int i = 0; c && name && i < c->m.n_notes; i++)
        if (strcmp(c->m.notes[i].name, name) == 0) return c->m.notes[i].value;
    return NAN;
}

bool weft_checkpoint_note_at(const weft_checkpoint *c, int index, weft_note *note) {
    if (!c || !note || index < 0 || index >= c->m.n_notes) return false;
    *note = c->m.notes[index];
    return true;
}

bool weft_checkpoint_file_at(const weft_checkpoint *c, int index, const char **name, uint64_t *bytes) {
    if (!c || index < 0 || index >= c->m.n_files) return false;
    if (name) *name = c->m.files[index].name;
    if (bytes) *bytes = c->m.files[index].bytes;
    return true;
}

/* ---- proving ---- */

/* Hashes a file in pieces. */
static int hash_file(const weft_io *io, void *file, uint64_t bytes, void *piece, size_t room,
                     uint64_t *hash) {
    byte_hash h;
    byte_hash_begin(&h);
    for (uint64_t at = 0; at < bytes; at += room) {
        size_t n = bytes - at < room ? (size_t)(bytes - at) : room;
        int code = io->read(io->context, file, at, piece, n);
        if (code) return code;
        byte_hash_add(&h, piece, n);
    }
    *hash = byte_hash_value(&h);
    return 0;
}

static weft_status verify_file(const weft_checkpoint *c, const manifest_file *f, void *piece, size_t room,
                               weft_error *error) {
    void *file;
    char path[CHECKPOINT_ROOM];
    uint64_t bytes = 0, hash = 0;
    const weft_io *io = io_of(&c->env);
    if (!checkpoint_file_path(path, c->path, f->name))
        return error_set(error, WEFT_ARGUMENT, "%.400s: the path is too long", c->path);
    int code = io->open_read(io->context, path, &file, &bytes);
    if (code) return io_fail(error, path, "cannot be opened", code);
    if (bytes == f->bytes) code = hash_file(io, file, bytes, piece, room, &hash);
    io->close(io->context, file);
    if (code) return io_fail(error, path, "cannot be read", code);
    if (bytes != f->bytes)
        return error_set(error, WEFT_FILE, "%.600s: %llu bytes, the manifest says %llu", path,
                         (unsigned long long)bytes, (unsigned long long)f->bytes);
    return hash == f->hash
               ? WEFT_OK
               : error_set(error, WEFT_FILE,
                           "%.600s: its checksum is %016llx, the manifest says %016llx: it was damaged", path,
                           (unsigned long long)hash, (unsigned long long)f->hash);
}

/* Files first, first + step ... */
static weft_status verify_some(const weft_checkpoint *c, int first, int step, weft_error *error) {
    size_t room = SAFETENSORS_PIECE;
    void *piece = mem_raw(&c->env, room);
    weft_status status = piece ? WEFT_OK : error_memory(error, c->path);
    for (int i = first; !status && i < c->m.n_files; i += step)
        status = verify_file(c, &c->m.files[i], piece, room, error);
    mem_free(&c->env, piece, room);
    return status;
}

weft_status weft_checkpoint_verify(const weft_checkpoint *c, weft_error *error) {
    if (error) *error = (weft_error){0};
    return c ? verify_some(c, 0, 1, error) : error_set(error, WEFT_ARGUMENT, "there is no checkpoint");
}

/* ---- the newest one ---- */

/* What rank 0 decides at each turn: the step to try next. */
enum { NONE = -1, NO_MORE = -2 };
typedef struct choice {
    int64_t step;
} choice;

static weft_status share_choice(weft_comm *comm, choice *c, weft_error *error) {
    weft_collective send = {.kind = WEFT_BROADCAST,
                            .dtype = WEFT_U8,
                            .name = "newest checkpoint",
                            .buffer = c,
                            .count = sizeof *c};
    return comm && comm->world > 1 ? weft_comm_run(comm, &send, error) : WEFT_OK;
}

/* Once in a world. */
static void tell_passed_over(const weft_comm *comm, const weft_env *env, const weft_error *why) {
    char line[sizeof why->text + 80];
    if (!env || !env->log || (comm && comm->rank)) return;
    snprintf(line, sizeof line, "this checkpoint is passed over: %s", why->text);
    env->log(env->log_context, line);
}

/* Each rank proves its share of the files. */
static weft_status try_step(const char *folder, int64_t step, weft_comm *comm, const weft_env *env,
                            weft_checkpoint **c, weft_error *error) {
    char path[CHECKPOINT_ROOM];
    int rank = comm ? comm->rank : 0, world = comm ? comm->world : 1;
    if (!checkpoint_path(path, folder, step, ""))
        return error_set(error, WEFT_ARGUMENT, "%.400s: the path is too long", folder);
    *c = weft_checkpoint_open(path, env, error);
    weft_status status = *c ? verify_some(*c, rank, world, error) : error->status;
    if (!status && (*c)->m.step != step)
        status = error_set(error, WEFT_FILE, "%.600s: it is step %lld", path, (long long)(*c)->m.step);
    return status;
}

/* From the newest on: *which is the index of the next one to try. */
static weft_status next(const char *folder, weft_comm *comm, const weft_env *env, const int64_t *steps, int n,
                        int *which, weft_checkpoint **c, weft_error *error) {
    choice own = {.step = !n ? NONE : *which < 0 ? NO_MORE : steps[*which]};
    --*which;
    weft_status status = share_choice(comm, &own, error);
    if (!status && own.step == NONE)
        status = error_set(error, WEFT_NAME, "%.600s: it has no checkpoint, a folder step-N", folder);
    if (!status && own.step == NO_MORE)
        status = error_set(error, WEFT_FILE,
                           "%.600s: it has no checkpoint that is whole: each was passed over", folder);
    if (status) return status;
    weft_error why = {0};
    weft_status fits =
        comm_settle(comm, env, "newest checkpoint", try_step(folder, own.step, comm, env, c, &why), &why);
    if (!fits) return WEFT_OK;
    weft_checkpoint_close(*c);
    *c = NULL;
    tell_passed_over(comm, env, &why);
    return WEFT_OK;
}

weft_checkpoint *weft_checkpoint_newest(const char *folder, weft_comm *comm, const weft_env *env,
                                        weft_error *error) {
    weft_error own = {0};
    weft_checkpoint *c = NULL;
    int64_t *steps = NULL;
    int n = 0;
    error = error ? error : &own;
    *error = (weft_error){0};
    bool is_first = !comm || comm->rank == 0;
    weft_status status =
        folder ? WEFT_OK : error_set(error, WEFT_ARGUMENT, "checkpoints: a folder is needed");
    if (!status && is_first) status = weft_checkpoint_steps(folder, env, &steps, &n, error);
    status = comm_settle(comm, env, "newest checkpoint", status, error);
    for (int which = n - 1; !status && !c;) status = next(folder, comm, env, steps, n, &which, &c, error);
    free(steps);
    return status ? NULL : c;
}

/* ---- loading ---- */

/* A tensor of a file, and what it is in the model. */
typedef struct entry {
    int file;
    const safetensors_tensor *tensor;
    piece_key key;
    const weight *to; /* NULL: the model has no such value, and need not */
} entry;

typedef struct loading {
    const weft_checkpoint *c;
    weft_store *store;
    weights w;
    safetensors *files; /* [n_files] */
    int n_open, n;
    entry *entries; /* sorted by name and begin, but for those of other process groups */
} loading;

static int by_key(const void *pa, const void *pb) {
    const entry *a = pa, *b = pb;
    int order = strcmp(a->key.name, b->key.name);
    if (order) return order;
    if (a->key.first_rank != b->key.first_rank) return a->key.first_rank < b->key.first_rank ? -1 : 1;
    return (a->key.begin > b->key.begin) - (a->key.begin < b->key.begin);
}

static weft_status open_files(loading *l, weft_error *error) {
    const manifest *m = &l->c->m;
    arena *a = &l->w.arena;
    size_t room = 1;
    l->files = arena_new_array(a, (size_t)m->n_files, sizeof *l->files);
    if (!l->files) return error_memory(error, l->c->path);
    for (int i = 0; i < m->n_files; i++) {
        char *path = arena_printf(a, "%s/%s", l->c->path, m->files[i].name);
        if (!path) return error_memory(error, l->c->path);
        weft_status status = safetensors_open(&l->files[i], path, &l->c->env, error);
        if (status) return status;
        safetensors_rest(&l->files[i]); /* a world may have more files than a process may open */
        l->n_open++;
        room += (size_t)l->files[i].n;
    }
    l->entries = arena_new_array(a, room, sizeof *l->entries);
    return l->entries ? WEFT_OK : error_memory(error, l->c->path);
}

/* Values of optimizers that a model may have or not, by its types and options. */
static bool is_optional(const char *name) {
    static const char *const ends[] = {".epoch", ".loss_scale", ".good_steps", "." AVERAGE_NAME};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strncmp(name, "optimizer.", 10) == 0 && n > strlen(ends[i]) &&
            strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static weft_status add_entry(loading *l, int file, const safetensors_tensor *t, weft_error *error) {
    entry *e = &l->entries[l->n];
    const char *path = l->files[file].path;
    *e = (entry){.file = file, .tensor = t};
    if (!piece_parse(&e->key, &l->w.arena, t))
        return error_set(error, WEFT_FILE, "%.400s: %s: no tensor is called so", path, SHOW(t->name));
    if (!e->key.name) return error_memory(error, path);
    e->to = weights_find(&l->w, e->key.name);
    if (!e->to && is_optional(e->key.name)) return WEFT_OK;
    if (!e->to)
        return error_set(error, WEFT_NAME, "%.400s: the model has no %s: it is a checkpoint of another model",
                         path, SHOW(e->key.name));
    if (!type_equal(&e->key.type, &e->to->part->type))
        return error_set(error, WEFT_SHAPE,
                         "%.400s: %s is %s, the model's is %s: it is a checkpoint of another model", path,
                         SHOW(e->key.name), TYPE(&e->key.type), TYPE(&e->to->part->type));
    l->n += e->key.first_rank == e->to->part->first_rank; /* else it is another process group's */
    return WEFT_OK;
}

/* Pieces of a tensor follow one another from its first element to its last. */
static weft_status check_cover(const loading *l, weft_error *error) {
    for (int i = 0, k; i < l->n; i = k) {
        int64_t reached = 0;
        const entry *e = &l->entries[i];
        for (k = i; k < l->n && l->entries[k].to == e->to && l->entries[k].key.begin == reached; k++)
            reached = l->entries[k].key.end;
        if (reached != type_elements(&e->key.type) || (k < l->n && l->entries[k].to == e->to))
            return error_set(error, WEFT_FILE,
                             "%.400s: the elements of %s from %lld on are missing or there twice", l->c->path,
                             SHOW(e->key.name), (long long)reached);
    }
    return WEFT_OK;
}

static bool has_entry(const loading *l, const weight *to) {
    entry key = {.key = {.name = to->name, .first_rank = to->part->first_rank}};
    return l->n && bsearch(&key, l->entries, (size_t)l->n, sizeof key, by_key);
}

static weft_status check_complete(const loading *l, weft_error *error) {
    for (int i = 0; i < l->w.n; i++)
        if (!has_entry(l, &l->w.list[i]) && !is_optional(l->w.list[i].name))
            return error_set(
                error, WEFT_NAME,
                "%.400s: %s is missing: it is a checkpoint of another model, or of other process groups",
                l->c->path, SHOW(l->w.list[i].name));
    return WEFT_OK;
}

/* Before the first value changes. */
static weft_status check_fit(loading *l, weft_error *error) {
    weft_status status = open_files(l, error);
    for (int f = 0; !status && f < l->n_open; f++)
        for (int i = 0; !status && i < l->files[f].n; i++)
            status = add_entry(l, f, &l->files[f].tensors[i], error);
    if (status) return status;
    if (l->n) qsort(l->entries, (size_t)l->n, sizeof *l->entries, by_key);
    status = check_cover(l, error);
    return status ? status : check_complete(l, error);
}

/* The elements of an entry that this rank holds, piece by piece. */
static weft_status load_entry(loading *l, const entry *e, char *piece, weft_error *error) {
    const store_part *p = e->to->part;
    int64_t begin = e->key.begin > p->begin ? e->key.begin : p->begin;
    int64_t end = e->key.end < p->end ? e->key.end : p->end;
    int64_t width = (int64_t)dtype_bytes(p->type.dtype), most = SAFETENSORS_PIECE / width;
    weft_status status = WEFT_OK;
    for (int64_t at = begin; !status && at < end; at += most) {
        size_t bytes = (size_t)((end - at < most ? end - at : most) * width);
        status = safetensors_read_range(&l->files[e->file], e->tensor,
                                        (uint64_t)((at - e->key.begin) * width), piece, bytes, error);
        if (!status)
            status = store_write(l->store, p, (size_t)((at - p->begin) * width), piece, bytes, error);
    }
    return status;
}

static weft_status load_all(loading *l, weft_error *error) {
    char *piece = mem_raw(&l->c->env, SAFETENSORS_PIECE);
    weft_status status = piece ? WEFT_OK : error_memory(error, l->c->path);
    for (int f = 0; !status && f < l->n_open; f++) {
        status = safetensors_wake(&l->files[f], error);
        for (int i = 0; !status && i < l->n; i++)
            if (l->entries[i].to && l->entries[i].file == f)
                status = load_entry(l, &l->entries[i], piece, error);
        safetensors_rest(&l->files[f]);
    }
    mem_free(&l->c->env, piece, SAFETENSORS_PIECE);
    store_set_seed(l->store, l->c->m.seed);
    *store_loaded(l->store) |= LOADED_STATE | LOADED_VALUES;
    return status;
}

weft_status weft_checkpoint_load(const weft_checkpoint *c, weft_store *store, weft_error *error) {
    if (error) *error = (weft_error){0};
    if (!c || !store)
        return error_set(error, WEFT_ARGUMENT, "weft_checkpoint_load: a checkpoint and a store are needed");
    loading l = {.c = c, .store = store};
    weft_status status = store_check_settled(store, c->path, error);
    if (!status) status = store_check_parameters(store, c->path, error);
    if (status) return status;
    status = weights_collect(&l.w, store, true, c->path, error);
    if (!status) status = check_fit(&l, error);
    if (!status) status = load_all(&l, error);
    for (int i = 0; i < l.n_open; i++) safetensors_close(&l.files[i]);
    arena_free(&l.w.arena);
    return status;
}
