/* integer.h - arithmetic of i64 that cannot trap: sums and products wrap around, and a quotient or remainder
 * by 0 is 0 (the caller reports it). ops/cuda/pointwise/fuse_prelude.c has the same functions for GPUs. */
#ifndef WEFT_OPS_KIT_INTEGER_H
#define WEFT_OPS_KIT_INTEGER_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t int_add(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

static inline int64_t int_sub(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x - (uint64_t)y);
}

static inline int64_t int_mul(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

static inline int64_t int_abs(int64_t x) {
    return x < 0 ? int_sub(0, x) : x;
}

/* Towards 0, with the remainder's sign that of x. Processors trap on the least number by -1. */
static inline int64_t int_trunc_divide(int64_t x, int64_t y) {
    return y == 0 ? 0 : y == -1 ? int_sub(0, x) : x / y;
}

static inline int64_t int_fmod(int64_t x, int64_t y) {
    return y == 0 || y == -1 ? 0 : x % y;
}

/* Whether a remainder of the sign of x becomes one of the sign of y. */
static inline bool int_is_turned(int64_t left, int64_t y) {
    return left != 0 && (left < 0) != (y < 0);
}

/* Downwards, with the remainder's sign that of y. */
static inline int64_t int_floor_divide(int64_t x, int64_t y) {
    return int_trunc_divide(x, y) - int_is_turned(int_fmod(x, y), y);
}

static inline int64_t int_remainder(int64_t x, int64_t y) {
    int64_t left = int_fmod(x, y);
    return int_is_turned(left, y) ? left + y : left;
}

/* PyTorch's shifts; a shift by less than 0 or more than there are bits leaves 0, to the right the sign. */
static inline int64_t int_left_shift(int64_t x, int64_t y) {
    return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}

static inline int64_t int_right_shift(int64_t x, int64_t y) {
    return x >> (y < 0 || y > 63 ? 63 : y);
}

#endif
