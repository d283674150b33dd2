/* test_cuda_nccl_alone_host.c - worlds over NCCL without MPI: collectives of host memory behave as in every
 * communicator, training gives the bits of one GPU, and ranks that do not meet get an error. Ranks are
 * threads that meet over loopback. */
#include "cuda/support/narrow.h"
#include "cuda_host/cuda_host.h"
#include "support/comm_check.h"
#include "support/comm_world.h"
#include "support/faults.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One rank, in a thread. */
typedef struct alone {
    int rank, world, device, port;
    double deadline;
    const char *(*body)(weft_comm *comm); /* NULL, or what went wrong */
    char wrong[300];
    weft_error error;
    faults memory; /* the communicator's */
    pthread_t thread;
} alone;

static _Thread_local faults *memory; /* of the thread's rank */

/* Joins the world, runs the body, leaves. */
static void *alone_main(void *context) {
    alone *a = context;
    const weft_launch launch = {.rank = a->rank,
                                .world = a->world,
                                .local_rank = a->rank,
                                .address = "127.0.0.1",
                                .port = a->port,
                                .token = "of this job"};
    const weft_comm_options options = {.env = &a->memory.env, .deadline_seconds = a->deadline};
    faults_init(&a->memory);
    memory = &a->memory;
    if (weft_cuda_select(a->device, &a->error)) return NULL;
    weft_comm *comm = weft_comm_nccl_launch(&launch, &options, &a->error);
    /* the text belongs to its thread */
    const char *wrong = comm && a->body ? a->body(comm) : NULL;
    snprintf(a->wrong, sizeof a->wrong, "%s", wrong ? wrong : "");
    weft_comm_free(comm);
    faults_end(&a->memory);
    return NULL;
}

/* A port that was free a moment ago. */
static int meet_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool good = !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
    close(fd);
    return good ? ntohs(at.sin_port) : 0;
}

/* Runs the first `present` ranks of a world; share: all on one GPU. */
static void run_alone(alone *ranks, int present, int world, bool share, double deadline,
                      const char *(*body)(weft_comm *comm)) {
    int port = meet_port();
    cuda_host_devices(world);
    for (int i = 0; i < present; i++) {
        ranks[i] = (alone){.rank = i,
                           .world = world,
                           .device = share ? 0 : i,
                           .port = port,
                           .deadline = deadline,
                           .body = body};
        NEED(pthread_create(&ranks[i].thread, NULL, alone_main, &ranks[i]) == 0);
    }
    for (int i = 0; i < present; i++) pthread_join(ranks[i].thread, NULL);
    cuda_host_devices(1);
}

/* Every collective at several lengths, as for the other communicators. */
static const char *check_collectives(weft_comm *comm) {
    const size_t counts[] = {0, 1, 5, 1000};
    const char *wrong = NULL;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !wrong; i++)
        wrong = comm_check_all(comm, counts[i], 7 + i);
    if (!wrong) wrong = comm_check_unordered(comm, 1000, 3);
    if (!wrong) wrong = comm_check_cuts(comm, 5000, 4);
    return wrong || comm->world == 1 ? wrong : comm_check_groups(comm, 257, 5);
}

TEST(collectives_of_the_host_are_those_of_every_communicator) {
    alone ranks[MOST];
    cuda_host_counts before = cuda_host_count();
    for (int world = 1; world <= 4; world++) {
        run_alone(ranks, world, world, false, 20, check_collectives);
        for (int i = 0; i < world; i++)
            CHECK_SAYS(!*ranks[i].wrong && !ranks[i].error.status, "rank %d of %d: %s %s", i, world,
                       ranks[i].wrong, ranks[i].error.text);
    }
    CHECK_TEXT(cuda_host_trouble(), "");
    CHECK(cuda_host_count().bytes == before.bytes && cuda_host_count().streams == before.streams);
}

/* ---- ranks that do not meet ---- */

static _Thread_local char heard[sizeof(((weft_error *)0)->text)];

