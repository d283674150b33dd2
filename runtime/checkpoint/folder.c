/* folder.c - the checkpoints of a folder. A name "step-00000100" is a complete one. Anything with ".tmp"
 * after it is under way, or was left by a process that ended: nobody reads it. */
#include "graph/core/compare.h"
#include "runtime/checkpoint/checkpoint.h"

#include "graph/file/io_posix.h"

#include <errno.h>

/* ---- names ---- */

weft_status path_check(const char *path, int behind, weft_error *error) {
    if (!path || !*path) return error_set(error, WEFT_ARGUMENT, "checkpoints: a path is needed");
    if (strlen(path) < (size_t)(CHECKPOINT_ROOM - behind)) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT, "%.400s: a path of checkpoints has at most %d bytes", path,
                     CHECKPOINT_ROOM - behind - 1);
}

void checkpoint_path(char into[CHECKPOINT_ROOM], const char *folder, int64_t step, const char *end) {
    snprintf(into, CHECKPOINT_ROOM, "%.*s/step-%08jd%s", CHECKPOINT_ROOM - BEHIND_FOLDER, folder, step, end);
}

void checkpoint_file_path(char into[CHECKPOINT_ROOM], const char *path, const char *name) {
    snprintf(into, CHECKPOINT_ROOM, "%.*s/%s", CHECKPOINT_ROOM - BEHIND_STEP, path, name);
}

/* The step of a name as checkpoint_path writes it, and what stands after its number; -1: another name. */
static int64_t step_of(const char *name, const char **rest) {
    char again[64];
    static const char head[] = "step-";
    const char *digits = name + sizeof head - 1;
    if (strncmp(name, head, sizeof head - 1) != 0) return -1;
    size_t n = strspn(digits, "0123456789");
    if (n < 8 || n > 18) return -1;
    int64_t step = strtoll(digits, NULL, 10);
    *rest = digits + n;
    snprintf(again, sizeof again, "step-%08jd", step);
    return strncmp(again, name, strlen(again)) == 0 && strlen(again) == sizeof head - 1 + n ? step : -1;
}

/* ---- lists ---- */

static void note_step(void *steps, const char *name) {
    const char *rest;
    int64_t step = step_of(name, &rest);
    if (step >= 0 && !*rest) text_bytes(steps, (const char *)&step, sizeof step);
}

static int by_step(const void *a, const void *b) {
    return by_number(*(const int64_t *)a, *(const int64_t *)b);
}

static void ignore_name(void *to, const char *name) {
}

bool folder_is_there(const char *folder, const weft_env *env) {
    const weft_io *io = io_of(env);
    return !io->list || io->list(io->context, folder, ignore_name, NULL) != ENOENT;
}

weft_status weft_checkpoint_steps(const char *folder, const weft_env *env, int64_t **steps, int *n,
                                  weft_error *error) {
    text all = {0};
    const weft_io *io = io_of(env);
    if (error) *error = (weft_error){0};
    if (!folder || !steps || !n)
        return error_set(error, WEFT_ARGUMENT, "weft_checkpoint_steps: a folder and room are needed");
    int code = io->list ? io->list(io->context, folder, note_step, &all) : ENOTSUP;
    *n = (int)(all.length / sizeof **steps);
    if ((*steps = (int64_t *)(void *)text_detach(&all)) && *n)
        qsort(*steps, (size_t)*n, sizeof **steps, by_step);
    bool is_listed = !code || code == ENOENT; /* a folder that is not there has none */
    if (!is_listed || !*steps) *n = 0;
    if (!is_listed) return io_fail(error, folder, "cannot be listed", code);
    return *steps ? WEFT_OK : error_memory(error, folder);
}

void weft_checkpoint_steps_free(int64_t *steps) {
    free(steps);
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
    for (size_t at = 0; is_left && at < names.length; at += strlen(names.data + at) + 1) {
        checkpoint_file_path(file, path, names.data + at);
        io->remove(io->context, file);
    }
    if (is_left && !code) io->remove(io->context, path);
    free(names.data);
}

/* A kill in folder_complete may leave a step under this name alone: it gets its own back. */
static bool put_back(const char *folder, int64_t step, const char *old, const weft_io *io) {
    char whole[CHECKPOINT_ROOM], manifest[CHECKPOINT_ROOM];
    void *file;
    uint64_t bytes;
    checkpoint_path(whole, folder, step, "");
    checkpoint_file_path(manifest, whole, MANIFEST_NAME);
    int code = io->open_read(io->context, manifest, &file, &bytes);
    if (!code) io->close(io->context, file);
    return code == ENOENT && io->rename(io->context, old, whole) == 0;
}

/* What no process completes: "step-00000100.tmp" and "step-00000100.old.tmp". */
void folder_clean(const char *folder, const weft_env *env) {
    text names = {0};
    char path[CHECKPOINT_ROOM];
    const weft_io *io = io_of(env);
    bool is_listed = io->list && io->list(io->context, folder, note_name, &names) == 0 && !names.failed;
    for (size_t at = 0; is_listed && at < names.length; at += strlen(names.data + at) + 1) {
        const char *name = names.data + at, *rest;
        int64_t step = step_of(name, &rest);
        bool is_old = step >= 0 && strcmp(rest, ".old.tmp") == 0;
        if (!is_old && (step < 0 || strcmp(rest, ".tmp"))) continue;
        checkpoint_file_path(path, folder, name);
        if (!is_old || !put_back(folder, step, path, io)) empty_and_remove(path, io);
    }
    free(names.data);
}

/* Renamed first, so that a half removed one never looks complete. */
void folder_remove(const char *folder, int64_t step, const weft_env *env) {
    char whole[CHECKPOINT_ROOM], tmp[CHECKPOINT_ROOM];
    const weft_io *io = io_of(env);
    checkpoint_path(whole, folder, step, "");
    checkpoint_path(tmp, folder, step, ".tmp");
    if (io->rename(io->context, whole, tmp) == 0) empty_and_remove(tmp, io);
}

weft_status folder_complete(const char *folder, int64_t step, const weft_env *env, weft_error *error) {
    const weft_io *io = io_of(env);
    char whole[CHECKPOINT_ROOM], tmp[CHECKPOINT_ROOM], old[CHECKPOINT_ROOM];
    checkpoint_path(whole, folder, step, "");
    checkpoint_path(tmp, folder, step, ".tmp");
    checkpoint_path(old, folder, step, ".old.tmp");
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
    checkpoint_path(path, folder, step, ".tmp");
    if (folder_make(folder, env, error)) return error->status;
    empty_and_remove(path, io);
    int code = io->make_folder(io->context, path);
    return code ? io_fail(error, path, "the folder cannot be made", code) : WEFT_OK;
}
