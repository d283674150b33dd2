/* test_resume.c - a training that was stopped and continues from a checkpoint ends as one that was not: the
 * bits of its weights and optimizers, the decisions of its hooks, in any world and wherever it stopped. */
#include "support/folder.h"
#include "support/ranks.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 4, SAMPLES = 94, WIDTH = 3, EPOCHS = 4 };

/* ---- data and model ---- */

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    float *x = into[0], *t = into[1];
    (void)context, (void)error;
    x[0] = (float)i / 40, x[1] = (float)i / 80, x[2] = 1 / (float)(i + 1);
    *t = (float)sin((double)i);
    return WEFT_OK;
}

/* What is wrong with the samples, where a test sets it: NaN, or a number that cannot be read. */
static struct { int64_t nan, unread; } flaw = {-1, -1};

static weft_status read_flawed(void *context, int64_t i, void *const *into, weft_error *error) {
    read_sample(context, i, into, error);
    if (i == flaw.nan) ((float *)into[0])[1] = (float)NAN;
    if (i != flaw.unread) return WEFT_OK;
    *error = (weft_error){WEFT_IO, "a sample cannot be read"};
    return WEFT_IO;
}

static const weft_source samples = {.count = SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"t", WEFT_F32, 1, {1}}},
                                    .read = read_flawed};
static const weft_source *const list[] = {&samples};
static const weft_dataset data = {1, list, NULL};

static weft_value *network(weft_value *x, bool is_other) {
    WEFT_SCOPE(x, "left") {
        x = weft_linear(x, 8, "fc", NULL);
        x = weft_dropout(is_other ? weft_sigmoid(x) : weft_tanh(x), 0.1);
    }
    WEFT_SCOPE(x, "right") x = weft_linear(x, 1, "fc", NULL);
    return x;
}

/* What a model may be another one in. */
typedef struct other_model {
    bool trains, looks; /* another activation, in the graphs that train and in that of validations */
    double lr, clip_norm;
    weft_dtype left; /* type in which "left" computes */
} other_model;

static void add_graph(weft_model *m, const char *name, weft_mode mode, const char *pattern,
                      const other_model *o) {
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH));
    weft_value *loss = weft_mse(network(x, pattern ? o->trains : o->looks),
                                weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1)), NULL);
    if (mode == WEFT_TRAIN)
        weft_minimize(loss, pattern,
                      &(weft_optimizer){
                          .type = "adam",
                          .lr = o->lr,
                          .ema = 0.9,
                          .clip_norm = o->clip_norm,
                          .schedule = {{WEFT_SCHEDULE_STEP, .period = 1, .gamma = 0.7, .by_epoch = true}}});
    weft_output(loss, "loss");
}

static weft_model *build_other(const char *flow, int batch, const other_model *o) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, batch);
    add_graph(m, "a", WEFT_TRAIN, "left", o);
    add_graph(m, "b", WEFT_TRAIN, "right", o);
    add_graph(m, "val", WEFT_EVAL, NULL, o);
    weft_model_set_flow(m, flow);
    if (o->left) weft_model_set_precision(m, "left", o->left);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_model *build(const char *flow) {
    return build_other(flow, BATCH, &(other_model){.lr = 1e-2});
}

/* ---- folders ---- */

static char top[] = "/tmp/weft_resume_XXXXXX";

static const char *in_top(const char *name) {
    static _Thread_local char paths[8][128];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

/* ---- runs ---- */

typedef struct run {
    const weft_model *model;
    const char *folder, *resume, *weights;
    int world;
    int64_t stop; /* after this iteration; 0: not */
    bool has_hooks;
    weft_guard guard;
    int n_rates;
    const weft_optimizer_lr *rates;
    int64_t every, iteration;
    double early_best;
    weft_error error;
} run;

typedef struct stopper {
    int64_t at;
} stopper;

static weft_status stop_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const stopper *s = self;
    (void)error;
    if (point == WEFT_AFTER_ITERATION && weft_trainer_progress(t)->iteration == s->at) weft_trainer_stop(t);
    return WEFT_OK;
}

