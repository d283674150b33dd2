/* io.h - files through the env's weft_io: read whole with a limit, or written to a temporary file beside
 * their path and renamed.
 *
 * A path never shows a half-written file. The data go to a part, "<path>.<pid>.weft-part" (for another writer
 * of this process "<path>.<pid>.1.weft-part" and so on), which is flushed to the disk and then renamed. After
 * any failure the part is removed and the old file is unchanged; the part of a killed process is removed when
 * the next process writes that path. A symbolic link stays: the file that it leads to is replaced. Devices,
 * pipes and /dev/stdout cannot be replaced by a rename, so they are written directly. */
#ifndef WEFT_GRAPH_FILE_IO_H
#define WEFT_GRAPH_FILE_IO_H

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "graph/core/table.h"

/* The env's table, or the operating system's files. */
const weft_io *io_of(const weft_env *env);

/* Sets *error to "path: cannot be opened: No such file or directory", where `what` is the middle part and
 * `code` an errno value; returns WEFT_IO. */
weft_status io_fail(weft_error *error, const char *path, const char *what, int code);

/* Reads a whole file of at most `limit` bytes into memory of the env's allocator. The caller frees it by
 * mem_free with *bytes + 1: a NUL follows the last byte. */
weft_status file_read_all(const weft_env *env, const char *path, uint64_t limit, char **data, size_t *bytes,
                          weft_error *error);

/* The hash of the first `bytes` bytes of an open file, which it reads into a piece of `room` bytes again and
 * again. Returns an errno value; 0: fine. */
int file_hash(const weft_io *io, void *file, uint64_t bytes, void *piece, size_t room, uint64_t *hash);

/* A file that appears under its path only when it is complete. Calls after a failure do nothing, so that only
 * file_finish needs a check. `error` must live until then. */
typedef struct file_writer {
    const weft_env *env;
    const weft_io *io;
    void *file;
    char *path;          /* the path as given, for error texts */
    char *target, *part; /* the path below its links, and the part beside it; one block of target_bytes */
    size_t path_bytes, target_bytes;
    bool is_stream; /* written directly, without a part */
    int lock;       /* descriptor whose lock keeps others from removing the part; -1: none */
    weft_error *error;
    weft_status status; /* the first failure */
    byte_hash *hash;    /* of what was appended; NULL: nobody asks. The caller's */
    uint64_t bytes;     /* that were appended */
} file_writer;
weft_status file_begin(file_writer *w, const weft_env *env, const char *path, weft_error *error);
weft_status file_append(file_writer *w, const void *data, size_t bytes);
/* Flushes and renames, or removes the part after a failure. Always the last call. `give_up` is a failure of
 * the caller's that cancels the write; WEFT_OK: none. */
weft_status file_finish(file_writer *w, weft_status give_up);

/* The three calls in one, for data in memory. */
weft_status file_write_atomic(const weft_env *env, const char *path, const void *data, size_t bytes,
                              weft_error *error);

/* Checks that `path` can be written, before hours of work that would end there: opens what file_begin would
 * open and writes one byte to a part, then removes it. */
weft_status file_try(const weft_env *env, const char *path, weft_error *error);

#endif
