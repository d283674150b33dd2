/* exporters.h - the row of an op that is exported. The rows are in exporters/exporters_list.h, the functions
 * that they name in the files of exporters/; exporter.rows has the table. */
#ifndef WEFT_INTERCHANGE_ONNX_EXPORT_EXPORTERS_H
#define WEFT_INTERCHANGE_ONNX_EXPORT_EXPORTERS_H

#include "interchange/onnx/export/export.h"

/* An op of Weft: one of the three that follow its name is set. */
typedef struct export_row {
    const char *op;
    const char *same;               /* the operator of ONNX that is the same, without attributes */
    edge *(*build)(export_call *c); /* makes its nodes, and returns what is result 0; NULL: an error */
    const char *refused;            /* why there is no such thing in a file */
} export_row;

#endif
