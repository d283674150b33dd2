/* comm_ranks.c - one rank of a world of processes, started by tests/dist/test_comm_mpi.sh under mpirun, or
 * over UCX.
 *
 *     comm_ranks all          every collective against plain sums; exit 0
 *     comm_ranks bits         some of every kind; prints a hash of what each rank ended with
 *     comm_ranks endless      all_reduces until it is killed
 *     comm_ranks differ       rank 1 starts another kind; every rank prints its error, then aborts
 *     comm_ranks missing      rank 1 stays away; likewise
 *     comm_ranks early        rank 1 leaves the process without a word
 *     comm_ranks stopped      rank 1 stops itself (SIGSTOP): not even its communication thread answers
 *     comm_ranks time         how long collectives take, by kind and size, and the note of a place
 *     comm_ranks starved      rank 1 gets no memory to join with, and stays where it is
 *     comm_ranks garbage      over UCX: rank 1 has the job's token, and gives random bytes for its address
 *     comm_ranks group        rank 1 runs out of memory while a group is made
 *     comm_ranks hook         all train, and a hook of rank 1 fails after two iterations
 *     comm_ranks cut          rank 1 is stopped while data of a large collective move
 * A second argument is the size of the window in bytes (-1: none, so all goes by messages). Log lines are
 * printed. */
#include "dist/meet/meet.h"
#include "support/comm_check.h"
#include "support/test.h"
#include "weft/weft.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
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
    static const size_t counts[] = {0, 1, 7, 1001, 100000, (2 << 20) + 321};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *wrong = comm_check_all(c, counts[i], 1 + i);
        if (!wrong) wrong = comm_check_cuts(c, counts[i], 20 + i);
        if (wrong) return tell(c, wrong);
    }
    const char *wrong = comm_check_unordered(c, 70001, 30);
    if (!wrong) wrong = comm_check_groups(c, 5000, 40);
    if (wrong) return tell(c, wrong);
    tell(c, "all is well");
    return 0;
}

/* Contributions that any change of order or cut would round differently. */
static void contribute(float *x, size_t n, int rank) {
    uint32_t state = 12345u + 977u * (uint32_t)rank;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * (i % 7 ? 1e-9f : 1e-3f);
    }
}

static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

/* All kinds at sizes on both sides of what goes through a window at once; the same line on any way. */
static int bits(weft_comm *c) {
    static const size_t counts[] = {5, 3001, 70001, 300007};
    enum { MOST_COUNT = 300007, ROOM = 12 << 20 };
    float *x = test_memory(MOST_COUNT * sizeof *x);
    void *scratch = test_memory(ROOM);
    uint64_t hash = 0xcbf29ce484222325u;
    weft_error error = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 4; i++)
        for (int kind = WEFT_COLLECTIVE_ALL_REDUCE; kind <= WEFT_COLLECTIVE_BROADCAST && !status; kind++)
            for (int wire = 0; wire <= (kind <= WEFT_COLLECTIVE_REDUCE_SCATTER) && !status; wire++) {
                size_t begin = 0, end = counts[i];
                weft_collective a = {(weft_collective_kind)kind, .buffer = x,
                                     .count = counts[i],         .wire = wire ? WEFT_BF16 : WEFT_F32,
                                     .scratch = scratch,         .scratch_bytes = ROOM};
                contribute(x, counts[i], c->rank);
                status = weft_comm_run(c, &a, &error);
                if (kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
                    weft_comm_range(counts[i], c->world, c->rank, &begin, &end);
                if (kind == WEFT_COLLECTIVE_REDUCE && c->rank) end = 0;
                hash = hash_of(hash, x + begin, (end - begin) * sizeof *x);
            }
    char line[40];
    snprintf(line, sizeof line, "bits %016llx", (unsigned long long)hash);
    tell(c, status ? error.text : line);
    free(x);
    free(scratch);
    return status != WEFT_OK;
}

