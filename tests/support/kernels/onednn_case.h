/* onednn_case.h - a product or convolution of small random shape, as a sample in text (op.h).
 *
 * Operands are small integers: every sum is exact in f32 in any order, so a correct result is equal bit for
 * bit. */
#ifndef WEFT_TEST_ONEDNN_CASE_H
#define WEFT_TEST_ONEDNN_CASE_H

#include "support/test.h"

typedef enum case_kind { CASE_CONV, CASE_TRANSPOSED, CASE_WEIGHT, CASE_MATMUL, CASE_LINEAR } case_kind;

/* Layout of an operand of matmul. */
typedef enum case_layout { CASE_ROWS, CASE_SWAPPED, CASE_GAPS, CASE_LAYOUTS } case_layout;

typedef struct onednn_case {
    case_kind kind;
    const char *op;
    char in[200], attrs[240]; /* the sample */
    int threads;
    bool packs;            /* the weight comes from a `pack` node */
    case_layout layout[2]; /* matmul */
    bool has_bias, wide;
    const char *dtype, *bias_dtype;
    /* big [batch, channels, size], small [batch, out, small], weight [out, channels / groups, kernel] */
    int axes; /* 2 (or 0): images; 3: volumes */
    int64_t batch, channels, out, groups, size[3], small[3], kernel[3], stride[3], pad[3], dilation[3],
        output_padding[3];
    /* a [outer_a.., m, k], b [outer_b.., k, n]; outer axes of 1 serve all places; linear: a [m, k], b [n,
     * k] */
    int n_outer;
    int64_t m, n, k, outer_a[2], outer_b[2];
    bool transpose_a, transpose_b;
} onednn_case;

/* Draws case `index` of the sequence of `seed`. */
void case_draw(onednn_case *c, uint64_t seed, uint64_t index);
/* Writes the sample's text from the numbers, for cases that are given by hand. */
void case_print(onednn_case *c);

#endif
