/* comm_world.h - one function on every rank of a world of threads, each with a text of its own. */
#ifndef WEFT_TESTS_COMM_WORLD_H
#define WEFT_TESTS_COMM_WORLD_H

#include "weft/comm.h"

#include <pthread.h>

enum { MOST = 8 };

typedef struct rank_run {
    weft_comm *comm;
    void (*body)(struct rank_run *r);
    size_t count;
    char text[1200]; /* what went wrong, or what the body has to tell */
    pthread_t thread;
} rank_run;

/* window: bytes of shared memory a rank, 0: none, all goes by messages. */
void window_run(int world, int64_t window, double deadline, size_t count, void (*body)(rank_run *r),
                rank_run ranks[MOST]);
void threads_run(int world, double deadline, size_t count, void (*body)(rank_run *r), rank_run ranks[MOST]);
/* The first text that a rank keeps stays. */
void keep(rank_run *r, const char *text);

#endif
