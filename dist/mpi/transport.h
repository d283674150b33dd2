/* transport.h - what the files of the MPI transport share. All of it belongs to the engine's thread. */
#ifndef WEFT_DIST_MPI_TRANSPORT_H
#define WEFT_DIST_MPI_TRANSPORT_H

#include "dist/shm/share.h"

#include <mpi.h>

/* A group's communicator, for sums by MPI itself. */
typedef struct mpi_group {
    struct mpi_group *next;
    uint32_t id;
    MPI_Comm comm;
} mpi_group;

/* Of one transfer: pieces under way at once, and bytes per piece between machines. */
enum { PIECES = 16, PIECE_BYTES = 60 << 10 };

/* The rest of a transfer to or from a peer. Both sides cut it alike, and MPI keeps the order of messages with
 * one tag. */
typedef struct transfer {
    bool is_send;
    int peer, tag;
    char *at;
    size_t left; /* bytes that no request has been made for yet */
} transfer;

typedef struct mpi_transport {
    transport t; /* first: what the engine holds */
    weft_env env;
    arena memory;       /* of the tables */
    weft_launch launch; /* the launcher's rank and world, which MPI must confirm */
    bool has_launch;
    bool is_ours;           /* this transport initialized MPI, so it finalizes it */
    bool is_left_open;      /* after a failure nothing is freed: MPI may still write into the buffers */
    MPI_Comm data, control; /* copies of MPI_COMM_WORLD, one per kind of message */
    MPI_Comm host;          /* communicator of the ranks of this machine */
    int n_transfers, n_under_way, n_sends;
    size_t piece_bytes;
    transfer *transfers;   /* [2 * world]: of the batch */
    MPI_Request *requests; /* [2 * world * PIECES]: those of transfer i start at i * PIECES */
    int *finished;         /* [2 * world * PIECES]: indices of requests that Testsome found finished */
    MPI_Request *sends;    /* [n_sends]: the pool of control messages being sent */
    control *outgoing;     /* [n_sends]: their texts */
    MPI_Request standing;  /* the receive of a control message that is always open */
    control incoming;      /* where that message is received */
    /* mpi/sum.c */
    mpi_group *groups, *spare; /* spare: memory for the next group; not NULL before a failure */
    MPI_Op add_bf16;
    int *counts;          /* [world]: range lengths of the reduce_scatter under way */
    int64_t window_bytes; /* as in the options */
    /* mpi/rendezvous.c */
    double deadline_seconds;
    vote vote;         /* result of mpi_settle, with ranks of its communicator */
    share_part *parts; /* [world] */
} mpi_transport;

/* ---- mpi/sum.c: MPI's own collectives, for sums in any order ---- */
weft_status mpi_sums_open(mpi_transport *m, weft_error *error);
void mpi_sums_close(mpi_transport *m);
weft_status mpi_group_open(transport *t, uint32_t id, const int *ranks, int n, weft_error *error);
weft_status mpi_sum(transport *t, uint32_t group, const unordered_sum *sum, weft_error *error);

/* ---- mpi/rendezvous.c: errors, and exchanges before the engine runs ---- */
/* WEFT_PEER with MPI's text for an error code. */
weft_status mpi_fail(weft_error *error, const char *what, int code);
/* A vote of the ranks of `comm`: `why` is the reason why this rank failed, NULL or empty if it succeeded.
 * m->vote becomes the outcome, the same on every rank. `what` names the call in messages. */
weft_status mpi_settle(mpi_transport *m, MPI_Comm comm, const char *what, const char *why, weft_error *error);
/* Makes t.window, the memory that the ranks of this machine share. Having none is fine too: then t.window is
 * NULL on all of them. m->counts, not in use yet, holds ranks meanwhile. */
weft_status mpi_window_open(mpi_transport *m, weft_error *error);

#endif
