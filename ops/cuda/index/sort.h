/* sort.h - how sort is divided on a GPU, for its row and its kernels. */
#ifndef WEFT_OPS_CUDA_INDEX_SORT_H
#define WEFT_OPS_CUDA_INDEX_SORT_H

#include "ops/cuda/kit/sort.h"
#include "ops/index/sort.h"

/* Rows up to this length, of types of 32 bits and less, are sorted in shared memory, one to a block. */
enum { SORT_SHARED = 1024 };

static inline bool sort_is_shared(const sort_rows *r, weft_dtype dtype) {
    return r->length <= SORT_SHARED && dtype_bytes(dtype) <= 4;
}

/* Else all elements are sorted together (ops/cuda/kit/sort.cuh) by 32 bits of their keys at a time, from the
 * lowest, and at last by row. Bits of round k: 0 after the last. */
static inline int sort_round_bits(const sort_rows *r, weft_dtype dtype, int k) {
    int words = dtype_bytes(dtype) == 8 ? 2 : 1, bits = 1;
    while ((r->outer * r->inner - 1) >> bits) bits++;
    return k < words ? 8 * (int)(dtype_bytes(dtype) < 4 ? dtype_bytes(dtype) : 4)
           : k == words && r->outer * r->inner > 1 ? bits
                                                   : 0;
}

#endif
