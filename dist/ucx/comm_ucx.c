/* comm_ucx.c - UCX as a transport, for ranks without MPI. The engine's thread makes every call. Data and
 * control messages are UCP's tagged messages, polled between naps as over MPI; control messages have one open
 * receive from any rank, and a pool of sends that are reused when done.
 *
 * UCX has one thread of its own, where it listens for TCP connections. */
#include "dist/ucx/transport.h"

#include "dist/core/comm_options.h"
#include "dist/engine/engine.h"

enum { POOL = 16 };          /* control messages being sent are at most POOL + 4 per rank */
#define GRACE_NS 500000000u  /* a rank that ends after its own error has sent the reason before */
#define CLOSE_NS 2000000000u /* how long closing waits for connections to end */

static ucx_transport *ucx_of(transport *t) {
    return (ucx_transport *)t;
}

/* ---- joining ---- */

/* Opens the receive of the next control message. */
static ucs_status_t stand_ready(ucx_transport *u) {
    const ucp_request_param_t how = {0};
    u->standing = ucp_tag_recv_nbx(u->worker, &u->incoming, sizeof u->incoming, ucx_tag(UCX_CONTROL, 0, 0),
                                   ucx_tag(0xf, 0, 0), &how);
    ucs_status_t status = UCS_PTR_STATUS(u->standing);
    u->has_incoming = !u->standing;
    if (UCS_PTR_IS_ERR(u->standing)) u->standing = NULL;
    return status < 0 ? status : UCS_OK;
}

/* All tables; ucx_free frees them. */
static weft_status make_tables(ucx_transport *u, weft_error *error) {
    size_t w = (size_t)u->t.world;
    u->n_sends = POOL + 4 * u->t.world;
    u->peers = arena_new_array(&u->memory, w, sizeof *u->peers);
    u->requests = arena_new_array(&u->memory, 2 * w, sizeof *u->requests);
    u->sends = arena_new_array(&u->memory, (size_t)u->n_sends, sizeof *u->sends);
    u->outgoing = arena_new_array(&u->memory, (size_t)u->n_sends, sizeof *u->outgoing);
    u->locals = arena_new_array(&u->memory, w, sizeof *u->locals);
    u->parts = arena_new_array(&u->memory, w, sizeof *u->parts);
    if (!u->peers || !u->requests || !u->sends || !u->outgoing || !u->locals || !u->parts)
        return error_memory(error, "a communicator");
    for (size_t i = 0; i < w; i++) u->peers[i].of = u;
    return WEFT_OK;
}

/* A rank that fails here tells the others in the meeting, which would wait for it otherwise. */
static weft_status ucx_open(transport *t, weft_error *error) {
    ucx_transport *u = ucx_of(t);
    weft_error own = {0};
    u->is_left_open = true; /* until all has gone well */
    weft_status status = make_tables(u, &own);
    if (!status) status = ucx_open_worker(u, &own);
    if (!status) {
        ucs_status_t code = stand_ready(u);
        if (code) status = ucx_fail(&own, WEFT_IO, "ucp_tag_recv_nbx", code);
    }
    const char *why = status ? own.text : NULL;
    status = ucx_join(u, why, error);
    if (why && error) *error = own;
    if (why) return own.status;
    if (!status) status = ucx_window_open(u, error);
    /* As over MPI: short naps pay off on one machine, and take the cores' time on a network. */
    t->nap_seconds = t->local_world != t->world ? 500e-6 : 50e-6;
    u->is_left_open = status != WEFT_OK;
    return status;
}

/* ---- data ---- */

/* A transfer that failed: ucx_ending will name the rank whose connection broke, and the engine then ends the
 * batch, which is never done. */
static void note_broken(ucx_transport *u, ucs_status_t status) {
    if (!u->broken) u->broken_ns = clock_now();
    u->broken = status;
}

static void begin_request(ucx_transport *u, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request))
        note_broken(u, UCS_PTR_STATUS(request));
    else if (request) /* NULL: done already */
        u->requests[u->n_requests++] = request;
}

/* Messages with one tag between two ranks keep their order. */
static weft_status ucx_send(transport *t, int to, int tag, const void *from, size_t bytes,
                            weft_error *error) {
    ucx_transport *u = ucx_of(t);
    const ucp_request_param_t how = {0};
    (void)error;
    begin_request(u, ucp_tag_send_nbx(u->peers[to].endpoint, from, bytes,
                                      ucx_tag(UCX_DATA, t->rank, (uint32_t)tag), &how));
    return WEFT_OK;
}

static weft_status ucx_receive(transport *t, int from, int tag, void *into, size_t bytes, weft_error *error) {
    ucx_transport *u = ucx_of(t);
    const ucp_request_param_t how = {0};
    (void)error;
    begin_request(u, ucp_tag_recv_nbx(u->worker, into, bytes, ucx_tag(UCX_DATA, from, (uint32_t)tag),
                                      UINT64_MAX, &how));
    return WEFT_OK;
}

/* No connection has broken, and yet a transfer has failed: an error by itself. */
static bool is_broken_alone(const ucx_transport *u) {
    for (int i = 0; i < u->t.world; i++)
        if (u->peers[i].failure) return false;
    return u->broken && clock_now() - u->broken_ns > 2 * GRACE_NS;
}

static weft_status ucx_progress(transport *t, bool *is_done, weft_error *error) {
    ucx_transport *u = ucx_of(t);
    while (ucp_worker_progress(u->worker)) {
    }
    int left = 0;
    for (int i = 0; i < u->n_requests; i++) {
        ucs_status_t status;
        bool is_over = ucx_is_over(&u->requests[i], &status);
        if (status < 0) note_broken(u, status);
        if (!is_over) u->requests[left++] = u->requests[i];
    }
    u->n_requests = left;
    *is_done = left == 0 && !u->broken;
    return is_broken_alone(u) ? ucx_fail(error, WEFT_PEER, "a transfer", u->broken) : WEFT_OK;
}

