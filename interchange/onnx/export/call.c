/* call.c - what the row of an op asks about a node of Weft: export.h. */
#include "interchange/onnx/export/export.h"

#include <stdarg.h>

/* ---- errors ---- */

edge *export_refuse(export_call *c, const char *format, ...) {
    char text[600], place[200] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (*c->about.scope) snprintf(place, sizeof place, " in %.190s", c->about.scope);
    if (!c->e->error->status)
        kit_fail(c->e->error, WEFT_UNSUPPORTED, "graph %.100s: %.80s%s: %s", c->e->graph_name, c->about.op,
                 place, text);
    return NULL;
}

/* ---- what the node is ---- */

edge *export_in(export_call *c, int i) {
    const weft_value *v = weft_node_operand(c->node, i);
    return v ? export_entry_of(c->e, v)->is : NULL;
}

weft_value *export_operand(const export_call *c, int i) {
    return weft_node_operand(c->node, i);
}

weft_value *export_result(const export_call *c, int i) {
    return weft_node_result(c->node, i);
}

weft_dtype export_dtype(const export_call *c, int i) {
    return weft_value_dtype(export_operand(c, i));
}

int export_ndim(const export_call *c, int i) {
    return weft_ndim(export_operand(c, i));
}

bool export_wants(const export_call *c, int i) {
    return export_entry_of(c->e, export_result(c, i))->is_needed;
}

void export_set(export_call *c, int i, edge *is) {
    c->results[i] = is;
}

weft_attribute export_attribute_of(const export_call *c, const char *name) {
    weft_attribute a = {0};
    weft_node_attribute(c->node, name, &a);
    return a;
}

int64_t export_int(const export_call *c, const char *name) {
    return export_attribute_of(c, name).integers[0];
}

double export_real(const export_call *c, const char *name) {
    return export_attribute_of(c, name).real;
}

const char *export_word(const export_call *c, const char *name) {
    const char *text = export_attribute_of(c, name).text;
    return text ? text : "";
}

int64_t export_axis(const export_call *c, const char *name) {
    int64_t axis = export_int(c, name);
    return axis < 0 ? axis + export_ndim(c, 0) : axis;
}

/* Without an input that has the batch, or where the caller wants it, the batch is a number. */
bool export_length_of(const exporter *e, const weft_value *v, int axis, export_length *length) {
    *length = (export_length){0, weft_dim(v, axis)};
    return !e->batch_of || weft_dim_batch(v, axis, &length->per_batch, &length->rest);
}

bool export_lengths(export_call *c, const weft_value *v, export_length length[WEFT_MAX_NDIM]) {
    for (int i = 0; i < weft_ndim(v); i++)
        if (!export_length_of(c->e, v, i, &length[i]))
            return export_refuse(
                c, "the length of axis %d at another batch is not known: export with a fixed batch", i);
    return true;
}

int64_t export_fixed(export_call *c, const weft_value *v, int axis) {
    export_length all[WEFT_MAX_NDIM];
    if (!export_lengths(c, v, all)) return -1;
    if (!all[axis].per_batch) return all[axis].rest;
    export_refuse(c, "axis %d follows the batch: export with a fixed batch", axis);
    return -1;
}