static int endless(weft_comm *c) {
    enum { N = 20000, ROOM = 1 << 20 };
    static float x[N];
    void *scratch = test_memory(ROOM);
    weft_error error = {0};
    weft_collective a = {WEFT_COLLECTIVE_ALL_REDUCE, .buffer = x, .count = N, .scratch = scratch,
                         .scratch_bytes = ROOM};
    tell(c, "begins");
    while (!weft_comm_run(c, &a, &error)) {
    }
    free(scratch);
    return tell(c, error.text);
}

static weft_status meet(weft_comm *c, uint64_t order, const char *name, weft_error *error) {
    float x[100] = {0};
    _Alignas(64) char scratch[2048];
    weft_collective a = {WEFT_COLLECTIVE_ALL_REDUCE,      .buffer = x,    .count = 100, .scratch = scratch,
                         .scratch_bytes = sizeof scratch, .order = order, .name = name};
    if (c->rank == 1 && strcmp(name, "differ") == 0) a.kind = WEFT_COLLECTIVE_BROADCAST;
    return weft_comm_run(c, &a, error);
}

/* Ends in the error of the mode, with a nonzero status. */
static int fail(weft_comm *c, const char *mode) {
    weft_error error = {0};
    if (meet(c, 16, "generator.1", &error)) return tell(c, error.text);
    weft_comm_place(c, "data loader wait");
    if (c->rank == 1 && strcmp(mode, "stopped") == 0) raise(SIGSTOP);
    if (c->rank == 1 && strcmp(mode, "missing") == 0) sleep(30);
    sleep(1); /* heartbeats carry the places */
    if (c->rank == 1 && strcmp(mode, "early") == 0) _exit(0);
    meet(c, 17, mode, &error);
    tell(c, error.text);
    sleep(1); /* so that the others' words get out before the launcher ends them */
    weft_comm_abort(c, "the test is over");
    return 1;
}

/* Stops this rank as soon as the first sum has come. */
static void *stop_soon(void *context) {
    const volatile float *x = context;
    while (x[0] == 1) usleep(20);
    kill(getpid(), SIGSTOP);
    return NULL;
}

