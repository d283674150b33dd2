/* scan_kit.c - see scan.h. */
#include "ops/reduce/scan.h"

scan_kind scan_kind_of(const weft_op *op) {
    return op == &weft_op_cumsum ? SCAN_SUM : op == &weft_op_cumprod ? SCAN_PROD : SCAN_LINEAR;
}

scan_lines scan_lines_of(const weft_node *n) {
    const scan_attrs *a = n->attrs;
    const tensor_type *t = &n->in[0]->type;
    scan_lines l = {
        .kind = scan_kind_of(n->op), .exclusive = a->exclusive, .reverse = a->reverse, .inner = 1};
    int64_t axis = a->axis;
    axis_resolve(&axis, t->ndim);
    if (l.kind == SCAN_LINEAR) l.exclusive = true;
    for (int k = (int)axis + 1; k < t->ndim; k++) l.inner *= t->shape[k];
    l.n = t->shape[axis];
    l.outer = type_elements(t) / (l.n * l.inner);
    return l;
}

bool scan_infer(op_call *c, weft_dtype dtype) {
    int64_t axis = ((const scan_attrs *)c->attrs)->axis;
    c->out[0].dtype = dtype;
    return op_want_axis(c, &axis);
}

const op_attr scan_attr_table[] = {
    SCAN_ATTRS, {"exclusive", ATTR_BOOL, offsetof(scan_attrs, exclusive)}, {0}};

bool scan_infer_whole(op_call *c) {
    weft_dtype dtype = op_in(c, 0)->dtype;
    return scan_infer(c, dtype_is_float(dtype) ? dtype : WEFT_I64);
}

/* h after the step at index `at`. */
static double next(const kernel_call *c, scan_kind kind, const int64_t *at, double h) {
    double x = element_get(&c->in[0], at);
    return kind == SCAN_SUM ? h + x : kind == SCAN_PROD ? h * x : x * h + element_get(&c->in[1], at);
}

/* The same of integers: modulo 2^64. */
static uint64_t next_whole(const kernel_call *c, scan_kind kind, const int64_t *at, uint64_t h) {
    uint64_t x = (uint64_t)element_int(&c->in[0], at);
    return kind == SCAN_SUM ? h + x : h * x;
}

/* One line, from at[axis] = 0 on. */
static void line_reference(const kernel_call *c, const scan_lines *l, int64_t axis, int64_t *at) {
    bool is_whole = !dtype_is_float(c->in[0].type.dtype);
    double before, h = l->kind == SCAN_PROD;
    uint64_t whole_before, whole = l->kind == SCAN_PROD;
    for (int64_t i = 0; i < l->n; i++) {
        at[axis] = l->reverse ? l->n - 1 - i : i;
        if (is_whole) {
            whole_before = whole;
            whole = next_whole(c, l->kind, at, whole);
            element_set_int(&c->out[0], at, (int64_t)(l->exclusive ? whole_before : whole));
        } else {
            before = h;
            h = next(c, l->kind, at, h);
            element_set(&c->out[0], at, l->exclusive ? before : h);
        }
    }
    at[axis] = 0;
}

weft_status scan_reference(const kernel_call *c) {
    scan_lines l = scan_lines_of(c->node);
    int64_t axis = ((const scan_attrs *)c->attrs)->axis, at[WEFT_MAX_NDIM] = {0};
    tensor_type lines = c->in[0].type;
    axis_resolve(&axis, lines.ndim);
    lines.shape[axis] = 1;
    do line_reference(c, &l, axis, at);
    while (index_next(&lines, at));
    return WEFT_OK;
}

weft_value *scan_before(weft_value *a, weft_value *b, int64_t axis, bool reverse) {
    return op_value(&weft_op_recurrence, 2, (weft_value *[]){a, b},
                    &(scan_attrs){.axis = axis, .reverse = reverse});
}

weft_value *scan_product_before(weft_value *x, int64_t axis, bool reverse) {
    return op_value(&weft_op_cumprod, 1, &x,
                    &(scan_attrs){.axis = axis, .exclusive = true, .reverse = reverse});
}