static char told[8][300]; /* the last lines of the log */
static int n_told;

static void keep_line(void *context, const char *line) {
    (void)context;
    snprintf(told[n_told++ % 8], sizeof told[0], "%s", line);
}

static const weft_env told_env = {.log = keep_line};

static bool was_told(const char *text) {
    bool was = false;
    for (int i = 0; i < 8; i++) was |= strstr(told[i], text) != NULL;
    memset(told, 0, sizeof told);
    return was;
}

/* How many lines say what changed, and forgets them. That oneDNN chooses others, too, where the processor
 * has bf16, is not counted. */
static int n_changes(void) {
    int n = 0;
    for (int i = 0; i < 8; i++)
        n += strstr(told[i], ", and is ") && !strstr(told[i], "onednn implementations was ");
    memset(told, 0, sizeof told);
    return n;
}

static void run_rank(weft_comm *comm, int rank, void *context) {
    run *r = context;
    weft_error error = {0};
    stopper s = {r->stop};
    weft_hook hooks[] = {
        {.name = "stop", .at = stop_at, .self = &s},
        weft_hook_early_stop(&(weft_early_stop){.metric = "loss", .patience = 3, .min_delta = 10}),
        weft_hook_plateau("loss", NULL, &(weft_plateau){.patience = 1, .threshold = 10})};
    weft_trainer *t = weft_trainer_new(
        r->model,
        &(weft_trainer_options){
            .compile = {.threads = 1, .accumulate = 2 / (r->world ? r->world : 1), .guard = r->guard},
            .comm = comm,
            .seed = 3,
            .train = data,
            .val = data,
            .epochs = EPOCHS,
            .checkpoints = {.folder = r->folder,
                            .every = r->every,
                            .resume = r->resume,
                            .best = r->folder ? "loss" : NULL,
                            .n_rates = r->n_rates,
                            .rates = r->rates},
            .env = &told_env,
            .n_hooks = r->has_hooks ? 3 : 1,
            .hooks = hooks},
        &error);
    for (int i = 1; i < 3 && !r->has_hooks; i++) hooks[i].free(hooks[i].self);
    if (t && !weft_trainer_fit(t, &error) && !weft_trainer_check(t, &error) && r->weights)
        weft_trainer_save(t, rank ? NULL : r->weights, true, &error);
    if (rank == 0) {
        r->error = error;
        r->iteration = t ? weft_trainer_progress(t)->iteration : -1;
    }
    weft_trainer_free(t);
}

static bool run_it(run *r) {
    ranks_run(r->world ? r->world : 1, 60, run_rank, r);
    return CHECK_SAYS(!r->error.status, "%s", r->error.text);
}

/* Two batches an iteration and rank, one of them twice; another order from iteration 15 on. */
static const char *const flows[] = {"a b", "a*2 b", "0-15: a*2 b{batch=same}; 15-: b a"};

TEST(a_training_that_was_stopped_anywhere_ends_with_the_same_bits) {
    const char *want = in_top("want"), *got = in_top("got"), *folder = in_top("run");
    for (size_t f = 0; f < sizeof flows / sizeof *flows; f++) {
        weft_model *m = build(flows[f]);
        run whole = {.model = m, .weights = want};
        if (!run_it(&whole)) return;
        for (int64_t stop = 1; stop < whole.iteration; stop += test_is_quick() ? 5 : 1) {
            int first = 1 + (int)(stop % 2), second = 1 + (int)(stop / 2 % 2);
            run begin = {.model = m, .folder = folder, .world = first, .stop = stop, .resume = "auto"};
            run end = {
                .model = m, .folder = folder, .world = second, .resume = "auto", .weights = got, .every = 4};
            remove(got);
            if (!run_it(&begin) || !run_it(&end)) return;
            /* two ranks agree to stop an iteration later */
            CHECK_SAYS((begin.iteration == stop || begin.iteration == stop + first - 1) &&
                           end.iteration == whole.iteration,
                       "%lld, %lld", (long long)begin.iteration, (long long)end.iteration);
            if (!CHECK_SAYS(same_files(want, got), "flow %s, %d ranks to iteration %lld, then %d", flows[f],
                            first, (long long)stop, second))
                break;
            remove_tree(folder);
        }
        weft_model_free(m);
        remove_tree(folder);
        remove(want);
    }
}

