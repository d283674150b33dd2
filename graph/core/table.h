/* table.h - things by name: a hash table that grows with what it holds, in an arena. Names must outlive it. */
#ifndef WEFT_GRAPH_CORE_TABLE_H
#define WEFT_GRAPH_CORE_TABLE_H

#include "graph/core/mem.h"

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

/* The item of that name that was added first; NULL: none. */
void *table_find(const name_table *t, const char *name);
/* false when memory is out. */
bool table_add(name_table *t, arena *a, const char *name, void *item);
uint64_t hash_text(const char *string, uint64_t seed); /* xxHash */
uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);

#endif
