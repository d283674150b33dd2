/* model_rules.h - options that would have no effect on a model: each ends the command, and says why. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_MODEL_RULES_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_MODEL_RULES_H

#include "tools/graphtool/options/options.h"

#include "weft/weft.h"

void rules_model(const options *o, const weft_model *m); /* after --ddp has been applied to it */
void rules_graph(const options *o, const weft_graph *g); /* the graph that eval or predict runs */

#endif
