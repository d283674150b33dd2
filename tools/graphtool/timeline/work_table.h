/* work_table.h - what a step of a plan launches, reads and writes, by op (ops/work.h), and how long a GPU is
 * expected to take (ops/roof.h): `graphtool plan --bytes` and `--estimate`. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_WORK_TABLE_H

#include "ops/roof.h"
#include "runtime/plan/program.h"

#include <jansson.h>

/* The table as JSON, of programs that train, or all where none does; and as text. `estimate`: the name of a
 * GPU; NULL: counts without times. */
json_t *work_table_json(const weft_plan *plan, const char *estimate);
void work_table_text(text *t, const weft_plan *plan, const char *estimate);

#endif
