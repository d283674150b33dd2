/* rules.h - rejects options that would have no effect, as soon as enough is known: from the other options,
 * from the launcher, from the model (model/model_rules.h). */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_RULES_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_RULES_H

#include "tools/graphtool/options/options.h"

/* What an option may need. */
typedef enum option_need {
    NEEDS_OTHER,     /* another option, with the word after '=' if there is one */
    NEEDS_NO_OTHER,  /* the absence of another option */
    NEEDS_CUDA,      /* a plan for a GPU */
    NEEDS_COMPILED,  /* dot compiles, and does not draw the graph as it is written */
    NEEDS_RANKS,     /* a world of more than one rank, or a launcher's of any size */
    NEEDS_SHARDS,    /* ZeRO, by --zero, --ddp or the model's own weft_model_set_ddp */
    NEEDS_SHARING,   /* a subgraph without a zero of its own, by --ddp or weft_model_set_ddp */
    NEEDS_TRAINING,  /* a graph that trains, among those that are compiled */
    NEEDS_TRAINABLE, /* a graph that trains, in the model */
    NEEDS_UNSAID,    /* a graph of the flow to run whose number of micro-batches the flow does not say */
    NEEDS_DRAWS,     /* random numbers, of the graph or as initial values that no file replaces */
    NEEDS_PARAMETERS
} option_need;

/* Ends the command where an option has no effect, as its need is not met, and says why. */
void rules_check(const options *o, option_need need, bool is_met);
/* The same of all needs that the command line alone decides. */
void rules_together(const options *o);

/* Of a command that ranks run together, where no launcher has started it: names the options that act between
 * ranks, so that one command line is right in any number of them. */
void rules_alone(const options *o);

/* Whether the other options leave this one with an effect, as far as the command line tells. */
bool rules_allow(const options *o, const char *option);

#endif
