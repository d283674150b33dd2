/* guarded.c - see guarded.h. */
#include "support/models/guarded.h"
#include "tools/graphtool/model/replayed.h"

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

static weft_value *mean_of(weft_value *x) {
    return weft_mean(x, WEFT_ALL, false);
}

weft_model *guarded_gan(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("m");
    weft_optimizer other = *optimizer, of_generator = *optimizer;
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *x = read_x(g), *real = network(x, "discriminator"), *fake = network(x, "judge");
    other.name = "other";
    weft_minimize(mean_of(weft_square(real)), "discriminator", optimizer);
    weft_minimize(mean_of(weft_abs(fake)), "judge", &other);
    g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    of_generator.name = "of_generator";
    weft_minimize(mean_of(weft_square(network(network(read_x(g), "generator"), "discriminator"))),
                  "generator", &of_generator);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void fill(float x[ROWS * WIDTH], int64_t number) {
    test_random random = {(uint64_t)number + 1};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)random_in(&random, -1, 1);
}

/* ---- a bad step among good ones ---- */

/* In which step, and on which rank and in which of its micro-batches an element is what; step < 0: never. */
typedef struct flaw {
    int64_t step;
    int rank, micro;
    float value;
} flaw;

static const char *const graphs[] = {"d_step", "g_step"};

