/* operators.h - the operators that are imported, a row each. A new one is a row in operators_list.h, or a
 * function in the file of its family and a row. */
#ifndef WEFT_INTERCHANGE_ONNX_OPERATORS_H
#define WEFT_INTERCHANGE_ONNX_OPERATORS_H

#include "interchange/onnx/import.h"

typedef struct onnx_operator {
    const char *domain, *name;
    int64_t since; /* the row holds from this opset on, until the next row of the name */
    /* One of these: */
    weft_value *(*build)(onnx_call *c);                  /* returns result 0; NULL after an error */
    weft_value *(*unary)(weft_value *x);                 /* the same from operand 0 alone */
    weft_value *(*binary)(weft_value *a, weft_value *b); /* from two operands, which broadcast */
    const onnx_known *(*know)(onnx_call *c); /* what result 0 is, from attributes and types alone */
    bool is_random;                          /* equal calls give other results: it is never computed here */
} onnx_operator;

/* The row of an operator in an opset; NULL: there is none. */
const onnx_operator *onnx_operator_find(const char *domain, const char *name, int64_t opset);
/* Builds a node by its row: result 0. */
weft_value *onnx_build_row(onnx_call *c, const onnx_operator *op);
/* Row 0, 1, ...; NULL past the end. */
const onnx_operator *onnx_operator_at(int index);

#endif
