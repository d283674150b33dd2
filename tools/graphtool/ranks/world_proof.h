/* world_proof.h - proves the plans of all ranks of a world, without compiling each of a large one whole. */
#ifndef WEFT_TOOLS_GRAPHTOOL_RANKS_WORLD_PROOF_H
#define WEFT_TOOLS_GRAPHTOOL_RANKS_WORLD_PROOF_H

#include "weft/weft.h"

/* Ranks whose plans are the same: `first` and `last` of them. */
typedef struct rank_class {
    uint64_t text; /* hash of verify_rank_text */
    int first, last;
} rank_class;

typedef struct world_proof {
    const weft_model *model;
    const weft_compile_options *compile; /* except for the rank */
    const weft_plan **outlines; /* [world]: plans up to the pass "states", of a few ranks at a time */
    weft_plan *whole;           /* rank 0's */
    int n, n_whole;             /* classes, and how many were proved whole */
    rank_class *classes;        /* [n], room for the world */
} world_proof;

/* Every rank's process groups and ranges are compared with those of the others (L13), and ranks are sorted
 * into classes; of each class, or of 256 where there are more, one whole plan is proved, and its collectives
 * are those of rank 0 (L12). In a world of up to 16 ranks each is a class. WEFT_INTERNAL: a rule is
 * broken. */
weft_status world_prove(world_proof *proof, weft_error *error);
void world_proof_free(world_proof *proof);

#endif