/* One step of a graph. Returns the status of its last run. */
static weft_status step(world_rank *r, const char *graph, int64_t number, const flaw *f, weft_error *error) {
    int of = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    weft_status status = WEFT_OK;
    for (int m = 0; m < of && !status; m++) {
        float x[ROWS * WIDTH];
        fill(x, (number * r->world + r->rank) * of + m);
        if (f && f->rank == r->rank && f->micro == m) x[7] = f->value;
        status = weft_run(r->session, graph, (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, error);
    }
    if (!status && r->job->options.manual) status = weft_run_update(r->session, graph, error);
    return status;
}

/* Where the flaw says, each graph makes a bad step first, which must fail on all ranks. */
void guarded_train(world_rank *r) {
    const flaw *f = r->job->context;
    bool in_f16 = r->job->options.precision == WEFT_F16;
    for (int64_t s = 0; s < r->job->steps; s++)
        for (int g = 0; g < 2 && !r->error.status; g++) {
            weft_error error = {0};
            char where[40];
            if (f && s == f->step) {
                weft_status bad = step(r, graphs[g], 100 + s, f, &error);
                char *report = weft_bad_step_text(r->session);
                snprintf(where, sizeof where, "on rank %d in micro-batch %d", f->rank, f->micro);
                CHECK_SAYS(bad == WEFT_DATA && strstr(error.text, where), "rank %d: %s", r->rank, error.text);
                CHECK_SAYS(report && strstr(report, where) && strstr(report, "first NaN") &&
                               strstr(report, graphs[g]) && strstr(report, in_f16 ? "input x" : "/a"),
                           "rank %d: %s", r->rank, report ? report : "no report");
                weft_text_free(report);
            }
            step(r, graphs[g], s, NULL, &r->error);
            CHECK(weft_bad_step_text(r->session) == NULL);
        }
}

void guarded_job(world_job job, const char *what) {
    char where[300];
    int world = job.options.world > 1 ? job.options.world : 1, of = job.options.accumulate;
    job.run = guarded_train;
    job.options.verify = true;
    job.options.bucket_cap_mb = 2e-4;
    world_rank *plain = world_run(&job);
    job.options.guard = job.options.guard ? job.options.guard : WEFT_GUARD_NAN;
    for (int bad = -1; bad < world; bad++) {
        flaw f = {job.steps / 2, bad, bad % (of > 1 ? of : 1), NAN};
        job.context = bad < 0 ? NULL : &f;
        world_rank *guarded = world_run(&job);
        for (int r = 0; r < world; r++)
            CHECK_SAYS(world_agrees(&plain[r], &guarded[r], world_all, where), "%s, bad on %d, rank %d: %s",
                       what, bad, r, where);
        world_free(guarded);
    }
    world_free(plain);
}

/* A model.bin has no source lines. */
static void forget_lines(char *report) {
    for (char *at = report; at && (at = strstr(at, ", guarded.c:"));)
        memmove(at, at + strcspn(at, "\n"), strlen(at + strcspn(at, "\n")) + 1);
}

/* ---- wrong ids and labels ---- */

enum { WORDS = 3, VOCABULARY = 11, CLASSES = 5 };

/* Where a value of 99 is, and in which input; step < 0: nowhere. */
typedef struct wrong_value {
    int64_t step;
    int rank, micro, row;
    bool is_label;
    const char *path; /* where rank 0 saves the bad step */
} wrong_value;

/* A class for each word of a row. */
static weft_model *classifier(void) {
    weft_model *m = weft_model_new("m");
    weft_optimizer adam = {.type = "adam", .lr = 0.01, .ema = 0.9};
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *ids = weft_input(g, "ids", WEFT_I32, 2, (int64_t[]){ROWS, WORDS}), *x = ids;
    weft_value *labels = weft_input(g, "labels", WEFT_I64, 2, (int64_t[]){ROWS, WORDS});
    WEFT_SCOPE(x, "net") {
        x = weft_reshape(weft_embedding(x, VOCABULARY, WIDTH, "words", NULL), 2, (int64_t[]){-1, WIDTH});
        x = weft_linear(weft_dropout(weft_batch_norm(x, "norm", NULL), 0.2), CLASSES, "fc", NULL);
    }
    weft_minimize(weft_cross_entropy(x, weft_reshape(labels, 1, (int64_t[]){-1}), NULL), "", &adam);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_status classify(world_rank *r, int64_t number, const wrong_value *f, weft_error *error) {
    int of = r->job->options.accumulate;
    weft_status status = WEFT_OK;
    for (int m = 0; m < of && !status; m++) {
        int32_t ids[ROWS * WORDS];
        int64_t labels[ROWS * WORDS];
        for (int64_t i = 0, n = (number * r->world + r->rank) * of + m; i < ROWS * WORDS; i++)
            ids[i] = (int32_t)((n + 7 * i) % VOCABULARY), labels[i] = (n + 3 * i) % CLASSES;
        if (f && f->rank == r->rank && f->micro == m && f->is_label) labels[f->row * WORDS + 1] = 99;
        if (f && f->rank == r->rank && f->micro == m && !f->is_label) ids[f->row * WORDS + 2] = 99;
        weft_feed feeds[] = {{"ids", ids, sizeof ids}, {"labels", labels, sizeof labels}};
        status = weft_run(r->session, "step", feeds, 2, NULL, 0, error);
    }
    if (!status && r->job->options.manual) status = weft_run_update(r->session, "step", error);
    return status;
}

/* The step is bad on all ranks alike, and its file on one machine, too. */
static void check_wrong(world_rank *r, const wrong_value *f, weft_status status, const weft_error *error) {
    char where[60];
    int rank = -1;
    int64_t micro = -1;
    weft_error own = {0};
    replayed again;
    char *report = weft_bad_step_text(r->session);
    snprintf(where, sizeof where, "on rank %d in micro-batch %d", f->rank, f->micro);
    CHECK_SAYS(status == WEFT_DATA && strstr(error->text, where) && strstr(error->text, "99") &&
                   strstr(error->text, "; nothing was updated; first wrong value, "),
               "rank %d: %s", r->rank, error->text);
    CHECK_SAYS(report && strstr(report, f->is_label ? "= cross_entropy(" : "= embedding("), "rank %d: %s",
               r->rank, report ? report : "no report");
    CHECK(weft_bad_step_at(r->session, &rank, &micro) && rank == f->rank && micro == f->micro);
    CHECK_SAYS(weft_bad_step_row(r->session) == f->row, "row %d: %d", f->row,
               (int)weft_bad_step_row(r->session));
    if (f->path)
        CHECK_SAYS(!weft_bad_step_save(r->session, r->job->model, r->rank ? NULL : f->path, &own), "%s",
                   own.text);
    if (f->path && r->rank == 0 && report) {
        char *told = replayed_open(&again, f->path, &own) ? replayed_run(&again, &own) : NULL;
        forget_lines(report);
        CHECK_SAYS(told && strcmp(told, report) == 0, "%s\n%s\nbefore:\n%s", own.text, told ? told : "",
                   report);
        free(told);
        replayed_close(&again);
    }
    weft_text_free(report);
}

static void train_classes(world_rank *r) {
    const wrong_value *f = r->job->context;
    for (int64_t s = 0; s < r->job->steps && !r->error.status; s++) {
        weft_error error = {0};
        if (f && s == f->step) {
            weft_status status = classify(r, 100 + s, f, &error);
            check_wrong(r, f, status, &error);
        }
        classify(r, s, NULL, &r->error);
        CHECK(!weft_bad_step(r->session));
    }
}

static void compare_classes(world_job job, const world_rank *plain, wrong_value f) {
    char where[300];
    job.context = &f;
    job.options.guard = WEFT_GUARD_NAN;
    world_rank *guarded = world_run(&job);
    for (int r = 0; r < guarded->world; r++)
        CHECK_SAYS(world_agrees(&plain[r], &guarded[r], world_all, where),
                   "%s wrong on %d of %d, rank %d: %s", f.is_label ? "label" : "id", f.rank, guarded->world,
                   r, where);
    world_free(guarded);
}

void guarded_labels(weft_device device, const char *path) {
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3},
        {.accumulate = 2, .manual = true},
        {.world = 2, .accumulate = 1, .zero = 2},
        {.world = 2, .accumulate = 2, .serial = true},
    };
    enum { WORLDS = sizeof worlds / sizeof *worlds };
    weft_model *m = classifier(), *synchronized = classifier();
    CHECK(weft_model_set_ddp(synchronized, "net", &(weft_ddp_options){.sync_batch_norm = true}) == WEFT_OK);
    for (size_t i = 0; i < 2 * WORLDS; i++) {
        if (i >= WORLDS && worlds[i % WORLDS].world < 2) continue;
        if (test_is_quick() && i % 2) continue;
        world_job job = {.model = i < WORLDS ? m : synchronized,
                         .options = worlds[i % WORLDS],
                         .steps = 5,
                         .run = train_classes,
                         .comm = &(weft_comm_options){.deadline_seconds = 60}};
        job.options.device = device;
        job.options.verify = job.options.deterministic = true;
        job.options.reduce = WEFT_REDUCE_ORDERED;
        world_rank *plain = world_run(&job);
        for (int k = 0; k < 2 * plain->world; k++) {
            wrong_value f = {.step = 1 + (int64_t)(i + (size_t)k) % 3,
                             .rank = k / 2,
                             .micro = (k + 1) % job.options.accumulate,
                             .row = (int)(i + (size_t)k) % ROWS,
                             .is_label = k % 2};
            f.path = k == plain->world ? path : NULL;
            compare_classes(job, plain, f);
        }
        world_free(plain);
    }
    remove(path);
    weft_model_free(synchronized);
    weft_model_free(m);
}

