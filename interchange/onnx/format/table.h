/* table.h - items by name: a hash table that grows in an arena. It does not copy names, which must live as
 * long as the table does; nothing is ever removed. (libweft_train does not see graph/core/table.h.) */
#ifndef WEFT_INTERCHANGE_ONNX_FORMAT_TABLE_H
#define WEFT_INTERCHANGE_ONNX_FORMAT_TABLE_H

#include "runtime/data/kit.h"

typedef struct onnx_slot {
    const char *name; /* NULL: empty */
    void *item;
    uint64_t hash;
} onnx_slot;

typedef struct onnx_table {
    onnx_slot *slots;
    size_t room, count; /* room is a power of two, or 0 */
} onnx_table;

/* The item of that name; NULL: none. */
void *onnx_table_find(const onnx_table *t, const char *name);
/* Adds an item under a name that the table does not have. False: out of memory. */
bool onnx_table_add(onnx_table *t, kit_arena *a, const char *name, void *item);

#endif