/* Patience is counted across the stop: that of the early stop, and of a plateau that lowers rates at every
 * second validation. */
TEST(hooks_go_on_where_they_were) {
    weft_model *m = build("a b");
    run whole = {.model = m, .has_hooks = true, .weights = in_top("want")};
    NEED(run_it(&whole));
    for (int64_t left = 3; left < whole.iteration; left += 11) {
        int64_t stop = whole.iteration - left;
        const char *folder = in_top("hooks");
        run begin = {.model = m, .has_hooks = true, .folder = folder, .stop = stop};
        run end = {
            .model = m, .has_hooks = true, .folder = folder, .resume = "auto", .weights = in_top("got")};
        NEED(run_it(&begin) && run_it(&end));
        CHECK_SAYS(end.iteration == whole.iteration, "%lld, and at once %lld", (long long)end.iteration,
                   (long long)whole.iteration);
        CHECK_SAYS(same_files(in_top("want"), in_top("got")), "stopped after %lld", (long long)stop);
        /* what had stopped early stays so */
        run again = {
            .model = m, .has_hooks = true, .folder = folder, .resume = "auto", .weights = in_top("got")};
        NEED(run_it(&again));
        CHECK(again.iteration == whole.iteration && same_files(in_top("want"), in_top("got")));
        remove_tree(folder);
    }
    weft_model_free(m);
}

static void refuse(run *r, const char *says) {
    ranks_run(r->world ? r->world : 1, 60, run_rank, r);
    CHECK_HOLDS(r->error.text, says);
}

TEST(what_cannot_be_gone_on_from_is_refused) {
    weft_model *m = build("a b");
    const char *folder = in_top("refused");
    run begin = {.model = m, .folder = folder, .stop = 3};
    NEED(run_it(&begin));
    refuse(&(run){.model = m, .folder = folder},
           "it has a checkpoint of step 3: resume, or choose another folder");
    refuse(&(run){.model = m, .resume = "auto"}, "resume \"auto\" needs a folder");
    refuse(&(run){.model = m, .resume = in_top("nowhere")}, "nowhere: there is no such folder");
    refuse(&(run){.model = m, .resume = in_top("refused/step-00000004")},
           "refused/step-00000004: there is no such checkpoint; ");
    refuse(&(run){.model = m, .resume = in_top("refused/step-4")}, "refused has step-00000003");
    refuse(&(run){.model = m, .folder = folder, .resume = "auto", .every = -1},
           "trainer: checkpoints: every=-1: it must be");
    /* back to an earlier one, and all of them damaged */
    run later = {.model = m, .folder = folder, .resume = "auto", .stop = 6};
    NEED(run_it(&later));
    refuse(&(run){.model = m, .folder = folder, .resume = in_top("refused/step-00000003/")},
           "it has a later checkpoint, of step 6: to resume from step 3, choose another folder");
    CHECK(truncate(in_top("refused/step-00000003/manifest.json"), 40) == 0);
    CHECK(truncate(in_top("refused/step-00000006/manifest.json"), 40) == 0);
    refuse(&(run){.model = m, .folder = folder, .resume = "auto"}, "each was skipped");
    CHECK(access(in_top("refused/step-00000006"), F_OK) == 0);
    remove_tree(folder);
    weft_model_free(m);
}

