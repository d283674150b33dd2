/* launches.h - how a program runs on a GPU: as launches. A launch is a stretch of one stream without an event
 * inside.
 *
 * There are two streams, compute and communication, and each executes its work in order. An event is needed
 * only where the plan has an edge between the streams, and a launch ends there. So a launch can be captured
 * once, as a CUDA graph, and be started with one call, however many nodes it has. ZeRO's gathers outlast
 * their run: the first launch of a later run that touches the bucket waits for them. The kinds:
 *     upload       copies inputs from the host's staging memory; not captured, as addresses change from run
 *                  to run
 *     refresh      makes derived values (casts, packed weights) again, each only if its parameter has changed
 *     compute      kernels
 *     collective   one collective, on the communication stream, after all that precedes it in the schedule;
 *                  captured where the communicator works on the stream (NCCL), not where it goes by way of
 *                  the host
 */
#ifndef WEFT_RUNTIME_PLAN_LAUNCHES_H
#define WEFT_RUNTIME_PLAN_LAUNCHES_H

#include "graph/core/graph.h"

/* Bytes in GPU memory beside the inputs: what a run passes to its kernels (seed, step, micro-batch), and the
 * failures that kernels record. */
enum { CUDA_RUN_BYTES = 256 };

typedef enum launch_kind { LAUNCH_UPLOAD, LAUNCH_REFRESH, LAUNCH_COMPUTE, LAUNCH_COLLECTIVE } launch_kind;

/* One launch. Together the launches of a program cover every node that puts work on a stream. */
typedef struct launch_entry {
    launch_kind kind;
    int first, last; /* places in the schedule; of [first, last] the launch has the nodes of its own stream */
    int n_nodes;     /* 0: it only waits, so that the run ends after its collectives */
    /* a launch of the other stream that must have ended, and so all before it on that stream; -1: none */
    int waits;
    bool records;    /* it records an event, because a launch of the other stream waits for it */
    bool gates;      /* it ends with the gate: the host reads whether the step is bad, then starts the next */
    int n_in_flight; /* buckets whose gathers, started by earlier runs, must have ended */
    const weft_variable **in_flight;
} launch_entry;

const char *launch_name(launch_kind kind); /* "compute" */
bool launch_is_captured(launch_kind kind); /* "collective": where the communicator puts it on the stream */
bool node_is_upload(const weft_node *n);   /* it copies an input into the arena */
/* The kind of launch that a node goes into; false: it puts nothing on a stream (inputs, views, waits). */
bool launch_kind_of(const weft_node *n, launch_kind *kind);

#endif
