/* loader.c - batches of arrays, in an order that depends on the seed and the epoch alone, the same on every
 * machine: a Fisher-Yates shuffle (Knuth 3.4.2 P) driven by splitmix64 (Steele, Lea, Flood 2014) without
 * modulo bias. */
#include "weft/data.h"

#include "runtime/data/kit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One array, and the memory for its rows of a batch. */
typedef struct column {
    const weft_array *array;
    size_t row_bytes;
    char *rows; /* memory for a batch: room * row_bytes */
} column;

struct weft_loader {
    weft_env env;
    weft_loader_options options;
    int n;
    column *columns;
    int64_t samples, room; /* room: most rows that a batch can have */
    int64_t next;          /* number of this rank's next batch, from 0 */
    int64_t *order;        /* order[place] is a sample; NULL: samples in their order */
};

/* ---- the order ---- */

/* Uniform in [0, n) by Lemire's multiplication; values that would make it uneven are drawn again. */
static uint64_t below(uint64_t *state, uint64_t n) {
    uint64_t least = -n % n;
    for (;;) {
        unsigned __int128 wide = (unsigned __int128)kit_splitmix(state) * n;
        if ((uint64_t)wide >= least) return (uint64_t)(wide >> 64);
    }
}

/* Shuffles from the identity, so that an epoch's order does not depend on the epochs before it. */
void weft_loader_epoch(weft_loader *l, int64_t epoch) {
    if (!l) return;
    l->next = 0;
    if (!l->order) return;
    uint64_t mixed = (uint64_t)epoch, state = l->options.seed ^ kit_splitmix(&mixed);
    for (int64_t i = 0; i < l->samples; i++) l->order[i] = i;
    for (int64_t i = l->samples - 1; i > 0; i--) {
        int64_t k = (int64_t)below(&state, (uint64_t)i + 1), sample = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = sample;
    }
}

/* ---- making ---- */

/* All arrays must have the same first axis, which counts samples. */
static weft_status column_init(weft_loader *l, int i, const weft_array *array, weft_error *error) {
    tensor t = {.dtype = weft_array_dtype(array)};
    t.ndim = weft_array_shape(array, t.shape);
    if (t.ndim < 1) return kit_fail(error, WEFT_SHAPE, "loader: array %d has no axis that counts samples", i);
    if (i && t.shape[0] != l->samples)
        return kit_fail(error, WEFT_SHAPE, "loader: array %d has %lld samples, array 0 has %lld", i,
                        (long long)t.shape[0], (long long)l->samples);
    column *c = &l->columns[i];
    l->samples = t.shape[0];
    l->room = l->options.batch < l->samples ? l->options.batch : l->samples;
    c->array = array;
    c->row_bytes = tensor_bytes(&t) / (size_t)t.shape[0];
    c->rows = weft_memory_new(&l->env, (size_t)l->room * c->row_bytes); /* at most the array's own bytes */
    return c->rows ? WEFT_OK : kit_no_memory(error, "loader");
}

/* On an error weft_loader_free frees what is there. */
static weft_status loader_init(weft_loader *l, int n, const weft_array *const *arrays, weft_error *error) {
    l->columns = kit_new_array(&l->env, (size_t)n, sizeof *l->columns);
    if (!l->columns) return kit_no_memory(error, "loader");
    l->n = n;
    for (int i = 0; i < n; i++) {
        weft_status status = column_init(l, i, arrays[i], error);
        if (status) return status;
    }
    if (l->options.drop_last && l->options.batch > l->samples)
        return kit_fail(error, WEFT_ARGUMENT, "loader: %lld samples make no whole batch of %lld",
                        (long long)l->samples, (long long)l->options.batch);
    if (l->options.shuffle && !(l->order = kit_new_array(&l->env, (size_t)l->samples, sizeof *l->order)))
        return kit_no_memory(error, "loader");
    weft_loader_epoch(l, 0);
    return WEFT_OK;
}

/* NULL after an error. The arrays must outlive the loader; `options` is copied, but not the names that it
 * points to. */
weft_loader *weft_loader_new(int n, const weft_array *const *arrays, const weft_loader_options *options,
                             const weft_env *env, weft_error *error) {
    if (error) *error = (weft_error){0};
    if (n < 1 || !arrays || !options || options->batch < 1) {
        kit_fail(error, WEFT_ARGUMENT, "loader: at least one array and a batch of at least 1 are needed");
        return NULL;
    }
    int ranks = options->num_replicas ? options->num_replicas : 1;
    bool is_part = ranks >= 1 && options->rank >= 0 && options->rank < ranks && options->in_a_row >= 0;
    if (options->all && options->in_a_row) {
        kit_fail(error, WEFT_ARGUMENT, "loader: all: every rank sees all batches, so in_a_row=%d must be 0",
                 options->in_a_row);
        return NULL;
    }
    if (!is_part) {
        kit_fail(error, WEFT_ARGUMENT, "loader: rank %d of %d, %d batches in a row: there is no such part",
                 options->rank, options->num_replicas, options->in_a_row);
        return NULL;
    }
    weft_loader *l = kit_new(env, sizeof *l);
    if (!l) {
        kit_no_memory(error, "loader");
        return NULL;
    }
    l->env = env ? *env : (weft_env){0};
    l->options = *options;
    l->options.num_replicas = ranks;
    if (!options->in_a_row) l->options.in_a_row = 1;
    if (loader_init(l, n, arrays, error) == WEFT_OK) return l;
    weft_loader_free(l);
    return NULL;
}

