/* extremes.c - the larger and the smaller of a and b, with broadcasting; torch.maximum and minimum. NaN if
 * either is NaN. The chosen operand gets the gradient; equal ones get half each, as in PyTorch. */
#include "ops/pointwise/family.h"

/* The operand that was not chosen gets 0, equal ones get half each. Comparisons with NaN are false, so both
 * operands get all of dout. */
static void extremum_gradient(weft_node *n, weft_value *dout, const bool *wanted, weft_value **din,
                              bool is_maximum) {
    weft_value *zero = weft_constant(n->graph, n->in[0]->type.dtype, 0, NULL, 0);
    weft_value *half = weft_scale(dout, 0.5);
    weft_value *shared = weft_where(weft_equal(n->in[0], n->in[1]), half, dout);
    for (int i = 0; i < 2; i++) {
        weft_value *own = n->in[i], *other = n->in[1 - i];
        weft_value *loses = !wanted[i]   ? NULL
                            : is_maximum ? weft_greater(other, own)
                                         : weft_greater(own, other);
        if (wanted[i]) din[i] = sum_to(weft_where(loses, zero, shared), own);
    }
}

#define OP_ROW(NAME, SIGN, TEXT)                                                                             \
    GRADIENT(NAME) {                                                                                         \
        extremum_gradient(n, dout[0], wanted, din, 1 SIGN 0);                                                \
    }                                                                                                        \
    INTEGER(NAME, x[0] SIGN x[1] ? x[0] : x[1])                                                              \
    BINARY_OP(NAME, OP_COMMUTES, x[0] SIGN x[1] || x[0] != x[0] ? x[0] : x[1], TEXT,                         \
              .torch = "torch." #NAME, .precision = PRECISION_FOLLOWS, .infer = infer_broadcast,             \
              .gradient = NAME##_gradient, .samples = whole_binary_samples, .integer = NAME##_integer)

OP_ROW(maximum, >, "the larger of a and b")
OP_ROW(minimum, <, "the smaller of a and b")
