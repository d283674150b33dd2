/* loader.c - makes loaders, and says which samples a batch has: in an order that depends on the seed and
 * the epoch alone, the same on every machine. It is a Fisher-Yates shuffle (Knuth 3.4.2 P) driven by
 * splitmix64 (Steele, Lea, Flood 2014) without modulo bias. */
#include "runtime/data/convert.h"
#include "runtime/data/loader.h"

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
static void shuffle(weft_loader *l, int64_t epoch) {
    uint64_t mixed = (uint64_t)epoch, state = l->options.seed ^ kit_splitmix(&mixed);
    for (int64_t i = 0; i < l->samples; i++) l->order[i] = i;
    for (int64_t i = l->samples - 1; i > 0; i--) {
        int64_t k = (int64_t)below(&state, (uint64_t)i + 1), sample = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = sample;
    }
}

static void set_next(weft_loader *l, int64_t batch) {
    l->next = batch;
    l->at = l->n_list;
}

static void set_order(weft_loader *l, int64_t epoch) {
    l->epoch = epoch;
    set_next(l, 0);
    if (l->options.sampler)
        l->options.sampler(l->options.sampler_context, epoch, l->order, l->dealt);
    else if (l->order)
        shuffle(l, epoch);
}

/* What was read ahead is still right where nothing depends on the epoch. */
void weft_loader_set_epoch(weft_loader *l, int64_t epoch) {
    if (!l) return;
    uint64_t began = weft_clock_ns();
    pthread_mutex_lock(&l->mutex);
    bool changes = epoch != l->epoch && (l->order || l->options.draws);
    if (changes) slots_empty(l);
    if (changes)
        set_order(l, epoch);
    else
        set_next(l, 0);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    loader_note(l, -1, began);
}

/* ---- a rank's share ---- */

/* Samples of the common order that are this rank's. */
static int64_t own_samples(const weft_loader *l) {
    int64_t ranks = l->options.num_replicas, rank = l->options.rank;
    if (!l->options.by_sample) return l->dealt;
    return l->options.drop_last ? l->dealt / ranks : (l->dealt - rank + ranks - 1) / ranks;
}

/* Batches of the common order, before they are dealt to ranks; by_sample: of this rank's samples. */
static int64_t all_batches(const weft_loader *l) {
    int64_t samples = own_samples(l), whole = samples / l->options.batch;
    return whole + (!l->options.drop_last && samples % l->options.batch != 0);
}

/* Ranks get blocks of in_a_row batches in turn. With drop_last only whole rounds count, so that all ranks
 * have as many. */
int64_t weft_loader_batches(const weft_loader *l) {
    if (!l) return 0;
    int64_t row = l->options.in_a_row, round = row * l->options.num_replicas, all = all_batches(l);
    if (l->options.num_replicas == 1 || l->options.all || l->options.by_sample) return all;
    int64_t rest = l->options.drop_last ? 0 : all % round - row * l->options.rank;
    return all / round * row + (rest < 0 ? 0 : rest < row ? rest : row);
}

/* The number of this rank's batch in the common order. */
static int64_t common_number(const weft_loader *l, int64_t batch) {
    int64_t row = l->options.in_a_row, block = batch / row * l->options.num_replicas + l->options.rank;
    return l->options.all || l->options.by_sample ? batch : block * row + batch % row;
}

int64_t loader_rows(const weft_loader *l, int64_t batch) {
    int64_t left = own_samples(l) - common_number(l, batch) * l->options.batch;
    return left > l->options.batch ? l->options.batch : left;
}

int64_t loader_sample(const weft_loader *l, int64_t batch, int64_t row) {
    int64_t place = common_number(l, batch) * l->options.batch + row;
    if (l->options.by_sample) place = place * l->options.num_replicas + l->options.rank;
    return l->order ? l->order[place] : place;
}

void weft_loader_seek(weft_loader *l, int64_t batch) {
    if (!l) return;
    pthread_mutex_lock(&l->mutex);
    if (batch < 0) batch = 0;
    if (loader_coming(l, 0) != batch) set_next(l, batch); /* else what follows it stays */
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
}

