/* table.c - ops/optimizer/list.h as a table, by place and by weft_optimizer.type. */
#include "graph/core/minimize.h"

#include <string.h>

#define X(name) extern const optimizer_kind optimizer_##name;
#include "ops/optimizer/list.h"
#undef X

static const optimizer_kind *const table[] = {
#define X(name) &optimizer_##name,
#include "ops/optimizer/list.h"
#undef X
    NULL,
};

const optimizer_kind *optimizer_at(int index) {
    return index >= 0 && index < (int)(sizeof table / sizeof *table) ? table[index] : NULL;
}

/* Linear: there are a few optimizers. */
const optimizer_kind *optimizer_find(const char *type) {
    int i = 0;
    while (type && table[i] && strcmp(table[i]->type, type)) i++;
    return type ? table[i] : NULL;
}

bool optimizer_reads(const optimizer_kind *kind, const char *field) {
    int i = 0;
    while (kind->fields[i] && strcmp(kind->fields[i], field)) i++;
    return kind->fields[i] != NULL;
}
