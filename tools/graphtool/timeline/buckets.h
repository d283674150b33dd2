/* buckets.h - the subgraphs of a plan and their buckets, as the summary and the picture show them. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_BUCKETS_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_BUCKETS_H

#include "runtime/plan/program.h"

typedef struct subgraph_view {
    const char *name; /* "generator" */
    int index;        /* index in the plan */
    int n_parameters;
    int64_t numbers; /* elements of the parameters */
    uint64_t bytes;
    /* options that differ from the defaults: "zero=1 process_group=\"0-3\""; "" if none do */
    const char *options;
    bool is_sharded;
    int n_buckets;
    const weft_variable **buckets;
} subgraph_view;

typedef struct bucket_list {
    int n;
    subgraph_view *v; /* the subgraphs with buckets; those without have no trained parameters */
} bucket_list;

bucket_list bucket_list_of(const weft_plan *plan);

/* Adds a row of the table of buckets, with a tab between cells: path, size, number of parameters, the first
 * and the last of them (all when few), and which rank updates which elements, with `gap` between ranks: with
 * many ranks only their number and this rank's range, nothing if every rank updates all. */
void bucket_row(text *t, const weft_plan *plan, const subgraph_view *s, int i, const char *gap);
/* 12345 as "12 k" */
void number_text(text *t, double n);

#endif
