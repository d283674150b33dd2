/* comm_local.c - Unix sockets as a transport: ranks of one machine, without MPI or another library. They
 * meet (dist/meet), and each gives the address of a socket; then every two are connected twice, for data and
 * for control messages. A packet arrives whole, and the packets of a connection keep their order. Most data
 * go through the window (dist/shm). */
#include "dist/core/clock.h"
#include "dist/core/comm_options.h"
#include "dist/meet/meet.h"
#include "dist/shm/share.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DATA, CONTROL, LINKS };
enum { PACKET = 1 << 16 /* bytes, at most */, SECRET = 16, OTHER_FILES = 64 };
#define LEAVE_NS      5000000000u /* how long leaving waits for the others */
#define HELLO_SECONDS 5.0         /* how long a connection may say nothing */

/* What a rank gives in the meeting: whoever knows its secret belongs to the job. */
typedef struct local_card {
    unsigned char secret[SECRET];
    socklen_t bytes;
    struct sockaddr_un address;
} local_card;

/* The first packet of a connection. */
typedef struct local_hello {
    unsigned char secret[SECRET]; /* of the rank that accepts */
    int32_t rank, link;           /* of the one that connects */
} local_hello;

/* What is left of a send or a receive of the batch. */
typedef struct piece {
    char *at;
    size_t left;
} piece;

typedef struct local_peer {
    int links[LINKS]; /* sockets; -1: not connected */
    piece out, in;
    bool has_left, has_ended; /* it said that it leaves; its connection has ended */
    bool knows;               /* it was sent that this rank leaves */
} local_peer;

typedef struct local_transport {
    transport t; /* first: what the engine holds */
    weft_env env;
    arena memory;
    weft_launch launch;
    double deadline_seconds;
    int64_t window_bytes;
    int listener; /* -1: closed */
    local_card card;
    meeting meeting;
    local_peer *peers; /* [world] */
    share_part *parts; /* [world] */
    int *ranks;        /* [world]: 0, 1, ...: all are of this machine */
} local_transport;

static local_transport *local_of(transport *t) {
    return (local_transport *)t;
}

/* ---- joining ---- */

/* Sets *error to what the system says. */
static weft_status local_fail(weft_error *error, const char *what) {
    const char *help = errno == EMFILE ? ": raise the limit (ulimit -n)" : "";
    return error_set(error, WEFT_IO, "%s: %s (a Unix socket)%s", what, errno_show(errno).text, help);
}

static int new_socket(void) {
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

/* The kernel chooses the address: it has no file, and ends with the socket. */
static weft_status listen_here(local_transport *l, weft_error *error) {
    local_card *c = &l->card;
    c->address.sun_family = AF_UNIX;
    c->bytes = sizeof c->address;
    meet_raise_files((uint64_t)l->t.world * (LINKS + 1) + OTHER_FILES);
    l->listener = new_socket();
    if (!meet_random(c->secret, SECRET, error)) return error->status;
    bool good = l->listener >= 0 &&
                !bind(l->listener, (struct sockaddr *)&c->address, sizeof c->address.sun_family) &&
                !listen(l->listener, LINKS * l->t.world) &&
                !getsockname(l->listener, (struct sockaddr *)&c->address, &c->bytes);
    return good ? WEFT_OK : local_fail(error, "to listen");
}

static weft_status connect_to(local_transport *l, int rank, int link, weft_error *error) {
    size_t bytes;
    local_card card = {0};
    local_hello hello = {.rank = l->t.rank, .link = link};
    const void *given = meet_card(&l->meeting, rank, &bytes);
    if (bytes == sizeof card) memcpy(&card, given, bytes);
    memcpy(hello.secret, card.secret, SECRET);
    int fd = l->peers[rank].links[link] = new_socket();
    bool good = fd >= 0 && card.bytes <= sizeof card.address &&
                !connect(fd, (struct sockaddr *)&card.address, card.bytes) &&
                send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
    return good ? WEFT_OK : local_fail(error, "to connect");
}

/* Whether something comes within this time; signals do not end the wait. */
static bool await_input(int fd, double seconds) {
    uint64_t begin = clock_now();
    for (double left = seconds; left > 0; left = seconds - clock_since(begin)) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int n = poll(&wait, 1, left < 0.5 ? (int)(left * 1000) + 1 : 500);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
    return false;
}

/* The place of a connection that a higher rank has made, by its first packet; NULL: a stranger's. */
static int *place_of(local_transport *l, int fd) {
    local_hello hello = {.rank = -1};
    if (!await_input(fd, HELLO_SECONDS) || recv(fd, &hello, sizeof hello, 0) != sizeof hello) return NULL;
    if (memcmp(hello.secret, l->card.secret, SECRET) != 0 || hello.rank <= l->t.rank ||
        hello.rank >= l->t.world || hello.link < 0 || hello.link >= LINKS)
        return NULL;
    int *place = &l->peers[hello.rank].links[hello.link];
    return *place < 0 ? place : NULL;
}

/* Strangers are sent away. */
static weft_status accept_one(local_transport *l, weft_error *error) {
    uint64_t begin = clock_now();
    while (await_input(l->listener, l->deadline_seconds - clock_since(begin))) {
        int fd = accept(l->listener, NULL, NULL);
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED) return local_fail(error, "to accept a rank");
        int *place = fd >= 0 && !fcntl(fd, F_SETFD, FD_CLOEXEC) ? place_of(l, fd) : NULL;
        if (place) *place = fd;
        if (place) return WEFT_OK;
        if (fd >= 0) close(fd);
    }
    return error_set(error, WEFT_PEER, "a rank has not connected within %.1f s", l->deadline_seconds);
}

