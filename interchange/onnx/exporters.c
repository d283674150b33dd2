/* exporters.c - the rows of exporters_list.h by name. */
#include "interchange/onnx/exporters.h"

#include "interchange/onnx/exporter_families.h"

static const export_row rows[] = {
#define SAME(op, onnx)      {op, .same = onnx},
#define BUILD(op, function) {op, .build = function},
#define REFUSE(op, why)     {op, .refused = why},
#include "interchange/onnx/exporters_list.h"
    {0},
};

const export_row *export_row_of(const char *op) {
    for (const export_row *r = rows; r->op; r++)
        if (!strcmp(r->op, op)) return r;
    return NULL;
}
