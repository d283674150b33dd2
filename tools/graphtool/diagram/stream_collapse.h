/* stream_collapse.h - rows of a compute stream that repeat: nine nodes and a bucket, nine nodes and a bucket,
 * ...
 *
 *   step   rows that share a node of the picture: wait, update and way back of one bucket; or one row
 *   round  the steps that repeat together; the first round of a run represents all its rounds
 *
 * Invariant: every row belongs to one step, and every step has one representative, in the first round of its
 * run or itself. Rounds match when their rows are of the same kinds; the number of nodes of a span and the
 * size of a bucket may differ. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_STREAM_COLLAPSE_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_STREAM_COLLAPSE_H

#include "tools/graphtool/timeline/streams.h"

typedef struct stream_step {
    int row, n_rows; /* its first row, and how many */
    /* the step that is drawn for it; the same step of the next round, NULL in the last */
    const struct stream_step *representative, *next;
    int run, rounds; /* number of its run and the run's rounds; 0 and 1: no run */
    uint64_t kinds;  /* hash of the kinds of its rows */
} stream_step;

typedef struct stream_collapse {
    int n_steps;
    stream_step *steps;
    const stream_step **step_of; /* by row */
} stream_collapse;

/* Cuts the rows into steps and, if `collapse`, looks for repetitions. */
stream_collapse stream_collapse_of(const streams *l, bool collapse);

#endif