void weft_loader_free(weft_loader *l) {
    if (!l) return;
    weft_env env = l->env;
    for (int i = 0; i < l->n; i++)
        weft_memory_free(&env, l->columns[i].rows, (size_t)l->room * l->columns[i].row_bytes);
    weft_memory_free(&env, l->columns, (size_t)l->n * sizeof *l->columns);
    weft_memory_free(&env, l->order, (size_t)l->samples * sizeof *l->order);
    weft_memory_free(&env, l, sizeof *l);
}

/* ---- batches ---- */

/* Batches of the common order, before they are dealt to ranks. */
static int64_t all_batches(const weft_loader *l) {
    int64_t whole = l->samples / l->options.batch;
    return whole + (!l->options.drop_last && l->samples % l->options.batch != 0);
}

/* Ranks get blocks of in_a_row batches in turn. With drop_last only whole rounds count, so that all ranks
 * have as many. */
int64_t weft_loader_batches(const weft_loader *l) {
    if (!l) return 0;
    int64_t row = l->options.in_a_row, round = row * l->options.num_replicas, all = all_batches(l);
    if (l->options.num_replicas == 1 || l->options.all) return all;
    int64_t rest = l->options.drop_last ? 0 : all % round - row * l->options.rank;
    return all / round * row + (rest < 0 ? 0 : rest < row ? rest : row);
}

void weft_loader_seek(weft_loader *l, int64_t batch) {
    if (l) l->next = batch < 0 ? 0 : batch;
}

/* The number of this rank's next batch in the common order. */
static int64_t number_of_next(const weft_loader *l) {
    int64_t row = l->options.in_a_row, block = l->next / row * l->options.num_replicas + l->options.rank;
    return l->options.all ? l->next : block * row + l->next % row;
}

/* The rows are copied into the loader's memory, which stays valid until the next call. */
bool weft_loader_next(weft_loader *l, const void **data, int64_t *rows) {
    if (!l || l->next >= weft_loader_batches(l)) return false;
    int64_t begin = number_of_next(l) * l->options.batch, left = l->samples - begin;
    int64_t count = left > l->options.batch ? l->options.batch : left;
    for (int i = 0; i < l->n; i++) {
        column *c = &l->columns[i];
        const char *from = weft_array_data(c->array);
        for (int64_t r = 0; r < count; r++) {
            int64_t sample = l->order ? l->order[begin + r] : begin + r;
            memcpy(c->rows + (size_t)r * c->row_bytes, from + (size_t)sample * c->row_bytes, c->row_bytes);
        }
        data[i] = c->rows;
    }
    l->next++;
    *rows = count;
    return true;
}

/* ---- among ranks ---- */

enum { END_BYTES = 1 << 20, VALUE_BYTES = 80, OPTIONS = 7, PER_ARRAY = 2 };

typedef struct shown_setting {
    char name[100], value[VALUE_BYTES];
} shown_setting;

/* A hash of the first and the last MiB, and the size: other data differ there, and no more of a large file is
 * read. */
static uint64_t hash_ends(const void *data, size_t bytes) {
    size_t end = bytes < END_BYTES ? bytes : END_BYTES;
    return kit_hash((const char *)data + bytes - end, end, kit_hash(data, end, bytes));
}

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
}

/* Fills PER_ARRAY settings: type and shape, then a hash of the data. */
static void show_array(const weft_loader *l, int i, shown_setting *s) {
    char number[24];
    const weft_array *a = l->columns[i].array;
    tensor t = {.dtype = weft_array_dtype(a)};
    t.ndim = weft_array_shape(a, t.shape);
    snprintf(number, sizeof number, "array %d", i);
    const char *name = l->options.names ? l->options.names[i] : number;
    show(s++, name, "type and shape", "%s", TENSOR(&t));
    show(s++, name, "hash of the first and the last MiB", "%016llx",
         (unsigned long long)hash_ends(weft_array_data(a), tensor_bytes(&t)));
}

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
    size_t n = OPTIONS + PER_ARRAY * (size_t)l->n;
    shown_setting *shown = kit_new_array(&l->env, n, sizeof *shown);
    weft_setting *settings = kit_new_array(&l->env, n, sizeof *settings);
    weft_status status = shown && settings ? WEFT_OK : kit_no_memory(error, "loader");
    if (!status) {
        show_options(l, shown);
        for (int i = 0; i < l->n; i++) show_array(l, i, &shown[OPTIONS + PER_ARRAY * i]);
        for (size_t i = 0; i < n; i++) settings[i] = (weft_setting){shown[i].name, shown[i].value};
        status = weft_comm_compare(comm, settings, (int)n, error);
    } else {
        give_up(comm, error);
    }
    weft_memory_free(&l->env, settings, n * sizeof *settings);
    weft_memory_free(&l->env, shown, n * sizeof *shown);
    return status;
}
