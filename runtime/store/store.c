/* store.c - the values of a model in one block of memory: parameters, state, optimizer state, accumulated
 * gradients. A store knows no graphs and outlives plans: its entries have paths, types and offsets of their
 * own.
 *
 * Users see parameters and state by path, and optimizer state for each parameter as
 * "optimizer.<name>/<parameter>/<slot>", in whatever bucket it is. */
#include "runtime/plan/program.h"

#include "graph/settings/strategy.h"
#include "ops/optimizer/update.h"
#include "runtime/store/init.h"
#include "runtime/store/room.h"
#include "runtime/store/store.h"
#include "runtime/store/stored.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- building ---- */

/* One entry for each variable but those that belong to sessions. */
static bool copy_entries(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        if (variable_is_sessions(v)) continue;
        store_entry *e = &s->entries[s->n_entries++];
        *e = (store_entry){.path = arena_copy(&s->arena, v->path),
                           .kind = v->kind,
                           .type = v->type,
                           .init = v->init,
                           .offset = offsets[v->index],
                           .version = 1};
        if (!e->path || !table_add(&s->by_path, &s->arena, e->path, e)) return false;
    }
    return true;
}

/* Variables of every plan of the model are found by path, not by index, which may differ. */
static store_entry *find_entry(const weft_store *s, const char *path) {
    return table_find(&s->by_path, path);
}

/* Parameters and shards change together with their bucket, so its version counts for them. */
static void find_owners(weft_store *s, const weft_plan *plan) {
    int i = 0;
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        if (variable_is_sessions(v)) continue;
        store_entry *e = &s->entries[i++];
        e->owner = variable_is_part(v) ? find_entry(s, v->bucket->path) : e;
    }
}

/* Notes where each rank's range of a sharded bucket begins. */
static bool note_cut(weft_store *s, const weft_plan *plan, const weft_variable *bucket) {
    int n = plan->subgraphs[bucket->subgraph].n_ranks;
    store_cut *cut = arena_new(&s->arena, sizeof *cut);
    int64_t *starts = arena_new_array(&s->arena, n + 1, sizeof *starts);
    if (!cut || !starts) return false;
    for (int r = 0; r < n; r++) starts[r + 1] = starts[r] + (int64_t)bucket->shards[r];
    *cut = (store_cut){n, starts};
    find_entry(s, bucket->path)->cut = cut;
    return true;
}

static store_part *add_part(weft_store *s, const char *path, weft_stored_kind kind, const tensor_type *type) {
    store_part *e = &s->parts[s->n_public++];
    *e = (store_part){
        .path = arena_copy(&s->arena, path), .kind = kind, .type = *type, .end = type_elements(type)};
    return e->path && table_add(&s->named, &s->arena, e->path, e) ? e : NULL;
}

/* A place in the store's memory; NULL in an outline. */
static char *memory_at(const weft_store *s, uint64_t offset) {
    return s->memory ? s->memory + offset : NULL;
}

/* A part that is a whole variable. */
static store_part *add_whole(weft_store *s, const weft_variable *v, weft_stored_kind kind, uint64_t offset) {
    store_part *e = add_part(s, v->path, kind, &v->type);
    if (!e) return NULL;
    e->memory = memory_at(s, offset);
    e->owner = find_entry(s, v->path)->owner;
    return e;
}

static bool add_value(weft_store *s, const weft_variable *v, uint64_t offset) {
    bool is_parameter = v->kind == VARIABLE_PARAMETER;
    store_part *e = add_whole(s, v, is_parameter ? WEFT_STORED_PARAMETER : WEFT_STORED_STATE, offset);
    if (e) e->parameter = e->path;
    return e != NULL;
}

static bool add_number(weft_store *s, const weft_plan *plan, const weft_variable *v, uint64_t offset) {
    const char *optimizer;
    store_part *e = add_whole(s, v, number_kind(plan, v, &optimizer), offset);
    if (e && optimizer) e->optimizer = arena_copy(&s->arena, optimizer);
    return e && (!optimizer || e->optimizer);
}

