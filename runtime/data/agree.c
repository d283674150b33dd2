/* agree.c - ranks compare what they load: options, types, shapes, and samples at both ends of each source. */
#include "runtime/data/loader.h"

#include <stdlib.h>

enum { END_BYTES = 1 << 20 };

/* Settings that ranks compare. */
typedef struct settings {
    kit_arena memory;
    int n;
    weft_setting *list;
} settings;

/* `of`: an option, or an array, of which `what` is shown. */
static void show(settings *s, const char *of, const char *what, const char *value) {
    kit_line name = {0};
    weft_setting *list = kit_grow(&s->memory, s->list, s->n + 1, sizeof *list);
    if (!list) return;
    kit_add(&name, "%.60s%s%s", kit_show(of, strlen(of)).text, *what ? ": " : "", what);
    s->list = list;
    s->list[s->n++] = (weft_setting){kit_copy(&s->memory, name.text), kit_copy(&s->memory, value)};
}

static void show_hash(settings *s, const char *of, const char *what, uint64_t hash) {
    char digits[24];
    snprintf(digits, sizeof digits, "%016jx", hash);
    show(s, of, what, digits);
}

/* Options that may differ between ranks. */
static bool is_own(const weft_field *f) {
    return strcmp(f->name, "rank") == 0 || strcmp(f->name, "ahead") == 0 || strcmp(f->name, "threads") == 0;
}

static void show_options(const weft_loader *l, settings *s) {
    for (const weft_field *f = weft_loader_fields(); f->name; f++) {
        const weft_field alone[] = {*f, {.offset = sizeof l->options}};
        if (is_own(f)) continue;
        char *text = weft_fields_text(alone, &l->options);
        s->memory.is_out = s->memory.is_out || !text;
        if (text) show(s, f->name, "", *text ? text + strlen(f->name) + 1 : "0");
        weft_text_free(text);
    }
    show_hash(s, "hash of the sampler's order", "",
              l->options.sampler ? kit_hash(l->order, (size_t)l->dealt * sizeof *l->order, 0) : 0);
}

static void show_array(const weft_loader *l, int i, uint64_t hash, settings *s) {
    char number[24];
    const weft_source_array *a = l->arrays[i];
    const char *name = loader_array_name(l, i, number);
    tensor t = tensor_of_samples(l->samples, a->dtype, a->ndim, a->shape);
    show(s, name, "type and shape", TENSOR(&t));
    show_hash(s, name, "hash of the first and the last MiB", hash);
}

/* ---- hashes of samples ---- */

/* Continues with the hashes of a source's arrays over samples begin to end. */
static weft_status hash_samples(const weft_source *s, void *const *into, const size_t *bytes, int64_t begin,
                                int64_t end, uint64_t *hashes, weft_error *error) {
    for (int64_t i = begin; i < end; i++) {
        weft_status status = s->read(s->context, i, into, error);
        if (status) return status;
        for (int k = 0; k < s->n; k++) hashes[k] = kit_hash(into[k], bytes[k], hashes[k]);
    }
    return WEFT_OK;
}

/* Other data differ at the ends, and no more of a large source is read: of each end at most a
 * MiB, or one sample. */
static weft_status hash_source(const weft_loader *l, const weft_source *s, uint64_t *hashes,
                               weft_error *error) {
    size_t sum = 0, bytes[WEFT_SOURCE_ARRAYS];
    void *into[WEFT_SOURCE_ARRAYS];
    for (int k = 0; k < s->n; k++) sum += (bytes[k] = loader_array_bytes(&s->arrays[k])) + 64;
    kit_arena arena = kit_arena_of(&l->memory.env);
    weft_status status = sample_room(&arena, s, into) ? WEFT_OK : kit_no_memory(error, "loader");
    int64_t most = (int64_t)(END_BYTES / sum) + 1, end = s->count < most ? s->count : most;
    int64_t last = s->count - end < end ? end : s->count - end;
    if (!status) status = hash_samples(s, into, bytes, 0, end, hashes, error);
    if (!status) status = hash_samples(s, into, bytes, last, s->count, hashes, error);
    kit_release(arena);
    return status;
}

static weft_status hash_sources(const weft_loader *l, uint64_t *hashes, weft_error *error) {
    for (int i = 0, first = 0; i < l->n; first += l->sources[i]->n, i++) {
        if (hash_source(l, l->sources[i], hashes + first, error)) return error->status;
    }
    return WEFT_OK;
}

/* ---- among ranks ---- */

static weft_status give_up(weft_comm *comm, weft_error *error) {
    weft_comm_fail(comm, error->text); /* the other ranks wait */
    return error->status;
}

/* Each rank must deal its own share, and all shares together are one epoch. */
static weft_status check_share(const weft_loader *l, const weft_comm *comm, weft_error *error) {
    if (l->options.rank == comm->rank && l->options.num_replicas == comm->world) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT,
                    "loader: it is for rank %d of %d, but the communicator is rank %d of %d", l->options.rank,
                    l->options.num_replicas, comm->rank, comm->world);
}

/* Compares options and data with the other ranks. A rank that fails ends the communicator, so that none
 * waits. */
weft_status weft_loader_agree(const weft_loader *l, weft_comm *comm, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (!l) return kit_fail(error, WEFT_ARGUMENT, "weft_loader_agree: there is no loader");
    if (!comm || comm->world == 1) return WEFT_OK;
    if (check_share(l, comm, error)) return give_up(comm, error);
    settings s = {.memory = kit_arena_of(&l->memory.env)};
    uint64_t *hashes = kit_take(&s.memory, l->n_arrays, sizeof *hashes);
    weft_status status = hashes ? hash_sources(l, hashes, error) : WEFT_OK;
    show_options(l, &s);
    for (int i = 0; hashes && i < l->n_arrays; i++) show_array(l, i, hashes[i], &s);
    if (s.memory.is_out) status = kit_no_memory(error, "loader");
    status = status ? give_up(comm, error) : weft_comm_compare(comm, s.list, s.n, error);
    kit_release(s.memory);
    return status;
}
