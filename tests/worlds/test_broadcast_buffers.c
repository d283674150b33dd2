/* test_broadcast_buffers.c - with broadcast_buffers each step starts with rank 0's state on all ranks: after
 * a step a rank holds what rank 0 held before it, updated by this rank's own micro-batches. Ranks are
 * threads. */
#include "ops/structure/collective.h"
#include "runtime/plan/program.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, CHANNELS = 3, STEPS = 5, WORLD = 3 };

/* ---- a model whose running statistics are those of its input ---- */

static weft_value *layer(weft_value *x, const char *scope) {
    WEFT_SCOPE(x, scope)
    x = weft_linear(weft_batch_norm(x, "bn", NULL), CHANNELS, "fc", NULL);
    return x;
}

/* Subgraph "shared" has the option; "own" has not. (The two biases of fc have one gradient, a node in two
 * buckets.) */
static weft_model *build(const weft_ddp_options *options) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, CHANNELS});
    weft_value *y = weft_add(layer(x, "shared"), layer(x, "own"));
    weft_minimize(weft_mean(weft_square(y), WEFT_ALL, false), "", &(weft_optimizer){.type = "adam"});
    weft_model_set_ddp(m, "shared", options);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* Other numbers on each rank and in each run. */
static void make_batch(int rank, int run, float x[ROWS][CHANNELS]) {
    test_random r = {(uint64_t)(1 + 100 * run + rank)};
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < CHANNELS; k++) x[i][k] = (float)random_in(&r, -1 - k, 1 + rank);
}

/* Moves statistics on as batch_norm does: mean and unbiased variance of each channel, momentum 0.1. */
static void move_on(int rank, int run, double mean[CHANNELS], double var[CHANNELS]) {
    float x[ROWS][CHANNELS];
    make_batch(rank, run, x);
    for (int k = 0; k < CHANNELS; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < ROWS; i++) sum += x[i][k];
        for (int i = 0; i < ROWS; i++) squares += pow(x[i][k] - sum / ROWS, 2);
        mean[k] = 0.9 * mean[k] + 0.1 * sum / ROWS;
        var[k] = 0.9 * var[k] + 0.1 * squares / (ROWS - 1);
    }
}

/* ---- ranks ---- */

typedef struct statistics {
    float mean[CHANNELS], var[CHANNELS];
} statistics;

typedef struct rank {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    int accumulate, zero;
    statistics shared[STEPS], own[STEPS]; /* after each step */
    weft_error error;
} rank;

static void keep(rank *r, const weft_store *store, const char *scope, statistics *into) {
    char path[60];
    snprintf(path, sizeof path, "%s/bn/running_mean", scope);
    weft_store_get(store, path, into->mean, sizeof into->mean, &r->error);
    snprintf(path, sizeof path, "%s/bn/running_var", scope);
    weft_store_get(store, path, into->var, sizeof into->var, &r->error);
}

