/* tip.h - what a node says of itself where there is room: the tooltips of SVG. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_TIP_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_TIP_H

#include "graph/core/graph.h"

/* "%12 f32[128,64], 32.0 KiB" on a line of its own */
void tip_value(text *t, const weft_value *v);
/* Op, scope, variable, each result with its bytes, and the kernel that was chosen; `count`: how many it
 * stands for. */
void tip_node(text *t, const weft_node *n, int count);

#endif