int64_t loader_coming(const weft_loader *l, int k) {
    int listed = l->n_list - l->at;
    return k < listed ? l->list[l->at + k] : l->next + k - listed;
}

/* The list is copied before the lock is taken: it may be long. */
weft_status weft_loader_follow(weft_loader *l, int n, const int64_t *batches, weft_error *error) {
    bool is_valid = l && n > 0 && batches;
    for (int i = 0; is_valid && i < n; i++) is_valid = batches[i] >= 0;
    if (!is_valid)
        return kit_fail(error, WEFT_ARGUMENT,
                        "weft_loader_follow: a loader and numbers of batches, from 0, are needed");
    int64_t *list = kit_take_raw(&l->memory, n, sizeof *list);
    if (!list) return kit_no_memory(error, "loader");
    memcpy(list, batches, (size_t)n * sizeof *list);
    pthread_mutex_lock(&l->mutex);
    kit_drop(&l->memory, l->list);
    l->list = list;
    l->n_list = n;
    l->at = 0;
    l->next = list[n - 1] + 1;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    return WEFT_OK;
}

const weft_source_array *weft_loader_array(const weft_loader *l, int i) {
    return l && i >= 0 && i < l->n_arrays ? &l->given[i] : NULL;
}

/* ---- making ---- */

/* A structure that a user filled: everything is checked. All sources must have the same number of samples. */
static weft_status check_source(const weft_loader *l, int i, const weft_source *s, weft_error *error) {
    if (!s || !s->read || s->count < 1 || s->n < 1 || s->n > WEFT_SOURCE_ARRAYS)
        return kit_fail(
            error, WEFT_ARGUMENT,
            "loader: source %d: it needs at least one sample, 1 to %d arrays and a function that reads", i,
            WEFT_SOURCE_ARRAYS);
    for (int k = 0; k < s->n; k++) {
        const weft_source_array *a = &s->arrays[k];
        tensor t = tensor_of(a->dtype, a->ndim, a->shape);
        if (t.ndim >= WEFT_MAX_NDIM || !tensor_check(&t))
            return kit_fail(
                error, WEFT_SHAPE,
                "loader: source %d, array %d: a known type, up to %d axes of at least 1 are needed", i, k,
                WEFT_MAX_NDIM - 1);
    }
    if (i && s->count != l->samples)
        return kit_fail(error, WEFT_SHAPE, "loader: source %d has %jd samples, source 0 has %jd", i, s->count,
                        l->samples);
    return WEFT_OK;
}

size_t loader_array_bytes(const weft_source_array *a) {
    tensor t = tensor_of(a->dtype, a->ndim, a->shape);
    return tensor_bytes(&t);
}

bool sample_room(kit_arena *memory, const weft_source *s, void *into[WEFT_SOURCE_ARRAYS]) {
    for (int k = 0; k < s->n; k++) into[k] = kit_take(memory, loader_array_bytes(&s->arrays[k]), 1);
    return !memory->is_out;
}

const char *loader_array_name(const weft_loader *l, int i, char number[24]) {
    snprintf(number, 24, "array %d", i);
    const char *own = l->names ? l->names[i] : NULL, *name = own ? own : l->arrays[i]->name;
    return name ? name : number;
}

/* Array i is given as this type. */
static weft_status give_as(weft_loader *l, int i, weft_dtype dtype, weft_error *error) {
    weft_source_array *a = &l->given[i];
    if (a->dtype == dtype) return WEFT_OK;
    if (!convert_is_exact(a->dtype, dtype))
        return kit_fail(
            error, WEFT_TYPE,
            "loader: array %d is %s, and not every such number is one of %s: convert the data, or "
            "let their source do it (weft_source_options.dtype)",
            i, weft_dtype_name(a->dtype), weft_dtype_name(dtype));
    a->dtype = dtype;
    return WEFT_OK;
}

/* The caller's list may end after this call, and threads name an array whenever they read. The draws, the
 * last array, are not in it. */