static void *train(void *argument) {
    rank *r = argument;
    float x[ROWS][CHANNELS];
    weft_compile_options options = {.threads = 1,
                                    .world = WORLD,
                                    .rank = r->comm->rank,
                                    .accumulate = r->accumulate,
                                    .zero = r->zero,
                                    .verify = true};
    weft_plan *plan = weft_compile(r->model, &options, &r->error);
    weft_store *store = plan ? weft_store_new(plan, 1, &r->error) : NULL;
    weft_session *s = store ? weft_session_open_on(plan, store, r->comm, &r->error) : NULL;
    for (int step = 0; s && step < STEPS && !r->error.status; step++) {
        for (int i = 0; i < r->accumulate && !r->error.status; i++) {
            make_batch(r->comm->rank, step * r->accumulate + i, x);
            weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
        }
        keep(r, store, "shared", &r->shared[step]);
        keep(r, store, "own", &r->own[step]);
    }
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

static void train_world(rank *ranks, int accumulate, int zero, const weft_ddp_options *options) {
    weft_comm *comms[WORLD];
    weft_model *m = build(options);
    CHECK(weft_comm_threads(WORLD, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < WORLD; i++) {
        ranks[i] = (rank){.model = m, .comm = comms[i], .accumulate = accumulate, .zero = zero};
        CHECK(pthread_create(&ranks[i].thread, NULL, train, &ranks[i]) == 0);
    }
    for (int i = 0; i < WORLD; i++) {
        CHECK(pthread_join(ranks[i].thread, NULL) == 0);
        CHECK_SAYS(ranks[i].error.status == WEFT_OK, "rank %d: %s", i, ranks[i].error.text);
    }
    weft_model_free(m);
}

static void check_near(const statistics *got, const double *mean, const double *var, int rank, int step,
                       const char *what) {
    for (int k = 0; k < CHANNELS; k++)
        CHECK_SAYS(fabs(got->mean[k] - mean[k]) < 1e-5 && fabs(got->var[k] - var[k]) < 1e-5,
                   "rank %d, step %d, %s: %g and %g, expected %g and %g", rank, step, what,
                   (double)got->mean[k], (double)got->var[k], mean[k], var[k]);
}

/* `root`: whose state it begins a step with. */
static void check_rank(const rank *r, int rank, int root, int accumulate) {
    double first[2][CHANNELS] = {{0}, {1, 1, 1}}, own[2][CHANNELS] = {{0}, {1, 1, 1}};
    for (int step = 0; step < STEPS; step++) {
        double shared[2][CHANNELS]; /* the root's before the step, then this rank's own updates */
        memcpy(shared, first, sizeof shared);
        for (int i = 0; i < accumulate; i++) {
            int run = step * accumulate + i;
            move_on(root, run, first[0], first[1]);
            move_on(rank, run, shared[0], shared[1]);
            move_on(rank, run, own[0], own[1]);
        }
        check_near(&r->shared[step], shared[0], shared[1], rank, step, "shared");
        check_near(&r->own[step], own[0], own[1], rank, step, "own");
    }
}

TEST(a_step_begins_with_the_state_of_rank_0) {
    static rank ranks[WORLD];
    for (int kind = 0; kind < 4; kind++) {
        int accumulate = 1 + kind / 2 * 2;
        train_world(ranks, accumulate, kind % 2, &(weft_ddp_options){.broadcast_buffers = true});
        for (int i = 0; i < WORLD; i++) check_rank(&ranks[i], i, 0, accumulate);
    }
}

TEST(a_process_group_begins_with_the_state_of_its_first_rank) {
    static rank ranks[WORLD];
    train_world(ranks, 1, 0, &(weft_ddp_options){.broadcast_buffers = true, .process_group = "2,1;0"});
    for (int i = 0; i < WORLD; i++) check_rank(&ranks[i], i, i == 0 ? 0 : 2, 1);
}

TEST(with_sync_batch_norm_ranks_agree_after_a_step_too) {
    static rank ranks[WORLD];
    train_world(ranks, 1, 0, &(weft_ddp_options){.broadcast_buffers = true, .sync_batch_norm = true});
    for (int i = 1; i < WORLD; i++)
        CHECK(memcmp(ranks[i].shared, ranks[0].shared, sizeof ranks[i].shared) == 0);
}

/* ---- plans ---- */

static int count_broadcasts(const program *p) {
    int count = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) count += n->op == &weft_op_broadcast;
    return count;
}

/* A tower of `layers` batch norms, each with two variables of state, read by a training and an eval graph. */
static weft_plan *make_tower(int layers, int world, int accumulate) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "eval" : "step", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, CHANNELS});
        WEFT_SCOPE(x, "net")
        for (int k = 0; k < layers; k++) {
            char name[20];
            snprintf(name, sizeof name, "bn%d", k);
            x = weft_batch_norm(weft_tanh(x), name, NULL);
        }
        weft_value *loss = weft_mean(weft_square(weft_offset(x, 1)), WEFT_ALL, false);
        if (i == 0) weft_minimize(loss, "", &(weft_optimizer){.type = "sgd"});
        weft_output(loss, "loss");
    }
    weft_model_set_ddp(m, "", &(weft_ddp_options){.broadcast_buffers = true});
    weft_plan *plan = weft_compile(
        m, &(weft_compile_options){.world = world, .accumulate = accumulate, .verify = true}, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_model_free(m);
    return plan;
}

