/* folder.c - the checkpoints of a folder. A name "step-00000100" is a complete one. Anything with ".tmp"
 * behind it is under way, or was left by a process that ended: nobody reads it. */
#include "runtime/checkpoint/checkpoint.h"

#include "graph/file/io_posix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

bool checkpoint_path(char into[CHECKPOINT_ROOM], const char *folder, int64_t step, const char *end) {
    int n = snprintf(into, CHECKPOINT_ROOM, "%s/step-%08lld%s", folder, (long long)step, end);
    return n > 0 && n < CHECKPOINT_ROOM;
}

bool checkpoint_file_path(char into[CHECKPOINT_ROOM], const char *path, const char *name) {
    int n = snprintf(into, CHECKPOINT_ROOM, "%s/%s", path, name);
    return n > 0 && n < CHECKPOINT_ROOM;
}

/* The step of a name as checkpoint_path writes it, and what stands behind its number; -1: another name. */
static int64_t step_of(const char *name, const char **rest) {
    char again[64];
    static const char head[] = "step-";
    const char *digits = name + sizeof head - 1;
    if (strncmp(name, head, sizeof head - 1) != 0) return -1;
    size_t n = strspn(digits, "0123456789");
    if (n < 8 || n > 18) return -1;
    int64_t step = strtoll(digits, NULL, 10);
    *rest = digits + n;
    snprintf(again, sizeof again, "step-%08lld", (long long)step);
    return strncmp(again, name, strlen(again)) == 0 && strlen(again) == sizeof head - 1 + n ? step : -1;
}

/* ---- lists ---- */

typedef struct step_list {
    const weft_env *env;
    bool failed;
    size_t room, n;
    int64_t *steps;
} step_list;

static void add_step(void *to, const char *name) {
    step_list *l = to;
    const char *rest;
    int64_t step = step_of(name, &rest);
    if (step < 0 || *rest || l->failed) return;
    int64_t *more = mem_grow(l->env, l->steps, &l->room, l->n + 1, sizeof *more);
    l->failed = !more;
    if (more) l->steps = more, l->steps[l->n++] = step;
}

static void list_free(step_list *l) {
    mem_free(l->env, l->steps, l->room * sizeof *l->steps);
}

static int by_step(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* 0 or an errno value; the caller frees it in both cases. A folder that is not there has none. */
static int list_steps(step_list *l, const char *folder, const weft_env *env) {
    const weft_io *io = io_of(env);
    *l = (step_list){.env = env};
    if (!io->list) return ENOTSUP;
    int code = io->list(io->context, folder, add_step, l);
    if (code == ENOENT) code = 0;
    if (l->n) qsort(l->steps, l->n, sizeof *l->steps, by_step);
    return l->failed ? ENOMEM : code;
}

static void ignore_name(void *to, const char *name) {
    (void)to, (void)name;
}

bool folder_is_there(const char *folder, const weft_env *env) {
    const weft_io *io = io_of(env);
    return !io->list || io->list(io->context, folder, ignore_name, NULL) != ENOENT;
}

weft_status weft_checkpoint_steps(const char *folder, const weft_env *env, int64_t **steps, int *n,
                                  weft_error *error) {
    step_list l;
    text all = {0}; /* of malloc, as the caller frees it */
    if (error) *error = (weft_error){0};
    if (!folder || !steps || !n)
        return error_set(error, WEFT_ARGUMENT, "weft_checkpoint_steps: a folder and room are needed");
    int code = list_steps(&l, folder, env);
    for (size_t i = 0; !code && i < l.n; i++) text_bytes(&all, (const char *)&l.steps[i], sizeof *l.steps);
    *n = code ? 0 : (int)l.n;
    *steps = (int64_t *)(void *)text_detach(&all);
    list_free(&l);
    if (!*steps) *n = 0;
    if (code && code != ENOMEM) return io_fail(error, folder, "cannot be listed", code);
    return code || !*steps ? error_memory(error, folder) : WEFT_OK;
}

/* ---- removing ---- */

static void note_name(void *names, const char *name) {
    text_bytes(names, name, strlen(name) + 1);
}

/* The names first, since what a folder lists while files go is not defined. It may not be there, and a file
 * of that name stays. The name is removed before what it lists: that takes a link away, whatever it leads to,
 * and fails for a folder that is not empty. */
static void empty_and_remove(const char *path, const weft_io *io) {
    text names = {0};
    char file[CHECKPOINT_ROOM];
    int code = io->list ? io->list(io->context, path, note_name, &names) : ENOTSUP;
    bool is_left = (!code || code == ENOENT) && !names.failed && io->remove(io->context, path) != 0;
    for (size_t at = 0; is_left && at < names.length; at += strlen(names.data + at) + 1)
        if (checkpoint_file_path(file, path, names.data + at)) io->remove(io->context, file);
    if (is_left && !code) io->remove(io->context, path);
    free(names.data);
}

/* Renamed first, so that a half removed one never looks complete. */
static void remove_step(const char *folder, int64_t step, const weft_io *io) {
    char whole[CHECKPOINT_ROOM], tmp[CHECKPOINT_ROOM];
    if (checkpoint_path(whole, folder, step, "") && checkpoint_path(tmp, folder, step, ".tmp") &&
        io->rename(io->context, whole, tmp) == 0)
        empty_and_remove(tmp, io);
}

/* A kill in folder_complete may leave a step under this name alone: it gets its own back. */
static bool put_back(const char *folder, int64_t step, const char *old, const weft_io *io) {
    char whole[CHECKPOINT_ROOM], manifest[CHECKPOINT_ROOM];
    void *file;
    uint64_t bytes;
    if (!checkpoint_path(whole, folder, step, "") || !checkpoint_file_path(manifest, whole, MANIFEST_NAME))
        return false;
    int code = io->open_read(io->context, manifest, &file, &bytes);
    if (!code) io->close(io->context, file);
    return code == ENOENT && io->rename(io->context, old, whole) == 0;
}

/* What no process completes: "step-00000100.tmp" and "step-00000100.old.tmp". */
static void remove_left(const char *folder, const weft_io *io) {
    text names = {0};
    char path[CHECKPOINT_ROOM];
    if (io->list && io->list(io->context, folder, note_name, &names) == 0 && !names.failed)
        for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1) {
            const char *name = names.data + at, *rest;
            int64_t step = step_of(name, &rest);
            bool is_old = step >= 0 && strcmp(rest, ".old.tmp") == 0;
            bool is_left = is_old || (step >= 0 && strcmp(rest, ".tmp") == 0);
            if (!is_left || !checkpoint_file_path(path, folder, name)) continue;
            if (!is_old || !put_back(folder, step, path, io)) empty_and_remove(path, io);
        }
    free(names.data);
}

