/* paint.h - what all pictures share: attributes of cgraph objects, defaults, the colours of subgraphs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_PAINT_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_PAINT_H

#include "graph/core/graph.h"

#include <graphviz/cgraph.h>

/* Colours: a strong one for borders and titles, a pale one for the inside. */
typedef struct subgraph_look {
    const char *line, *fill;
} subgraph_look;
/* The colours of a scope, by the position of its subgraph among the model's, so they are the same in every
 * picture of the model. Grey: no parameter lies in its top-level scope. */
const subgraph_look *subgraph_look_of(const weft_model *m, const char *path);
/* The colours of a subgraph, by its index in the plan. Both agree. */
const subgraph_look *subgraph_look_at(int place);

/* An empty picture. The caller closes it by agclose. */
Agraph_t *paint_new(const char *name);
/* Sets attributes NAME=VALUE, with a blank between: "shape=box style=filled,rounded". */
void paint(void *object, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "4", or "4...15" from the least to the most. */
void range_text(text *t, int64_t low, int64_t high);
/* Sets an attribute to a text, which it empties. */
void paint_text(void *object, const char *name, text *t);
/* The same for a label in Graphviz's HTML. */
void paint_html(Agraph_t *g, void *object, text *t);
void paint_defaults(Agraph_t *g, const char *title);

/* The tooltips of SVG pictures: what a node shows where there is room. tip_value adds a line
 * "%12 f32[128,64], 32.0 KiB". */
void tip_value(text *t, const weft_value *v);
/* Op, scope, variable, each result with its bytes, and the selected kernel; `count`: the number of nodes that
 * this one represents. */
void tip_node(text *t, const weft_node *n, int count);

#endif
