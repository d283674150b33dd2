/* arg.h - what argmax and argmin share: attributes, infer and reference. The second searches -x. */
#ifndef WEFT_OPS_REDUCE_ARG_H
#define WEFT_OPS_REDUCE_ARG_H

#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

extern const op_attr arg_attr_table[];

/* 1 for argmax, -1 for argmin: what elements are multiplied by before the largest is searched. */
int arg_sign(const weft_op *op);
/* Any element type; the index is i64. */
bool arg_infer(op_call *c);
weft_status arg_reference(const kernel_call *c);

#endif
