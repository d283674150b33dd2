/* meet.c - a meeting, whichever side this rank is on: see meet.h. */
#include "dist/meet/meet.h"

#include "graph/core/error.h"
#include "graph/core/mem.h"

#include <unistd.h>

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
