/* test_cuda_sessions.c - whole plans on a GPU: training gives the CPU's results, with the same bits whether
 * launches are captured or not, however streams interleave, and in any world; memory is as planned; errors
 * are reported. */
#include "cuda/support/gpu.h"
#include "cuda/support/narrow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cublasLt.h"
#include "cuda_host/cuda_host.h"
#endif

/* Losses within the model's tolerance: the order of sums differs. */
static void check_close(const narrow_model *c, const world_rank *want, const world_rank *got) {
    CHECK(want->n_losses == got->n_losses && want->n_losses > 1);
    for (int i = 0; i < want->n_losses && i < got->n_losses; i++)
        CHECK_SAYS(fabsf(want->losses[i] - got->losses[i]) <=
                       1e-5f * (float)c->most * (1 + fabsf(want->losses[i])),
                   "%s: loss %d is %g on the CPU, %g on the GPU", c->name, i, (double)want->losses[i],
                   (double)got->losses[i]);
}

TEST(training_goes_as_on_the_cpu) {
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        world_rank *cpu = narrow_train(m, (weft_compile_options){0}, NULL);
        world_rank *gpu =
            narrow_train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA, .verify = true}, NULL);
        check_close(&narrow_models[i], cpu, gpu);
        world_free(cpu);
        world_free(gpu);
        weft_model_free(m);
    }
}

/* In bf16 the roundings differ, and a bias' gradient is here a sum of rounded numbers, so the tolerance is
 * wide. */
TEST(training_in_bf16_goes_about_as_on_the_cpu) {
    for (int i = 0; i < 2; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        narrow_model about = {narrow_models[i].name, .most = 1000};
        world_rank *cpu = narrow_train(m, (weft_compile_options){.precision = WEFT_BF16}, NULL);
        world_rank *gpu = narrow_train(
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
    world_rank *r = narrow_train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA}, NULL);
    *launches = cuda_host_count().launches - before;
    return r;
}

/* Each epilogue is then a kernel of our own after the product, in each step. A bias' gradient always is: it
 * is fused only where a table says so. */
TEST(training_goes_the_same_way_where_cublaslt_lacks_epilogues) {
    /* forward, backward */
    static const int epilogues[] = {2 + 2, 2 + 2};
    for (int i = 0; i < 2; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        int64_t few, many;
        world_rank *with = train_counting(m, &few);
        cublasLt_host_refuse_epilogues(1);
        world_rank *without = train_counting(m, &many);
        cublasLt_host_refuse_epilogues(0);
        check_close(&narrow_models[i], with, without);
        CHECK_SAYS(many - few == epilogues[i] * NARROW_STEPS,
                   "%s: %lld launches more, not %d in each of %d steps", narrow_models[i].name,
                   (long long)(many - few), epilogues[i], NARROW_STEPS);
        world_free(with);
        world_free(without);
        weft_model_free(m);
    }
}
#endif

/* ---- the same bits ---- */

static void train_uncaptured(world_rank *r) {
    weft_session_set_capture(r->session, false);
    world_train(r);
}

TEST(captured_launches_give_the_same_bits) {
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true};
        world_rank *plain = narrow_train(m, options, train_uncaptured);
        for (uint64_t seed = 1; seed < 3; seed++) {
#ifdef WEFT_CUDA_HOST
            cuda_host_seed(seed);
#endif
            world_rank *captured = narrow_train(m, options, NULL);
            world_check(plain, captured, 1, world_all, narrow_models[i].name);
            world_free(captured);
        }
        world_free(plain);
        weft_model_free(m);
    }
}

/* Ranks that share a GPU, with collectives through the host: the tree over micro-batches is the CPU's. */
TEST(worlds_on_gpus_train_to_the_same_bits) {
    static const struct {
        int world, zero;
        bool serial;
    } settings[] = {{2, 0, false}, {2, 1, false}, {3, 2, false}, {2, 1, true}};
    for (int i = 0; i < NARROW_MODELS; i += 1 + test_is_quick()) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
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
            world_rank *alone = narrow_train(m, one, NULL), *ranks = narrow_train(m, many, NULL);
            world_check(alone, ranks, settings[k].world, world_trained, narrow_models[i].name);
            world_free(alone);
            world_free(ranks);
        }
        weft_model_free(m);
    }
}

