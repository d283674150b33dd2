/* rules.h - rejects options that would have no effect, as soon as enough is known: from the other options,
 * from the launcher, from the model. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_RULES_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_RULES_H

#include "tools/graphtool/common/options.h"

#include "weft/weft.h"

/* Each ends the command where an option has no effect, and says why. */
void rules_together(const options *o);                   /* the command line alone */
void rules_model(const options *o, const weft_model *m); /* after --ddp has been applied to it */
void rules_graph(const options *o, const weft_graph *g); /* the graph that eval or predict runs */

/* Of a command that ranks run together, where no launcher has started it: names the options that act between
 * ranks, so that one command line is right in any number of them. */
void rules_alone(const options *o);

/* Whether the other options leave this one with an effect, as far as the command line tells. */
bool rules_allow(const options *o, const char *option);

#endif
