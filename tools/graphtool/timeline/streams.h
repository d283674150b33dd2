/* streams.h - each program's two streams as rows and moves, made once from a plan for its summary and its
 * picture.
 *
 *   row   of the compute stream: an event (bucket ready, wait, update ...) or the span of nodes between two
 *   move  of the communication stream: a collective, with the nodes that make it ready and wait for it
 *
 * Invariants: rows cover every node that runs, once and in order; moves are in the order of the stream. A
 * move is in flight if no node of its run waits for it: the way back of what ZeRO shards, and what the
 * program's deferred part waits for. Every program's streams show where it is read first. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_STREAMS_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_STREAMS_H

#include "runtime/plan/program.h"

typedef enum row_kind {
    ROW_SPAN,   /* nodes without an event */
    ROW_READY,  /* a bucket is complete, and no collective sends it (one rank) */
    ROW_START,  /* starts a move */
    ROW_WAIT,   /* waits for a move */
    ROW_UPDATE, /* updates a bucket's parameters */
    ROW_READ,   /* the first node that reads what a move in flight brings, or a deferred part writes */
    ROW_END,    /* the run ends; the rows after it are its deferred part */
} row_kind;

enum { FORWARD, BACKWARD, UPDATE, STREAM_PHASES };
extern const char *const stream_phases[]; /* "forward", ... */

typedef struct stream_move {
    const weft_node *start;
    const weft_node *ready;      /* the last node that the data sent depend on */
    const weft_node *wait;       /* NULL: none in its program */
    int wait_row;                /* the row of that; -1: none */
    const weft_node *reader;     /* the first that reads the result */
    const char *name;            /* path of its bucket, or name of what else is sent: a norm, statistics */
    const weft_variable *bucket; /* or NULL */
    int subgraph;                /* index in the plan */
    bool is_return;              /* brings updated parameters back to all ranks */
    bool is_in_flight;
    int64_t order; /* place in the total order of collectives */
    uint64_t bytes;
    int between; /* nodes that run on the compute stream from start to wait, or to the end of the run */
} stream_move;

typedef struct stream_row {
    row_kind kind;
    const weft_node *node;       /* the event's node, or the first of the span */
    const weft_node *last;       /* the last of the span */
    int nodes[STREAM_PHASES];    /* a span's number of nodes in each phase */
    const weft_variable *bucket; /* or NULL */
    const stream_move *move;     /* that it starts or awaits, or NULL */
} stream_row;

typedef struct streams {
    const program *p;
    int n_rows, n_moves;
    stream_row *rows;
    stream_move *moves;
} streams;

typedef struct stream_list {
    const weft_plan *plan;
    int n;
    streams *v; /* of each program, except those that only add gradients without a collective */
} stream_list;

stream_list stream_list_of(const weft_plan *plan);

/* The row in which a run of `in` first reads a bucket that is in flight; -1: none. */
int stream_first_read(const streams *in, const weft_variable *bucket);

/* The move that brings a bucket into the next run, or the sum by which a deferred part updates it, and *of
 * (unless NULL) the streams it belongs to; NULL: none. */
const stream_move *stream_in_flight(const stream_list *l, const weft_variable *bucket, const streams **of);

/* Which of the graph's runs in a step this is: "", ", the last of 4 runs". */
void stream_phase_text(text *t, const program *p);
/* The phase that has the most of a span's nodes, the first of those alike. */
int stream_phase_of(const stream_row *row);
/* A row in a few words: "12 forward, 3 backward", "start all_reduce generator.0", ... */
void stream_row_text(text *t, const stream_row *row);
/* "conv2d %12, generator/up1" */
void stream_node_text(text *t, const weft_node *n);

/* The bucket whose memory holds a parameter, a rank's range of a bucket, or the bucket itself; NULL: none. */
const weft_variable *bucket_of(const weft_value *v);

#endif
