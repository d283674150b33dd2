/* store.c - the values of a model in one block of memory: parameters, state, optimizer state, accumulated
 * gradients. It knows nothing of graphs and outlives plans: entries carry paths, types and places of their own.
 *
 * A user sees parameters and state by path, and optimizer state per parameter as
 * "optimizer.<name>/<parameter>/<slot>", whatever segments they lie in.
 */
#include "runtime/program.h"

#include "runtime/init.h"

#include <stdio.h>
#include <string.h>

/* What a user can name: a whole entry, or a parameter's part of a flat one. */
typedef struct public_entry {
    const char *path;
    tensor_type type;
    uint64_t offset;   /* bytes */
    store_entry *home; /* whose version counts its changes */
} public_entry;

struct weft_store {
    weft_env env;
    arena arena;
    uint64_t seed;
    char *memory;
    uint64_t bytes;
    uint64_t
        common; /* bytes from the start that all ranks hold alike: less than bytes where state is sharded */
    int n_entries, n_public;
    store_entry *entries;
    public_entry *public_entries;
};

/* ---- building ---- */

static bool copy_entries(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        if (v->kind == VARIABLE_DERIVED || !variable_is_held(plan, v)) continue;
        store_entry *e = &s->entries[s->n_entries++];
        *e = (store_entry){.path = arena_copy(&s->arena, v->path),
                           .kind = v->kind,
                           .type = v->type,
                           .init = v->init,
                           .offset = offsets[v->index],
                           .version = 1};
        if (!e->path) return false;
    }
    return true;
}

static store_entry *find_entry(const weft_store *s, const char *path) {
    for (int i = 0; i < s->n_entries; i++)
        if (strcmp(s->entries[i].path, path) == 0) return &s->entries[i];
    return NULL;
}

/* Variables are laid out in order of making: parameters, state and segments before the optimizers' state. */
static uint64_t common_bytes(const weft_plan *plan, const uint64_t *offsets, uint64_t all) {
    bool is_sharded = false;
    for (const weft_variable *v = plan->model->variables; v; v = v->next) is_sharded |= v->owner != 0;
    for (const weft_variable *v = plan->model->variables; is_sharded && v; v = v->next)
        if (v->kind == VARIABLE_OPTIMIZER && variable_is_held(plan, v)) return offsets[v->index];
    return all;
}

static bool add_public(weft_store *s, const char *path, const tensor_type *type, uint64_t offset,
                       const char *home) {
    public_entry *e = &s->public_entries[s->n_public++];
    *e = (public_entry){arena_copy(&s->arena, path), *type, offset, find_entry(s, home)};
    return e->path && e->home;
}

/* "optimizer.NAME/SEGMENT/SLOT" becomes "optimizer.NAME/PARAMETER/SLOT" for every member. */
static bool add_members(weft_store *s, const weft_variable *v, uint64_t offset) {
    char path[1500];
    const char *segment = strstr(v->path, v->segment->path), *slot = strrchr(v->path, '/');
    for (int i = 0; i < v->n_members; i++) {
        const weft_variable *p = v->members[i];
        snprintf(path, sizeof path, "%.*s%s%s", (int)(segment - v->path), v->path, p->path, slot);
        if (!add_public(s, path, &p->type, offset + (uint64_t)p->offset * sizeof(float), v->path))
            return false;
    }
    return true;
}

static bool publish(weft_store *s, const weft_plan *plan, const uint64_t *offsets) {
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        if (!variable_is_held(plan, v)) continue;
        uint64_t at = offsets[v->index];
        bool plain = v->kind == VARIABLE_PARAMETER || v->kind == VARIABLE_STATE;
        bool member = v->kind == VARIABLE_PARAMETER && v->segment;
        if ((plain || (v->kind == VARIABLE_OPTIMIZER && !v->segment)) &&
            !add_public(s, v->path, &v->type, at, member ? v->segment->path : v->path))
            return false;
        if (v->kind == VARIABLE_OPTIMIZER && v->segment && !add_members(s, v, at)) return false;
    }
    return true;
}

static size_t count_public(const weft_model *m) {
    size_t n = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) n += 1 + (size_t)v->n_members;
    return n;
}

static void fill(weft_store *s) {
    memset(s->memory, 0, s->bytes);
    for (int i = 0; i < s->n_entries; i++) {
        const store_entry *e = &s->entries[i];
        if (e->kind != VARIABLE_SEGMENT && e->kind != VARIABLE_GRADIENT && e->init.kind != WEFT_INIT_ZEROS)
            init_fill(s->memory + e->offset, &e->type, e->path, e->init, s->seed);
    }
}

