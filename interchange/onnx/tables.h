/* tables.h - the tables of rows: of operators, which weft_onnx_graph() gives the importer, and of ops, which
 * weft_onnx_export() gives the exporter. */
#ifndef WEFT_INTERCHANGE_ONNX_TABLES_H
#define WEFT_INTERCHANGE_ONNX_TABLES_H

#include "interchange/onnx/export/exporters.h"
#include "interchange/onnx/import/operators.h"

extern const onnx_operator onnx_operators[]; /* the last has no name */
extern const export_row export_rows[];       /* the last has no op */

#endif
