/* buckets.h - the subgraphs of a plan and their buckets, as the summary and the picture tell them. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_BUCKETS_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_BUCKETS_H

#include "runtime/plan/program.h"

typedef struct subgraph_view {
    const char *name; /* "generator" */
    int index;        /* in the plan */
    int n_parameters;
    int64_t numbers; /* in them */
    uint64_t bytes;
    const char *options; /* what is not the default: "zero=1 process_group=\"0-3\""; "" */
    bool is_sharded;
    int n_buckets;
    const weft_variable **buckets;
} subgraph_view;

typedef struct bucket_list {
    arena arena;
    const weft_plan *plan;
    int n;
    subgraph_view *v; /* those with buckets: without trained parameters there is nothing to say */
} bucket_list;

/* False when memory is out; bucket_list_free either way. */
bool bucket_list_make(bucket_list *l, const weft_plan *plan);
void bucket_list_free(bucket_list *l);

/* "fc/bias, fc/weight" when few, else the first and the last of them; without the subgraph's name in front. */
void bucket_members_text(text *t, const subgraph_view *s, const weft_variable *bucket);
/* Which rank updates which of its elements, with `gap` between ranks; when many do, how many, and this one's. Nothing when
 * every rank updates all. */
void bucket_owners_text(text *t, const weft_plan *plan, const weft_variable *bucket, const char *gap);
/* 12345 as "12 k" */
void number_text(text *t, double n);

#endif
