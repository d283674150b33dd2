/* listen.c - the port of rank 0, at which the other ranks meet it. */
#include "dist/meet/meet.h"

#include "graph/core/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_loopback(const struct addrinfo *a) {
    if (a->ai_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a->ai_addr)->sin_addr.s_addr) >> 24 == 127;
    return a->ai_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a->ai_addr)->sin6_addr);
}

/* A listening socket at the address where it is a loopback's, else at all addresses of its family (that of
 * rank 0 as the others see it may not be one of its own); -1 with errno. */
static int listen_at(const struct addrinfo *a) {
    struct sockaddr_storage at = {0};
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    memcpy(&at, a->ai_addr, a->ai_addrlen);
    if (!is_loopback(a) && a->ai_family == AF_INET) ((struct sockaddr_in *)&at)->sin_addr.s_addr = INADDR_ANY;
    if (!is_loopback(a) && a->ai_family == AF_INET6) ((struct sockaddr_in6 *)&at)->sin6_addr = in6addr_any;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, (struct sockaddr *)&at, a->ai_addrlen) && !listen(fd, 512) && meet_prepare(fd)) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

weft_status meet_listen(const weft_launch *l, int *listener, weft_error *error) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[16];
    shown reason = {""};
    snprintf(port, sizeof port, "%d", l->port);
    int code = getaddrinfo(l->address, port, &hints, &found);
    if (code)
        return error_set(error, WEFT_NAME, "rank 0: MASTER_ADDR '%s' is not an address: %s", SHOW(l->address),
                         gai_strerror(code));
    for (const struct addrinfo *a = found; a && *listener < 0; a = a->ai_next) {
        *listener = listen_at(a);
        if (*listener < 0) reason = errno_show(errno);
    }
    freeaddrinfo(found);
    if (*listener >= 0) return WEFT_OK;
    return error_set(error, WEFT_IO,
                     "rank 0 cannot listen at port %d (MASTER_PORT), where the other ranks would meet it: %s",
                     l->port, reason.text);
}
