/* io.c - see io.h. Errors name the path as the user gave it; only the first failure of a file counts. */
#include "graph/file/io.h"

#include "graph/file/io_posix.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const weft_io *io_of(const weft_env *env) {
    return env && env->io ? env->io : &posix_io;
}

weft_status io_fail(weft_error *error, const char *path, const char *what, int code) {
    /* Codes that posix_io uses with a meaning of its own. */
    const char *text = code == ENODATA ? "the file ends early" : code == ESPIPE ? "not a regular file" : NULL;
    return error_set(error, WEFT_IO, "%.600s: %s: %s", path, what, text ? text : errno_show(code).text);
}

/* ---- whole files ---- */

weft_status file_read_all(const weft_env *env, const char *path, uint64_t limit, char **data, size_t *bytes,
                          weft_error *error) {
    const weft_io *io = io_of(env);
    void *file;
    uint64_t length = 0;
    *data = NULL;
    if (!path) return error_set(error, WEFT_ARGUMENT, "a path is needed");
    int code = io->open_read(io->context, path, &file, &length);
    if (code) return io_fail(error, path, "cannot be opened", code);
    weft_status status = WEFT_OK;
    if (length > limit || length >= SIZE_MAX)
        status =
            error_set(error, WEFT_FILE, "%.600s: %ju bytes, at most %ju are accepted", path, length, limit);
    else if (!(*data = mem_raw(env, (size_t)length + 1)))
        status = error_memory(error, path);
    else if ((code = io->read(io->context, file, 0, *data, (size_t)length)))
        status = io_fail(error, path, "cannot be read", code);
    io->close(io->context, file); /* a failure loses nothing, since nothing was written */
    if (status) {
        mem_free(env, *data, (size_t)length + 1);
        *data = NULL;
        return status;
    }
    (*data)[length] = 0;
    *bytes = (size_t)length;
    return WEFT_OK;
}

int file_hash(const weft_io *io, void *file, uint64_t bytes, void *piece, size_t room, uint64_t *hash) {
    byte_hash h;
    byte_hash_begin(&h);
    for (uint64_t at = 0; at < bytes; at += room) {
        size_t n = bytes - at < room ? (size_t)(bytes - at) : room;
        int code = io->read(io->context, file, at, piece, n);
        if (code) return code;
        byte_hash_add(&h, piece, n);
    }
    *hash = byte_hash_value(&h);
    return 0;
}

/* ---- writing beside, then renaming ---- */

enum { PART_BYTES = 56 }; /* the longest ".PID.NUMBER" PART_END, with numbers of 64 bits */

/* Finds the target and, for a host's own weft_io, names the part: such files are known by their names alone,
 * so the writer's address distinguishes writers of one process. */
static int find_place(file_writer *w, file_place *place) {
    int code = w->io == &posix_io ? posix_place(w->path, place) : 0;
    if (code) return code;
    w->is_stream = place->is_stream;
    const char *target = *place->path ? place->path : w->path;
    size_t n = strlen(target) + 1;
    w->target_bytes = 2 * n + PART_BYTES;
    if (!(w->target = mem_new(w->env, w->target_bytes))) return ENOMEM;
    memcpy(w->target, target, n);
    w->part = w->target + n;
    if (w->io != &posix_io)
        snprintf(w->part, n + PART_BYTES, "%s.%ld.%ju" PART_END, target, (long)getpid(), (uintptr_t)w);
    return 0;
}

/* Opens the stream or the part; 0 or an errno value. */
static int open_at(file_writer *w, const file_place *place) {
    if (w->is_stream) return posix_open_stream(place, &w->file);
    if (w->io == &posix_io)
        return posix_open_part(place, w->part, w->target_bytes - strlen(w->target) - 1, &w->file, &w->lock);
    return w->io->open_write(w->io->context, w->part, &w->file);
}

weft_status file_begin(file_writer *w, const weft_env *env, const char *path, weft_error *error) {
    /* After an error w->file is NULL: file_append does nothing, file_finish frees and reports the status. */
    file_place place = {.descriptor = -1};
    *w = (file_writer){.env = env, .io = io_of(env), .error = error, .lock = -1};
    if (!path || !*path) return w->status = error_set(error, WEFT_ARGUMENT, "a path is needed");
    w->path_bytes = strlen(path) + 1;
    if (!(w->path = mem_new(env, w->path_bytes))) return w->status = error_memory(error, path);
    memcpy(w->path, path, w->path_bytes);
    int code = find_place(w, &place);
    if (!code) code = open_at(w, &place);
    if (code) {
        w->file = NULL;
        w->status =
            code == ENOMEM ? error_memory(error, path) : io_fail(error, path, "cannot be written", code);
    }
    return w->status;
}

weft_status file_append(file_writer *w, const void *data, size_t bytes) {
    if (w->status) return w->status;
    int code = bytes ? w->io->write(w->io->context, w->file, data, bytes) : 0;
    if (code) return w->status = io_fail(w->error, w->path, "cannot be written", code);
    if (w->hash) byte_hash_add(w->hash, data, bytes);
    w->bytes += bytes;
    return WEFT_OK;
}

weft_status file_finish(file_writer *w, weft_status give_up) {
    const weft_io *io = w->io;
    /* Order: sync, close, rename, remove, unlock. Each step happens only if it still makes sense after a
     * failure. */
    bool made = w->file != NULL, is_beside = made && !w->is_stream;
    int code = 0;
    if (!w->status) w->status = give_up;
    if (made && !w->status && (code = io->sync(io->context, w->file)))
        w->status = io_fail(w->error, w->path, "cannot be flushed to the disk", code);
    /* A failed close may report a late write error (NFS). A failed sync is not repeated, because the second
     * may succeed without the data. */
    if (made && (code = io->close(io->context, w->file)) && !w->status)
        w->status = io_fail(w->error, w->path, "cannot be closed", code);
    if (is_beside && !w->status && (code = io->rename(io->context, w->part, w->target)))
        w->status = io_fail(w->error, w->path, "cannot be renamed into place", code);
    if (is_beside && w->status)
        io->remove(io->context, w->part); /* best effort: the first failure is what counts */
    if (w->lock >= 0) close(w->lock);     /* last: other processes remove an unlocked part */
    mem_free(w->env, w->target, w->target_bytes);
    mem_free(w->env, w->path, w->path_bytes);
    w->part = w->path = w->target = NULL;
    w->file = NULL;
    return w->status;
}

weft_status file_try(const weft_env *env, const char *path, weft_error *error) {
    file_writer w;
    file_place place;
    if (error) *error = (weft_error){0};
    if (io_of(env) == &posix_io && path && *path && !posix_place(path, &place) && place.is_stream) {
        int code = posix_try_stream(&place);
        return code ? io_fail(error, path, "cannot be written", code) : WEFT_OK;
    }
    file_begin(&w, env, path, error);
    weft_status status = file_append(&w, "", 1); /* a full disk may have room for a name but not for a byte */
    file_finish(&w, WEFT_ORDER);                 /* a failure, so the part is removed */
    return status;
}

weft_status file_write_atomic(const weft_env *env, const char *path, const void *data, size_t bytes,
                              weft_error *error) {
    file_writer w;
    file_begin(&w, env, path, error);
    file_append(&w, data, bytes);
    return file_finish(&w, WEFT_OK);
}
