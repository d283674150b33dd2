/* meet.c - what both sides of a meeting need: see meet.h. */
#include "dist/meet/meet.h"

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "weft/api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

bool meet_random(unsigned char *into, size_t n, weft_error *error) {
    for (size_t got = 0; got < n;) {
        ssize_t some = getrandom(into + got, n - got, 0);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) {
            error_set(error, WEFT_IO, "the system gives no random bytes (getrandom)");
            return false;
        }
        got += (size_t)some;
    }
    return true;
}

/* ---- sockets ---- */

/* The bytes of an address, IPv4 as 4 also where it is mapped into IPv6; returns how many. */
static size_t address_of(const struct sockaddr_storage *s, unsigned char into[16]) {
    if (s->ss_family == AF_INET) {
        memcpy(into, &((const struct sockaddr_in *)s)->sin_addr, 4);
        return 4;
    }
    if (s->ss_family != AF_INET6) return 0;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)s)->sin6_addr;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(a);
    memcpy(into, a->s6_addr + (is_mapped ? 12 : 0), is_mapped ? 4 : 16);
    return is_mapped ? 4 : 16;
}

/* A connection from one of this machine's addresses to itself stays on the machine: Linux drops packets with
 * an own address as the source that come in from outside. */
bool meet_is_local(int fd) {
    struct sockaddr_storage own, other;
    socklen_t n_own = sizeof own, n_other = sizeof other;
    unsigned char a[16], b[16];
    if (getsockname(fd, (struct sockaddr *)&own, &n_own)) return false;
    if (getpeername(fd, (struct sockaddr *)&other, &n_other)) return false;
    size_t n = address_of(&own, a);
    return n && n == address_of(&other, b) &&
           (memcmp(a, b, n) == 0 || (n == 4 && a[0] == 127 && b[0] == 127));
}

void meet_name_other(int fd, char *into, size_t room) {
    struct sockaddr_storage other;
    socklen_t n = sizeof other;
    unsigned char address[16];
    char text[INET6_ADDRSTRLEN] = "";
    snprintf(into, room, "an unknown address");
    if (getpeername(fd, (struct sockaddr *)&other, &n)) return;
    size_t bytes = address_of(&other, address);
    if (!bytes || !inet_ntop(bytes == 4 ? AF_INET : AF_INET6, address, text, sizeof text)) return;
    unsigned port = other.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&other)->sin_port)
                                               : ntohs(((struct sockaddr_in6 *)&other)->sin6_port);
    snprintf(into, room, bytes == 4 ? "%s:%u" : "[%s]:%u", text, port);
}

bool meet_prepare(int fd) {
    int on = 1, flags = fcntl(fd, F_GETFL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only a hint */
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* ---- rounds ---- */

size_t meet_introduce(const meeting *m, const void *card, size_t bytes, const char *why,
                      unsigned char into[MEET_INTRODUCTION_MOST]) {
    meet_introduction i = {.rank = (uint32_t)m->options.launch->rank,
                           .world = (uint32_t)m->options.launch->world,
                           .card = card,
                           .card_bytes = why && *why ? 0 : bytes};
    snprintf(i.version, sizeof i.version, "%s", weft_version());
    snprintf(i.purpose, sizeof i.purpose, "%s", m->options.purpose);
    snprintf(i.why, sizeof i.why, "%s", why ? why : "");
    return meet_introduction_write(&i, into);
}

weft_status meet_make_table(meeting *m, weft_error *error) {
    if (m->table) return WEFT_OK;
    m->table_room = meet_table_most(m->options.launch->world);
    m->table = mem_new(&m->env, m->table_room);
    return m->table ? WEFT_OK : error_memory(error, "the table of all ranks");
}

void meet_begin(meeting *m, const meet_options *options) {
    const char *token = options->launch->token;
    *m = (meeting){.options = *options, .listener = -1, .fd = -1};
    if (options->env) m->env = *options->env;
    m->has_token = token && *token;
    m->key = meet_key_of(token);
}

weft_status meet_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error) {
    const weft_launch *l = m->options.launch;
    if (bytes > MEET_CARD_MOST)
        return error_set(error, WEFT_INTERNAL, "rank %d: a card of %zu bytes, %d are allowed", l->rank, bytes,
                         MEET_CARD_MOST);
    if (!l->address || !*l->address || !l->port)
        return error_set(error, WEFT_NAME,
                         "rank %d of %d: the address where ranks meet is unknown: set MASTER_ADDR and "
                         "MASTER_PORT",
                         l->rank, l->world);
    weft_status status =
        l->rank ? meet_guest_round(m, card, bytes, why, error) : meet_host_round(m, card, bytes, why, error);
    m->has_begun = true;
    return status;
}

const void *meet_card(const meeting *m, int rank, size_t *bytes) {
    *bytes = 0;
    return meet_table_card(m->table, m->table_bytes, m->options.launch->world, rank, bytes);
}

void meet_end(meeting *m) {
    meet_host_end(m);
    if (m->fd >= 0) close(m->fd);
    mem_free(&m->env, m->table, m->table_room);
    m->fd = -1;
    m->table = NULL;
}