/* One whose values have the same names, types and shapes. */
TEST(another_model_is_not_gone_on_with) {
    char folder[128], newer[128];
    snprintf(folder, sizeof folder, "%s", in_top("models"));
    snprintf(newer, sizeof newer, "%s", in_top("models/step-00000009"));
    weft_model *m = build("a b"),
               *wrong = build_other("a b", BATCH, &(other_model){.lr = 1e-2, .trains = true});
    weft_model *fine[] = {build("b a"), build_other("a b", BATCH, &(other_model){.lr = 0.5}),
                          build_other("a b", BATCH, &(other_model){.lr = 1e-2, .looks = true}),
                          build_other("a b", 2 * BATCH, &(other_model){.lr = 1e-2})};
    run begin = {.model = m, .folder = folder, .stop = 3};
    NEED(run_it(&begin));
    for (int i = 0; i < 4; i++) {
        run again = {.model = fine[i], .resume = in_top("models/step-00000003"), .stop = 4};
        CHECK_SAYS(run_it(&again), "model %d", i);
        weft_model_free(fine[i]);
    }
    for (int world = 1; world < 3; world++) {
        refuse(&(run){.model = wrong, .world = world, .resume = in_top("models/step-00000003")},
               "step-00000003: it is a checkpoint of another model (its fingerprint is ");
        refuse(&(run){.model = wrong, .world = world, .folder = folder, .resume = "auto"},
               "models: it has no checkpoint of this model: each was skipped: resume with the model that");
        /* a newer one of another model is passed over, and stays */
        run other = {.model = wrong, .folder = in_top("others"), .stop = 9};
        NEED(run_it(&other) && rename(in_top("others/step-00000009"), newer) == 0);
        run older = {.model = m, .world = world, .folder = folder, .resume = "auto", .stop = 3 + world};
        CHECK(run_it(&older) && older.iteration >= 3 + world && older.iteration < 7);
        CHECK(access(newer, F_OK) == 0);
        remove_tree(newer);
        remove_tree(in_top("others"));
    }
    remove_tree(folder);
    weft_model_free(m);
    weft_model_free(wrong);
}

/* The same as setting the rate between two iterations of a training that is not stopped. */
static weft_status set_rate(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const weft_optimizer_lr *rate = self;
    if (point != WEFT_AFTER_ITERATION || weft_trainer_progress(t)->iteration != 20) return WEFT_OK;
    weft_status status = weft_sync(weft_trainer_session(t, error), error);
    return status ? status : weft_store_set_lr(weft_trainer_store(t), rate->optimizer, rate->lr, error);
}

/* Trains to the end at once, with the rate of `b` from iteration 20 on. */
static void train_with(const weft_model *m, weft_optimizer_lr b, const char *weights) {
    weft_error e = {0};
    weft_hook hook = {.name = "rate", .at = set_rate, .self = &b};
    weft_trainer *t = weft_trainer_new(m,
                                       &(weft_trainer_options){.compile = {.threads = 1, .accumulate = 2},
                                                               .seed = 3,
                                                               .train = data,
                                                               .val = data,
                                                               .epochs = EPOCHS,
                                                               .n_hooks = 1,
                                                               .hooks = &hook},
                                       &e);
    NEED(t != NULL);
    CHECK_SAYS(!weft_trainer_fit(t, &e) && !weft_trainer_save(t, weights, true, &e), "%s", e.text);
    weft_trainer_free(t);
}

static const char *changed = "the learning rate of adam:";

