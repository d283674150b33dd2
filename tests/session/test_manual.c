/* test_manual.c - the steps of a training one by one (options.manual): loss, gradients, update, zero. They
 * have the bits of whole runs in any world, whatever the optimizer; what is wrong is reported on all
 * ranks. */
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDTH = 6 };

/* ---- models ---- */

/* Statistics and random numbers, so that state and draws are compared, too. */
static weft_value *network(weft_value *x, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_dropout(weft_relu(weft_batch_norm(weft_linear(x, 9, "a", NULL), "norm", NULL)), 0.2);
        x = weft_linear(x, WIDTH, "b", NULL);
    }
    return x;
}

static weft_value *read_x(weft_graph *g) {
    return weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDTH});
}

/* A GAN: d_step trains the discriminator by two losses, each with an optimizer of its own; g_step the
 * generator through it. */
static weft_model *gan(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("m");
    weft_optimizer other = *optimizer, of_generator = *optimizer;
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *x = read_x(g), *real = network(x, "discriminator"), *fake = network(x, "judge");
    other.name = "other";
    weft_minimize(weft_mean(weft_square(real), WEFT_ALL, false), "discriminator", optimizer);
    weft_minimize(weft_mean(weft_abs(fake), WEFT_ALL, false), "judge", &other);
    weft_output(weft_mean(real, WEFT_ALL, false), "mean");
    g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    weft_value *loss =
        weft_mean(weft_square(network(network(read_x(g), "generator"), "discriminator")), WEFT_ALL, false);
    of_generator.name = "of_generator";
    weft_minimize(loss, "generator", &of_generator);
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* loss = mean((x w)^2), so that its gradient can be computed by hand: WIDTH products to one number a row. */
static weft_model *product(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = read_x(g), *y = x;
    WEFT_SCOPE(x, "net") {
        weft_value *w =
            weft_parameter(x, "w", 2, (int64_t[]){WIDTH, 1}, (weft_init){WEFT_INIT_UNIFORM, -1, 1});
        y = weft_matmul(x, w, false, false);
    }
    weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
    weft_minimize(loss, "", optimizer);
    weft_output(loss, "loss");
    g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(weft_scale(read_x(g), 2), "y");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void fill(float x[ROWS * WIDTH], int64_t number) {
    test_random random = {(uint64_t)number + 1};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)random_in(&random, -1, 1);
}

/* Adds the gradients of micro-batch `number`, or has its loss alone. */
static weft_status micro(world_rank *r, const char *graph, int64_t number, bool loss_alone, float *loss) {
    float x[ROWS * WIDTH];
    fill(x, number);
    weft_fetch fetch = {"loss", loss, sizeof *loss};
    weft_error error = {0};
    weft_status status = (loss_alone ? weft_run_loss : weft_run)(
        r->session, graph, (weft_feed[]){{"x", x, sizeof x}}, 1, &fetch, loss ? 1 : 0, &error);
    CHECK_SAYS(status == WEFT_OK, "%s", error.text);
    return status;
}

/* ---- the same bits ---- */

/* Runs the job as it is and with its steps alone, and compares all that each rank holds. */
static void check_bits(world_job job, void (*manual)(world_rank *r), const char *what) {
    char where[300];
    int world = job.options.world > 1 ? job.options.world : 1;
    job.options.verify = true;
    world_rank *whole = world_run(&job);
    job.options.manual = true;
    job.run = manual;
    world_rank *alone = world_run(&job);
    for (int r = 0; r < world; r++)
        CHECK_SAYS(world_agrees(&whole[r], &alone[r], world_all, where), "%s, rank %d of %d: %s", what, r,
                   world, where);
    for (int i = 0; !manual && i < whole->n_losses; i++)
        CHECK(i < alone->n_losses && whole->losses[i] == alone->losses[i]);
    world_free(alone);
    world_free(whole);
}

TEST(steps_alone_have_the_bits_of_whole_runs) {
    static const weft_optimizer optimizers[] = {
        {.type = "sgd", .lr = 0.1, .momentum = 0.9, .clip_value = 0.01},
        {.type = "adam", .lr = 0.01, .clip_norm = 0.1, .schedule = {{WEFT_SCHEDULE_STEP, .period = 2}}},
        {.type = "adamw", .lr = 0.01, .ema = 0.9},
        {.type = "rmsprop", .lr = 0.01},
        {.type = "lamb", .lr = 0.01},
        {.type = "adafactor", .lr = 0.01, .ema = 0.9, .ema_buffers = true},
        {.type = "sgd", .lr = 0.1, .ema = 0.9, .ema_gamma = 10},
    };
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3, .isa = WEFT_ISA_REFERENCE},
        {.accumulate = 5, .unoptimized = true},
        {.world = 2, .accumulate = 2},
        {.world = 2, .accumulate = 1, .zero = 1},
        {.world = 2, .accumulate = 4, .zero = 2, .serial = true},
        {.world = 3, .accumulate = 1, .zero = 2},
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
            weft_model *m = gan(&optimizers[i]);
            world_job job = {.model = m, .options = worlds[w], .steps = 4};
            job.options.bucket_cap_mb = 2e-4;
            check_bits(job, NULL, optimizers[i].type);
            weft_model_free(m);
        }
}

