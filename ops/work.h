/* work.h - how much work a node is, from shapes alone: the operations that plans report, and the number of
 * threads that the CPU uses for it. */
#ifndef WEFT_OPS_WORK_H
#define WEFT_OPS_WORK_H

#include "graph/core/graph.h"

/* Floating-point operations of a product, convolution or attention node (2 for each multiply-add); 0 for all
 * others, as is usual when utilization is reported. */
double node_flops(const weft_node *n);

/* 1 where a second thread costs more than it gains, else `threads`. Depends on shapes, not on element types:
 * a node between casts, and the weight packed for one, get the same answer as their f32 twins. */
int node_threads(const weft_node *n, int threads);

#endif
