/* draw.h - a scene as a Graphviz graph. */
#ifndef WEFT_TOOLS_DRAW_H
#define WEFT_TOOLS_DRAW_H

#include "tools/scene.h"

#include <graphviz/cgraph.h>

/* The caller closes it with agclose; NULL when memory is out. */
Agraph_t *draw_scene(const scene *s, const weft_model *m, const char *title);

#endif
