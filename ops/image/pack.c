/* pack.c - converts an operand to the form that a node's kernel prefers: operand `operand` of the node with
 * signature `of`.
 *     w, row-major   ->   u8[bytes]
 * The layout pass makes it. The result of a parameter is a derived variable, others live for a run. Only the
 * kernel knows what the bytes mean, so there is no reference, and no gradient, since autodiff has run. */
#include "ops/image/pack.h"

static const op_attr attrs[] = {
    {"of", ATTR_STRING, offsetof(pack_attrs, of)},
    {"operand", ATTR_INT, offsetof(pack_attrs, operand), 0, 15},
    {"bytes", ATTR_INT, offsetof(pack_attrs, bytes), 1, (int64_t)1 << 46},
    {0},
};

static bool infer(op_call *c) {
    const pack_attrs *a = c->attrs;
    if (!a->of || !*a->of)
        return op_fail(c, WEFT_ARGUMENT,
                       "'of' must be the signature of the node that reads the packed operand");
    c->out[0] = type_of(WEFT_U8, 1, &a->bytes);
    return true;
}

const weft_op weft_op_pack = {
    .name = "pack",
    .summary = "an operand in the form that a node's kernel prefers",
    .min_in = 1,
    .flags = OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(pack_attrs, attrs),
    .infer = infer,
    .samples =
        (const op_sample[]){{"f32[4,3,3,3]", "operand=1 bytes=576", .error = "must be the signature"},
                            {"f32[4,3,3,3]", "of=\"conv2d\" operand=1", .error = "bytes=0: it must be 1 to"},
                            {0}},
};
