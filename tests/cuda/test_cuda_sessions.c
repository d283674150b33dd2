/* test_cuda_sessions.c - whole plans on a GPU: training there goes as on the CPU, with the same bits whether launches are
 * captured or not, however streams interleave, and in any world; memory is what the plan says; errors are told. */
#include "examples/zoo.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cublasLt.h"
#include "cuda_host/cuda_host.h"
#endif

/* ---- models: the zoo's, narrow ---- */

typedef struct model_case {
    const char *name;
    zoo_options size;
    int64_t most; /* differing losses: in units of 1e-5 of theirs */
} model_case;

#define SIZES .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15
static const model_case models[] = {{"mlp", {SIZES, .batch = 3, .narrow = 3}, 10},
                                    {"gpt", {SIZES, .batch = 2}, 20},
                                    {"convnet", {SIZES, .batch = 2, .narrow = 8}, 100},
                                    {"dcgan28", {SIZES, .batch = 2, .narrow = 8}, 100}};
enum { MODELS = sizeof models / sizeof *models, STEPS = 3 }; /* node by node, captured, replayed */

static weft_model *build(const model_case *c, const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new(c->name);
    zoo_options o = c->size;
    o.optimizer = optimizer;
    weft_model_batch(m, o.batch);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, c->name) == 0) zoo_models[i].build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static const weft_optimizer clipped = {.type = "adamw", .lr = 2e-3, .weight_decay = 0.05, .clip_norm = 0.3};

static world_rank *train(const weft_model *m, weft_compile_options options, void (*run)(world_rank *r)) {
    return world_run(&(world_job){.model = m, .steps = STEPS, .options = options, .run = run});
}

static void check_close(const model_case *c, const world_rank *want, const world_rank *got) {
    CHECK(want->n_losses == got->n_losses && want->n_losses > 1);
    for (int i = 0; i < want->n_losses && i < got->n_losses; i++)
        CHECK_SAYS(fabsf(want->losses[i] - got->losses[i]) <=
                       1e-5f * (float)c->most * (1 + fabsf(want->losses[i])),
                   "%s: loss %d is %g on the CPU, %g on the GPU", c->name, i, (double)want->losses[i],
                   (double)got->losses[i]);
}

TEST(training_goes_as_on_the_cpu) {
    for (int i = 0; i < MODELS; i++) {
        weft_model *m = build(&models[i], &clipped);
        world_rank *cpu = train(m, (weft_compile_options){0}, NULL);
        world_rank *gpu = train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA, .verify = true}, NULL);
        check_close(&models[i], cpu, gpu);
        world_free(cpu);
        world_free(gpu);
        weft_model_free(m);
    }
}

/* In bf16 roundings fall apart, and a bias' gradient is a sum of rounded numbers here. */
TEST(training_in_bf16_goes_about_as_on_the_cpu) {
    for (int i = 0; i < 2; i++) {
        weft_model *m = build(&models[i], &clipped);
        model_case about = {models[i].name, .most = 1000};
        world_rank *cpu = train(m, (weft_compile_options){.precision = WEFT_BF16}, NULL);
        world_rank *gpu = train(
            m, (weft_compile_options){.device = WEFT_DEVICE_CUDA, .precision = WEFT_BF16, .verify = true},
            NULL);
        check_close(&about, cpu, gpu);
        world_free(cpu);
        world_free(gpu);
        weft_model_free(m);
    }
}

#ifdef WEFT_CUDA_HOST
static world_rank *train_counting(const weft_model *m, int64_t *launches) {
    int64_t before = cuda_host_count().launches;
    world_rank *r = train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA}, NULL);
    *launches = cuda_host_count().launches - before;
    return r;
}

