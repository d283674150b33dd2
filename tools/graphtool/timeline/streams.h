/* streams.h - what a person asks of a plan, gathered once for its summary and its picture: each program's two streams.
 *
 *   row   of the compute stream: an event (a bucket is ready, a wait, an update ...) or the span of nodes between two
 *   move  of the communication stream: a collective, with what makes it ready and who waits for it
 *
 * Invariants: rows cover every node that runs, once, in order; moves stand in the order of the stream. What no node waits for
 * while its run lasts is in flight: the way back of what ZeRO shares out, and what the program's deferred part waits for. Every stream
 * says where it would first be read. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_STREAMS_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_STREAMS_H

#include "runtime/plan/program.h"

typedef enum row_kind {
    ROW_SPAN,   /* nothing but nodes */
    ROW_READY,  /* a bucket is complete, and no collective takes it (one rank) */
    ROW_START,  /* starts a move */
    ROW_WAIT,   /* waits for a move */
    ROW_UPDATE, /* of a bucket's parameters */
    ROW_READ,   /* the first node that reads what is in flight, by a move or a deferred part */
    ROW_END,    /* the run is over; the rows behind it are its deferred part */
} row_kind;

typedef struct stream_row {
    row_kind kind;
    const weft_node *node;       /* of events; of spans the first */
    const weft_node *last;       /* of spans */
    int forward, backward, rest; /* how many nodes */
    const weft_variable *bucket; /* NULL: of none */
    int move;                    /* in this stream's moves: started or awaited; else -1 */
} stream_row;

typedef struct stream_move {
    const weft_node *start;
    const weft_node *ready;      /* the last node that what it sends depends on */
    const weft_node *wait;       /* NULL: none in its program */
    const weft_node *reader;     /* the first behind the wait */
    const char *name;            /* of its bucket, or of what else is sent: a norm, statistics */
    const weft_variable *bucket; /* NULL: of none */
    int subgraph;                /* index in the plan */
    bool is_return;              /* brings updated parameters back to all */
    bool is_in_flight;
    int64_t order;
    uint64_t bytes;
    int between; /* nodes that run on the compute stream from start to wait, or to the end of the run */
} stream_move;

typedef struct streams {
    const program *p;
    int n_rows, n_moves;
    stream_row *rows;
    stream_move *moves;
} streams;

typedef struct stream_list {
    arena arena;
    const weft_plan *plan;
    int n;
    streams *v; /* of each program but those that only add gradients, without a collective */
} stream_list;

/* False when memory is out; stream_list_free either way. */
bool stream_list_make(stream_list *l, const weft_plan *plan);
void stream_list_free(stream_list *l);

/* The row in which a move in flight's bucket is first read by a run of `in`; -1: not at all. */
int stream_first_read(const streams *in, const weft_variable *bucket);

/* A move that brings a bucket into the next run, or the sum by which a deferred part updates it, and the streams it is of (or NULL);
 * NULL: none. */
const stream_move *stream_in_flight(const stream_list *l, const weft_variable *bucket, const streams **of);

/* Which of a graph's runs in a step this is: "", ", the last of 4 runs". */
void stream_phase_text(text *t, const program *p);
/* "12 forward, 3 backward", "start all_reduce generator.0", ...: a row in a few words. */
void stream_row_text(text *t, const streams *l, const stream_row *row);
/* "conv2d %12, generator/up1" */
void stream_node_text(text *t, const weft_node *n);

/* The bucket whose memory a parameter, a rank's range of a bucket, or a bucket lies in; NULL: none. */
const weft_variable *bucket_of(const weft_value *v);
/* The bucket whose parameters a node updates, NULL: it is no such node. */
const weft_variable *updated_bucket(const weft_node *n);

#endif
