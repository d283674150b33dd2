/* test_cuda_nccl_host.c - one GPU per rank over NCCL, both emulated: training gives the bits of one GPU, with
 * captured collectives and without. Whatever keeps ranks from meeting ends in one clear error on each of
 * them, in bounded time, with all streams finished. */
#include "cuda/support/narrow.h"
#include "cuda_host/cuda_host.h"
#include "graph/core/error.h"
#include "support/faults.h"
#include "support/models/over_ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A world_job's begin: a GPU for each rank, and NCCL in place of the host's communicator. */
static void join(world_rank *r) {
    weft_comm *nccl = NULL;
    if (!weft_cuda_select(r->rank, &r->error)) nccl = weft_comm_nccl(r->comm, NULL, &r->error);
    if (nccl) r->comm = nccl;
}

/* ---- when everything works ---- */

static void train_uncaptured(world_rank *r) {
    weft_session_set_capture(r->session, false);
    world_train(r);
}

/* Trains one GPU with as many micro-batches as the world has ranks, then the world, and compares. */
static void check_nccl(const weft_model *m, weft_compile_options many, void (*run)(world_rank *r),
                       const char *name) {
    weft_compile_options one = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .accumulate = many.world};
    world_rank *alone = narrow_train(m, one, NULL);
    world_rank *ranks = world_run(
        &(world_job){.model = m, .steps = NARROW_STEPS, .options = many, .begin = join, .run = run});
    if (many.reduce == WEFT_REDUCE_ORDERED) world_check(alone, ranks, many.world, world_trained, name);
    int last = ranks[0].n_losses - 1;
    CHECK(last > 0 && ranks[1].n_losses == last + 1);
    if (last > 0)
        CHECK_SAYS(fabsf(ranks[0].losses[last] - ranks[1].losses[last]) < 2, "%s: losses went apart", name);
    world_free(alone);
    world_free(ranks);
}

TEST(nccl_trains_to_the_same_bits_as_one_gpu) {
    cuda_host_devices(3);
    for (int i = 0; i < NARROW_MODELS; i += 1 + test_is_quick()) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        for (int zero = i % 2; zero < 3; zero += 2)
            check_nccl(m,
                       (weft_compile_options){.device = WEFT_DEVICE_CUDA,
                                              .deterministic = true,
                                              .world = 2 + (zero == 1),
                                              .zero = zero,
                                              .bucket_cap_mb = 0.02,
                                              .reduce = zero == 2 && i == 0 ? WEFT_REDUCE_AUTO
                                                                            : WEFT_REDUCE_ORDERED},
                       i == 1 ? train_uncaptured : NULL, narrow_models[i].name);
        weft_model_free(m);
    }
    cuda_host_devices(1);
}

static void join_on_one_gpu(world_rank *r) {
    weft_comm *nccl = weft_comm_nccl(r->comm, NULL, &r->error);
    if (nccl) r->comm = nccl;
}

/* The loaded library is older than the one that Weft was built with. */
TEST(an_nccl_that_cannot_split_is_told_before_ranks_meet) {
    weft_error error = {0};
    const weft_launch launch = {.world = 1};
    weft_model *m = narrow_build(&narrow_models[0], NULL);
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .world = 2};
    cuda_host_devices(2);
    cuda_host_nccl_version(21604);
    world_rank *ranks =
        world_run_any(&(world_job){.model = m, .steps = 1, .options = options, .begin = join}, true);
    for (int r = 0; r < 2; r++)
        CHECK_HOLDS(ranks[r].error.text, "is version code 21604, and groups of ranks need 2.18 (21800)");
    CHECK(!weft_comm_nccl_launch(&launch, NULL, &error) && error.status == WEFT_DEVICE);
    CHECK_HOLDS(error.text, "rank 0 of 1: the NCCL of this machine is version code 21604");
    cuda_host_nccl_version(21800);
    world_free(ranks);
    weft_model_free(m);
    cuda_host_devices(1);
}

TEST(ranks_that_share_a_gpu_are_told_so) {
    weft_model *m = narrow_build(&narrow_models[0], NULL);
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .world = 2};
    world_rank *ranks = world_run_any(
        &(world_job){.model = m, .steps = 1, .options = options, .begin = join_on_one_gpu}, true);
    for (int r = 0; r < 2; r++) {
        CHECK(ranks[r].error.status == WEFT_DEVICE);
        CHECK_HOLDS(ranks[r].error.text, "ranks 0 and 1 share a GPU");
    }
    world_free(ranks);
    weft_model_free(m);
}