/* Other calls between the steps: losses alone and gradients that are forgotten change neither gradients nor
 * random numbers. (State they do write: there is none in this comparison.) */
static void train_with_detours(world_rank *r) {
    for (int step = 0; step < r->job->steps; step++) {
        float before = 0, loss = 1;
        micro(r, "step", 1000 + step, false, NULL);
        CHECK(weft_zero_gradients(r->session, "step", &r->error) == WEFT_OK);
        for (int i = 0; i < r->job->options.accumulate; i++) {
            int64_t number = ((int64_t)step * r->world + r->rank) * r->job->options.accumulate + i;
            micro(r, "step", number, true, &before);
            micro(r, "step", number, false, &loss);
            CHECK(before == loss);
            micro(r, "step", 2000, true, NULL);
        }
        CHECK_SAYS(weft_run_update(r->session, "step", &r->error) == WEFT_OK, "%s", r->error.text);
    }
}

static void train_whole(world_rank *r) {
    for (int step = 0; step < r->job->steps; step++)
        for (int i = 0; i < r->job->options.accumulate; i++)
            micro(r, "step", ((int64_t)step * r->world + r->rank) * r->job->options.accumulate + i, false,
                  NULL);
}

TEST(losses_and_forgotten_gradients_leave_no_trace) {
    for (int world = 1; world <= 2; world++) {
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
        weft_value *x = read_x(g), *y = x;
        WEFT_SCOPE(x, "net") y = weft_linear(weft_dropout(weft_linear(x, 9, "a", NULL), 0.5), 2, "b", NULL);
        weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
        weft_minimize(loss, "", &(weft_optimizer){.type = "adam", .lr = 0.01});
        weft_output(loss, "loss");
        world_job job = {.model = m, .steps = 3, .run = train_whole};
        job.options = (weft_compile_options){.world = world, .accumulate = 3};
        check_bits(job, train_with_detours, "detours");
        weft_model_free(m);
    }
}

/* Both graphs add before either updates; whole runs cannot say so, but a third session that updates them in
 * the other order can show that the two are independent. */
static void add_both_then_update(world_rank *r) {
    bool turned = *(const bool *)r->job->context;
    for (int step = 0; step < 3; step++) {
        const char *graphs[] = {turned ? "g_step" : "d_step", turned ? "d_step" : "g_step"};
        for (int i = 0; i < 2; i++) world_micro(r, "d_step", 4 * step + i, NULL);
        for (int i = 0; i < 2; i++) world_micro(r, "g_step", 4 * step + i, NULL);
        for (int i = 0; i < 2; i++) CHECK(weft_run_update(r->session, graphs[i], &r->error) == WEFT_OK);
    }
}

TEST(two_graphs_may_add_before_either_updates) {
    weft_model *m = gan(&(weft_optimizer){.type = "adam", .lr = 0.01});
    world_rank *ranks[2];
    char where[300];
    for (int i = 0; i < 2; i++) {
        bool turned = i;
        world_job job = {.model = m, .run = add_both_then_update, .context = &turned};
        job.options = (weft_compile_options){.world = 2, .accumulate = 2, .zero = i, .manual = true};
        ranks[i] = world_run(&job);
    }
    for (int r = 0; r < 2; r++)
        CHECK_SAYS(world_agrees(&ranks[0][r], &ranks[1][r], world_parameters, where), "%s", where);
    for (int i = 0; i < 2; i++) world_free(ranks[i]);
    weft_model_free(m);
}