/* All gradients that the graph has added can be read. */
static void read_gradients(world_rank *r, const char *graph) {
    static _Thread_local float gradient[1 << 16];
    const char *path;
    int found = 0;
    for (int i = 0; (path = weft_store_path(r->store, i)); i++) {
        int64_t shape[WEFT_MAX_NDIM];
        size_t n = 1;
        int ndim = weft_store_shape(r->store, path, NULL, shape);
        for (int k = 0; k < ndim; k++) n *= (size_t)shape[k];
        if (n > sizeof gradient / sizeof *gradient ||
            weft_gradient_get(r->session, graph, path, gradient, n * sizeof *gradient, NULL))
            continue;
        for (size_t k = 0; k < n; k++) CHECK(isfinite(gradient[k]));
        found++;
    }
    CHECK(found > 0);
}

/* Steps as calls (options.manual), with gradients read between them. */
static void train_by_hand(world_rank *r) {
    int most = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    for (int64_t step = 0; step < r->job->steps; step++)
        for (int g = 0; g < weft_graph_count(r->job->model); g++) {
            const char *graph = weft_graph_name(r->job->model, g);
            if (weft_zero_gradients(r->session, graph, NULL)) continue; /* it trains nothing */
            for (int i = 0; i < most; i++)
                world_micro(r, graph, (step * r->world + r->rank) * most + i, NULL);
            read_gradients(r, graph);
            CHECK(weft_run_update(r->session, graph, &r->error) == WEFT_OK);
        }
}

TEST(steps_alone_have_the_bits_of_whole_runs) {
    static const weft_compile_options settings[] = {{.accumulate = 1},
                                                    {.accumulate = 3},
                                                    {.world = 2, .zero = 1},
                                                    {.world = 2, .accumulate = 2, .zero = 2}};
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        weft_compile_options whole = settings[i % 4];
        whole.device = WEFT_DEVICE_CUDA;
        whole.deterministic = whole.verify = true;
        weft_compile_options alone = whole;
        alone.manual = true;
        world_rank *want = narrow_train(m, whole, NULL), *got = narrow_train(m, alone, train_by_hand);
        for (int r = 0; r < (whole.world ? whole.world : 1); r++) {
            char where[300];
            CHECK_SAYS(world_agrees(&want[r], &got[r], world_all, where), "%s: %s", narrow_models[i].name,
                       where);
        }
        world_free(want);
        world_free(got);
        weft_model_free(m);
    }
}

/* ---- memory ---- */

#ifdef WEFT_CUDA_HOST
static weft_memory planned;
static size_t in_use;
static uint64_t beyond;

/* Called within training: the plan's numbers and the GPU's. */
static void look_at_memory(world_rank *r) {
    planned = weft_plan_memory(r->plan);
    world_train(r);
    in_use = cuda_host_count().bytes;
    CHECK(weft_session_extra_bytes(r->session, &beyond, NULL) == WEFT_OK);
}

TEST(memory_on_the_gpu_is_the_plans) {
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], NULL);
        size_t before = cuda_host_count().bytes;
        weft_compile_options o = {.device = WEFT_DEVICE_CUDA,
                                  .guard = i % 2 ? WEFT_GUARD_NAN : WEFT_GUARD_OFF};
        world_free(narrow_train(m, o, look_at_memory));
        CHECK_SAYS(in_use - before == planned.total, "%s: %zu bytes in use, the plan says %llu",
                   narrow_models[i].name, in_use - before, (unsigned long long)planned.total);
        CHECK_SAYS(beyond == before, "%llu bytes beyond the plan", (unsigned long long)beyond);
        CHECK(cuda_host_count().bytes == before);
        weft_model_free(m);
    }
}