static weft_status connect_all(local_transport *l, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int link = 0; link < LINKS; link++) {
        for (int i = 0; i < l->t.rank && !status; i++) status = connect_to(l, i, link, error);
        for (int i = l->t.rank + 1; i < l->t.world && !status; i++) status = accept_one(l, error);
    }
    return status;
}

static weft_status allocate_ranks(local_transport *l, weft_error *error) {
    size_t w = (size_t)l->t.world;
    l->peers = arena_new_array(&l->memory, w, sizeof *l->peers);
    l->parts = arena_new_array(&l->memory, w, sizeof *l->parts);
    l->ranks = arena_new_array(&l->memory, w, sizeof *l->ranks);
    for (int i = 0; l->peers && i < l->t.world; i++)
        l->peers[i].links[DATA] = l->peers[i].links[CONTROL] = -1;
    for (int i = 0; l->ranks && i < l->t.world; i++) l->ranks[i] = i;
    return l->peers && l->parts && l->ranks ? WEFT_OK : error_memory(error, "a communicator");
}

/* A rank that fails gives its reason in the next round of the meeting, in which all take part. */
static weft_status connect_ranks(local_transport *l, weft_error *error) {
    weft_error own = {0};
    if (!allocate_ranks(l, &own)) listen_here(l, &own);
    weft_status status =
        meet_round(&l->meeting, &l->card, sizeof l->card, own.status ? own.text : NULL, error);
    if (!status) connect_all(l, &own);
    if (!status) status = meet_round(&l->meeting, NULL, 0, own.status ? own.text : NULL, error);
    if (own.status && error) *error = own;
    return own.status ? own.status : status;
}

/* ---- the window: what the ranks exchange are rounds of the meeting ---- */

static weft_status gather_parts(transport *t, const char *what, void *parts, size_t bytes,
                                weft_error *error) {
    local_transport *l = local_of(t);
    char *at = parts;
    size_t n;
    weft_status status = meet_round(&l->meeting, at + (size_t)t->rank * bytes, bytes, NULL, error);
    for (int i = 0; i < t->world && !status; i++) {
        const void *card = meet_card(&l->meeting, i, &n);
        if (n != bytes) status = error_set(error, WEFT_PEER, "%s: rank %d gave %zu bytes", what, i, n);
        if (!status) memcpy(at + (size_t)i * bytes, card, bytes);
    }
    return status;
}

static weft_status local_open(transport *t, weft_error *error) {
    local_transport *l = local_of(t);
    const meet_options meet = {&l->env, &l->launch, "local", l->deadline_seconds};
    meet_begin(&l->meeting, &meet);
    weft_status status = connect_ranks(l, error);
    const share_options window = {&l->env, l->window_bytes, l->ranks, gather_parts, l->parts};
    if (!status) status = share_window(t, &window, error);
    meet_end(&l->meeting);
    return status;
}

/* ---- data ---- */

static weft_status local_send(transport *t, int to, int tag, const void *from, size_t bytes,
                              weft_error *error) {
    (void)tag, (void)error; /* the packets of a connection come in the order of the batches */
    local_of(t)->peers[to].out = (piece){(char *)(uintptr_t)from, bytes};
    return WEFT_OK;
}

static weft_status local_receive(transport *t, int from, int tag, void *into, size_t bytes,
                                 weft_error *error) {
    (void)tag, (void)error;
    local_of(t)->peers[from].in = (piece){into, bytes};
    return WEFT_OK;
}

static size_t packet_of(const piece *p) {
    return p->left < PACKET ? p->left : PACKET;
}

/* Whether the last call failed for now. */
static bool may_succeed_later(void) {
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
}

/* Whether a call may succeed later, or its other end is gone (local_ending() reports that): no error yet. */
static bool may_pass(void) {
    return may_succeed_later() || errno == EPIPE || errno == ECONNRESET;
}

/* As many packets as fit. A connection that has ended takes no more and gives none: the batch stays open. */
static bool move_pieces(local_peer *p) {
    ssize_t n = 1;
    for (piece *out = &p->out; out->left && n > 0;) {
        n = send(p->links[DATA], out->at, packet_of(out), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) out->at += n, out->left -= (size_t)n;
    }
    if (n < 0 && !may_pass()) return false;
    n = 1;
    for (piece *in = &p->in; in->left && n > 0;) {
        n = recv(p->links[DATA], in->at, packet_of(in), MSG_DONTWAIT);
        if (n > 0) in->at += n, in->left -= (size_t)n;
    }
    return n >= 0 || may_pass();
}

