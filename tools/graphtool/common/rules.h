/* rules.h - options that would do nothing are refused, as soon as what they need is known: by the other options, by the
 * launcher, by the model. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_RULES_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_RULES_H

#include "tools/graphtool/common/options.h"

#include "weft/weft.h"

/* Each returns -1 to go on, else the exit status after telling which option has no effect and why. */
int rules_together(const options *o);                   /* the command line alone */
int rules_alone(const options *o);                      /* no launcher has started it */
int rules_model(const options *o, const weft_model *m); /* with what --ddp says in it */
int rules_graph(const options *o, const weft_graph *g); /* the one that eval and predict run */

#endif
