/* exporters.c - the rows of exporters/exporters_list.h as a table, which export.c gives the exporter. */
#include "interchange/onnx/tables.h"

#include "interchange/onnx/exporters/exporter_families.h"

const export_row export_rows[] = {
#define SAME(op, onnx)      {op, .same = onnx},
#define BUILD(op, function) {op, .build = function},
#define REFUSE(op, why)     {op, .refused = why},
#include "interchange/onnx/exporters/exporters_list.h"
    {0},
};
