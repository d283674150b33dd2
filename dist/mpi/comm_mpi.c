/* comm_mpi.c - MPI as a transport. The engine's thread makes every MPI call, from MPI_Init_thread to
 * MPI_Finalize. Only opening and closing block. Transfers are Isend and Irecv, polled with Testsome between
 * naps, because a blocking call spins and takes half a core from the computing threads.
 *
 * Between machines a transfer is cut into pieces that Open MPI still sends at once (64 KiB with its header).
 * Its rendezvous protocol queues the answer "send now" after its own data on the same socket, so two ranks
 * that exchange large messages take turns. Measured on a link of 1 Gbit/s, all_reduce of 25 MB: 389 ms whole,
 * 337 ms in pieces of 256 KiB, 218 ms in these; the link's limit is 200 ms.
 *
 * There are two communicators: one for data (up to PIECES requests per transfer) and one for control
 * messages, which are small enough to be sent at once. Those have one open receive from any rank, and a pool
 * of sends that are reused when done. Ranks of one machine share a window besides (mpi/window.c). */
#include "dist/mpi/transport.h"

#include "dist/core/comm_options.h"
#include "dist/engine/engine.h"

enum { CONTROL_TAG = 1, POOL = 16 }; /* POOL: control messages being sent are at most POOL + 4 per rank */
#define CLOSE_NS 5000000000u         /* ns; how long closing waits for the last control messages */

static mpi_transport *mpi_of(transport *t) {
    return (mpi_transport *)t;
}

/* ---- joining ---- */

/* Initializes MPI, or checks the thread level if the program has done so. */
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

/* Under a launcher that MPI does not know, every process becomes rank 0 of a one-rank world. */
static weft_status check_launch(const mpi_transport *m, weft_error *error) {
    if (!m->has_launch || (m->launch.rank == m->t.rank && m->launch.world == m->t.world)) return WEFT_OK;
    return error_set(
        error, WEFT_ARGUMENT,
        "the launcher (%s) says rank %d of %d, MPI says rank %d of %d: start the program with the mpirun of "
        "the MPI that it is linked with, or srun --mpi=pmix",
        m->launch.launcher, m->launch.rank, m->launch.world, m->t.rank, m->t.world);
}

