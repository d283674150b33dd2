/* mem.h - memory: the replaceable allocator, arenas, growing text, and arithmetic on sizes that reports
 * overflow.
 *
 * Rule: a size that comes from a user or a file is added or multiplied only by the functions below. */
#ifndef WEFT_GRAPH_CORE_MEM_H
#define WEFT_GRAPH_CORE_MEM_H

#include "weft/env.h"

#define MEM_ALIGN 64 /* bytes: a cache line, and the widest vector register */

/* *into = a * b and *into = a + b; false on overflow, and then *into is not to be used. */
bool size_mul(size_t *into, size_t a, size_t b);
bool size_add(size_t *into, size_t a, size_t b);
size_t size_align(size_t bytes, size_t alignment); /* rounds up to a multiple; SIZE_MAX on overflow */

/* Zeroed memory from the env's allocator, NULL when out of memory. Free it with the same byte count. A `env`
 * of NULL means malloc. */
void *mem_new(const weft_env *env, size_t bytes);
void *mem_new_array(const weft_env *env, size_t count, size_t width); /* NULL on overflow too */
void *mem_raw(const weft_env *env, size_t bytes);                     /* not zeroed, MEM_ALIGN aligned */
void mem_free(const weft_env *env, void *memory, size_t bytes);
/* Makes room for at least `least` elements in `array`, for which *room were allocated: returns it, or a
 * larger copy (room doubled until it suffices, the new elements zero) after freeing it. NULL when memory is
 * out or the size overflows; then `array` stays valid. */
void *mem_grow(const weft_env *env, void *array, size_t *room, size_t least, size_t width);

/* Allocates many small pieces that are freed all at once. Blocks come from env's allocator. */
typedef struct arena_block arena_block;
typedef struct arena {
    const weft_env *env;
    arena_block *blocks;
    size_t used, room; /* bytes in the newest block */
    size_t total;      /* bytes of all blocks */
} arena;
void arena_init(arena *a, const weft_env *env);
/* Zeroed; NULL when out of memory. Aligned to 16, and to MEM_ALIGN where all sizes are multiples of it. */
void *arena_new(arena *a, size_t bytes);
/* A count of 0 gives a place, too; NULL also for too much, as a count below 0 is. */
void *arena_new_array(arena *a, size_t count, size_t width);
/* array[count], of the arena, with room for one more: itself, or where count is 0 or a power of two a copy
 * of twice its length. NULL when out of memory. */
void *arena_grow(arena *a, void *array, size_t count, size_t width);
char *arena_copy(arena *a, const char *text);
char *arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(arena *a);

/* Text that grows. After a failed allocation `failed` is set and later calls do nothing, so that only the
 * last call needs a check. */
typedef struct text {
    char *data; /* NUL-terminated, from malloc so that a caller may free() it; NULL while empty */
    size_t length, room;
    bool failed;
} text;
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(text *t, const char *bytes, size_t length);
/* The string, which the caller free()s ("" if nothing was added), or NULL after a failure. Empties `t`. */
char *text_detach(text *t);

#endif
