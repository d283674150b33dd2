/* launches.h - how a program goes to a GPU: as launches, stretches of one stream that hold no event inside.
 *
 * The streams are two streams, and each is first in, first out; an event stands only where the plan has an edge between
 * them, and there a launch ends. So a launch can be captured once (as a CUDA graph) and started with one call, whatever is
 * in it; what outlasts a run (ZeRO's gathers) is awaited by the first launch of a later run that touches its bucket:
 *     upload       inputs, from where the host's copy put them: addresses change from run to run, so not captured
 *     refresh      derived values (casts, packed weights), each only if its parameter has changed
 *     compute      kernels
 *     collective   one of them, on the communication stream, behind all that stands before it in the schedule; captured where
 *                  the communicator puts it on the stream (NCCL), not where it goes by way of the host
 */
#ifndef WEFT_RUNTIME_PLAN_LAUNCHES_H
#define WEFT_RUNTIME_PLAN_LAUNCHES_H

#include "graph/core/graph.h"

/* In a GPU's memory, beside the places for inputs: what a run tells its kernels (seed, step, micro-batch), and what they
 * note. */
enum { CUDA_RUN_BYTES = 256 };

typedef enum launch_kind { LAUNCH_UPLOAD, LAUNCH_REFRESH, LAUNCH_COMPUTE, LAUNCH_COLLECTIVE } launch_kind;

typedef struct launch_entry {
    launch_kind kind;
    int first, last; /* places in the schedule; the nodes of its stream from one to the other are its own */
    int n_nodes;     /* 0: it only waits, so that the run's end is behind its collectives */
    int waits; /* launch of the other stream that must have ended, those before it on its stream too; -1: none */
    bool records;    /* a launch of the other stream waits for it */
    int n_in_flight; /* buckets whose gathers, of earlier runs, must have ended */
    const weft_variable **in_flight;
} launch_entry;

const char *launch_name(launch_kind kind); /* "compute" */
bool launch_is_captured(launch_kind kind); /* "collective": where the communicator puts it on the stream */
/* Which kind of launch a node goes into; false for one that puts nothing on a stream (inputs, views, waits). */
bool launch_kind_of(const weft_node *n, launch_kind *kind);

#endif
