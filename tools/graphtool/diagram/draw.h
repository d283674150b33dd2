/* draw.h - a scene, or a plan, as a Graphviz graph. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H

#include "tools/graphtool/diagram/draw_lanes.h"
#include "tools/graphtool/diagram/scene.h"
#include "weft/plan.h"

#include <graphviz/cgraph.h>

/* The caller closes it with agclose; NULL when memory is out. */
Agraph_t *draw_scene(const scene *s, const weft_model *m, const char *title);
/* Subgraphs with their buckets, and of each graph that trains its two lanes. The same. */
Agraph_t *draw_plan(const weft_plan *plan, const lane_how *how);

#endif
