/* comm_ranks.c - one rank of a world of processes, started by tests/test_comm_mpi.sh under mpirun.
 *
 *     comm_ranks all          every collective against plain sums; exit 0
 *     comm_ranks differ       rank 1 starts another kind; every rank prints its error, then aborts
 *     comm_ranks missing      rank 1 stays away; likewise
 *     comm_ranks stopped      rank 1 stops itself (SIGSTOP): not even its communication thread answers
 *     comm_ranks time         how long an all_reduce takes: 25 MB, as bf16, 1 KB
 */
#include "support/comm_check.h"
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ; /* POSIX declares it nowhere */

static int tell(const weft_comm *c, const char *text) {
    printf("rank %d: %s\n", c->rank, text);
    fflush(stdout);
    return 1;
}

static int all(weft_comm *c) {
    static const size_t counts[] = {0, 1, 7, 1001, 300000, (2 << 20) + 321};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *wrong = comm_check_all(c, counts[i], 1 + i);
        if (!wrong) wrong = comm_check_cuts(c, counts[i], 20 + i);
        if (wrong) return tell(c, wrong);
    }
    int ranks[] = {c->world - 1, 0};
    weft_comm *pair = NULL;
    weft_error error = {0};
    if (c->world > 2 && weft_comm_group(c, ranks, 2, &pair, &error)) return tell(c, error.text);
    const char *wrong = pair ? comm_check_all(pair, 5000, 3) : NULL;
    weft_comm_free(pair);
    if (wrong) return tell(c, wrong);
    tell(c, "all is well");
    return 0;
}

static weft_status meet(weft_comm *c, uint64_t order, const char *name, weft_error *error) {
    float x[100] = {0};
    _Alignas(64) char scratch[2048];
    weft_collective a = {
        WEFT_ALL_REDUCE, .buffer = x, .count = 100, .scratch = scratch, .scratch_bytes = sizeof scratch,
        .order = order,  .name = name};
    if (c->rank == 1 && strcmp(name, "differ") == 0) a.kind = WEFT_BROADCAST;
    return weft_comm_run(c, &a, error);
}

/* Ends in the error of the mode, with a nonzero status. */
static int fail(weft_comm *c, const char *mode) {
    weft_error error = {0};
    if (meet(c, 16, "generator.1", &error)) return tell(c, error.text);
    weft_comm_place(c, "data loader wait");
    if (c->rank == 1 && strcmp(mode, "stopped") == 0) raise(SIGSTOP);
    if (c->rank == 1 && strcmp(mode, "missing") == 0) sleep(30);
    sleep(1); /* heartbeats tell the places */
    meet(c, 17, mode, &error);
    tell(c, error.text);
    sleep(1); /* so that the others' words get out before the launcher ends them */
    weft_comm_abort(c, "the test is over");
    return 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int measure_one(weft_comm *c, const char *what, weft_collective a, int runs) {
    double best = 1e9;
    weft_error error = {0};
    for (int i = 0; i < runs; i++) {
        double begin = now();
        if (weft_comm_run(c, &a, &error)) return tell(c, error.text);
        if (now() - begin < best) best = now() - begin;
    }
    if (c->rank == 0) printf("all_reduce %s: %.3f ms\n", what, best * 1e3);
    return 0;
}

static int measure(weft_comm *c) {
    enum { N = 25000000 / 4 };
    size_t room = 12 << 20;
    weft_collective a = {WEFT_ALL_REDUCE, .buffer = test_memory(N * sizeof(float)), .count = N,
                         .scratch = test_memory(room), .scratch_bytes = room};
    int code = measure_one(c, "25 MB", a, 11);
    a.wire = WEFT_BF16;
    if (!code) code = measure_one(c, "25 MB as bf16", a, 11);
    a.wire = WEFT_F32;
    a.count = 256;
    if (!code) code = measure_one(c, "1 KB", a, 201);
    free(a.buffer);
    free(a.scratch);
    return code;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "all";
    weft_launch launch;
    weft_error error = {0};
    weft_comm_options options = {.deadline_seconds =
                                     strcmp(mode, "missing") && strcmp(mode, "stopped") ? 60 : 3};
    weft_status status = weft_launch_read("auto", environ, &launch, &error);
    weft_comm *c = status ? NULL : weft_comm_mpi(launch.world > 1 ? &launch : NULL, &options, &error);
    if (!c) {
        printf("%s\n", error.text);
        return status == WEFT_OK && error.status == WEFT_UNSUPPORTED ? 77 : 2;
    }
    int code = strcmp(mode, "all") == 0 ? all(c) : strcmp(mode, "time") == 0 ? measure(c) : fail(c, mode);
    weft_comm_free(c);
    return code;
}
