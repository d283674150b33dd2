/* cumsum.c - the sum of an element and those before it along an axis; torch.cumsum. For integers and bool it
 * is i64, as in PyTorch. The gradient is the same in the other direction. */
#include "ops/reduce/scan.h"

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    scan_attrs a = *(const scan_attrs *)n->attrs;
    a.reverse = !a.reverse;
    din[0] = op_value(&weft_op_cumsum, 1, &dout[0], &a);
}

const weft_op weft_op_cumsum = {
    .name = "cumsum",
    .summary = "the sum of the elements up to each along an axis",
    .torch = "torch.cumsum",
    .min_in = 1,
    OP_ATTRS(scan_attrs, scan_attr_table),
    .reference_strided = 1,
    /* No precision: runs in f32, as under torch.amp.autocast. */
    .infer = scan_infer_whole,
    .gradient = gradient,
    .reference = scan_reference,
    .samples = (const op_sample[]){{"f32[2,3]", "axis=1", .out = "f32[2,3]"},
                                   {"f32[4,3,5]", "axis=-2 reverse=1", .out = "f32[4,3,5]"},
                                   {"f32[7,37]", "axis=1 reverse=1 exclusive=1"},
                                   {"f32[37,70]", "axis=0 exclusive=1"},
                                   {"f32[2,5,4,3]", "axis=1"},
                                   {"f32[1]", .out = "f32[1]"},
                                   /* more than a tile, rows of a block; many columns */
                                   {"f32[3,5003]", "axis=1", .low = 0.25, .high = 2},
                                   {"f32[3,2600]", "axis=1 reverse=1 exclusive=1", .low = 0.25, .high = 2},
                                   {"f32[2,130,300]", "axis=1", .low = 0.25, .high = 2},
                                   {"i64[5,9]", "axis=1", .out = "i64[5,9]", .below = 1000},
                                   {"i32[40,3]", "axis=0", .out = "i64[40,3]", .below = 1000},
                                   {"u8[2,3000]", "axis=1", .out = "i64[2,3000]", .below = 256},
                                   {"bool[2,300]", "axis=1 exclusive=1", .out = "i64[2,300]", .below = 2},
                                   {"f32[2,3]", "axis=2", .error = "f32[2,3] has no axis 2"},
                                   {"f32[]", .error = "f32[] has no axis 0"},
                                   {0}},
};

weft_value *weft_cumsum(weft_value *x, int axis) {
    return op_value(&weft_op_cumsum, 1, &x, &(scan_attrs){.axis = axis});
}
