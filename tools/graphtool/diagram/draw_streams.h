/* draw_streams.h - one graph's two streams side by side, as part of the picture of a plan. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_STREAMS_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_STREAMS_H

#include "tools/graphtool/timeline/streams.h"
#include "tools/graphtool/diagram/paint.h"

/* How much of a plan is drawn. */
typedef struct stream_how {
    /* greatest number of rows of a stream or a table; those in the middle are left out */
    int max_rows;
    bool collapse;                    /* rows that repeat are drawn once */
    bool stack_tables, stack_streams; /* one below the other instead of side by side */
} stream_how;

/* The first and the last node of a compute stream. */
typedef struct stream_ends {
    Agnode_t *top, *bottom;
} stream_ends;

/* Adds a cluster to `g` with the streams of list->v[number]. */
stream_ends draw_streams(Agraph_t *g, const stream_list *list, int number, const stream_how *how);

#endif
