/* work.h - how much work a node is, from shapes and layouts alone: the operations and bytes that plans
 * report, and the number of threads that the CPU uses for it. */
#ifndef WEFT_OPS_WORK_H
#define WEFT_OPS_WORK_H

#include "graph/core/graph.h"

/* What one run of a node asks of its device. */
typedef struct node_work {
    int launches;         /* kernels, library calls and copies; 0: it runs nothing */
    double read, written; /* bytes of the device's memory, as if no launch found another's data in a cache */
    double apart;         /* of these bytes, those of launches beside the one that has the operations */
    double flops;         /* node_flops */
} node_work;

/* The work of a node whose kernel and layouts are chosen. Each launch reads each of its operands once and
 * writes each of its results once; the kernel's `work` (graph/core/kernel.h) knows how many there are.
 * Collectives and nodes that run nothing have none. */
node_work node_work_of(const weft_node *n);

/* Bytes of a value that a kernel reads or writes: elements along a broadcast axis (stride 0) count once. */
double value_bytes(const weft_value *v);
/* Whether the memory pass put `v` into the memory of `into`, where a copy from one to the other is not
 * needed. */
bool value_is_within(const weft_value *v, const weft_value *into);

/* Floating-point operations of a product, convolution or attention node (2 for each multiply-add); 0 for all
 * others, as is usual when utilization is reported. Attention counts all scores, also those that a causal
 * mask removes, and its backward the five products of the formula, not those that a kernel repeats. */
double node_flops(const weft_node *n);

/* 1 where a second thread costs more than it gains, else `threads`. Depends on shapes, not on element types:
 * a node between casts, and the weight packed for one, get the same answer as their f32 twins. */
int node_threads(const weft_node *n, int threads);

#endif
