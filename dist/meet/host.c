/* host.c - rank 0's side of a meeting: many connections at once, none of which it waits for.
 *
 * A connection goes through CLAIMS (nothing is known of it), PROVED (it knows the token), SEATED (it is a
 * rank). Only the first two can be refused for being slow, and there are few places for CLAIMS: when all are
 * taken, the oldest gives its place to the newest, so strangers that say nothing keep no rank out. */
#include "dist/meet/meet.h"

#include "dist/core/clock.h"
#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "weft/api.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS = 64, SAID_MOST = 20, NAMED_MOST = 16, WHERE = 64, TEXT = 400 };
enum { INBOX = MEET_HEAD + MEET_INTRODUCTION_MOST, OUTBOX = 1024 };
#define STRANGER_NS 5000000000u /* a connection that is not a rank yet lasts so long */
#define TELL_NS     1000000000u /* between two notes to the ranks on who is missing */
#define FLUSH_NS    5000000000u /* for the last words of a round */

typedef enum guest_state { FREE, CLAIMS, PROVED, SEATED } guest_state;

struct guest {
    guest_state state; /* FREE: there is no connection */
    int fd, rank;      /* fd: -1 for a rank that has said why it fails, and left; rank: when SEATED */
    int at;            /* among what is polled; -1: it is not */
    bool has_part;     /* its part of this round is in `part` */
    uint64_t since_ns, n_in, n_out;
    char where[WHERE];
    unsigned char challenge[MEET_CHALLENGE];
    meet_key frames;
    meet_introduction part; /* its card lies in `inbox` */
    size_t in, out, sent;   /* bytes in inbox and outbox; of the latter, sent */
    const unsigned char *body;
    size_t body_left; /* what follows the outbox */
    unsigned char inbox[INBOX], outbox[OUTBOX];
};

/* ---- words ---- */

static void say(meeting *m, const char *line) {
    if (m->env.log && m->n_said < SAID_MOST) m->env.log(m->env.log_context, line);
    if (m->env.log && m->n_said == SAID_MOST)
        m->env.log(m->env.log_context, "the meeting of ranks refuses more connections, which are not named");
    m->n_said++;
}

static void hang_up(guest *g) {
    if (g->state != FREE && g->fd >= 0) close(g->fd);
    g->fd = -1;
}

static void let_go(guest *g) {
    hang_up(g);
    g->state = FREE;
}

/* Closes a connection, and names it in the log. */
static void refuse_guest(meeting *m, guest *g, const char *why) {
    char line[WHERE + REASON_BYTES + 60];
    snprintf(line, sizeof line, "the meeting of ranks refused %s: %s", g->where, why);
    let_go(g);
    say(m, line);
}

/* The connection of a rank; NULL: it is not here. */
static guest *seat_of(const meeting *m, int rank) {
    for (int i = 0; i < m->n_guests; i++)
        if (m->guests[i].state == SEATED && m->guests[i].rank == rank) return &m->guests[i];
    return NULL;
}

/* "1, 3, 4 and 20 more": the ranks that are not here; with has_part, those whose part is not. Returns how
 * many. */
static int list_missing(const meeting *m, bool has_part, char *into, size_t room) {
    int n = 0, named = 0;
    size_t at = 0;
    *into = 0;
    for (int r = 1; r < m->options.launch->world; r++) {
        const guest *g = seat_of(m, r);
        bool is_here = g && (g->has_part || !has_part);
        if (is_here || n++ >= NAMED_MOST) continue;
        at += (size_t)snprintf(into + at, room - at, "%s%d", named++ ? ", " : "", r);
    }
    if (n > NAMED_MOST) snprintf(into + at, room - at, " and %d more", n - NAMED_MOST);
    return n;
}

/* ---- bytes out ---- */