static weft_status local_progress(transport *t, bool *is_done, weft_error *error) {
    *is_done = true;
    for (int i = 0; i < t->world; i++) {
        local_peer *p = &local_of(t)->peers[i];
        if (!move_pieces(p)) return local_fail(error, "to move data");
        if (p->out.left || p->in.left) *is_done = false;
    }
    return WEFT_OK;
}

static void local_withdraw(transport *t) {
    for (int i = 0; i < t->world; i++) local_of(t)->peers[i].out = local_of(t)->peers[i].in = (piece){0};
}

/* ---- control messages ---- */

/* To a rank that has gone it counts as sent. */
static bool send_control(local_peer *p, const void *message, size_t bytes) {
    if (send(p->links[CONTROL], message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    return !may_succeed_later();
}

static bool local_control_send(transport *t, int to, const control *message) {
    return send_control(&local_of(t)->peers[to], message, sizeof *message);
}

/* One byte instead of a message: the rank leaves. */
static bool local_control_receive(transport *t, control *message) {
    for (int i = 0; i < t->world; i++) {
        local_peer *p = &local_of(t)->peers[i];
        if (i == t->rank || p->has_left || p->has_ended) continue;
        ssize_t n = recv(p->links[CONTROL], message, sizeof *message, MSG_DONTWAIT);
        if (n == sizeof *message) return true;
        p->has_left = n == 1;
        p->has_ended = n == 0;
    }
    return false;
}

/* Where messages go through the window, nobody else reads the connection. */
static bool says_it_leaves(local_peer *p) {
    char packet[2];
    if (recv(p->links[CONTROL], packet, sizeof packet, MSG_DONTWAIT | MSG_PEEK) == 1) p->has_left = true;
    return p->has_left;
}

static const char *local_ending(transport *t, int rank) {
    local_peer *p = &local_of(t)->peers[rank];
    if (says_it_leaves(p)) return NULL;
    return p->has_ended ? "its process has ended" : share_ending(t, rank);
}

/* ---- leaving ---- */

/* Whether all have left, too; this rank informs those that do not know it yet. */
static bool all_leave(local_transport *l) {
    bool all = true;
    for (int i = 0; i < l->t.world; i++) {
        local_peer *p = &l->peers[i];
        if (i == l->t.rank) continue;
        p->knows = p->knows || send_control(p, "", 1);
        all = all && p->knows && (p->has_left || p->has_ended);
    }
    return all;
}

static void local_close(transport *t, bool is_failed) {
    control unread;
    uint64_t begin = clock_now();
    while (!is_failed && !all_leave(local_of(t)) && clock_now() - begin < LEAVE_NS) {
        while (local_control_receive(t, &unread)) {
        }
        clock_nap(50e-6);
    }
    share_end(t);
}

static void local_free(transport *t) {
    local_transport *l = local_of(t);
    for (int i = 0; l->peers && i < t->world; i++)
        for (int link = 0; link < LINKS; link++)
            if (l->peers[i].links[link] >= 0) close(l->peers[i].links[link]);
    if (l->listener >= 0) close(l->listener);
    arena_free(&l->memory);
    window_free(t->window);
    weft_env env = l->env;
    mem_free(&env, l, sizeof *l);
}

static const transport_calls local_calls = {
    .kind = "local",
    .open = local_open,
    .send = local_send,
    .receive = local_receive,
    .progress = local_progress,
    .control_send = local_control_send,
    .control_receive = local_control_receive,
    .ending = local_ending,
    .withdraw = local_withdraw,
    .close = local_close,
    .free = local_free,
};

weft_comm *weft_comm_local(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    weft_launch found;
    if (comm_options_check(options, error)) return NULL;
    if (!(launch = comm_launch(launch, "weft_comm_local", &found, error))) return NULL;
    if (launch->world == 1) return weft_comm_self(options, error);
    if (launch->local_world && launch->local_world != launch->world) {
        error_set(error, WEFT_UNSUPPORTED,
                  "%d of %d ranks are on this machine: ranks of several machines need UCX or MPI",
                  launch->local_world, launch->world);
        return NULL;
    }
    local_transport *l = mem_new(env, sizeof *l);
    if (!l) {
        error_memory(error, "a communicator");
        return NULL;
    }
    if (env) l->env = *env;
    arena_init(&l->memory, &l->env);
    l->t = (transport){&local_calls, launch->rank, launch->world, launch->rank, launch->world, 50e-6, NULL};
    l->launch = *launch;
    l->window_bytes = options ? options->window_bytes : 0;
    l->deadline_seconds = comm_deadline(options);
    l->listener = -1;
    return engine_comm(&l->t, options, error);
}
