/* exporter_families.h - declares what the rows of exporters_list.h name, so that a function with another
 * signature does not compile. */
#ifndef WEFT_INTERCHANGE_ONNX_EXPORTERS_EXPORTER_FAMILIES_H
#define WEFT_INTERCHANGE_ONNX_EXPORTERS_EXPORTER_FAMILIES_H

#include "interchange/onnx/export/export.h"

#define SAME(op, onnx)
#define BUILD(op, function) edge *function(export_call *c);
#define REFUSE(op, why)
#include "interchange/onnx/exporters/exporters_list.h"

#endif