TEST(nothing_is_lost_when_memory_is_out) {
    weft_model *m = narrow_build(&narrow_models[0], NULL);
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

/* Everything that a run needs, for one device. */
typedef struct opened {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} opened;

/* Deterministic, since tests compare bits of sessions: a real library may add in any order otherwise. */
static void open_model(opened *o, weft_model *m) {
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .threads = 1, .deterministic = true};
    *o = (opened){.model = m};
    o->plan = weft_compile(m, &options, &o->error);
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

/* A linear layer of 3 classes with cross entropy. */
static weft_model *classifier(void) {
    weft_model *m = weft_model_new("classifier");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 5});
    weft_value *y = weft_input(g, "y", WEFT_I64, 1, (int64_t[]){4});
    weft_value *loss = weft_cross_entropy(weft_linear(x, 3, "fc", NULL), y, NULL);
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
        /* nobody has waited for the GPU yet */
        CHECK(run_classifier(&o, x, (int64_t[]){0, -7, 2, 0}, NULL) == WEFT_OK);
        CHECK(weft_sync(o.session, &o.error) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, "-7");
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK);
    }
    close_model(&o);
}

/* Two programs whose bad labels are found at the same position of their schedules: the record says in which
 * program. */
static weft_model *two_classifiers(void) {
    weft_model *m = weft_model_new("two");
    const char *const names[] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, names[i], WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 5});
        weft_value *y = weft_input(g, "y", WEFT_I64, 1, (int64_t[]){4});
        weft_value *loss = weft_cross_entropy(weft_linear(x, 3, names[i], NULL), y, NULL);
        weft_minimize(loss, names[i], &(weft_optimizer){.type = "sgd", .lr = 0.1});
        weft_output(loss, "loss");
    }
    return m;
}

