/* test_schedules.c - schedules and the plateau: each curve at each step against PyTorch's schedulers
 * (golden/schedules.h), texts and their errors, files, and trainings in which rate, momentum and weight decay
 * change, against a loop in f64 that takes its numbers from PyTorch's curves. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LR           WEFT_SCHEDULED_LR
#define MOMENTUM     WEFT_SCHEDULED_MOMENTUM
#define WEIGHT_DECAY WEFT_SCHEDULED_WEIGHT_DECAY

/* ---- curves ---- */

static void check_curve(weft_scheduled of, const char *text, const double *wanted, int n) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    weft_error e = {0};
    CHECK_SAYS(!weft_schedule_text(text, parts, &e), "%s", e.text);
    for (int t = 0; t < n; t++) {
        bool by_epoch = parts[0].by_epoch;
        double got = weft_schedule_factor(parts, of, by_epoch ? 99 : t, by_epoch ? t : 99);
        CHECK_SAYS(fabs(got - wanted[t]) <= 1e-12 * fabs(wanted[t]) + 1e-15, "%s at %d: %.17g, PyTorch %.17g",
                   text, t, got, wanted[t]);
        for (int other = LR; other <= WEIGHT_DECAY; other++)
            CHECK(other == (int)of || weft_schedule_factor(parts, (weft_scheduled)other, t, t) == 1);
    }
}

TEST(curves_are_those_of_pytorch_at_every_step) {
#define SCHEDULE(of, text, ...)                                                                              \
    check_curve((weft_scheduled)of, text, (double[]){__VA_ARGS__},                                           \
                sizeof((double[]){__VA_ARGS__}) / sizeof(double));
#include "golden/schedules.h"
#undef SCHEDULE
}

/* ---- texts ---- */

/* A model whose optimizer has the parts; NULL: none. */
static weft_model *model(const char *type, double momentum, const weft_schedule *parts) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3));
    weft_value *w = weft_parameter(x, "w", WEFT_SHAPE(3), (weft_init){WEFT_INIT_CONSTANT, 0.5, 0});
    weft_value *loss = weft_sum(weft_square(weft_sub(w, x)), WEFT_ALL, false);
    bool is_sgd = strcmp(type, "sgd") == 0;
    weft_optimizer o = {.type = type, .lr = 0.1, .weight_decay = 0.05};
    if (is_sgd) o.momentum = momentum;
    if (!is_sgd) o.beta1 = momentum;
    if (parts) memcpy(o.schedule, parts, sizeof o.schedule);
    weft_minimize(loss, NULL, &o);
    weft_output(loss, "loss");
    return m;
}

/* The schedule in the model's text; the caller frees it. */
static char *written(const weft_model *m) {
    static const char key[] = " schedule=\"";
    char *text = weft_model_text(m), *at = text ? strstr(text, key) : NULL;
    char *part = at ? strndup(at + sizeof key - 1, strcspn(at + sizeof key - 1, "\"")) : NULL;
    weft_text_free(text);
    return part;
}

TEST(texts_are_written_with_their_defaults_and_files_keep_them) {
    static const char *const rows[][2] = {
        {"cosine:0-100,warmup=10", "cosine:0-100,warmup=10,length=90,from=1,to=0"},
        {" linear:0-5\tmulti_step:5-,by_epoch,milestones=8+11,replaces",
         "linear:0-5,length=5,from=0.3333333333333333,to=1 "
         "multi_step:5-,by_epoch,replaces,gamma=0.1,milestones=8+11"},
        {"one_cycle:0-9,of=momentum,linear",
         "one_cycle:0-9,of=momentum,length=9,from=1,middle=0.8947368421052632,to=1,share=0.3,linear"},
        {"step,period=3,gamma=0", "step,period=3,gamma=0"},
        {"constant,warmup=7,from=1", "constant,warmup=7,from=1"},
        {"exponential,gamma=0.5,of=weight_decay", "exponential,of=weight_decay,gamma=0.5"},
        {"exponential:2-8,from=0.5", "exponential:2-8,length=6,from=0.5,to=1"},
        {"cosine_restarts,period=5", "cosine_restarts,period=5,period_mult=1,from=1,to=0"},
    };
    static const char path[] = "schedules.bin";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_schedule parts[WEFT_MAX_SCHEDULES];
        weft_error e = {0};
        CHECK_SAYS(!weft_schedule_text(rows[i][0], parts, &e), "%s", e.text);
        weft_model *m = model("adam", 0.5, parts);
        char *first = written(m);
        CHECK_SAYS(first && !strcmp(first, rows[i][1]), "%s: '%s'", rows[i][0],
                   first ? first : weft_model_error(m)->text);
        CHECK_SAYS(!weft_save(m, path, &e), "%s", e.text);
        weft_model *again = weft_load(path, NULL, &e);
        char *second = again ? written(again) : NULL;
        CHECK_SAYS(second && !strcmp(second, rows[i][1]), "%s: '%s' %s", rows[i][0], second ? second : "",
                   e.text);
        free(first);
        free(second);
        weft_model_free(m);
        weft_model_free(again);
    }
    remove(path);
}

