/* table.c - ops/list.h as a table. A search by name is linear: about 90 names, compared by length first. */
#include "ops/kit/ops.h"

#include <string.h>

static const weft_op *const table[] = {
#define X(name) &weft_op_##name,
#include "ops/list.h"
#undef X
};

int op_count(void) {
    return (int)(sizeof table / sizeof *table);
}

const weft_op *op_at(int index) {
    return index >= 0 && index < op_count() ? table[index] : NULL;
}

const weft_op *op_find(const char *name, size_t length) {
    for (int i = 0; i < op_count(); i++)
        if (strlen(table[i]->name) == length && memcmp(table[i]->name, name, length) == 0) return table[i];
    return NULL;
}
