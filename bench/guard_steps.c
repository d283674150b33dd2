/* guard_steps.c - for guard.py: the same steps of a model without a guard and with one, in one process.
 *
 *     guard_steps MODEL PAIRS self|mpi GRAPH...
 *
 * Two sessions with the same values. A pair is a step of each, one right after the other, the first one by
 * turns: what slows the machine for longer than a step slows both. A step runs each graph once.
 * Prints a line for each pair after the first two: the milliseconds without and with the guard. */
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_GRAPHS = 8, MOST_FEEDS = 8, WARM = 2 };

typedef struct graph {
    const char *name;
    weft_feed feeds[MOST_FEEDS];
    int n_feeds;
} graph;

typedef struct side {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} side;

static double clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Numbers in [-1, 1); integers, as targets and tokens, are 0. */
static bool make_feed(const weft_port *p, weft_feed *feed) {
    float *data = calloc(1, p->bytes);
    for (size_t i = 0; data && p->dtype == WEFT_F32 && i < p->bytes / sizeof *data; i++)
        data[i] = (float)(sin((double)i * 12.9898) * 0.99);
    *feed = (weft_feed){p->name, data, p->bytes};
    return data != NULL;
}

/* The graphs of those names, with one batch each. */
static bool make_graphs(const weft_plan *plan, char *const *names, int n, graph *graphs) {
    for (int i = 0; i < n; i++) {
        graph *g = &graphs[i];
        weft_port port;
        *g = (graph){.name = names[i]};
        while (weft_plan_input(plan, g->name, g->n_feeds, &port))
            if (g->n_feeds == MOST_FEEDS || !make_feed(&port, &g->feeds[g->n_feeds++])) return false;
    }
    return true;
}

static bool open_side(side *s, const weft_model *m, weft_guard guard, weft_comm *comm, weft_error *error) {
    weft_compile_options options = {.world = comm->world, .rank = comm->rank, .threads = 1, .guard = guard};
    s->plan = weft_compile(m, &options, error);
    s->store = s->plan ? weft_store_new(s->plan, 1, error) : NULL;
    s->session = s->store ? weft_session_open_on(s->plan, s->store, comm, error) : NULL;
    return s->session != NULL;
}

static bool step(const side *s, const graph *graphs, int n, double *ms, weft_error *error) {
    double begin = clock_ms();
    for (int i = 0; i < n; i++)
        if (weft_run(s->session, graphs[i].name, graphs[i].feeds, graphs[i].n_feeds, NULL, 0, error))
            return false;
    if (weft_sync(s->session, error)) return false;
    *ms = clock_ms() - begin;
    return true;
}

static bool measure(const side sides[2], const graph *graphs, int n, long pairs, bool prints,
                    weft_error *error) {
    for (long i = 0; i < pairs + WARM; i++) {
        double ms[2];
        int first = (int)(i & 1);
        if (!step(&sides[first], graphs, n, &ms[first], error)) return false;
        if (!step(&sides[!first], graphs, n, &ms[!first], error)) return false;
        if (prints && i >= WARM) printf("%.6f %.6f\n", ms[0], ms[1]);
    }
    return true;
}

int main(int argc, char **argv) {
    static graph graphs[MOST_GRAPHS]; /* and their batches: until the process ends */
    weft_error error = {0};
    long pairs = argc > 2 ? atol(argv[2]) : 0;
    int n = argc - 4;
    if (pairs < 1 || n < 1 || n > MOST_GRAPHS)
        return fprintf(stderr, "usage: guard_steps MODEL PAIRS self|mpi GRAPH...\n"), 2;
    bool is_mpi = strcmp(argv[3], "mpi") == 0;
    weft_comm *comm = is_mpi ? weft_comm_mpi(NULL, NULL, &error) : weft_comm_self(NULL, &error);
    weft_model *m = comm ? weft_load(argv[1], NULL, &error) : NULL;
    side sides[2] = {{0}};
    bool good = m && open_side(&sides[0], m, WEFT_GUARD_OFF, comm, &error) &&
                open_side(&sides[1], m, WEFT_GUARD_NAN, comm, &error) &&
                make_graphs(sides[0].plan, argv + 4, n, graphs) &&
                measure(sides, graphs, n, pairs, comm->rank == 0, &error);
    for (int i = 0; i < 2; i++) {
        weft_session_close(sides[i].session);
        weft_store_free(sides[i].store);
        weft_plan_free(sides[i].plan);
    }
    weft_model_free(m);
    weft_comm_free(comm);
    if (!good) fprintf(stderr, "guard_steps: %s\n", error.status ? error.text : "no memory for batches");
    return good ? 0 : 1;
}
