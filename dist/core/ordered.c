/* ordered.c - see ordered.h. Works on blocks that stay in the L1 cache, with a stack of partial sums: one
 * for each 1 bit of the number of leaves read so far. Adding a leaf joins partial sums of equal size, as a
 * binary counter carries. */
#include "dist/core/ordered.h"

#include <string.h>

enum {
    BLOCK = 512, /* elements: 2 KiB of f32 or 4 KiB of f64 per partial sum */
    DEPTH = 26,  /* partial sums on the stack: enough for 2^25 ranks */
};

/* The integer comparison finds NaN (exponent all ones, fraction not 0) and sets the quiet bit, so that
 * rounding cannot make it infinite. */
void bf16_from_f32(uint16_t *restrict to, const float *restrict from, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        /* adding half a unit, minus 1 if the last kept bit is 0, rounds to nearest even */
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
    }
}

void f32_from_bf16(float *restrict to, const uint16_t *restrict from, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* f32 to bf16 and back in one pass; `to` may be `from`. */
static void round_to_bf16(float *to, const float *from, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1);
        bits = ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) & 0xffff0000u;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* out = a + b; out may be a. */
static void add_f32(float *out, const float *a, const float *b, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

static void add_f64(double *out, const double *a, const double *b, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

/* By blocks, through f32 buffers on the stack. */
void bf16_add(uint16_t *into, const uint16_t *from, size_t count) {
    float a[BLOCK], b[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        f32_from_bf16(a, into + at, n);
        f32_from_bf16(b, from + at, n);
        add_f32(a, a, b, n);
        bf16_from_f32(into + at, a, n);
    }
}

/* A partial sum of the block: where it is, and of how many leaves. */
typedef struct partial {
    const void *at;
    uint32_t leaves;
} partial;

typedef struct adder {
    const ordered_sum *s;
    bool is_f64;
    partial stack[DEPTH];
    int top;
    _Alignas(64) double room[DEPTH][BLOCK]; /* one block per stack entry; sums in f32 use half of it */
} adder;

/* Elements [at, at + n) of leaf r in the type of the sum (f32 or f64): in place, or converted into the
 * room of the stack entry that comes next. */
static const void *leaf(adder *a, int r, const char *into, size_t at, size_t n) {
    const ordered_sum *s = a->s;
    float *room = (float *)a->room[a->top];
    bool is_own = r == s->own;
    if (a->is_f64) return is_own ? (const double *)into + at : (const double *)s->from[r] + at;
    if (s->dtype == WEFT_F32 && s->wire != WEFT_BF16)
        return is_own ? (const float *)into + at : (const float *)s->from[r] + at;
    if (is_own && s->dtype == WEFT_F32) {
        /* rounded as if it had travelled, because any rank may be the one that adds */
        round_to_bf16(room, (const float *)into + at, n);
    } else {
        f32_from_bf16(room, is_own ? (const uint16_t *)into + at : (const uint16_t *)s->from[r] + at, n);
    }
    return room;
}

/* Replaces the two top partial sums by their sum, which goes into the lower one's room. */
static void join_top_two(adder *a, size_t n) {
    partial *left = &a->stack[a->top - 2], *right = &a->stack[a->top - 1];
    void *room = a->room[a->top - 2];
    if (a->is_f64)
        add_f64(room, left->at, right->at, n);
    else
        add_f32(room, left->at, right->at, n);
    *left = (partial){room, left->leaves + right->leaves};
    a->top--;
}

/* Writes the finished block in the buffer's type, rounded to bf16 if the wire is bf16. */
static void store(const ordered_sum *s, char *into, const void *sum, size_t at, size_t n) {
    if (s->dtype == WEFT_F64)
        memmove((double *)into + at, sum, n * sizeof(double));
    else if (s->dtype == WEFT_BF16)
        bf16_from_f32((uint16_t *)into + at, sum, n);
    else if (s->wire == WEFT_BF16)
        round_to_bf16((float *)into + at, sum, n);
    else
        memmove((float *)into + at, sum, n * sizeof(float));
}

/* Each block runs through the whole tree before the next one: a push per leaf, and a join while the two top
 * sums are of equal size. */
void ordered_add(const ordered_sum *s, void *into, size_t count) {
    adder a;
    a.s = s;
    a.is_f64 = s->dtype == WEFT_F64;
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        a.top = 0;
        for (int r = 0; r < s->world; r++) {
            const void *data = leaf(&a, r, into, at, n);
            a.stack[a.top++] = (partial){data, 1};
            while (a.top > 1 && a.stack[a.top - 1].leaves == a.stack[a.top - 2].leaves) join_top_two(&a, n);
        }
        while (a.top > 1) join_top_two(&a, n);
        store(s, into, a.stack[0].at, at, n);
    }
}
