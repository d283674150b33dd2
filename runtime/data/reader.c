/* reader.c - assembles batches in slots, by threads that run ahead of the caller, or in the caller's own.
 *
 * The invariant: of a batch there is at most one slot, and a slot that is read or held by the caller
 * belongs to nobody else. Threads read the batches that come next, the nearest first; any other
 * slot is free for another batch, so a caller that seeks finds what was read if it is still there. */
#include "runtime/data/convert.h"
#include "runtime/data/loader.h"

#include <signal.h>

/* ---- memory ---- */

static bool slot_init(weft_loader *l, slot *s) {
    s->batch = -1;
    s->data = kit_take(&l->memory, l->n_arrays, sizeof *s->data);
    s->raw = kit_take(&l->memory, l->n_arrays, sizeof *s->raw);
    for (int i = 0; s->data && s->raw && i < l->n_arrays; i++) {
        s->data[i] = kit_take_raw(&l->batches, l->room, l->row_bytes[i]);
        if (l->given[i].dtype != l->arrays[i]->dtype)
            s->raw[i] = kit_take_raw(&l->memory, loader_array_bytes(l->arrays[i]), 1);
    }
    return !l->memory.is_out && !l->batches.is_out;
}

/* No more slots than an epoch has batches; one more than are read ahead, for the caller's. */
weft_status slots_new(weft_loader *l, weft_error *error) {
    int64_t batches = weft_loader_batches(l);
    int ahead = batches < l->options.ahead ? (int)batches : l->options.ahead;
    l->options.ahead = ahead;
    l->n_slots = ahead < 0 ? 1 : ahead + 1;
    l->held = -1;
    l->slots = kit_take(&l->memory, l->n_slots, sizeof *l->slots);
    if (ahead > 0) l->threads = kit_take(&l->memory, l->options.threads, sizeof *l->threads);
    bool is_there = !l->memory.is_out;
    for (int i = 0; is_there && i < l->n_slots; i++) is_there = slot_init(l, &l->slots[i]);
    return is_there ? WEFT_OK : kit_no_memory(error, "loader");
}

void threads_end(weft_loader *l) {
    pthread_mutex_lock(&l->mutex);
    l->ends = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->n_threads; i++) pthread_join(l->threads[i], NULL);
}

/* ---- reading ---- */

/* A source that fails without a status, or with a status and no text, would give no error to show. */
static weft_status source_failed(weft_error *error, weft_status status, int64_t sample) {
    if (error->status == status && *error->text) return status;
    return kit_fail(error, status, "sample %jd: %s", sample, weft_status_text(status));
}

/* Seed, epoch and sample are mixed in one after another; numbers are multiples of 2^-24. */
static void draw(const weft_loader *l, int64_t sample, float *into) {
    uint64_t state = l->options.seed;
    state = kit_splitmix(&state) ^ (uint64_t)l->epoch;
    state = kit_splitmix(&state) ^ (uint64_t)sample;
    for (int i = 0; i < l->options.draws; i++) into[i] = (float)(kit_splitmix(&state) >> 40) * 0x1p-24f;
}

/* Array `at` of a sample, which was read to `from`, as row `row` of the slot. */
static weft_status convert(const weft_loader *l, slot *s, int at, int64_t row, int64_t sample,
                           const char *from) {
    char number[24];
    const weft_source_array *has = l->arrays[at], *gives = &l->given[at];
    size_t width = weft_dtype_bytes(has->dtype), count = loader_array_bytes(has) / width;
    size_t good = convert_numbers(has->dtype, from, gives->dtype,
                                  s->data[at] + (size_t)row * l->row_bytes[at], count, false);
    if (good == count) return WEFT_OK;
    return convert_fail(&s->error, loader_array_name(l, at, number), sample, has->dtype, from + good * width,
                        gives->dtype);
}

/* The arrays of source i of one sample, which begin at number `first`: those that are converted go through
 * `raw`. */
static weft_status read_source(const weft_loader *l, slot *s, int i, int first, int64_t row, int64_t sample) {
    void *into[WEFT_SOURCE_ARRAYS];
    const weft_source *from = l->sources[i];
    for (int k = 0, at = first; k < from->n; k++, at++)
        into[k] = s->raw[at] ? s->raw[at] : s->data[at] + (size_t)row * l->row_bytes[at];
    weft_status status = from->read(from->context, sample, into, &s->error);
    if (status) return source_failed(&s->error, status, sample);
    for (int k = 0, at = first; !status && k < from->n; k++, at++)
        if (s->raw[at]) status = convert(l, s, at, row, sample, into[k]);
    return status;
}

/* All arrays of one sample, as row `row` of the slot. */
static weft_status read_sample(const weft_loader *l, slot *s, int64_t row, int64_t sample) {
    if (sample < 0 || sample >= l->samples)
        return kit_fail(&s->error, WEFT_ARGUMENT, "loader: the sampler names sample %jd, there are %jd",
                        sample, l->samples);
    for (int i = 0, first = 0; i < l->n; first += l->sources[i]->n, i++) {
        weft_status status = read_source(l, s, i, first, row, sample);
        if (status) return status;
    }
    if (l->options.draws) draw(l, sample, (float *)(void *)s->data[l->n_arrays - 1] + row * l->options.draws);
    return WEFT_OK;
}

