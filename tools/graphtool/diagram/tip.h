/* tip.h - the tooltips of SVG pictures: what a node shows where there is room. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_TIP_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_TIP_H

#include "graph/core/graph.h"

/* Adds a line "%12 f32[128,64], 32.0 KiB". */
void tip_value(text *t, const weft_value *v);
/* Op, scope, variable, each result with its bytes, and the selected kernel; `count`: the number of nodes that
 * this one represents. */
void tip_node(text *t, const weft_node *n, int count);

#endif
