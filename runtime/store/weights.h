/* weights.h - a store's values as tensors of a file: what weights.c and session/save.c share. */
#ifndef WEFT_RUNTIME_STORE_WEIGHTS_H
#define WEFT_RUNTIME_STORE_WEIGHTS_H

#include "runtime/plan/program.h"
#include "runtime/store/safetensors.h"
#include "runtime/store/store.h"

typedef struct weight {
    const store_part *part;
    char *name; /* dotted */
} weight;

typedef struct weights {
    const weft_store *store;
    arena arena;
    int n;
    weight *list;                /* sorted by name */
    safetensors_tensor *tensors; /* the same as a file has them */
} weights;

/* All of the store, or without `training` parameters and state. The arena is to be freed, after a failure too. */
weft_status weights_collect(weights *w, const weft_store *store, bool training, const char *file,
                            weft_error *error);

#endif
