/* log_file.c - see log.h. */
#include "runtime/hooks/log.h"

#include <errno.h>

void log_file_new(log_file *l, kit_arena *memory, const char *path, const char *folder) {
    *l = (log_file){.memory = memory, .path = kit_copy(memory, path), .folder = kit_copy(memory, folder)};
}

/* Told at once, and again by the check: a training may continue for days, or end for another reason. */
static void lose(log_file *l, int64_t step, const char *why, int code) {
    char what[80];
    weft_error error = {0};
    const weft_io *io = weft_files(l->env);
    snprintf(what, sizeof what, why, step);
    if (!l->lost.status) weft_error_io(&l->lost, l->path, what, code);
    if (l->file) io->close(io->context, l->file);
    l->file = NULL;
    log_file_check(l, &error);
    if (l->env && l->env->log) l->env->log(l->env->log_context, error.text);
}

/* Bytes of a checkpoint that a power cut took from the file may have left half a line: whole lines stay. */
static void cut_at_line(log_file *l, const weft_io *io) {
    void *file;
    uint64_t bytes;
    char last = 0;
    if (io->open_read(io->context, l->path, &file, &bytes)) return;
    if (l->bytes > (double)bytes) l->bytes = (double)bytes;
    while (l->bytes > 0 && !io->read(io->context, file, (uint64_t)l->bytes - 1, &last, 1) && last != '\n')
        l->bytes--;
    io->close(io->context, file);
}

weft_status log_file_open(log_file *l, const weft_env *env, weft_error *error) {
    if (l->is_open) return WEFT_OK;
    l->env = env;
    const weft_io *io = weft_files(env);
    bool appends = l->bytes > 0 && io->open_append;
    if (appends) cut_at_line(l, io);
    int code = appends ? io->open_append(io->context, l->path, (uint64_t)l->bytes, &l->file) : ENOENT;
    if (code == ENOENT) {
        l->bytes = 0; /* a new file, also where the old one is gone */
        code = io->open_write(io->context, l->path, &l->file);
    }
    l->is_open = !code;
    if (!code) return WEFT_OK;
    l->file = NULL; /* the next call tries again */
    return weft_error_io(error, l->path, "it cannot be written", code);
}

void log_file_write(log_file *l, int64_t step, const void *bytes, size_t n) {
    if (!l->file) return;
    const weft_io *io = weft_files(l->env);
    int code = io->write(io->context, l->file, bytes, n);
    l->bytes += code ? 0 : (double)n;
    if (code) lose(l, step, "writing failed at step %jd, and the log ends there", code);
}

void log_file_sync(log_file *l, int64_t step) {
    if (!l->file) return;
    const weft_io *io = weft_files(l->env);
    int code = io->sync(io->context, l->file);
    if (code) lose(l, step, "lines before step %jd may be lost", code);
}

weft_status log_file_check(const log_file *l, weft_error *error) {
    if (l->memory->is_out)
        return kit_fail(error, WEFT_MEMORY, "a log lacks metrics: there was no memory for them");
    return kit_pass(error, &l->lost);
}

void log_file_close(log_file *l) {
    const weft_io *io = weft_files(l->env);
    if (l->file) io->close(io->context, l->file);
    l->file = NULL;
}

weft_status file_write_whole(const char *path, const void *bytes, size_t n, const weft_env *env,
                             weft_error *error) {
    void *handle;
    const weft_io *io = weft_files(env);
    int code = io->open_write(io->context, path, &handle);
    if (code) return weft_error_io(error, path, "it cannot be written", code);
    code = io->write(io->context, handle, bytes, n);
    int closed = io->close(io->context, handle);
    return code || closed ? weft_error_io(error, path, "writing failed", code ? code : closed) : WEFT_OK;
}
