/* passes.h - the passes that compile.c lists, and what they ask each other. */
#ifndef WEFT_RUNTIME_PASSES_PASSES_H
#define WEFT_RUNTIME_PASSES_PASSES_H

#include "runtime/plan/program.h"

/* ---- what all programs of a plan share, in the order in which compiling makes it ---- */
/* subgraphs.c: fills plan->subgraphs. */
bool subgraphs_find(weft_plan *plan);
/* trainings.c: fills plan->trainings and plan->unused. */
bool trainings_find(weft_plan *plan);
/* buckets.c: lays parameters out in buckets (model->variables). */
bool buckets_cut(weft_plan *plan);
/* optimizer/state.c: variables that updates need: state per bucket or shard, step, lr, accumulated gradients. */
bool optimizer_variables(weft_plan *plan);
/* programs.c: a step counter in the store for each graph that draws random numbers; fills plan->programs. */
bool counters_make(weft_plan *plan);
bool programs_make(weft_plan *plan);

/* ---- optimizer.c, reduction.c ---- */
bool pass_optimizer(program *p);

/* ---- the other passes of this folder ---- */
bool pass_epilogue(program *p);
bool pass_uploads(program *p);
bool pass_layout(program *p);
bool pass_schedule(program *p);
/* low_peak.c: for the schedule of one rank. list[i]->order is i; the better of `plain`, the same nodes in another order, and
 * a greedy order, in the arena's memory. NULL after an error. */
weft_node **order_low_peak(weft_graph *g, weft_node **list, weft_node **plain, int count);
/* collective_order.c: for the schedule; begins some of ZeRO's gathers early, and some sums late. */
bool collective_order(program *p);
/* deferred.c: with all programs scheduled, whose deferred parts outlast their runs; sets plan->in_flight_bytes. */
bool deferred_find(weft_plan *plan);
/* memory_plan.c: collects a program's buffers and places those that live into its deferred part. */
bool memory_place_in_flight(program *p);
bool pass_memory(program *p);
bool pass_launches(program *p);

#endif
