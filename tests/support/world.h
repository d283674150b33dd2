/* world.h - ranks as threads: each compiles the model, opens a session on its communicator and trains on
 * micro-batches that are given by numbers. The final state is kept, to be compared with other worlds. */
#ifndef WEFT_TEST_WORLD_H
#define WEFT_TEST_WORLD_H

#include "support/test.h"
#include "weft/weft.h"

#include <pthread.h>

/* A parameter, a state, or a parameter's optimizer state; this rank holds elements [begin, end). */
typedef struct world_part {
    char *path;
    int64_t begin, end, elements; /* elements: on all ranks together */
    size_t width;                 /* bytes per element */
    void *data;                   /* from element `begin` on */
} world_part;

struct world_rank;

typedef struct world_job {
    const weft_model *model;
    weft_compile_options options; /* `rank` is filled in; threads 0 means 1 */
    int steps;
    int classes; /* integer inputs are below this; u8 images have all values. 0: 10 */
    /* The micro-batch that a rank takes; NULL: numbered so that all worlds see the same data. */
    int64_t (*number)(const struct world_rank *r, int64_t step, int micro);
    int64_t first; /* number of the first micro-batch, for worlds that see other data */
    /* Of rank 0's store; rank r's is r more, to show that values come from the first of the ranks that share
     * them. */
    uint64_t seed;
    /* Called first in the rank's thread; may put another communicator into r->comm. NULL: nothing. */
    void (*begin)(struct world_rank *r);
    /* Called between making the store and opening the session; errors go to r->error. NULL: nothing. */
    void (*stored)(struct world_rank *r);
    /* What a rank does between opening and keeping its state; NULL: world_train. Errors go to r->error. */
    void (*run)(struct world_rank *r);
    const void *context; /* the test's own, for `run` */
    const weft_comm_options *comm;
} world_job;

typedef struct world_rank {
    const world_job *job; /* the caller's, valid while ranks run */
    int rank, world;
    weft_comm *comm;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    float *losses; /* for each step and training graph, its first output in the last micro-batch */
    int n_losses, n_parts;
    world_part *parts;
    weft_error error;
    pthread_t thread;
} world_rank;

/* Runs all ranks to their end: an array of options.world ranks (at least one), for world_free. Errors are
 * failed checks unless may_fail. */
world_rank *world_run_any(const world_job *job, bool may_fail);
world_rank *world_run(const world_job *job);
void world_free(world_rank *ranks);

/* Runs every training graph in the model's order, by whole steps; with options.manual these end with an
 * update alone. */
void world_train(world_rank *r);
/* One run of a graph on micro-batch `number`; `loss` (or NULL) receives its first output. */
weft_status world_micro(world_rank *r, const char *graph, int64_t number, float *loss);

/* Selects the paths to compare. */
typedef bool (*world_filter)(const char *path);
bool world_all(const char *path);
bool world_trained(const char *path);    /* all but running statistics, which each rank has for itself */
bool world_parameters(const char *path); /* the same without optimizer state */

/* Does `got` have the bits of `want` in everything that it holds? If not, `where` names the first
 * difference. */
bool world_agrees(const world_rank *want, const world_rank *got, world_filter filter, char where[300]);
/* Checks that all n ranks have the bits of `want`, and together hold each element of its optimizer state. */
bool world_check(const world_rank *want, const world_rank *ranks, int n, world_filter filter,
                 const char *what);
/* What a rank holds of a path; NULL: no rank has such a path. */
const world_part *world_find(const world_rank *r, const char *path);

#endif
