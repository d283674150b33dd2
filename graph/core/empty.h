/* empty.h - values without elements: an axis of theirs has length 0. A graph that a program builds has them;
 * one that is compiled has not (graph/core/empty.c). */
#ifndef WEFT_GRAPH_CORE_EMPTY_H
#define WEFT_GRAPH_CORE_EMPTY_H

#include "graph/core/graph.h"

/* Whether an operand or a result of the call, whose types are known, is empty. */
bool call_is_empty(const op_call *c);
/* Whether such a call has a meaning: its results are empty, or the row of its op says what they are
 * (op_empty). False after recording the error. */
bool call_may_be_empty(const op_call *c);
/* For a graph that is compiled: `n`, the node of such a call, stays out of the graph's list, and each result
 * that has elements is mapped to a new value in the list. False after recording an error. */
bool empty_replace(const op_call *c, weft_node *n);

#endif