/* *cut: where each rank's range of a state begins; NULL: it is not sharded. False: no memory. */
static bool cut_of_slot(weft_store *s, const optimizer_slot *o, const store_cut **cut) {
    const store_cut *of_bucket = *cut = find_entry(s, o->bucket->path)->cut;
    if (!of_bucket || o->shape == SLOT_LIKE_PARAMETER) return true;
    size_t n = (size_t)of_bucket->n_ranks;
    store_cut *own = arena_new(&s->arena, sizeof *own);
    int64_t *starts = arena_new_array(&s->arena, n + 1, sizeof *starts);
    if (!own || !starts) return false;
    for (size_t r = 0; r <= n; r++) starts[r] = slot_place(o->shape, o->bucket, of_bucket->starts[r]);
    *own = (store_cut){of_bucket->n_ranks, starts};
    *cut = own;
    return true;
}

/* A part "optimizer.NAME/PARAMETER/SLOT" for every member of a bucket that has such state. The variable's
 * memory is at `offset` bytes. */
static bool add_members(weft_store *s, const optimizer_slot *o, uint64_t offset) {
    char path[2000];
    const weft_variable *bucket = o->bucket, *v = o->variable;
    int64_t first = v ? slot_place(o->shape, bucket, v->offset) : 0, count = v ? type_elements(&v->type) : 0;
    const store_cut *cut;
    if (!cut_of_slot(s, o, &cut)) return false;
    for (int i = 0; i < bucket->n_members; i++) {
        const weft_variable *p = bucket->members[i];
        tensor_type type;
        if (!optimizer_slot_type(o->shape, &p->type, &type)) continue;
        snprintf(path, sizeof path, "%s/%s/%s", o->name, p->path, o->slot);
        store_part *e = add_part(s, path, o->is_average ? WEFT_STORED_AVERAGE : WEFT_STORED_SLOT, &type);
        if (!e || !(e->parameter = arena_copy(&s->arena, p->path))) return false;
        e->cut = cut;
        e->offset = slot_place(o->shape, bucket, p->offset);
        if (!flat_range(e->offset, type_elements(&type), first, count, &e->begin, &e->end)) {
            e->begin = e->end = 0;
            continue;
        }
        e->memory = memory_at(s, offset + (uint64_t)(e->offset + e->begin - first) * sizeof(float));
        e->owner = find_entry(s, v->path)->owner;
    }
    return true;
}

/* The average of a state of the model. */
static bool add_average(weft_store *s, const optimizer_slot *o, uint64_t offset) {
    store_part *e = add_whole(s, o->variable, WEFT_STORED_AVERAGE, offset);
    return e && (e->parameter = arena_copy(&s->arena, o->bucket->path));
}

/* State of optimizers. All ranks list the same paths, also of sharded state. */
static bool add_states(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    for (int i = 0; i < plan->n_states; i++) {
        const optimizer_slot *o = &plan->states[i];
        uint64_t offset = o->variable ? offsets[o->variable->index] : 0;
        bool is_of_state = o->bucket->kind == VARIABLE_STATE;
        if (is_of_state ? !add_average(s, o, offset) : !add_members(s, o, offset)) return false;
    }
    return true;
}

/* Makes the parts in an order that is the same on all ranks: variables in their order, then optimizer state.
 */
static bool publish(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        /* Buckets, shards and gradients have no names for users. */
        bool plain = v->kind == VARIABLE_PARAMETER || v->kind == VARIABLE_STATE;
        bool is_number = v->kind == VARIABLE_OPTIMIZER && !v->bucket && v->type.dtype == WEFT_F64;
        if (plain && !add_value(s, v, offsets[v->index])) return false;
        if (is_number && !add_number(s, plan, v, offsets[v->index])) return false;
    }
    if (!add_states(s, plan, offsets)) return false;
    for (store_part *p = s->parts; p < s->parts + s->n_public; p++) {
        const subgraph *g = p->parameter ? subgraph_of(plan, p->parameter) : NULL;
        p->first_rank = g ? g->ranks[0] : 0;
    }
    return true;
}