TEST(a_broken_rule_is_told_of_the_graph_that_met_it) {
    static const char *const names[] = {"right", "left", "right"};
    const float x[20] = {1, 2, 3};
    const int64_t y[4] = {0, 1, 5, 0};
    opened o;
    open_model(&o, two_classifiers());
    for (int i = 0; i < 3 && o.session; i++) {
        char want[40];
        snprintf(want, sizeof want, "graph %s:", names[i]);
        CHECK(weft_run(o.session, names[i], (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2, NULL, 0,
                       &o.error) == WEFT_OK);
        CHECK(weft_sync(o.session, &o.error) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, want);
    }
    close_model(&o);
}

TEST(a_check_names_the_first_node_that_makes_nan) {
    opened o;
    float x[20] = {1, 2, 3, [7] = NAN}, loss = 0;
    open_model(&o, classifier());
    if (o.session) {
        weft_session_set_check(o.session, true);
        CHECK(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_DATA);
        CHECK_HOLDS(o.error.text, "NaN at element 7");
        x[7] = 0;
        CHECK_SAYS(run_classifier(&o, x, (int64_t[]){0, 1, 2, 0}, &loss) == WEFT_OK, "%s", o.error.text);
    }
    close_model(&o);
}

/* The loss of the last of 20 steps; x and y are filled again as soon as weft_run returns. With `waits` each
 * run has ended before that. */
static float loss_of_20(float *x, int64_t *y, bool waits) {
    opened o;
    float loss = NAN;
    open_model(&o, classifier());
    for (int step = 0; step < 20 && o.session; step++) {
        for (int i = 0; i < 20; i++) x[i] = (float)((i * 7 + step * 3) % 11) - 5;
        for (int i = 0; i < 4; i++) y[i] = (i + step) % 3;
        CHECK(run_classifier(&o, x, y, step == 19 ? &loss : NULL) == WEFT_OK);
        if (waits) CHECK(weft_sync(o.session, NULL) == WEFT_OK);
    }
    close_model(&o);
    return loss;
}

/* The host may fill its buffer again as soon as weft_run returns, wherever the buffer lies. */
TEST(what_is_fed_may_change_as_soon_as_a_run_is_back) {
    float x[20], want;
    int64_t y[4];
    opened o;
    open_model(&o, classifier());
    const weft_allocator *memory = weft_plan_feed_memory(o.plan);
    NEED(memory != NULL);
    float *pinned_x = memory->alloc(memory->context, sizeof x, sizeof *x);
    int64_t *pinned_y = memory->alloc(memory->context, sizeof y, sizeof *y);
    CHECK(pinned_x && pinned_y);
    want = loss_of_20(x, y, true);
    CHECK_SAYS(loss_of_20(x, y, false) == want, "not %g", (double)want);
    if (pinned_x && pinned_y) {
        CHECK_SAYS(loss_of_20(pinned_x, pinned_y, false) == want, "pinned: not %g", (double)want);
        CHECK_SAYS(loss_of_20(pinned_x, y, false) == want, "half pinned: not %g", (double)want);
    }
    if (pinned_x) memory->free(memory->context, pinned_x, sizeof x);
    if (pinned_y) memory->free(memory->context, pinned_y, sizeof y);
    close_model(&o);
}

/* Feeds that are not pinned are copied in pieces of 4 MiB. */
TEST(a_large_feed_arrives_whole) {
    enum { N = (9 << 20) / 4 + 3 };
    opened o;
    weft_model *m = weft_model_new("large");
    weft_graph *g = weft_graph_new(m, "double", WEFT_EVAL);
    weft_output(weft_scale(weft_input(g, "x", WEFT_F32, 1, (int64_t[]){N}), 2), "y");
    open_model(&o, m);
    float *x = malloc(2 * N * sizeof *x), *y = x + N;
    NEED(x != NULL);
    for (int i = 0; i < N; i++) x[i] = (float)i;
    weft_status status = weft_run(o.session, "double", &(weft_feed){"x", x, N * sizeof *x}, 1,
                                  &(weft_fetch){"y", y, N * sizeof *y}, 1, &o.error);
    int wrong = 0;
    for (int i = 0; i < N && !status; i++) wrong += y[i] != 2 * x[i];
    CHECK_SAYS(!status && wrong == 0, "%d wrong: %s", wrong, o.error.text);
    free(x);
    close_model(&o);
}

#ifdef WEFT_CUDA_HOST
/* Memory for feeds that are not pinned is made in the first run. */
TEST(a_run_without_memory_for_its_feeds_can_be_repeated) {
    opened o;
    float x[20] = {1, 2, 3}, loss;
    int64_t y[4] = {0, 1, 2, 0};
    open_model(&o, classifier());
    cuda_host_fail_allocation(1);
    CHECK(run_classifier(&o, x, y, &loss) == WEFT_MEMORY);
    cuda_host_fail_allocation(0);
    CHECK_SAYS(run_classifier(&o, x, y, &loss) == WEFT_OK, "%s", o.error.text);
    close_model(&o);
}
#endif

/* The store gives what the GPU has done so far, without a call of weft_sync. */
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

/* In plain, captured and repeated runs, of two graphs; a NaN keeps its bits. */
TEST(constant_tensors_are_on_the_gpu_from_the_opening_on) {
    static const uint32_t bits[] = {0x7fc01234, 0x3f800000, 0xc0000000};
    weft_model *m = weft_model_new("tensors");
    opened o;
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){3});
        weft_value *c = weft_constant_tensor(g, WEFT_F32, 1, (int64_t[]){3}, bits);
        weft_output(c, "c");
        weft_output(weft_mul(x, c), "y");
    }
    open_model(&o, m);
    for (int i = 0; i < 8 && o.session; i++) {
        float x[] = {1, (float)i, 2}, y[3] = {0};
        uint32_t c[3] = {0};
        weft_status status = weft_run(o.session, i % 2 ? "b" : "a", &(weft_feed){"x", x, sizeof x}, 1,
                                      (weft_fetch[]){{"c", c, sizeof c}, {"y", y, sizeof y}}, 2, &o.error);
        CHECK_SAYS(!status, "%s", o.error.text);
        CHECK(memcmp(c, bits, sizeof c) == 0 && isnan(y[0]) && y[1] == (float)i && y[2] == -4);
    }
    close_model(&o);
}