TEST(wrong_texts_name_the_part) {
    static const char *const rows[][2] = {
        {"cosine:0-9 cosin:0-9",
         "schedule part 2: at 'cosin:0-9': did you mean 'cosine'? a part begins with a kind"},
        {"none", "a part begins with a kind"},
        {"cosine:x", "schedule part 1: at 'x': a number of 1 to 18 digits"},
        {"cosine:5", "a range is BEGIN-END"},
        {"cosine:0-9,warm=3",
         "schedule part 1: at 'warm=3': did you mean 'warmup'? no part has such a field"},
        {"cosine:0-9,warmup", "this field needs a value"},
        {"cosine:0-9,linear=1", "this field has no value"},
        {"cosine:0-9,to=x", "at 'x': a number is needed"},
        {"cosine:0-9;step", "',' or a blank must follow"},
        {"cosine:0-9,of=beta", "there are lr, momentum and weight_decay"},
        {"multi_step,milestones=1+2+3+4+5+6+7+8+9", "at most 8 milestones"},
        {"multi_step,milestones=0", "milestones are 1 or more"},
        {"step step step step step step step step step", "at most 8 parts"},
    };
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        CHECK_SAYS(weft_schedule_text(rows[i][0], parts, &e) == WEFT_ARGUMENT && strstr(e.text, rows[i][1]),
                   "%s: '%s'", rows[i][0], e.text);
    }
    CHECK(weft_schedule_text(NULL, parts, NULL) == WEFT_ARGUMENT);
    CHECK(isnan(weft_schedule_factor((weft_schedule[WEFT_MAX_SCHEDULES]){{WEFT_SCHEDULE_COSINE}}, LR, 0, 0)));
}

/* ---- trainings ---- */

typedef struct training {
    weft_model *m;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} training;

static training training_open(const char *type, const char *schedule) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    weft_error e = {0};
    CHECK_SAYS(!weft_schedule_text(schedule, parts, &e), "%s", e.text);
    training t = {.m = model(type, 0.9, parts)};
    t.plan = weft_compile(t.m, NULL, &e);
    t.store = t.plan ? weft_store_new(t.plan, 1, &e) : NULL;
    t.session = t.store ? weft_session_open(t.plan, t.store, &e) : NULL;
    CHECK_SAYS(t.session != NULL, "%s", e.text);
    return t;
}

static void training_close(training *t) {
    weft_session_close(t->session);
    weft_store_free(t->store);
    weft_plan_free(t->plan);
    weft_model_free(t->m);
}

static void training_run(training *t, int step) {
    weft_error e = {0};
    float x[3] = {(float)step / 7, -1, 2};
    CHECK_SAYS(!weft_run(t->session, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &e), "%s",
               e.text);
}

/* One step of PyTorch's SGD with momentum, Adam or AdamW. */
typedef struct loop {
    double w[3], m[3], v[3];
} loop;

static void loop_step(loop *l, const char *type, int step, double lr, double momentum, double decay) {
    for (int i = 0; i < 3; i++) {
        double x = i == 0 ? (float)step / 7 : i == 1 ? -1 : 2, g = 2 * (l->w[i] - x), t = step + 1;
        if (strcmp(type, "adamw") == 0)
            l->w[i] *= 1 - lr * decay;
        else
            g += decay * l->w[i];
        if (strcmp(type, "sgd") == 0) {
            l->m[i] = step ? momentum * l->m[i] + g : g;
            l->w[i] -= lr * l->m[i];
            continue;
        }
        l->m[i] = momentum * l->m[i] + (1 - momentum) * g;
        l->v[i] = 0.999 * l->v[i] + 0.001 * g * g;
        l->w[i] -= lr * l->m[i] / (1 - pow(momentum, t)) / (sqrt(l->v[i] / (1 - pow(0.999, t))) + 1e-8);
    }
}

TEST(rate_momentum_and_decay_follow_their_schedules) {
    static const char text[] = "one_cycle:0-40 one_cycle:0-40,of=momentum cosine:0-40,of=weight_decay,to=10";
    static const char *const types[] = {"sgd", "adam", "adamw"};
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    CHECK(!weft_schedule_text(text, parts, NULL));
    for (int k = 0; k < 3; k++) {
        training t = training_open(types[k], text);
        loop l = {.w = {0.5, 0.5, 0.5}};
        float w[3];
        for (int step = 0; step < 40; step++) {
            training_run(&t, step);
            loop_step(&l, types[k], step, 0.1 * weft_schedule_factor(parts, LR, step, 0),
                      0.9 * weft_schedule_factor(parts, MOMENTUM, step, 0),
                      0.05 * weft_schedule_factor(parts, WEIGHT_DECAY, step, 0));
            CHECK(!weft_store_get(t.store, "w", w, sizeof w, NULL));
            for (int i = 0; i < 3; i++)
                CHECK_SAYS(fabs(w[i] - l.w[i]) < 2e-5, "%s step %d: %g, wanted %g", types[k], step, w[i],
                           l.w[i]);
        }
        training_close(&t);
    }
}

