/* safetensors.h - tensors in a file: 8 bytes of length, a JSON header, the data. Reading is stricter than the
 * reference reader; writing is canonical (the same tensors give the same bytes). Knows nothing of stores.
 *
 *     <u64 length>
 *     <{"__metadata__":{...},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}>
 *     <data>
 *
 * A writer may say of a tensor what it is (stored.h): metadata have a text "weft:NAME" then.
 */
#ifndef WEFT_RUNTIME_STORE_SAFETENSORS_H
#define WEFT_RUNTIME_STORE_SAFETENSORS_H

#include "graph/core/error.h"
#include "graph/file/io.h"
#include "graph/core/type.h"

enum { SAFETENSORS_MAX_HEADER = 16 << 20 };
#define SAFETENSORS_SAYS "weft:" /* the name of a tensor follows */

typedef struct safetensors_tensor {
    const char *name;
    const char *says;    /* what it is; NULL: the file does not say it */
    tensor_type type;    /* unlike elsewhere, axes may be 0 */
    uint64_t begin, end; /* bytes, from the start of the data */
} safetensors_tensor;

/* An open file whose header has been checked. */
typedef struct safetensors {
    weft_env env;
    arena arena;
    const char *path;
    void *file;
    /* Where the data start in the file, and their size. */
    uint64_t data_at, data_bytes;
    int n;
    safetensors_tensor *tensors; /* sorted by name; together they cover the data without gaps */
} safetensors;

/* On failure nothing stays open. `path` and `env` must outlive the file. */
weft_status safetensors_open(safetensors *s, const char *path, const weft_env *env, weft_error *error);
void safetensors_close(safetensors *s);
/* Between them the file is not open, and what is known of it stays. */
void safetensors_rest(safetensors *s);
weft_status safetensors_wake(safetensors *s, weft_error *error);
/* Sorts the tensors by name. Returns one whose name another has, too; NULL: there is none. */
const safetensors_tensor *safetensors_sort(safetensors *s);
/* NULL when there is no tensor of that name. */
const safetensors_tensor *safetensors_find(const safetensors *s, const char *name);
/* Reads `bytes` bytes of a tensor, from its byte `at` on. safetensors_read reads all of it: end - begin
 * bytes. */
weft_status safetensors_read_range(const safetensors *s, const safetensors_tensor *t, uint64_t at, void *into,
                                   size_t bytes, weft_error *error);
weft_status safetensors_read(const safetensors *s, const safetensors_tensor *t, void *into,
                             weft_error *error);

/* ---- writing: tensors go to the file in pieces, so that none must be in memory whole ---- */

enum { SAFETENSORS_PIECE = 4 << 20 /* bytes; whole elements */ };

/* Fills `into` with `bytes` bytes of tensor `index` from its byte `at` on; at most SAFETENSORS_PIECE. */
typedef weft_status (*safetensors_fill)(void *context, int index, uint64_t at, void *into, size_t bytes,
                                        weft_error *error);

/* A file that is being written. */
typedef struct safetensors_writer {
    const weft_env *env;
    const char *path; /* NULL: nothing is written */
    int n;
    /* The caller's tensors[n], and pointers to them in the order of the file. */
    safetensors_tensor *tensors, **order;
    text header;
    /* piece_bytes of memory for the piece under way. */
    char *piece;
    size_t piece_bytes;
    file_writer file;
    byte_hash *hash; /* of the whole file; NULL: nobody asks */
    weft_error *error;
} safetensors_writer;

/* Begins a file with a header for tensors[n], whose names and types are given, and what is said of them; sets
 * begin and end. Order: widest elements first, then names. Without a path everything but writing is done, for
 * ranks that only contribute. *hash becomes that of what has been written so far; NULL: nobody asks. On
 * failure nothing stays open. */
weft_status safetensors_begin(safetensors_writer *w, const char *path, const weft_env *env, int n,
                              safetensors_tensor *tensors, byte_hash *hash, weft_error *error);
/* Asks for all pieces in order, even after a write has failed, so that ranks which gather them together stay
 * in step. Ends only when `fill` fails. */
weft_status safetensors_data(safetensors_writer *w, safetensors_fill fill, void *context);
/* Makes the file appear, unless something failed; `status` is the caller's. Always the last call. Returns the
 * file's status. */
weft_status safetensors_finish(safetensors_writer *w, weft_status status);

/* The three calls above. */
weft_status safetensors_write(const char *path, const weft_env *env, int n, safetensors_tensor *tensors,
                              safetensors_fill fill, void *context, weft_error *error);
/* safetensors_write, which also tells the file's bytes and their XXH3. */
typedef struct safetensors_seal {
    uint64_t bytes, hash;
} safetensors_seal;
weft_status safetensors_write_sealed(const char *path, const weft_env *env, int n,
                                     safetensors_tensor *tensors, safetensors_fill fill, void *context,
                                     safetensors_seal *seal, weft_error *error);

#endif
