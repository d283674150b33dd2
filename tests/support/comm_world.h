/* comm_world.h - runs one function on every rank of a world of threads; each rank has a text for its
 * result. */
#ifndef WEFT_TESTS_COMM_WORLD_H
#define WEFT_TESTS_COMM_WORLD_H

#include "weft/comm.h"

#include <pthread.h>

enum { MOST = 8 };

typedef struct rank_run {
    weft_comm *comm;
    void (*body)(struct rank_run *r);
    size_t count;
    char text[1200]; /* an error, or what the body reports */
    pthread_t thread;
} rank_run;

/* window: bytes of shared memory per rank; 0: none, so that all data go by messages. */
void window_run(int world, int64_t window, double deadline, size_t count, void (*body)(rank_run *r),
                rank_run ranks[MOST]);
void threads_run(int world, double deadline, size_t count, void (*body)(rank_run *r), rank_run ranks[MOST]);
/* Stores a rank's text, unless it has one. */
void keep(rank_run *r, const char *text);

#endif
