/* work_rows.h - the work of a program by op and kernel (ops/work.h), with the seconds that a GPU is
 * expected to take for it (ops/roof.h), or those that were measured. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_ROWS_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_ROWS_H

#include "ops/roof.h"
#include "runtime/plan/program.h"

#include <jansson.h>

/* The work of several nodes. */
typedef struct work_sum {
    int nodes, launches;
    double read, written, flops;
    double seconds;       /* measured, or estimated; 0: neither */
    double least;         /* what the GPU's peaks allow (roof_least); 0: the GPU is not known */
    double bound[BOUNDS]; /* estimated seconds by what bounds their nodes */
} work_sum;

/* Of an op and a kernel, or of a scope with all in it. */
typedef struct work_row {
    const weft_op *op;
    const char *kernel;
    const char *scope; /* its path, "" for nodes without one */
    int depth;         /* its parts */
    work_sum sum;
} work_row;

/* The rows of one program: the longest first, without times those of the most bytes. */
typedef struct work_rows {
    const program *p;
    int n, times; /* times: runs of the program in a step of all micro-batches */
    work_row *v;
    work_sum all;
} work_rows;

/* A node's part of the timed runs: its seconds in a mean run, and the share of the runs that executed it. */
typedef struct node_time {
    double seconds, share;
} node_time;

/* Counts the nodes of a program that launch something in a run, collectives not. gpu NULL: without bounds.
 * `measured`: by the node's order; NULL: a run of a steady training (runtime/plan/refresh.h), with seconds
 * that are estimated for `gpu`. */
work_rows work_rows_of(const program *p, const roof *gpu, const node_time *measured);
/* The same by scope, a scope before those in it, down to so many parts of a path. */
work_rows work_scopes_of(const program *p, const roof *gpu, const node_time *measured, int depth);
void work_sum_add(work_sum *to, const work_sum *from, int times);
/* What most of the estimated seconds are bound by. */
roof_bound work_bound(const work_sum *s);

/* Adds keys to an object of a sum, which is a part of so many seconds. */
typedef void work_more(json_t *to, const work_sum *s, double all_seconds);
/* Launches, bytes and operations, under the keys of docs/graphtool.md, and those of `more` (or NULL): of a
 * sum; of rows, with "ops" for each. */
json_t *work_sum_json(const work_sum *s, work_more *more);
json_t *work_rows_json(const work_rows *rows, work_more *more);
/* An array with "scope" and "depth" for each. */
json_t *work_scopes_json(const work_rows *rows, work_more *more);

#endif