TEST(another_rate_is_taken_where_it_is_asked_for) {
    weft_model *m = build("a b");
    char want[128], same[128], got[128], folder[128];
    snprintf(want, sizeof want, "%s", in_top("want")), snprintf(same, sizeof same, "%s", in_top("same"));
    snprintf(got, sizeof got, "%s", in_top("got")), snprintf(folder, sizeof folder, "%s", in_top("rates"));
    const weft_optimizer_lr model = {NULL, 1e-2}, other = {NULL, 3e-3},
                            both[] = {{NULL, 7}, {"adam:right", 3e-3}, {"adam:left", 3e-3}};
    train_with(m, model, same);
    train_with(m, other, want);
    CHECK(!same_files(same, want));
    for (int world = 1; world < 3; world++) {
        /* the rate that the model has is no other one, nor is what is not asked for */
        run begin = {.model = m, .folder = folder, .world = world, .stop = 21 - world};
        run again = {.model = m, .resume = folder, .world = world, .rates = &model, .weights = got};
        NEED(run_it(&begin) && begin.iteration == 20);
        for (again.n_rates = 0; again.n_rates < 2; again.n_rates++) {
            remove(got);
            CHECK(run_it(&again) && same_files(same, got) && !was_told(changed));
        }
        /* another one is, and stays with all that continues from there: the same command, and one without */
        run first = {.model = m, .folder = folder, .resume = "auto", .world = world, .stop = 30};
        first.rates = world > 1 ? both : &other, first.n_rates = world > 1 ? 3 : 1;
        CHECK(run_it(&first) &&
              was_told("the learning rate of adam:left was 0.01, and is 0.003 from iteration 20 on"));
        run more = {.model = m, .folder = folder, .resume = "auto", .world = world, .stop = 35};
        more.rates = first.rates, more.n_rates = first.n_rates;
        CHECK(run_it(&more) && !was_told(changed));
        run end = {.model = m, .folder = folder, .resume = "auto", .world = 3 - world, .weights = got};
        remove(got);
        CHECK(run_it(&end) && same_files(want, got) && !was_told(changed));
        remove_tree(folder);
    }
    /* a training begins with it */
    run whole = {.model = m, .rates = &other, .n_rates = 1, .weights = want};
    weft_model *slow = build_other("a b", BATCH, &(other_model){.lr = 3e-3});
    run as_built = {.model = slow, .weights = got};
    CHECK(run_it(&whole) && run_it(&as_built) && same_files(want, got));
    refuse(&(run){.model = m, .rates = &(weft_optimizer_lr){"sgd", 1}, .n_rates = 1},
           "there is no optimizer 'sgd'");
    refuse(&(run){.model = m, .rates = &(weft_optimizer_lr){NULL, -1}, .n_rates = 1},
           "learning rate -1: it must be");
    refuse(&(run){.model = m, .n_rates = 1}, "checkpoints: n_rates is 1 without as many rates");
    refuse(&(run){.model = m, .n_rates = -1}, "checkpoints: n_rates is -1 without as many rates");
    weft_model_free(slow);
    weft_model_free(m);
}

/* Nothing is said of what changes no bit: another world, ZeRO. */
TEST(what_goes_on_otherwise_is_told) {
    weft_model *m = build("a b");
    weft_model *other =
        build_other("a b", BATCH, &(other_model){.lr = 1e-2, .clip_norm = 0.5, .left = WEFT_BF16});
    const char *folder = in_top("otherwise");
    for (int world = 1; world < 3; world++) {
        run begin = {.model = m, .folder = folder, .resume = "auto", .world = world, .stop = 20};
        run same = {.model = m, .folder = folder, .resume = "auto", .world = 3 - world, .stop = 24};
        run end = {.model = other, .folder = folder, .resume = "auto", .world = world, .stop = 28};
        NEED(run_it(&begin));
        n_changes();
        CHECK(run_it(&same) && n_changes() == 0);
        CHECK(run_it(&end) && n_changes() == 3);
        end.stop = 32;
        CHECK(run_it(&end) && n_changes() == 0);
        begin.stop = 36, end.stop = 40;
        CHECK(run_it(&begin) && was_told("clip_norm of adam:left was 0.5, and is not set from iteration 3"));
        CHECK(run_it(&end) && was_told("precision of left was not set, and is bf16 from iteration 3"));
        remove_tree(folder);
    }
    weft_model_free(other);
    weft_model_free(m);
}