/* ---- control messages ---- */

/* Reuses a place of the pool that is done; false if all are busy. To a rank that has gone they count as
 * sent. */
static bool ucx_control_send(transport *t, int to, const control *message) {
    ucx_transport *u = ucx_of(t);
    const ucp_request_param_t how = {0};
    ucs_status_t status;
    ucp_worker_progress(u->worker);
    if (u->peers[to].failure) return true;
    for (int i = 0; i < u->n_sends; i++) {
        if (!ucx_is_over(&u->sends[i], &status)) continue;
        u->outgoing[i] = *message;
        u->sends[i] = ucp_tag_send_nbx(u->peers[to].endpoint, &u->outgoing[i], sizeof *message,
                                       ucx_tag(UCX_CONTROL, t->rank, 0), &how);
        return true;
    }
    return false;
}

/* Copies the message and opens the receive again. */
static bool ucx_control_receive(transport *t, control *message) {
    ucx_transport *u = ucx_of(t);
    ucs_status_t status = UCS_OK;
    ucp_worker_progress(u->worker);
    if (!u->has_incoming && (!u->standing || !ucx_is_over(&u->standing, &status))) return false;
    *message = u->incoming;
    stand_ready(u); /* if it fails this rank hears nothing more, and the deadline reports it */
    return status == UCS_OK;
}

/* Ranks of this machine by their processes, at once; others by their connections, after a while in which the
 * reason of a rank that gave up comes first. */
static const char *ucx_ending(transport *t, int rank) {
    const ucx_peer *p = &ucx_of(t)->peers[rank];
    const char *process = share_ending(t, rank);
    if (process) return process;
    return p->failure && clock_now() - p->failed_ns > GRACE_NS ? p->ending : NULL;
}

/* ---- leaving ---- */

/* The launcher ends the other processes when this one ends. */
static void ucx_stop(transport *t, int code) {
    (void)code;
    transport_drain(t);
}

/* Ends the connections, each after what is on its way. */
static void close_endpoints(ucx_transport *u) {
    const ucp_request_param_t gently = {0};
    const ucp_request_param_t at_once = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                         .flags = UCP_EP_CLOSE_FLAG_FORCE};
    uint64_t begin = clock_now();
    ucs_status_t status;
    int n = 0, left;
    for (int i = 0; i < u->t.world; i++) {
        ucx_peer *p = &u->peers[i];
        if (p->endpoint) u->requests[n++] = ucp_ep_close_nbx(p->endpoint, p->failure ? &at_once : &gently);
    }
    do {
        left = 0;
        while (ucp_worker_progress(u->worker)) {
        }
        for (int i = 0; i < n; i++) left += !ucx_is_over(&u->requests[i], &status);
        if (left) clock_nap(100e-6);
    } while (left && clock_now() - begin < CLOSE_NS);
}

/* After a failure other ranks may never come; then nothing is waited for, and UCX is left as it is. */
static void ucx_close(transport *t, bool is_failed) {
    ucx_transport *u = ucx_of(t);
    ucs_status_t status;
    u->is_left_open = is_failed;
    if (is_failed) return;
    ucx_part_ways(u);
    close_endpoints(u);
    if (u->standing) ucp_request_cancel(u->worker, u->standing);
    for (int i = 0; i < 1000 && !ucx_is_over(&u->standing, &status); i++) ucp_worker_progress(u->worker);
    share_end(t);
    ucp_worker_destroy(u->worker);
    ucp_cleanup(u->context);
}

/* After a failure the memory is kept, as UCX may still write into it. */
static void ucx_free(transport *t) {
    ucx_transport *u = ucx_of(t);
    if (u->is_left_open) return;
    window_free(u->t.window);
    arena_free(&u->memory);
    weft_env env = u->env;
    mem_free(&env, u, sizeof *u);
}

static const transport_calls ucx_calls = {
    .kind = "ucx",
    .open = ucx_open,
    .send = ucx_send,
    .receive = ucx_receive,
    .progress = ucx_progress,
    .control_send = ucx_control_send,
    .control_receive = ucx_control_receive,
    .ending = ucx_ending,
    .stop = ucx_stop,
    .close = ucx_close,
    .free = ucx_free,
};

/* UCX itself is opened by ucx_open, on the engine's thread. */
weft_comm *weft_comm_ucx(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    weft_launch found;
    if (comm_options_check(options, error)) return NULL;
    if (!(launch = comm_launch(launch, "weft_comm_ucx", &found, error))) return NULL;
    if (launch->world == 1) return weft_comm_self(options, error);
    if (!launch->address || !launch->port) {
        error_set(error, WEFT_NAME,
                  "rank %d of %d: the address where ranks meet is unknown: set MASTER_ADDR and MASTER_PORT",
                  launch->rank, launch->world);
        return NULL;
    }
    ucx_transport *u = mem_new(env, sizeof *u);
    if (!u) {
        error_memory(error, "a communicator");
        return NULL;
    }
    ucx_tame();
    if (env) u->env = *env;
    arena_init(&u->memory, &u->env);
    u->t.calls = &ucx_calls;
    u->t.rank = launch->rank;
    u->t.world = launch->world;
    u->launch = *launch;
    u->window_bytes = options ? options->window_bytes : 0;
    u->deadline_seconds = comm_deadline(options);
    return engine_comm(&u->t, options, error);
}
