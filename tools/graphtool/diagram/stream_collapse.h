/* stream_collapse.h - rows of a compute stream that repeat: nine nodes and a bucket, nine nodes and a bucket, ...
 *
 *   step   rows that share a node of the picture: wait, update and the way back of one bucket; or one row
 *   round  as many steps as repeat; all rounds but the first are drawn by the first
 *
 * Invariant: every row is of one step, every step has one representative, in the first round of its run or itself.
 * Rounds are alike when their rows are of the same kinds; how many nodes a span has, and how large a bucket
 * is, may differ. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_STREAM_COLLAPSE_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_STREAM_COLLAPSE_H

#include "tools/graphtool/timeline/streams.h"

typedef struct stream_step {
    int row, n_rows;
    int representative; /* the step that is drawn for it */
    int run, rounds;    /* 0 and 1: of no run */
    uint64_t kinds;     /* of its rows */
} stream_step;

typedef struct stream_collapse {
    int n_steps;
    stream_step *steps;
    int *step_of; /* by row */
} stream_collapse;

/* `collapse`: look for repetitions; else every step is drawn. False: memory is out. stream_collapse_free either way. */
bool stream_collapse_make(stream_collapse *f, const streams *l, bool collapse);
void stream_collapse_free(stream_collapse *f);
/* The last step that is drawn by `step`; itself when alone. */
int stream_collapse_last(const stream_collapse *f, int step);

#endif