/* Each graph has groups of its own, with their own run barriers and captured collectives. */
TEST(groups_train_over_nccl_as_by_way_of_the_host) {
    char where[300];
    weft_model *m = narrow_two_graphs();
    weft_model_set_ddp(m, "left", &(weft_ddp_options){.process_group = "0-1;2-3", .zero = 1});
    weft_model_set_ddp(m, "right", &(weft_ddp_options){.process_group = "0,2;1,3"});
    world_job job = {.model = m,
                     .steps = NARROW_STEPS,
                     .options = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .world = 4}};
    cuda_host_devices(4);
    world_rank *by_host = world_run(&job);
    job.begin = join;
    world_rank *by_nccl = world_run(&job);
    for (int r = 0; r < 4; r++)
        CHECK_SAYS(world_agrees(&by_host[r], &by_nccl[r], world_all, where), "rank %d: %s", r, where);
    CHECK_TEXT(cuda_host_trouble(), "");
    world_free(by_host);
    world_free(by_nccl);
    cuda_host_devices(1);
    weft_model_free(m);
}

/* Each op, in each kind of element that ranks exchange, on emulated GPUs. */
TEST(ops_over_ranks_run_over_nccl_and_by_way_of_the_host) {
    static const over_ranks all[] = {
        {NULL, 3, WEFT_F32}, {NULL, 2, WEFT_I64}, {NULL, 2, WEFT_BF16}, {"0-1;2-3", 2, WEFT_F32}};
    cuda_host_devices(4);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_model *m = over_ranks_values(&all[i]);
        world_job job = {.model = m,
                         .options = {.device = WEFT_DEVICE_CUDA, .world = all[i].group ? 4 : all[i].n},
                         .run = over_ranks_check,
                         .context = &all[i]};
        world_free(world_run(&job));
        job.begin = join;
        world_free(world_run(&job));
        weft_model_free(m);
    }
    CHECK_TEXT(cuda_host_trouble(), "");
    cuda_host_devices(1);
}

/* First and second gradients of them. */
TEST(ops_over_ranks_train_over_nccl_as_by_way_of_the_host) {
    char where[300];
    weft_model *m = over_ranks_model();
    world_job job = {.model = m,
                     .options = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .world = 2, .zero = 1},
                     .run = over_ranks_train};
    job.options.batch = OVER_RANKS_BATCH / job.options.world;
    cuda_host_devices(2);
    world_rank *by_host = world_run(&job);
    job.begin = join;
    world_rank *by_nccl = world_run(&job);
    for (int r = 0; r < job.options.world; r++)
        CHECK_SAYS(world_agrees(&by_host[r], &by_nccl[r], world_all, where), "rank %d: %s", r, where);
    CHECK_TEXT(cuda_host_trouble(), "");
    world_free(by_host);
    world_free(by_nccl);
    cuda_host_devices(1);
    weft_model_free(m);
}

/* ---- when something fails ---- */

/* CAPTURED: the step from which on everything is captured. */
enum { STEPS = 6, CAPTURED = 4 };

/* What rank 1 does differently. */
typedef struct mishap {
    const char *name;
    int step;                      /* the step at which it does */
    void (*before)(world_rank *r); /* called before that step; NULL: nothing */
    const char *graph;             /* the graph of that step; NULL: none, rank 1 stops there */
    bool is_uncaptured;            /* rank 1 captures nothing, from the start */
    const char *on[2];             /* the errors of the ranks */
} mishap;

static atomic_bool has_given_up; /* a rank that waited for the strange one */

