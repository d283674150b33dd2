/* optimizers.c - ops/optimizer/list.h as an array that ends with NULL. */
#include "ops/catalog/catalog.h"

#define X(name) extern const optimizer_kind optimizer_##name;
#include "ops/optimizer/list.h"
#undef X

const optimizer_kind *const optimizer_kinds[] = {
#define X(name) &optimizer_##name,
#include "ops/optimizer/list.h"
#undef X
    NULL,
};