/* ---- want of memory ---- */

/* How many allocations of this thread there are up to the one that fails; 0: none fails. */
static _Thread_local int until_failure;

static void *take_unless_failing(void *context, size_t bytes, size_t alignment) {
    void *memory = NULL;
    (void)context;
    if (until_failure && --until_failure == 0) return NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes)) return NULL;
    return memory;
}

static void give_back(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    free(memory);
}

/* The n-th allocation of rank 1 fails while it tells of a bad step: rank 0 hears of it, and both continue. */
static void fail_each(world_rank *r) {
    static const flaw f = {0, 0, 0, NAN};
    weft_status status = WEFT_OK;
    int n = 0;
    while (status != WEFT_DATA && n < 20 && !r->error.status) {
        weft_error error = {0};
        until_failure = ++n * (r->rank == 1);
        status = step(r, "d_step", n, &f, &error);
        bool has_failed = r->rank == 1 && !until_failure;
        until_failure = 0;
        if (has_failed) CHECK_SAYS(status == WEFT_MEMORY, "allocation %d: %s", n, error.text);
        if (status != WEFT_DATA) CHECK_HOLDS(error.text, "memory");
        CHECK(weft_bad_step(r->session) == (status == WEFT_DATA));
        step(r, "d_step", n, NULL, &r->error);
    }
    CHECK_SAYS(status == WEFT_DATA && n > 3, "%d allocations", n - 1);
}

