/* ops.h - declares weft_op_NAME for every line of ops/list.h. graph/core/op.h declares the few that a
 * graph is made of. */
#ifndef WEFT_OPS_KIT_OPS_H
#define WEFT_OPS_KIT_OPS_H

#include "graph/core/op.h"

#define X(name) extern const weft_op weft_op_##name;
#include "ops/list.h"
#undef X

/* The bytes of a `constant_tensor` node. */
const attr_bytes *constant_bytes(const weft_node *n);

#endif
