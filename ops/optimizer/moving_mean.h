/* moving_mean.h - a question about weft_moving_mean(). */
#ifndef WEFT_OPS_OPTIMIZER_MOVING_MEAN_H
#define WEFT_OPS_OPTIMIZER_MOVING_MEAN_H

#include "graph/core/graph.h"

/* Whether a call in the graph moves it. */
bool graph_moves_mean(const weft_graph *g, const weft_variable *v);

#endif