void guarded_memory(void) {
    const weft_allocator allocator = {.alloc = take_unless_failing, .free = give_back};
    const weft_env env = {.allocator = &allocator};
    weft_model *m = weft_model_new_in("m", &env);
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1};
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_minimize(mean_of(weft_square(weft_linear(read_x(g), 3, "a", NULL))), "", &sgd);
    world_job job = {.model = m,
                     .options = {.world = 2, .guard = WEFT_GUARD_NAN},
                     .run = fail_each,
                     .comm = &(weft_comm_options){.deadline_seconds = 60}};
    world_free(world_run(&job));
    weft_model_free(m);
}

/* ---- statistics of all ranks ---- */

/* What one rank brings is in the losses of all, after a norm of common statistics. */
static void meet_foreign(world_rank *r) {
    const flaw *f = r->job->context;
    const char *what = isnan(f->value) ? "first NaN, on rank" : "first infinity, on rank";
    char where[40], text[60];
    int rank = -1;
    weft_error error = {0};
    weft_status status = step(r, "d_step", 0, f, &error);
    snprintf(where, sizeof where, " on rank %d in micro-batch %d;", f->rank, f->micro);
    snprintf(text, sizeof text, "; %s %d", what, f->rank);
    char *report = weft_bad_step_text(r->session);
    CHECK_SAYS(status == WEFT_DATA && strstr(error.text, where), "%g: %s\n%s", (double)f->value, error.text,
               report ? report : "no report");
    CHECK_SAYS(!isnan(f->value) || strstr(error.text, text), "%s", error.text);
    CHECK_SAYS(report && strstr(report, text + 2), "%s", report ? report : "no report");
    CHECK(weft_bad_step_at(r->session, &rank, NULL) && rank == f->rank);
    CHECK(weft_bad_step_row(r->session) == (isnan(f->value) ? 1 : -1));
    weft_text_free(report);
}

void guarded_synchronized(weft_device device) {
    weft_model *m = weft_model_new("m");
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1};
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *x = read_x(g);
    WEFT_SCOPE(x, "net") x = weft_batch_norm(weft_exp(weft_linear(x, 9, "a", NULL)), "norm", NULL);
    weft_minimize(mean_of(weft_abs(x)), "", &sgd);
    CHECK(weft_model_set_ddp(m, "net", &(weft_ddp_options){.sync_batch_norm = true}) == WEFT_OK);
    for (int i = 0; i < 8; i++) {
        flaw f = {0, i % 2, i / 2 % 2, i / 4 ? 1e6f : NAN};
        world_job job = {.model = m, .run = meet_foreign, .context = &f};
        job.options = (weft_compile_options){
            .world = 2, .accumulate = 2, .device = device, .guard = WEFT_GUARD_NAN, .verify = true};
        world_free(world_run(&job));
    }
    weft_model_free(m);
}

/* ---- what is found ---- */

