/* tables.h - the table of operators, which weft_onnx_graph() gives the importer. */
#ifndef WEFT_INTERCHANGE_ONNX_TABLES_H
#define WEFT_INTERCHANGE_ONNX_TABLES_H

#include "interchange/onnx/import/operators.h"

extern const onnx_operator onnx_operators[]; /* the last has no name */

#endif