/* What a plateau has lowered stays so for the same command. */
TEST(a_rate_that_a_hook_has_lowered_is_kept) {
    weft_model *m = build("a b");
    const weft_optimizer_lr rate = {NULL, 5e-3};
    run whole = {.model = m, .has_hooks = true, .rates = &rate, .n_rates = 1, .weights = in_top("want")};
    NEED(run_it(&whole));
    for (int64_t stop = whole.iteration - 14; stop < whole.iteration; stop += 5) {
        run begin = whole, end = whole;
        begin.folder = end.folder = in_top("lowered"), begin.stop = stop, begin.weights = NULL;
        end.resume = "auto", end.weights = in_top("got");
        CHECK(run_it(&begin) && run_it(&end) && same_files(in_top("want"), in_top("got")));
        CHECK(!was_told(changed));
        remove_tree(in_top("lowered"));
    }
    weft_model_free(m);
}

/* An optimizer of your own, whose slots have such names. */
static void keep_slots(weft_update *u) {
    u->slots[0] = weft_add(weft_scale(u->slots[0], 0.9), u->gradient);
    u->slots[1] = weft_maximum(u->slots[1], weft_abs(u->gradient));
    u->parameter = weft_sub(u->parameter, weft_update_scale(u->slots[0], u->lr));
}

/* With a schedule that counts epochs the optimizer has a number of that name, too. */
static weft_model *build_own(const char *slot, bool by_epoch) {
    weft_model *m = weft_model_new("m");
    weft_define_optimizer(
        m, &(weft_optimizer_definition){.type = "own", .slots = {{slot, 0}, {"b", 1}}, .build = keep_slots});
    weft_model_set_batch(m, BATCH);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH)), *loss;
        loss = weft_mse(network(x, false), weft_input(g, "t", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1)), NULL);
        weft_optimizer own = {.type = "own", .lr = 1e-3};
        own.schedule[0] =
            (weft_schedule){WEFT_SCHEDULE_STEP, .period = 1, .gamma = 0.7, .by_epoch = by_epoch};
        if (!i) weft_minimize(loss, NULL, &own);
        weft_output(loss, "loss");
    }
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* Epochs are counted, rates lowered and checkpoints written by what numbers are, not by names that end so. */
TEST(slots_may_have_the_names_of_numbers) {
    static const char *const slots[] = {"lr",         "epoch",     "step",    "loss_scale",
                                        "good_steps", "loss_mean", "product", "num_batches_tracked"};
    for (size_t i = 0; i < 2 * sizeof slots / sizeof *slots; i++) {
        weft_model *m = build_own(slots[i / 2], i % 2);
        run whole = {.model = m, .has_hooks = true, .weights = in_top("want")};
        run begin = {.model = m, .has_hooks = true, .folder = in_top("own"), .stop = 30};
        run end = {.model = m, .has_hooks = true, .folder = in_top("own"), .resume = "auto"};
        end.weights = in_top("got");
        CHECK(run_it(&whole) && run_it(&begin) && run_it(&end));
        CHECK_SAYS(same_files(in_top("want"), in_top("got")), "slot %s", slots[i / 2]);
        remove_tree(in_top("own"));
        weft_model_free(m);
    }
}

/* Weights that are lost replace no good ones, even where the training is to continue with them. */
static weft_status spoil(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    const float nan[8 * WIDTH] = {(float)NAN};
    (void)self;
    if (point != WEFT_AFTER_ITERATION || weft_trainer_progress(t)->iteration != 5) return WEFT_OK;
    weft_status status = weft_sync(weft_trainer_session(t, error), error);
    return status ? status : weft_store_set(weft_trainer_store(t), "left/fc/weight", nan, sizeof nan, error);
}

