/* work_table.h - what a step of a plan launches, reads and writes, by op (ops/work.h), and how long a GPU is
 * expected to take (ops/roof.h): `graphtool plan --bytes` and `--estimate`. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_TABLE_H

#include "ops/roof.h"
#include "runtime/plan/program.h"

#include <jansson.h>

/* The table as text; `gpu` NULL: counts without times. Programs that train, or all where none does. The
 * caller frees it; NULL: out of memory. */
char *work_table_text(const weft_plan *plan, const roof *gpu);
/* The same as JSON. */
json_t *work_table_json(const weft_plan *plan, const roof *gpu);

#endif