/* Copies of the world, so that messages never mix with the program's own, and the ranks of this machine. */
static weft_status make_comms(mpi_transport *m, weft_error *error) {
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &m->data);
    if (!code) code = MPI_Comm_dup(MPI_COMM_WORLD, &m->control);
    if (!code) code = MPI_Comm_set_errhandler(m->data, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_set_errhandler(m->control, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_rank(m->data, &m->t.rank);
    if (!code) code = MPI_Comm_size(m->data, &m->t.world);
    if (!code) code = MPI_Comm_split_type(m->data, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->host);
    if (!code) code = MPI_Comm_set_errhandler(m->host, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_rank(m->host, &m->t.local_rank);
    if (!code) code = MPI_Comm_size(m->host, &m->t.local_world);
    return code ? mpi_fail(error, "making MPI communicators", code) : WEFT_OK;
}

/* Opens the receive of the next control message. */
static int stand_ready(mpi_transport *m) {
    return MPI_Irecv(&m->incoming, sizeof m->incoming, MPI_BYTE, MPI_ANY_SOURCE, CONTROL_TAG, m->control,
                     &m->standing);
}

/* All tables; mpi_free frees them. */
static weft_status make_requests(mpi_transport *m, weft_error *error) {
    size_t w = (size_t)m->t.world, n_requests = 2 * w * PIECES;
    m->n_sends = POOL + 4 * m->t.world;
    m->transfers = arena_new_array(&m->memory, 2 * w, sizeof *m->transfers);
    m->requests = arena_new_array(&m->memory, n_requests, sizeof *m->requests);
    m->finished = arena_new_array(&m->memory, n_requests, sizeof *m->finished);
    m->counts = arena_new_array(&m->memory, w, sizeof *m->counts);
    m->parts = arena_new_array(&m->memory, w, sizeof *m->parts);
    m->sends = arena_new_array(&m->memory, (size_t)m->n_sends, sizeof *m->sends);
    m->outgoing = arena_new_array(&m->memory, (size_t)m->n_sends, sizeof *m->outgoing);
    if (!m->transfers || !m->requests || !m->finished || !m->counts || !m->parts || !m->sends || !m->outgoing)
        return error_memory(error, "a communicator");
    for (size_t i = 0; i < n_requests; i++) m->requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < m->n_sends; i++) m->sends[i] = MPI_REQUEST_NULL;
    int code = stand_ready(m);
    return code ? mpi_fail(error, "MPI_Irecv", code) : WEFT_OK;
}

/* The steps that a rank can fail alone, before it meets the others again. */
static weft_status open_own(mpi_transport *m, weft_error *error) {
    weft_status status = check_launch(m, error);
    if (!status) status = make_requests(m, error);
    return status ? status : mpi_sums_open(m, error);
}

/* Joins the world. A rank that failed reports it to the others, which would wait for it otherwise. */
static weft_status join_world(mpi_transport *m, weft_error *error) {
    weft_error own = {0};
    open_own(m, &own);
    weft_status status = mpi_settle(m, m->data, "joining the world", own.status ? own.text : NULL, error);
    if (own.status) {
        if (error) *error = own;
        return own.status;
    }
    if (status || m->vote.first < 0) return status;
    return error_set(error, WEFT_IO, "rank %d could not join: %s", m->vote.first, m->vote.why);
}

static weft_status mpi_open(transport *t, weft_error *error) {
    mpi_transport *m = mpi_of(t);
    weft_status status = init_mpi(m, error);
    if (!status) status = make_comms(m, error);
    if (!status) status = join_world(m, error);
    if (!status) status = mpi_window_open(m, error);
    /* Measured for two ranks: short naps pay off over shared memory, but take the cores' time on a
     * network. */
    bool is_network = t->local_world != t->world;
    t->nap_seconds = is_network ? 500e-6 : 50e-6;
    m->piece_bytes = is_network ? PIECE_BYTES : ROUND_MOVE_BYTES;
    m->is_left_open = status != WEFT_OK; /* a request may still be active */
    return status;
}

/* ---- data ---- */

/* Starts the next piece of the transfer that this request belongs to, if any bytes are left. */
static int issue(mpi_transport *m, int request) {
    transfer *t = &m->transfers[request / PIECES];
    size_t n = t->left < m->piece_bytes ? t->left : m->piece_bytes;
    if (!n) return MPI_SUCCESS;
    int code = t->is_send
                   ? MPI_Isend(t->at, (int)n, MPI_BYTE, t->peer, t->tag, m->data, &m->requests[request])
                   : MPI_Irecv(t->at, (int)n, MPI_BYTE, t->peer, t->tag, m->data, &m->requests[request]);
    if (code) return code;
    t->at += n;
    t->left -= n;
    m->n_under_way++;
    return MPI_SUCCESS;
}

/* Adds a transfer to the batch and starts its first pieces. */
static int begin_transfer(mpi_transport *m, transfer t) {
    int code = MPI_SUCCESS, first = m->n_transfers * PIECES;
    m->transfers[m->n_transfers++] = t;
    for (int i = 0; i < PIECES && !code; i++) code = issue(m, first + i);
    return code;
}

/* Messages of one tag between two ranks keep their order, so the pieces need no numbers. */
static weft_status mpi_send(transport *t, int to, int tag, const void *from, size_t bytes,
                            weft_error *error) {
    /* const in effect: MPI only reads it */
    int code = begin_transfer(mpi_of(t), (transfer){true, to, tag, (char *)from, bytes});
    return code ? mpi_fail(error, "MPI_Isend", code) : WEFT_OK;
}

static weft_status mpi_receive(transport *t, int from, int tag, void *into, size_t bytes, weft_error *error) {
    int code = begin_transfer(mpi_of(t), (transfer){false, from, tag, into, bytes});
    return code ? mpi_fail(error, "MPI_Irecv", code) : WEFT_OK;
}

/* Each finished request starts the next piece of its transfer; when none is active, the batch is done. */
static weft_status mpi_progress(transport *t, bool *is_done, weft_error *error) {
    mpi_transport *m = mpi_of(t);
    for (int n = 1; n > 0 && m->n_under_way;) {
        int code = MPI_Testsome(m->n_transfers * PIECES, m->requests, &n, m->finished, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n && !code; i++) {
            m->n_under_way--;
            code = issue(m, m->finished[i]);
        }
        if (code) return mpi_fail(error, "a transfer", code);
    }
    *is_done = m->n_under_way == 0;
    if (*is_done) m->n_transfers = 0;
    return WEFT_OK;
}

/* ---- control messages ---- */

/* Reuses a request of the pool that is done; false if all are busy. */
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

/* Copies the message and opens the receive again. */
static bool mpi_control_receive(transport *t, control *message) {
    mpi_transport *m = mpi_of(t);
    int done = 0;
    if (m->standing == MPI_REQUEST_NULL || MPI_Test(&m->standing, &done, MPI_STATUS_IGNORE) || !done)
        return false;
    *message = m->incoming;
    /* then this rank hears nothing more, and the deadline reports it */
    if (stand_ready(m)) m->standing = MPI_REQUEST_NULL;
    return true;
}

/* ---- leaving ---- */

/* Aborts the job, after the reason has left. */
static void mpi_stop(transport *t, int code) {
    transport_drain(t);
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* After a barrier, in which all ranks have stopped sending, takes in the messages still on their way, so that
 * none is left unmatched. Bounded by CLOSE_NS. */
static void settle(mpi_transport *m) {
    MPI_Request all_here = MPI_REQUEST_NULL;
    int is_here = MPI_Ibarrier(m->control, &all_here) != MPI_SUCCESS, are_sent = 0, quiet = 0;
    uint64_t begin = clock_now();
    control unread;
    while ((!is_here || !are_sent || quiet < 5) && clock_now() - begin < CLOSE_NS) {
        quiet = is_here && are_sent ? quiet + 1 : 0;
        while (mpi_control_receive(&m->t, &unread)) quiet = 0;
        if (!is_here && MPI_Test(&all_here, &is_here, MPI_STATUS_IGNORE)) return;
        if (MPI_Testall(m->n_sends, m->sends, &are_sent, MPI_STATUSES_IGNORE)) return;
        clock_nap(200e-6);
    }
    if (m->standing == MPI_REQUEST_NULL) return;
    MPI_Cancel(&m->standing);
    MPI_Wait(&m->standing, MPI_STATUS_IGNORE);
}

/* After a failure other ranks may never come, so MPI_Finalize, which waits for them, is left out: the
 * launcher ends the job when this process ends. */
static void mpi_close(transport *t, bool is_failed) {
    mpi_transport *m = mpi_of(t);
    m->is_left_open = is_failed;
    if (is_failed) return;
    settle(m);
    share_end(&m->t);
    mpi_sums_close(m);
    MPI_Comm_free(&m->data);
    MPI_Comm_free(&m->control);
    MPI_Comm_free(&m->host);
    if (m->is_ours) MPI_Finalize();
}

/* After a failure the memory is kept, as MPI may still write into it. */
static void mpi_free(transport *t) {
    mpi_transport *m = mpi_of(t);
    if (m->is_left_open) return;
    window_free(m->t.window);
    arena_free(&m->memory);
    weft_env env = m->env;
    mem_free(&env, m, sizeof *m);
}

static const transport_calls mpi_calls = {
    .kind = "mpi",
    .open = mpi_open,
    .send = mpi_send,
    .receive = mpi_receive,
    .progress = mpi_progress,
    .group = mpi_group_open,
    .sum = mpi_sum,
    .control_send = mpi_control_send,
    .control_receive = mpi_control_receive,
    .ending = share_ending,
    .stop = mpi_stop,
    .close = mpi_close,
    .free = mpi_free,
};

/* MPI itself is initialized by mpi_open, on the engine's thread. */
weft_comm *weft_comm_mpi(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    if (comm_options_check(options, error)) return NULL;
    mpi_transport *m = mem_new(env, sizeof *m);
    if (!m) {
        error_memory(error, "a communicator");
        return NULL;
    }
    if (env) m->env = *env;
    arena_init(&m->memory, &m->env);
    m->t.calls = &mpi_calls;
    m->standing = MPI_REQUEST_NULL;
    m->window_bytes = options ? options->window_bytes : 0;
    m->deadline_seconds = comm_deadline(options);
    m->has_launch = launch != NULL;
    if (launch) m->launch = *launch;
    return engine_comm(&m->t, options, error);
}
