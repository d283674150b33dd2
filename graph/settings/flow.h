/* flow.h - the flows of a model: lists of steps that weft_model_set_flow reads from text. */
#ifndef WEFT_GRAPH_SETTINGS_FLOW_H
#define WEFT_GRAPH_SETTINGS_FLOW_H

#include "graph/core/graph.h"
#include "weft/flow.h"

enum {
    FLOW_MAX_STEPS = WEFT_MAX_FLOW_STEPS,
    FLOW_MAX_REPEAT = 1 << 20,
    FLOW_MAX_TEXT_BYTES = 96 << 10, /* more than the longest flow that can be written */
};
#define FLOW_LAST    999999999999999999 /* the last iteration that a range can name, of 18 digits */
#define FLOW_DEFAULT "train"

/* A model lists its flows in the order of the first call on each name. */
typedef struct flow_entry {
    struct flow_entry *next;
    const char *name;
    int n;
    /* Of a step that does not say accumulate it is 0. */
    const weft_flow_step *steps;
    const char *file; /* source line of the call that set it; NULL: unknown */
    int line;
} flow_entry;

/* Sets a flow from its text, or from n steps whose texts are copied; replaces an earlier one of the name.
 * False after recording the model's error. */
bool flow_parse(weft_model *m, const char *name, const char *steps);
bool flow_set(weft_model *m, const char *name, int n, const weft_flow_step *steps);
/* NULL: there is none. */
const flow_entry *flow_find(const weft_model *m, const char *name);
/* Whether a step of it runs the graph of this name. */
bool flow_entry_has(const flow_entry *e, const char *graph);
/* Writes "d_step*5 g_step", which flow_parse reads; and "flow train d_step*5 g_step\n". */
void flow_steps_write(text *t, int n, const weft_flow_step *steps);
void flow_write(text *t, const char *name, int n, const weft_flow_step *steps);

/* Whether the graph takes batches or trains. Another one (averages of weights, say) runs once a step,
 * whatever the number of micro-batches. */
bool graph_accumulates(const weft_graph *g);
/* Whether an input node is part of a batch: it has axes. The others are numbers, which are the same for all
 * micro-batches and ranks (weft_trainer_options.set). */
bool input_is_batch(const weft_node *n);
bool graph_takes_batches(const weft_graph *g); /* it has such inputs */
/* Whether an iteration has the step. */
bool flow_runs_in(const weft_flow_step *s, int64_t iteration);
/* How step i takes batches in `iteration`, in which it runs: NEXT or SAME. Steps of graphs without inputs are
 * SAME, which a plan's flow says of them. */
weft_flow_batch flow_batch(const weft_flow_step *steps, int i, int64_t iteration);
/* The first iteration at or after `iteration` in which other steps run; INT64_MAX: none. */
int64_t flow_change(int n, const weft_flow_step *steps, int64_t iteration);

#endif