TEST(weights_that_are_not_finite_are_not_saved) {
    weft_error e = {0};
    int64_t *steps = NULL;
    int n = 0;
    weft_model *m = build("a b");
    weft_hook hook = {.name = "spoil", .at = spoil};
    weft_trainer_options how = {.compile = {.threads = 1},
                                .train = data,
                                .iterations = 9,
                                .keep_going = true,
                                .checkpoints = {.folder = in_top("nan"), .every = 1, .keep = 2},
                                .n_hooks = 1,
                                .hooks = &hook};
    weft_trainer *t = weft_trainer_new(m, &how, &e);
    NEED(t != NULL);
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(weft_trainer_check(t, &e) == WEFT_DATA && weft_trainer_progress(t)->iteration == 9);
    CHECK(!weft_checkpoint_steps(in_top("nan"), NULL, &steps, &n, &e) && n == 2 && steps[0] == 3 &&
          steps[1] == 4);
    weft_checkpoint_steps_free(steps);
    weft_trainer_free(t);
    remove_tree(in_top("nan"));
    weft_model_free(m);
}

/* A folder that vanishes costs the checkpoints, not the training. A file of its name stands there then, so
 * that it cannot be made again; a checkpoint is being written meanwhile. */
static weft_status take_away(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    FILE *stands = NULL;
    (void)self, (void)error;
    if (point != WEFT_AFTER_ITERATION || weft_trainer_progress(t)->iteration != 5) return WEFT_OK;
    for (int i = 0; !stands && i < 1000; i++) {
        if (!rename(in_top("gone"), in_top("away"))) remove_tree(in_top("away"));
        stands = fopen(in_top("gone"), "w");
    }
    CHECK(stands && !fclose(stands));
    return WEFT_OK;
}