void folder_clean(const char *folder, const weft_env *env) {
    remove_left(folder, io_of(env));
}

void folder_remove(const char *folder, int64_t step, kept *known) {
    remove_step(folder, step, io_of(known->env));
    kept_drop(known, step);
}

/* Later ones than the newest are another training's, or damaged. */
void folder_prune(const char *folder, int keep, int64_t best, int64_t newest, kept *known) {
    step_list l;
    int found = 0;
    size_t n = 0;
    if (list_steps(&l, folder, known->env) == 0) n = l.n;
    while (n-- > 0) {
        int64_t step = l.steps[n];
        if (step > newest) continue;
        if (found < keep) {
            found += kept_has(known, step);
        } else if (step != best && !kept_is_others(known, folder, step)) {
            folder_remove(folder, step, known);
        }
    }
    list_free(&l);
}

int64_t folder_oldest(const char *folder, int64_t best, int64_t below, kept *known) {
    step_list l;
    int64_t whole = -1, oldest = -1;
    kept_prove(known, folder, 1, below, true);
    size_t n = list_steps(&l, folder, known->env) == 0 ? l.n : 0;
    for (size_t i = 0; i < n && l.steps[i] < below; i++)
        if (kept_has(known, l.steps[i]))
            whole = l.steps[i]; /* at last the newest, which was looked at just now */
    for (size_t i = 0; i < n && l.steps[i] < whole && oldest < 0; i++)
        if (l.steps[i] != best && !kept_is_others(known, folder, l.steps[i])) oldest = l.steps[i];
    list_free(&l);
    return oldest;
}

weft_status folder_complete(const char *folder, int64_t step, const weft_env *env, weft_error *error) {
    const weft_io *io = io_of(env);
    char whole[CHECKPOINT_ROOM], tmp[CHECKPOINT_ROOM], old[CHECKPOINT_ROOM];
    if (!checkpoint_path(whole, folder, step, "") || !checkpoint_path(tmp, folder, step, ".tmp") ||
        !checkpoint_path(old, folder, step, ".old.tmp"))
        return error_set(error, WEFT_ARGUMENT, "%.400s: the path is too long", folder);
    int code = io->rename(io->context, whole, old);
    bool is_replaced = code == 0;
    code = code && code != ENOENT ? code : io->rename(io->context, tmp, whole);
    if (code && is_replaced) io->rename(io->context, old, whole);
    return code ? io_fail(error, whole, "cannot be renamed into place", code) : WEFT_OK;
}

/* ---- making ---- */

weft_status folder_make(const char *folder, const weft_env *env, weft_error *error) {
    const weft_io *io = io_of(env);
    int code = io->make_folder ? io->make_folder(io->context, folder) : ENOTSUP;
    return code && code != EEXIST ? io_fail(error, folder, "the folder cannot be made", code) : WEFT_OK;
}

weft_status folder_make_tmp(const char *folder, int64_t step, const weft_env *env, weft_error *error) {
    const weft_io *io = io_of(env);
    char path[CHECKPOINT_ROOM];
    if (!checkpoint_path(path, folder, step, ".tmp"))
        return error_set(error, WEFT_ARGUMENT, "%.400s: the path is too long", folder);
    weft_status status = folder_make(folder, env, error);
    if (status) return status;
    empty_and_remove(path, io);
    int code = io->make_folder(io->context, path);
    return code ? io_fail(error, path, "the folder cannot be made", code) : WEFT_OK;
}
