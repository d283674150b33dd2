/** @file
 * env.h - what the library takes from outside: memory, files, a place for log lines.
 *
 * A weft_env is given when a model is made and is used by all that comes from that model (plans, stores,
 * sessions). NULL anywhere means malloc, the operating system's files, no log. Tests replace a table to
 * inject failures; a host program replaces one to count or limit what Weft takes.
 */
#ifndef WEFT_ENV_H
#define WEFT_ENV_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where memory comes from. Calls may come from any thread. */
typedef struct weft_allocator {
    /** Returns `bytes` > 0 at a multiple of `alignment` (a power of two), or NULL. */
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    /** Frees `memory`; `bytes` is the number that was asked for. */
    void (*free)(void *context, void *memory, size_t bytes);
    void *context; /**< The first argument of each call. */
    /** Bytes that may still be taken, or UINT64_MAX: stores and sessions ask before they allocate (memory.h).
     * NULL: nobody asks. Without an allocator the machine, its control groups and limits are asked. */
    uint64_t (*room)(void *context);
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_allocator;

/** File access. A `file` is a handle of the table's own; every function returns 0 or an errno value. */
typedef struct weft_io {
    /** Opens a file for reading and returns its length in bytes. */
    int (*open_read)(void *context, const char *path, void **file, uint64_t *bytes);
    /** Creates a file, or empties the one that is there. */
    int (*open_write)(void *context, const char *path, void **file);
    /** Opens a file that is there to append, and cuts it off after its first `bytes` bytes. NULL: there
     * is no appending. */
    int (*open_append)(void *context, const char *path, uint64_t bytes, void **file);
    /** Reads exactly `bytes` from `offset` on; less is an error. */
    int (*read)(void *context, void *file, uint64_t offset, void *into, size_t bytes);
    /** Appends exactly `bytes`; less is an error. */
    int (*write)(void *context, void *file, const void *from, size_t bytes);
    /** Returns when all that was written is on the disk. */
    int (*sync)(void *context, void *file);
    /** Closes the file; frees the handle on an error too. */
    int (*close)(void *context, void *file);
    /** Renames a file, or a folder, atomically, replaces the file that `to` was, and syncs the folder. */
    int (*rename)(void *context, const char *from, const char *to);
    /** Removes a file, or an empty folder. */
    int (*remove)(void *context, const char *path);
    /** Makes a folder and syncs its parent; EEXIST where the name is taken. NULL: there are no folders. */
    int (*make_folder)(void *context, const char *path);
    /** Calls `each` with the name of all that is in a folder, in any order. NULL: there are no folders. */
    int (*list)(void *context, const char *path, void (*each)(void *to, const char *name), void *to);
    /** How many bytes this process may still write into a folder. NULL: nobody knows. */
    int (*free_bytes)(void *context, const char *path, uint64_t *bytes);
    void *context;                    /**< The first argument of each call. */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_io;

/** Ops of a program's own (weft/op.h). */
typedef struct weft_op_set weft_op_set;

/** What the library takes from its host. The structure is copied; the tables and the set that it points to
 * must outlive what uses them. */
typedef struct weft_env {
    const weft_allocator *allocator; /**< NULL: malloc */
    const weft_io *io;               /**< NULL: the operating system's files */
    /** Receives one line without a newline, on any thread. NULL: nothing is logged. */
    void (*log)(void *context, const char *line);
    void *log_context;                    /**< The first argument of `log`. */
    const weft_op_set *ops;               /**< for models that are made or loaded; NULL: Weft's ops alone */
    uint64_t reserved[WEFT_RESERVED - 1]; /**< zeros (status.h) */
} weft_env;

/** Frees a text that a function of Weft has returned for its caller. NULL is fine. */
WEFT_API void weft_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