/* ---- f16 ---- */

static double number(const world_rank *r, const char *path) {
    const world_part *p = world_find(r, path);
    return CHECK_SAYS(p, "%s", path) ? *(const double *)p->data : NAN;
}

/* The second micro-batch of the last rank overflows in step 1. */
static void overflow(world_rank *r) {
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 3; i++) {
            float x[ROWS * WIDTH];
            fill(x, 10 * step + 3 * r->rank + i);
            if (step == 1 && i == 1 && r->rank == r->world - 1) x[3] = 1e6f;
            weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
        }
        if (r->job->options.manual) CHECK(weft_run_update(r->session, "step", &r->error) == WEFT_OK);
    }
}

TEST(an_overflow_in_one_micro_batch_skips_the_update) {
    for (int i = 0; i < 4; i++) {
        weft_model *m = product(
            &(weft_optimizer){.type = i % 2 ? "adam" : "sgd", .name = "o", .lr = 0.01, .clip_norm = 1});
        world_job job = {.model = m, .run = overflow};
        job.options =
            (weft_compile_options){.world = 1 + i / 2, .accumulate = 3, .zero = i / 2, .precision = WEFT_F16};
        check_bits(job, overflow, "f16");
        job.options.manual = true;
        world_rank *r = world_run(&job);
        CHECK(number(r, "optimizer.o/step") == 2);
        CHECK(number(r, "optimizer.o/loss_scale") == 32768);
        world_free(r);
        weft_model_free(m);
    }
}

/* ---- the gradient ---- */

/* Adds to g[WIDTH] the gradient of mean((x w)^2) in f64. */
static void add_gradient(const float *x, const float *w, double *g) {
    for (int row = 0; row < ROWS; row++) {
        double y = 0;
        for (int k = 0; k < WIDTH; k++) y += (double)x[row * WIDTH + k] * w[k];
        for (int k = 0; k < WIDTH; k++) g[k] += 2 * y * x[row * WIDTH + k] / ROWS;
    }
}

static void check_gradient(world_rank *r) {
    int most = r->job->options.accumulate;
    float w[WIDTH], x[ROWS * WIDTH], gradient[WIDTH], after[WIDTH];
    for (int n = 1; n <= most; n++) { /* fewer than the plan's, too */
        double want[WIDTH] = {0};
        CHECK(weft_sync(r->session, &r->error) == WEFT_OK);
        CHECK(weft_store_get(r->store, "net/w", w, sizeof w, &r->error) == WEFT_OK);
        for (int i = 0; i < n; i++) {
            fill(x, 100 * n + 10 * i + r->rank);
            micro(r, "step", 100 * n + 10 * i + r->rank, false, NULL);
            add_gradient(x, w, want);
            weft_status status =
                weft_gradient_get(r->session, "step", "net/w", gradient, sizeof gradient, &r->error);
            CHECK_SAYS(status == WEFT_OK, "%s", r->error.text);
            for (int k = 0; k < WIDTH; k++) {
                double mean = want[k] / (most * r->world), off = fabs(gradient[k] - mean);
                double within = r->job->options.precision ? 2e-3 : 1e-6;
                CHECK_SAYS(off <= within, "micro-batch %d of %d: %g, not %g", i, n, gradient[k], mean);
            }
        }
        CHECK(weft_run_update(r->session, "step", &r->error) == WEFT_OK);
        CHECK(weft_sync(r->session, &r->error) == WEFT_OK);
        CHECK(weft_store_get(r->store, "net/w", after, sizeof after, &r->error) == WEFT_OK);
        for (int k = 0; r->world == 1 && k < WIDTH; k++) /* a power of two as lr: one rounding */
            CHECK_SAYS(after[k] == w[k] - 0.5f * gradient[k], "%g %g %g", w[k], gradient[k], after[k]);
    }
}

TEST(gradients_can_be_read_between_the_steps) {
    for (int i = 0; i < 3; i++) {
        weft_model *m = product(&(weft_optimizer){.type = "sgd", .lr = 0.5});
        world_job job = {.model = m, .run = check_gradient};
        job.options = (weft_compile_options){
            .world = 1 + i / 2, .accumulate = 5, .manual = true, .precision = i == 1 ? WEFT_F16 : WEFT_F32};
        world_free(world_run(&job));
        weft_model_free(m);
    }
}

