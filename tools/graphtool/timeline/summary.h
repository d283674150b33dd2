/* summary.h - a plan as text: subgraphs with their buckets, each graph's collectives and streams, memory. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H

#include "graph/core/mem.h"
#include "runtime/plan/program.h"

/* The caller frees it; NULL: out of memory. */
char *plan_summary(const weft_plan *plan);
/* Adds its first line: model, batch, and the options that differ from the defaults. */
void plan_head(text *t, const weft_plan *plan);

#endif
