/* io.c - see io.h; also the default weft_io over POSIX. */
#include "graph/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the operating system's files; a handle is its descriptor + 1 ---- */

static int descriptor(void *file) {
    return (int)((intptr_t)file - 1);
}

/* Only regular files have a size to check against. O_NONBLOCK: opening a pipe must not wait for its writer.
 */
static int posix_open_read(void *context, const char *path, void **file, uint64_t *bytes) {
    (void)context;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    int code = fstat(fd, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : S_ISREG(st.st_mode) ? 0 : ESPIPE;
    if (code) {
        close(fd);
        return code;
    }
    *bytes = (uint64_t)st.st_size;
    *file = (void *)((intptr_t)fd + 1);
    return 0;
}

static int posix_open_write(void *context, const char *path, void **file) {
    (void)context;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    *file = (void *)((intptr_t)fd + 1);
    return 0;
}

static int posix_read(void *context, void *file, uint64_t offset, void *into, size_t bytes) {
    (void)context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(descriptor(file), (char *)into + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENODATA;
        done += (size_t)n;
    }
    return 0;
}

static int posix_write(void *context, void *file, const void *from, size_t bytes) {
    (void)context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(descriptor(file), (const char *)from + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

static int posix_sync(void *context, void *file) {
    (void)context;
    return fsync(descriptor(file)) ? errno : 0;
}

static int posix_close(void *context, void *file) {
    (void)context;
    return close(descriptor(file)) ? errno : 0;
}

/* The folder's entry must reach the disk too. Some file systems cannot sync folders: EINVAL is no failure. */
static int sync_folder_of(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    if (n >= sizeof folder) return ENAMETOOLONG;
    memcpy(folder, slash ? path : ".", n);
    folder[n] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    int code = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    return code;
}

/* A device or a pipe under that name (/dev/null, as root) is not replaced. */
static int posix_rename(void *context, const char *from, const char *to) {
    (void)context;
    struct stat st;
    if (stat(to, &st) == 0 && !S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? EISDIR : ESPIPE;
    if (rename(from, to)) return errno;
    return sync_folder_of(to);
}

static int posix_remove(void *context, const char *path) {
    (void)context;
    return unlink(path) ? errno : 0;
}

static const weft_io posix_io = {
    .open_read = posix_open_read,
    .open_write = posix_open_write,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .close = posix_close,
    .rename = posix_rename,
    .remove = posix_remove,
};

const weft_io *io_of(const weft_env *env) {
    return env && env->io ? env->io : &posix_io;
}

weft_status io_fail(weft_error *error, const char *path, const char *what, int code) {
    char reason[128];
    const char *text = code == ENODATA ? "the file ends early" : code == ESPIPE ? "not a regular file" : NULL;
    if (!text) text = strerror_r(code, reason, sizeof reason) ? "unknown error" : reason;
    return error_set(error, WEFT_IO, "%.600s: %s: %s", path, what, text);
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
        status = error_set(error, WEFT_FILE, "%.600s: %llu bytes, at most %llu are accepted", path,
                           (unsigned long long)length, (unsigned long long)limit);
    else if (!(*data = mem_raw(env, (size_t)length + 1)))
        status = error_memory(error, path);
    else if ((code = io->read(io->context, file, 0, *data, (size_t)length)))
        status = io_fail(error, path, "cannot be read", code);
    io->close(io->context, file); /* nothing was written: a failure here loses nothing */
    if (status) {
        mem_free(env, *data, (size_t)length + 1);
        *data = NULL;
        return status;
    }
    (*data)[length] = 0;
    *bytes = (size_t)length;
    return WEFT_OK;
}

/* ---- writing beside, then renaming ---- */

weft_status file_begin(file_writer *w, const weft_env *env, const char *path, weft_error *error) {
    *w = (file_writer){.env = env, .io = io_of(env), .error = error};
    if (!path || !*path) return w->status = error_set(error, WEFT_ARGUMENT, "a path is needed");
    size_t n = strlen(path) + 1;
    w->part_bytes = 2 * n + 32;
    w->part = mem_new(env, w->part_bytes);
    if (!w->part) return w->status = error_memory(error, path);
    w->path = w->part + n + 32;
    memcpy(w->path, path, n);
    snprintf(w->part, n + 32, "%s.%ld.part", path, (long)getpid());
    int code = w->io->open_write(w->io->context, w->part, &w->file);
    if (code) {
        w->file = NULL;
        w->status = io_fail(error, path, "cannot be written", code);
    }
    return w->status;
}

weft_status file_append(file_writer *w, const void *data, size_t bytes) {
    if (w->status) return w->status;
    int code = bytes ? w->io->write(w->io->context, w->file, data, bytes) : 0;
    if (code) w->status = io_fail(w->error, w->path, "cannot be written", code);
    return w->status;
}

weft_status file_finish(file_writer *w, weft_status give_up) {
    const weft_io *io = w->io;
    bool made = w->file != NULL;
    int code = 0;
    if (!w->status) w->status = give_up;
    if (made && !w->status && (code = io->sync(io->context, w->file)))
        w->status = io_fail(w->error, w->path, "cannot be flushed to the disk", code);
    /* A failed close may be a late failed write (NFS). A failed sync is never repeated on the same file. */
    if (made && (code = io->close(io->context, w->file)) && !w->status)
        w->status = io_fail(w->error, w->path, "cannot be closed", code);
    if (!w->status && (code = io->rename(io->context, w->part, w->path)))
        w->status = io_fail(w->error, w->path, "cannot be renamed into place", code);
    if (made && w->status)
        io->remove(io->context, w->part); /* best effort: the first failure is what counts */
    mem_free(w->env, w->part, w->part_bytes);
    w->part = w->path = NULL;
    w->file = NULL;
    return w->status;
}

weft_status file_write_atomic(const weft_env *env, const char *path, const void *data, size_t bytes,
                              weft_error *error) {
    file_writer w;
    file_begin(&w, env, path, error);
    file_append(&w, data, bytes);
    return file_finish(&w, WEFT_OK);
}

/* ---- counted memory: each piece remembers its size in front ---- */

typedef union piece {
    size_t bytes;
    char pad[MEM_ALIGN];
} piece;

void *budget_alloc(void *budget, size_t bytes) {
    mem_budget *b = budget;
    size_t all;
    if (!size_add(&all, bytes, sizeof(piece)) || all > b->left) return NULL;
    piece *p = mem_raw(b->env, all);
    if (!p) return NULL;
    p->bytes = all;
    b->left -= all;
    return p + 1;
}

void budget_free(void *budget, void *memory) {
    mem_budget *b = budget;
    if (!memory) return;
    piece *p = (piece *)memory - 1;
    b->left += p->bytes;
    mem_free(b->env, p, p->bytes);
}
