/* evaluators.h - what --metric asks for, as evaluators (weft/evaluator.h). */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_EVALUATORS_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_EVALUATORS_H

#include "tools/graphtool/model/tools.h"

/* One --metric. */
typedef struct metric {
    int kind; /* in the table of evaluators.c */
    const char *scores, *label, *losses, *output, *target, *name;
    int top;
    double range;
} metric;

typedef struct evaluators {
    int n;
    metric metrics[OPTIONS_MAX_DATA];
    weft_evaluator list[OPTIONS_MAX_DATA];
} evaluators;

/* Reads all --metric. */
evaluators *evaluators_read(const options *o);
/* Makes them, for weft_trainer_new(), which frees them. */
void evaluators_make(evaluators *e, weft_trainer_options *into);

#endif
