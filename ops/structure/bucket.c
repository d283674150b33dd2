/* bucket.c - the gradients of a bucket's members as one flat buffer, each at its member's offset, with zeros
 * in the gaps. Operand i has the shape of member i, the result that of the bucket. The memory pass places the
 * operands inside the result where it can; then nothing is copied. */
#include "ops/structure/collective.h"

#include <string.h>

const weft_variable *op_bucket(const op_call *c) {
    const char *path = ((const variable_attrs *)c->attrs)->path;
    const weft_variable *v = path ? variable_find(c->graph->model, path) : NULL;
    if (v && v->kind == VARIABLE_BUCKET) return v;
    op_fail(c, WEFT_NAME, "there is no bucket '%s'", SHOW(path));
    return NULL;
}

/* One operand for each member, of the member's type. */
static bool infer(op_call *c) {
    const weft_variable *s = op_bucket(c);
    if (!s) return false;
    if (c->n_in != s->n_members)
        return op_fail(c, WEFT_ARGUMENT, "bucket %s has %d members", s->path, s->n_members);
    for (int i = 0; i < c->n_in; i++)
        if (!type_equal(op_in(c, i), &s->members[i]->type))
            return op_fail(c, WEFT_SHAPE, "operand %d is %s, %s is %s", i, TYPE(op_in(c, i)),
                           s->members[i]->path, TYPE(&s->members[i]->type));
    c->out[0] = s->type;
    return true;
}

/* Members come in order of their offsets; `end` is where the one before ends, in elements. */
static weft_status reference(const kernel_call *c) {
    const weft_variable *s = c->node->variable;
    float *out = c->out[0].data;
    int64_t end = 0;
    for (int i = 0; i < c->n_in; i++) {
        const weft_variable *v = s->members[i];
        int64_t count = type_elements(&v->type);
        memset(out + end, 0, (size_t)(v->offset - end) * sizeof *out);
        /* Skipped where the operand is in its place already. */
        if (c->in[i].data != out + v->offset)
            memcpy(out + v->offset, c->in[i].data, (size_t)count * sizeof *out);
        end = v->offset + count;
    }
    memset(out + end, 0, (size_t)(s->type.shape[0] - end) * sizeof *out);
    return WEFT_OK;
}

const weft_op weft_op_bucket = {
    .name = "bucket",
    .summary = "gradients of a bucket's members in one flat buffer (made by the optimizer pass)",
    .max_in = -1,
    .flags = OP_VARIABLE | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(variable_attrs, variable_attr_table),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){
            /* the bucket that tests declare: tests/support/kernels/sample.c */
            {"f32[5000], f32[3,7,2], f32[], f32[4100]", "path=\"sample\"", .out = "f32[9184]"},
            {"f32[5000], f32[3,7,2], f32[], f32[41]", "path=\"sample\"", .error = "d is f32[4100]"},
            {"f32[5000]", "path=\"sample\"", .error = "bucket sample has 4 members"},
            {"", "path=\"no/such\"", .error = "there is no bucket"},
            {0}},
};
