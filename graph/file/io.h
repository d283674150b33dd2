/* io.h - files through the env's weft_io: read whole with a limit, written beside their name and renamed.
 *
 * A file that is being written is never seen half done under its name: it grows as "<path>.<pid>.weft-part" (another
 * writer of this process: "<path>.<pid>.1.weft-part" and so on), is flushed to the disk and then renamed. After any
 * failure the part is removed and the old file is as it was; the part of a process that was killed goes when the next
 * one writes that file. A link stays a link: what it leads to is replaced. Devices, pipes and /dev/stdout have no
 * beside: they are written through.
 */
#ifndef WEFT_GRAPH_FILE_IO_H
#define WEFT_GRAPH_FILE_IO_H

#include "graph/core/error.h"
#include "graph/core/mem.h"

/* The env's table, or the operating system's files. */
const weft_io *io_of(const weft_env *env);

/* "path: cannot be opened: No such file or directory" with the errno value `code`; returns WEFT_IO. */
weft_status io_fail(weft_error *error, const char *path, const char *what, int code);

/* The whole file in memory from the env's allocator (mem_free with *bytes + 1; a NUL follows the last byte).
 */
weft_status file_read_all(const weft_env *env, const char *path, uint64_t limit, char **data, size_t *bytes,
                          weft_error *error);

/* A file that appears under its name only when all is written. Calls after a failure do nothing. */
typedef struct file_writer {
    const weft_env *env;
    const weft_io *io;
    void *file;
    char *path;          /* as it was given: for errors */
    char *target, *part; /* where its links lead, and beside that; one block of target_bytes */
    size_t path_bytes, target_bytes;
    bool is_stream; /* written through */
    int lock;       /* a descriptor that keeps others from removing the part; -1: none */
    weft_error *error;
    weft_status status; /* the first failure */
} file_writer;
weft_status file_begin(file_writer *w, const weft_env *env, const char *path, weft_error *error);
weft_status file_append(file_writer *w, const void *data, size_t bytes);
/* Flushes and renames, or cleans up after a failure: always the last call. `give_up` is a failure of the
 * caller's. */
weft_status file_finish(file_writer *w, weft_status give_up);

weft_status file_write_atomic(const weft_env *env, const char *path, const void *data, size_t bytes,
                              weft_error *error);

/* Whether `path` could be written now, told before hours of work: opens what file_begin would, writes a byte where that
 * can be taken back, and leaves nothing. */
weft_status file_try(const weft_env *env, const char *path, weft_error *error);

/* ---- for libraries that free without saying how much (zlib, protobuf-c): memory from the env, counted ----
 */
typedef struct mem_budget {
    const weft_env *env;
    size_t left; /* bytes that may still be taken */
} mem_budget;
void *budget_alloc(void *budget, size_t bytes); /* NULL when out, or past the budget */
void budget_free(void *budget, void *memory);

#endif
