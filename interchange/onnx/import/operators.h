/* operators.h - the row of an operator that is imported. The rows are in operators/operators_list.h, the
 * functions that they name in the files of operators/; importer.operators has the table. */
#ifndef WEFT_INTERCHANGE_ONNX_IMPORT_OPERATORS_H
#define WEFT_INTERCHANGE_ONNX_IMPORT_OPERATORS_H

#include "interchange/onnx/import/import.h"

typedef struct onnx_operator {
    const char *domain, *name;
    int64_t since; /* the row holds from this opset on, until the next row of the name */
    /* One of these: */
    weft_value *(*build)(onnx_call *c);                  /* returns result 0; NULL after an error */
    weft_value *(*unary)(weft_value *x);                 /* the same from operand 0 alone */
    weft_value *(*binary)(weft_value *a, weft_value *b); /* from two operands, which broadcast */
    const onnx_known *(*know)(onnx_call *c); /* what result 0 is, from attributes and types alone */
    /* Builds the node on both sides and makes its results: of operators with graphs. */
    bool (*compose)(onnx_call *c);
    bool is_like;   /* of operands from 1 on it reads the type alone: operand 0 is to be known */
    bool is_random; /* equal calls give other results: it is never computed here */
} onnx_operator;

/* The row of a node in an opset; NULL: no row. */
const onnx_operator *onnx_operator_find(const importer *in, const onnx_node *node, int64_t opset);
/* Builds a node by its row: result 0. */
weft_value *onnx_build_row(onnx_call *c, const onnx_operator *op);

#endif
