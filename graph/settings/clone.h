/* clone.h - copies of what a model says. */
#ifndef WEFT_GRAPH_SETTINGS_CLONE_H
#define WEFT_GRAPH_SETTINGS_CLONE_H

#include "graph/core/graph.h"

/* A model with the same variables, subgraph options, precision settings and flows, but no graphs, for a
 * rank of a world. The caller frees it. NULL when memory is out. */
weft_model *model_clone_variables(const weft_model *from, int64_t batch, int world, int rank);

#endif
