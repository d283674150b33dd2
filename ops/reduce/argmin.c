/* argmin.c - the index of the smallest element along an axis, i64; torch.argmin. The first of equal ones; NaN
 * counts as smallest, as in PyTorch. Otherwise as argmax. */
#include "ops/reduce/arg.h"

const weft_op weft_op_argmin = {
    .name = "argmin",
    .summary = "the index of the smallest element",
    .torch = "torch.argmin",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_NO_GRADIENT,
    .attrs_bytes = sizeof(axis_attrs),
    .attrs = arg_attr_table,
    .reference_strided = 1,
    .precision = PRECISION_FOLLOWS,
    .reduced_in = 1,
    .infer = arg_infer,
    .reference = arg_reference,
    .samples = (const op_sample[]){{"f32[4,10]", "axis=-1", .out = "i64[4]"},
                                   {"f32[2,37,3]", "axis=1 keep=1", .out = "i64[2,1,3]"},
                                   {"i64[9]", .out = "i64[]"},
                                   {"f32[50,333]", "axis=1"},
                                   {"f32[2,3]", "axis=2", .error = "has no axis 2"},
                                   {0}},
};

weft_value *weft_argmin(weft_value *x, int axis, bool keep) {
    return op_value(&weft_op_argmin, 1, &x, &(axis_attrs){axis, keep});
}
