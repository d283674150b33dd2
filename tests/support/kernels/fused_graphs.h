/* fused_graphs.h - `fused` nodes to check kernels with, made by the fusion pass from random pointwise
 * graphs. */
#ifndef WEFT_TEST_FUSED_GRAPHS_H
#define WEFT_TEST_FUSED_GRAPHS_H

#include "support/kernels/samples.h"

/* Checks all fused nodes of one random graph; returns how many there were. */
int fused_graph_check(uint64_t seed, int ndim, const int64_t *shape, node_check *check);
/* Checks one whose result may be written over an operand that later members of the body still read. */
void fused_in_place_check(node_check *check);

#endif
