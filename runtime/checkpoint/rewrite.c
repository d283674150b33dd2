/* rewrite.c - writes the tensors of a checkpoint to other files: one of what all ranks hold together, or a
 * checkpoint of another number of files. Tensors go from file to file in pieces, so that none is in memory
 * whole. */
#include "runtime/checkpoint/checkpoint.h"

enum { MOST_WORLD = 1 << 16 }; /* each rank has a file */

/* The tensors of one file. */
typedef struct output {
    entries *from;
    int n;
    uint64_t bytes;
    const whole **sources;       /* [n]: where each is from */
    safetensors_tensor *tensors; /* [n] */
} output;

/* Room for all tensors. */
static bool output_new(output *o, entries *from) {
    *o = (output){.from = from,
                  .sources = arena_new_array(&from->arena, from->n_wholes, sizeof *o->sources),
                  .tensors = arena_new_array(&from->arena, from->n_wholes, sizeof *o->tensors)};
    return o->sources && o->tensors;
}

/* says: what the file says of it; NULL: nothing. */
static void output_add(output *o, const char *name, const char *says, const whole *source) {
    o->sources[o->n] = source;
    o->tensors[o->n++] = (safetensors_tensor){.name = name, .says = says, .type = source->type};
    o->bytes += type_bytes(&source->type);
}

static weft_status give_part(void *context, int index, uint64_t at, void *into, size_t bytes,
                             weft_error *error) {
    output *o = context;
    return entries_read(o->from, o->sources[index], at, into, bytes, error);
}

/* ---- one file ---- */

/* sources[n_wholes]: the average in the place of each value, else itself; *n: how many those are. */
static weft_status put_averages(const entries *all, const whole **sources, int *n, weft_error *error) {
    *n = 0;
    for (int i = 0; i < all->n_wholes; i++) sources[i] = &all->wholes[i];
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *average = &all->wholes[i];
        if (average->value.kind != WEFT_STORED_AVERAGE) continue;
        const whole *value = entries_find(all, average->value.of, average->first_rank);
        if (!value || stored_is_training(value->value.kind) || !type_equal(&value->type, &average->type))
            return error_set(error, WEFT_FILE, "%.400s: %s is not an average of its %s", all->c->path,
                             SHOW(average->name), SHOW(average->value.of));
        sources[value - all->wholes] = average;
        ++*n;
    }
    return WEFT_OK;
}

static weft_status choose(entries *all, weft_checkpoint_content content, output *o, weft_error *error) {
    int n = 0;
    const whole **sources = arena_new_array(&all->arena, all->n_wholes, sizeof *sources);
    if (!sources || !output_new(o, all)) return error_memory(error, all->c->path);
    bool is_averaged = content == WEFT_CHECKPOINT_AVERAGES;
    if (put_averages(all, sources, &n, error)) return error->status;
    if (!n && is_averaged)
        return error_set(error, WEFT_NAME, "%.400s: it has no averages of parameters", all->c->path);
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        bool is_other_group = i && strcmp(w->name, all->wholes[i - 1].name) == 0;
        bool is_value = !stored_is_training(w->value.kind);
        if (!is_other_group && (is_value || content == WEFT_CHECKPOINT_ALL))
            output_add(o, w->name, w->says, is_averaged ? sources[i] : w);
    }
    return WEFT_OK;
}

weft_status weft_checkpoint_export(const weft_checkpoint *c, const char *path,
                                   weft_checkpoint_content content, weft_error *error) {
    entries all;
    output o;
    weft_error own;
    error = error_here(error, &own);
    if (!c || !path || content < WEFT_CHECKPOINT_ALL || content > WEFT_CHECKPOINT_AVERAGES)
        return error_set(error, WEFT_ARGUMENT,
                         "weft_checkpoint_export: a checkpoint, a path and what to write are needed");
    bool failed = entries_open(&all, c, error) || choose(&all, content, &o, error) ||
                  safetensors_write(path, &c->env, o.n, o.tensors, give_part, &o, error);
    entries_close(&all);
    return failed ? error->status : WEFT_OK;
}

/* ---- another number of files ---- */

static int larger_first(const void *a, const void *b) {
    const whole *x = *(const whole *const *)a, *y = *(const whole *const *)b;
    size_t nx = type_bytes(&x->type), ny = type_bytes(&y->type);
    if (nx != ny) return nx > ny ? -1 : 1;
    return (x > y) - (x < y);
}

