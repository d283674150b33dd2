/* summed.c - the gradients of a bucket, summed over ranks by nodes that a strategy built: the end of
 * these, which updates read. The value is the operand itself; the node says whose gradients it is.
 * runtime/passes/distribute/sums.c makes it, and the verifier proves from it what the nodes read. */
#include "ops/structure/collective.h"

static bool infer(op_call *c) {
    const weft_variable *s = op_bucket(c);
    if (!s) return false;
    if (!type_equal(op_in(c, 0), &s->type))
        return op_fail(c, WEFT_SHAPE, "the operand is %s, bucket %s is %s", TYPE(op_in(c, 0)), s->path,
                       TYPE(&s->type));
    c->out[0] = s->type;
    return true;
}

/* A bucket has one axis. */
static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    out_stride[0] = in_stride[0];
    *offset = 0;
    return true;
}

const weft_op weft_op_summed = {
    .name = "summed",
    .summary = "a bucket's gradients as a strategy's nodes sum them over ranks",
    .min_in = 1,
    .flags = OP_VARIABLE | OP_VIEW | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(variable_attrs, variable_attr_table),
    .reference_strided = 1,
    .infer = infer,
    .reference = reference_view,
    .view = view,
    .samples =
        (const op_sample[]){/* the bucket that tests declare: tests/support/kernels/sample.c */
                            {"f32[9184]", "path=\"sample\"", .out = "f32[9184]"},
                            {"f32[9183]", "path=\"sample\"", .error = "bucket sample is f32[9184]"},
                            {"f32[9184]", "path=\"no/such\"", .error = "there is no bucket"},
                            {0}},
};
