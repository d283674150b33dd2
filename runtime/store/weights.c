/* weights.c - saves and loads a store's values as safetensors, under PyTorch's names: "generator/fc/weight"
 * becomes "generator.fc.weight". Loading checks every name, shape and type before it changes the first value.
 * What a value is the store or the file says (stored.h), never its name. */
#include "runtime/store/weights.h"
#include "runtime/store/store.h"
#include "runtime/store/stored.h"

#include "ops/kit/op_kit.h"
#include "weft/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp(((const weight *)a)->name, ((const weight *)b)->name);
}

/* What a file says of it; false: no memory. */
static bool say_kind(weights *w, weight *to) {
    const store_part *p = to->part;
    if (!stored_is_training(p->kind)) return true;
    const char *of = p->parameter ? file_name_of(&w->arena, p->parameter) : p->optimizer;
    if (p->parameter && !of) return false;
    return (to->says = stored_text(&w->arena, p->kind, of)) != NULL;
}

static bool add_tensor(weights *w, const store_part *part) {
    weight *to = &w->list[w->n++];
    *to = (weight){.part = part, .name = file_name_of(&w->arena, part->path)};
    return to->name && say_kind(w, to);
}

/* Paths may contain dots already, so two paths could get one name, which is an error. */
weft_status weights_collect(weights *w, const weft_store *store, bool training, const char *file,
                            weft_error *error) {
    size_t room = 0;
    *w = (weights){.store = store};
    arena_init(&w->arena, &store->env);
    while (store_part_at(store, (int)room)) room++;
    w->list = arena_new_array(&w->arena, room + 1, sizeof *w->list);
    w->tensors = arena_new_array(&w->arena, room + 1, sizeof *w->tensors);
    if (!w->list || !w->tensors) return error_memory(error, file);
    for (size_t i = 0; i < room; i++) {
        const store_part *part = store_part_at(store, (int)i);
        if ((training || !stored_is_training(part->kind)) && !add_tensor(w, part))
            return error_memory(error, file);
    }
    qsort(w->list, (size_t)w->n, sizeof *w->list, by_name);
    for (int i = 0; i < w->n; i++) {
        const weight *from = &w->list[i];
        w->tensors[i] =
            (safetensors_tensor){.name = from->name, .says = from->says, .type = from->part->type};
        if (i && by_name(&w->list[i - 1], &w->list[i]) == 0)
            return error_set(
                error, WEFT_NAME, "%.400s: %s and %s would both be named %s in the file: rename one", file,
                SHOW(w->list[i - 1].part->path), SHOW(w->list[i].part->path), SHOW(w->list[i].name));
    }
    return WEFT_OK;
}

/* ---- saving ---- */

/* An error on every rank alike, even on one that happens to hold all of a tensor. */
static weft_status check_whole(const weights *w, const char *file, weft_error *error) {
    for (int i = 0; i < w->n; i++) {
        const store_part *p = w->list[i].part;
        if (p->cut && p->cut->n_ranks > 1)
            return error_set(
                error, WEFT_ORDER,
                "%.400s: ZeRO shards %s over %d ranks: call weft_session_save on all of them instead", file,
                SHOW(p->path), p->cut->n_ranks);
    }
    return WEFT_OK;
}

/* Fills a piece of a file from the store. */
static weft_status give(void *context, int index, uint64_t at, void *into, size_t bytes, weft_error *error) {
    const weights *w = context;
    return store_read(w->store, w->list[index].part, at, into, bytes, error);
}

/* Sharded state cannot be saved here, since a rank has only its range. */
weft_status weft_weights_save(const weft_store *store, const char *path, bool training, weft_error *error) {
    weights w;
    weft_error own;
    error = error_here(error, &own);
    if (!store || !path)
        return error_set(error, WEFT_ARGUMENT, "weft_weights_save: a store and a path are needed");
    bool failed = weights_collect(&w, store, training, path, error) || check_whole(&w, path, error) ||
                  store_check_settled(store, path, error) ||
                  (training && store_check_parameters(store, path, error)) ||
                  safetensors_write(path, &store->env, w.n, w.tensors, give, &w, error);
    arena_free(&w.arena);
    return failed ? error->status : WEFT_OK;
}

/* ---- loading ---- */