/* ---- what is wrong ---- */

typedef struct rig {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} rig;

static rig rig_open(int accumulate, bool manual) {
    rig r = {.model = product(&(weft_optimizer){.type = "sgd", .lr = 0.1})};
    r.plan = weft_compile(
        r.model, &(weft_compile_options){.accumulate = accumulate, .manual = manual, .threads = 1}, &r.error);
    r.store = weft_store_new(r.plan, 3, &r.error);
    r.session = weft_session_open(r.plan, r.store, &r.error);
    CHECK_SAYS(r.session != NULL, "%s", r.error.text);
    return r;
}

static void rig_close(rig *r) {
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
    weft_model_free(r->model);
}

typedef weft_status run_function(weft_session *session, const char *graph, const weft_feed *feeds,
                                 int n_feeds, const weft_fetch *fetches, int n_fetches, weft_error *error);

static weft_status run(rig *r, run_function *how, const char *graph) {
    static const float x[ROWS * WIDTH] = {1, 2, 3};
    return how(r->session, graph, (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
}

TEST(calls_out_of_order_say_what_to_do) {
    float g[WIDTH];
    rig r = rig_open(2, true);
    CHECK(weft_run_update(r.session, "step", &r.error) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph step has added no gradients since its last update: call weft_run first");
    CHECK(weft_gradient_get(r.session, "step", "net/w", g, sizeof g, &r.error) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "has added no gradients");
    CHECK(weft_zero_gradients(r.session, "step", &r.error) == WEFT_OK);
    CHECK(run(&r, weft_run, "step") == WEFT_OK);
    CHECK(run(&r, weft_run_no_sync, "step") == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph step has a manual plan");
    CHECK(run(&r, weft_run, "step") == WEFT_OK);
    CHECK(run(&r, weft_run, "step") == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "has added its 2 micro-batches: call weft_run_update or weft_zero_gradients");
    CHECK(run(&r, weft_run_loss, "step") == WEFT_OK); /* the loss is not counted */
    CHECK(weft_gradient_get(r.session, "step", "net/v", g, sizeof g, &r.error) == WEFT_NAME);
    CHECK_HOLDS(r.error.text, "graph step trains no parameter 'net/v'");
    CHECK(weft_gradient_get(r.session, "step", NULL, g, sizeof g, &r.error) == WEFT_NAME);
    const char *path; /* of all that the store has and that is not a parameter of the graph */
    for (int i = 0; (path = weft_store_path(r.store, i)); i++)
        if (strncmp(path, "net/", 4) != 0)
            CHECK_SAYS(weft_gradient_get(r.session, "step", path, g, sizeof g, &r.error) == WEFT_NAME, "%s",
                       path);
    CHECK(weft_gradient_get(r.session, "step", "net/w", g, sizeof g - 4, &r.error) == WEFT_SHAPE);
    CHECK(weft_gradient_get(r.session, "step", "net/w", NULL, sizeof g, &r.error) == WEFT_SHAPE);
    CHECK(weft_gradient_get(r.session, "step", "net/w", g, sizeof g, &r.error) == WEFT_OK);
    CHECK(weft_run_update(r.session, "step", &r.error) == WEFT_OK);
    CHECK(weft_run_update(r.session, "step", &r.error) == WEFT_ORDER); /* twice */
    CHECK(run(&r, weft_run, "step") == WEFT_OK);
    CHECK(weft_zero_gradients(r.session, "step", &r.error) == WEFT_OK);
    CHECK(weft_run_update(r.session, "step", &r.error) == WEFT_ORDER);
    CHECK(weft_run_update(r.session, "nope", &r.error) == WEFT_NAME);
    CHECK(weft_zero_gradients(r.session, "nope", &r.error) == WEFT_NAME);
    CHECK(weft_run_update(NULL, "step", &r.error) == WEFT_ARGUMENT);
    CHECK(weft_zero_gradients(r.session, NULL, &r.error) == WEFT_ARGUMENT);
    rig_close(&r);
}

TEST(graphs_without_steps_of_their_own_say_so) {
    float g[WIDTH];
    rig r = rig_open(1, true);
    CHECK(run(&r, weft_run, "predict") == WEFT_OK); /* other graphs run as ever */
    CHECK(run(&r, weft_run_loss, "predict") == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph predict trains nothing, so it has no loss alone: use weft_run");
    CHECK(weft_run_update(r.session, "predict", &r.error) == WEFT_ORDER);
    CHECK(weft_gradient_get(r.session, "predict", "net/w", g, sizeof g, &r.error) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph predict keeps no gradients: it trains nothing");
    rig_close(&r);
    for (int accumulate = 1; accumulate < 3; accumulate++) {
        r = rig_open(accumulate, false);
        CHECK(run(&r, weft_run, "step") == WEFT_OK);
        CHECK(run(&r, weft_run_loss, "step") == WEFT_ORDER);
        CHECK_HOLDS(r.error.text, "graph step has no loss alone: its plan is not manual");
        CHECK(weft_run_update(r.session, "step", &r.error) == WEFT_ORDER);
        CHECK_HOLDS(r.error.text, "compile with options.manual");
        CHECK(weft_zero_gradients(r.session, "step", &r.error) == WEFT_ORDER);
        CHECK_HOLDS(r.error.text, "keeps no gradients: compile with options.manual");
        weft_plan *plan = weft_compile(r.model, &(weft_compile_options){.manual = true}, &r.error);
        weft_session *on_its_store = weft_session_open(plan, r.store, &r.error);
        CHECK(!on_its_store == (accumulate == 1)); /* the store has gradients where the plan accumulates */
        if (!on_its_store) CHECK_HOLDS(r.error.text, "for a plan without accumulation or options.manual");
        weft_session_close(on_its_store);
        weft_plan_free(plan);
        rig_close(&r);
    }
}

/* Two graphs of one parameter, in whose step another may not begin; also where they have different numbers of
 * micro-batches. */
TEST(a_graph_cannot_add_amid_anothers_over_the_same_parameters) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *loss = weft_mean(weft_square(weft_linear(read_x(g), 1, "fc", NULL)), WEFT_ALL, false);
        weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    }
    weft_model_set_flow_named(m, "f", "a b{accumulate=4,batch=next}");
    rig r = {.model = m};
    r.plan = weft_compile(m, &(weft_compile_options){.manual = true, .flow = "f"}, &r.error);
    r.store = weft_store_new(r.plan, 3, &r.error);
    r.session = weft_session_open(r.plan, r.store, &r.error);
    if (!CHECK_SAYS(r.session, "%s", r.error.text)) return;
    CHECK(run(&r, weft_run, "a") == WEFT_OK);
    CHECK(run(&r, weft_run, "b") == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "graph b cannot begin a step: graph a trains the same parameters");
    CHECK(run(&r, weft_run_loss, "b") == WEFT_OK);
    CHECK(weft_run_update(r.session, "a", &r.error) == WEFT_OK);
    for (int i = 0; i < 4; i++) CHECK(run(&r, weft_run, "b") == WEFT_OK);
    CHECK(run(&r, weft_run, "a") == WEFT_ORDER);
    CHECK(weft_zero_gradients(r.session, "b", &r.error) == WEFT_OK);
    CHECK(run(&r, weft_run, "a") == WEFT_OK);
    rig other = r; /* another session on the store takes the buffers */
    other.session = weft_session_open(r.plan, r.store, &r.error);
    CHECK(run(&other, weft_run, "a") == WEFT_OK);
    CHECK(run(&r, weft_run_loss, "a") == WEFT_OK); /* which hides nothing of that */
    CHECK(weft_run_update(r.session, "a", &r.error) == WEFT_ORDER);
    CHECK_HOLDS(r.error.text, "are lost, because another session");
    CHECK(weft_run_update(other.session, "a", &r.error) == WEFT_OK);
    weft_session_close(other.session);
    rig_close(&r);
}

/* ---- ranks that differ ---- */

/* Rank 1 adds one micro-batch more. All get an error; once they have forgotten, they continue. */
static void add_differently(world_rank *r) {
    weft_error error = {0};
    char want[100];
    float before[WIDTH], after[WIDTH];
    CHECK(weft_store_get(r->store, "net/w", before, sizeof before, &error) == WEFT_OK);
    for (int i = 0; i <= r->rank; i++) micro(r, "step", i, false, NULL);
    CHECK(weft_run_update(r->session, "step", &error) == WEFT_PEER);
    snprintf(want, sizeof want, "rank %d has added %d micro-batches of graph step, rank %d %d", r->rank,
             r->rank + 1, !r->rank, 2 - r->rank);
    CHECK_HOLDS(error.text, want);
    CHECK(weft_store_get(r->store, "net/w", after, sizeof after, &error) == WEFT_OK);
    CHECK(memcmp(before, after, sizeof before) == 0);
    if (r->rank == 0) micro(r, "step", 1, false, NULL); /* what it lacks */
    CHECK_SAYS(weft_run_update(r->session, "step", &error) == WEFT_OK, "%s", error.text);
    if (r->rank) micro(r, "step", 5, false, NULL); /* one adds, the other does not */
    CHECK(weft_run_update(r->session, "step", &error) == WEFT_PEER);
    CHECK(weft_zero_gradients(r->session, "step", &error) == WEFT_OK);
    CHECK(weft_run_update(r->session, "step", &error) == WEFT_ORDER); /* none has any */
    /* an error of one rank is all ranks': another session takes the gradients of rank 0 */
    weft_session *own = r->session, *other = weft_session_open_on(r->plan, r->store, r->comm, &error);
    micro(r, "step", 6, false, NULL);
    r->session = other;
    if (!r->rank) micro(r, "step", 7, false, NULL);
    r->session = own;
    CHECK(weft_run_update(r->session, "step", &error) == (r->rank ? WEFT_PEER : WEFT_ORDER));
    CHECK_HOLDS(error.text, r->rank ? "rank 0 has an error" : "another session used the store");
    if (!r->rank) micro(r, "step", 6, false, NULL);
    weft_session_close(other);
    CHECK_SAYS(weft_run_update(r->session, "step", &error) == WEFT_OK, "%s", error.text);
    CHECK(weft_sync(r->session, &error) == WEFT_OK);
    CHECK(weft_store_get(r->store, "net/w", after, sizeof after, &error) == WEFT_OK);
    CHECK(memcmp(before, after, sizeof before) != 0);
}

TEST(ranks_that_added_different_numbers_are_told) {
    for (int zero = 0; zero < 3; zero++) {
        weft_model *m = product(&(weft_optimizer){.type = "sgd", .lr = 0.1});
        world_job job = {.model = m, .run = add_differently};
        job.options = (weft_compile_options){.world = 2, .accumulate = 4, .zero = zero, .manual = true};
        world_rank *r = world_run(&job);
        CHECK(memcmp(world_find(&r[0], "net/w")->data, world_find(&r[1], "net/w")->data, 4 * WIDTH) == 0);
        world_free(r);
        weft_model_free(m);
    }
}

/* ---- the plan ---- */

TEST(an_update_alone_has_nothing_else) {
    weft_model *m = gan(&(weft_optimizer){.type = "adam", .lr = 0.1});
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.manual = true, .world = 2, .accumulate = 2}, NULL);
    NEED(plan);
    weft_port port;
    char *text = weft_plan_text(plan), *update = strstr(text, "graph g_step.update");
    char *loss = strstr(text, "graph g_step.loss");
    NEED(update && loss && update < loss);
    *loss = 0;
    CHECK_HOLDS(update, "accumulate(");
    CHECK_HOLDS(update, "all_reduce(");
    CHECK_HOLDS(update, "adam_update(");
    static const char *const absent[] = {"= bucket(",  "= input", "linear", "matmul", "dropout",
                                         "batch_norm", "conv",    "loss",   "output"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK_SAYS(!strstr(update, absent[i]), "%s in %s", absent[i], update);
    *loss = 'g';
    CHECK(!strstr(loss, "adam_update(") && !strstr(loss, "= bucket(") && !strstr(loss, " bwd"));
    CHECK(weft_plan_input(plan, "d_step", 0, &port) && strcmp(port.name, "x") == 0);
    CHECK(weft_plan_output(plan, "d_step", 0, &port));
    weft_text_free(text);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("manual",
      {T(steps_alone_have_the_bits_of_whole_runs), T(losses_and_forgotten_gradients_leave_no_trace),
       T(two_graphs_may_add_before_either_updates), T(an_overflow_in_one_micro_batch_skips_the_update),
       T(gradients_can_be_read_between_the_steps), T(calls_out_of_order_say_what_to_do),
       T(graphs_without_steps_of_their_own_say_so),
       T(a_graph_cannot_add_amid_anothers_over_the_same_parameters),
       T(ranks_that_added_different_numbers_are_told), T(an_update_alone_has_nothing_else)})