/* Each of them is then a kernel of our own behind the product, in each step. */
TEST(training_goes_the_same_way_where_cublaslt_lacks_epilogues) {
    static const int epilogues[] = {2 + 2 + 3, 2 + 2 + 2 * 4}; /* forward, backward, gradients of a bias */
    for (int i = 0; i < 2; i++) {
        weft_model *m = build(&models[i], &clipped);
        int64_t few, many;
        world_rank *with = train_counting(m, &few);
        cublasLt_host_refuse_epilogues(1);
        world_rank *without = train_counting(m, &many);
        cublasLt_host_refuse_epilogues(0);
        check_close(&models[i], with, without);
        CHECK_SAYS(many - few == epilogues[i] * STEPS, "%s: %lld launches more, not %d in each of %d steps",
                   models[i].name, (long long)(many - few), epilogues[i], STEPS);
        world_free(with);
        world_free(without);
        weft_model_free(m);
    }
}
#endif

/* ---- the same bits ---- */

static void train_uncaptured(world_rank *r) {
    weft_session_capture(r->session, false);
    world_train(r);
}

TEST(captured_launches_give_the_same_bits) {
    for (int i = 0; i < MODELS; i++) {
        weft_model *m = build(&models[i], &clipped);
        weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true};
        world_rank *plain = train(m, options, train_uncaptured);
        for (uint64_t seed = 1; seed < 3; seed++) {
#ifdef WEFT_CUDA_HOST
            cuda_host_seed(seed);
#endif
            world_rank *captured = train(m, options, NULL);
            world_check(plain, captured, 1, world_all, models[i].name);
            world_free(captured);
        }
        world_free(plain);
        weft_model_free(m);
    }
}

/* Ranks that share a GPU, by way of the host: the tree over micro-batches is the CPU's. */
TEST(worlds_on_gpus_train_to_the_same_bits) {
    static const struct {
        int world, zero;
        bool serial;
    } settings[] = {{2, 0, false}, {2, 1, false}, {3, 2, false}, {2, 1, true}};
    for (int i = 0; i < MODELS; i += 1 + world_is_quick()) {
        weft_model *m = build(&models[i], &clipped);
        for (size_t k = (size_t)i % 2; k < sizeof settings / sizeof *settings; k += 2) {
            weft_compile_options one = {
                .device = WEFT_DEVICE_CUDA, .deterministic = true, .accumulate = settings[k].world};
            weft_compile_options many = {.device = WEFT_DEVICE_CUDA,
                                         .deterministic = true,
                                         .world = settings[k].world,
                                         .zero = settings[k].zero,
                                         .serial = settings[k].serial,
                                         .bucket_cap_mb = 0.02,
                                         .verify = true};
            world_rank *alone = train(m, one, NULL), *ranks = train(m, many, NULL);
            world_check(alone, ranks, settings[k].world, world_trained, models[i].name);
            world_free(alone);
            world_free(ranks);
        }
        weft_model_free(m);
    }
}

/* ---- a GPU a rank, over NCCL ---- */

#ifdef WEFT_CUDA_HOST
static void join_by_nccl(world_rank *r) {
    weft_comm *nccl = NULL;
    if (!weft_cuda_select(r->rank, &r->error)) nccl = weft_comm_nccl(r->comm, NULL, &r->error);
    if (nccl) r->comm = nccl;
}

static void check_nccl(const weft_model *m, weft_compile_options many, const char *name) {
    weft_compile_options one = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .accumulate = many.world};
    world_rank *alone = train(m, one, NULL);
    world_rank *ranks =
        world_run(&(world_job){.model = m, .steps = STEPS, .options = many, .begin = join_by_nccl});
    if (!many.fast_reduce) world_check(alone, ranks, many.world, world_trained, name);
    CHECK_SAYS(fabsf(ranks[0].losses[ranks[0].n_losses - 1] - ranks[1].losses[ranks[1].n_losses - 1]) < 2,
               "%s: losses went apart", name);
    world_free(alone);
    world_free(ranks);
}

TEST(nccl_trains_to_the_same_bits_as_one_gpu) {
    cuda_host_devices(3);
    for (int i = 0; i < MODELS; i += 1 + world_is_quick()) {
        weft_model *m = build(&models[i], &clipped);
        for (int zero = i % 2; zero < 3; zero += 2)
            check_nccl(m,
                       (weft_compile_options){.device = WEFT_DEVICE_CUDA,
                                              .deterministic = true,
                                              .world = 2 + (zero == 1),
                                              .zero = zero,
                                              .bucket_cap_mb = 0.02,
                                              .fast_reduce = zero == 2 && i == 0},
                       models[i].name);
        weft_model_free(m);
    }
    cuda_host_devices(1);
}