/* Each tensor goes to the file that has the fewest bytes so far; the largest first. */
static weft_status give_out(entries *all, int world, int *file_of, weft_error *error) {
    arena *a = &all->arena;
    const whole **order = arena_new_array(a, all->n_wholes, sizeof *order);
    uint64_t *bytes = arena_new_array(a, world, sizeof *bytes);
    if (!order || !bytes) return error_memory(error, all->c->path);
    for (int i = 0; i < all->n_wholes; i++) order[i] = &all->wholes[i];
    if (all->n_wholes) qsort(order, (size_t)all->n_wholes, sizeof *order, larger_first);
    for (int i = 0; i < all->n_wholes; i++) {
        int file = least_of(bytes, world);
        bytes[file] += type_bytes(&order[i]->type);
        file_of[order[i] - all->wholes] = file;
    }
    return WEFT_OK;
}

static weft_status write_file(entries *all, output *o, const int *file_of, int file, const char *tmp,
                              manifest_file *to, weft_error *error) {
    char path[CHECKPOINT_ROOM];
    safetensors_seal seal = {0};
    o->n = 0;
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        if (file_of[i] != file) continue;
        int64_t end = type_elements(&w->type);
        output_add(o, piece_name(&all->arena, w->name, &w->type, 0, end, w->first_rank), w->says, w);
        if (!o->tensors[o->n - 1].name) return error_memory(error, tmp);
    }
    to->name = arena_printf(&all->arena, "rank-%d.safetensors", file);
    if (!to->name) return error_memory(error, tmp);
    checkpoint_file_path(path, tmp, to->name);
    weft_status status =
        safetensors_write_sealed(path, &all->c->env, o->n, o->tensors, give_part, o, &seal, error);
    to->bytes = seal.bytes;
    to->hash = seal.hash;
    return status;
}

/* Files, manifest, rename: as a training writes them. */
static weft_status write_all(entries *all, const char *folder, int world, weft_error *error) {
    char tmp[CHECKPOINT_ROOM], path[CHECKPOINT_ROOM];
    output o;
    const weft_env *env = &all->c->env;
    manifest m = all->c->m;
    manifest_file *files = arena_new_array(&all->arena, world, sizeof *files);
    int *file_of = arena_new_array(&all->arena, all->n_wholes, sizeof *file_of);
    if (!files || !file_of || !output_new(&o, all)) return error_memory(error, folder);
    m.files = files;
    m.n_files = world;
    checkpoint_path(tmp, folder, m.step, ".tmp");
    checkpoint_file_path(path, tmp, MANIFEST_NAME);
    bool failed = give_out(all, world, file_of, error) || folder_make_tmp(folder, m.step, env, error);
    for (int f = 0; !failed && f < world; f++)
        failed = write_file(all, &o, file_of, f, tmp, &files[f], error);
    failed = failed || manifest_write(&m, path, env, error) || folder_complete(folder, m.step, env, error);
    if (failed) folder_clean(folder, env);
    return failed ? error->status : WEFT_OK;
}

static weft_status check_new(const weft_checkpoint *c, const char *folder, weft_error *error) {
    int n = 0;
    int64_t *steps = NULL;
    weft_status status = weft_checkpoint_steps(folder, &c->env, &steps, &n, error);
    for (int i = 0; !status && i < n; i++)
        if (steps[i] == c->m.step)
            status = error_set(error, WEFT_ORDER, "%.600s: it has step %jd: choose another folder", folder,
                               c->m.step);
    weft_checkpoint_steps_free(steps);
    return status;
}

weft_status weft_checkpoint_reshard(const weft_checkpoint *c, const char *folder, int world,
                                    weft_error *error) {
    entries all;
    weft_error own;
    weft_checkpoint_lock *lock = NULL;
    error = error_here(error, &own);
    if (!c || world < 1 || world > MOST_WORLD)
        return error_set(error, WEFT_ARGUMENT,
                         "weft_checkpoint_reshard: a checkpoint and from 1 to %d files are needed",
                         MOST_WORLD);
    if (path_check(folder, BEHIND_FOLDER, error)) return error->status;
    bool failed = entries_open(&all, c, error) || folder_make(folder, &c->env, error) ||
                  !(lock = weft_checkpoint_lock_take(folder, &c->env, error)) ||
                  check_new(c, folder, error) || write_all(&all, folder, world, error);
    weft_checkpoint_lock_release(lock);
    entries_close(&all);
    return failed ? error->status : WEFT_OK;
}
