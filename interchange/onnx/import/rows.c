/* rows.c - the row of an operator, and what it builds: operators.h. */
#include "interchange/onnx/import/operators.h"

#include "interchange/onnx/import/types.h"

/* Rows of the domain "weft" are of what fuse.c makes, and of no node of a file. */
static bool is_of(const onnx_operator *o, const onnx_node *node) {
    return !strcmp(o->name, node->op) && !strcmp(o->domain, node->domain) &&
           !strcmp(o->domain, "weft") == node->is_fused;
}

const onnx_operator *onnx_operator_find(const importer *in, const onnx_node *node, int64_t opset) {
    const onnx_operator *found = NULL;
    for (const onnx_operator *o = in->operators; o->name; o++) {
        if (!is_of(o, node) || o->since > opset) continue;
        if (!found || o->since > found->since) found = o;
    }
    return found;
}

/* A builder of Weft, which takes integers of few types (types.h). What compares makes bool of them. */
static weft_value *build_plain(onnx_call *c, const onnx_operator *op) {
    if (!onnx_has(c, 0) || (op->binary && !onnx_has(c, 1)))
        return onnx_refuse(c, "an operand that it needs is left out");
    weft_value *a = onnx_in(c, 0), *b = op->binary ? onnx_in(c, 1) : NULL;
    weft_value *wide = onnx_wide(a);
    weft_value *y = op->unary ? op->unary(wide) : op->binary(wide, onnx_wide(b));
    return y && wide != a && weft_value_dtype(y) == WEFT_I64 ? onnx_as(y, weft_value_dtype(a)) : y;
}

weft_value *onnx_build_row(onnx_call *c, const onnx_operator *op) {
    return op->build ? op->build(c) : build_plain(c, op);
}
