/* world.h - ranks as threads: each compiles the model, opens a session on its communicator and trains on micro-batches
 * that are told by their numbers; what it ends with is kept, to be compared with other worlds. */
#ifndef WEFT_TEST_WORLD_H
#define WEFT_TEST_WORLD_H

#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>

/* A parameter, state, or a parameter's part of an optimizer's state: elements [begin, end) are here. */
typedef struct world_part {
    char *path;
    int64_t begin, end, elements; /* `elements`: of all ranks together */
    size_t width;                 /* bytes an element */
    void *data;                   /* of element `begin` */
} world_part;

struct world_rank;

typedef struct world_job {
    const weft_model *model;
    weft_compile_options options; /* `rank` is filled in; threads 0 means 1 */
    int steps;
    int classes; /* integers that are fed lie below; images of u8 have all values. 0: 10 */
    /* Which micro-batch a rank takes; NULL: as the design numbers them, so that worlds see the same data. */
    int64_t (*number)(const struct world_rank *r, int64_t step, int micro);
    int64_t first; /* the number of the first micro-batch, for worlds that see other data */
    /* Of rank 0's store; rank r's is r more, as values must come from the first of those who share them. */
    uint64_t seed;
    /* In the rank's thread before all else: may put another communicator into r->comm. NULL: nothing. */
    void (*begin)(struct world_rank *r);
    /* What a rank does between opening and keeping; NULL: world_train. Errors go to r->error. */
    void (*run)(struct world_rank *r);
    const void *context; /* of the test's own, for `run` */
    const weft_comm_options *comm;
} world_job;

typedef struct world_rank {
    const world_job *job; /* the caller's: while ranks run */
    int rank, world;
    weft_comm *comm;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    float *losses; /* of each step of each training graph: its first output in the last micro-batch */
    int n_losses, n_parts;
    world_part *parts;
    weft_error error;
    pthread_t thread;
} world_rank;

/* Runs all ranks to their end: an array of options.world ranks (at least one), for world_free. Errors are failed checks
 * unless they may be. */
world_rank *world_run_any(const world_job *job, bool may_fail);
world_rank *world_run(const world_job *job);
void world_free(world_rank *ranks);

/* Every training graph in the model's order, each by whole steps. */
void world_train(world_rank *r);
/* One run of a graph on micro-batch `number`; `loss` (NULL: nobody asks) gets its first output. */
weft_status world_micro(world_rank *r, const char *graph, int64_t number, float *loss);

/* Which paths are compared. */
typedef bool (*world_filter)(const char *path);
bool world_all(const char *path);
bool world_trained(const char *path);    /* all but running statistics, which are each rank's own */
bool world_parameters(const char *path); /* of those no optimizer state */

/* Whether `got` holds the bits of `want` wherever it holds anything; where not, the first place as text. */
bool world_agrees(const world_rank *want, const world_rank *got, world_filter filter, char where[300]);
/* A check: all n ranks have the bits of `want`, and hold together each element of its optimizer state. */
bool world_check(const world_rank *want, const world_rank *ranks, int n, world_filter filter,
                 const char *what);
/* What a rank holds of a path; NULL: nobody has such a path. */
const world_part *world_find(const world_rank *r, const char *path);


#endif