static void join_by_nccl_on_one_gpu(world_rank *r) {
    weft_comm *nccl = weft_comm_nccl(r->comm, NULL, &r->error);
    if (nccl) r->comm = nccl;
}

TEST(ranks_that_share_a_gpu_are_told_so) {
    weft_model *m = build(&models[0], NULL);
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .world = 2};
    world_rank *ranks = world_run_any(
        &(world_job){.model = m, .steps = 1, .options = options, .begin = join_by_nccl_on_one_gpu}, true);
    for (int r = 0; r < 2; r++) {
        CHECK(ranks[r].error.status == WEFT_DEVICE);
        CHECK_HOLDS(ranks[r].error.text, "ranks 0 and 1 share a GPU");
    }
    world_free(ranks);
    weft_model_free(m);
}
#endif

/* ---- memory ---- */

#ifdef WEFT_CUDA_HOST
static weft_memory planned;
static size_t in_use;

static void look_at_memory(world_rank *r) {
    planned = weft_plan_memory(r->plan);
    world_train(r);
    in_use = cuda_host_count().bytes;
}

TEST(memory_on_the_gpu_is_the_plans) {
    for (int i = 0; i < MODELS; i++) {
        weft_model *m = build(&models[i], NULL);
        size_t before = cuda_host_count().bytes;
        world_free(train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA}, look_at_memory));
        CHECK_SAYS(in_use - before == planned.total, "%s: %zu bytes in use, the plan says %llu",
                   models[i].name, in_use - before, (unsigned long long)planned.total);
        CHECK(cuda_host_count().bytes == before);
        weft_model_free(m);
    }
}

TEST(nothing_is_lost_when_memory_is_out) {
    weft_model *m = build(&models[0], NULL);
    weft_error error = {0};
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA, .threads = 1}, &error);
    NEED(plan != NULL);
    cuda_host_counts before = cuda_host_count();
    for (int n = 1; n <= 2; n++) {
        cuda_host_fail_allocation(n);
        weft_store *store = weft_store_new(plan, 0, &error);
        weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
        CHECK_SAYS(!s && error.status == WEFT_MEMORY, "allocation %d: status %d: %s", n, error.status,
                   error.text);
        weft_session_close(s);
        weft_store_free(store);
        cuda_host_fail_allocation(0);
        error = (weft_error){0};
        CHECK(cuda_host_count().bytes == before.bytes && cuda_host_count().streams == before.streams);
    }
    weft_plan_free(plan);
    weft_model_free(m);
}
#endif

/* ---- errors ---- */

typedef struct opened {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} opened;

static void open_model(opened *o, weft_model *m) {
    *o = (opened){.model = m};
    o->plan = weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA, .threads = 1}, &o->error);
    o->store = o->plan ? weft_store_new(o->plan, 1, &o->error) : NULL;
    o->session = o->store ? weft_session_open(o->plan, o->store, &o->error) : NULL;
    CHECK_SAYS(o->session != NULL, "%s", o->error.text);
}

static void close_model(opened *o) {
    weft_session_close(o->session);
    weft_store_free(o->store);
    weft_plan_free(o->plan);
    weft_model_free(o->model);
}

static weft_model *classifier(void) {
    weft_model *m = weft_model_new("classifier");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 5});
    weft_value *y = weft_input(g, "y", WEFT_I64, 1, (int64_t[]){4});
    weft_value *loss = weft_cross_entropy(weft_linear(x, 3, "fc"), y);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_output(loss, "loss");
    return m;
}

static weft_status run_classifier(opened *o, const float *x, const int64_t *y, float *loss) {
    return weft_run(o->session, "train", (weft_feed[]){{"x", x, 20 * sizeof *x}, {"y", y, 4 * sizeof *y}}, 2,
                    (weft_fetch[]){{"loss", loss, sizeof *loss}}, loss ? 1 : 0, &o->error);
}

