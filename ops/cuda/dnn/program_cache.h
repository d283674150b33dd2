/* program_cache.h - machine code of kernels that were compiled on this machine before: one file each in
 * $XDG_CACHE_HOME/weft/nvrtc, else ~/.cache/weft/nvrtc, named by a hash of source and options. A file that is not what
 * was written is as good as none; one that cannot be written is nobody's loss. */
#ifndef WEFT_OPS_CUDA_DNN_PROGRAM_CACHE_H
#define WEFT_OPS_CUDA_DNN_PROGRAM_CACHE_H

#include "graph/core/mem.h"

typedef struct program_key {
    uint64_t high, low;
} program_key;

/* `compiler` names it, its version and its options. */
program_key program_key_of(const char *source, const char *compiler);

/* The code kept under the key, or NULL. Free with mem_free(env, data, room). */
typedef struct program_code {
    const char *code; /* inside data */
    size_t bytes;
    char *data;
    size_t room;
} program_code;
bool program_recall(const weft_env *env, program_key key, program_code *code);
void program_keep(const weft_env *env, program_key key, const void *code, size_t bytes);

#endif