static size_t count_parts(const weft_plan *plan) {
    size_t n = (size_t)plan->model->n_variables;
    for (int i = 0; i < plan->n_states; i++) n += (size_t)plan->states[i].bucket->n_members + 1;
    return n;
}

/* Initial values are made on the host and copied to the device. What a strategy keeps is not sent at the
 * start, so its random values do not depend on the seed, which ranks may give differently. */
static weft_status fill_entry(weft_store *s, const store_entry *e, weft_error *error) {
    size_t bytes = type_bytes(&e->type);
    void *values = mem_raw(&s->env, bytes);
    if (!values) return error_memory(error, "store");
    init_fill(values, &e->type, e->path, e->init, strategy_keeps(e->kind, e->path) ? 0 : s->seed);
    weft_status status = s->device->write(NULL, s->memory + e->offset, values, bytes, error);
    mem_free(&s->env, values, bytes);
    return status;
}

/* Zeros first, so that only other initial values are written. Buckets have their members' values. */
static weft_status fill_store(weft_store *s, weft_error *error) {
    weft_status status = s->device->clear(s->memory, s->bytes, error);
    for (int i = 0; i < s->n_entries && !status; i++) {
        const store_entry *e = &s->entries[i];
        if (e->kind != VARIABLE_BUCKET && e->kind != VARIABLE_GRADIENT && e->init.kind != WEFT_INIT_ZEROS)
            status = fill_entry(s, e, error);
    }
    return status;
}

/* A store without lists and memory, and where each variable will be; NULL: no memory. */
static weft_store *begin_store(const weft_plan *plan, uint64_t **offsets) {
    const weft_model *m = plan->model;
    uint64_t kinds[VARIABLE_KINDS];
    weft_store *s = mem_new(&plan->env, sizeof *s);
    if (!s) return NULL;
    s->env = plan->env;
    s->form = plan->form;
    arena_init(&s->arena, &s->env);
    s->has_lock = pthread_mutex_init(&s->lock, NULL) == 0;
    *offsets = arena_new_array(&s->arena, m->n_variables, sizeof **offsets);
    s->entries = arena_new_array(&s->arena, m->n_variables, sizeof *s->entries);
    s->parts = arena_new_array(&s->arena, count_parts(plan), sizeof *s->parts);
    if (*offsets) s->bytes = store_layout(plan, *offsets, kinds);
    return s;
}

/* Its entries and parts. */
static bool list_all(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    if (!s->has_lock || !offsets || !s->entries || !s->parts || !copy_entries(s, plan, offsets)) return false;
    find_owners(s, plan);
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->shards && !note_cut(s, plan, v)) return false;
    return publish(s, plan, offsets);
}

weft_store *store_outline(const weft_plan *plan) {
    uint64_t *offsets;
    weft_store *s = begin_store(plan, &offsets);
    if (s && list_all(s, plan, offsets)) return s;
    weft_store_free(s);
    return NULL;
}

/* NULL after an error. The caller frees it with weft_store_free, after the sessions that use it. */
weft_store *weft_store_new(const weft_plan *plan, uint64_t seed, weft_error *error) {
    if (!plan) {
        if (!error || !error->status) error_set(error, WEFT_ARGUMENT, "store: there is no plan");
        return NULL;
    }
    if (error) *error = (weft_error){0};
    uint64_t *offsets;
    const device *d = plan_device(plan, error);
    if (d && room_check(plan, "a store and a session", plan->memory.total, 0, NULL, 1, NULL, error))
        return NULL;
    weft_store *s = d ? begin_store(plan, &offsets) : NULL;
    if (!s) {
        if (d) error_memory(error, "store");
        return NULL;
    }
    s->device = d;
    s->seed = seed;
    if (offsets) s->memory = device_alloc(d, &s->env, s->bytes, "store", weft_model_name(plan->model), error);
    if (!s->memory || !list_all(s, plan, offsets)) {
        if (!error || !error->status)
            error_set(error, WEFT_MEMORY, "store: %ju bytes could not be allocated", s->bytes);
        weft_store_free(s);
        return NULL;
    }
    if (!fill_store(s, error)) return s;
    weft_store_free(s);
    return NULL;
}

