/* signature.c - a node as text without its graph: the properties by which kernels are selected, and the names
 * that `pack` nodes and calibration tables use.
 *     "conv2d(f32[8,3,12,12]:nhwc, f32[8,3,3,3], -) stride=1,1 pad=1,1"
 */
#include "graph/text/read.h"
#include "weft/ops.h"

#include <stdio.h>
#include <string.h>

void node_signature(text *t, const weft_node *n) {
    text_add(t, "%s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) text_add(t, ", ");
        if (n->in[i])
            value_type_write(t, n->in[i]);
        else
            text_add(t, "-");
    }
    text_add(t, ")");
    attrs_write(t, n->op, n->attrs);
}

/* Operands as they are read; in[i] is NULL for "-". */
typedef struct operands {
    int n;
    weft_value **in;
} operands;

/* Gives results the layouts that the layout pass would: channels-last for image results and for pointwise ops
 * with such an operand, else row-major. */
static void result_layouts(weft_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        bool last = (n->op->image_out >> k) & 1;
        for (int i = 0; i < n->n_in && n->op->flags & OP_POINTWISE; i++) {
            int64_t rows[WEFT_MAX_NDIM];
            if (!n->in[i] || !type_is_image(&n->in[i]->type)) continue;
            stride_row_major(&n->in[i]->type, rows);
            last |= !stride_same(&n->in[i]->type, n->in[i]->stride, rows);
        }
        v->has_layout = true;
        if (last)
            stride_channels_last(&v->type, v->stride);
        else
            stride_row_major(&v->type, v->stride);
    }
}

/* Operands become inputs of the graph with the layouts in the text. */
static bool operands_read(reader *r, operands *o) {
    o->in = arena_new_array(&r->m->arena, reader_items(r, "\n"), sizeof *o->in);
    if (!o->in) return reader_fail(r, "out of memory");
    while (*r->at && *r->at != ')') {
        char name[24];
        tensor_type type;
        bool has_layout;
        int64_t stride[WEFT_MAX_NDIM];
        int i = o->n++;
        if (i && !reader_want(r, ", ")) return false;
        if (reader_accept(r, "-")) continue;
        if (!layout_read(r, &type, &has_layout, stride)) return false;
        snprintf(name, sizeof name, "%d", i);
        o->in[i] = weft_input(r->g, name, type.dtype, type.ndim, type.shape);
        if (!o->in[i]) return false;
        o->in[i]->has_layout = true;
        memcpy(o->in[i]->stride, stride, sizeof stride);
    }
    return reader_want(r, ")");
}

/* NULL after recording an error; text after the attributes is one. */
static weft_node *signature_read(reader *r) {
    operands o = {0};
    const weft_op *op;
    void *attrs;
    if (!op_read(r, &op) || !operands_read(r, &o) || !attrs_read(r, op, &attrs)) return NULL;
    if (*r->at) {
        reader_want(r, "\n");
        return NULL;
    }
    weft_node *node = node_new(r->g, op, o.n, o.in, attrs);
    if (node) result_layouts(node);
    return node;
}

weft_node *node_from_signature(const char *signature, const weft_env *env, const op_catalog *catalog,
                               weft_error *error) {
    if (error) *error = (weft_error){0};
    weft_model *m = model_new("signature", env, catalog);
    reader r = {.at = signature, .line = 1, .where = "signature", .m = m};
    r.g = weft_graph_new(m, "signature", WEFT_TRAIN);
    weft_node *n = r.g ? signature_read(&r) : NULL;
    if (n) return n;
    if (error && m)
        *error = m->error;
    else if (error)
        error_memory(error, "signature");
    weft_model_free(m);
    return NULL;
}
