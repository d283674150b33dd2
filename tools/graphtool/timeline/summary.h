/* summary.h - a plan as text: subgraphs with their buckets, each graph's collectives and streams, memory. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H

#include "graph/core/mem.h"
#include "runtime/plan/program.h"

/* For a terminal of `limit` columns: longer rows are folded or cut; 0: all lines are whole. */
void plan_summary(text *t, const weft_plan *plan, int limit);
/* Adds its first line without an end: model, batch, and the options that differ from the defaults. */
void plan_head(text *t, const weft_plan *plan);

/* What the memory of a plan is for, without the kinds that take none. */
enum { PLAN_MEMORY_ROWS = 12 };
typedef struct memory_row {
    const char *what; /* one that is a part of the kind above begins with blanks */
    uint64_t bytes;
} memory_row;
int plan_memory_rows(const weft_plan *plan, memory_row rows[PLAN_MEMORY_ROWS]);

#endif
