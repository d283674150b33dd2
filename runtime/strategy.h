/* strategy.h - the strategy by which a plan is compiled: chosen by its text, asked, and merged into the
 * options.
 */
#ifndef WEFT_RUNTIME_STRATEGY_H
#define WEFT_RUNTIME_STRATEGY_H

#include "runtime/plan/program.h"

/* Strategies that Weft brings (strategies.c), written as a user's; the one without a name is after the
 * last. */
extern const weft_strategy strategies[];

/* Fills plan->strategy, and sets plan->options, the subgraphs' options and the cuts of plan->model as the
 * strategy says. `o`: the options as the caller gave them. False after recording the error in the plan's
 * model. */
bool strategy_choose(weft_plan *plan, const weft_compile_options *o);

#endif