/* Element by element. Stores hold f32 and f64 only; the file may hold any floating-point type. */
static void convert(weft_dtype to, void *into, weft_dtype from, const void *data, int64_t count) {
    tensor out = {.data = into, .type = type_of(to, 1, &count), .stride = {1}};
    tensor in = {.data = (void *)(uintptr_t)data, .type = type_of(from, 1, &count), .stride = {1}};
    for (int64_t i = 0; i < count; i++) element_set(&out, &i, element_get(&in, &i));
}

/* Integers and booleans are not converted. */
static bool can_convert(weft_dtype to, weft_dtype from) {
    return to == from || ((to == WEFT_F32 || to == WEFT_F64) && dtype_is_float(from));
}

/* Binary search. */
const weight *weights_find(const weights *w, const char *name) {
    weight key = {.name = name};
    return w->n ? bsearch(&key, w->list, (size_t)w->n, sizeof key, by_name) : NULL;
}

/* Whether `part` is the last component of a name. */
static bool ends_in(const char *name, const char *part) {
    size_t n = strlen(name), k = strlen(part);
    return n >= k && strcmp(name + n - k, part) == 0 && (n == k || strchr("./", name[n - k - 1]));
}

/* torch's batch norm counts batches, which nothing here reads. Its files say nothing of what they hold. */
static bool is_torchs_count(const safetensors_tensor *t) {
    return t->type.dtype == WEFT_I64 && !t->type.ndim && ends_in(t->name, "num_batches_tracked");
}

/* Whether the store has values of optimizers or counters; a plan of `predict` alone has none. */
static bool has_training(const weights *w) {
    for (int i = 0; i < w->n; i++)
        if (stored_is_training(w->list[i].part->kind)) return true;
    return false;
}

/* What a file may have and the store not: torch's counts; what depends on options (f16's loss scale,
 * averages, ...); any training state, where the store has none. */
static bool is_left_aside(const weights *w, const safetensors_tensor *t) {
    weft_stored value;
    if (is_torchs_count(t)) return true;
    stored_read("", t, &value, NULL);
    return stored_is_training(value.kind) && (stored_is_optional(value.kind) || !has_training(w));
}

/* Checks a number of an optimizer: a step of 1e300 or a negative lr would show only in the results of
 * training. */
static weft_status check_number(const safetensors *file, const safetensors_tensor *t, const store_part *to,
                                weft_error *error) {
    _Alignas(8) char from[8];
    double value;
    if (!stored_is_number(to->kind)) return WEFT_OK;
    if (safetensors_read_range(file, t, 0, from, dtype_bytes(t->type.dtype), error)) return error->status;
    convert(WEFT_F64, &value, t->type.dtype, from, 1);
    const char *why = store_number_rule(to, value);
    return why ? error_set(error, WEFT_FILE, "%.400s: %s is %g: %s", file->path, SHOW(t->name), value, why)
               : WEFT_OK;
}

/* A file that says what a tensor is and a store that says otherwise do not fit. */
weft_status weights_check_kind(const char *path, const weft_stored *from, const weight *to,
                               weft_error *error) {
    weft_stored_kind kind = to->part->kind;
    if (from->kind == kind || (!stored_is_training(from->kind) && !stored_is_training(kind))) return WEFT_OK;
    return error_set(error, WEFT_NAME, "%.400s: %s is '%s' there, the model's is '%s'", path,
                     SHOW(from->path), stored_word(from->kind), stored_word(kind));
}

/* Whether one tensor of the file, which the model may not have, fits the store. */
static weft_status check_one(const weights *w, const safetensors *file, const safetensors_tensor *t,
                             weft_error *error) {
    weft_stored said;
    const weight *to = weights_find(w, t->name);
    weft_status status = stored_read(file->path, t, &said, error);
    if (status || !to) return status;
    if (t->says && (status = weights_check_kind(file->path, &said, to, error))) return status;
    const tensor_type *type = &to->part->type;
    if (!shape_equal(type, &t->type))
        return error_set(error, WEFT_SHAPE, "%.400s: %s is %s, the model's is %s", file->path, SHOW(t->name),
                         TYPE(&t->type), TYPE(type));
    if (!can_convert(type->dtype, t->type.dtype))
        return error_set(error, WEFT_TYPE, "%.400s: %s is %s, which does not convert to the model's %s",
                         file->path, SHOW(t->name), TYPE(&t->type), TYPE(type));
    return check_number(file, t, to->part, error);
}

