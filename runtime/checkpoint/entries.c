/* entries.c - the tensors of a checkpoint: the headers of all its files, as one list. What the ranks of a
 * world wrote in pieces is one tensor here; a piece that is missing or there twice is an error. */
#include "graph/core/compare.h"
#include "runtime/checkpoint/checkpoint.h"

/* Of names, then of first ranks. */
static int order_of(const char *name_a, int rank_a, const char *name_b, int rank_b) {
    int order = strcmp(name_a, name_b);
    return order ? order : (rank_a > rank_b) - (rank_a < rank_b);
}

static int by_key(const void *pa, const void *pb) {
    const piece_key *a = &((const entry *)pa)->key, *b = &((const entry *)pb)->key;
    int order = order_of(a->name, a->first_rank, b->name, b->first_rank);
    return order ? order : by_number(a->begin, b->begin);
}

static weft_status open_files(entries *all, weft_error *error) {
    const manifest *m = &all->c->m;
    arena *a = &all->arena;
    size_t room = 1;
    all->files = arena_new_array(a, m->n_files, sizeof *all->files);
    if (!all->files) return error_memory(error, all->c->path);
    for (int i = 0; i < m->n_files; i++) {
        char *path = arena_printf(a, "%s/%s", all->c->path, m->files[i].name);
        if (!path) return error_memory(error, all->c->path);
        if (safetensors_open(&all->files[i], path, &all->c->env, error)) return error->status;
        safetensors_rest(&all->files[i]);
        all->n_open++;
        room += (size_t)all->files[i].n;
    }
    all->list = arena_new_array(a, room, sizeof *all->list);
    all->wholes = arena_new_array(a, room, sizeof *all->wholes);
    return all->list && all->wholes ? WEFT_OK : error_memory(error, all->c->path);
}

static weft_status add_entry(entries *all, int file, const safetensors_tensor *t, weft_error *error) {
    entry *e = &all->list[all->n];
    const char *path = all->files[file].path;
    *e = (entry){.file = file, .tensor = t};
    if (!piece_parse(&e->key, &all->arena, t))
        return error_set(error, WEFT_FILE, "%.400s: %s: no tensor is called so", path, SHOW(t->name));
    if (!e->key.name) return error_memory(error, path);
    all->n++;
    return WEFT_OK;
}

/* What the files say of it: of all pieces the same. */
static weft_status find_kind(const entries *all, whole *w, weft_error *error) {
    const safetensors_tensor *first = all->list[w->first].tensor;
    const char *path = all->files[all->list[w->first].file].path;
    for (int i = w->first + 1; i < w->first + w->n; i++) {
        const char *says = all->list[i].tensor->says;
        if (!says != !first->says || (says && strcmp(says, first->says)))
            return error_set(error, WEFT_FILE, "%.400s: pieces of %s do not say the same of what it is",
                             all->c->path, SHOW(w->name));
    }
    w->says = first->says;
    return stored_read(path, first, &w->value, error);
}

/* Pieces of a tensor follow one another from its first element to its last. */
static weft_status add_wholes(entries *all, weft_error *error) {
    for (int i = 0, k; i < all->n; i = k) {
        const piece_key *key = &all->list[i].key;
        whole *w = &all->wholes[all->n_wholes];
        int64_t reached = 0;
        *w = (whole){.name = key->name, .type = key->type, .first_rank = key->first_rank, .first = i};
        for (k = i; k < all->n; k++) {
            entry *e = &all->list[k];
            if (order_of(w->name, w->first_rank, e->key.name, e->key.first_rank)) break;
            if (e->key.begin != reached || !type_equal(&e->key.type, &w->type)) break;
            e->whole = all->n_wholes;
            reached = e->key.end;
        }
        bool is_more = k < all->n &&
                       !order_of(w->name, w->first_rank, all->list[k].key.name, all->list[k].key.first_rank);
        if (reached != type_elements(&w->type) || is_more)
            return error_set(error, WEFT_FILE,
                             "%.400s: the elements of %s from %jd on are missing or there twice",
                             all->c->path, SHOW(w->name), reached);
        w->n = k - i;
        all->n_wholes++;
        weft_status status = find_kind(all, w, error);
        w->value.path = w->name;
        if (status) return status;
    }
    return WEFT_OK;
}

weft_status entries_open(entries *all, const weft_checkpoint *c, weft_error *error) {
    *all = (entries){.c = c, .awake = -1};
    arena_init(&all->arena, &c->env);
    if (open_files(all, error)) return error->status;
    for (int f = 0; f < all->n_open; f++)
        for (int i = 0; i < all->files[f].n; i++)
            if (add_entry(all, f, &all->files[f].tensors[i], error)) return error->status;
    if (all->n) qsort(all->list, (size_t)all->n, sizeof *all->list, by_key);
    return add_wholes(all, error);
}

void entries_close(entries *all) {
    for (int i = 0; i < all->n_open; i++) safetensors_close(&all->files[i]);
    all->n_open = 0;
    arena_free(&all->arena);
}

static int by_whole(const void *pa, const void *pb) {
    const whole *a = pa, *b = pb;
    return order_of(a->name, a->first_rank, b->name, b->first_rank);
}

const whole *entries_find(const entries *all, const char *name, int first_rank) {
    whole key = {.name = name, .first_rank = first_rank};
    return all->n_wholes ? bsearch(&key, all->wholes, (size_t)all->n_wholes, sizeof key, by_whole) : NULL;
}

weft_status entries_wake(entries *all, int file, weft_error *error) {
    if (all->awake == file) return WEFT_OK;
    if (all->awake >= 0) safetensors_rest(&all->files[all->awake]);
    weft_status status = safetensors_wake(&all->files[file], error);
    if (status) safetensors_rest(&all->files[file]);
    all->awake = status ? -1 : file;
    return status;
}

weft_status entries_read(entries *all, const whole *from, uint64_t at, void *into, size_t bytes,
                         weft_error *error) {
    uint64_t width = dtype_bytes(from->type.dtype), end = at + bytes;
    for (int i = from->first; i < from->first + from->n; i++) {
        const entry *e = &all->list[i];
        uint64_t has = (uint64_t)e->key.begin * width, has_end = (uint64_t)e->key.end * width;
        uint64_t begin = has > at ? has : at, stop = has_end < end ? has_end : end;
        if (begin >= stop) continue;
        if (entries_wake(all, e->file, error) ||
            safetensors_read_range(&all->files[e->file], e->tensor, begin - has, (char *)into + (begin - at),
                                   (size_t)(stop - begin), error))
            return error->status;
    }
    return WEFT_OK;
}
