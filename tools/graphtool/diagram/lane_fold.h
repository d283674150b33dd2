/* lane_fold.h - rows of a compute lane that repeat: nine nodes and a bucket, nine nodes and a bucket, ...
 *
 *   step   rows that share a node of the picture: wait, update and the way back of one bucket; or one row
 *   round  as many steps as repeat; all rounds but the first are drawn by the first
 *
 * Invariant: every row is of one step, every step has one twin, in the first round of its run or itself.
 * Rounds are alike when their rows are of the same kinds; how many nodes a span has, and how large a bucket
 * is, may differ. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_LANE_FOLD_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_LANE_FOLD_H

#include "tools/graphtool/timeline/lanes.h"

typedef struct lane_step {
    int row, n_rows;
    int twin;        /* the step that is drawn for it */
    int run, rounds; /* 0 and 1: of no run */
    uint64_t kinds;  /* of its rows */
} lane_step;

typedef struct lane_fold {
    int n_steps;
    lane_step *steps;
    int *step_of; /* by row */
} lane_fold;

/* `fold`: look for repetitions; else every step is drawn. False: memory is out. lane_fold_free either way. */
bool lane_fold_make(lane_fold *f, const lanes *l, bool fold);
void lane_fold_free(lane_fold *f);
/* The last step that is drawn by `step`; itself when alone. */
int lane_fold_last(const lane_fold *f, int step);

#endif
