/* agree.c - ranks compare what they load: options, types, shapes, and samples at both ends of each source. */
#include "runtime/data/loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { END_BYTES = 1 << 20, VALUE_BYTES = 80, OPTIONS = 10, PER_ARRAY = 2 };

typedef struct shown_setting {
    char name[100], value[VALUE_BYTES];
} shown_setting;

/* Formats one setting that ranks compare. */
static void show(shown_setting *s, const char *name, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void show(shown_setting *s, const char *name, const char *what, const char *format, ...) {
    va_list args;
    va_start(args, format);
    snprintf(s->name, sizeof s->name, "%.60s%s%s", kit_show(name, strlen(name)).text, *what ? ": " : "",
             what);
    vsnprintf(s->value, sizeof s->value, format, args);
    va_end(args);
}

/* Fills OPTIONS settings. */
static void show_options(const weft_loader *l, shown_setting *s) {
    const weft_loader_options *o = &l->options;
    show(s++, "seed", "", "%llu", (unsigned long long)o->seed);
    show(s++, "batch", "", "%lld", (long long)o->batch);
    show(s++, "shuffle", "", "%d", o->shuffle);
    show(s++, "drop_last", "", "%d", o->drop_last);
    show(s++, "num_replicas", "", "%d", o->num_replicas);
    show(s++, "in_a_row", "", "%d", o->in_a_row);
    show(s++, "all", "", "%d", o->all);
    show(s++, "by_sample", "", "%d", o->by_sample);
    show(s++, "draws", "", "%d", o->draws);
    show(s++, "hash of the sampler's order", "", "%016llx",
         o->sampler ? (unsigned long long)kit_hash(l->order, (size_t)l->dealt * sizeof *l->order, 0) : 0);
}

/* Fills PER_ARRAY settings: type and shape, then a hash of the data. */
static void show_array(const weft_loader *l, int i, uint64_t hash, shown_setting *s) {
    char number[24];
    const weft_source_array *a = l->arrays[i];
    tensor t = {.dtype = a->dtype, .ndim = a->ndim + 1, .shape = {l->samples}};
    memcpy(t.shape + 1, a->shape, (size_t)a->ndim * sizeof *t.shape);
    snprintf(number, sizeof number, "array %d", i);
    const char *name = l->names ? l->names[i] : NULL;
    if (!name) name = a->name ? a->name : number;
    show(s++, name, "type and shape", "%s", TENSOR(&t));
    show(s++, name, "hash of the first and the last MiB", "%016llx", (unsigned long long)hash);
}

/* ---- hashes of samples ---- */

/* Goes on with the hashes of a source's arrays over samples begin to end. */
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
    size_t sum = 0, at = 0, bytes[WEFT_SOURCE_ARRAYS];
    void *into[WEFT_SOURCE_ARRAYS];
    for (int k = 0; k < s->n; k++) sum += (bytes[k] = loader_array_bytes(&s->arrays[k])) + 64;
    char *memory = kit_new(&l->env, sum);
    if (!memory) return kit_no_memory(error, "loader");
    for (int k = 0; k < s->n; k++) {
        into[k] = memory + at;
        at += (bytes[k] + 63) / 64 * 64;
    }
    int64_t most = (int64_t)(END_BYTES / sum) + 1, end = s->count < most ? s->count : most;
    int64_t last = s->count - end < end ? end : s->count - end;
    weft_status status = hash_samples(s, into, bytes, 0, end, hashes, error);
    if (!status) status = hash_samples(s, into, bytes, last, s->count, hashes, error);
    weft_memory_free(&l->env, memory, sum);
    return status;
}

static weft_status hash_sources(const weft_loader *l, uint64_t *hashes, weft_error *error) {
    for (int i = 0, first = 0; i < l->n; first += l->sources[i]->n, i++) {
        weft_status status = hash_source(l, l->sources[i], hashes + first, error);
        if (status) return status;
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
    weft_error nobody_asks;
    if (!error) error = &nobody_asks;
    if (!l) return kit_fail(error, WEFT_ARGUMENT, "weft_loader_agree: there is no loader");
    if (!comm || comm->world == 1) return WEFT_OK;
    if (check_share(l, comm, error)) return give_up(comm, error);
    size_t arrays = (size_t)l->n_arrays, n = OPTIONS + PER_ARRAY * arrays;
    shown_setting *shown = kit_new_array(&l->env, n, sizeof *shown);
    weft_setting *settings = kit_new_array(&l->env, n, sizeof *settings);
    uint64_t *hashes = kit_new_array(&l->env, arrays, sizeof *hashes);
    weft_status status = shown && settings && hashes ? WEFT_OK : kit_no_memory(error, "loader");
    if (!status) status = hash_sources(l, hashes, error);
    if (!status) {
        show_options(l, shown);
        for (int i = 0; i < l->n_arrays; i++) show_array(l, i, hashes[i], &shown[OPTIONS + PER_ARRAY * i]);
        for (size_t i = 0; i < n; i++) settings[i] = (weft_setting){shown[i].name, shown[i].value};
        status = weft_comm_compare(comm, settings, (int)n, error);
    } else {
        give_up(comm, error);
    }
    weft_memory_free(&l->env, hashes, arrays * sizeof *hashes);
    weft_memory_free(&l->env, settings, n * sizeof *settings);
    weft_memory_free(&l->env, shown, n * sizeof *shown);
    return status;
}