void weft_store_free(weft_store *s) {
    if (!s || __atomic_fetch_sub(&s->sessions, 1, __ATOMIC_ACQ_REL) > 0) return;
    weft_env env = s->env;
    if (s->memory) s->device->free(&env, s->memory, s->bytes);
    arena_free(&s->arena);
    if (s->has_lock) pthread_mutex_destroy(&s->lock);
    mem_free(&env, s, sizeof *s);
}

/* ---- its sessions' work ---- */

/* The list is locked also while a copy waits for the queues in it, which must not be destroyed then. */
static pthread_mutex_t *lock_of(const weft_store *s) {
    return (pthread_mutex_t *)(uintptr_t)&s->lock;
}

void store_add_work(weft_store *s, device_work *work) {
    pthread_mutex_lock(lock_of(s));
    work->next = s->work;
    s->work = work;
    pthread_mutex_unlock(lock_of(s));
}

void store_remove_work(weft_store *s, const device_work *work) {
    pthread_mutex_lock(lock_of(s));
    device_work **at = &s->work;
    while (*at && *at != work) at = &(*at)->next;
    if (*at) *at = work->next;
    pthread_mutex_unlock(lock_of(s));
}

weft_status store_fetch(const weft_store *s, void *into, const void *from, size_t bytes, weft_error *error) {
    pthread_mutex_lock(lock_of(s));
    weft_status status = s->device->read(s->work, into, from, bytes, error);
    pthread_mutex_unlock(lock_of(s));
    return status;
}

/* The other way. */
static weft_status put(weft_store *s, void *to, const void *from, size_t bytes, weft_error *error) {
    pthread_mutex_lock(lock_of(s));
    weft_status status = s->device->write(s->work, to, from, bytes, error);
    pthread_mutex_unlock(lock_of(s));
    return status;
}

/* ---- by path ---- */

const store_part *store_part_of(const weft_store *s, const char *path) {
    return s && path ? table_find(&s->named, path) : NULL;
}

/* *part is the part of this path, if the caller's size is right, this rank holds all of it, and nothing is
 * arriving in it. */
static weft_status expect(const weft_store *s, const char *path, size_t bytes, const store_part **part,
                          weft_error *error) {
    const store_part *e = *part = store_part_of(s, path);
    if (!e) return error_set(error, WEFT_NAME, "store: there is no '%s'", SHOW(path));
    if (bytes != type_bytes(&e->type))
        return error_set(error, WEFT_SHAPE, "store: %s is %s, %zu bytes; the caller gave %zu", e->path,
                         TYPE(&e->type), type_bytes(&e->type), bytes);
    if (e->begin != 0 || e->end != type_elements(&e->type))
        return error_set(
            error, WEFT_ORDER,
            "store: %s, %s: this rank holds only elements %jd to %jd: ZeRO keeps the others on other ranks",
            e->path, TYPE(&e->type), e->begin, e->end);
    return e->owner->arriving ? store_check_settled(s, e->path, error) : WEFT_OK;
}

/* ---- numbers of optimizers ---- */

/* Steps are counted in f64, which is exact up to 2^53; rates and scales are used as f32. */
const char *store_number_rule(const store_part *e, double value) {
    switch (e->kind) {
    case WEFT_STORED_STEP:
    case WEFT_STORED_EPOCH:
    case WEFT_STORED_GOOD_STEPS:
    case WEFT_STORED_COUNTER:
        if (value >= 0 && value <= 0x1p53 && value == floor(value)) return NULL;
        return "it must be a whole number from 0 to 2^53";
    case WEFT_STORED_LR:
        if (value >= 0 && value <= FLT_MAX) return NULL;
        return "a learning rate is a finite number that is not negative";
    case WEFT_STORED_LOSS_SCALE:
        return value > 0 && value <= FLT_MAX ? NULL : "a loss scale is a finite number above 0";
    case WEFT_STORED_LOSS_MEAN:
        if (value >= -1 && value <= 0x1p24) return NULL;
        return "a mean of losses' sizes is -1 (none yet) or from 0 to 2^24";
    default:
        return NULL;
    }
}

