/* summed.c - the gradients of a bucket, summed over ranks by nodes that a strategy built: the end of
 * these, which updates read. The value is the operand itself; the node says whose gradients it is.
 * runtime/passes/distribute/sums.c makes it, and the verifier proves from it what the nodes read. */
#include "ops/kit/op_kit.h"

static bool infer(op_call *c) {
    const variable_attrs *a = c->attrs;
    const weft_variable *s = a->path ? variable_find(c->graph->model, a->path) : NULL;
    if (!s || s->kind != VARIABLE_BUCKET)
        return op_fail(c, WEFT_NAME, "there is no bucket '%s'", SHOW(a->path));
    if (!type_equal(op_in(c, 0), &s->type))
        return op_fail(c, WEFT_SHAPE, "the operand is %s, bucket %s is %s", TYPE(op_in(c, 0)), s->path,
                       TYPE(&s->type));
    c->n_out = 1;
    c->out[0] = s->type;
    return true;
}

/* A bucket has one axis. */
static bool view(const weft_node *n, const int64_t *in_stride, int64_t *out_stride, int64_t *offset) {
    (void)n;
    out_stride[0] = in_stride[0];
    *offset = 0;
    return true;
}

const weft_op weft_op_summed = {
    .name = "summed",
    .summary = "a bucket's gradients as a strategy's nodes sum them over ranks",
    .min_in = 1,
    .max_in = 1,
    .flags = OP_VARIABLE | OP_VIEW | OP_NO_GRADIENT | OP_COMPILER,
    .attrs_bytes = sizeof(variable_attrs),
    .attrs = variable_attr_table,
    .reference_strided = 1,
    .infer = infer,
    .reference = reference_view,
    .view = view,
    .samples =
        (const op_sample[]){/* the bucket that tests declare: tests/support/sample.c */
                            {"f32[9184]", "path=\"sample\"", .out = "f32[9184]"},
                            {"f32[9183]", "path=\"sample\"", .error = "bucket sample is f32[9184]"},
                            {"f32[9184]", "path=\"no/such\"", .error = "there is no bucket"},
                            {0}},
};
