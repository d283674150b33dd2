/* arg.h - argmax and argmin, for their kernels. The second searches -x. */
#ifndef WEFT_OPS_REDUCE_ARG_H
#define WEFT_OPS_REDUCE_ARG_H

#include "ops/kit/basic_attrs.h"
#include "ops/kit/op_kit.h"

/* 1 for argmax, -1 for argmin: what elements are multiplied by before the largest is searched. */
int arg_sign(const weft_op *op);

#endif
