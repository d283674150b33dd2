/* comm_world.c - see comm_world.h. */
#include "support/comm_world.h"

#include "support/test.h"

#include <stdio.h>
#include <string.h>

static void *rank_main(void *context) {
    rank_run *r = context;
    r->body(r);
    weft_comm_free(r->comm);
    return NULL;
}

void window_run(int world, int64_t window, double deadline, size_t count, void (*body)(rank_run *r),
                rank_run ranks[MOST]) {
    weft_comm *comms[MOST] = {0};
    weft_error error = {0};
    weft_comm_options options = {.deadline_seconds = deadline, .window_bytes = window};
    if (world == 1)
        comms[0] = weft_comm_self(NULL, &error);
    else
        weft_comm_threads(world, &options, comms, &error);
    memset(ranks, 0, MOST * sizeof *ranks);
    NEED(comms[0] != NULL);
    for (int i = 0; i < world; i++) {
        ranks[i].comm = comms[i];
        ranks[i].body = body;
        ranks[i].count = count;
        NEED(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) == 0);
    }
    for (int i = 0; i < world; i++) pthread_join(ranks[i].thread, NULL);
}

void threads_run(int world, double deadline, size_t count, void (*body)(rank_run *r), rank_run ranks[MOST]) {
    window_run(world, 0, deadline, count, body, ranks);
}

void keep(rank_run *r, const char *text) {
    if (text && !*r->text) snprintf(r->text, sizeof r->text, "%s", text);
}
