/* kernel.c - selects among a backend's kernels and checks layouts; the error of a kernel that meets a bad
 * value in its data. On the CPU the reference kernel comes after all others, so every op with a reference
 * runs there. */
#include "graph/core/kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- selection ---- */

int kernels_of(const op_catalog *c, const weft_op *op, const kernel_env *env, const weft_kernel **list,
               int room) {
    int n = 0;
    bool is_cpu = env->device == WEFT_DEVICE_CPU;
    /* One place of `list` is kept for the reference. */
    for (const weft_kernel *const *k = is_cpu ? c->cpu : c->cuda; *k && n < room - 1; k++)
        if ((*k)->op == op && (!is_cpu || (*k)->min_isa <= env->isa)) list[n++] = *k;
    if (is_cpu && (op->reference || op->scalar)) list[n++] = op->own ? c->own : c->reference;
    return n;
}

const weft_kernel *kernel_select(const weft_node *n, const kernel_env *env, arena *a, const char **declined) {
    const weft_kernel *list[16];
    int count = kernels_of(n->graph->model->catalog, n->op, env, list, 16);
    const char *last = NULL; /* a reason that several instruction sets share is reported once */
    if (declined) *declined = NULL;
    for (int i = 0; i < count; i++) {
        const char *why = list[i]->declines ? list[i]->declines(n, env) : NULL;
        if (!why) return list[i];
        bool said = last && strcmp(last, why) == 0;
        last = why;
        if (!declined || said) continue;
        *declined = arena_printf(a, "%s%s%s: %s", *declined ? *declined : "", *declined ? "; " : "",
                                 list[i]->name, why);
    }
    return NULL;
}

/* ---- layouts ---- */

/* The last bit of a mask speaks for all operands after it, too. */
static bool has_bit(unsigned bits, int i) {
    return bits >> (i < 31 ? i : 31) & 1;
}

static bool is_pointwise(const weft_op *op) {
    return op->flags & OP_POINTWISE || op == &weft_op_fused;
}

layout_rule kernel_input_layout(const weft_kernel *kernel, const weft_node *n, int i) {
    unsigned strided = kernel ? kernel->strided_in : 0;
    if (kernel && !kernel->op) strided = is_pointwise(n->op) ? ~0u : n->op->reference_strided;
    if (has_bit(strided, i)) return LIES_ANYHOW;
    return has_bit(n->op->image_in, i) ? LIES_CHANNELS_LAST : LIES_ROW_MAJOR;
}

/* Pointwise results take the layout of their operands, which the layout pass chooses. */
layout_rule kernel_output_layout(const weft_kernel *kernel, const weft_node *n, int k) {
    if (kernel && (is_pointwise(n->op) || n->op->role == ROLE_REORDER)) return LIES_EITHER;
    return has_bit(n->op->image_out, k) ? LIES_CHANNELS_LAST : LIES_ROW_MAJOR;
}

bool layout_fits(layout_rule rule, const tensor_type *t, const int64_t *stride) {
    int64_t rows[WEFT_MAX_NDIM], image[WEFT_MAX_NDIM];
    stride_row_major(t, rows);
    stride_channels_last(t, image);
    bool is_rows = stride_same(t, stride, rows), is_image = stride_same(t, stride, image);
    return rule == LIES_ANYHOW || (rule != LIES_CHANNELS_LAST && is_rows) ||
           (rule != LIES_ROW_MAJOR && is_image);
}

static weft_status wrong_layout(const weft_kernel *kernel, const weft_node *n, const char *what, int i,
                                const tensor *t, layout_rule rule, weft_error *error) {
    static const char *const rules[] = {"row-major", "channels-last", "row-major or channels-last",
                                        "at any strides"};
    char node[200], strides[200] = "";
    size_t used = 0;
    for (int k = 0; k < t->type.ndim; k++)
        used += (size_t)snprintf(strides + used, sizeof strides - used, k ? ",%jd" : "%jd", t->stride[k]);
    return error_set(error, WEFT_INTERNAL, "%s: %s %d, %s, has strides (%s); its kernel, %s, needs it %s",
                     node_show(n, node), what, i, TYPE(&t->type), strides, kernel->name, rules[rule]);
}

/* For tests and builds with WEFT_CHECKS_CALLS; kernels themselves do not check layouts. */
weft_status kernel_check_call(const weft_kernel *kernel, const kernel_call *c, weft_error *error) {
    for (int i = 0; i < c->n_in; i++) {
        layout_rule rule = kernel_input_layout(kernel, c->node, i);
        if (c->in[i].data && !layout_fits(rule, &c->in[i].type, c->in[i].stride))
            return wrong_layout(kernel, c->node, "operand", i, &c->in[i], rule, error);
    }
    for (int k = 0; k < c->n_out; k++) {
        layout_rule rule = kernel_output_layout(kernel, c->node, k);
        if (!layout_fits(rule, &c->out[k].type, c->out[k].stride))
            return wrong_layout(kernel, c->node, "result", k, &c->out[k], rule, error);
    }
    return WEFT_OK;
}

bool lies_row_major(const weft_value *v) {
    int64_t want[WEFT_MAX_NDIM];
    stride_row_major(&v->type, want);
    return !v->has_layout || stride_same(&v->type, v->stride, want);
}

bool lies_channels_last(const weft_value *v) {
    int64_t want[WEFT_MAX_NDIM];
    stride_channels_last(&v->type, want);
    return !v->has_layout || stride_same(&v->type, v->stride, want);
}

/* ---- errors: the text names the graph and the node ---- */

static weft_status data_fail(const kernel_call *c, int64_t number, const char *format, va_list args) {
    char message[600], node[200];
    vsnprintf(message, sizeof message, format, args);
    if (c->broken) *c->broken = number;
    return error_set(c->error, WEFT_DATA, "graph %s: %s: %s", c->node->graph->name, node_show(c->node, node),
                     message);
}

weft_status kernel_fail(const kernel_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = data_fail(c, -1, format, args);
    va_end(args);
    return status;
}

weft_status kernel_fail_at(const kernel_call *c, int64_t number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = data_fail(c, number, format, args);
    va_end(args);
    return status;
}
