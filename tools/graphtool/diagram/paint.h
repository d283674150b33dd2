/* paint.h - what all pictures share: attributes of cgraph objects, defaults, the colours of subgraphs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_PAINT_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_PAINT_H

#include "graph/core/graph.h"

#include <graphviz/cgraph.h>

/* Strong for borders and titles, pale inside. */
typedef struct subgraph_look {
    const char *line, *fill;
} subgraph_look;
/* By a path's top-level scope among the model's, so that every picture of a model paints it alike. */
const subgraph_look *subgraph_look_of(const weft_model *m, const char *path);
/* By a subgraph's place in a plan; with a subgraph for each top-level scope that is the same. */
const subgraph_look *subgraph_look_at(int place);

void paint_set(void *object, const char *name, const char *value);
/* Takes and frees the text. */
void paint_text(void *object, const char *name, text *t);
/* The same for a label in Graphviz's HTML. */
void paint_html(Agraph_t *g, void *object, text *t);
void paint_defaults(Agraph_t *g, const char *title);

#endif