/* A copy in the host's memory, row-major. */
weft_status weft_store_get(const weft_store *s, const char *path, void *into, size_t bytes,
                           weft_error *error) {
    const store_part *e;
    if (!into)
        return error_set(error, WEFT_ARGUMENT, "store: %s: there is nowhere to copy it (NULL)", SHOW(path));
    weft_status status = expect(s, path, bytes, &e, error);
    return status ? status : store_read(s, e, 0, into, bytes, error);
}

/* Numbers of optimizers are checked, since a wrong one would show only in the results of training. */
weft_status weft_store_set(weft_store *s, const char *path, const void *from, size_t bytes,
                           weft_error *error) {
    const store_part *e;
    if (!from)
        return error_set(error, WEFT_ARGUMENT, "store: %s: there is nothing to copy (NULL)", SHOW(path));
    weft_status status = expect(s, path, bytes, &e, error);
    if (status) return status;
    bool may_be_average =
        e->parameter && (store_has_parameter(s, e->parameter) || store_has_average(s, e->parameter));
    if (may_be_average && store_check_parameters(s, e->path, error)) return WEFT_ORDER;
    if (stored_is_number(e->kind)) {
        double value;
        memcpy(&value, from, sizeof value);
        const char *why = store_number_rule(e, value);
        if (why) return error_set(error, WEFT_ARGUMENT, "store: %s=%g: %s", e->path, value, why);
    }
    return store_write(s, e, 0, from, bytes, error);
}

weft_status store_read(const weft_store *s, const store_part *part, size_t at, void *into, size_t bytes,
                       weft_error *error) {
    return store_fetch(s, into, part->memory + at, bytes, error);
}

/* The version counts even if the copy fails: part of it may have been written. */
weft_status store_write(weft_store *s, const store_part *part, size_t at, const void *from, size_t bytes,
                        weft_error *error) {
    part->owner->version++;
    return put(s, part->memory + at, from, bytes, error);
}

const store_part *store_part_at(const weft_store *s, int index) {
    return s && index >= 0 && index < s->n_public ? &s->parts[index] : NULL;
}

const char *weft_store_path(const weft_store *s, int index) {
    const store_part *e = store_part_at(s, index);
    return e ? e->path : NULL;
}

bool weft_store_at(const weft_store *s, int index, weft_stored *value) {
    const store_part *e = value ? store_part_at(s, index) : NULL;
    if (!e) return false;
    bool is_value = e->kind == WEFT_STORED_PARAMETER || e->kind == WEFT_STORED_STATE;
    *value = (weft_stored){e->path, e->kind, is_value ? NULL : e->parameter ? e->parameter : e->optimizer};
    return true;
}

/* The number of axes; -1: no such part. */
int weft_store_shape(const weft_store *s, const char *path, weft_dtype *dtype, int64_t shape[WEFT_MAX_NDIM]) {
    const store_part *e = store_part_of(s, path);
    if (!e) return -1;
    if (dtype) *dtype = e->type.dtype;
    if (shape) memcpy(shape, e->type.shape, sizeof e->type.shape);
    return e->type.ndim;
}

/* Sets a number of the optimizer of that name, of all of them if it is NULL; *matched counts them. */
static weft_status set_number(weft_store *s, const char *optimizer, weft_stored_kind kind, double value,
                              int *matched, weft_error *error) {
    for (int i = 0; s && i < s->n_public; i++) {
        const store_part *e = &s->parts[i];
        if (e->kind != kind || (optimizer && strcmp(e->optimizer, optimizer))) continue;
        weft_status status = put(s, e->memory, &value, sizeof value, error);
        if (status) return status;
        ++*matched;
    }
    return WEFT_OK;
}

