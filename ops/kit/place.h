/* place.h - the caller's source line, for builders that make several nodes. node_new clears the line, so
 * such a builder notes it first and sets it again before each further node. */
#ifndef WEFT_OPS_KIT_PLACE_H
#define WEFT_OPS_KIT_PLACE_H

#include "graph/core/graph.h"

typedef struct place {
    const char *file;
    int line;
} place;

static inline place place_of(const weft_value *x) {
    const weft_model *m = x->node->graph->model;
    return (place){m->file, m->line};
}

/* x, with `p` set for the next node. */
static inline weft_value *placed(weft_value *x, place p) {
    return weft_at(x, p.file, p.line);
}

#endif
