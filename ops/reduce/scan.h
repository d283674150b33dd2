/* scan.h - what cumsum, cumprod and recurrence share. All are h[i] = a[i] h[i - 1] + b[i] along one axis,
 * from h before its first element on: a sum has a = 1, a product b = 0. Each element of the result is the
 * state after its own step or, if exclusive, before it. In reverse they go from the last element to the
 * first. */
#ifndef WEFT_OPS_REDUCE_SCAN_H
#define WEFT_OPS_REDUCE_SCAN_H

#include "ops/kit/op_kit.h"

typedef enum scan_kind { SCAN_SUM, SCAN_PROD, SCAN_LINEAR } scan_kind;

typedef struct scan_attrs {
    int64_t axis; /* negative: counts from the last */
    bool exclusive, reverse;
} scan_attrs;

/* x as [outer, n, inner], where n is the axis of the scan. */
typedef struct scan_lines {
    scan_kind kind;
    bool exclusive, reverse;
    int64_t outer, n, inner;
} scan_lines;

/* The rows of an attribute table that all have. */
#define SCAN_ATTRS                                                                                           \
    AXIS_ROW(scan_attrs), {                                                                                  \
        "reverse", ATTR_BOOL, offsetof(scan_attrs, reverse)                                                  \
    }

scan_kind scan_kind_of(const weft_op *op);
scan_lines scan_lines_of(const weft_node *n);
/* Of cumsum and cumprod: of integers and bool they are i64, as in PyTorch. */
extern const op_attr scan_attr_table[];
bool scan_infer_whole(op_call *c);
/* Result 0 has the shape of operand 0; checks the axis. */
bool scan_infer(op_call *c, weft_dtype dtype);
weft_status scan_reference(const kernel_call *c);

/* The state before each step: h[i - 1]. */
weft_value *scan_before(weft_value *a, weft_value *b, int64_t axis, bool reverse);
/* The product of the elements before each (in reverse: after). */
weft_value *scan_product_before(weft_value *x, int64_t axis, bool reverse);

#endif
