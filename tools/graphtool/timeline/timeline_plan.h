/* timeline_plan.h - what the plan knows of the nodes of a timeline: where each is in its scopes and its part
 * of a step, and how many bytes of the arena hold something while it runs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_PLAN_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_PLAN_H

#include "runtime/plan/program.h"
#include "weft/session.h"

typedef struct timeline_program {
    const weft_graph *graph;
    const weft_node **node_of; /* by the id of its first result; NULL: none */
    uint64_t *live;            /* bytes, by the node's place in the schedule */
} timeline_program;

/* The programs of a plan, until the command ends. */
timeline_program *timeline_programs(const weft_plan *plan);

/* The node of an event; *of: its program, which is tried first. NULL: a wait or a start. */
const weft_node *timeline_node(const weft_plan *plan, const timeline_program *all, const weft_node_event *e,
                               const timeline_program **of);

#endif
