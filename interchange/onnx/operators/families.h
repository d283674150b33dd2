/* families.h - declares what the rows of operators_list.h name, so that a function with another
 * signature does not compile. */
#ifndef WEFT_INTERCHANGE_ONNX_OPERATORS_FAMILIES_H
#define WEFT_INTERCHANGE_ONNX_OPERATORS_FAMILIES_H

#include "interchange/onnx/import/operators.h"

#define BUILD(name, since, function)              weft_value *function(onnx_call *c);
#define BUILD_OF(domain, name, since, function)   weft_value *function(onnx_call *c);
#define COMPOSE(name, since, function)            bool function(onnx_call *c);
#define COMPOSE_OF(domain, name, since, function) bool function(onnx_call *c);
#define LIKE(name, since, function)               weft_value *function(onnx_call *c);
#define RANDOM(name, since, function)             weft_value *function(onnx_call *c);
#define KNOW(name, since, function)               const onnx_known *function(onnx_call *c);
#define UNARY(name, since, function)
#define BINARY(name, since, function)
#include "interchange/onnx/operators/operators_list.h"

#endif
