/* family.h - families of ops that differ by a formula. A family is a file; it defines OP_ROW(name, ...) by
 * POINTWISE_OP, and has a row for each op. */
#ifndef WEFT_OPS_POINTWISE_FAMILY_H
#define WEFT_OPS_POINTWISE_FAMILY_H

#include "ops/kit/op_kit.h"

/* The op NAME of N operands x[0] (and x[1]), 1 or 2 of them: its formula, its struct, whose other fields come
 * last, and its builder. */
#define POINTWISE_OP(NAME, N, FORMULA, TEXT, ...)                                                            \
    static double NAME##_scalar(const double *x, const void *attrs) {                                        \
        (void)attrs;                                                                                         \
        return FORMULA;                                                                                      \
    }                                                                                                        \
    const weft_op weft_op_##NAME = {                                                                         \
        .name = #NAME,                                                                                       \
        .summary = TEXT,                                                                                     \
        .min_in = N,                                                                                         \
        .max_in = N,                                                                                         \
        .scalar = NAME##_scalar,                                                                             \
        __VA_ARGS__,                                                                                         \
    };                                                                                                       \
    BUILDER_OF_##N(NAME)

#define BUILDER_OF_1(NAME)                                                                                   \
    weft_value *weft_##NAME(weft_value *x) {                                                                 \
        return op_value(&weft_op_##NAME, 1, &x, NULL);                                                       \
    }
#define BUILDER_OF_2(NAME)                                                                                   \
    weft_value *weft_##NAME(weft_value *a, weft_value *b) {                                                  \
        return op_value(&weft_op_##NAME, 2, (weft_value *[]){a, b}, NULL);                                   \
    }

#endif