/* The slot's own fields are nobody else's while its state is SLOT_READING. */
static void read_batch(const weft_loader *l, slot *s) {
    s->error = (weft_error){0};
    s->rows = loader_rows(l, s->batch);
    for (int64_t r = 0; r < s->rows; r++)
        if (read_sample(l, s, r, loader_sample(l, s->batch, r))) return;
}

/* ---- threads; the mutex is locked in all that follows ---- */

/* The slot of a batch, read or being read; NULL: there is none. */
static slot *slot_of(const weft_loader *l, int64_t batch) {
    for (int i = 0; i < l->n_slots; i++)
        if (l->slots[i].state != SLOT_EMPTY && l->slots[i].batch == batch) return &l->slots[i];
    return NULL;
}

static bool is_soon(const weft_loader *l, int64_t batch) {
    int k = 0;
    while (k < l->options.ahead && loader_coming(l, k) != batch) k++;
    return k < l->options.ahead;
}

/* A slot for another batch: an empty one, or one whose batch nobody will ask for soon. */
static slot *slot_free(const weft_loader *l) {
    slot *found = NULL;
    for (int i = 0; i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        if (i == l->held || s->state == SLOT_READING) continue;
        if (s->state == SLOT_EMPTY) return s;
        if (!is_soon(l, s->batch)) found = s;
    }
    return found;
}

/* Takes a slot for the nearest batch that is not there; NULL: nothing is to be read. */
static slot *take_work(weft_loader *l) {
    int64_t end = weft_loader_batches(l);
    for (int k = 0; !l->pauses && k < l->options.ahead; k++) {
        int64_t b = loader_coming(l, k);
        if (b >= end || slot_of(l, b)) continue;
        slot *s = slot_free(l);
        if (s) *s = (slot){.state = SLOT_READING, .batch = b, .data = s->data, .raw = s->raw};
        return s;
    }
    return NULL;
}

static void *reader_run(void *loader) {
    weft_loader *l = loader;
    pthread_mutex_lock(&l->mutex);
    while (!l->ends) {
        slot *s = take_work(l);
        if (!s) {
            pthread_cond_wait(&l->work, &l->mutex);
            continue;
        }
        pthread_mutex_unlock(&l->mutex);
        read_batch(l, s);
        pthread_mutex_lock(&l->mutex);
        s->state = SLOT_READY;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* Signals are for the program's own threads. One thread is enough. */
static weft_status threads_start(weft_loader *l, weft_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (l->n_threads < l->options.threads &&
           pthread_create(&l->threads[l->n_threads], NULL, reader_run, l) == 0)
        l->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return l->n_threads
               ? WEFT_OK
               : kit_fail(error, WEFT_MEMORY,
                          "loader: no thread can be started: raise ulimit -v (memory) or -u (processes), "
                          "or use ahead=-1");
}

void slots_empty(weft_loader *l) {
    l->pauses = true; /* no thread takes work */
    for (int i = 0; i < l->n_slots; i++) {
        while (l->slots[i].state == SLOT_READING) pthread_cond_wait(&l->done, &l->mutex);
        if (i == l->held) /* the caller may still look at it */
            l->slots[i].batch = -1;
        else
            l->slots[i].state = SLOT_EMPTY;
    }
    l->pauses = false;
}

/* ---- the caller ---- */

/* Waits for the slot of a batch, the next one. Without threads it is read here. */
static slot *slot_wait(weft_loader *l, int64_t batch) {
    slot *s = slot_of(l, batch);
    if (s && s->state == SLOT_READY) return s;
    if (l->threads) {
        pthread_cond_broadcast(&l->work);
        while (!(s = slot_of(l, batch)) || s->state == SLOT_READING) pthread_cond_wait(&l->done, &l->mutex);
    } else {
        s = &l->slots[0];
        *s = (slot){.state = SLOT_READY, .batch = batch, .data = s->data, .raw = s->raw};
        read_batch(l, s);
    }
    return s;
}

/* A batch that could not be read is read again when it is asked for again. */
bool weft_loader_next(weft_loader *l, const void **data, int64_t *rows, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (!l || !data || !rows)
        return kit_fail(error, WEFT_ARGUMENT, "weft_loader_next: an argument is NULL"), false;
    uint64_t began = weft_clock_ns();
    int64_t batch = loader_coming(l, 0);
    if (batch >= weft_loader_batches(l)) return false;
    if (l->threads && !l->n_threads && threads_start(l, error)) return false;
    pthread_mutex_lock(&l->mutex);
    l->held = -1;
    slot *s = slot_wait(l, batch);
    if (s->error.status) {
        *error = s->error;
        s->state = SLOT_EMPTY;
        pthread_mutex_unlock(&l->mutex);
        return false;
    }
    l->held = (int)(s - l->slots);
    if (l->at < l->n_list)
        l->at++;
    else
        l->next++;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->n_arrays; i++) data[i] = s->data[i];
    *rows = s->rows;
    loader_note(l, batch, began);
    return true;
}
