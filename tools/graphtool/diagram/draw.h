/* draw.h - draws a diagram, or a plan, as a Graphviz graph. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_H

#include "tools/graphtool/diagram/draw_streams.h"
#include "tools/graphtool/diagram/diagram.h"
#include "weft/plan.h"

#include <graphviz/cgraph.h>

/* The caller closes the graph with agclose. */
Agraph_t *draw_diagram(const diagram *s, const weft_model *m, const char *title);
/* The subgraphs of a plan with their buckets, and the two streams of each graph that trains. Likewise. */
Agraph_t *draw_plan(const weft_plan *plan, const stream_how *how);

#endif
