/* socket.c - what both sides of a meeting ask of the system: random bytes, and sockets. */
#include "dist/meet/meet.h"

#include "graph/core/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

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
