/* recurrence.c - h[i - 1] for h[i] = a[i] h[i - 1] + b[i] along an axis, h[-1] = 0: the state before each
 * step of a linear recurrence. Gradients of cumprod are made of it. With g the same of (a, dy) in the other
 * direction, db = g and da[i] = g[i] h[i - 1]. */
#include "ops/reduce/scan.h"

static const op_attr attrs[] = {SCAN_ATTRS, {0}};

static bool infer(op_call *c) {
    return infer_alike(c) && scan_infer(c, op_in(c, 0)->dtype);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const scan_attrs *a = n->attrs;
    weft_value *g = scan_before(n->in[0], dout[0], a->axis, !a->reverse);
    if (wanted[0]) din[0] = weft_mul(g, &n->out[0]);
    if (wanted[1]) din[1] = g;
}

const weft_op weft_op_recurrence = {
    .name = "recurrence",
    .summary = "h[i - 1] for h[i] = a[i] h[i - 1] + b[i] along an axis",
    .min_in = 2,
    .max_in = 2,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(scan_attrs),
    .attrs = attrs,
    .reference_strided = 3,
    .infer = infer,
    .gradient = gradient,
    .reference = scan_reference,
    .samples =
        (const op_sample[]){{"f32[2,3], f32[2,3]", "axis=1", .out = "f32[2,3]"},
                            {"f32[4,3,5], f32[4,3,5]", "axis=-2 reverse=1", .out = "f32[4,3,5]"},
                            {"f32[7,37], f32[7,37]", "axis=1 reverse=1", .low = -1, .high = 1},
                            {"f32[37,7], f32[37,7]", "axis=0", .low = -1, .high = 1},
                            {"f32[2,5,4,3], f32[2,5,4,3]", "axis=1"},
                            {"f32[3,2600], f32[3,2600]", "axis=1", .low = 0.25, .high = 0.9},
                            {"f32[130,300], f32[130,300]", "axis=0 reverse=1", .low = 0.25, .high = 0.9},
                            {"f32[2,3], f32[2,3]", "axis=2", .error = "f32[2,3] has no axis 2"},
                            {"f32[2,3], f32[3]", "axis=0", .error = "f32[3]"},
                            {"i64[3], i64[3]", .error = "must be floating point"},
                            {0}},
};
