/* join.c - how ranks meet, connect and leave. They meet without UCX (dist/meet): each gives the address of
 * its worker and the name of its machine. Then the ranks of one machine exchange what the window needs as
 * messages of UCX. No call blocks, so a rank that never comes is an error at the deadline, with its
 * number. */
#include "dist/ucx/transport.h"

#include "dist/core/clock.h"
#include "graph/core/table.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MACHINE = 128 };
#define NAP_SECONDS 50e-6
#define PART_NS     5000000000u /* how long leaving waits for the others */

/* ---- cards ----
 * The name of the machine, a hash of name and address, and the worker's address. UCX ends the process over an
 * invalid address, so a card whose hash differs is refused before UCX sees it. */

enum { HASH = sizeof(uint64_t), ADDRESS = MACHINE + HASH /* where it begins */ };

static uint64_t card_hash(const unsigned char *card, size_t bytes) {
    return hash_bytes(card + ADDRESS, bytes - ADDRESS, hash_bytes(card, MACHINE, 0));
}

/* The machine's name in a card: the kernel's start and the host's name, which a container may have of its own
 * (it is a machine then, as over MPI). */
static void name_machine(char into[MACHINE]) {
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    memset(into, 0, MACHINE);
    if (fd >= 0 && read(fd, into, 36) < 0) *into = 0;
    if (fd >= 0) close(fd);
    gethostname(into + 36, MACHINE - 37);
}

/* Returns the bytes; 0 with *error set. */
static size_t make_card(ucx_transport *u, unsigned char card[MEET_CARD_MOST], weft_error *error) {
    ucp_address_t *address = NULL;
    size_t n = 0;
    ucs_status_t status = ucp_worker_get_address(u->worker, &address, &n);
    if (status) {
        ucx_fail(error, WEFT_IO, "ucp_worker_get_address", status);
        return 0;
    }
    name_machine((char *)card);
    bool fits = n <= MEET_CARD_MOST - ADDRESS;
    if (fits) memcpy(card + ADDRESS, address, n);
    ucp_worker_release_address(u->worker, address);
    if (!fits)
        error_set(
            error, WEFT_UNSUPPORTED,
            "UCX's address has %zu bytes, %d are allowed: fewer networks in UCX_NET_DEVICES make it shorter",
            n, MEET_CARD_MOST - ADDRESS);
    uint64_t hash = fits ? card_hash(card, ADDRESS + n) : 0;
    memcpy(card + MACHINE, &hash, sizeof hash);
    return fits ? ADDRESS + n : 0;
}

static bool holds_address(const unsigned char *card, size_t bytes) {
    uint64_t hash;
    if (!card || bytes <= ADDRESS) return false;
    memcpy(&hash, card + MACHINE, sizeof hash);
    return hash == card_hash(card, bytes);
}

/* Fills locals, local_rank and local_world. */
static weft_status find_locals(ucx_transport *u, weft_error *error) {
    size_t n_own, n;
    const void *own = meet_card(&u->meeting, u->t.rank, &n_own);
    for (int i = 0; i < u->t.world; i++) {
        const void *card = meet_card(&u->meeting, i, &n);
        if (!holds_address(card, n))
            return error_set(error, WEFT_PEER, "rank %d gave no valid address (%zu bytes)", i, n);
        if (memcmp(card, own, MACHINE) != 0) continue;
        if (i == u->t.rank) u->t.local_rank = u->t.local_world;
        u->locals[u->t.local_world++] = i;
    }
    return WEFT_OK;
}

/* ---- connections ---- */

/* Called by UCX within ucp_worker_progress. */
static void note_failure(void *context, ucp_ep_h endpoint, ucs_status_t status) {
    ucx_peer *p = context;
    (void)endpoint;
    if (p->of->is_closing) return;
    p->failure = status;
    p->failed_ns = clock_now();
    snprintf(p->ending, sizeof p->ending, "its process has ended, or the network: %s (UCX)",
             ucs_status_string(status));
}

static weft_status connect_all(ucx_transport *u, weft_error *error) {
    for (int i = 0; i < u->t.world; i++) {
        size_t n;
        if (i == u->t.rank) continue;
        ucp_ep_params_t how = {
            .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER,
            .address = (const ucp_address_t *)((const char *)meet_card(&u->meeting, i, &n) + ADDRESS),
            .err_mode = UCP_ERR_HANDLING_MODE_PEER,
            .err_handler = {note_failure, &u->peers[i]},
        };
        ucs_status_t status = ucp_ep_create(u->worker, &how, &u->peers[i].endpoint);
        if (status)
            return error_set(
                error, WEFT_IO,
                "no way from rank %d to rank %d: %s (UCX; UCX_NET_DEVICES names the networks to use)",
                u->t.rank, i, ucs_status_string(status));
    }
    return WEFT_OK;
}

