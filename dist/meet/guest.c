/* guest.c - the other ranks' side of a meeting: connect until rank 0 listens, prove the token, tell, wait for
 * the table. Every wait ends at the deadline. */
#include "dist/meet/meet.h"

#include "dist/core/clock.h"
#include "graph/core/error.h"
#include "weft/api.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WHY = 160, TEXT = 400 };
#define NAP_SECONDS 50e-3       /* between two attempts to connect */
#define PATIENCE_NS 1000000000u /* past the deadline, for rank 0's word on who is missing */

/* An attempt's end. */
typedef enum attempt { DONE, AGAIN, OVER } attempt; /* OVER: *error is set */

/* ---- waiting ---- */

/* Waits until the socket is ready for `events`; false at the deadline. */
static bool ready(int fd, short events, uint64_t until_ns) {
    for (;;) {
        uint64_t now = weft_clock_ns();
        struct pollfd p = {.fd = fd, .events = events};
        if (now >= until_ns) return false;
        uint64_t ms = (until_ns - now) / 1000000u + 1;
        if (poll(&p, 1, ms > 1000 ? 1000 : (int)ms) > 0) return true;
    }
}

/* Sends all bytes; false when the connection broke or the deadline passed. */
static bool send_all(int fd, const unsigned char *bytes, size_t n, uint64_t until_ns) {
    while (n) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        bool is_full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (sent < 0 && (!is_full || !ready(fd, POLLOUT, until_ns))) return false;
        if (sent < 0) continue;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Receives n bytes; how many came before the connection ended or the deadline passed. */
static size_t hear(int fd, unsigned char *into, size_t n, uint64_t until_ns) {
    size_t at = 0;
    while (at < n && ready(fd, POLLIN, until_ns)) {
        ssize_t got = recv(fd, into + at, n - at, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
        if (got <= 0) break;
        at += (size_t)got;
    }
    return at;
}

/* ---- connecting ---- */

/* Connects to one address; -1 with the reason, and *is_own where it is a limit of this process. An attempt
 * that the deadline cuts off says less than the one before. */
static int connect_to(const struct addrinfo *a, uint64_t until_ns, char why[WHY], bool *is_own) {
    int code = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof code;
    if (fd >= 0 && meet_prepare(fd)) {
        if (!connect(fd, a->ai_addr, a->ai_addrlen)) return fd;
        code = errno;
        if (code == EINPROGRESS) {
            bool is_over = ready(fd, POLLOUT, until_ns);
            if (!is_over || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n)) code = ETIMEDOUT;
            if (!code) return fd;
            if (!is_over && *why) code = 0;
        }
    } else {
        code = errno;
        *is_own = code == EMFILE || code == ENFILE;
    }
    if (fd >= 0) close(fd);
    if (code) text_cut(why, errno_show(code).text, WHY);
    return -1;
}

/* Connects to rank 0, once. */
static attempt connect_once(meeting *m, uint64_t until_ns, char why[WHY], weft_error *error) {
    const weft_launch *l = m->options.launch;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[16];
    bool is_own = false;
    snprintf(port, sizeof port, "%d", l->port);
    int code = getaddrinfo(l->address, port, &hints, &found);
    if (code) snprintf(why, WHY, "%s", gai_strerror(code));
    for (const struct addrinfo *a = found; a && m->fd < 0; a = a->ai_next)
        m->fd = connect_to(a, until_ns, why, &is_own);
    if (found) freeaddrinfo(found);
    if (m->fd >= 0) return DONE;
    if (!is_own) return AGAIN;
    error_set(error, WEFT_IO, "rank %d of %d cannot open a connection to rank 0: %s (ulimit -n)", l->rank,
              l->world, why);
    return OVER;
}

/* ---- the proof ---- */

static weft_status stranger(const meeting *m, const char *what, weft_error *error) {
    const weft_launch *l = m->options.launch;
    error_set(error, WEFT_ARGUMENT, "rank %d of %d: at %s:%d (MASTER_ADDR, MASTER_PORT) %s", l->rank,
              l->world, SHOW(l->address), l->port, what);
    return WEFT_ARGUMENT;
}

/* Proves the token to rank 0, and has it prove the same. */
static attempt prove(meeting *m, uint64_t until_ns, char why[WHY], weft_error *error) {
    unsigned char challenge[MEET_CHALLENGE], claim[MEET_CLAIM], nonce[MEET_NONCE], answer[MEET_DIGEST];
    if (!m->has_token && !meet_is_local(m->fd)) {
        stranger(m,
                 "is another machine, where ranks prove a token: set WEFT_JOB_TOKEN to the same secret on "
                 "all ranks",
                 error);
        return OVER;
    }
    size_t n = hear(m->fd, challenge, sizeof challenge, until_ns);
    snprintf(why, WHY,
             n || weft_clock_ns() < until_ns ? "the connection ended" : "what listens there says nothing");
    if (n < sizeof challenge) return AGAIN;
    if (!meet_challenge_check(challenge)) {
        stranger(m, "listens something else than rank 0 of Weft: choose another port", error);
        return OVER;
    }
    if (!meet_random(nonce, sizeof nonce, error)) return OVER;
    meet_claim(&m->key, challenge, nonce, claim);
    if (!send_all(m->fd, claim, sizeof claim, until_ns)) return AGAIN;
    if (hear(m->fd, answer, sizeof answer, until_ns) < sizeof answer) return AGAIN;
    if (!meet_answer_check(&m->key, challenge, claim, answer)) {
        stranger(m,
                 "listens rank 0 of another job, or with another token: WEFT_JOB_TOKEN must be the same on "
                 "all ranks",
                 error);
        return OVER;
    }
    m->frames = meet_key_of_frames(&m->key, challenge, claim);
    return DONE;
}

/* Until rank 0 is found and has let this rank in. */
static weft_status find_host(meeting *m, uint64_t until_ns, weft_error *error) {
    const weft_launch *l = m->options.launch;
    char why[WHY] = "";
    for (;;) {
        attempt a = connect_once(m, until_ns, why, error);
        if (a == DONE) a = prove(m, until_ns, why, error);
        if (a == DONE) return WEFT_OK;
        if (m->fd >= 0) close(m->fd);
        m->fd = -1;
        if (a == OVER) return error && error->status ? error->status : WEFT_ARGUMENT;
        if (weft_clock_ns() + (uint64_t)(NAP_SECONDS * 1e9) >= until_ns) break;
        clock_nap(NAP_SECONDS);
    }
    return error_set(
        error, WEFT_PEER,
        "rank %d of %d: rank 0 was not found at %s:%d (MASTER_ADDR, MASTER_PORT) within %.1f s: %s", l->rank,
        l->world, SHOW(l->address), l->port, m->options.deadline_seconds, why);
}

/* ---- a round ---- */

/* The table came, or a text. OVER when this is the end. */
static attempt take_frame(meeting *m, uint32_t kind, size_t n, char missing[TEXT], weft_error *error) {
    int rank = m->options.launch->rank;
    size_t some;
    if (kind == MEET_TABLE) {
        m->table_bytes = n;
        if (meet_table_card(m->table, n, m->options.launch->world, rank, &some)) return DONE;
        error_set(error, WEFT_PEER, "rank %d: rank 0 sent no table of all ranks", rank);
        return OVER;
    }
    snprintf(missing, TEXT, "%.*s", (int)(n < TEXT ? n : TEXT - 1), (const char *)m->table);
    if (kind == MEET_WAITS) return AGAIN;
    error_set(error, kind == MEET_FAILS ? WEFT_IO : WEFT_PEER, "rank %d: rank 0 says: %s", rank, missing);
    return OVER;
}

/* One frame of rank 0. Its bytes go to the table's memory, texts too. */
static attempt next_frame(meeting *m, uint64_t until_ns, char missing[TEXT], weft_error *error) {
    const meet_place place = {false, m->n_in++};
    unsigned char head[MEET_HEAD];
    uint32_t kind;
    size_t n;
    int rank = m->options.launch->rank;
    size_t got = hear(m->fd, head, sizeof head, until_ns);
    bool is_whole = got == sizeof head && meet_head_read(head, m->table_room, &kind, &n) &&
                    hear(m->fd, m->table, n, until_ns) == n;
    if (is_whole && meet_seal_check(&m->frames, place, head, m->table, n))
        return take_frame(m, kind, n, missing, error);
    if (is_whole)
        error_set(error, WEFT_PEER, "rank %d: a message is not what rank 0 made", rank);
    else if (weft_clock_ns() < until_ns)
        error_set(error, WEFT_PEER, "rank %d: rank 0 ended before all ranks had met", rank);
    else
        error_set(error, WEFT_PEER, "rank %d: not all ranks have met within %.1f s; missing: %s", rank,
                  m->options.deadline_seconds, *missing ? missing : "not reported by rank 0");
    return OVER;
}

/* This rank's introduction as bytes. */
static size_t introduce(const meeting *m, const void *card, size_t bytes, const char *why,
                        unsigned char into[MEET_INTRODUCTION_MOST]) {
    meet_introduction i = {.rank = (uint32_t)m->options.launch->rank,
                           .world = (uint32_t)m->options.launch->world,
                           .card = card,
                           .card_bytes = why && *why ? 0 : bytes};
    snprintf(i.version, sizeof i.version, "%s", weft_version());
    snprintf(i.purpose, sizeof i.purpose, "%s", m->options.purpose);
    text_cut(i.why, why, sizeof i.why);
    return meet_introduction_write(&i, into);
}

/* A rank without memory for the table reports that to rank 0 instead of its card. */
weft_status meet_guest_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error) {
    unsigned char words[MEET_INTRODUCTION_MOST], head[MEET_HEAD];
    char missing[TEXT] = "";
    weft_error own = {0};
    uint64_t until_ns = weft_clock_ns() + (uint64_t)(m->options.deadline_seconds * 1e9);
    weft_status status = m->has_begun ? WEFT_OK : find_host(m, until_ns, error);
    if (status) return status;
    if (!why && meet_make_table(m, &own)) why = own.text;
    size_t n = introduce(m, card, bytes, why, words);
    meet_seal(&m->frames, (meet_place){true, m->n_out++}, MEET_INTRODUCES, words, n, head);
    /* where this fails, rank 0 has ended the meeting before, and its reason waits to be read */
    if (send_all(m->fd, head, sizeof head, until_ns)) send_all(m->fd, words, n, until_ns);
    if (why) return error_set(error, own.status ? own.status : WEFT_IO, "%s", why);
    attempt a;
    while ((a = next_frame(m, until_ns + PATIENCE_NS, missing, error)) == AGAIN) {
    }
    return a == DONE ? WEFT_OK : error ? error->status : WEFT_PEER;
}