/* Losses are read only at the end, so errors come there. A second sync must give the same error. */
static void live(world_rank *r) {
    const mishap *m = r->job->context;
    float loss;
    bool is_strange = r->rank == 1;
    if (is_strange && m->is_uncaptured) weft_session_set_capture(r->session, false);
    for (int step = 0; step < STEPS && !r->error.status; step++) {
        const char *graph = step % 2 ? "right" : "left";
        if (is_strange && step == m->step && m->before) m->before(r);
        if (is_strange && step == m->step) graph = m->graph;
        if (!graph) return;
        if (!r->error.status) world_micro(r, graph, step, step == STEPS - 1 ? &loss : NULL);
    }
    if (!r->error.status) weft_sync(r->session, &r->error);
    if (!is_strange && r->error.status) atomic_store(&has_given_up, true);
    weft_error again = {0};
    if (r->error.status && weft_sync(r->session, &again))
        CHECK_SAYS(strcmp(again.text, r->error.text) == 0, "first %s, then %s", r->error.text, again.text);
}

static void stay_away(world_rank *r) {
    weft_comm_place(r->comm, "data loader wait");
    for (int i = 0; i < 6000 && !atomic_load(&has_given_up); i++) test_nap(10);
    world_micro(r, "left", 0, NULL); /* too late */
}

static void lose_network(world_rank *r) {
    (void)r;
    cuda_host_nccl_break(1);
}

static void end_epoch(world_rank *r) {
    weft_collective barrier = {.kind = WEFT_COLLECTIVE_BARRIER, .name = "end of the epoch"};
    weft_comm_run(r->comm, &barrier, &r->error);
}

static void give_up(world_rank *r) {
    error_set(&r->error, WEFT_FILE, "the disk is full");
    weft_comm_abort(r->comm, r->error.text);
}

#define LOST  "NCCL: its running work: remote process exited"
#define APART "the first difference is the program: "
static const mishap mishaps[] = {
    {"a rank that does not come",
     CAPTURED,
     stay_away,
     "left",
     false,
     {"rank 1 HAS NOT ENTERED, last entered barrier #0 (run barrier, captured), at \"data loader wait\"",
      "rank 0 has given up"}},
    {"a rank that never came", 0, stay_away, "left", false, {"rank 1 HAS NOT ENTERED", "has given up"}},
    {"a lost network", CAPTURED, lose_network, "left", false, {LOST, LOST}},
    {"another program", CAPTURED, NULL, "right", false, {APART "left on rank 0, right on", APART "right on"}},
    {"another program at first", 0, NULL, "right", false, {APART "left on", APART "right on"}},
    {"a batch less", CAPTURED, end_epoch, NULL, false, {APART, APART "none on rank 1, left on"}},
    {"a rank that captures nothing",
     CAPTURED,
     NULL,
     "left",
     true,
     {"the name: run barrier, captured on rank 0, run barrier on rank 1",
      "the name: run barrier on rank 1, "}},
    {"a rank that aborts",
     CAPTURED,
     give_up,
     NULL,
     false,
     {"rank 1 was aborted: the disk is full", "the disk is full"}},
};

/* One mishap in a world of that size: every rank gets its error in time, and nothing is left on the GPUs. */
static void check_mishap(const weft_model *m, const mishap *one, int world, int zero) {
    const weft_comm_options comm = {.deadline_seconds = 1};
    cuda_host_counts before = cuda_host_count();
    atomic_store(&has_given_up, false);
    world_rank *ranks = world_run_any(
        &(world_job){
            .model = m,
            .options = {.device = WEFT_DEVICE_CUDA, .world = world, .zero = zero, .bucket_cap_mb = 0.0001},
            .begin = join,
            .run = live,
            .context = one,
            .comm = &comm},
        true);
    /* With three ranks, any two may meet first, so texts vary */
    for (int r = 0; r < world; r++)
        CHECK_SAYS(ranks[r].error.status && (world > 2 || strstr(ranks[r].error.text, one->on[r])),
                   "%s: rank %d of %d hears: %s", one->name, r, world, ranks[r].error.text);
    CHECK_TEXT(cuda_host_trouble(), "");
    cuda_host_counts after = cuda_host_count();
    CHECK_SAYS(after.bytes == before.bytes && after.streams == before.streams &&
                   after.events == before.events && after.graphs == before.graphs,
               "%s: left %zu bytes, %d streams, %d events, %d graphs", one->name, after.bytes - before.bytes,
               after.streams - before.streams, after.events - before.events, after.graphs - before.graphs);
    cuda_host_nccl_break(-1);
    world_free(ranks);
}

