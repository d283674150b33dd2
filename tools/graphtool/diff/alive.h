/* alive.h - which buffers of a program's arena are needed in which steps, and in which one they take most. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_ALIVE_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_ALIVE_H

#include "runtime/plan/program.h"

/* A value with memory of its own, or the scratch of a node's kernel. */
typedef struct alive_buffer {
    const weft_value *value; /* NULL: scratch */
    const weft_node *node;   /* that makes the value, or whose scratch it is */
    uint64_t bytes;
    int first, last; /* steps, from its first write to its last read; outputs to the end of the run */
} alive_buffer;

typedef struct alive_list {
    const program *p;
    int n, steps;
    alive_buffer *v;
    int peak;            /* the first step with the most bytes; -1: no step needs any */
    uint64_t peak_bytes; /* the arena has these, and gaps between them */
} alive_list;

alive_list alive_of(const program *p);
/* The node that runs in the step of the peak; NULL: it is after the last one. */
const weft_node *alive_peak_node(const alive_list *l);

#endif
