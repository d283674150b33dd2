/* draw_lanes.h - one graph's two lanes side by side, as part of the picture of a plan. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LANES_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LANES_H

#include "tools/graphtool/timeline/lanes.h"
#include "tools/graphtool/diagram/paint.h"

/* A cluster of `g` with the lanes of list->v[number]; rows in the middle are one when there are more than max_rows.
 * Returns the node on top of the compute lane. */
Agnode_t *draw_lanes(Agraph_t *g, const lane_list *list, int number, int max_rows);

#endif
