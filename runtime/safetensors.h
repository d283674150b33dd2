/* safetensors.h - tensors in a file: 8 bytes of length, a JSON header, the data. Reading is stricter than the
 * reference reader; writing is canonical (the same tensors give the same bytes). Knows nothing of stores.
 *
 *     <u64
 * length><{"__metadata__":{...},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}><data>
 */
#ifndef WEFT_RUNTIME_SAFETENSORS_H
#define WEFT_RUNTIME_SAFETENSORS_H

#include "graph/error.h"
#include "graph/type.h"

enum { SAFETENSORS_MAX_HEADER = 16 << 20 };

typedef struct safetensors_tensor {
    const char *name;
    tensor_type type;    /* axes may be 0 here */
    uint64_t begin, end; /* bytes, from the first of the data */
} safetensors_tensor;

/* An open file whose header has been checked. */
typedef struct safetensors {
    weft_env env;
    arena arena;
    const char *path;
    void *file;
    uint64_t data_at, data_bytes;
    int n;
    safetensors_tensor *tensors; /* sorted by name; what they span covers the data without gaps */
} safetensors;

/* On failure nothing stays open. `env` must outlive the file. */
weft_status safetensors_open(safetensors *s, const char *path, const weft_env *env, weft_error *error);
void safetensors_close(safetensors *s);
/* NULL when there is none of that name. */
const safetensors_tensor *safetensors_find(const safetensors *s, const char *name);
/* All bytes of a tensor, end - begin, into `into`. */
weft_status safetensors_read(const safetensors *s, const safetensors_tensor *t, void *into,
                             weft_error *error);

/* Gives the bytes of tensor `index` when they are to be written: at most one tensor is in memory at a time.
 */
typedef weft_status (*safetensors_fill)(void *context, int index, void *into, size_t bytes,
                                        weft_error *error);
/* tensors[n]: names and types; begin and end are filled in. Widest elements first, then by name. */
weft_status safetensors_write(const char *path, const weft_env *env, int n, safetensors_tensor *tensors,
                              safetensors_fill fill, void *context, weft_error *error);

#endif
