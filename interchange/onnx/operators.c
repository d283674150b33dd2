/* operators.c - the rows of operators/operators_list.h as a table, which import.c gives the importer. */
#include "interchange/onnx/tables.h"

#include "interchange/onnx/operators/families.h"

const onnx_operator onnx_operators[] = {
#define BUILD(name, since, function)              {"", name, since, .build = function},
#define BUILD_OF(domain, name, since, function)   {domain, name, since, .build = function},
#define UNARY(name, since, function)              {"", name, since, .unary = function},
#define BINARY(name, since, function)             {"", name, since, .binary = function},
#define COMPOSE(name, since, function)            {"", name, since, .compose = function},
#define COMPOSE_OF(domain, name, since, function) {domain, name, since, .compose = function},
#define KNOW(name, since, function)               {"", name, since, .know = function},
#define LIKE(name, since, function)               {"", name, since, .build = function, .is_like = true},
#define RANDOM(name, since, function)             {"", name, since, .build = function, .is_random = true},
#include "interchange/onnx/operators/operators_list.h"
    {0},
};
