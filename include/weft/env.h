/* env.h - what the library takes from the outside: memory, files, a place for log lines.
 *
 * A weft_env is given when a model is made and used by all that comes from that model (plans, stores,
 * sessions). NULL anywhere means: malloc, the operating system's files, no log. Replacing a table is how tests
 * inject failures and how a host program counts or limits what Weft takes.
 */
#ifndef WEFT_ENV_H
#define WEFT_ENV_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_allocator {
    /* `bytes` > 0 at an address that is a multiple of `alignment` (a power of two), or NULL. */
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    /* `bytes` is what was asked for. */
    void (*free)(void *context, void *memory, size_t bytes);
    void *context;
} weft_allocator;

/* File access. Handles are opaque; every function returns 0 or an errno value. */
typedef struct weft_io {
    int (*open_read)(void *context, const char *path, void **file, uint64_t *bytes);
    int (*open_write)(void *context, const char *path, void **file); /* creates or truncates */
    int (*read)(void *context, void *file, uint64_t offset, void *into, size_t bytes); /* all or an error */
    int (*write)(void *context, void *file, const void *from, size_t bytes);           /* appends, all */
    int (*sync)(void *context, void *file);                                            /* to the disk */
    int (*close)(void *context, void *file);                                           /* always frees */
    int (*rename)(void *context, const char *from, const char *to); /* atomic; syncs the folder */
    int (*remove)(void *context, const char *path);
    void *context;
} weft_io;

typedef struct weft_env {
    const weft_allocator *allocator;              /* NULL: malloc */
    const weft_io *io;                            /* NULL: the operating system's files */
    void (*log)(void *context, const char *line); /* NULL: silence. One line, no newline, any thread. */
    void *log_context;
} weft_env;

#ifdef __cplusplus
}
#endif
#endif
