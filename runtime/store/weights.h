/* weights.h - a store's values as the tensors of a file, shared by weights.c and session/save.c. */
#ifndef WEFT_RUNTIME_STORE_WEIGHTS_H
#define WEFT_RUNTIME_STORE_WEIGHTS_H

#include "runtime/plan/program.h"
#include "runtime/store/safetensors.h"
#include "runtime/store/store.h"

typedef struct weight {
    const store_part *part;
    const char *name; /* in files */
    const char *says; /* what files say of it; NULL: nothing, of parameters and state */
} weight;

typedef struct weights {
    const weft_store *store;
    arena arena;
    int n;
    weight *list;                /* sorted by name */
    safetensors_tensor *tensors; /* the same ones, as safetensors has them */
} weights;

/* Collects all values of the store, or without `training` only parameters and state. The caller frees
 * w->arena, after a failure too. */
weft_status weights_collect(weights *w, const weft_store *store, bool training, const char *file,
                            weft_error *error);
/* WEFT_NAME unless a tensor of the file at `path` is what the value of its name is. */
weft_status weights_check_kind(const char *path, const weft_stored *from, const weight *to,
                               weft_error *error);
/* The value of that name in files; NULL: there is none. */
const weight *weights_find(const weights *w, const char *name);

#endif
