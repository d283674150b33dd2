/* refresh.h - what runs in a step of a steady training: programs by micro-batch, and derived values (casts
 * and packed weights), which a session makes again only when their parameter has changed. */
#ifndef WEFT_RUNTIME_PLAN_REFRESH_H
#define WEFT_RUNTIME_PLAN_REFRESH_H

#include "runtime/plan/program.h"

/* How often the program runs in a step of all micro-batches, when every graph runs once, in the plan's order.
 */
int program_runs_in_step(const program *p);

/* Whether the program's run in such a step executes the node. False for a derived value whose parameter no
 * run has changed since this or another program made it; other nodes always run. */
bool program_runs_node(const program *p, const weft_node *n);

#endif