/* A model of one training graph, whose loss a test builds from x w, [ROWS, WIDTH]. */
typedef weft_value *(*build_loss)(weft_value *xw, weft_value *x);

typedef struct single {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} single;

static single single_open(build_loss build, weft_optimizer optimizer, weft_compile_options options) {
    single s = {.model = weft_model_new("m")};
    weft_error error = {0};
    weft_graph *g = weft_graph_new(s.model, "step", WEFT_TRAIN);
    weft_value *x = read_x(g), *y = x;
    WEFT_SCOPE(x, "net") {
        weft_value *w = weft_parameter(x, "w", 1, (int64_t[]){WIDTH}, (weft_init){WEFT_INIT_CONSTANT, 1, 0});
        y = weft_mul(x, w);
    }
    weft_minimize(build(y, x), "", &optimizer);
    options.verify = true;
    s.plan = weft_compile(s.model, &options, &error);
    CHECK_SAYS(s.plan != NULL, "%s", error.text);
    s.store = s.plan ? weft_store_new(s.plan, 1, &error) : NULL;
    s.session = s.store ? weft_session_open(s.plan, s.store, &error) : NULL;
    CHECK_SAYS(s.session != NULL, "%s", error.text);
    return s;
}

static void single_close(single *s) {
    weft_session_close(s->session);
    weft_store_free(s->store);
    weft_plan_free(s->plan);
    weft_model_free(s->model);
}

/* A step on x = `value` in one element and 1 elsewhere. */
static weft_status single_step(single *s, float value, weft_error *error) {
    float x[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = 1;
    x[5] = value;
    return weft_run(s->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, error);
}

static weft_value *of_log(weft_value *y, weft_value *x) {
    (void)x;
    return mean_of(weft_log(y));
}
static weft_value *of_exp(weft_value *y, weft_value *x) {
    (void)x;
    return mean_of(weft_exp(y));
}
static weft_value *of_quotient(weft_value *y, weft_value *x) {
    return mean_of(weft_div(y, x));
}
static weft_value *of_sqrt(weft_value *y, weft_value *x) {
    (void)x;
    return mean_of(weft_sqrt(y));
}
/* An index outside, of which the loss sees a comparison alone, which is never NaN. */
static weft_value *of_index(weft_value *y, weft_value *x) {
    weft_value *picked = weft_gather(x, 1, weft_cast(x, WEFT_I32));
    weft_value *mask =
        weft_cast(weft_less(picked, weft_constant(weft_value_graph(y), WEFT_F32, 0, NULL, 9)), WEFT_F32);
    return mean_of(weft_mul(weft_square(y), mask));
}
/* A mask of -inf, as attention has: legal. */
static weft_value *of_masked(weft_value *y, weft_value *x) {
    weft_value *zero = weft_constant(weft_value_graph(y), WEFT_F32, 0, NULL, 0);
    weft_value *mask = weft_log(weft_offset(weft_scale(weft_cast(weft_less(x, zero), WEFT_F32), -1), 1));
    return mean_of(weft_square(weft_softmax(weft_add(y, mask), 1)));
}

void guarded_nodes(weft_device device) {
    static const struct {
        build_loss build;
        float value;
        const char *op, *what, *operand;
        weft_guard guard;
    } cases[] = {
        {of_log, 0, "= log(", "first infinity", "min 0, max 1", WEFT_GUARD_NAN},
        {of_log, -1, "= log(", "first NaN", "min -1, max 1", WEFT_GUARD_NAN},
        {of_exp, 1000, "= exp(", "first infinity", "max 1000", WEFT_GUARD_NAN},
        {of_quotient, 0, "= div(", "first NaN", "min 0, max 1", WEFT_GUARD_NAN},
        {of_masked, NAN, "input x", "first NaN", "1 NaN", WEFT_GUARD_NAN},
        {of_index, 6, "= gather(", "first wrong value", "min 1, max 6", WEFT_GUARD_NAN},
        {of_index, 5, NULL, NULL, NULL, WEFT_GUARD_NAN},
        {of_masked, -1, NULL, NULL, NULL, WEFT_GUARD_GRAD},
        {of_sqrt, 0, NULL, NULL, NULL, WEFT_GUARD_NAN},
        {of_sqrt, 0, "", "first infinity", NULL, WEFT_GUARD_GRAD},
    };
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* unfused, so that the node is the op */
        single s = single_open(
            cases[i].build, sgd,
            (weft_compile_options){.device = device, .guard = cases[i].guard, .unoptimized = true});
        weft_error error = {0};
        weft_status status = single_step(&s, cases[i].value, &error);
        char *report = weft_bad_step_text(s.session);
        if (!cases[i].op) CHECK_SAYS(status == WEFT_OK && !report, "%zu: %s", i, error.text);
        if (cases[i].op) CHECK_SAYS(status == WEFT_DATA && report, "%zu: %s", i, error.text);
        const char *found = report && cases[i].what ? strstr(report, cases[i].what) : report;
        if (report) {
            CHECK_SAYS(found && strstr(found, cases[i].op), "%zu: %s", i, report);
            CHECK_SAYS(!cases[i].operand || strstr(report, cases[i].operand), "%zu: %s", i, report);
            CHECK_SAYS(strstr(report, "guarded.c:"), "%zu: %s", i, report);
            CHECK_SAYS(!isnan(cases[i].value) || !strstr(report, "first infinity"), "%zu: %s", i, report);
        }
        weft_text_free(report);
        single_close(&s);
    }
}