TEST(ranks_that_do_not_meet_all_hear_why) {
    weft_model *m = narrow_two_graphs();
    cuda_host_devices(3);
    cuda_host_nccl_lenient(1);
    for (size_t i = 0; i < sizeof mishaps / sizeof *mishaps; i++)
        for (int world = 2; world <= 3 - (int)i % 2; world++) check_mishap(m, &mishaps[i], world, (int)i % 3);
    cuda_host_nccl_lenient(0);
    cuda_host_devices(1);
    weft_model_free(m);
}

/* ---- a rank that fails alone while communicators are made ---- */

/* Memory of each rank that may fail. */
enum { RANKS = 3, ALLOCATIONS = 12 };
typedef struct maker {
    faults memory[RANKS];
    bool in_group; /* it is the group whose memory fails */
    bool hit;      /* it did */
} maker;

/* A world of NCCL, then a group of ranks 0 and 1; rank 1's n-th allocation fails in one of them. */
static void make_comms(world_rank *r) {
    maker *m = (maker *)(uintptr_t)r->job->context;
    faults *f = &m->memory[r->rank];
    const weft_comm_options options = {.env = &f->env};
    weft_comm *nccl = NULL, *group = NULL;
    if (!m->in_group && r->rank == 1) faults_arm(f, r->job->steps, 0, false);
    if (!weft_cuda_select(r->rank, &r->error)) nccl = weft_comm_nccl(r->comm, &options, &r->error);
    if (nccl) r->comm = nccl;
    if (m->in_group && r->rank == 1) faults_arm(f, r->job->steps, 0, false);
    if (nccl) weft_comm_group(nccl, (int[]){0, 1}, 2, &group, &r->error);
    if (r->rank == 1) m->hit = faults_hit(f);
    weft_comm_free(group);
}

static void stop(world_rank *r) {
    (void)r;
}

/* Rank 1's n-th allocation fails. Returns false once it makes fewer. */
static bool fails_at(const weft_model *m, bool in_group, int n) {
    maker k = {.in_group = in_group};
    const weft_comm_options comm = {.deadline_seconds = 5};
    cuda_host_counts before = cuda_host_count();
    for (int r = 0; r < RANKS; r++) faults_init(&k.memory[r]);
    world_rank *ranks = world_run_any(&(world_job){.model = m,
                                                   .steps = n,
                                                   .options = {.device = WEFT_DEVICE_CUDA, .world = RANKS},
                                                   .begin = make_comms,
                                                   .run = stop,
                                                   .context = &k,
                                                   .comm = &comm},
                                      true);
    for (int r = 0; r < RANKS && k.hit; r++)
        CHECK_SAYS(ranks[r].error.status && strstr(ranks[r].error.text, "out of memory"),
                   "%s %d: rank %d hears: %s", in_group ? "group" : "world", n, r, ranks[r].error.text);
    CHECK_TEXT(cuda_host_trouble(), "");
    for (int r = 0; r < RANKS; r++) {
        CHECK_SAYS(k.memory[r].live == 0, "rank %d leaves %zu bytes", r, k.memory[r].live);
        faults_end(&k.memory[r]);
    }
    CHECK(cuda_host_count().streams == before.streams && cuda_host_count().bytes == before.bytes);
    world_free(ranks);
    return k.hit;
}

TEST(a_rank_without_memory_is_heard_by_all) {
    weft_model *m = narrow_two_graphs();
    cuda_host_devices(RANKS);
    cuda_host_nccl_lenient(1);
    for (int in_group = 0; in_group < 2; in_group++) {
        int n = 1;
        while (n < ALLOCATIONS && fails_at(m, in_group, n)) n++;
        CHECK_SAYS(n > 2 && n < ALLOCATIONS, "%d allocations", n);
    }
    cuda_host_nccl_lenient(0);
    cuda_host_devices(1);
    weft_model_free(m);
}

SUITE("NCCL", {T(nccl_trains_to_the_same_bits_as_one_gpu), T(groups_train_over_nccl_as_by_way_of_the_host),
               T(ops_over_ranks_run_over_nccl_and_by_way_of_the_host),
               T(ops_over_ranks_train_over_nccl_as_by_way_of_the_host),
               T(an_nccl_that_cannot_split_is_told_before_ranks_meet), T(ranks_that_share_a_gpu_are_told_so),
               T(ranks_that_do_not_meet_all_hear_why), T(a_rank_without_memory_is_heard_by_all)})
