/* naive_random.c - random numbers for naive.h: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), and Box
 * and Muller's formula by the C library, in f64. All kernels compile the lines of ops/kit/philox.h: compared
 * with each other they would agree in a mistake. Key and counter are as the comments there say: SplitMix64's
 * finalizer of seed and key; four elements a counter. */
#include "ops/random/random.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/naive.h"
#include "support/test.h"

#include <math.h>

/* The finalizer alone: random_bits adds its constant first. */
static uint64_t finalized(uint64_t x) {
    return random_bits(&(test_random){x - 0x9e3779b97f4a7c15u});
}

/* The four words of a counter in the run that samples have. */
static void words_of(uint64_t node_key, uint64_t block, uint32_t x[4]) {
    uint64_t key = finalized(finalized(sample_run.seed + 0x9e3779b97f4a7c15u) ^ node_key);
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    x[0] = (uint32_t)block;
    x[1] = (uint32_t)(block >> 32);
    x[2] = (uint32_t)sample_run.step;
    x[3] = (uint32_t)sample_run.micro;
    for (int round = 0; round < 10; round++, k[0] += 0x9E3779B9, k[1] += 0xBB67AE85) {
        uint64_t left = x[2] * (uint64_t)0xCD9E8D57, right = x[0] * (uint64_t)0xD2511F53;
        uint32_t next[4] = {(uint32_t)(left >> 32) ^ x[1] ^ k[0], (uint32_t)left,
                            (uint32_t)(right >> 32) ^ x[3] ^ k[1], (uint32_t)right};
        for (int i = 0; i < 4; i++) x[i] = next[i];
    }
}

/* The upper 24 bits of an element's word. */
static double bits_of(uint64_t key, int64_t i) {
    uint32_t words[4];
    words_of(key, (uint64_t)i / 4, words);
    return words[i % 4] >> 8;
}

void naive_random_uniform(const weft_node *n, const naive *in, const naive *out) {
    const random_attrs *a = n->attrs;
    (void)in;
    for (int64_t i = 0; i < naive_count(&out->type); i++)
        out->v[i] = a->a + (a->b - a->a) * ldexp(bits_of(a->key, i), -24);
}

/* Elements 0 and 1 of a pair are the cosine and the sine. */
void naive_random_normal(const weft_node *n, const naive *in, const naive *out) {
    const random_attrs *a = n->attrs;
    (void)in;
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        int64_t pair = i - i % 2;
        double length = sqrt(-2 * log(ldexp(bits_of(a->key, pair) + 1, -24)));
        double angle = 2 * acos(-1) * ldexp(bits_of(a->key, pair + 1), -24);
        out->v[i] = a->a + a->b * length * (i % 2 ? sin(angle) : cos(angle));
    }
}

/* Images are numbered n, h, w, c. */
static int64_t stream_number(const tensor_type *t, int64_t i) {
    int64_t at[WEFT_MAX_NDIM];
    const int64_t *s = t->shape;
    naive_place(t, i, at);
    return t->ndim == 4 ? ((at[0] * s[2] + at[2]) * s[3] + at[3]) * s[1] + at[1] : i;
}

void naive_dropout(const weft_node *n, const naive *in, const naive *out) {
    const dropout_attrs *a = n->attrs;
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        int64_t number = stream_number(&out->type, i);
        uint32_t words[4];
        words_of(a->key, (uint64_t)number / 4, words);
        out->v[i] = ldexp(words[number % 4], -32) < a->p ? 0 : in->v[i] / (1 - a->p);
    }
}
