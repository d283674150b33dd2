/* timeline.h - what ran when on one rank: nodes and collectives of some training steps, and both as Chrome's
 * trace events (the "Trace Event Format", which Perfetto reads too).
 *
 * One process of the picture is one rank, with three rows: 0 is compute, 1 is communication, 2 is waiting
 * for data: each batch that a step was given, for as long as it took. On row 0 bars are inside each other: a
 * step, a run of a graph, its forward, backward or updates, the scopes, a node. A counter shows the bytes of
 * the arena that are in use. An arrow leads from the gradient that makes a bucket ready to the bucket's
 * collective, and on to the node that waits for it. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_H

#include "tools/graphtool/timeline/streams.h"
#include "tools/graphtool/model/tools.h"

typedef struct stream_event {
    char program[40], name[40], op[20]; /* cut if longer */
    /* times as in weft_comm_event */
    uint64_t run, order, started_ns, began_ns, met_ns, finished_ns, bytes;
    /* Found by timeline_join; NULL: none. */
    const streams *of;
    const stream_move *move;
    const weft_node_event *ready, *wait; /* the wait of a move in flight is in a later run */
    uint64_t exposed_ns;                 /* time in which the compute stream waited for it */
} stream_event;

typedef struct timeline {
    weft_node_event *nodes; /* of this rank, in order of time */
    size_t n_nodes, room_nodes;
    stream_event *stream; /* written by the communicator's thread only; read when nothing is under way */
    size_t n_stream, room_stream;
    weft_loader_event *data;
    size_t n_data, room_data;
    uint64_t *steps; /* when each began */
    size_t n_steps, room_steps;
    bool is_out_of_memory;
} timeline;

/* The callbacks for weft_session_trace, weft_loader_trace and weft_comm_options; context is the timeline. */
void timeline_on_node(void *context, const weft_node_event *event);
void timeline_on_data(void *context, const weft_loader_event *event);
void timeline_on_collective(void *context, const weft_comm_event *event);
/* A step begins. */
void timeline_on_step(timeline *t, uint64_t began_ns);
void timeline_free(timeline *t);

/* After recording: finds for each collective its move in the plan, the node that made it ready, the node that
 * waited and for how long. A moment of waiting counts for the collective at the head of the stream, as that
 * delays those after it, or, if there is none, for the one that is awaited. */
void timeline_join(timeline *t, const stream_list *plan);

/* Milliseconds that steps waited for data. */
double timeline_data_ms(const timeline *t);

/* Adds the events from zero_ns on as JSON objects, each followed by a comma and a newline. */
void timeline_text(text *into, const timeline *t, const weft_plan *plan, int rank, uint64_t zero_ns);

#endif
