/* draw.h - a diagram, or a plan, as a Graphviz graph. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H

#include "tools/graphtool/diagram/draw_streams.h"
#include "tools/graphtool/diagram/diagram.h"
#include "weft/plan.h"

#include <graphviz/cgraph.h>

/* The caller closes it with agclose; NULL when memory is out. */
Agraph_t *draw_diagram(const diagram *s, const weft_model *m, const char *title);
/* Subgraphs with their buckets, and of each graph that trains its two streams. The same. */
Agraph_t *draw_plan(const weft_plan *plan, const stream_how *how);

#endif
