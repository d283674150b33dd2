/* mem.c - see mem.h. Without an allocator in the env, memory comes from aligned_alloc, and text always from
 * realloc. */
#include "graph/core/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool size_mul(size_t *into, size_t a, size_t b) {
    return !__builtin_mul_overflow(a, b, into);
}

bool size_add(size_t *into, size_t a, size_t b) {
    return !__builtin_add_overflow(a, b, into);
}

size_t size_align(size_t bytes, size_t alignment) {
    size_t up;
    if (!size_add(&up, bytes, alignment - 1)) return SIZE_MAX;
    return up & ~(alignment - 1);
}

void *mem_raw(const weft_env *env, size_t bytes) {
    /* An allocator is never asked for 0 bytes, so that NULL always means that memory is out. */
    if (bytes == 0) bytes = 1;
    if (env && env->allocator) return env->allocator->alloc(env->allocator->context, bytes, MEM_ALIGN);
    /* C11 requires a size that is a multiple of the alignment. */
    size_t rounded = size_align(bytes, MEM_ALIGN);
    return rounded == SIZE_MAX ? NULL : aligned_alloc(MEM_ALIGN, rounded);
}

void *mem_new(const weft_env *env, size_t bytes) {
    void *memory = mem_raw(env, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void *mem_new_array(const weft_env *env, size_t count, size_t width) {
    size_t bytes;
    return size_mul(&bytes, count, width) ? mem_new(env, bytes) : NULL;
}

void *mem_grow(const weft_env *env, void *array, size_t *room, size_t least, size_t width) {
    /* Doubling makes n appends cost O(n) copies. */
    size_t more = *room ? *room : 64;
    if (least <= *room) return array;
    while (more < least && size_mul(&more, more, 2)) {
    }
    void *to = more < least ? NULL : mem_new_array(env, more, width);
    if (!to) return NULL;
    if (*room) memcpy(to, array, *room * width);
    mem_free(env, array, *room * width);
    *room = more;
    return to;
}

/* The size goes back to the allocator as it was asked for, so that hosts can count memory. */
void mem_free(const weft_env *env, void *memory, size_t bytes) {
    if (!memory) return;
    if (env && env->allocator)
        env->allocator->free(env->allocator->context, memory, bytes ? bytes : 1);
    else
        free(memory);
}

/* ---- arena ---- */

enum { ARENA_BLOCK = 32 * 1024 };

struct arena_block {
    arena_block *next;
    size_t bytes; /* of the block, header included */
    /* Pieces after the header start at a multiple of MEM_ALIGN. */
    char pad[MEM_ALIGN - sizeof(void *) - sizeof(size_t)];
};

void arena_init(arena *a, const weft_env *env) {
    *a = (arena){.env = env};
}

/* mem_new has zeroed the block, and pieces are used once, so no piece needs clearing. */
void *arena_new(arena *a, size_t bytes) {
    bytes = size_align(bytes, 16);
    if (bytes == SIZE_MAX) return NULL;
    if (bytes > a->room - a->used || !a->blocks) {
        /* A large piece gets a block of its own; the rest of the block before it is left unused. */
        size_t block = sizeof(arena_block);
        if (!size_add(&block, block, bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK)) return NULL;
        arena_block *b = mem_new(a->env, block);
        if (!b) return NULL;
        b->next = a->blocks;
        b->bytes = block;
        a->blocks = b;
        a->used = 0;
        a->room = block - sizeof(arena_block);
        a->total += block;
    }
    void *memory = (char *)(a->blocks + 1) + a->used;
    a->used += bytes;
    return memory;
}

void *arena_new_array(arena *a, size_t count, size_t width) {
    size_t bytes;
    return size_mul(&bytes, count, width) ? arena_new(a, bytes) : NULL;
}

void *arena_grow(arena *a, void *array, size_t count, size_t width) {
    if (count & (count - 1)) return array;
    void *more = arena_new_array(a, count ? 2 * count : 1, width);
    if (more && count) memcpy(more, array, count * width);
    return more;
}

char *arena_copy(arena *a, const char *string) {
    size_t bytes = strlen(string) + 1;
    char *copy = arena_new(a, bytes);
    if (copy) memcpy(copy, string, bytes);
    return copy;
}

char *arena_printf(arena *a, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    /* The first pass measures, the second writes. */
    int length = vsnprintf(NULL, 0, format, args);
    char *out = length < 0 ? NULL : arena_new(a, (size_t)length + 1);
    if (out) vsnprintf(out, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return out;
}

void arena_free(arena *a) {
    for (arena_block *b = a->blocks; b;) {
        arena_block *next = b->next;
        mem_free(a->env, b, b->bytes);
        b = next;
    }
    *a = (arena){.env = a->env};
}

/* ---- text ---- */

/* Room for `more` characters and the NUL; false, and `failed` set, when memory is out. */
static bool text_room(text *t, size_t more) {
    size_t want;
    if (t->failed) return false;
    if (!size_add(&want, t->length, more) || !size_add(&want, want, 1)) return !(t->failed = true);
    if (want <= t->room) return true;
    /* realloc and not the env's allocator: a caller may free() the text. */
    size_t room = t->room ? t->room : 256;
    while (room < want) room *= 2;
    char *data = realloc(t->data, room);
    if (!data) return !(t->failed = true);
    t->data = data;
    t->room = room;
    return true;
}

void text_bytes(text *t, const char *bytes, size_t length) {
    if (!text_room(t, length)) return;
    memcpy(t->data + t->length, bytes, length);
    t->data[t->length += length] = 0;
}

void text_add(text *t, const char *format, ...) {
    /* Into the room there is; where that does not suffice, again into more. */
    size_t room = t->room - t->length;
    va_list args, again;
    if (t->failed) return;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(room ? t->data + t->length : NULL, room, format, args);
    if (length < 0)
        t->failed = true;
    else if ((size_t)length < room || text_room(t, (size_t)length)) {
        if ((size_t)length >= room) vsnprintf(t->data + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

char *text_detach(text *t) {
    text_bytes(t, "", 0);
    char *data = t->data;
    if (t->failed) {
        free(data);
        data = NULL;
    }
    *t = (text){0};
    return data;
}
