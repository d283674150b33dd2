/* transport.h - what the engine needs from a way to move bytes between ranks: threads and MPI are two; another is a
 * file with these functions. All calls of one transport come from one thread, the engine's. None of them waits, but
 * for open, group and close. Ranks that share a window (window.h) bring their control messages and most data there.
 */
#ifndef WEFT_DIST_CORE_TRANSPORT_H
#define WEFT_DIST_CORE_TRANSPORT_H

#include "dist/core/collective.h"
#include "dist/core/descriptor.h"
#include "graph/core/error.h"
#include "weft/comm.h"

enum { PLACE_BYTES = 64, REASON_BYTES = 320 };

typedef enum control_kind {
    CONTROL_ENTER = 1, /* the sender has entered this collective */
    CONTROL_BEAT = 2,  /* it lives; text: where its calling thread is */
    CONTROL_FAIL = 3,  /* its communicator has failed; text: why */
} control_kind;

/* A message of fixed size besides the data. Two from one sender arrive in the order they were sent. */
typedef struct control {
    int32_t kind, from; /* rank in the world */
    uint32_t group, padding;
    uint64_t sequence;  /* of the group's collectives */
    uint64_t window_at; /* ENTER: rounds the sender's window has seen before it */
    descriptor descriptor; /* ENTER: of that collective; BEAT: of the last one entered */
    char text[REASON_BYTES];
} control;

typedef struct transport transport;
typedef struct window window;
typedef struct unordered_sum {
    weft_collective_kind kind; /* all_reduce, reduce, reduce_scatter */
    weft_dtype dtype;
    void *buffer;
    size_t count;
    const range *counts; /* [n]: of their lengths, for reduce_scatter */
    int n, root;
} unordered_sum;

typedef struct transport_calls {
    const char *kind;
    /* Joins the world: fills rank, world, local_rank, local_world, nap_seconds. May wait for the other ranks. */
    weft_status (*open)(transport *t, weft_error *error);
    /* A batch: transfers are added, then asked for until all are done; at most 2 world at once, one a peer in each
     * direction. Messages of at most ROUND_MOVE_BYTES; sizes and tags agree on both sides. */
    weft_status (*send)(transport *t, int to, int tag, const void *from, size_t bytes, weft_error *error);
    weft_status (*receive)(transport *t, int from, int tag, void *into, size_t bytes, weft_error *error);
    weft_status (*progress)(transport *t, bool *is_done, weft_error *error);
    /* Sums of the library's own, in no certain order; NULL: there are none. `group` is called by its members when
     * all have met, and may wait for them (the world is group 0, and needs no call). `sum` starts one in place, on at
     * most INT32_MAX elements; with counts (a reduce_scatter) the result lies at the buffer's begin; `progress`
     * tells when it is done. */
    weft_status (*group)(transport *t, uint32_t id, const int *ranks, int n, weft_error *error);
    weft_status (*sum)(transport *t, uint32_t group, const unordered_sum *sum, weft_error *error);
    /* Copies the message; false: no room now, try again. */
    bool (*control_send)(transport *t, int to, const control *message);
    bool (*control_receive)(transport *t, control *message);
    /* Waits until something may have happened, at most so long. */
    void (*nap)(transport *t, double seconds);
    /* Ends the whole job, where there is one. */
    void (*stop)(transport *t);
    /* After a failure, before the caller hears of it and his buffers may go: nothing reads or writes them from here on.
     * NULL: cannot be done (MPI: what a failed collective uses must stay in memory). */
    void (*withdraw)(transport *t);
    /* Leaves the world; when is_failed, buffers of unfinished transfers are let go as far as possible. */
    void (*close)(transport *t, bool is_failed);
    /* Frees the struct. Called last, by the thread that frees the communicator. */
    void (*free)(transport *t);
} transport_calls;

struct transport {
    const transport_calls *calls;
    int rank, world, local_rank, local_world;
    double nap_seconds;
    window *window; /* shared with the ranks of this machine, the transport's; NULL: none */
};

/* A communicator on a transport, which it frees (also on failure). */
weft_comm *engine_comm(transport *t, const weft_comm_options *options, weft_error *error);

#endif
