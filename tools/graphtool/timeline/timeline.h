/* timeline.h - what ran when on one rank: nodes and collectives of some training steps, and both as Chrome's trace
 * events (the "Trace Event Format", which Perfetto reads too).
 *
 * One process of the picture is one rank, with two rows: 0 compute, 1 communication. An arrow leads from the gradient
 * that makes a bucket ready to the bucket's collective and on to who waits for it. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_TIMELINE_H

#include "tools/graphtool/timeline/streams.h"
#include "tools/graphtool/common/tools.h"

typedef struct stream_event {
    char program[40], name[40], op[20]; /* cut where they are longer */
    uint64_t run, order, started_ns, began_ns, met_ns, finished_ns, bytes;
    /* By timeline_join; NULL: none was seen. */
    const streams *of;
    const stream_move *move;
    const weft_node_event *ready, *wait; /* of those in flight the wait is in a later run */
    uint64_t exposed_ns;                 /* the compute stream stood waiting for it */
} stream_event;

typedef struct timeline {
    weft_node_event *nodes; /* of this rank, in order */
    size_t n_nodes, room_nodes;
    stream_event *stream; /* written by the communicator's thread alone, read when nothing is under way */
    size_t n_stream, room_stream;
    bool is_out_of_memory;
} timeline;

/* The callbacks of weft_session_trace and weft_comm_options; context is the timeline. */
void timeline_on_node(void *context, const weft_node_event *event);
void timeline_on_collective(void *context, const weft_comm_event *event);
void timeline_free(timeline *t);

/* Once all is recorded: finds what each collective is in the plan, what made it ready, who waited for it and how long.
 * A moment of waiting counts for the collective at the head of the stream, as that holds up what is behind it; when
 * there is none, for the one that is awaited. */
void timeline_join(timeline *t, const stream_list *plan);

/* The events from zero_ns on as JSON objects, a comma and a line end behind each; free(). NULL: memory was out. */
char *timeline_text(const timeline *t, int rank, uint64_t zero_ns);

#endif
