/* operators.c - the rows of operators_list.h by name. */
#include "interchange/onnx/operators.h"

#include "interchange/onnx/families.h"

static const onnx_operator operators[] = {
#define BUILD(name, since, function)  {"", name, since, .build = function},
#define UNARY(name, since, function)  {"", name, since, .unary = function},
#define BINARY(name, since, function) {"", name, since, .binary = function},
#define COMPOSE(name, since, function) {"", name, since, .compose = function},
#define COMPOSE_IN(domain, name, since, function) {domain, name, since, .compose = function},
#define KNOW(name, since, function)   {"", name, since, .know = function},
#define RANDOM(name, since, function) {"", name, since, .build = function, .is_random = true},
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
