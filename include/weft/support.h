/** @file
 * support.h - what code around the library shares with it: errors, memory and files by a weft_env, the
 * names and sizes of element types. libweft_train is made of these and of the other headers alone, and so
 * is your own source of data. */
#ifndef WEFT_SUPPORT_H
#define WEFT_SUPPORT_H

#include "weft/env.h"
#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Fills an error, which may be NULL, and returns the status. The text becomes one line that is safe for a
 * terminal, cut to fit. */
WEFT_API weft_status weft_error_set(weft_error *error, weft_status status, const char *text);
/** The same for a call of an env's weft_io that returned `code`: "PATH: cannot be read: No such file or
 * directory", where `what` is the part in the middle. Returns WEFT_IO. */
WEFT_API weft_status weft_error_io(weft_error *error, const char *path, const char *what, int code);

/** Checks that the words `reserved` of a structure are 0, for code of your own that takes structures of Weft:
 * WEFT_ARGUMENT says that `what` was made for a later version. */
WEFT_API weft_status weft_reserved_check(const uint64_t *reserved, size_t bytes, const char *what,
                                         weft_error *error);

/** The one of `best` and `name` that a misspelt word is nearer to; NULL: neither is near. Either may be NULL.
 * For "unknown name" errors: begin with NULL, and go through the valid names. */
WEFT_API const char *weft_nearest(const char *word, const char *best, const char *name);

/** Memory from the env's allocator, not zeroed, at a multiple of 64. `env` may be NULL. NULL when memory
 * is out. */
WEFT_API void *weft_memory_new(const weft_env *env, size_t bytes);
/** Gives memory back; `bytes` is the number of its allocation. NULL is fine. */
WEFT_API void weft_memory_free(const weft_env *env, void *memory, size_t bytes);
/** The env's file access, or the operating system's. */
WEFT_API const weft_io *weft_files(const weft_env *env);

/** The monotonic clock in ns: one time axis for the threads and processes of a machine; no person sets it. */
WEFT_API uint64_t weft_clock_ns(void);

/** Bytes of one element; 0 for an invalid number. */
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);
/** "f32", "i64" ...; "?" for an invalid number. The text is static. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** The first error of a model that is being built, recorded as builders do: with the source line and the
 * scope. For your own builders, which then return NULL. NULL is fine. */
WEFT_API void weft_graph_fail(weft_graph *graph, weft_status status, const char *text);

#ifdef __cplusplus
}
#endif
#endif