/* ---- spikes ---- */

void guarded_spike(weft_device device) {
    weft_optimizer sgd = {.type = "sgd", .lr = 1e-4};
    single s = single_open(
        of_exp, sgd, (weft_compile_options){.device = device, .guard = WEFT_GUARD_SPIKE, .guard_factor = 4});
    weft_error error = {0};
    for (int i = 0; i < 5; i++) CHECK_SAYS(single_step(&s, 1, &error) == WEFT_OK, "%s", error.text);
    CHECK(single_step(&s, 7, &error) == WEFT_DATA); /* e^7 / 24 more */
    CHECK_SAYS(single_step(&s, 5, &error) == WEFT_OK, "%s", error.text);
    single_close(&s);
}

static void spikes(world_rank *r) {
    int of = r->job->options.accumulate;
    for (int64_t s = 0; s < 6; s++) {
        weft_error error = {0};
        weft_status status = WEFT_OK;
        for (int m = 0; m < of && !status; m++) {
            int64_t number = (s * r->world + r->rank) * of + m;
            float x[ROWS * WIDTH];
            fill(x, number);
            if (number == 11) x[3] = 1e4f;
            status = weft_run(r->session, "d_step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &error);
        }
        CHECK_SAYS(status == (s == 2 ? WEFT_DATA : WEFT_OK), "step %d: %s", (int)s, error.text);
    }
}

void guarded_spikes(weft_device device) {
    static const weft_compile_options worlds[] = {
        {.accumulate = 4}, {.world = 2, .accumulate = 2}, {.world = 4, .accumulate = 1}};
    double means[3] = {0};
    weft_optimizer sgd = {.type = "sgd", .lr = 1e-3};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *y = read_x(g);
    WEFT_SCOPE(y, "net") y = weft_linear(y, 3, "a", NULL);
    weft_minimize(mean_of(weft_square(y)), "", &sgd);
    for (int i = 0; i < 3; i++) {
        world_job job = {.model = m, .options = worlds[i], .run = spikes};
        job.options.guard = WEFT_GUARD_SPIKE;
        job.options.device = device;
        world_rank *r = world_run(&job);
        for (int p = 0; p < r->n_parts; p++)
            if (strstr(r->parts[p].path, "loss_mean")) memcpy(&means[i], r->parts[p].data, sizeof means[i]);
        world_free(r);
    }
    CHECK_SAYS(means[0] > 0 && means[0] == means[1] && means[0] == means[2], "%a %a %a", means[0], means[1],
               means[2]);
    weft_model_free(m);
}

/* Minimizes 100^k times a loss over the parameters of a scope of its own. */
static void minimize_shared(weft_value *y, const char *scope, int k, const char *optimizer) {
    weft_optimizer one = {.type = "sgd", .name = optimizer, .lr = 1e-9};
    WEFT_SCOPE(y, scope) y = weft_linear(y, 3, "a", NULL);
    weft_minimize(weft_scale(mean_of(weft_square(y)), k ? 100 : 1), scope, &one);
}

static void run_shared(world_rank *r) {
    static const char *const graphs[] = {"small", "large", "both"};
    float x[ROWS * WIDTH];
    for (int i = 0; i < 33; i++)
        for (int k = 0; k < 3; k++) {
            weft_error error = {0};
            bool is_spike = i - 30 == k;
            fill(x, i);
            if (is_spike) x[3] = 1e4f;
            weft_status status =
                weft_run(r->session, graphs[k], (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &error);
            CHECK_SAYS(status == (is_spike ? WEFT_DATA : WEFT_OK), "step %d of %s: %s", i, graphs[k],
                       error.text);
        }
}

void guarded_shared(weft_device device) {
    weft_model *m = weft_model_new("m");
    minimize_shared(read_x(weft_graph_new(m, "small", WEFT_TRAIN)), "first", 0, "one");
    minimize_shared(read_x(weft_graph_new(m, "large", WEFT_TRAIN)), "second", 1, "one");
    weft_value *both = read_x(weft_graph_new(m, "both", WEFT_TRAIN));
    minimize_shared(both, "third", 1, "one");
    minimize_shared(both, "fourth", 0, "two");
    world_job job = {.model = m, .run = run_shared};
    job.options.guard = WEFT_GUARD_SPIKE;
    job.options.device = device;
    world_free(world_run(&job));
    weft_model_free(m);
}

/* ---- bad.step ---- */

/* Of the world that saves: where rank 0 writes, and its report. */
typedef struct saved {
    const char *path;
    char *report;
} saved;

static void save_one(world_rank *r) {
    static const flaw f = {0, 0, 0, NAN};
    weft_error error = {0};
    step(r, "d_step", 0, NULL, &r->error);
    saved *to = (saved *)(uintptr_t)r->job->context;
    CHECK(weft_bad_step_save(r->session, r->job->model, to->path, NULL) == WEFT_ORDER);
    CHECK(step(r, "d_step", 1, &f, &error) == WEFT_DATA);
    CHECK_SAYS(weft_bad_step_save(r->session, r->job->model, r->rank ? NULL : to->path, &error) == WEFT_OK,
               "%s", error.text);
    if (r->rank == 0) to->report = weft_bad_step_text(r->session);
}

char *guarded_save(const weft_compile_options *options, const char *path) {
    weft_optimizer adam = {.type = "adam", .lr = 0.01};
    weft_model *m = guarded_gan(&adam);
    saved to = {.path = path};
    world_job job = {.model = m, .options = *options, .run = save_one, .seed = 5, .context = &to};
    job.options.guard = WEFT_GUARD_NAN;
    world_free(world_run(&job));
    weft_model_free(m);
    forget_lines(to.report);
    return to.report;
}

void guarded_replay(const weft_compile_options *options, const char *path) {
    weft_error error = {0};
    replayed r;
    char *told = guarded_save(options, path);
    bool is_open = replayed_open(&r, path, &error);
    char *again = is_open ? replayed_run(&r, &error) : NULL;
    CHECK_SAYS(again && told && strcmp(again, told) == 0, "%s\n%s\nbefore:\n%s", error.text,
               again ? again : "", told ? told : "");
    replayed_close(&r);
    free(again);
    free(told);
}