TEST(a_label_that_breaks_the_rule_is_told_when_the_host_waits) {
    opened o;
    float x[20] = {1, 2, 3}, loss = 0;
    open_model(&o, classifier());
    if (o.session) {
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK);
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 3, 0}, &loss) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, "cross_entropy");
        CHECK_HOLDS(o.error.text, "3");
        CHECK(run_classifier(&o, x, (int64_t[]){0, -7, 2, 0}, NULL) == WEFT_OK); /* nobody has waited yet */
        CHECK(weft_sync(o.session, &o.error) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, "-7");
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK);
    }
    close_model(&o);
}

TEST(a_check_names_the_first_node_that_makes_nan) {
    opened o;
    float x[20] = {1, 2, 3, [7] = NAN}, loss = 0;
    open_model(&o, classifier());
    if (o.session) {
        weft_session_check(o.session, true);
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, "NaN at element 7");
        x[7] = 0;
        CHECK_SAYS(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK, "%s", o.error.text);
    }
    close_model(&o);
}

/* The host may fill its buffer again as soon as weft_run is back. */
TEST(what_is_fed_may_change_as_soon_as_a_run_is_back) {
    opened slow, quick;
    float x[20], loss[2];
    int64_t y[4] = {0, 1, 2, 0};
    open_model(&slow, classifier());
    open_model(&quick, classifier());
    for (int step = 0; step < 20 && slow.session && quick.session; step++) {
        for (int i = 0; i < 20; i++) x[i] = (float)((i * 7 + step * 3) % 11) - 5;
        CHECK(run_classifier(&slow, x, y, &loss[0]) == WEFT_OK && weft_sync(slow.session, NULL) == WEFT_OK);
        CHECK(run_classifier(&quick, x, y, step == 19 ? &loss[1] : NULL) == WEFT_OK);
    }
    CHECK_SAYS(loss[0] == loss[1], "%g, %g", (double)loss[0], (double)loss[1]);
    close_model(&slow);
    close_model(&quick);
}

/* What the store says is what the GPU has done, without a word of sync. */
TEST(values_come_back_and_go_there) {
    opened o;
    float x[20] = {1, 2, 3}, loss, before[15], after[15];
    open_model(&o, classifier());
    if (o.session) {
        CHECK(weft_store_get(o.store, "fc/weight", before, sizeof before, &o.error) == WEFT_OK);
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, NULL) == WEFT_OK);
        CHECK(weft_store_get(o.store, "fc/weight", after, sizeof after, &o.error) == WEFT_OK);
        CHECK(memcmp(before, after, sizeof before) != 0);
        memset(before, 0, sizeof before);
        CHECK(weft_store_set(o.store, "fc/weight", before, sizeof before, &o.error) == WEFT_OK);
        CHECK(weft_store_set(o.store, "fc/bias", before, 3 * sizeof *before, &o.error) == WEFT_OK);
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK);
        CHECK_SAYS(fabsf(loss - logf(3)) < 1e-6f, "loss %g", (double)loss);
    }
    close_model(&o);
}

SUITE("sessions on a GPU",
      {T(training_goes_as_on_the_cpu), T(training_in_bf16_goes_about_as_on_the_cpu),
       T(captured_launches_give_the_same_bits), T(worlds_on_gpus_train_to_the_same_bits),
#ifdef WEFT_CUDA_HOST
       T(training_goes_the_same_way_where_cublaslt_lacks_epilogues),
       T(nccl_trains_to_the_same_bits_as_one_gpu), T(ranks_that_share_a_gpu_are_told_so),
       T(memory_on_the_gpu_is_the_plans), T(nothing_is_lost_when_memory_is_out),
#endif
       T(a_label_that_breaks_the_rule_is_told_when_the_host_waits),
       T(a_check_names_the_first_node_that_makes_nan), T(what_is_fed_may_change_as_soon_as_a_run_is_back),
       T(values_come_back_and_go_there)})
