/* value.h - questions about the nodes and values of a scheduled program: where a value lies, what a node does. */
#ifndef WEFT_RUNTIME_PLAN_VALUE_H
#define WEFT_RUNTIME_PLAN_VALUE_H

#include "graph/core/graph.h"

/* Nothing to run: inputs, parameters, state reads, views. */
bool node_is_silent(const weft_node *n);
/* Puts a collective on the communication stream (a wait does not). */
bool node_starts_collective(const weft_node *n);
/* The value whose memory `v` lies in: follows base. */
const weft_value *value_root(const weft_value *v);
/* The variable of the store whose memory `v` lies in, the bucket for its parts; NULL: it lies elsewhere. */
const weft_variable *value_owner(const weft_value *v);
/* Bytes that `v` spans in memory from its first element, by its strides. */
size_t value_span(const weft_value *v);
/* Offset in bytes from its root's first element. */
int64_t value_offset(const weft_value *v);

/* The node behind which a bucket (or what is made of it: n) is ready: the last of its gradients. */
const weft_node *plan_ready_after(const weft_node *n);

#endif
