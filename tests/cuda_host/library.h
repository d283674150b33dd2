/* library.h - shared by the fakes of cuBLASLt and cuDNN: elements of the GPU's memory as floats, and garbage
 * in memory that a caller lent. */
#ifndef CUDA_HOST_LIBRARY_H
#define CUDA_HOST_LIBRARY_H

#include "cuda_host/cuda_bf16.h"
#include "cuda_host/cuda_host.h"

#include <cstring>
#include <vector>

namespace cuda_host {

enum element { ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16 };

static inline size_t element_bytes(element e) {
    return e == ELEMENT_F32 ? 4 : 2;
}

static inline float element_load(element e, const void *at, int64_t i) {
    if (e == ELEMENT_F32) return static_cast<const float *>(at)[i];
    unsigned short bits = static_cast<const unsigned short *>(at)[i];
    return e == ELEMENT_F16 ? half_to(bits) : bfloat_to(bits);
}

static inline void element_store(element e, void *at, int64_t i, float x) {
    if (e == ELEMENT_F32)
        static_cast<float *>(at)[i] = x;
    else
        static_cast<unsigned short *>(at)[i] = e == ELEMENT_F16 ? half_of(x) : bfloat_of(x);
}

/* TF32: 10 bits of mantissa, rounded to nearest, ties to even. */
static inline float round_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A library may write anything to its workspace: fills what the algorithm asked for, and the last bytes that
 * were lent, with NaN. */
static inline void scribble(void *memory, size_t used, size_t lent) {
    if (used) memset(memory, 0xff, used);
    size_t tail = lent - used < 256 ? lent - used : 256;
    if (tail) memset(static_cast<char *>(memory) + lent - tail, 0xff, tail);
}

} // namespace cuda_host
#endif
