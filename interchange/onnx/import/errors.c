/* errors.c - how an import fails: the first error stays. See import.h. */
#include "interchange/onnx/import/import.h"

#include <stdarg.h>

weft_value *onnx_refuse(onnx_call *c, const char *format, ...) {
    char why[700];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (!c->in->error->status)
        kit_fail(c->in->error, WEFT_UNSUPPORTED, "%.300s: node %d '%.80s' (%.60s, opset %jd): %s",
                 c->in->onnx->file.wire.path, c->node->index, c->node->name, c->node->op, c->opset, why);
    return NULL;
}

bool onnx_failed(importer *in, int side, const onnx_call *c) {
    weft_error error = {0};
    if (weft_model_take_error(in->model[side], &error)) {
        if (c)
            onnx_refuse((onnx_call *)c, "%s%s", side ? "with another batch: " : "", error.text);
        else
            kit_fail(in->error, error.status, "%.300s: %s", in->onnx->file.wire.path, error.text);
    }
    return in->error->status;
}