/* Sends what can be sent now. False when the connection is broken. */
static bool flush(guest *g) {
    if (g->fd < 0) g->out = g->sent = g->body_left = 0;
    while (g->sent < g->out || g->body_left) {
        bool is_head = g->sent < g->out;
        const unsigned char *from = is_head ? g->outbox + g->sent : g->body;
        ssize_t n = send(g->fd, from, is_head ? g->out - g->sent : g->body_left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (is_head) {
            g->sent += (size_t)n;
        } else {
            g->body += n;
            g->body_left -= (size_t)n;
        }
    }
    g->out = g->sent = 0;
    return true;
}

static void queue(guest *g, const void *bytes, size_t n) {
    if (g->out + n > OUTBOX) return; /* only notes on who is missing could grow so long */
    memcpy(g->outbox + g->out, bytes, n);
    g->out += n;
}

/* Queues the head of a frame; the caller sees to the rest. */
static void queue_head(guest *g, meet_kind kind, const void *bytes, size_t n) {
    unsigned char head[MEET_HEAD];
    meet_seal(&g->frames, (meet_place){false, g->n_out++}, kind, bytes, n, head);
    queue(g, head, MEET_HEAD);
}

static void queue_text(guest *g, meet_kind kind, const char *words) {
    queue_head(g, kind, words, strlen(words));
    queue(g, words, strlen(words));
}

/* Tells a rank why it is refused, as far as that goes at once. */
static void refuse_rank(meeting *m, guest *g, const char *why) {
    queue_text(g, MEET_FAILS, why);
    flush(g);
    refuse_guest(m, g, why);
}

/* ---- bytes in ---- */

/* The claim is here: does it prove the token? */
static void read_claim(meeting *m, guest *g) {
    static const unsigned char nothing[MEET_DIGEST];
    unsigned char answer[MEET_DIGEST];
    if (!meet_claim_check(&m->key, g->challenge, g->inbox)) {
        queue(g, nothing, sizeof nothing);
        flush(g);
        refuse_guest(m, g, "it does not prove this job's token (WEFT_JOB_TOKEN)");
        return;
    }
    meet_answer(&m->key, g->challenge, g->inbox, answer);
    g->frames = meet_key_of_frames(&m->key, g->challenge, g->inbox);
    queue(g, answer, sizeof answer);
    g->state = PROVED;
    g->in = 0;
}

/* Can the introduction of a connection be accepted? Otherwise why not, in `why`. */
static bool fits(const meeting *m, const guest *g, const meet_introduction *i, char why[TEXT]) {
    const weft_launch *l = m->options.launch;
    shown version = show_name(i->version, strlen(i->version)),
          purpose = show_name(i->purpose, strlen(i->purpose));
    *why = 0;
    if (strcmp(i->version, weft_version()) != 0)
        snprintf(why, TEXT, "it has version %s of Weft, rank 0 has %s", version.text, weft_version());
    else if (strcmp(i->purpose, m->options.purpose) != 0)
        snprintf(why, TEXT, "it meets for %s, rank 0 for %s", purpose.text, m->options.purpose);
    else if (i->world != (uint32_t)l->world)
        snprintf(why, TEXT, "it says that there are %u ranks, rank 0 was started as one of %d", i->world,
                 l->world);
    else if (!i->rank || i->rank >= i->world)
        snprintf(why, TEXT, "it says that it is rank %u of %u", i->rank, i->world);
    else if (g->state == SEATED && (uint32_t)g->rank != i->rank)
        snprintf(why, TEXT, "rank %d says that it is rank %u", g->rank, i->rank);
    else if (g->state == PROVED && seat_of(m, (int)i->rank))
        snprintf(why, TEXT, "rank %u is here already", i->rank);
    return !*why;
}

/* A whole frame is here. */
static void read_part(meeting *m, guest *g, uint32_t kind, size_t n) {
    char why[TEXT];
    const unsigned char *bytes = g->inbox + MEET_HEAD;
    meet_introduction i;
    if (!meet_seal_check(&g->frames, (meet_place){true, g->n_in++}, g->inbox, bytes, n))
        refuse_guest(m, g, "a message is not what its sender made");
    else if (kind != MEET_INTRODUCES || !meet_introduction_read(bytes, n, &i))
        refuse_guest(m, g, "it does not introduce itself");
    else if (!fits(m, g, &i, why))
        refuse_rank(m, g, why);
    else {
        g->rank = (int)i.rank;
        g->state = SEATED;
        g->has_part = true;
        g->part = i;
    }
}

/* How many bytes the connection's next message has in all, as far as is known; 0: too many. */
static size_t awaited(const guest *g, uint32_t *kind, size_t *n) {
    if (g->state == CLAIMS) return MEET_CLAIM;
    if (g->in < MEET_HEAD) return MEET_HEAD;
    return meet_head_read(g->inbox, MEET_INTRODUCTION_MOST, kind, n) ? MEET_HEAD + *n : 0;
}

/* Whoever closes its end, or says more than it should. A rank that said why it fails keeps its seat, as its
 * reason is its part. */
static void leaves(meeting *m, guest *g, const char *stranger) {
    char why[100];
    if (g->state == SEATED && g->has_part && *g->part.why) {
        hang_up(g);
        g->out = g->sent = g->body_left = 0;
        return;
    }
    snprintf(why, sizeof why, "rank %d came and left", g->state == SEATED ? g->rank : 0);
    refuse_guest(m, g, g->state == SEATED ? why : stranger);
}

/* Takes in what has come on one connection. */
static void hear(meeting *m, guest *g) {
    uint32_t kind = 0;
    size_t n = 0, most;
    while (g->state != FREE && g->fd >= 0) {
        if (!(most = awaited(g, &kind, &n))) {
            refuse_guest(m, g, "a message is too long");
            return;
        }
        if (g->in == most && g->state == CLAIMS) {
            read_claim(m, g);
        } else if (g->in == most && !g->has_part) {
            read_part(m, g, kind, n);
        } else {
            unsigned char more;
            bool is_full = g->has_part;
            ssize_t got = recv(g->fd, is_full ? &more : g->inbox + g->in, is_full ? 1 : most - g->in, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
            if (got <= 0 || is_full) {
                leaves(m, g, "it left before it had said who it is");
                return;
            }
            g->in += (size_t)got;
        }
    }
}

/* ---- connections ---- */

static bool is_stranger(const guest *g) {
    return g->state == CLAIMS || g->state == PROVED;
}

/* Which guest gives up its place first: one that has proved nothing, then the one that came first. */
static bool leaves_before(const guest *a, const guest *b) {
    return a->state != b->state ? a->state == CLAIMS : a->since_ns < b->since_ns;
}

/* Counts the connections that are not a rank yet; *first: the one that gives up its place first, or NULL. */
static int count_strangers(meeting *m, guest **first) {
    int n = 0;
    *first = NULL;
    for (int i = 0; i < m->n_guests; i++) {
        guest *g = &m->guests[i];
        if (!is_stranger(g)) continue;
        n++;
        if (!*first || leaves_before(g, *first)) *first = g;
    }
    return n;
}

/* The place for a new connection. Where all are taken, the oldest stranger leaves. */
static guest *find_place(meeting *m) {
    guest *oldest;
    if (count_strangers(m, &oldest) >= STRANGERS)
        refuse_guest(m, oldest, "too many connections at once say nothing");
    for (int i = 0; i < m->n_guests; i++)
        if (m->guests[i].state == FREE) return &m->guests[i];
    return NULL; /* cannot be: there are STRANGERS places more than other ranks */
}

/* Greets a new connection. */
static void welcome(meeting *m, int fd) {
    unsigned char nonce[MEET_NONCE];
    guest *g = find_place(m);
    if (!g || !meet_prepare(fd) || !meet_random(nonce, sizeof nonce, NULL)) {
        close(fd);
        return;
    }
    memset(g, 0, offsetof(guest, inbox));
    g->state = CLAIMS;
    g->fd = fd;
    g->since_ns = weft_clock_ns();
    meet_name_other(fd, g->where, sizeof g->where);
    if (!m->has_token && !meet_is_local(fd)) {
        refuse_guest(m, g, "it comes from another machine, and the job has no token (WEFT_JOB_TOKEN)");
        return;
    }
    meet_challenge(nonce, g->challenge);
    queue(g, g->challenge, MEET_CHALLENGE);
    flush(g);
}

/* What this rank cannot do for a reason of its own. */
static void say_own(const char *what, int code, char why[TEXT]) {
    bool is_limit = code == EMFILE || code == ENFILE;
    snprintf(why, TEXT, "%s: %s%s", what, errno_show(code).text, is_limit ? " (ulimit -n)" : "");
}

/* Connections that are not ranks yet end soon, and make room; without them nothing will. */
static void take_connections(meeting *m, char why[TEXT]) {
    guest *oldest;
    for (int i = 0; i < 2 * STRANGERS; i++) {
        int fd = accept(m->listener, NULL, NULL), code = errno;
        if (fd >= 0) {
            welcome(m, fd);
        } else if (code != EINTR && code != ECONNABORTED) {
            bool is_out = code != EAGAIN && code != EWOULDBLOCK; /* of descriptors, say */
            if (is_out) clock_nap(0.01);
            if (is_out && !count_strangers(m, &oldest)) say_own("no more ranks can be let in", code, why);
            return;
        }
    }
}

/* The connections that are open; returns how many. Closed ones must not be among them: the system refuses
 * more entries than a process may have files. */
static int list_open(meeting *m, struct pollfd *polls) {
    int n = 0;
    if (m->listener >= 0) polls[n++] = (struct pollfd){.fd = m->listener, .events = POLLIN};
    for (int i = 0; i < m->n_guests; i++) {
        guest *g = &m->guests[i];
        bool is_open = g->state != FREE && g->fd >= 0, has_more = g->sent < g->out || g->body_left;
        g->at = is_open ? n : -1;
        if (is_open)
            polls[n++] = (struct pollfd){.fd = g->fd, .events = (short)(POLLIN | (has_more ? POLLOUT : 0))};
    }
    return n;
}

static void refuse_slow(meeting *m) {
    uint64_t now = weft_clock_ns();
    for (int i = 0; i < m->n_guests; i++)
        if (is_stranger(&m->guests[i]) && now - m->guests[i].since_ns > STRANGER_NS)
            refuse_guest(m, &m->guests[i], "it took too long to say who it is");
}

/* Waits at most 0.1 s for something to happen, and takes it in. `why`: what this rank cannot do. */
static void attend(meeting *m, struct pollfd *polls, char why[TEXT]) {
    refuse_slow(m);
    int ready = poll(polls, (nfds_t)list_open(m, polls), 100);
    if (ready < 0 && errno != EINTR) say_own("connections cannot be waited for (poll)", errno, why);
    if (ready <= 0) return;
    for (int i = 0; i < m->n_guests; i++) {
        guest *g = &m->guests[i];
        if (g->at < 0 || !polls[g->at].revents || g->state == FREE) continue;
        short events = polls[g->at].revents;
        if (!flush(g)) leaves(m, g, "its connection broke");
        if (g->state != FREE && events & ~POLLOUT) hear(m, g);
        if (g->state != FREE) flush(g);
    }
    if (m->listener >= 0 && polls[0].revents) take_connections(m, why);
}

/* ---- a round ---- */

/* Opens the port and makes the places; the last two are freed by meet_host_end. */
static weft_status host_open(meeting *m, weft_error *error) {
    int n = m->options.launch->world - 1 + STRANGERS;
    weft_status status = meet_make_table(m, error);
    if (status) return status;
    m->guests = mem_new_array(&m->env, (size_t)n, sizeof *m->guests);
    if (!m->guests) return error_memory(error, "the places of ranks that meet");
    m->n_guests = n;
    status = meet_listen(m->options.launch, &m->listener, error);
    return status ? status : meet_make_room(m, STRANGERS, error);
}

/* Tells the ranks that are here who is not. */
static void tell_missing(meeting *m) {
    char list[TEXT / 2];
    list_missing(m, true, list, sizeof list);
    for (int i = 0; i < m->n_guests; i++) {
        guest *g = &m->guests[i];
        if (g->state != SEATED || !g->has_part || g->out) continue;
        queue_text(g, MEET_WAITS, list);
        flush(g);
    }
}

/* Other ranks that are here; with has_part, those whose part of this round is here. */
static int count(const meeting *m, bool has_part) {
    int n = 0;
    for (int i = 0; i < m->n_guests; i++)
        n += m->guests[i].state == SEATED && (m->guests[i].has_part || !has_part);
    return n;
}

/* Until all are here: MEET_TABLE. Otherwise `why` says why there is no meeting: MEET_FAILS where that is this
 * rank's own. */
static meet_kind wait_for_all(meeting *m, struct pollfd *polls, char why[TEXT]) {
    char list[TEXT / 2];
    const int world = m->options.launch->world;
    const double seconds = m->options.deadline_seconds;
    uint64_t begin = weft_clock_ns(), told = begin;
    while (count(m, true) < world - 1) {
        uint64_t now = weft_clock_ns();
        bool is_late = (double)(now - begin) * 1e-9 > seconds;
        bool has_left = m->has_begun && count(m, false) < world - 1;
        if (is_late || has_left) {
            int missing = list_missing(m, !has_left, list, sizeof list);
            if (has_left)
                snprintf(why, TEXT, "%d of %d ranks left while they met: %s", missing, world, list);
            else
                snprintf(why, TEXT, "%d of %d ranks did not come within %.1f s: %s", missing, world, seconds,
                         list);
            return MEET_ENDS;
        }
        if (now - told > TELL_NS) {
            tell_missing(m);
            told = now;
        }
        attend(m, polls, why);
        if (*why) return MEET_FAILS;
    }
    return MEET_TABLE;
}

/* The first rank that gave a reason, as a sentence in `why`; or the table. */
static void conclude(meeting *m, const void *card, size_t bytes, const char *own, char why[TEXT]) {
    if (own && *own) snprintf(why, TEXT, "rank 0 could not join: %s", own);
    m->table_bytes = meet_table_add(m->table, 0, card, bytes);
    for (int r = 1; r < m->options.launch->world && !*why; r++) {
        const meet_introduction *part = &seat_of(m, r)->part;
        if (*part->why) snprintf(why, TEXT, "rank %d could not join: %s", r, part->why);
        m->table_bytes = meet_table_add(m->table, m->table_bytes, part->card, part->card_bytes);
    }
}

/* Sends the outcome to all ranks that are here, and makes them ready for the next round. */
static void spread(meeting *m, struct pollfd *polls, meet_kind kind, const char *why) {
    for (int i = 0; i < m->n_guests; i++) {
        guest *g = &m->guests[i];
        if (g->state != SEATED) let_go(g);
        if (g->state != SEATED) continue;
        if (kind != MEET_TABLE) {
            queue_text(g, kind, why);
        } else {
            queue_head(g, MEET_TABLE, m->table, m->table_bytes);
            g->body = m->table;
            g->body_left = m->table_bytes;
        }
        if (!flush(g)) let_go(g);
        g->has_part = false;
        g->in = 0;
    }
    for (uint64_t begin = weft_clock_ns(); weft_clock_ns() - begin < FLUSH_NS;) {
        int n = 0;
        for (int i = 0; i < m->n_guests; i++) {
            guest *g = &m->guests[i];
            if (g->state == SEATED && !flush(g)) let_go(g);
            if (g->state == SEATED && (g->out || g->body_left))
                polls[n++] = (struct pollfd){.fd = g->fd, .events = POLLOUT};
        }
        if (!n) return;
        poll(polls, (nfds_t)n, 100);
    }
}

weft_status meet_host_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error) {
    char outcome[TEXT] = "";
    weft_status status = m->has_begun ? WEFT_OK : host_open(m, error);
    if (status) return status;
    size_t n = (size_t)m->n_guests + 1;
    struct pollfd *polls = mem_new_array(&m->env, n, sizeof *polls);
    if (!polls) return error_memory(error, "the places of ranks that meet");
    meet_kind kind = wait_for_all(m, polls, outcome);
    if (!*outcome) conclude(m, card, bytes, why, outcome);
    if (*outcome && kind == MEET_TABLE) kind = MEET_FAILS;
    if (m->listener >= 0) close(m->listener);
    m->listener = -1;
    spread(m, polls, kind, outcome);
    mem_free(&m->env, polls, n * sizeof *polls);
    if (kind == MEET_TABLE) return WEFT_OK;
    return error_set(error, kind == MEET_FAILS ? WEFT_IO : WEFT_PEER, "rank 0: %s", outcome);
}

void meet_host_end(meeting *m) {
    for (int i = 0; i < m->n_guests; i++) let_go(&m->guests[i]);
    mem_free(&m->env, m->guests, (size_t)m->n_guests * sizeof *m->guests);
    if (m->listener >= 0) close(m->listener);
    m->guests = NULL;
    m->n_guests = 0;
    m->listener = -1;
}
