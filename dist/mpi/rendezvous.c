/* rendezvous.c - the exchanges between ranks before the engine runs: what they must know of each other while
 * they open. No call blocks in MPI, so a rank that never comes is an error at the deadline. A rank that
 * failed in its own part still takes part and reports it, and all give up together: no rank waits in a later
 * call for one that has turned back. */
#include "dist/mpi/transport.h"

#include "dist/engine/engine.h"

#include <limits.h>
#include <string.h>
#include <time.h>

/* ns between two looks */
enum { NAP_NS = 50000 };

/* Waits for the request. The buffers belong to the transport, which stays allocated when the deadline has
 * passed. */
static weft_status finish_request(mpi_transport *m, const char *what, int code, MPI_Request *request,
                                  weft_error *error) {
    uint64_t begin = engine_now();
    for (int is_done = 0; !code && !is_done;) {
        code = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
        if (!code && !is_done && (double)(engine_now() - begin) * 1e-9 > m->deadline_seconds)
            return error_set(error, WEFT_PEER, "%s: rank %d waited %.1f s for ranks that did not come", what,
                             m->t.rank, m->deadline_seconds);
        nanosleep(&(struct timespec){.tv_nsec = is_done ? 0 : NAP_NS}, NULL);
    }
    return code ? mpi_fail(error, what, code) : WEFT_OK;
}

weft_status mpi_gather(mpi_transport *m, const char *what, void *parts, size_t bytes, weft_error *error) {
    MPI_Request request;
    int code =
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, parts, (int)bytes, MPI_BYTE, m->host, &request);
    return finish_request(m, what, code, &request, error);
}

weft_status mpi_least(mpi_transport *m, const char *what, int64_t value, weft_error *error) {
    MPI_Request request;
    m->least = value;
    int code = MPI_Iallreduce(MPI_IN_PLACE, &m->least, 1, MPI_INT64_T, MPI_MIN, m->host, &request);
    return finish_request(m, what, code, &request, error);
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