weft_status weft_store_set_lr(weft_store *s, const char *optimizer, double lr, weft_error *error) {
    int matched = 0;
    if (!(lr >= 0 && lr <= FLT_MAX))
        return error_set(error, WEFT_ARGUMENT,
                         "learning rate %g: it must be a finite number that is not negative", lr);
    weft_status status = set_number(s, optimizer, WEFT_STORED_LR, lr, &matched, error);
    if (!status && !matched)
        return error_set(error, WEFT_NAME, "learning rate: there is no optimizer '%s'", SHOW(optimizer));
    return status;
}

/* Optimizers whose schedules count no epochs have no such number. */
weft_status weft_store_set_epoch(weft_store *s, int64_t epoch, weft_error *error) {
    int matched = 0;
    if (!s || epoch < 0 || epoch > (int64_t)1 << 53)
        return error_set(error, WEFT_ARGUMENT, "epoch %jd: a store and a number from 0 to 2^53 are needed",
                         epoch);
    return set_number(s, NULL, WEFT_STORED_EPOCH, (double)epoch, &matched, error);
}

/* ---- for sessions ---- */

/* The type is compared too, so a store of another model with the same names is found out. */
void *store_memory(const weft_store *s, const char *path, const tensor_type *type) {
    const store_entry *e = find_entry(s, path);
    return e && type_equal(&e->type, type) ? s->memory + e->offset : NULL;
}

uint64_t *store_version(const weft_store *s, const weft_variable *v) {
    store_entry *e = find_entry(s, v->path);
    return e ? &e->owner->version : NULL;
}

bool store_has_parameter(const weft_store *s, const char *path) {
    const store_entry *e = find_entry(s, path);
    return e && e->kind == VARIABLE_PARAMETER;
}

/* ---- values in flight, and ranges of ranks ---- */

store_entry *store_owner(const weft_store *s, const weft_variable *v) {
    store_entry *e = find_entry(s, v->path);
    return e ? e->owner : NULL;
}

void store_note_arriving(weft_store *s, store_entry *entry, int change) {
    s->n_arriving += change;
    entry->arriving += change;
}

weft_status store_check_settled(const weft_store *s, const char *what, weft_error *error) {
    if (!s->n_arriving) return WEFT_OK;
    return error_set(
        error, WEFT_ORDER,
        "%.400s: updates of earlier runs are still in flight between ranks: call weft_sync first", what);
}

bool store_has_average(const weft_store *s, const char *path) {
    for (int i = 0; i < s->n_public; i++)
        if (s->parts[i].kind == WEFT_STORED_AVERAGE && strcmp(s->parts[i].parameter, path) == 0) return true;
    return false;
}

weft_status store_check_parameters(const weft_store *s, const char *what, weft_error *error) {
    if (!s->has_averages) return WEFT_OK;
    return error_set(
        error, WEFT_ORDER,
        "%.400s: averages are in the place of parameters: call weft_use_averages(session, false) first",
        what);
}

/* Whether two descriptions give every rank the same elements. */
static bool same_cut(const store_cut *cut, const size_t *shards, int n_ranks) {
    if (!cut || !shards) return !cut && !shards;
    bool same = cut->n_ranks == n_ranks;
    for (int r = 0; same && r < n_ranks; r++)
        same = cut->starts[r + 1] - cut->starts[r] == (int64_t)shards[r];
    return same;
}

/* Sessions refuse a store whose optimizer state was divided for another world or another option. */
weft_status store_check_cuts(const weft_store *s, const weft_plan *plan, weft_error *error) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        const store_entry *e = v->kind == VARIABLE_BUCKET ? find_entry(s, v->path) : NULL;
        if (e && !same_cut(e->cut, v->shards, plan->subgraphs[v->subgraph].n_ranks))
            return error_set(error, WEFT_ORDER,
                             "session: the store shards the optimizer state of %s differently from the plan: "
                             "it was made for another world, zero or shard",
                             v->path);
    }
    return WEFT_OK;
}
