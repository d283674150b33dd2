/* words.h - words of Philox (ops/kit/philox.h), many counters at a time. */
#ifndef WEFT_OPS_CPU_SIMD_WORDS_H
#define WEFT_OPS_CPU_SIMD_WORDS_H

#include "ops/kit/philox.h"

/* Counters that are computed together, for the vectors; each gives 4 words, one for each element. */
enum { BLOCKS = 64, GROUP = 4 * BLOCKS };

/* Words of counters first .. first + BLOCKS - 1: word[k][j] belongs to element 4 (first + j) + k. */
static inline void words_of(const philox_stream *s, uint64_t first, uint32_t word[4][BLOCKS]) {
    for (int j = 0; j < BLOCKS; j++) {
        uint64_t block = first + (uint64_t)j;
        uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), s->step, s->micro};
        philox4x32_10(c, s->key[0], s->key[1]);
        word[0][j] = c[0];
        word[1][j] = c[1];
        word[2][j] = c[2];
        word[3][j] = c[3];
    }
}

#endif
