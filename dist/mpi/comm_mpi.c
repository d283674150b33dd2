/* comm_mpi.c - MPI as a transport. The engine's thread makes every MPI call, from MPI_Init_thread to MPI_Finalize;
 * nothing but opening and closing blocks: transfers are Isend and Irecv, looked at with Testall between naps (a
 * blocking call spins and takes half a core from the computing threads).
 *
 * Two communicators of our own: one for data (a request a transfer), one for control messages, which are small
 * enough to travel at once: one standing receive from anyone, and a pool of sends that frees itself. */
#include "dist/transport.h"

#include "dist/engine.h"

#include <mpi.h>
#include <string.h>
#include <time.h>

enum { CONTROL_TAG = 1, POOL = 16 }; /* control messages under way: POOL + 4 a rank */
#define CLOSE_NS 5000000000u         /* for the last control messages */

typedef struct mpi_transport {
    transport t; /* first: what the engine holds */
    weft_env env;
    weft_launch launch; /* what MPI must agree with */
    bool has_launch;
    bool is_ours;      /* we initialized MPI, so we finalize it */
    bool is_left_open; /* after a failure: MPI may still write into what it was given */
    MPI_Comm data, control;
    int n_requests, n_sends;
    MPI_Request *requests; /* of the batch: 2 world */
    MPI_Request *sends;    /* of the pool */
    control *outgoing;
    MPI_Request standing;
    control incoming;
} mpi_transport;

static mpi_transport *mpi_of(transport *t) {
    return (mpi_transport *)t;
}

static weft_status mpi_fail(weft_error *error, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length)) text[0] = 0;
    return error_set(error, WEFT_PEER, "%s failed: %.300s", what, text);
}

/* ---- joining ---- */

static weft_status init_mpi(mpi_transport *m, weft_error *error) {
    int is_up = 0, is_over = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_up);
    MPI_Finalized(&is_over);
    if (is_over)
        return error_set(error, WEFT_ORDER, "MPI has been finalized in this process and cannot start again");
    m->is_ours = !is_up;
    int code = is_up ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code) return mpi_fail(error, "MPI_Init_thread", code);
    if (level >= MPI_THREAD_SERIALIZED) return WEFT_OK;
    return error_set(error, WEFT_UNSUPPORTED,
                     "MPI gives thread level %d; MPI_THREAD_SERIALIZED (%d) is needed", level,
                     MPI_THREAD_SERIALIZED);
}

/* A launcher that MPI does not know of starts so many worlds of one: they would all be rank 0. */
static weft_status check_launch(const mpi_transport *m, weft_error *error) {
    if (!m->has_launch || (m->launch.rank == m->t.rank && m->launch.world == m->t.world)) return WEFT_OK;
    return error_set(
        error, WEFT_PEER,
        "the launcher (%s) says rank %d of %d, MPI says rank %d of %d: start the program with the mpirun of "
        "the MPI that it is linked with, or srun --mpi=pmix",
        m->launch.launcher, m->launch.rank, m->launch.world, m->t.rank, m->t.world);
}

