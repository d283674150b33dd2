/* rendezvous.c - the exchanges between ranks before the engine runs: what they must know of each other while
 * they open. No call blocks in MPI, so a rank that never comes is an error at the deadline. A rank that
 * failed in its own part still takes part and reports it, and all give up together: no rank waits in a later
 * call for one that has turned back. */
#include "dist/mpi/transport.h"

#include "dist/core/clock.h"

#include <limits.h>

#define NAP_SECONDS 50e-6 /* between two looks */

weft_status mpi_fail(weft_error *error, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length)) text[0] = 0;
    return error_set(error, WEFT_PEER, "%s failed: %.300s", what, text);
}

/* Waits for the request. The buffers belong to the transport, which stays allocated when the deadline has
 * passed. */
static weft_status finish_request(mpi_transport *m, const char *what, int code, MPI_Request *request,
                                  weft_error *error) {
    uint64_t begin = clock_now();
    for (int is_done = 0; !code && !is_done;) {
        code = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
        if (!code && !is_done && clock_since(begin) > m->deadline_seconds)
            return error_set(error, WEFT_PEER, "%s: rank %d waited %.1f s for ranks that did not come", what,
                             m->t.rank, m->deadline_seconds);
        if (!is_done) clock_nap(NAP_SECONDS);
    }
    return code ? mpi_fail(error, what, code) : WEFT_OK;
}

/* The least failed rank wins (INT_MAX: none); it then broadcasts its reason. */
weft_status mpi_settle(mpi_transport *m, MPI_Comm comm, const char *what, const char *why,
                       weft_error *error) {
    MPI_Request request;
    int rank = 0, code = MPI_Comm_rank(comm, &rank);
    m->vote.first = why && *why ? rank : INT_MAX;
    if (rank == m->vote.first) text_cut(m->vote.why, why, sizeof m->vote.why);
    if (!code) code = MPI_Iallreduce(MPI_IN_PLACE, &m->vote.first, 1, MPI_INT, MPI_MIN, comm, &request);
    weft_status status = finish_request(m, what, code, &request, error);
    if (status || m->vote.first == INT_MAX) {
        m->vote.first = -1;
        return status;
    }
    code = MPI_Ibcast(m->vote.why, sizeof m->vote.why, MPI_CHAR, m->vote.first, comm, &request);
    return finish_request(m, what, code, &request, error);
}

/* ---- the window (dist/shm/share.h) ----
 * MPI carries the keys and the votes and nothing else: its own shared memory (MPI_Win_allocate_shared) waits
 * for ever where /dev/shm is too small for one rank only. */

/* Fills `ranks`: the ranks in the world of this machine's ranks. Returns an MPI error code. */
static int name_ranks(const mpi_transport *m, int *ranks) {
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    int code = MPI_Comm_group(m->data, &all);
    if (!code) code = MPI_Comm_group(m->host, &here);
    for (int i = 0; !code && i < m->t.local_world; i++)
        code = MPI_Group_translate_ranks(here, 1, &i, all, &ranks[i]);
    if (here != MPI_GROUP_NULL) MPI_Group_free(&here);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    return code;
}

static weft_status gather_parts(transport *t, const char *what, void *parts, size_t bytes,
                                weft_error *error) {
    mpi_transport *m = (mpi_transport *)t;
    MPI_Request request;
    int code =
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, parts, (int)bytes, MPI_BYTE, m->host, &request);
    return finish_request(m, what, code, &request, error);
}

weft_status mpi_window_open(mpi_transport *m, weft_error *error) {
    int code = name_ranks(m, m->counts);
    if (code) return mpi_fail(error, "MPI_Group_translate_ranks", code);
    const share_options options = {&m->env, m->window_bytes, m->counts, gather_parts, m->parts};
    return share_window(&m->t, &options, error);
}
