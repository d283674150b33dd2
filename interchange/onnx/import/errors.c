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

void onnx_choice_add(onnx_choice *c, const char *name) {
    enum { MOST = 8 };
    c->near = weft_nearest(c->word, c->near, name);
    if (c->n++ < MOST) kit_add(&c->all, "%s%.60s", c->n > 1 ? ", " : "", name);
    if (c->n == MOST + 1) kit_add(&c->all, ", ...");
}

bool onnx_choice_refuse(importer *in, onnx_choice *c, const char *what) {
    const char *there = c->near ? " There" : "; there";
    return kit_fail(in->error, WEFT_NAME, "%.300s: there is no %s '%.80s'%s%s%s%.500s",
                    in->onnx->file.wire.path, what, c->word, NEAR(c->near), c->n ? there : "",
                    c->n > 1 ? " are "
                    : c->n   ? " is "
                             : "",
                    c->all.text),
           false;
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
