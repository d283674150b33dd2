/* passes.h - the passes that compile.c lists, and what one pass asks of another. All return false (NULL)
 * after recording the error in the plan's model; without an error, memory is out, which compile.c records.
 * Arrays that only one pass reads are of the model's scratch (scratch_array), which compile.c frees. */
#ifndef WEFT_RUNTIME_PASSES_PASSES_H
#define WEFT_RUNTIME_PASSES_PASSES_H

#include "runtime/plan/program.h"

/* ---- passes over the whole plan: what its programs share, in the order of compiling ---- */
/* flow.c: fills plan->flow. Afterwards: whether a step of it runs the graph, and how many micro-batches the
 * graph has in a step, from 1: by the flow, else by the options. */
bool flow_choose(weft_plan *plan);
bool flow_has(const weft_plan *plan, const char *graph);
int accumulate_of(const weft_plan *plan, const char *graph);
/* flow_states.c, for flow_choose: what passes from graph to graph by state survives accumulation. */
bool flow_check_states(weft_plan *plan);
/* argument_order.c: notes nodes whose operands C has built in the wrong order. */
bool argument_order_note(weft_plan *plan);
/* rank_states.c: notes state for which w ranks train to other bits than one. */
bool rank_states_note(weft_plan *plan);
/* subgraphs.c: fills plan->subgraphs. */
bool subgraphs_find(weft_plan *plan);
/* trainings.c: fills plan->trainings and plan->unused. */
bool trainings_find(weft_plan *plan);
/* buckets.c: lays parameters out in buckets (model->variables). */
bool buckets_cut(weft_plan *plan);
/* distribute/sums.c: records how a strategy sums the buckets (s->sum), and makes the state of it. */
bool own_sums_build(weft_plan *plan);
/* optimizer/states.c: makes the variables that updates need: optimizer state for each bucket or shard, step,
 * learning rate, accumulated gradients. */
bool optimizer_variables(weft_plan *plan);
/* counters.c: makes a step counter in the store for each graph that draws random numbers. */
bool counters_make(weft_plan *plan);
/* programs.c: fills plan->programs. */
bool programs_make(weft_plan *plan);

/* ---- passes on one graph, in the order of compiling ---- */
/* autodiff.c: expands `gradients` nodes and the gradients of `minimize` nodes. `seed` is d loss / d loss
 * of the latter: 1, or 1/k when k micro-batches make a step; times the plan's loss scale of f16, where there
 * is a plan and a scale. */
bool pass_autodiff(weft_graph *g, double seed, const weft_plan *plan);
/* precision.c: inserts casts and infers result types again. `name` is the graph's name in the user's model,
 * which entries may begin with. */
bool pass_precision(weft_graph *g, const char *name, weft_dtype otherwise);
/* Whether a node casts a parameter, or a view of one. Such a cast is made once per update, not once per
 * run. */
bool casts_parameter(const weft_node *n);
bool pass_simplify(weft_graph *g); /* simplify.c: constants, identities, common subexpressions, dead nodes */
/* Removes nodes without effect whose results nobody reads; sets value->uses. */
void graph_remove_dead(weft_graph *g);
/* clean.c: sets node->after so that readers and writers of a variable keep the order in which they were
 * built. A reader of the old value that also depends on the write gets a copy made before the write. Sorts
 * the list where needed. */
bool graph_order_edges(weft_graph *g);
bool pass_fuse(weft_graph *g, weft_device device); /* fuse.c: pointwise chains become `fused` nodes */

/* ---- optimizer.c, with reduction.c ---- */
bool pass_optimizer(program *p);

/* ---- the other passes of this folder ---- */
bool pass_epilogue(program *p);
bool pass_uploads(program *p);
bool pass_layout(program *p);
bool pass_order(program *p);
/* low_peak.c, for the schedule of one rank: returns `plain` or a greedy order of the same nodes, whichever
 * needs less of the arena. list[i]->order is i. The result is the caller's array `plain` or the graph's
 * arena's. */
weft_node **order_low_peak(weft_graph *g, weft_node **list, weft_node **plain, int count);
/* collective_order.c, for the schedule: moves some of ZeRO's gathers early and some sums late. */
bool collective_order(program *p);
/* deferred.c, once all programs are scheduled: decides which programs have a deferred part, and sets
 * plan->in_flight_bytes. */
bool deferred_find(weft_plan *plan);
/* memory.c: collects the program's buffers, and places those that its deferred part needs. pass_memory
 * places the others. */
bool memory_place_in_flight(program *p);
bool pass_memory(program *p);
bool pass_launches(program *p);

#endif