static weft_status copy_names(weft_loader *l, weft_error *error) {
    if (!l->options.names) return WEFT_OK;
    if (!(l->names = kit_take(&l->memory, l->n_arrays, sizeof *l->names)))
        return kit_no_memory(error, "loader");
    for (int i = 0; i < l->n_arrays - (l->options.draws > 0); i++) l->names[i] = l->options.names[i];
    l->options.names = l->names;
    return WEFT_OK;
}

/* Checks the sources and lists their arrays. */
static weft_status list_arrays(weft_loader *l, const weft_source *const *sources, weft_error *error) {
    for (int i = 0; i < l->n; i++) {
        if (check_source(l, i, sources[i], error)) return error->status;
        l->sources[i] = sources[i];
        l->samples = sources[i]->count;
        l->n_arrays += sources[i]->n;
    }
    l->n_arrays += l->options.draws > 0;
    size_t n = (size_t)l->n_arrays;
    l->arrays = kit_take(&l->memory, n, sizeof *l->arrays);
    l->given = kit_take(&l->memory, n, sizeof *l->given);
    l->row_bytes = kit_take(&l->memory, n, sizeof *l->row_bytes);
    if (l->memory.is_out) return kit_no_memory(error, "loader");
    for (int i = 0, at = 0; i < l->n; i++)
        for (int k = 0; k < sources[i]->n; k++, at++) {
            l->given[at] = *(l->arrays[at] = &sources[i]->arrays[k]);
            weft_status status = l->options.dtypes ? give_as(l, at, l->options.dtypes[at], error) : WEFT_OK;
            if (status) return status;
        }
    if (l->options.draws) {
        l->drawn =
            (weft_source_array){.name = "draws", .dtype = WEFT_F32, .ndim = 1, .shape = {l->options.draws}};
        l->given[l->n_arrays - 1] = *(l->arrays[l->n_arrays - 1] = &l->drawn);
    }
    for (int i = 0; i < l->n_arrays; i++) l->row_bytes[i] = loader_array_bytes(&l->given[i]);
    l->options.dtypes = NULL; /* the caller's */
    return WEFT_OK;
}

/* On an error weft_loader_free frees what is there. */
static weft_status loader_init(weft_loader *l, const weft_source *const *sources, weft_error *error) {
    const weft_loader_options *o = &l->options;
    l->sources = kit_take(&l->memory, l->n, sizeof *l->sources);
    weft_status status = l->sources ? list_arrays(l, sources, error) : kit_no_memory(error, "loader");
    if (!status) status = copy_names(l, error);
    if (status) return status;
    l->dealt = o->sampler && o->sampler_count ? o->sampler_count : l->samples;
    l->room = o->batch < l->dealt ? o->batch : l->dealt;
    if (o->drop_last && weft_loader_batches(l) == 0)
        return kit_fail(
            error, WEFT_ARGUMENT,
            "loader: %jd samples make no whole batch of %jd for each of %d ranks: leave drop_last "
            "out, or make the batch smaller",
            l->dealt, o->batch, o->all ? 1 : o->num_replicas);
    if (o->shuffle || o->sampler) {
        l->order = kit_take(&l->memory, l->dealt, sizeof *l->order);
        if (!l->order) return kit_no_memory(error, "loader");
    }
    set_order(l, 0);
    return slots_new(l, error);
}

/* ---- options ---- */

