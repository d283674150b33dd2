/* summary.h - a plan in words: subgraphs with their buckets, each graph's collectives and streams, memory. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_SUMMARY_H

#include "runtime/plan/program.h"

/* free() it; NULL when memory is out. */
char *plan_summary(const weft_plan *plan);

#endif
