/* transport.h - what the engine needs from a way to move bytes between ranks. Threads and MPI are two
 * transports; another one is a file with these functions. All calls of a transport come from one thread,
 * the engine's. Only open, group and close may wait. Where ranks share a window (dist/shm/window.h), the
 * engine sends control messages and most data through that instead. */
#ifndef WEFT_DIST_CORE_TRANSPORT_H
#define WEFT_DIST_CORE_TRANSPORT_H

#include "dist/core/collective.h"
#include "dist/core/descriptor.h"
#include "graph/core/error.h"
#include "weft/comm.h"

enum { PLACE_BYTES = 64, REASON_BYTES = 320 };

typedef enum control_kind {
    CONTROL_ENTER = 1, /* the sender has entered the collective in `descriptor` */
    CONTROL_BEAT = 2,  /* heartbeat; text: what the sender's calling thread is doing */
    CONTROL_FAIL = 3,  /* the sender's communicator has failed; text: the reason */
} control_kind;

enum { EXIT_CODE_LOST = 7, EXIT_CODE_WRONG = 1 }; /* of a job that is stopped */

/* A message of fixed size besides the data. Messages from one sender arrive in the order in which they
 * were sent. */
typedef struct control {
    int32_t kind, from; /* control_kind; the sender's rank in the world */
    uint32_t group;
    uint32_t is_loss;   /* FAIL: a rank was lost (weft_comm_options.lost) */
    int32_t origin;     /* FAIL: the rank whose reason it is, which the sender may have heard of itself */
    int32_t missing;    /* FAIL: the rank that did not come or has ended; -1: none, as where ranks differ */
    uint64_t sequence;  /* ENTER: number of the collective within its group, from 1 */
    uint64_t window_at; /* ENTER: rounds in the sender's window before this collective */
    descriptor descriptor; /* ENTER: of that collective */
    char text[REASON_BYTES];
} control;

typedef struct transport transport;
typedef struct window window;
/* A sum in place whose order of additions does not matter. */
typedef struct unordered_sum {
    weft_collective_kind kind; /* all_reduce, reduce, reduce_scatter */
    weft_dtype dtype;
    void *buffer;
    size_t count;
    const range *counts; /* [n]: one per rank, for their lengths (reduce_scatter); else NULL */
    int n, root;         /* ranks of the group; rank in the group, for reduce */
} unordered_sum;

typedef struct transport_calls {
    const char *kind;
    /* Joins the world: fills rank, world, local_rank, local_world, nap_seconds and window. May wait for
     * the other ranks. NULL: that is done. */
    weft_status (*open)(transport *t, weft_error *error);
    /* Transfers form a batch: send and receive add to it, and progress reports when all of it is done. A
     * batch has at most 2 * world transfers, one per peer and direction, of at most ROUND_MOVE_BYTES each.
     * Sizes and tags agree on both sides. */
    weft_status (*send)(transport *t, int to, int tag, const void *from, size_t bytes, weft_error *error);
    weft_status (*receive)(transport *t, int from, int tag, void *into, size_t bytes, weft_error *error);
    weft_status (*progress)(transport *t, bool *is_done, weft_error *error);
    /* Sums by the library's own collectives, in an unspecified order; NULL when it has none. The members
     * call `group` after all of them have met, and it may wait for them (the world is group 0 and needs no
     * call). `sum` starts one sum in place, of at most INT32_MAX elements; a reduce_scatter leaves its
     * result at the start of the buffer. `progress` reports when it is done. */
    weft_status (*group)(transport *t, uint32_t id, const int *ranks, int n, weft_error *error);
    weft_status (*sum)(transport *t, uint32_t group, const unordered_sum *sum, weft_error *error);
    /* Copies the message and returns true; false when there is no room now, and the caller tries again
     * later. */
    bool (*control_send)(transport *t, int to, const control *message);
    /* false when no message has come. */
    bool (*control_receive)(transport *t, control *message);
    /* Waits until something may have happened, at most `seconds`; NULL: nothing ends a nap early. */
    void (*nap)(transport *t, double seconds);
    /* How a rank was seen to have ended without a word, as words of a report ("its process has ended"), which
     * live as long as the transport. NULL: it has not, or that is not known. Never waits. */
    const char *(*ending)(transport *t, int rank);
    /* Ends the whole job (MPI_Abort) with this exit code, where there is one. NULL: the process continues;
     * the other ranks have been sent the failure by control messages. */
    void (*stop)(transport *t, int code);
    /* Called after a failure, before the caller sees the error and may free its buffers: no transfer reads
     * or writes them from here on. NULL where that is impossible (MPI: what a failed collective uses must
     * stay in memory). */
    void (*withdraw)(transport *t);
    /* Leaves the world. After a failure it abandons unfinished transfers as far as possible. */
    void (*close)(transport *t, bool is_failed);
    /* Frees the struct. Called last, by the thread that frees the communicator. */
    void (*free)(transport *t);
} transport_calls;

struct transport {
    const transport_calls *calls;
    int rank, world, local_rank, local_world;
    double nap_seconds; /* between two looks for progress, unless the options set it */
    window *window;     /* memory shared with the ranks of this machine, owned by the transport; NULL: none */
};

/* Takes in control messages for 0.2 s, in which the reason that was just sent to all ranks can leave. */
void transport_drain(transport *t);

/* A communicator on a transport. It frees the transport, also on failure, when it returns NULL and sets
 * *error. */
weft_comm *engine_comm(transport *t, const weft_comm_options *options, weft_error *error);

#endif
