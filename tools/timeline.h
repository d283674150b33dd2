/* timeline.h - what ran when on one rank: nodes and collectives of some training steps, and both as Chrome's trace
 * events (the "Trace Event Format", which Perfetto reads too).
 *
 * One process of the picture is one rank, with two rows: 0 compute, 1 communication. An arrow leads from the gradient
 * that makes a bucket ready to the bucket's collective and on to who waits for it. */
#ifndef WEFT_TOOLS_TIMELINE_H
#define WEFT_TOOLS_TIMELINE_H

#include "tools/tools.h"

typedef struct lane_event {
    char program[40], name[40], op[40];
    uint64_t run, order, started_ns, began_ns, met_ns, finished_ns, bytes;
} lane_event;

typedef struct timeline {
    weft_node_event *nodes; /* of this rank, in order */
    size_t n_nodes, room_nodes;
    lane_event *lane; /* written by the communicator's thread alone, read when nothing is under way */
    size_t n_lane, room_lane;
    bool is_out_of_memory;
} timeline;

/* The callbacks of weft_session_trace and weft_comm_options; context is the timeline. */
void timeline_on_node(void *context, const weft_node_event *event);
void timeline_on_collective(void *context, const weft_comm_event *event);
void timeline_free(timeline *t);

/* The events from zero_ns on as JSON objects, a comma and a line end behind each; free(). NULL: memory was out. */
char *timeline_text(const timeline *t, const weft_plan *plan, int rank, uint64_t zero_ns);

/* The node that waits for a collective; NULL: none. */
const weft_node_event *timeline_wait(const timeline *t, const lane_event *c);

#endif