weft_store *weft_store_new(const weft_plan *plan, uint64_t seed, weft_error *error) {
    if (!plan) {
        if (!error || !error->status) error_set(error, WEFT_ARGUMENT, "store: there is no plan");
        return NULL;
    }
    const weft_model *m = plan->model;
    uint64_t kinds[VARIABLE_KINDS];
    weft_store *s = mem_new(&plan->env, sizeof *s);
    if (!s) {
        error_memory(error, "store");
        return NULL;
    }
    s->env = plan->env;
    s->seed = seed;
    arena_init(&s->arena, &s->env);
    uint64_t *offsets = arena_new_array(&s->arena, (size_t)m->n_variables + 1, sizeof *offsets);
    s->entries = arena_new_array(&s->arena, (size_t)m->n_variables + 1, sizeof *s->entries);
    s->public_entries = arena_new_array(&s->arena, count_public(m) + 1, sizeof *s->public_entries);
    if (offsets) s->bytes = store_layout(plan, offsets, kinds);
    s->memory = offsets ? mem_raw(&s->env, s->bytes) : NULL;
    if (!s->memory || !s->entries || !s->public_entries || !copy_entries(s, plan, offsets) ||
        !publish(s, plan, offsets)) {
        error_set(error, WEFT_MEMORY, "store: %llu bytes could not be had", (unsigned long long)s->bytes);
        weft_store_free(s);
        return NULL;
    }
    s->common = common_bytes(plan, offsets, s->bytes);
    fill(s);
    return s;
}

void weft_store_free(weft_store *s) {
    if (!s) return;
    weft_env env = s->env;
    mem_free(&env, s->memory, s->bytes);
    arena_free(&s->arena);
    mem_free(&env, s, sizeof *s);
}

/* ---- by path ---- */

static const public_entry *find_public(const weft_store *s, const char *path) {
    for (int i = 0; s && path && i < s->n_public; i++)
        if (strcmp(s->public_entries[i].path, path) == 0) return &s->public_entries[i];
    return NULL;
}

static const public_entry *expect(const weft_store *s, const char *path, size_t bytes, weft_error *error) {
    const public_entry *e = find_public(s, path);
    if (!e) {
        error_set(error, WEFT_NAME, "store: there is no '%s'", SHOW(path));
        return NULL;
    }
    if (bytes != type_bytes(&e->type)) {
        error_set(error, WEFT_SHAPE, "store: %s is %s, %zu bytes; the caller has %zu", e->path,
                  TYPE(&e->type), type_bytes(&e->type), bytes);
        return NULL;
    }
    return e;
}

weft_status weft_store_get(const weft_store *s, const char *path, void *into, size_t bytes,
                           weft_error *error) {
    const public_entry *e = expect(s, path, bytes, error);
    if (!e) return error ? error->status : WEFT_NAME;
    memcpy(into, s->memory + e->offset, bytes);
    return WEFT_OK;
}

weft_status weft_store_set(weft_store *s, const char *path, const void *from, size_t bytes,
                           weft_error *error) {
    const public_entry *e = expect(s, path, bytes, error);
    if (!e) return error ? error->status : WEFT_NAME;
    memcpy(s->memory + e->offset, from, bytes);
    e->home->version++;
    return WEFT_OK;
}

const char *weft_store_path(const weft_store *s, int index) {
    return s && index >= 0 && index < s->n_public ? s->public_entries[index].path : NULL;
}

int weft_store_shape(const weft_store *s, const char *path, weft_dtype *dtype, int64_t shape[WEFT_MAX_NDIM]) {
    const public_entry *e = find_public(s, path);
    if (!e) return -1;
    if (dtype) *dtype = e->type.dtype;
    if (shape) memcpy(shape, e->type.shape, sizeof e->type.shape);
    return e->type.ndim;
}

weft_status weft_store_set_lr(weft_store *s, const char *optimizer, double lr, weft_error *error) {
    char wanted[1500];
    int matched = 0;
    if (!(lr >= 0) || lr - lr != 0)
        return error_set(error, WEFT_ARGUMENT, "learning rate: it must not be negative");
    snprintf(wanted, sizeof wanted, "optimizer.%s/lr", optimizer ? optimizer : "");
    for (int i = 0; s && i < s->n_entries; i++) {
        const store_entry *e = &s->entries[i];
        size_t n = strlen(e->path);
        bool is_lr = e->kind == VARIABLE_OPTIMIZER && e->type.ndim == 0 && n > 3 &&
                     strcmp(e->path + n - 3, "/lr") == 0;
        if (!is_lr || (optimizer && strcmp(e->path, wanted))) continue;
        memcpy(s->memory + e->offset, &lr, sizeof lr);
        matched++;
    }
    if (!matched)
        return error_set(error, WEFT_NAME, "learning rate: there is no optimizer '%s'", SHOW(optimizer));
    return WEFT_OK;
}

/* ---- for sessions ---- */

void *store_memory(const weft_store *s, const char *path, const tensor_type *type) {
    const store_entry *e = find_entry(s, path);
    return e && type_equal(&e->type, type) ? s->memory + e->offset : NULL;
}

uint64_t *store_version(const weft_store *s, const weft_variable *v) {
    store_entry *e = find_entry(s, v->kind == VARIABLE_PARAMETER && v->segment ? v->segment->path : v->path);
    return e ? &e->version : NULL;
}

void *store_block(weft_store *s, uint64_t *bytes) {
    for (int i = 0; i < s->n_entries; i++) s->entries[i].version++;
    *bytes = s->common;
    return s->memory;
}

uint64_t store_seed(const weft_store *s) {
    return s->seed;
}

const weft_env *store_env(const weft_store *s) {
    return &s->env;
}

bool store_has_parameter(const weft_store *s, const char *path) {
    for (int i = 0; i < s->n_entries; i++)
        if (strcmp(s->entries[i].path, path) == 0) return s->entries[i].kind == VARIABLE_PARAMETER;
    return false;
}
