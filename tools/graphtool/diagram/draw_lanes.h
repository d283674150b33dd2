/* draw_lanes.h - one graph's two lanes side by side, as part of the picture of a plan. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LANES_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LANES_H

#include "tools/graphtool/timeline/lanes.h"
#include "tools/graphtool/diagram/paint.h"

/* How much of a plan is drawn. */
typedef struct lane_how {
    int max_rows;                   /* of a lane and of a table; those in the middle are left out */
    bool fold;                      /* rows that repeat are drawn once */
    bool stack_tables, stack_lanes; /* one below the other, not side by side */
} lane_how;

/* The ends of a compute lane; NULL: memory is out. */
typedef struct lane_ends {
    Agnode_t *top, *bottom;
} lane_ends;

/* A cluster of `g` with the lanes of list->v[number]. */
lane_ends draw_lanes(Agraph_t *g, const lane_list *list, int number, const lane_how *how);

#endif
