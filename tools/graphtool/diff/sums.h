/* sums.h - two plans in numbers: what they hold, compute, run and send, and what is alive at their peaks. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_SUMS_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_SUMS_H

#include "tools/graphtool/diff/alive.h"
#include "tools/graphtool/diff/diff.h"

typedef enum sum_unit { SUM_COUNT, SUM_BYTES, SUM_FLOP } sum_unit;
extern const char *const sum_units[];

/* A number of each of the two. */
typedef struct sum_row {
    const char *name; /* "parameters", "nodes of d_step" */
    sum_unit unit;
    double v[2];
} sum_row;

typedef struct sum_list {
    int n;
    size_t room;
    sum_row *v;
} sum_list;

/* Of parameters, and of each graph. */
const sum_list *sums_of(const weft_plan *const plans[2]);
/* By kind, as `plan` lists them. */
const sum_list *sums_of_memory(const weft_plan *const plans[2]);
/* Nodes that run, by op and kernel. */
const sum_list *sums_of_kernels(const weft_plan *const plans[2]);

/* What is alive at the peak of a graph, by scope and op: bytes. A number that is a whole part of a path is
 * "*". */
typedef struct peak_row {
    const char *scope, *op; /* op "scratch of conv2d" for a kernel's */
    uint64_t bytes[2];
    int buffers[2];
} peak_row;

typedef struct peak {
    const diff_graph *g;
    alive_list alive[2]; /* p is NULL where the graph is not there */
    int n;
    size_t room;
    peak_row *v; /* those that differ most first */
} peak;

/* The graph must be of plans. */
const peak *peak_of(const diff_graph *g);

#endif