/* ---- names: what is missing, what is unexpected ---- */

/* The names of one side without a counterpart: all of them as text, the first and their number for errors. */
typedef struct unmatched {
    text all;
    const char *first;
    int count, matched; /* matched: those that the other side has */
} unmatched;

static void note_unmatched(unmatched *u, const char *name) {
    if (!u->count++) u->first = name;
    text_add(&u->all, "%s\n", name);
}

/* `missing` has state too, which a file may lack even in a strict load (PyTorch's older files do), so the
 * first parameter is returned; NULL: none is missing. */
static const char *compare_names(const weights *w, const safetensors *file, unmatched *missing,
                                 unmatched *unexpected) {
    const char *parameter = NULL;
    for (int i = 0; i < file->n; i++) {
        const safetensors_tensor *t = &file->tensors[i];
        if (!weights_find(w, t->name) && !is_left_aside(w, t)) note_unmatched(unexpected, t->name);
    }
    for (int i = 0; i < w->n; i++) {
        const char *path = w->list[i].part->path, *name = w->list[i].name;
        if (stored_is_training(w->list[i].part->kind)) continue;
        missing->matched += safetensors_find(file, name) != NULL;
        if (safetensors_find(file, name)) continue;
        note_unmatched(missing, name);
        if (!parameter && store_has_parameter(w->store, path)) parameter = name;
    }
    return parameter;
}

/* " (and 3 more)", or nothing. */
static const char *and_more(int others, char into[40]) {
    into[0] = 0;
    if (others > 0) snprintf(into, 40, " (and %d more)", others);
    return into;
}

/* No parameter of the model is in the file, which has other tensors only. */
static weft_status another_model(const safetensors *file, const unmatched *missing,
                                 const unmatched *unexpected, weft_error *error) {
    char more[2][40];
    return error_set(
        error, WEFT_NAME,
        "%.400s: no name in it is one of the model's: it has %s%s, and the model %s%s: these are weights of "
        "another model, or by other names: rename those (weft_weights_load, graphtool's --rename)",
        file->path, SHOW(unexpected->first), and_more(unexpected->count - 1, more[0]), SHOW(missing->first),
        and_more(missing->count - 1, more[1]));
}

/* The error of a strict load. */
static weft_status check_names(const safetensors *file, const char *parameter, const unmatched *missing,
                               const unmatched *unexpected, weft_error *error) {
    char more[40];
    if (unexpected->count && missing->count && !missing->matched)
        return another_model(file, missing, unexpected, error);
    if (unexpected->count)
        return error_set(error, WEFT_NAME,
                         "%.400s: the model has no %s%s: rename it, or load in part (weft_weights_load, "
                         "graphtool's --rename and --partial)",
                         file->path, SHOW(unexpected->first), and_more(unexpected->count - 1, more));
    if (parameter)
        return error_set(error, WEFT_NAME,
                         "%.400s: parameter %s is missing%s: rename what is there, or load in part "
                         "(weft_weights_load, graphtool's --rename and --partial)",
                         file->path, SHOW(parameter), and_more(missing->count - 1, more));
    return WEFT_OK;
}

/* Every tensor that the model has fits it; in a strict load there are no others, and no parameter lacks. */
static weft_status check(const weights *w, const safetensors *file, const weft_weights_options *o,
                         weft_weights_report *report, weft_error *error) {
    unmatched missing = {0}, unexpected = {0};
    if (store_check_settled(w->store, file->path, error)) return error->status;
    const char *parameter = compare_names(w, file, &missing, &unexpected);
    weft_status status = o->not_strict ? WEFT_OK : check_names(file, parameter, &missing, &unexpected, error);
    for (int i = 0; !status && i < file->n; i++) status = check_one(w, file, &file->tensors[i], error);
    *report = (weft_weights_report){0, missing.count, unexpected.count, text_detach(&missing.all),
                                    text_detach(&unexpected.all)};
    return status;
}

/* ---- renaming ---- */

/* The name after the first rename that fits; NULL when memory is out. */
static const char *renamed(safetensors *file, const char *name, const weft_weights_options *o) {
    for (int i = 0; i < o->n_renames; i++) {
        size_t n = strlen(o->renames[i].from);
        if (strncmp(name, o->renames[i].from, n) == 0)
            return arena_printf(&file->arena, "%s%s", o->renames[i].to, name + n);
    }
    return name;
}