TEST(one_broadcast_carries_many_variables_and_evaluation_has_none) {
    static const struct {
        int layers, world, accumulate, broadcasts;
    } cases[] = {{2, 1, 1, 0}, {1, 2, 1, 1}, {16, 2, 1, 1}, {17, 2, 1, 2}, {17, 2, 3, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        weft_plan *plan = make_tower(cases[c].layers, cases[c].world, cases[c].accumulate);
        NEED(plan);
        for (int i = 0; i < plan->n_programs; i++) {
            const program *p = &plan->programs[i];
            bool has_some =
                strcmp(p->name, "step") == 0 && (p->phase == PHASE_WHOLE || p->phase == PHASE_FIRST);
            CHECK_SAYS(count_broadcasts(p) == (has_some ? cases[c].broadcasts : 0), "case %zu, %s: %d", c,
                       p->graph->name, count_broadcasts(p));
        }
        weft_error e = {0};
        char *text = weft_plan_text(plan);
        weft_model *back = weft_model_parse(text, "plan", NULL, &e);
        CHECK_SAYS(back != NULL, "case %zu: %s", c, e.text);
        weft_model_free(back);
        weft_text_free(text);
        weft_plan_free(plan);
    }
}

/* ---- state that a graph reads, writes twice, and gives as an output ---- */

typedef struct counter {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    float before, mixed, left;
    int64_t batches; /* beyond what a double holds exactly */
    weft_error error;
} counter;

static weft_model *build_counter(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){CHANNELS});
    WEFT_SCOPE(x, "net") {
        weft_value *w = weft_parameter(x, "w", 1, x->type.shape, (weft_init){0});
        weft_value *before = weft_state(x, "count", 0, NULL, (weft_init){0});
        weft_assign(before, weft_offset(before, 1));
        weft_value *between = weft_state(x, "count", 0, NULL, (weft_init){0});
        weft_assign(between, weft_scale(between, 2));
        weft_value *after = weft_state(x, "count", 0, NULL, (weft_init){0});
        weft_output(weft_sub(weft_add(before, between), after), "mixed");
        weft_output(before, "before");
        weft_value *batches = weft_state_in(g, "batches", WEFT_I64, 0, NULL, (weft_init){0});
        weft_assign(batches, weft_offset(batches, 1));
        weft_minimize(weft_sum(weft_mul(w, x), WEFT_ALL, false), "net", &(weft_optimizer){.type = "sgd"});
    }
    weft_model_set_ddp(m, "net", &(weft_ddp_options){.broadcast_buffers = true});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void *count(void *argument) {
    counter *c = argument;
    float x[CHANNELS] = {0}, mine = 5 + 10 * (float)c->comm->rank;
    c->batches = ((int64_t)1 << 60) + 7 * c->comm->rank;
    weft_compile_options options = {.threads = 1, .world = 2, .rank = c->comm->rank, .verify = true};
    weft_plan *plan = weft_compile(c->model, &options, &c->error);
    weft_store *store = weft_store_new(plan, 1, &c->error);
    weft_session *s = weft_session_open_on(plan, store, c->comm, &c->error);
    weft_fetch fetches[] = {{"before", &c->before, 4}, {"mixed", &c->mixed, 4}};
    if (s) weft_store_set(store, "net/count", &mine, sizeof mine, &c->error);
    if (s) weft_store_set(store, "net/batches", &c->batches, sizeof c->batches, &c->error);
    if (s) weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, fetches, 2, &c->error);
    if (s) weft_store_get(store, "net/batches", &c->batches, sizeof c->batches, &c->error);
    if (s) weft_store_get(store, "net/count", &c->left, sizeof c->left, &c->error);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(c->comm);
    return NULL;
}

TEST(reads_and_writes_of_state_keep_their_order_behind_a_broadcast) {
    counter c[2] = {{0}};
    weft_comm *comms[2];
    weft_model *m = build_counter();
    CHECK(weft_comm_threads(2, NULL, comms, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        c[i].model = m;
        c[i].comm = comms[i];
        CHECK(pthread_create(&c[i].thread, NULL, count, &c[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(c[i].thread, NULL) == 0);
        CHECK_SAYS(c[i].error.status == WEFT_OK, "rank %d: %s", i, c[i].error.text);
        CHECK_SAYS(c[i].before == 5 && c[i].mixed == 5 + 6 - 12 && c[i].left == 12,
                   "rank %d: %g, %g, left %g", i, (double)c[i].before, (double)c[i].mixed, (double)c[i].left);
        CHECK_SAYS(c[i].batches == ((int64_t)1 << 60) + 1, "rank %d: %lld", i, (long long)c[i].batches);
    }
    weft_model_free(m);
}

SUITE("broadcast_buffers",
      {T(a_step_begins_with_the_state_of_rank_0), T(a_process_group_begins_with_the_state_of_its_first_rank),
       T(with_sync_batch_norm_ranks_agree_after_a_step_too),
       T(one_broadcast_carries_many_variables_and_evaluation_has_none),
       T(reads_and_writes_of_state_keep_their_order_behind_a_broadcast)})
