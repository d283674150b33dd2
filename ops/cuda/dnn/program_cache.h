/* program_cache.h - a cache on disk for machine code of kernels that this machine compiled before: one file
 * each in $XDG_CACHE_HOME/weft/nvrtc, else ~/.cache/weft/nvrtc, named by a hash of source and options. A
 * damaged file counts as absent, and a failure to write one is ignored. */
#ifndef WEFT_OPS_CUDA_DNN_PROGRAM_CACHE_H
#define WEFT_OPS_CUDA_DNN_PROGRAM_CACHE_H

#include "graph/core/mem.h"

typedef struct program_key {
    uint64_t high, low;
} program_key;

/* The key of a source; `compiler` is the compiler's name, version and options. */
program_key program_key_of(const char *source, const char *compiler);

/* The code of a key. Free it with mem_free(env, data, room). */
typedef struct program_code {
    const char *code; /* within data */
    size_t bytes;
    char *data; /* the whole file, `room` bytes */
    size_t room;
} program_code;
/* Returns false when there is no intact file for the key. */
bool program_recall(const weft_env *env, program_key key, program_code *code);
/* Writes the code to the cache, or does nothing. */
void program_keep(const weft_env *env, program_key key, const void *code, size_t bytes);

#endif
