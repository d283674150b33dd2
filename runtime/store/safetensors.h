/* safetensors.h - tensors in a file: 8 bytes of length, a JSON header, the data. Reading is stricter than the
 * reference reader; writing is canonical (the same tensors give the same bytes). Knows nothing of stores.
 *
 *     <u64
 * length><{"__metadata__":{...},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}><data>
 */
#ifndef WEFT_RUNTIME_STORE_SAFETENSORS_H
#define WEFT_RUNTIME_STORE_SAFETENSORS_H

#include "graph/core/error.h"
#include "graph/file/io.h"
#include "graph/core/type.h"

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
/* `bytes` bytes of a tensor, from its byte `at` on, into `into`; all of them: end - begin. */
weft_status safetensors_read_range(const safetensors *s, const safetensors_tensor *t, uint64_t at, void *into,
                                   size_t bytes, weft_error *error);
weft_status safetensors_read(const safetensors *s, const safetensors_tensor *t, void *into,
                             weft_error *error);

/* ---- writing: a tensor goes to the file in pieces, so that none needs to be in memory whole ---- */

enum { SAFETENSORS_PIECE = 4 << 20 /* bytes; whole elements */ };

/* Gives `bytes` bytes of tensor `index` from its byte `at` on, at most SAFETENSORS_PIECE, when they are to be written. */
typedef weft_status (*safetensors_fill)(void *context, int index, uint64_t at, void *into, size_t bytes,
                                        weft_error *error);

/* A file under way. */
typedef struct safetensors_writer {
    const weft_env *env;
    const char *path; /* NULL: nothing is written */
    int n;
    safetensors_tensor *tensors, **order;
    text header;
    char *piece;
    size_t piece_bytes;
    file_writer file;
    weft_error *error;
} safetensors_writer;

/* Begins with a header for tensors[n]: names and types; begin and end are filled in. Widest elements first, then by
 * name. Without a path all is done but writing: for ranks that only have something to give. On failure nothing stays
 * open. */
weft_status safetensors_begin(safetensors_writer *w, const char *path, const weft_env *env, int n,
                              safetensors_tensor *tensors, weft_error *error);
/* Asks for all pieces, in their order, also when writing one has failed: so ranks that ask together stay in step. */
weft_status safetensors_data(safetensors_writer *w, safetensors_fill fill, void *context);
/* The file appears, unless something failed: `status` is what the caller knows. Always the last call. */
weft_status safetensors_finish(safetensors_writer *w, weft_status status);

/* All three. */
weft_status safetensors_write(const char *path, const weft_env *env, int n, safetensors_tensor *tensors,
                              safetensors_fill fill, void *context, weft_error *error);

#endif