static weft_status make_comms(mpi_transport *m, weft_error *error) {
    MPI_Comm host;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &m->data);
    if (!code) code = MPI_Comm_dup(MPI_COMM_WORLD, &m->control);
    if (!code) code = MPI_Comm_set_errhandler(m->data, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_set_errhandler(m->control, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_rank(m->data, &m->t.rank);
    if (!code) code = MPI_Comm_size(m->data, &m->t.world);
    if (!code) code = MPI_Comm_split_type(m->data, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    if (!code) code = MPI_Comm_rank(host, &m->t.local_rank);
    if (!code) code = MPI_Comm_size(host, &m->t.local_world);
    if (!code) code = MPI_Comm_free(&host);
    return code ? mpi_fail(error, "making MPI communicators", code) : WEFT_OK;
}

static int stand_ready(mpi_transport *m) {
    return MPI_Irecv(&m->incoming, sizeof m->incoming, MPI_BYTE, MPI_ANY_SOURCE, CONTROL_TAG, m->control,
                     &m->standing);
}

static weft_status make_requests(mpi_transport *m, weft_error *error) {
    size_t w = (size_t)m->t.world;
    m->n_sends = POOL + 4 * m->t.world;
    m->requests = mem_new_array(&m->env, 2 * w, sizeof *m->requests);
    m->sends = mem_new_array(&m->env, (size_t)m->n_sends, sizeof *m->sends);
    m->outgoing = mem_new_array(&m->env, (size_t)m->n_sends, sizeof *m->outgoing);
    if (!m->requests || !m->sends || !m->outgoing) return error_memory(error, "a communicator");
    for (int i = 0; i < m->n_sends; i++) m->sends[i] = MPI_REQUEST_NULL;
    int code = stand_ready(m);
    return code ? mpi_fail(error, "MPI_Irecv", code) : WEFT_OK;
}

static weft_status mpi_open(transport *t, weft_error *error) {
    mpi_transport *m = mpi_of(t);
    weft_status status = init_mpi(m, error);
    if (!status) status = make_comms(m, error);
    if (!status) status = check_launch(m, error);
    if (!status) status = make_requests(m, error);
    /* Measured for two ranks: short naps pay over shared memory, and take the cores' time on a network. */
    t->nap_seconds = t->local_world == t->world ? 50e-6 : 500e-6;
    return status;
}

/* ---- data ---- */

static weft_status mpi_send(transport *t, int to, int tag, const void *from, size_t bytes,
                            weft_error *error) {
    mpi_transport *m = mpi_of(t);
    int code = MPI_Isend(from, (int)bytes, MPI_BYTE, to, tag, m->data, &m->requests[m->n_requests]);
    if (code) return mpi_fail(error, "MPI_Isend", code);
    m->n_requests++;
    return WEFT_OK;
}

static weft_status mpi_receive(transport *t, int from, int tag, void *into, size_t bytes, weft_error *error) {
    mpi_transport *m = mpi_of(t);
    int code = MPI_Irecv(into, (int)bytes, MPI_BYTE, from, tag, m->data, &m->requests[m->n_requests]);
    if (code) return mpi_fail(error, "MPI_Irecv", code);
    m->n_requests++;
    return WEFT_OK;
}

static weft_status mpi_progress(transport *t, bool *is_done, weft_error *error) {
    mpi_transport *m = mpi_of(t);
    int done = 0;
    int code = MPI_Testall(m->n_requests, m->requests, &done, MPI_STATUSES_IGNORE);
    if (code) return mpi_fail(error, "a transfer", code);
    if (done) m->n_requests = 0;
    *is_done = done;
    return WEFT_OK;
}

/* ---- control messages ---- */

static bool mpi_control_send(transport *t, int to, const control *message) {
    mpi_transport *m = mpi_of(t);
    for (int i = 0; i < m->n_sends; i++) {
        int done = 1;
        if (m->sends[i] != MPI_REQUEST_NULL && MPI_Test(&m->sends[i], &done, MPI_STATUS_IGNORE)) done = 0;
        if (!done) continue;
        m->outgoing[i] = *message;
        return MPI_Isend(&m->outgoing[i], sizeof *message, MPI_BYTE, to, CONTROL_TAG, m->control,
                         &m->sends[i]) == MPI_SUCCESS;
    }
    return false;
}

static bool mpi_control_receive(transport *t, control *message) {
    mpi_transport *m = mpi_of(t);
    int done = 0;
    if (m->standing == MPI_REQUEST_NULL || MPI_Test(&m->standing, &done, MPI_STATUS_IGNORE) || !done)
        return false;
    *message = m->incoming;
    if (stand_ready(m)) m->standing = MPI_REQUEST_NULL; /* its silence will be told by the deadline */
    return true;
}

static void mpi_nap(transport *t, double seconds) {
    (void)t;
    struct timespec length = {.tv_sec = (time_t)seconds,
                              .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&length, NULL); /* an early end only looks earlier */
}

/* ---- leaving ---- */

/* The reason has just been sent to all: let it leave first. */
static void mpi_stop(transport *t) {
    control unread;
    for (int i = 0; i < 200; i++) {
        while (mpi_control_receive(t, &unread)) {
        }
        mpi_nap(t, 1e-3);
    }
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Everybody is here and says no more; what is still on its way is taken in, so that no message is left unmatched. */
static void settle(mpi_transport *m) {
    MPI_Request all_here = MPI_REQUEST_NULL;
    int is_here = MPI_Ibarrier(m->control, &all_here) != MPI_SUCCESS, are_sent = 0, quiet = 0;
    uint64_t begin = engine_now();
    control unread;
    while ((!is_here || !are_sent || quiet < 5) && engine_now() - begin < CLOSE_NS) {
        quiet = is_here && are_sent ? quiet + 1 : 0;
        while (mpi_control_receive(&m->t, &unread)) quiet = 0;
        if (!is_here && MPI_Test(&all_here, &is_here, MPI_STATUS_IGNORE)) return;
        if (MPI_Testall(m->n_sends, m->sends, &are_sent, MPI_STATUSES_IGNORE)) return;
        mpi_nap(&m->t, 200e-6);
    }
    if (m->standing == MPI_REQUEST_NULL) return;
    MPI_Cancel(&m->standing);
    MPI_Wait(&m->standing, MPI_STATUS_IGNORE);
}

/* After a failure others may never come, so MPI_Finalize, which waits for them, is left out: the launcher ends the
 * job when this process does. */
static void mpi_close(transport *t, bool is_failed) {
    mpi_transport *m = mpi_of(t);
    m->is_left_open = is_failed;
    if (is_failed) return;
    settle(m);
    MPI_Comm_free(&m->data);
    MPI_Comm_free(&m->control);
    if (m->is_ours) MPI_Finalize();
}

static void mpi_free(transport *t) {
    mpi_transport *m = mpi_of(t);
    size_t w = (size_t)m->t.world;
    if (m->is_left_open) return;
    mem_free(&m->env, m->requests, 2 * w * sizeof *m->requests);
    mem_free(&m->env, m->sends, (size_t)m->n_sends * sizeof *m->sends);
    mem_free(&m->env, m->outgoing, (size_t)m->n_sends * sizeof *m->outgoing);
    weft_env env = m->env;
    mem_free(&env, m, sizeof *m);
}

static const transport_calls mpi_calls = {
    .kind = "mpi",
    .open = mpi_open,
    .send = mpi_send,
    .receive = mpi_receive,
    .progress = mpi_progress,
    .control_send = mpi_control_send,
    .control_receive = mpi_control_receive,
    .nap = mpi_nap,
    .stop = mpi_stop,
    .close = mpi_close,
    .free = mpi_free,
};

weft_comm *weft_comm_mpi(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    mpi_transport *m = mem_new(env, sizeof *m);
    if (!m) {
        error_memory(error, "a communicator");
        return NULL;
    }
    if (env) m->env = *env;
    m->t.calls = &mpi_calls;
    m->standing = MPI_REQUEST_NULL;
    m->has_launch = launch != NULL;
    if (launch) m->launch = *launch;
    return engine_comm(&m->t, options, error);
}
