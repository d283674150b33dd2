/* work.h - how much there is to do in a node, from shapes alone: what plans quote, and on how many threads the CPU runs it. */
#ifndef WEFT_OPS_WORK_H
#define WEFT_OPS_WORK_H

#include "graph/core/graph.h"

/* Multiplications and additions of a matrix node (2 a multiply-add); 0 for all others, as is usual when utilization is
 * quoted. */
double node_flops(const weft_node *n);

/* 1 where a second thread would cost more than it does, else `threads`. It depends on shapes alone, not on how low their
 * elements are: a node that is cast around, and the weight that is packed for one, get the same answer. */
int node_threads(const weft_node *n, int threads);

#endif