/* A rank that fails says so in the next round, in which all take part. */
weft_status ucx_join(ucx_transport *u, const char *why, weft_error *error) {
    unsigned char card[MEET_CARD_MOST];
    unsigned major, minor, release;
    weft_error own = {0};
    const meet_options options = {&u->env, &u->launch, u->purpose, u->deadline_seconds};
    ucp_get_version(&major, &minor, &release);
    snprintf(u->purpose, sizeof u->purpose, "ucx%u.%u", major % 10,
             minor % 100); /* addresses differ between versions */
    meet_begin(&u->meeting, &options);
    size_t n = why ? 0 : make_card(u, card, &own);
    if (!why && !n) why = own.text;
    weft_status status = meet_round(&u->meeting, card, n, why, error);
    if (!status) status = find_locals(u, &own);
    if (!status) status = connect_all(u, &own);
    if (!status || own.status) {
        weft_status met = meet_round(&u->meeting, NULL, 0, own.status ? own.text : NULL, error);
        if (!status) status = met;
    }
    meet_end(&u->meeting);
    if (own.status && error) *error = own;
    return status;
}

/* ---- exchanges ---- */

/* Waits for the requests of this exchange; those of rank ranks[i] are at 2 i. */
static weft_status finish_requests(ucx_transport *u, const char *what, const int *ranks, int n,
                                   weft_error *error) {
    uint64_t begin = clock_now();
    for (int left = 1; left;) {
        int missing = -1;
        left = 0;
        while (ucp_worker_progress(u->worker)) {
        }
        for (int i = 0; i < 2 * n; i++) {
            ucs_status_t status;
            if (!ucx_is_over(&u->requests[i], &status)) left++, missing = ranks[i / 2];
            if (status < 0)
                return error_set(error, WEFT_PEER,
                                 "%s: the connection from rank %d to rank %d failed: %s (UCX)", what,
                                 u->t.rank, ranks[i / 2], ucs_status_string(status));
        }
        if (left && clock_since(begin) > u->deadline_seconds)
            return error_set(error, WEFT_PEER, "%s: rank %d waited %.1f s for rank %d", what, u->t.rank,
                             u->deadline_seconds, missing);
        if (left) clock_nap(NAP_SECONDS);
    }
    return WEFT_OK;
}

/* Each rank of the machine sends its part to every other. */
static weft_status gather_parts(transport *t, const char *what, void *parts, size_t bytes,
                                weft_error *error) {
    ucx_transport *u = (ucx_transport *)t;
    const ucp_request_param_t how = {0};
    uint32_t number = u->n_exchanges++;
    for (int i = 0; i < t->local_world; i++) {
        int other = u->locals[i];
        u->requests[2 * i] = u->requests[2 * i + 1] = NULL;
        if (other == t->rank) continue;
        u->requests[2 * i] = ucp_tag_recv_nbx(u->worker, (char *)parts + (size_t)i * bytes, bytes,
                                              ucx_tag(UCX_SETUP, other, number), UINT64_MAX, &how);
        u->requests[2 * i + 1] =
            ucp_tag_send_nbx(u->peers[other].endpoint, (char *)parts + (size_t)t->local_rank * bytes, bytes,
                             ucx_tag(UCX_SETUP, t->rank, number), &how);
    }
    return finish_requests(u, what, u->locals, t->local_world, error);
}

weft_status ucx_window_open(ucx_transport *u, weft_error *error) {
    const share_options options = {&u->env, u->window_bytes, u->locals, gather_parts, u->parts};
    return share_window(&u->t, &options, error);
}

/* ---- leaving ---- */

/* One byte to rank 0, and one back when all have come. Meanwhile the last control messages come in. */
static void wait_here(ucx_transport *u, uint64_t begin, int n) {
    control unread;
    ucs_status_t status;
    for (int left = 1; left && clock_now() - begin < PART_NS;) {
        left = 0;
        while (u->t.calls->control_receive(&u->t, &unread)) {
        }
        for (int i = 0; i < n; i++) left += !ucx_is_over(&u->requests[i], &status);
        for (int i = 0; i < u->n_sends; i++) left += !ucx_is_over(&u->sends[i], &status);
        if (left) clock_nap(2 * NAP_SECONDS);
    }
}

void ucx_part_ways(ucx_transport *u) {
    const ucp_request_param_t how = {0};
    static const char word = 1;
    char *heard = u->parts[0].why; /* any room */
    uint64_t begin = clock_now();
    u->is_closing = true;
    for (int is_back = 0; is_back < 2; is_back++) {
        int n = 0;
        for (int i = 0; i < u->t.world; i++) {
            bool is_host = !u->t.rank;
            if (is_host ? i == 0 : i > 0) continue;
            ucs_status_ptr_t request =
                is_host == !is_back ? ucp_tag_recv_nbx(u->worker, heard, 1, ucx_tag(UCX_SETUP, i, UINT32_MAX),
                                                       UINT64_MAX, &how)
                                    : ucp_tag_send_nbx(u->peers[i].endpoint, &word, 1,
                                                       ucx_tag(UCX_SETUP, u->t.rank, UINT32_MAX), &how);
            u->requests[n++] = UCS_PTR_IS_ERR(request) ? NULL : request;
        }
        wait_here(u, begin, n);
    }
}