static weft_trainer *open_gone(const weft_model *m, int64_t iterations, int most_failures) {
    weft_error e = {0};
    weft_hook hook = {.name = "gone", .at = take_away};
    weft_trainer *t = weft_trainer_new(
        m,
        &(weft_trainer_options){
            .compile = {.threads = 1},
            .train = data,
            .iterations = iterations,
            .checkpoints = {.folder = in_top("gone"), .every = 2, .most_failures = most_failures},
            .n_hooks = 1,
            .hooks = &hook},
        &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    return t;
}

TEST(a_checkpoint_that_fails_does_not_end_the_training) {
    weft_error e = {0};
    int64_t saved = -1;
    weft_model *m = build("a b");
    weft_trainer *t = open_gone(m, 7, 0);
    NEED(t != NULL);
    CHECK(!weft_trainer_saved(t, &saved) && saved == 0);
    CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(weft_trainer_progress(t)->iteration == 7);
    CHECK(weft_trainer_check(t, &e) == WEFT_IO);
    CHECK_HOLDS(e.text, "gone");
    CHECK_TEXT(weft_trainer_saved(t, &saved), in_top("gone/step-00000002"));
    CHECK(saved == 2);
    weft_trainer_free(t);
    remove(in_top("gone"));
    weft_model_free(m);
}

/* 4, which is under way when the folder goes, 6, 8 and so on cannot be saved. */
TEST(several_that_fail_in_a_row_end_it) {
    static const struct {
        int most_failures;
        int64_t iteration;
    } rows[] = {{0, 8}, {4, 10}, {-1, 30}};
    weft_model *m = build("a b");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_trainer *t = open_gone(m, 30, rows[i].most_failures);
        NEED(t != NULL);
        CHECK_SAYS(weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
        int64_t ended = weft_trainer_progress(t)->iteration;
        CHECK_SAYS(ended == rows[i].iteration, "row %zu ends after %lld", i, (long long)ended);
        CHECK(weft_trainer_check(t, &e) == WEFT_IO);
        remove(in_top("gone"));
        if (!i) { /* with a folder again it continues, and one that can be saved makes it whole */
            CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_progress(t)->iteration == 30);
            CHECK_SAYS(weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
            remove_tree(in_top("gone"));
        }
        weft_trainer_free(t);
    }
    weft_trainer_options wrong = {
        .train = data, .iterations = 1, .checkpoints = {.folder = in_top("gone"), .most_failures = -2}};
    weft_error e = {0};
    CHECK(!weft_trainer_new(m, &wrong, &e) && e.status == WEFT_ARGUMENT);
    CHECK_HOLDS(e.text, "most_failures=-2: it must be a whole number from -1");
    weft_model_free(m);
}

/* ---- errors of a step ---- */

/* The last step that the folder has, whole; -1: none. */
static int64_t newest(const char *folder) {
    weft_error e = {0};
    weft_checkpoint *c = weft_checkpoint_newest(folder, NULL, NULL, NULL, &e);
    int64_t step = c ? weft_checkpoint_step(c) : -1;
    weft_checkpoint_close(c);
    return step;
}

/* A run with the flaw ends with an error; one without it continues from what the first has left. */
static void check_flawed(run begin, int64_t *saved) {
    const char *want = in_top("want"), *got = in_top("got");
    begin.folder = in_top("flawed");
    ranks_run(begin.world, 60, run_rank, &begin);
    flaw.nan = flaw.unread = -1;
    CHECK(begin.error.status != WEFT_OK);
    *saved = newest(begin.folder);
    if (begin.every == 1 && begin.iteration)
        CHECK_SAYS(*saved == begin.iteration, "%s: saved %lld of %lld", begin.error.text, (long long)*saved,
                   (long long)begin.iteration);
    run end = begin;
    end.error = (weft_error){0};
    end.world = 3 - begin.world, end.resume = "auto", end.weights = got, end.guard = WEFT_GUARD_NAN;
    remove(got);
    if (run_it(&end))
        CHECK_SAYS(same_files(want, got), "%d ranks, an error after %lld", begin.world,
                   (long long)begin.iteration);
    *saved = begin.iteration - *saved;
    remove_tree(begin.folder);
}

TEST(an_error_of_a_step_costs_no_checkpoint) {
    weft_model *m = build("a b");
    int n_before = 0, n_within = 0;
    run whole = {.model = m, .weights = in_top("want")};
    NEED(run_it(&whole));
    for (int64_t i = 2; i < SAMPLES; i += 13)
        for (int way = 0; way < 4; way++) { /* saved at each step, or at none: then that before a bad step */
            int64_t lost;
            flaw.nan = i;
            check_flawed(
                (run){.model = m, .world = 1 + way % 2, .guard = WEFT_GUARD_NAN, .every = way / 2 ? 1 : 1000},
                &lost);
            if (way / 2) continue;
            n_before += lost == 0;
            n_within += lost != 0; /* graph a had trained: values are not those of an iteration's end */
        }
    CHECK_SAYS(n_before > 2 && n_within > 2, "%d, %d", n_before, n_within);
    for (int64_t i = 2; i < SAMPLES; i += 31) {
        int64_t lost;
        flaw.unread = i;
        check_flawed((run){.model = m, .world = 1, .every = 1}, &lost);
    }
    remove(in_top("want"));
    weft_model_free(m);
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(a_training_that_was_stopped_anywhere_ends_with_the_same_bits),
                                      T(hooks_go_on_where_they_were),
                                      T(what_cannot_be_gone_on_from_is_refused),
                                      T(another_model_is_not_gone_on_with),
                                      T(another_rate_is_taken_where_it_is_asked_for),
                                      T(what_goes_on_otherwise_is_told),
                                      T(a_rate_that_a_hook_has_lowered_is_kept),
                                      T(slots_may_have_the_names_of_numbers),
                                      T(weights_that_are_not_finite_are_not_saved),
                                      T(a_checkpoint_that_fails_does_not_end_the_training),
                                      T(several_that_fail_in_a_row_end_it),
                                      T(an_error_of_a_step_costs_no_checkpoint)};
    if (!mkdtemp(top)) return 1;
    int status = test_main("resume", cases, sizeof cases / sizeof *cases, argc, argv);
    remove_tree(top);
    return status;
}