static const weft_field fields[] = {
    WEFT_FIELD(weft_loader_options, batch, COUNT, 1, WEFT_COUNT_MOST, NULL, "samples a batch"),
    WEFT_FIELD(weft_loader_options, shuffle, FLAG, 0, 1, NULL,
               "samples come in a new random order each epoch"),
    WEFT_FIELD(weft_loader_options, drop_last, FLAG, 0, 1, NULL, "a last batch that is smaller is left out"),
    WEFT_FIELD(weft_loader_options, seed, SEED, 0, 0, NULL, "seed of the shuffling and the draws"),
    WEFT_FIELD(weft_loader_options, rank, INT, 0, INT32_MAX, NULL, "this rank, from 0"),
    WEFT_FIELD(weft_loader_options, num_replicas, INT, 1, INT32_MAX, "1", "ranks that share the data"),
    WEFT_FIELD(weft_loader_options, in_a_row, INT, 1, INT32_MAX, "1", "batches that a rank takes at once"),
    WEFT_FIELD(weft_loader_options, all, FLAG, 0, 1, NULL, "every rank sees all batches"),
    WEFT_FIELD(weft_loader_options, by_sample, FLAG, 0, 1, NULL, "samples are dealt, not batches"),
    WEFT_FIELD(weft_loader_options, sampler_count, COUNT, 1, WEFT_COUNT_MOST, "as many as the sources have",
               "samples of an epoch of the sampler's"),
    WEFT_FIELD(weft_loader_options, draws, INT, 1, 4096, NULL,
               "random numbers for each sample, as one more array"),
    WEFT_FIELD(weft_loader_options, ahead, INT, -1, 4096, "2",
               "batches that are read ahead; -1: each when it is asked for"),
    WEFT_FIELD(weft_loader_options, threads, INT, 1, 256, "1", "threads that read"),
    WEFT_FIELD_END(weft_loader_options),
};

const weft_field *weft_loader_fields(void) {
    return fields;
}

/* Whether the options name a part of the data that there is. */
static weft_status check_part(const weft_loader_options *o, weft_error *error) {
    int ranks = o->num_replicas ? o->num_replicas : 1;
    const char *whole = o->all ? "all: every rank sees all batches" : "by_sample: samples are dealt";
    if ((o->all || o->by_sample) && o->in_a_row)
        return kit_fail(error, WEFT_ARGUMENT, "loader: %s, so in_a_row=%d must be 0", whole, o->in_a_row);
    if (o->all && o->by_sample)
        return kit_fail(error, WEFT_ARGUMENT,
                        "loader: all: every rank sees all batches: leave by_sample out");
    if (o->rank >= ranks)
        return kit_fail(error, WEFT_ARGUMENT, "loader: rank %d of %d: there is no such part", o->rank,
                        o->num_replicas);
    return WEFT_OK;
}

static weft_status check_reading(const weft_loader_options *o, weft_error *error) {
    if (o->memory && (!o->memory->alloc || !o->memory->free))
        return kit_fail(error, WEFT_ARGUMENT, "loader: memory: its functions alloc and free are needed");
    if (o->sampler && o->shuffle)
        return kit_fail(error, WEFT_ARGUMENT, "loader: a sampler gives the order: leave shuffle out");
    if (o->sampler_count && !o->sampler)
        return kit_fail(error, WEFT_ARGUMENT, "loader: sampler_count=%jd: there is no such sampler",
                        o->sampler_count);
    return WEFT_OK;
}

/* NULL after an error. The sources must outlive the loader, and so must the texts of the names; all else of
 * `options` is copied. */
weft_loader *weft_loader_new(int n, const weft_source *const *sources, const weft_loader_options *options,
                             const weft_env *env, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (n < 1 || !sources || !options || options->batch < 1)
        return kit_fail(error, WEFT_ARGUMENT,
                        "loader: at least one source and a batch of at least 1 are needed"),
               NULL;
    for (int i = 0; i < n; i++)
        if (sources[i] &&
            weft_reserved_check(sources[i]->reserved, sizeof sources[i]->reserved, "weft_source", error))
            return NULL;
    if (weft_fields_check(fields, options, "loader", error) || check_part(options, error) ||
        check_reading(options, error))
        return NULL;
    weft_loader *l = kit_object(env, sizeof *l);
    if (!l) return kit_no_memory(error, "loader"), NULL;
    l->batches = kit_arena_of(env);
    if (options->memory) l->batches.env.allocator = options->memory;
    l->n = n;
    l->options = *options;
    kit_defaults(fields, &l->options);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    if (loader_init(l, sources, error) == WEFT_OK) return l;
    weft_loader_free(l);
    return NULL;
}

void weft_loader_free(weft_loader *l) {
    if (!l) return;
    threads_end(l);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->mutex);
    kit_release(l->batches);
    kit_free(l);
}
