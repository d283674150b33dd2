/* transport.h - what the files of the UCX transport share. All of it belongs to the engine's thread. */
#ifndef WEFT_DIST_UCX_TRANSPORT_H
#define WEFT_DIST_UCX_TRANSPORT_H

#include "dist/meet/meet.h"
#include "dist/shm/share.h"

#include <ucp/api/ucp.h>

/* What a message is, in its tag; beside it the sender's rank and a number. */
typedef enum ucx_kind { UCX_DATA = 1, UCX_CONTROL = 2, UCX_SETUP = 3 } ucx_kind;

typedef struct ucx_transport ucx_transport;

/* Another rank, as its endpoint's error handler sees it. */
typedef struct ucx_peer {
    ucx_transport *of;
    ucp_ep_h endpoint;
    ucs_status_t failure; /* of the connection; UCS_OK: none */
    uint64_t failed_ns;
    char ending[96]; /* the failure, as words of a report */
} ucx_peer;

struct ucx_transport {
    transport t; /* first: what the engine holds */
    weft_env env;
    arena memory; /* of the tables */
    weft_launch launch;
    double deadline_seconds;
    int64_t window_bytes;
    bool is_left_open;   /* after a failure nothing is freed: UCX may still write into the buffers */
    bool is_closing;     /* connections that end are not failures any more */
    ucs_status_t broken; /* of a transfer that failed; UCS_OK: none */
    uint64_t broken_ns;
    ucp_context_h context;
    ucp_worker_h worker;
    ucx_peer *peers;            /* [world] */
    ucs_status_ptr_t *requests; /* [2 * world]: of the batch, or of an exchange while opening */
    int n_requests, n_sends;
    ucs_status_ptr_t *sends;   /* [n_sends]: the pool of control messages being sent */
    control *outgoing;         /* [n_sends]: their texts */
    ucs_status_ptr_t standing; /* the receive of a control message that is always open */
    bool has_incoming;         /* it was done at once */
    control incoming;          /* where that message is received */
    /* ucx/join.c */
    meeting meeting;
    char purpose[8];
    int *locals;       /* [local_world]: ranks of this machine */
    share_part *parts; /* [world] */
    uint32_t n_exchanges;
};

/* ---- ucx/worker.c ---- */
weft_status ucx_fail(weft_error *error, weft_status kind, const char *what, ucs_status_t status);
uint64_t ucx_tag(ucx_kind kind, int from, uint32_t number);
/* Is the request over? Then it is freed and *request becomes NULL; a failure is in *status. */
bool ucx_is_over(ucs_status_ptr_t *request, ucs_status_t *status);
/* Undoes what UCX does to the process when it is loaded, as far as that goes. */
void ucx_tame(void);
/* The context and the worker: without UCX's own shared memory where /dev/shm has no room for it. */
weft_status ucx_open_worker(ucx_transport *u, weft_error *error);

/* ---- ucx/join.c: how ranks meet, connect and leave ---- */
/* Meets the others and makes the endpoints. `why`: this rank could not even allocate its tables. */
weft_status ucx_join(ucx_transport *u, const char *why, weft_error *error);
/* Makes t.window among the ranks of this machine, or logs why there is none. */
weft_status ucx_window_open(ucx_transport *u, weft_error *error);
/* Waits until all ranks are ready to leave, at most a few seconds. */
void ucx_part_ways(ucx_transport *u);

#endif
