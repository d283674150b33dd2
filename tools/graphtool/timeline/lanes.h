/* lanes.h - what a person asks of a plan, gathered once for its summary and its picture: each program's two lanes.
 *
 *   row   of the compute lane: an event (a bucket is ready, a wait, an update ...) or the span of nodes between two
 *   move  of the communication lane: a collective, with what makes it ready and who waits for it
 *
 * Invariants: rows cover every node that runs, once, in order; moves stand in the order of the lane. What no node waits for
 * while its run lasts is carried: the way back of what ZeRO shares out, and what the program's tail waits for. Every lane
 * says where it would first be read. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_LANES_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_LANES_H

#include "runtime/plan/program.h"

typedef enum row_kind {
    ROW_SPAN,   /* nothing but nodes */
    ROW_READY,  /* a bucket is complete, and no collective takes it (one rank) */
    ROW_START,  /* starts a move */
    ROW_WAIT,   /* waits for a move */
    ROW_UPDATE, /* of a bucket's parameters */
    ROW_READ,   /* the first node that reads what is carried, by a move or a tail */
    ROW_END,    /* the run is over; the rows behind it are its tail */
} row_kind;

typedef struct lane_row {
    row_kind kind;
    const weft_node *node;       /* of events; of spans the first */
    const weft_node *last;       /* of spans */
    int forward, backward, rest; /* how many nodes */
    const weft_variable *bucket; /* NULL: of none */
    int move;                    /* in this lane's moves: started or awaited; else -1 */
} lane_row;

typedef struct lane_move {
    const weft_node *start;
    const weft_node *ready;      /* the last node that what it sends depends on */
    const weft_node *wait;       /* NULL: none in its program */
    const weft_node *reader;     /* the first behind the wait */
    const char *name;            /* of its bucket, or of what else is sent: a norm, statistics */
    const weft_variable *bucket; /* NULL: of none */
    int subgraph;                /* index in the plan */
    bool is_return;              /* brings updated parameters back to all */
    bool is_carried;
    int64_t order;
    uint64_t bytes;
    int between; /* nodes that run on the compute lane from start to wait, or to the end of the run */
} lane_move;

typedef struct lanes {
    const program *p;
    int n_rows, n_moves;
    lane_row *rows;
    lane_move *moves;
} lanes;

typedef struct lane_list {
    arena arena;
    const weft_plan *plan;
    int n;
    lanes *v; /* of each program but those that only add gradients, without a collective */
} lane_list;

/* False when memory is out; lane_list_free either way. */
bool lane_list_make(lane_list *l, const weft_plan *plan);
void lane_list_free(lane_list *l);

/* The row in which a carried move's bucket is first read by a run of `in`; -1: not at all. */
int lane_first_read(const lanes *in, const weft_variable *bucket);

/* A move that brings a bucket into the next run, or the sum by which a tail updates it, and the lanes it is of (or NULL);
 * NULL: none. */
const lane_move *lane_carried(const lane_list *l, const weft_variable *bucket, const lanes **of);

/* Which of a graph's runs in a step this is: "", ", the last of 4 runs". */
void lane_phase_text(text *t, const program *p);
/* "12 forward, 3 backward", "start all_reduce generator.0", ...: a row in a few words. */
void lane_row_text(text *t, const lanes *l, const lane_row *row);
/* "conv2d %12, generator/up1" */
void lane_node_text(text *t, const weft_node *n);

/* The bucket whose memory a parameter, a rank's range of a bucket, or a bucket lies in; NULL: none. */
const weft_variable *bucket_of(const weft_value *v);
/* The bucket whose parameters a node updates, NULL: it is no such node. */
const weft_variable *updated_bucket(const weft_node *n);

#endif