/* Also that the epoch is saved, and that a store without such parts takes it and does nothing. */
TEST(schedules_by_epoch_read_the_epoch_that_the_loop_sets) {
    training t = training_open("sgd", "multi_step,by_epoch,milestones=1+2,gamma=0.5 "
                                      "multi_step,by_epoch,of=momentum,milestones=2,gamma=0.5");
    training other = training_open("sgd", "cosine:0-40");
    weft_error e = {0};
    loop l = {.w = {0.5, 0.5, 0.5}};
    float w[3];
    double epoch = 0;
    static const char path[] = "schedules.safetensors";
    for (int step = 0; step < 12; step++) {
        if (step % 4 == 0) CHECK_SAYS(!weft_store_set_epoch(t.store, step / 4, &e), "%s", e.text);
        training_run(&t, step);
        loop_step(&l, "sgd", step, 0.1 * pow(0.5, step / 4), step < 8 ? 0.9 : 0.45, 0.05);
        weft_store_get(t.store, "w", w, sizeof w, NULL);
        for (int i = 0; i < 3; i++)
            CHECK_SAYS(fabs(w[i] - l.w[i]) < 1e-5, "step %d: %g, wanted %g", step, w[i], l.w[i]);
    }
    CHECK_SAYS(!weft_weights_save(t.store, path, true, &e), "%s", e.text);
    CHECK(!weft_store_set_epoch(t.store, 7, &e));
    CHECK_SAYS(!weft_weights_load(t.store, path, NULL, NULL, &e), "%s", e.text);
    CHECK(!weft_store_get(t.store, "optimizer.sgd:all/epoch", &epoch, sizeof epoch, &e) && epoch == 2);
    remove(path);
    CHECK(weft_store_set_epoch(t.store, -1, &e) == WEFT_ARGUMENT && strstr(e.text, "epoch -1"));
    CHECK(!weft_store_set_epoch(other.store, 3, &e));
    training_close(&t);
    training_close(&other);
}

/* ---- plateau ---- */

static void check_plateau(weft_plateau p, const double *wanted, int n) {
    training t = training_open("sgd", "");
    weft_error e = {0};
    double lr;
    weft_store_set_lr(t.store, NULL, 0.5, &e);
    for (int i = 0; i < n; i++) {
        double metric = 1 + ((i * 7) % 5) / 4.0 - (i < 12 ? i : 12) / 16.0; /* make_schedules.py */
        CHECK_SAYS(!weft_plateau_step(&p, t.store, i % 2 ? NULL : "sgd:all", metric, &e), "%s", e.text);
        CHECK(!weft_store_get(t.store, "optimizer.sgd:all/lr", &lr, sizeof lr, &e));
        CHECK_SAYS(fabs(lr - wanted[i]) <= 1e-12 * wanted[i], "evaluation %d: %.17g, PyTorch %.17g", i, lr,
                   wanted[i]);
    }
    training_close(&t);
}

TEST(a_plateau_lowers_the_rate_as_pytorch) {
#define UNPACKED(...) __VA_ARGS__
#define PLATEAU(p, ...)                                                                                      \
    check_plateau(UNPACKED p, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double));
#include "golden/schedules.h"
}

TEST(a_wrong_plateau_is_refused) {
    training t = training_open("sgd", "");
    static const struct {
        weft_plateau p;
        const char *error;
    } rows[] = {
        {{.factor = 1}, "factor must be"},     {{.cooldown = -1}, "cooldown must not"},
        {{.threshold = -1}, "threshold must"}, {{.min_lr = -1}, "min_lr must not"},
        {{.eps = NAN}, "eps must not"},        {{.factor = NAN}, "factor must be"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_plateau p = rows[i].p;
        weft_error e = {0};
        CHECK_SAYS(weft_plateau_step(&p, t.store, NULL, 1, &e) == WEFT_ARGUMENT &&
                       strstr(e.text, rows[i].error),
                   "%s", e.text);
    }
    weft_error e = {0};
    CHECK(weft_plateau_step(&(weft_plateau){0}, t.store, "none", 1, &e) == WEFT_NAME &&
          strstr(e.text, "'none'"));
    CHECK(weft_plateau_step(NULL, t.store, NULL, 1, &e) == WEFT_ARGUMENT);
    training_close(&t);
}

SUITE("schedules", {T(curves_are_those_of_pytorch_at_every_step),
                    T(texts_are_written_with_their_defaults_and_files_keep_them),
                    T(wrong_texts_name_the_part), T(rate_momentum_and_decay_follow_their_schedules),
                    T(schedules_by_epoch_read_the_epoch_that_the_loop_sets),
                    T(a_plateau_lowers_the_rate_as_pytorch), T(a_wrong_plateau_is_refused)})
