/* mem.h - memory: the replaceable allocator, arenas, and sizes that cannot overflow.
 *
 * Rule: no size that comes from a user or a file is added or multiplied anywhere but here.
 */
#ifndef WEFT_GRAPH_CORE_MEM_H
#define WEFT_GRAPH_CORE_MEM_H

#include "weft/env.h"

#define MEM_ALIGN 64 /* bytes: a cache line, and the widest vector */

/* false on overflow; *into is left alone then */
bool size_mul(size_t *into, size_t a, size_t b);
bool size_add(size_t *into, size_t a, size_t b);
size_t size_align(size_t bytes, size_t alignment); /* up; SIZE_MAX on overflow */

/* Zeroed memory from the env's allocator, NULL when out. Free with the same byte count. */
void *mem_new(const weft_env *env, size_t bytes);
void *mem_new_array(const weft_env *env, size_t count, size_t width); /* NULL on overflow too */
void *mem_raw(const weft_env *env, size_t bytes);                     /* not zeroed, MEM_ALIGN aligned */
void mem_free(const weft_env *env, void *memory, size_t bytes);
/* An array for at least `least` elements in the place of `array`, of which *room were allocated: the same one, or one twice
 * as large with its elements, zeroed behind them. NULL when memory is out; then `array` stays as it is. */
void *mem_grow(const weft_env *env, void *array, size_t *room, size_t least, size_t width);

/* An arena: many small pieces, freed at once. */
typedef struct arena_block arena_block;
typedef struct arena {
    const weft_env *env;
    arena_block *blocks;
    size_t used, room; /* in the newest block */
    size_t total;      /* bytes taken from the allocator */
} arena;
void arena_init(arena *a, const weft_env *env);
void *arena_new(arena *a, size_t bytes); /* zeroed; aligned to 16, and to MEM_ALIGN where all sizes are multiples of it */
void *arena_new_array(arena *a, size_t count, size_t width);
char *arena_copy(arena *a, const char *text);
char *arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(arena *a);

/* Text that grows. After a failed allocation `failed` is set and later calls do nothing. */
typedef struct text {
    char *data; /* NUL-terminated, from malloc, so that a caller may free() it; NULL while empty */
    size_t length, room;
    bool failed;
} text;
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(text *t, const char *bytes, size_t length);
char *text_detach(text *t); /* the malloc'ed string ("" if nothing was added), or NULL after a failure */

#endif
