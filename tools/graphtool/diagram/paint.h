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

void paint_set(void *object, const char *name, const char *value);
/* Sets an attribute to a text, and frees the text. */
void paint_text(void *object, const char *name, text *t);
/* The same for a label in Graphviz's HTML. */
void paint_html(Agraph_t *g, void *object, text *t);
void paint_defaults(Agraph_t *g, const char *title);

#endif
