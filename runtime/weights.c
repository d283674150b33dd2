/* weights.c - a store's values as safetensors, under PyTorch's names: "generator/fc/weight" is
 * "generator.fc.weight". Loading checks every name, shape and type before it changes the first value.
 */
#include "weft/file.h"

#include "ops/op_kit.h"
#include "runtime/program.h"
#include "runtime/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* One path of the store. */
typedef struct weight {
    const char *path;
    char *name; /* dotted */
    tensor_type type;
} weight;

typedef struct weights {
    const weft_store *store;
    arena arena;
    int n;
    weight *list; /* sorted by name once loading begins */
} weights;

static bool is_training(const char *path) {
    return strncmp(path, "optimizer.", 10) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const weight *)a)->name, ((const weight *)b)->name);
}

/* Paths may hold dots already: two that differ only there would share a name. */
static weft_status weights_collect(weights *w, const weft_store *store, bool training, const char *file,
                                   weft_error *error) {
    int room = 0;
    *w = (weights){.store = store};
    arena_init(&w->arena, store_env(store));
    while (weft_store_path(store, room)) room++;
    w->list = arena_new_array(&w->arena, (size_t)room + 1, sizeof *w->list);
    if (!w->list) return error_memory(error, file);
    for (int i = 0; i < room; i++) {
        const char *path = weft_store_path(store, i);
        if (!training && is_training(path)) continue;
        weight *to = &w->list[w->n++];
        to->path = path;
        to->type.ndim = weft_store_shape(store, path, &to->type.dtype, to->type.shape);
        to->name = arena_copy(&w->arena, path);
        if (!to->name) return error_memory(error, file);
        for (char *c = to->name; *c; c++)
            if (*c == '/') *c = '.';
    }
    qsort(w->list, (size_t)w->n, sizeof *w->list, by_name);
    for (int i = 1; i < w->n; i++)
        if (by_name(&w->list[i - 1], &w->list[i]) == 0)
            return error_set(error, WEFT_NAME,
                             "%.400s: %s and %s would both be named %s in the file: rename one", file,
                             SHOW(w->list[i - 1].path), SHOW(w->list[i].path), SHOW(w->list[i].name));
    return WEFT_OK;
}

/* ---- saving ---- */

static weft_status weight_get(void *context, int index, void *into, size_t bytes, weft_error *error) {
    const weights *w = context;
    return weft_store_get(w->store, w->list[index].path, into, bytes, error);
}

weft_status weft_weights_save(const weft_store *store, const char *path, bool training, weft_error *error) {
    weights w;
    if (error) *error = (weft_error){0};
    if (!store || !path)
        return error_set(error, WEFT_ARGUMENT, "weft_weights_save: a store and a path are needed");
    weft_status status = weights_collect(&w, store, training, path, error);
    safetensors_tensor *list = status ? NULL : arena_new_array(&w.arena, (size_t)w.n + 1, sizeof *list);
    if (!status && !list) status = error_memory(error, path);
    for (int i = 0; !status && i < w.n; i++)
        list[i] = (safetensors_tensor){.name = w.list[i].name, .type = w.list[i].type};
    if (!status) status = safetensors_write(path, store_env(store), w.n, list, weight_get, &w, error);
    arena_free(&w.arena);
    return status;
}

/* ---- loading ---- */

/* Only f32 and f64 are stored; the file may hold any floating-point type. */
static void convert(weft_dtype to, void *into, weft_dtype from, const void *data, int64_t count) {
    tensor out = {.data = into, .type = type_of(to, 1, &count), .stride = {1}};
    tensor in = {.data = (void *)(uintptr_t)data, .type = type_of(from, 1, &count), .stride = {1}};
    for (int64_t i = 0; i < count; i++) element_set(&out, &i, element_get(&in, &i));
}

static bool can_convert(weft_dtype to, weft_dtype from) {
    return to == from || ((to == WEFT_F32 || to == WEFT_F64) && dtype_is_float(from));
}

static const weight *weight_named(const weights *w, const char *name) {
    weight key = {.name = (char *)name};
    return w->n ? bsearch(&key, w->list, (size_t)w->n, sizeof key, by_name) : NULL;
}

/* torch's batch norm counts its batches; nothing here reads the count. Optimizer state is skipped where the
 * store has no optimizer at all (a plan of `predict` alone). */
static bool is_left_aside(const weights *w, const char *name) {
    static const char count[] = "num_batches_tracked";
    size_t n = strlen(name), k = sizeof count - 1;
    if (n >= k && strcmp(name + n - k, count) == 0 && (n == k || name[n - k - 1] == '.')) return true;
    if (!is_training(name)) return false;
    for (int i = 0; i < w->n; i++)
        if (is_training(w->list[i].path)) return false;
    return true;
}

static weft_status check(const weights *w, const safetensors *file, weft_error *error) {
    for (int i = 0; i < file->n; i++) {
        const safetensors_tensor *t = &file->tensors[i];
        const weight *to = weight_named(w, t->name);
        if (!to && is_left_aside(w, t->name)) continue;
        if (!to) return error_set(error, WEFT_NAME, "%.400s: the model has no %s", file->path, SHOW(t->name));
        if (!shape_equal(&to->type, &t->type))
            return error_set(error, WEFT_SHAPE, "%.400s: %s is %s, the model's is %s", file->path,
                             SHOW(t->name), TYPE(&t->type), TYPE(&to->type));
        if (!can_convert(to->type.dtype, t->type.dtype))
            return error_set(error, WEFT_TYPE, "%.400s: %s is %s, which does not convert to the model's %s",
                             file->path, SHOW(t->name), TYPE(&t->type), TYPE(&to->type));
    }
    for (int i = 0; i < w->n; i++)
        if (store_has_parameter(w->store, w->list[i].path) && !safetensors_find(file, w->list[i].name))
            return error_set(error, WEFT_NAME, "%.400s: parameter %s is missing", file->path,
                             SHOW(w->list[i].name));
    return WEFT_OK;
}

static weft_status load_one(weft_store *store, const safetensors *file, const safetensors_tensor *t,
                            const weight *to, weft_error *error) {
    size_t from_bytes = (size_t)(t->end - t->begin), bytes = type_bytes(&to->type);
    bool same = t->type.dtype == to->type.dtype;
    void *data = mem_raw(&file->env, from_bytes), *converted = same ? data : mem_raw(&file->env, bytes);
    weft_status status =
        data && converted ? safetensors_read(file, t, data, error) : error_memory(error, file->path);
    if (!status && !same) convert(to->type.dtype, converted, t->type.dtype, data, type_elements(&to->type));
    if (!status) status = weft_store_set(store, to->path, converted, bytes, error);
    if (!same) mem_free(&file->env, converted, bytes);
    mem_free(&file->env, data, from_bytes);
    return status;
}

weft_status weft_weights_load(weft_store *store, const char *path, weft_error *error) {
    weights w = {0};
    safetensors file;
    if (error) *error = (weft_error){0};
    if (!store || !path)
        return error_set(error, WEFT_ARGUMENT, "weft_weights_load: a store and a path are needed");
    weft_status status = safetensors_open(&file, path, store_env(store), error);
    if (status) return status;
    status = weights_collect(&w, store, true, path, error);
    if (!status) status = check(&w, &file, error);
    for (int i = 0; !status && i < file.n; i++) {
        const weight *to = weight_named(&w, file.tensors[i].name);
        if (to) status = load_one(store, &file, &file.tensors[i], to, error);
    }
    arena_free(&w.arena);
    safetensors_close(&file);
    return status;
}
