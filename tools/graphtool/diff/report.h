/* report.h - a difference for people, and for programs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_REPORT_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_REPORT_H

#include "tools/graphtool/diff/sums.h"

#include <jansson.h>

/* Two models or plans, and what differs. */
typedef struct diff_report {
    const char *names[2]; /* of files, with options */
    const weft_plan *plans[2];
    const difference *changes;     /* what is listed */
    const difference *as_they_run; /* for the memory: of the plans */
    bool all;                      /* every change and every row */
    bool has_graphs;               /* changes of graphs are listed */
} diff_report;

bool diff_is_same(const diff_report *r);
void diff_text(text *t, const diff_report *r, int columns);
json_t *diff_json(const diff_report *r);
/* Parts of it: [{name, unit, first, second}], and by graph [{graph, first, second, alive}]. */
json_t *diff_sums_json(const sum_list *l);
json_t *diff_peaks_json(const difference *d);

#endif
