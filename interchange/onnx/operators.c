/* operators.c - the rows of operators_list.h by name. */
#include "interchange/onnx/operators.h"

#include "interchange/onnx/families.h"
#include "interchange/onnx/operators/types.h"

static const onnx_operator operators[] = {
#define BUILD(name, since, function)            {"", name, since, .build = function},
#define BUILD_OF(domain, name, since, function) {domain, name, since, .build = function},
#define UNARY(name, since, function)            {"", name, since, .unary = function},
#define BINARY(name, since, function)           {"", name, since, .binary = function},
#define KNOW(name, since, function)             {"", name, since, .know = function},
#define RANDOM(name, since, function)           {"", name, since, .build = function, .is_random = true},
#include "interchange/onnx/operators_list.h"
    {0},
};

const onnx_operator *onnx_operator_at(int index) {
    int n = sizeof operators / sizeof *operators - 1;
    return index >= 0 && index < n ? &operators[index] : NULL;
}

const onnx_operator *onnx_operator_find(const char *domain, const char *name, int64_t opset) {
    const onnx_operator *found = NULL;
    for (const onnx_operator *o = operators; o->name; o++) {
        if (strcmp(o->name, name) || strcmp(o->domain, domain) || o->since > opset) continue;
        if (!found || o->since > found->since) found = o;
    }
    return found;
}

/* A builder of Weft, which takes integers of few types (types.h). What compares makes bool of them. */
static weft_value *build_plain(onnx_call *c, const onnx_operator *op) {
    weft_value *a = onnx_in(c, 0), *b = op->binary ? onnx_in(c, 1) : NULL;
    weft_value *wide = onnx_wide(a);
    weft_value *y = op->unary ? op->unary(wide) : op->binary(wide, onnx_wide(b));
    return y && wide != a && weft_value_dtype(y) == WEFT_I64 ? onnx_as(y, weft_value_dtype(a)) : y;
}

weft_value *onnx_build_row(onnx_call *c, const onnx_operator *op) {
    return op->build ? op->build(c) : build_plain(c, op);
}