/* The ranks enter barriers of different programs. */
static const char *differ(weft_comm *comm) {
    weft_error error = {0}, again = {0};
    weft_collective c = {
        .kind = WEFT_COLLECTIVE_BARRIER, .run = 3, .program = comm->rank ? "g_step" : "d_step"};
    snprintf(heard, sizeof heard, "%s", weft_comm_run(comm, &c, &error) ? error.text : "nothing");
    if (weft_comm_poll(comm, &again) != WEFT_PEER || strcmp(again.text, error.text)) return "errors stay";
    const char *want = comm->rank ? "the first difference is the program: g_step on rank 1, d_step on rank 0"
                                  : "the first difference is the program: d_step on rank 0, g_step on rank 1";
    return strstr(heard, want) ? NULL : "another text";
}

static atomic_bool has_given_up; /* rank 0 has */

/* Rank 1 never enters the barrier: rank 0 gets an error after the deadline. */
static const char *stay_away(weft_comm *comm) {
    weft_error error = {0};
    if (comm->rank == 1) {
        for (int i = 0; i < 6000 && !atomic_load(&has_given_up); i++) test_nap(10);
        return NULL;
    }
    weft_collective c = {.kind = WEFT_COLLECTIVE_BARRIER, .name = "run barrier"};
    uint64_t ticket;
    if (weft_comm_start(comm, &c, &ticket, &error)) return "a barrier starts without waiting";
    while (!weft_comm_poll(comm, &error)) test_nap(1);
    atomic_store(&has_given_up, true);
    return strstr(error.text, "(run barrier) of world on rank 0: not finished after") ? NULL : "another text";
}

TEST(ranks_that_differ_or_stay_away_are_told) {
    static const char *(*const bodies[])(weft_comm *) = {differ, stay_away};
    alone ranks[MOST];
    for (int k = 0; k < 2; k++) {
        run_alone(ranks, 2, 2, false, 0.5, bodies[k]);
        for (int i = 0; i < 2; i++)
            CHECK_SAYS(!*ranks[i].wrong && !ranks[i].error.status, "rank %d: %s %s", i, ranks[i].wrong,
                       ranks[i].error.text);
    }
    CHECK_TEXT(cuda_host_trouble(), "");
}

/* ---- a rank without memory ---- */

static int failing; /* n; one world at a time */

/* Makes a group of all ranks; in it rank 1's n-th allocation fails. */
static const char *make_group(weft_comm *comm) {
    weft_error error = {0};
    weft_comm *group = NULL;
    if (comm->rank == 1) faults_arm(memory, failing, 0, false);
    weft_status status = weft_comm_group(comm, (int[]){1, 0}, 2, &group, &error);
    bool fails = comm->rank == 1 && faults_hit(memory);
    if (comm->rank == 1) faults_arm(memory, 0, 0, false);
    weft_comm_free(group);
    if (fails && (!status || !strstr(error.text, "out of memory"))) return "another error";
    return status ? "refused" : "made";
}

/* Without another communicator the reason stays with the rank; the others wait for it until the deadline. */
TEST(a_rank_without_memory_leaves_nobody_waiting) {
    alone ranks[MOST];
    bool is_made = false;
    cuda_host_nccl_lenient(1);
    for (failing = 1; failing < 20 && !is_made; failing++) {
        run_alone(ranks, 2, 2, false, 1, make_group);
        is_made = strcmp(ranks[0].wrong, "made") == 0;
        for (int i = 0; i < 2; i++)
            CHECK_SAYS(strcmp(ranks[i].wrong, is_made ? "made" : "refused") == 0 && !ranks[i].memory.live,
                       "allocation %d, rank %d: %s %s; %zu bytes left", failing, i, ranks[i].wrong,
                       ranks[i].error.text, ranks[i].memory.live);
    }
    CHECK_SAYS(is_made && failing > 3, "%d allocations", failing);
    cuda_host_nccl_lenient(0);
    CHECK_TEXT(cuda_host_trouble(), "");
}