/* Rank 1 stops while the rest of 64 MB are on their way: it has entered. */
static int cut_off(weft_comm *c) {
    enum { N = 16 << 20, ROOM = 12 << 20 };
    pthread_t thread;
    float *x = test_memory(N * sizeof *x);
    weft_error error = {0};
    weft_collective a = {WEFT_COLLECTIVE_ALL_REDUCE,   .buffer = x,           .count = N,
                         .scratch = test_memory(ROOM), .scratch_bytes = ROOM, .name = "large"};
    for (int i = 0; i < N; i++) x[i] = 1;
    weft_status status = meet(c, 1, "first", &error);
    if (c->rank == 1) pthread_create(&thread, NULL, stop_soon, x);
    if (!status) weft_comm_run(c, &a, &error);
    tell(c, error.text);
    weft_comm_abort(c, "the test is over");
    return 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Work for `seconds`: what a training step does between two collectives. */
static void compute(double seconds) {
    double until = now() + seconds;
    while (now() < until) {
    }
}

/* start, compute, wait: prints what this takes beyond the computing. */
static int measure_one(weft_comm *c, const char *what, weft_collective a, int runs, double busy) {
    enum { MOST = 2000 };
    double *took = test_memory(MOST * sizeof *took), sum = 0;
    weft_error error = {0};
    weft_status status = WEFT_OK;
    runs = runs < MOST ? runs : MOST;
    for (int i = 0; i < runs && !status; i++) {
        uint64_t ticket;
        double begin = now();
        status = weft_comm_start(c, &a, &ticket, &error);
        if (busy > 0) compute(busy);
        if (!status) status = weft_comm_wait(c, ticket, &error);
        took[i] = now() - begin - busy;
        sum += took[i];
    }
    qsort(took, (size_t)runs, sizeof *took, by_size);
    if (c->rank == 0 && !status)
        printf("%-36s best %9.1f  median %9.1f  mean %9.1f us\n", what, took[0] * 1e6, took[runs / 2] * 1e6,
               sum / runs * 1e6);
    free(took);
    return status ? tell(c, error.text) : 0;
}

static int measure_kind(weft_comm *c, weft_collective a, const char *how) {
    static const struct {
        size_t elements;
        const char *text;
        int runs;
    } sizes[] = {{64, "256 B", 2000},
                 {16384, "64 KB", 1000},
                 {250000, "1 MB", 200},
                 {1000000, "4 MB", 60},
                 {6250000, "25 MB", 20}};
    int code = 0;
    for (size_t i = 0; !code && i < sizeof sizes / sizeof *sizes; i++) {
        char what[100];
        a.count = sizes[i].elements;
        snprintf(what, sizeof what, "%s %s%s", weft_collective_name(a.kind), sizes[i].text, how);
        code = measure_one(c, what, a, sizes[i].runs, 0);
    }
    return code;
}

/* Each node of a plan tells its place. */
static void measure_place(weft_comm *c) {
    enum { RUNS = 1000000 };
    double begin = now();
    for (int i = 0; i < RUNS; i++)
        weft_comm_place(c, i % 2 ? "d_step: conv2d in discriminator/conv2" : "d_step: wait for all_reduce");
    if (c->rank == 0) printf("%-36s mean %35.4f us\n", "a place", (now() - begin) / RUNS * 1e6);
}

static int measure(weft_comm *c) {
    enum { N = 25000000 / 4 };
    size_t room = 12 << 20;
    weft_collective a = {WEFT_COLLECTIVE_ALL_REDUCE, .buffer = test_memory(N * sizeof(float)), .count = N,
                         .scratch = test_memory(room), .scratch_bytes = room};
    int code = measure_kind(c, a, "");
    a.wire = WEFT_BF16;
    if (!code) code = measure_kind(c, a, " as bf16");
    a.wire = WEFT_F32;
    a.unordered = true;
    if (!code) code = measure_kind(c, a, ", any order");
    a.kind = WEFT_COLLECTIVE_REDUCE_SCATTER;
    if (!code) code = measure_kind(c, a, ", any order");
    a.unordered = false;
    if (!code) code = measure_kind(c, a, "");
    a.kind = WEFT_COLLECTIVE_ALL_GATHER;
    if (!code) code = measure_kind(c, a, "");
    a.kind = WEFT_COLLECTIVE_BROADCAST;
    if (!code) code = measure_kind(c, a, "");
    a.kind = WEFT_COLLECTIVE_ALL_REDUCE;
    a.count = 64;
    if (!code) code = measure_one(c, "all_reduce 256 B, 0.5 ms of work", a, 1000, 5e-4);
    a.count = 250000;
    if (!code) code = measure_one(c, "all_reduce 1 MB, 2 ms of work", a, 300, 2e-3);
    measure_place(c);
    free(a.buffer);
    free(a.scratch);
    return code;
}

static void print_log(void *context, const char *line) {
    (void)context;
    printf("log: %s\n", line);
    fflush(stdout);
}

static int allocations = INT_MAX; /* that rank 1 still gets */

/* The engine's tables have room for a group; what the transport and the caller's handle need is not there. */
static int group_without_memory(weft_comm *c) {
    weft_comm *group = NULL;
    weft_error error = {0};
    allocations = 0;
    weft_comm_group(c, (int[]){0, 1, 2}, 3, &group, &error);
    if (!error.status) weft_comm_run(group, &(weft_collective){.name = "after it"}, &error);
    tell(c, error.text);
    sleep(1); /* so that the others' words get out */
    weft_comm_abort(c, "the test is over");
    return 1;
}

static weft_status fail_late(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const weft_progress *p = weft_trainer_progress(t);
    (void)self;
    if (p->rank != 1 || point != WEFT_AFTER_ITERATION || p->iteration < 2) return WEFT_OK;
    return weft_error_set(error, WEFT_DATA, "a hook is out of luck");
}

/* The error of one rank ends weft_trainer_fit() on all. */
static int train_until_a_hook_fails(weft_comm *c) {
    weft_error error = {0};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_random_normal(g, WEFT_SHAPE(4, 3), 0, 1);
    weft_minimize(weft_mean(weft_square(weft_linear(x, 2, "fc", NULL)), WEFT_ALL, false), "",
                  &(weft_optimizer){.type = "sgd"});
    weft_hook hook = {.name = "late", .at = fail_late};
    weft_trainer *t = weft_trainer_new(
        m, &(weft_trainer_options){.comm = c, .iterations = 1000, .n_hooks = 1, .hooks = &hook}, &error);
    if (t) weft_trainer_fit(t, &error);
    tell(c, error.text);
    sleep(1); /* so that the others' words get out */
    weft_comm_abort(c, "the test is over");
    return 1;
}

/* Enough for the communicator itself, not for what it needs in this world. */
static void *give_little(void *context, size_t bytes, size_t alignment) {
    (void)context;
    return allocations-- <= 0 ? NULL
                              : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void take_back(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    free(memory);
}

/* Meets rank 0 as a rank of this version of UCX would. */
static int give_garbage(const weft_launch *launch) {
    void (*version)(unsigned *, unsigned *, unsigned *) = NULL;
    unsigned major = 0, minor = 0, release = 0;
    unsigned char card[MEET_CARD_MOST];
    char purpose[8];
    test_random r = {7};
    weft_error error = {0};
    meeting m;
    *(void **)&version = dlsym(RTLD_DEFAULT, "ucp_get_version");
    if (version) version(&major, &minor, &release);
    snprintf(purpose, sizeof purpose, "ucx%u.%u", major % 10, minor % 100);
    for (size_t i = 0; i < sizeof card; i++) card[i] = (unsigned char)random_bits(&r);
    meet_begin(&m, &(meet_options){NULL, launch, purpose, 10});
    if (!meet_round(&m, card, sizeof card, NULL, &error)) meet_round(&m, NULL, 0, NULL, &error);
    meet_end(&m);
    printf("%s\n", error.text);
    return 2;
}

typedef struct mode_of_test {
    const char *name;
    int (*run)(weft_comm *c);
} mode_of_test;

static int run_mode(weft_comm *c, const char *mode) {
    static const mode_of_test modes[] = {{"all", all},
                                         {"bits", bits},
                                         {"endless", endless},
                                         {"group", group_without_memory},
                                         {"cut", cut_off},
                                         {"time", measure},
                                         {"hook", train_until_a_hook_fails}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, mode) == 0) return modes[i].run(c);
    return fail(c, mode);
}

static weft_comm *join(const char *way, const weft_launch *launch, const weft_comm_options *options,
                       weft_error *error) {
#define JOIN(name, joins)                                                                                    \
    if (strcmp(way, #name) == 0) return joins(launch, options, error);
    WEFT_COMM_LIST(JOIN)
    weft_error_set(error, WEFT_NAME, "WEFT_TEST_WAY: no such way");
    return NULL;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "all";
    weft_launch launch;
    weft_error error = {0};
    bool waits = strcmp(mode, "missing") == 0 || strcmp(mode, "stopped") == 0 || strcmp(mode, "cut") == 0 ||
                 strcmp(mode, "group") == 0;
    const weft_allocator little = {give_little, take_back, NULL};
    weft_env env = {.log = print_log};
    weft_comm_options options = {.deadline_seconds = waits ? 2 : 60, .env = &env};
    options.window_bytes = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    weft_status status = weft_launch_read("auto", environ, &launch, &error);
    if (strcmp(mode, "starved") == 0) allocations = 2;
    if (launch.rank == 1) env.allocator = &little;
    const char *way = getenv("WEFT_TEST_WAY");
    if (!way) way = strcmp(launch.launcher, "env") ? "mpi" : "ucx";
    if (strcmp(mode, "garbage") == 0 && launch.rank == 1) return give_garbage(&launch);
    weft_comm *c = status ? NULL : join(way, launch.world > 1 ? &launch : NULL, &options, &error);
    if (!c) {
        printf("%s\n", error.text);
        fflush(stdout);
        if (env.allocator) sleep(3); /* before the launcher ends any rank */
        return status == WEFT_OK && error.status == WEFT_UNSUPPORTED ? 77 : 2;
    }
    int code = run_mode(c, mode);
    weft_comm_free(c);
    return code;
}
