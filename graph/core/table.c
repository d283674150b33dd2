/* table.c - a hash table with open addressing and linear probing, at most half full, so that a probe always
 * ends; see table.h. Growing leaves the old slots to the arena: at most as many bytes again as the table
 * has. */
#include "graph/core/table.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_text(const char *string, uint64_t seed) {
    return hash_bytes(string, strlen(string), seed);
}

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(byte_hash), "a byte_hash has room for xxHash's state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(byte_hash), "and its alignment");

void byte_hash_begin(byte_hash *h) {
    XXH3_64bits_reset((XXH3_state_t *)(void *)h->state);
}

void byte_hash_add(byte_hash *h, const void *data, size_t bytes) {
    XXH3_64bits_update((XXH3_state_t *)(void *)h->state, data, bytes);
}

uint64_t byte_hash_value(const byte_hash *h) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}

/* The slot that holds the name, or the empty one where it belongs. The table must have slots. */
static name_slot *slot_of(const name_table *t, const char *name, uint64_t hash) {
    size_t at = (size_t)hash & (t->room - 1);
    for (;; at = (at + 1) & (t->room - 1)) {
        name_slot *s = &t->slots[at];
        if (!s->name || (s->hash == hash && strcmp(s->name, name) == 0)) return s;
    }
}

/* Doubles the table; the stored hashes spare reading the names again. */
static bool grow(name_table *t, arena *a) {
    name_table more = {.room = t->room ? 2 * t->room : 64, .count = t->count};
    more.slots = arena_new_array(a, more.room, sizeof *more.slots);
    for (size_t i = 0; more.slots && i < t->room; i++)
        if (t->slots[i].name) *slot_of(&more, t->slots[i].name, t->slots[i].hash) = t->slots[i];
    if (more.slots) *t = more;
    return more.slots != NULL;
}

void *table_find(const name_table *t, const char *name) {
    return t->count ? slot_of(t, name, hash_text(name, 0))->item : NULL;
}

bool table_add(name_table *t, arena *a, const char *name, void *item) {
    if (2 * (t->count + 1) > t->room && !grow(t, a)) return false;
    uint64_t hash = hash_text(name, 0);
    name_slot *s = slot_of(t, name, hash);
    if (s->name) return true; /* the first one stays */
    *s = (name_slot){name, item, hash};
    t->count++;
    return true;
}