TEST(ranks_that_cannot_join_are_told) {
    alone ranks[MOST];
    run_alone(ranks, 2, 2, true, 5, NULL);
    for (int i = 0; i < 2; i++) CHECK_HOLDS(ranks[i].error.text, "NCCL: joining the others");
    /* the thread that waits in NCCL is left behind, so this comes last */
    run_alone(ranks, 1, 2, false, 0.3, NULL);
    CHECK_TEXT(ranks[0].error.text, "rank 0: 1 of 2 ranks did not come within 0.3 s: 1");
}

TEST(ranks_meet_where_the_launcher_says) {
    weft_error error = {0};
    const weft_launch nowhere = {.world = 2};
    CHECK(!weft_comm_nccl_launch(&nowhere, NULL, &error));
    CHECK_HOLDS(error.text, "set MASTER_ADDR and MASTER_PORT");
}

/* ---- training ---- */

static int port; /* where its ranks meet */

/* A world_job's begin: replaces the rank's communicator by NCCL's. */
static void join_alone(world_rank *r) {
    const weft_launch launch = {
        .rank = r->rank, .world = r->world, .local_rank = r->rank, .address = "127.0.0.1", .port = port};
    weft_comm_free(r->comm);
    r->comm = NULL;
    if (!weft_cuda_select(r->rank, &r->error)) r->comm = weft_comm_nccl_launch(&launch, NULL, &r->error);
}

TEST(nccl_alone_trains_to_the_same_bits_as_one_gpu) {
    weft_model *m = narrow_build(&narrow_models[0], &narrow_clipped);
    weft_compile_options one = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .accumulate = 2};
    weft_compile_options two = {
        .device = WEFT_DEVICE_CUDA, .deterministic = true, .world = 2, .zero = 1, .bucket_cap_mb = 0.02};
    port = meet_port();
    cuda_host_devices(2);
    world_rank *want = narrow_train(m, one, NULL);
    world_rank *ranks =
        world_run(&(world_job){.model = m, .steps = NARROW_STEPS, .options = two, .begin = join_alone});
    world_check(want, ranks, 2, world_trained, "mlp");
    world_free(want);
    world_free(ranks);
    cuda_host_devices(1);
    weft_model_free(m);
}

/* At step 3 the ranks run different graphs. */
static void go_apart(world_rank *r) {
    float loss;
    for (int step = 0; step < 4 && !r->error.status; step++)
        world_micro(r, step == 3 && r->rank ? "right" : "left", step, step == 3 ? &loss : NULL);
}

TEST(ranks_in_different_programs_hear_it_without_mpi) {
    weft_model *m = narrow_two_graphs();
    port = meet_port();
    cuda_host_devices(2);
    cuda_host_nccl_lenient(1);
    world_rank *ranks = world_run_any(&(world_job){.model = m,
                                                   .options = {.device = WEFT_DEVICE_CUDA, .world = 2},
                                                   .begin = join_alone,
                                                   .run = go_apart},
                                      true);
    CHECK_HOLDS(ranks[0].error.text, "the first difference is the program: left on rank 0, right on rank 1");
    CHECK_HOLDS(ranks[1].error.text, "the first difference is the program: right on rank 1, left on rank 0");
    CHECK_TEXT(cuda_host_trouble(), "");
    world_free(ranks);
    cuda_host_nccl_lenient(0);
    cuda_host_devices(1);
    weft_model_free(m);
}

SUITE("NCCL without MPI",
      {T(collectives_of_the_host_are_those_of_every_communicator), T(ranks_that_differ_or_stay_away_are_told),
       T(nccl_alone_trains_to_the_same_bits_as_one_gpu), T(ranks_in_different_programs_hear_it_without_mpi),
       T(ranks_meet_where_the_launcher_says), T(a_rank_without_memory_leaves_nobody_waiting),
       T(ranks_that_cannot_join_are_told)})
