/* philox.h - random numbers as a function of (stream, element): Philox4x32-10 of Salmon, Moraes, Dror, Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), and distributions made from its words.
 *
 * The reference, the vectorized kernels and those for GPUs compile these lines. They use only IEEE additions,
 * products, roots and integer steps, without branches and (-ffp-contract=off) without fused multiply-adds, so
 * a number has the same bits with every instruction set, thread count and world. */
#ifndef WEFT_OPS_KIT_PHILOX_H
#define WEFT_OPS_KIT_PHILOX_H

#include "graph/core/op.h"

#include <math.h>
#include <string.h>

#ifdef __CUDACC__
#define PHILOX_INLINE static inline __host__ __device__
#else
#define PHILOX_INLINE static inline
#endif
#ifdef __CUDA_ARCH__
#define PHILOX_UNROLL _Pragma("unroll")
#elif defined __CUDACC__
#define PHILOX_UNROLL
#else
#define PHILOX_UNROLL _Pragma("GCC unroll 10")
#endif

/* Philox4x32-10: four random words from a counter of four words, in place, and a key of two. */
PHILOX_INLINE void philox4x32_10(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    PHILOX_UNROLL for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/* The random numbers of one node in one run. The seed and the node's key make Philox's key; the upper words
 * of the counter are the step and the micro-batch, the lower ones count blocks of four elements. */
typedef struct philox_stream {
    uint32_t key[2], step, micro;
} philox_stream;

PHILOX_INLINE uint64_t philox_mix(uint64_t x) { /* the finalizer of splitmix64 */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

PHILOX_INLINE philox_stream philox_stream_of(const run_state *run, uint64_t node_key) {
    /* The bits of step and micro-batch above 2^32: 0 in any real training. */
    uint64_t high = ((uint64_t)run->step >> 32 << 32) | (uint64_t)run->micro >> 32;
    uint64_t key = philox_mix(philox_mix(run->seed + 0x9E3779B97F4A7C15u) ^ node_key) ^ philox_mix(high);
    philox_stream s = {{(uint32_t)key, (uint32_t)(key >> 32)}, (uint32_t)run->step, (uint32_t)run->micro};
    return s;
}

/* The words of elements 4 block to 4 block + 3. */
PHILOX_INLINE void philox_block(const philox_stream *s, uint64_t block, uint32_t words[4]) {
    words[0] = (uint32_t)block;
    words[1] = (uint32_t)(block >> 32);
    words[2] = s->step;
    words[3] = s->micro;
    philox4x32_10(words, s->key[0], s->key[1]);
}

/* The word of one element, for plain loops. */
PHILOX_INLINE uint32_t philox_word(const philox_stream *s, uint64_t element) {
    uint32_t words[4];
    philox_block(s, element / 4, words);
    return words[element % 4];
}

/* Uniform in [0, 1): multiples of 2^-24. */
PHILOX_INLINE float philox_unit(uint32_t word) {
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

/* low + width u with width = high - low, kept below high where rounding would reach it (`below` is the float
 * before high). */
PHILOX_INLINE float philox_uniform(uint32_t word, float low, float width, float below) {
    float v = low + width * philox_unit(word);
    return v < below ? v : below;
}

/* ln u for u in (0, 1], to 1e-7: u = 2^e m with m in [sqrt 1/2, sqrt 2), polynomial of Cephes' logf. */
PHILOX_INLINE float philox_log(float u) {
    int32_t bits;
    memcpy(&bits, &u, sizeof bits);
    int32_t e = (bits - 0x3f3504f3) >> 23;
    bits -= (int32_t)((uint32_t)e << 23);
    float m;
    memcpy(&m, &bits, sizeof m);
    float x = m - 1.0f, z = x * x, fe = (float)e;
    float p = 7.0376836292e-2f;
    p = p * x - 1.1514610310e-1f;
    p = p * x + 1.1676998740e-1f;
    p = p * x - 1.2420140846e-1f;
    p = p * x + 1.4249322787e-1f;
    p = p * x - 1.6668057665e-1f;
    p = p * x + 2.0000714765e-1f;
    p = p * x - 2.4999993993e-1f;
    p = p * x + 3.3333331174e-1f;
    float y = x * z * p - 2.12194440e-4f * fe - 0.5f * z;
    return x + y + 0.693359375f * fe;
}

/* Two standard normal numbers from two words by Box and Muller: r = sqrt(-2 ln u1), angle 2 pi u2. u2 is
 * split into quarter turns and a rest of at most an eighth turn (exact: all are multiples of 2^-24), for
 * which sine and cosine are polynomials. */
PHILOX_INLINE void philox_normal_pair(uint32_t a, uint32_t b, float *n0, float *n1) {
    float u1 = (float)(int32_t)((a >> 8) + 1) * 0x1p-24f, u2 = philox_unit(b);
    float r = sqrtf(-2.0f * philox_log(u1));
    int32_t quarter = (int32_t)(u2 * 4.0f + 0.5f);
    float t = (u2 - (float)quarter * 0.25f) * 6.28318530717958648f, z = t * t;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * t + t;
    float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
              0.5f * z + 1.0f;
    float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    *n0 = r * ((quarter + 1) & 2 ? -x : x);
    *n1 = r * (quarter & 2 ? -y : y);
}

#endif