static weft_model *preprocessor(void) {
    weft_preprocess_options how = {.border = 2,
                                   .crop_height = 6,
                                   .crop_width = 7,
                                   .flip = true,
                                   .swap_channels = true,
                                   .mean = {100, 110, 120},
                                   .std = {50, 60, 70},
                                   .multiple = 4,
                                   .fill = 1};
    weft_model *m = weft_model_new("preprocessor");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "image", WEFT_U8, 4, (int64_t[]){4, 3, 8, 8});
        weft_value *draws = weft_input(g, "draws", WEFT_F32, 2, (int64_t[]){4, 3});
        weft_output(weft_offset(weft_scale(draws, 1), 0),
                    "read"); /* eval graphs do not read them otherwise */
        weft_output(weft_preprocess(x, draws, &how), "y");
    }
    return m;
}

static weft_status run_preprocessor(weft_session *s, const char *graph, float y[4 * 3 * 8 * 8],
                                    weft_error *error) {
    unsigned char image[4 * 3 * 8 * 8];
    float draws[12];
    for (size_t i = 0; i < sizeof image; i++) image[i] = (unsigned char)(i * 37 + i / 5);
    for (int i = 0; i < 12; i++) draws[i] = (float)(i * 5 % 12) / 12;
    return weft_run(s, graph, (weft_feed[]){{"image", image, sizeof image}, {"draws", draws, sizeof draws}},
                    2, &(weft_fetch){"y", y, 4 * 3 * 8 * 8 * sizeof *y}, 1, error);
}

TEST(the_preprocessor_gives_the_cpus_bits) {
    weft_error error = {0};
    opened o;
    open_model(&o, preprocessor());
    weft_plan *plan = weft_compile(o.model, &(weft_compile_options){.threads = 1}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *cpu = store ? weft_session_open(plan, store, &error) : NULL;
    for (int i = 0; i < 6 && cpu && o.session; i++) {
        float want[4 * 3 * 8 * 8], got[4 * 3 * 8 * 8] = {0};
        const char *graph = i % 2 ? "val" : "train";
        CHECK(run_preprocessor(cpu, graph, want, &error) == WEFT_OK);
        CHECK_SAYS(run_preprocessor(o.session, graph, got, &o.error) == WEFT_OK, "%s", o.error.text);
        CHECK(memcmp(want, got, sizeof want) == 0);
    }
    CHECK_SAYS(cpu != NULL, "%s", error.text);
    weft_session_close(cpu);
    weft_store_free(store);
    weft_plan_free(plan);
    close_model(&o);
}

GPU_SUITE("sessions on a GPU",
          {T(constant_tensors_are_on_the_gpu_from_the_opening_on), T(training_goes_as_on_the_cpu),
           T(training_in_bf16_goes_about_as_on_the_cpu), T(captured_launches_give_the_same_bits),
           T(worlds_on_gpus_train_to_the_same_bits), T(steps_alone_have_the_bits_of_whole_runs),
#ifdef WEFT_CUDA_HOST
           T(training_goes_the_same_way_where_cublaslt_lacks_epilogues), T(memory_on_the_gpu_is_the_plans),
           T(nothing_is_lost_when_memory_is_out), T(a_run_without_memory_for_its_feeds_can_be_repeated),
#endif
           T(a_label_that_breaks_the_rule_is_told_when_the_host_waits),
           T(a_broken_rule_is_told_of_the_graph_that_met_it), T(a_check_names_the_first_node_that_makes_nan),
           T(what_is_fed_may_change_as_soon_as_a_run_is_back), T(a_large_feed_arrives_whole),
           T(values_come_back_and_go_there), T(the_preprocessor_gives_the_cpus_bits)})