/* Names stay sorted, and each of them once. What the file says is training state keeps its name. */
static weft_status rename_all(safetensors *file, const weft_weights_options *o, weft_error *error) {
    bool is_good = o->n_renames >= 0 && (o->n_renames > 0) == (o->renames != NULL);
    for (int i = 0; is_good && i < o->n_renames; i++) is_good = o->renames[i].from && o->renames[i].to;
    if (!is_good)
        return error_set(error, WEFT_ARGUMENT,
                         "%.400s: n_renames=%d and renames: both or neither, with texts", file->path,
                         o->n_renames);
    for (int i = 0; i < file->n; i++) {
        safetensors_tensor *t = &file->tensors[i];
        weft_stored value;
        if (stored_read(file->path, t, &value, error)) return error->status;
        if (!stored_is_training(value.kind) && !(t->name = renamed(file, t->name, o)))
            return error_memory(error, file->path);
    }
    const safetensors_tensor *again = safetensors_sort(file);
    return again ? error_set(error, WEFT_NAME, "%.400s: two tensors would be named %s after renaming",
                             file->path, SHOW(again->name))
                 : WEFT_OK;
}

/* ---- reading ---- */

/* Reads one tensor; of a sharded one only this rank's range. */
static weft_status load_one(weft_store *store, const safetensors *file, const safetensors_tensor *t,
                            const store_part *to, weft_error *error) {
    int64_t count = to->end - to->begin;
    size_t width = dtype_bytes(t->type.dtype), from_bytes = (size_t)count * width;
    size_t to_bytes = (size_t)count * dtype_bytes(to->type.dtype);
    /* In the file a tensor is whole; the store may hold a range of it. */
    uint64_t at = (uint64_t)to->begin * width;
    if (!count) return WEFT_OK;
    void *data = mem_raw(&file->env, from_bytes);
    void *converted = to->type.dtype == t->type.dtype ? data : mem_raw(&file->env, to_bytes);
    weft_status status = data && converted ? safetensors_read_range(file, t, at, data, from_bytes, error)
                                           : error_memory(error, file->path);
    if (!status && converted != data) convert(to->type.dtype, converted, t->type.dtype, data, count);
    if (!status) status = store_write(store, to, 0, converted, to_bytes, error);
    if (converted != data) mem_free(&file->env, converted, to_bytes);
    mem_free(&file->env, data, from_bytes);
    return status;
}

/* Only after check: from here on an error can only be one of memory, device or file. */
static weft_status load_all(weft_store *store, const weights *w, const safetensors *file, int *n_loaded,
                            weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < file->n; i++) {
        const weight *to = weights_find(w, file->tensors[i].name);
        if (!to) continue;
        status = load_one(store, file, &file->tensors[i], to->part, error);
        if (!status) ++*n_loaded;
        store->loaded |= stored_is_training(to->part->kind) ? LOADED_STATE : LOADED_VALUES;
    }
    return status;
}

/* The store must be settled. Afterwards sessions see new versions, and make derived values again. */
weft_status weft_weights_load(weft_store *store, const char *path, const weft_weights_options *options,
                              weft_weights_report *report, weft_error *error) {
    static const weft_weights_options strict = {0};
    const weft_weights_options *o = options ? options : &strict;
    weft_weights_report found = {0};
    weights w = {0};
    safetensors file;
    weft_error own;
    error = error_here(error, &own);
    if (report) *report = found;
    if (!store || !path)
        return error_set(error, WEFT_ARGUMENT, "weft_weights_load: a store and a path are needed");
    if (reserved_check(o->reserved, sizeof o->reserved, "weft_weights_options", error) ||
        store_check_parameters(store, path, error) || safetensors_open(&file, path, &store->env, error))
        return error->status;
    bool failed = rename_all(&file, o, error) || weights_collect(&w, store, true, path, error) ||
                  check(&w, &file, o, &found, error) || load_all(store, &w, &file, &found.n_loaded, error);
    arena_free(&w.arena);
    safetensors_close(&file);
    if (failed) found.n_loaded = 0;
    if (report) {
        *report = found;
    } else {
        weft_text_free(found.missing);
        weft_text_free(found.unexpected);
    }
    return failed ? error->status : WEFT_OK;
}
