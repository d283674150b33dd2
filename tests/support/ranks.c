/* ranks.c - see ranks.h. */
#include "support/ranks.h"

#include "support/test.h"

#include <pthread.h>

enum { MOST = 8 };

typedef struct one {
    weft_comm *comm;
    int rank;
    void (*body)(weft_comm *comm, int rank, void *context);
    void *context;
    pthread_t thread;
} one;

static void *start(void *self) {
    one *o = self;
    o->body(o->comm, o->rank, o->context);
    weft_comm_free(o->comm);
    return NULL;
}

void ranks_run(int world, double deadline, void (*body)(weft_comm *comm, int rank, void *context),
               void *context) {
    one ranks[MOST] = {{0}};
    weft_comm *comms[MOST] = {NULL};
    weft_error e = {0};
    weft_comm_options how = {.deadline_seconds = deadline};
    if (world > 1 && !CHECK_SAYS(weft_comm_threads(world, &how, comms, &e) == WEFT_OK, "%s", e.text)) return;
    for (int r = 0; r < world; r++) {
        ranks[r] = (one){comms[r], r, body, context, 0};
        if (pthread_create(&ranks[r].thread, NULL, start, &ranks[r])) CHECK(false);
    }
    for (int r = 0; r < world; r++) pthread_join(ranks[r].thread, NULL);
}
