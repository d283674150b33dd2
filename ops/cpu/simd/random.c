/* random.c - Philox, and uniform, normal and dropout made of it, many counters at a time. The arithmetic is
 * that of ops/kit/philox.h, which the reference compiles too, so the bits are the reference's. */
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/words.h"
#include "ops/random/random.h"

static int64_t group_count(int64_t elements) {
    return (elements + GROUP - 1) / GROUP;
}

/* Elements of group `g` of `n` in all: GROUP except for the last. */
static int group_length(int64_t g, int64_t n) {
    int64_t left = n - g * GROUP;
    return left < GROUP ? (int)left : GROUP;
}

/* From columns to elements: z[k][j] is element 4 j + k. */
static void interleave(const float z[4][BLOCKS], float made[GROUP]) {
    for (int j = 0; j < BLOCKS; j++) {
        made[4 * j] = z[0][j];
        made[4 * j + 1] = z[1][j];
        made[4 * j + 2] = z[2][j];
        made[4 * j + 3] = z[3][j];
    }
}

/* Stores a group; the last one of a tensor may be shorter. */
static void put_normals(const float z[4][BLOCKS], float *y, int length) {
    float made[GROUP];
    interleave(z, length == GROUP ? y : made);
    if (length < GROUP) memcpy(y, made, sizeof(float) * (size_t)length);
}

/* ---- uniform ---- */

/* Uniform in [low, high): `below` is the largest float under high, since rounding may reach high itself. */
static weft_status uniform_run(void *state, const kernel_call *c) {
    const random_attrs *a = c->attrs;
    philox_stream s = philox_stream_of(c->run, a->key);
    float *y = c->out[0].data, low = (float)a->a, high = (float)a->b;
    float width = high - low, below = nextafterf(high, low);
    int64_t n = type_elements(&c->out[0].type);
    /* a group's counters follow from its number, so threads need no state */
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t g = 0; g < group_count(n); g++) {
        uint32_t word[4][BLOCKS];
        float z[4][BLOCKS];
        words_of(&s, (uint64_t)g * BLOCKS, word);
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < BLOCKS; j++) z[k][j] = philox_uniform(word[k][j], low, width, below);
        put_normals(z, y + g * GROUP, group_length(g, n));
    }
    return WEFT_OK;
}

SIMD_KERNEL(random_uniform, .run = uniform_run);

/* ---- normal ---- */

/* Box and Muller: words 0, 1 and words 2, 3 of a counter give a pair each. */
static void normal_group(const uint32_t word[4][BLOCKS], float mean, float std, float z[4][BLOCKS]) {
    for (int k = 0; k < 4; k += 2)
        for (int j = 0; j < BLOCKS; j++)
            philox_normal_pair(word[k][j], word[k + 1][j], &z[k][j], &z[k + 1][j]);
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < BLOCKS; j++) z[k][j] = mean + std * z[k][j];
}

/* Normal with mean a and standard deviation b. */
static weft_status normal_run(void *state, const kernel_call *c) {
    const random_attrs *a = c->attrs;
    philox_stream s = philox_stream_of(c->run, a->key);
    float *y = c->out[0].data, mean = (float)a->a, std = (float)a->b;
    int64_t n = type_elements(&c->out[0].type);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t g = 0; g < group_count(n); g++) {
        uint32_t word[4][BLOCKS];
        float z[4][BLOCKS];
        words_of(&s, (uint64_t)g * BLOCKS, word);
        normal_group(word, mean, std, z);
        put_normals(z, y + g * GROUP, group_length(g, n));
    }
    return WEFT_OK;
}

SIMD_KERNEL(random_normal, .run = normal_run);

/* ---- dropout: operand and result have the same layout, and elements are counted in its order ---- */

/* y = x * made, where made is 0 with probability p and else `factor` = 1 / (1 - p). A dropped NaN or infinity
 * is 0. */
static void dropout_group(const uint32_t word[4][BLOCKS], uint32_t threshold, float factor, const float *x,
                          float *y, int length) {
    float z[4][BLOCKS], made[GROUP];
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < BLOCKS; j++) z[k][j] = word[k][j] < threshold ? 0.0f : factor;
    interleave(z, made);
    for (int i = 0; i < length; i++) y[i] = made[i] == 0.0f ? 0.0f : x[i] * made[i];
}

/* Element i is dropped by word i of the stream, so dropout of dy with the same key, which is the gradient,
 * drops the same elements. */
static weft_status dropout_run(void *state, const kernel_call *c) {
    const dropout_attrs *a = c->attrs;
    philox_stream s = philox_stream_of(c->run, a->key);
    const tensor *x = &c->in[0], *y = &c->out[0];
    /* p = 1 drops everything, which no 32-bit threshold can express: the factor 0 does. */
    float factor = a->p < 1 ? (float)(1 / (1 - a->p)) : 0;
    uint64_t below = dropout_threshold(a->p);
    uint32_t threshold = below > UINT32_MAX ? UINT32_MAX : (uint32_t)below;
    int64_t n = type_elements(&c->out[0].type);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t g = 0; g < group_count(n); g++) {
        uint32_t word[4][BLOCKS];
        float from[GROUP], to[GROUP], *yg = row_place(y, g * GROUP, to);
        int length = group_length(g, n);
        words_of(&s, (uint64_t)g * BLOCKS, word);
        dropout_group(word, threshold, factor, row_read(x, g * GROUP, length, from), yg, length);
        row_write(y, g * GROUP, length, yg);
    }
    return WEFT_OK;
}

SIMD_KERNEL(dropout, .declines = declines_rows, .run = dropout_run);
