/* bitwise.c - the bits of integers, with broadcasting; torch.bitwise_and, bitwise_or, bitwise_xor,
 * bitwise_not, bitwise_left_shift and bitwise_right_shift. Types are u8, i32 and i64; `and`, `or`, `xor` and
 * `not` also take bool, where they are the logical ones. A shift by less than 0 or by the width leaves 0, to
 * the right the sign. No gradient. */
#include "ops/kit/integer.h"
#include "ops/pointwise/family.h"

/* Both operands have one type, which the result has too. */
static bool infer_bits(op_call *c) {
    weft_dtype dtype = op_in(c, 0)->dtype;
    bool is_shift = c->op == &weft_op_bitwise_left_shift || c->op == &weft_op_bitwise_right_shift;
    bool takes_bool = !is_shift && c->op != &weft_op_bitwise_not;
    if (c->n_in == 2 && !infer_compare(c)) return false;
    if (!(dtype == WEFT_U8 || dtype_is_wide(dtype) || (takes_bool && dtype == WEFT_BOOL)))
        return op_fail(c, WEFT_TYPE, "operand 0 is %s: it must be %su8, i32 or i64", TYPE(op_in(c, 0)),
                       takes_bool ? "bool, " : "");
    c->out[0].dtype = dtype;
    return true;
}

static const op_sample of_one[] = {{"i64[2,3]", .out = "i64[2,3]", .least = -9, .below = 9},
                                   {"i32[2,5,4,3]", .least = -99, .below = 99},
                                   {"u8[67]", .out = "u8[67]", .below = 256},
                                   {"bool[3]", .error = "it must be u8, i32 or i64"},
                                   {"f32[3]", .error = "it must be u8, i32 or i64"},
                                   {0}};
static const op_sample of_two[] = {
    {"i64[2,3], i64[3]", .out = "i64[2,3]", .least = -9, .below = 9},
    {"i32[2,1,4], i32[3,1]", .out = "i32[2,3,4]", .least = -70000, .below = 70000},
    {"u8[2,67], u8[67]", .out = "u8[2,67]", .below = 256},
    {"bool[2,5,4,3], bool[3]", .out = "bool[2,5,4,3]", .below = 2},
    {"i32[2], i64[2]", .error = "cast one"},
    {"u8[4], u8[3]", .error = "do not broadcast"},
    {"f32[2], f32[2]", .error = "it must be bool, u8, i32 or i64"},
    {0}};
static const op_sample shift_samples[] = {
    {"i64[2,30], i64[30]", .out = "i64[2,30]", .least = -70, .below = 70},
    {"i32[2,1,40], i32[30,1]", .out = "i32[2,30,40]", .least = -40, .below = 40},
    {"u8[2,67], u8[67]", .out = "u8[2,67]", .below = 12},
    {"u8[2,67], u8[67]", .below = 256},
    {"bool[2], bool[2]", .error = "it must be u8, i32 or i64"},
    {0}};

INTEGER(bitwise_and, x[0] & x[1])
INTEGER(bitwise_or, x[0] | x[1])
INTEGER(bitwise_xor, x[0] ^ x[1])
INTEGER(bitwise_not, ~x[0])
INTEGER(bitwise_left_shift, int_left_shift(x[0], x[1]))
INTEGER(bitwise_right_shift, int_right_shift(x[0], x[1]))

/* The double of bool and u8. */
#define OP_ROW(NAME, FLAGS, OF_U8, TEXT, SAMPLES)                                                            \
    BINARY_OP(NAME, OP_NO_GRADIENT | (FLAGS), (double)(uint8_t)(OF_U8), TEXT, .torch = "torch." #NAME,       \
              .precision = PRECISION_FOLLOWS, .infer = infer_bits, .samples = SAMPLES,                       \
              .integer = NAME##_integer)

OP_ROW(bitwise_and, OP_COMMUTES, (uint8_t)x[0] & (uint8_t)x[1], "the bits that both a and b have", of_two)
OP_ROW(bitwise_or, OP_COMMUTES, (uint8_t)x[0] | (uint8_t)x[1], "the bits that a or b has", of_two)
OP_ROW(bitwise_xor, OP_COMMUTES, (uint8_t)x[0] ^ (uint8_t)x[1], "the bits that just one of a and b has",
       of_two)
OP_ROW(bitwise_left_shift, 0, int_left_shift((int64_t)x[0], (int64_t)x[1]), "a 2^b, by bits", shift_samples)
OP_ROW(bitwise_right_shift, 0, int_right_shift((int64_t)x[0], (int64_t)x[1]), "a / 2^b, by bits",
       shift_samples)
POINTWISE_OP(bitwise_not, 1, OP_NO_GRADIENT, 255 - x[0], "the bits that x lacks",
             .torch = "torch.bitwise_not", .precision = PRECISION_FOLLOWS, .infer = infer_bits,
             .samples = of_one, .integer = bitwise_not_integer)

weft_value *weft_bitwise_not(weft_value *x) {
    if (x && x->type.dtype == WEFT_BOOL) return weft_logical_not(x);
    return op_value(&weft_op_bitwise_not, 1, &x, NULL);
}
