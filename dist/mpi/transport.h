/* transport.h - what the files of the MPI transport share. All of it belongs to the engine's thread. */
#ifndef WEFT_DIST_MPI_TRANSPORT_H
#define WEFT_DIST_MPI_TRANSPORT_H

#include "dist/shm/segment.h"
#include "dist/shm/window.h"

#include <mpi.h>

/* A group's communicator, for sums of MPI's own. */
typedef struct mpi_group {
    struct mpi_group *next;
    uint32_t id;
    MPI_Comm comm;
} mpi_group;

enum { PIECES = 16, PIECE_BYTES = 60 << 10 }; /* pieces of one transfer under way, and of how many bytes */

/* What is still to go to or come from a peer. Both sides cut alike, and MPI keeps the order of one tag's messages. */
typedef struct transfer {
    bool is_send;
    int peer, tag;
    char *at;
    size_t left;
} transfer;

typedef struct mpi_transport {
    transport t; /* first: what the engine holds */
    weft_env env;
    weft_launch launch; /* what MPI must agree with */
    bool has_launch;
    bool is_ours;      /* we initialized MPI, so we finalize it */
    bool is_left_open; /* after a failure: MPI may still write into what it was given */
    MPI_Comm data, control;
    MPI_Comm host; /* the ranks of this machine */
    int n_transfers, n_under_way, n_sends;
    size_t piece_bytes;
    transfer *transfers;   /* of the batch: 2 world */
    MPI_Request *requests; /* PIECES a transfer */
    int *finished;         /* those of them that MPI found so */
    MPI_Request *sends;    /* of the pool */
    control *outgoing;
    MPI_Request standing;
    control incoming;
    /* mpi/sum.c */
    mpi_group *groups, *spare; /* spare: the next one's memory; never NULL before a failure */
    MPI_Op add_bf16;
    int *counts; /* [world], of the sum under way */
    int64_t window_bytes; /* as in the options */
    /* mpi/rendezvous.c */
    double deadline_seconds;
    int64_t least;
    int first; /* rank that could not, -1: none */
    char why[REASON_BYTES];
    segment_key *keys; /* [local_world], gathered by mpi/window.c */
} mpi_transport;

weft_status mpi_fail(weft_error *error, const char *what, int code);

/* ---- mpi/sum.c: MPI's own collectives, for sums in any order ---- */
weft_status mpi_sums_open(mpi_transport *m, weft_error *error);
void mpi_sums_close(mpi_transport *m);
weft_status mpi_group_open(transport *t, uint32_t id, const int *ranks, int n, weft_error *error);
weft_status mpi_sum(transport *t, uint32_t group, const unordered_sum *sum, weft_error *error);

/* ---- mpi/rendezvous.c: before the engine runs; `what` is for messages ---- */
/* Everyone's part of `parts` to all ranks of this machine. */
weft_status mpi_gather(mpi_transport *m, const char *what, void *parts, size_t bytes, weft_error *error);
/* m->least: of the values of the ranks of this machine. */
weft_status mpi_least(mpi_transport *m, const char *what, int64_t value, weft_error *error);
/* Could all ranks of `comm`? `why` not (NULL or empty: this one could). Then m->first is the first that could not, and
 * m->why its text, or m->first is -1; the same on all. */
weft_status mpi_settle(mpi_transport *m, MPI_Comm comm, const char *what, const char *why, weft_error *error);

/* ---- mpi/window.c: memory that the ranks of this machine share ---- */
/* Fine without one, too: then t.window is NULL on all of them. */
weft_status mpi_window_open(mpi_transport *m, weft_error *error);
void mpi_window_close(mpi_transport *m);

#endif
