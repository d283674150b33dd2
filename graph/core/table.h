/* table.h - items by name: a hash table that grows in an arena. It does not copy names, which must live as
 * long as the table does; nothing is ever removed. */
#ifndef WEFT_GRAPH_CORE_TABLE_H
#define WEFT_GRAPH_CORE_TABLE_H

#include "graph/core/mem.h"

#include <stdalign.h>
#include <stdint.h>

typedef struct name_slot {
    const char *name; /* NULL: empty */
    void *item;
    uint64_t hash;
} name_slot;

typedef struct name_table {
    name_slot *slots;
    size_t room, count; /* room is a power of two, or 0 */
} name_table;

/* The item that was first added under that name; NULL: none. */
void *table_find(const name_table *t, const char *name);
/* Adds an item, unless the name is in the table already: then the first one stays, and the result is true
 * too. False when memory is out. */
bool table_add(name_table *t, arena *a, const char *name, void *item);
uint64_t hash_text(const char *string, uint64_t seed); /* XXH3 of xxHash, the same on all machines */
uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);

/* hash_bytes with seed 0, of bytes that come piece by piece. It is 64-byte aligned and as large as xxHash's
 * own state (table.c asserts it). */
typedef struct byte_hash {
    alignas(64) unsigned char state[576];
} byte_hash;
void byte_hash_begin(byte_hash *h);
void byte_hash_add(byte_hash *h, const void *data, size_t bytes);
uint64_t byte_hash_value(const byte_hash *h); /* of all so far */

#endif
