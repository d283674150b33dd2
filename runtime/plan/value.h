/* value.h - questions about the nodes and values of a scheduled program: where the memory of a value is, and
 * what a node does. Passes, verifier and sessions share them; they change nothing. */
#ifndef WEFT_RUNTIME_PLAN_VALUE_H
#define WEFT_RUNTIME_PLAN_VALUE_H

#include "graph/core/graph.h"
#include "weft/comm.h"

/* The node has no work to run: inputs, parameters, reads of state, views. */
bool node_is_silent(const weft_node *n);
/* The node starts a collective on the communication stream. A wait does not. */
bool node_starts_collective(const weft_node *n);
/* An op over ranks (ops/structure/ranks.h), which a pass makes starts and waits of. */
bool op_is_over_ranks(const weft_op *op);
/* The first node of a graph that exchanges values of ranks; NULL: there is no such node. */
const weft_node *graph_over_ranks(const weft_graph *g);
/* What the communicator does for an op that starts a collective. */
weft_collective_kind collective_kind(const weft_op *op);
/* The variable that a run of the node changes: updates change a bucket in place (op->writes), assigns their
 * variable. NULL: none. */
const weft_variable *node_written(const weft_node *n);
/* Bytes in a block of aligned ones. */
size_t type_room(const tensor_type *t);
/* Operand i of n, then its results: i is below n_in + n_out; NULL: an optional operand that is missing. */
const weft_value *node_value_at(const weft_node *n, int i);
/* The value whose memory holds `v`: follows `base` to the end. */
const weft_value *value_root(const weft_value *v);
/* Whether it has memory of its own in the arena: no view, variable or input. */
bool value_is_arenas(const weft_value *v);
/* The variable of the store whose memory holds `v`; for a parameter in a bucket, the bucket. NULL: the memory
 * is in the arena or in a session's derived region. */
const weft_variable *value_owner(const weft_value *v);
/* Bytes in memory from the first to the last element of `v`, by its strides. */
size_t value_span(const weft_value *v);
/* Offset of `v` in bytes from the first element of its root. */
int64_t value_offset(const weft_value *v);

/* The node after which a bucket, or a node n made from one, is ready: the last of its gradients in the
 * schedule. */
const weft_node *plan_ready_after(const weft_node *n);

#endif
