/* test_deferred.c - deferred parts that outlast their runs (runtime/passes/deferred.c): they overlap with the
 * other graph's forward, change no bit and no order of collectives, and are finished wherever their results
 * are read. dcgan28, built narrower; ranks are threads. */
#include "runtime/session/state.h"

#include "examples/zoo.h"
#include "support/world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static weft_model *build(const char *name, double clip_norm) {
    weft_optimizer adam = {.type = "adam", .lr = 2e-3, .clip_norm = clip_norm};
    zoo_options o = {
        .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15, .narrow = 8};
    weft_model *m = weft_model_new(name);
    o.optimizer = &adam;
    weft_model_set_batch(m, 2);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, name) == 0) zoo_models[i].build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what ranks do: a letter is a step of a graph, or something else ---- */

static char file[2][60];

static void act(world_rank *r, char letter, int64_t number) {
    int a = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    float loss;
    const char *graph = letter == 'd' ? "d_step" : letter == 'g' ? "g_step" : letter == 'v' ? "val" : NULL;
    for (int i = 0; graph && i < (letter == 'v' ? 1 : a); i++)
        world_micro(r, graph, (number * r->world + r->rank) * a + i, letter == 'd' && r->rank ? NULL : &loss);
    if (letter == 'p') world_micro(r, "predict", number, NULL);
    if (letter == 's')
        weft_session_save(r->session, r->rank ? NULL : file[r->job->options.serial], true, &r->error);
    if (letter == 'y') weft_sync(r->session, &r->error);
    if (letter == 'c') {
        weft_session_close(r->session);
        r->session = NULL;
    }
}

static void run_letters(world_rank *r) {
    const char *letters = r->job->context;
    for (int i = 0; letters[i] && !r->error.status; i++) act(r, letters[i], i);
}

/* ---- the same bits ---- */

static const char *const orders[] = {"ddgdgpvddgvgpd", "dgdgsdgydgc", "gpdpvdvgdpgdc", "dddgggdvsgpdgc"};

static bool same_files(void) {
    static char a[1 << 20], b[sizeof a];
    FILE *f[2] = {fopen(file[0], "rb"), fopen(file[1], "rb")};
    if (!f[0] || !f[1]) return false;
    size_t n = fread(a, 1, sizeof a, f[0]), m = fread(b, 1, sizeof b, f[1]);
    fclose(f[0]);
    fclose(f[1]);
    return n > 1000 && n < sizeof a && n == m && memcmp(a, b, n) == 0;
}

static void check_order(const weft_model *m, const weft_compile_options *o, const char *letters) {
    char what[120];
    snprintf(what, sizeof what, "%s, zero %d, accumulate %d", letters, o->zero, o->accumulate);
    world_job job = {.model = m, .options = *o, .run = run_letters, .context = letters};
    world_rank *ranks = world_run(&job);
    job.options.serial = true;
    world_rank *serial = world_run(&job);
    for (int i = 0; i < o->world; i++) {
        char where[300];
        CHECK_SAYS(world_agrees(&serial[i], &ranks[i], world_all, where), "%s: rank %d differs in %s", what,
                   i, where);
    }
    if (strchr(letters, 's')) CHECK_SAYS(same_files(), "%s: other files", what);
    world_free(ranks);
    world_free(serial);
}

TEST(deferred_updates_change_no_bit_in_any_order_of_graphs) {
    enum { ORDERS = sizeof orders / sizeof *orders };
    for (int i = 0; i < 2; i++)
        snprintf(file[i], sizeof file[i], "/tmp/weft_deferred.%ld.%d", (long)getpid(), i);
    for (int clipped = 0; clipped < 2; clipped++) {
        weft_model *m = build("dcgan28", clipped ? 0.3 : 0);
        for (int zero = 0; zero < 3; zero++)
            for (int a = 1; a < 3; a++)
                for (int i = 0; i < ORDERS; i++) {
                    weft_compile_options o = {
                        .world = 2, .accumulate = a, .zero = zero, .bucket_cap_mb = 0.02};
                    o.shard = zero && i % 2 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
                    if (!test_is_quick() || (i + zero + a + clipped) % 4 == 0) check_order(m, &o, orders[i]);
                }
        weft_model_free(m);
    }
    for (int i = 0; i < 2; i++) unlink(file[i]);
}

/* ---- what is hidden ---- */

typedef struct record {
    const char *now; /* the graph that runs */
    int own, before; /* its nodes, and how many of them ran before the first of a deferred part */
    int waits;       /* of another graph's, or of none */
    bool is_open;
} record;

static void on_node(void *context, const weft_node_event *e) {
    record *r = context;
    bool is_own = strcmp(e->graph, r->now) == 0;
    r->own += is_own;
    r->waits += e->is_wait;
    if (!is_own && !r->is_open) r->before = r->own;
    r->is_open |= !is_own;
}

static record trace(world_rank *r, const char *graph, int64_t number) {
    record seen = {.now = graph};
    weft_session_trace(r->session, on_node, &seen);
    world_micro(r, graph, number, NULL);
    weft_session_trace(r->session, NULL, NULL);
    return seen;
}

/* Nodes of a graph that read no parameter of the other network, and none that depends on one. */
enum { FORWARD = 15 };

/* A deferred part that sends does so as soon as it can; else it waits for the first node that needs it. */
static void watch(world_rank *r) {
    const pending *left = &r->session->deferred;
    bool sends = r->job->options.zero > 0;
    for (int64_t i = 0; i < 3 && !r->error.status; i++) {
        record d = trace(r, "d_step", i);
        CHECK_SAYS(left->r && strcmp(left->r->p->name, "d_step") == 0, "d_step leaves no deferred part");
        CHECK_SAYS(i == 0 || (d.waits && (sends || d.before > FORWARD)),
                   "%d nodes of d_step before a deferred part", d.before);
        record g = trace(r, "g_step", i);
        CHECK_SAYS(g.waits && (sends || g.before > FORWARD), "%d nodes of g_step before a deferred part",
                   g.before);
        CHECK(left->r && strcmp(left->r->p->name, "g_step") == 0);
        record look = trace(r, "predict", i); /* reads the generator */
        CHECK(look.waits && !left->r && (sends || look.before < 3));
        trace(r, "d_step", i);
        look = trace(r, "predict", i);
        CHECK(sends ? !left->r : !look.waits && left->r);
        trace(r, "g_step", i);
    }
}

TEST(deferred_updates_hide_in_what_does_not_need_them) {
    weft_model *m = build("dcgan28", 0);
    for (int zero = 0; zero < 3; zero++) {
        world_job job = {.model = m, .options = {.world = 2, .zero = zero, .verify = true}, .run = watch};
        world_free(world_run(&job));
    }
    weft_model_free(m);
}

static uint64_t in_flight_of(const weft_model *m, weft_compile_options o) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &o, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    uint64_t bytes = plan ? plan->in_flight_bytes : 0;
    CHECK(!plan || bytes <= plan->memory.activations);
    weft_plan_free(plan);
    return bytes;
}

TEST(memory_is_in_flight_only_where_something_is_gained) {
    weft_model *gan = build("dcgan28", 0), *gpt = build("gpt", 0);
    CHECK(in_flight_of(gan, (weft_compile_options){.world = 2}) > 0);
    CHECK(in_flight_of(gan, (weft_compile_options){.world = 2, .zero = 2, .accumulate = 2}) > 0);
    CHECK(in_flight_of(gan, (weft_compile_options){.world = 2, .serial = true}) == 0);
    CHECK(in_flight_of(gan, (weft_compile_options){.world = 1}) == 0);
    CHECK(in_flight_of(gan, (weft_compile_options){.world = 2, .graph = "d_step"}) == 0);
    for (int zero = 0; zero < 3; zero++)
        CHECK(in_flight_of(gpt, (weft_compile_options){.world = 2, .zero = zero}) == 0);
    weft_model_free(gan);
    weft_model_free(gpt);
}

/* ---- readers before the end, and sessions that close ---- */

static void look_early(world_rank *r) {
    weft_error error = {0};
    float bias[1000];
    int64_t shape[WEFT_MAX_NDIM];
    size_t bytes = sizeof(float);
    int ndim = weft_store_shape(r->store, "discriminator/conv1/bias", NULL, shape);
    for (int i = 0; i < ndim; i++) bytes *= (size_t)shape[i];
    world_micro(r, "d_step", 0, NULL);
    CHECK(weft_store_get(r->store, "discriminator/conv1/bias", bias, bytes, &error) == WEFT_ORDER);
    CHECK_HOLDS(error.text, "weft_sync");
    CHECK(weft_store_set(r->store, "discriminator/conv1/bias", bias, bytes, NULL) == WEFT_ORDER);
    CHECK(weft_weights_save(r->store, "/tmp/weft_deferred_early", false, NULL) == WEFT_ORDER);
    CHECK(weft_store_set_lr(r->store, NULL, 0.01, NULL) == WEFT_OK);
    CHECK(weft_sync(r->session, &r->error) == WEFT_OK);
    CHECK(r->store->n_arriving == 0);
    CHECK(weft_store_get(r->store, "discriminator/conv1/bias", bias, bytes, NULL) == WEFT_OK);
}

TEST(what_a_deferred_update_changes_is_not_read) {
    weft_model *m = build("dcgan28", 0);
    for (int zero = 0; zero < 3; zero++) {
        world_job job = {.model = m, .options = {.world = 2, .zero = zero}, .run = look_early};
        world_free(world_run(&job));
    }
    weft_model_free(m);
}

/* Rank 1 goes when both have a deferred part pending; it closes its session, or breaks off. */
static void go_away(world_rank *r) {
    const char *how = r->job->context;
    for (int i = 0; i < 2; i++) world_micro(r, i ? "d_step" : "g_step", i, NULL);
    CHECK_SAYS(!r->error.status && r->session->deferred.r, "rank %d: %s", r->rank, r->error.text);
    if (r->rank && *how == 'c') act(r, 'c', 0);
    if (r->rank && *how == 'b') weft_comm_abort(r->comm, "rank 1 had enough");
    if (r->rank) return;
    if (strstr(how, "sync")) weft_sync(r->session, &r->error);
    for (int i = 0; i < 3 && !r->error.status; i++) world_micro(r, i % 2 ? "d_step" : "g_step", i + 2, NULL);
    CHECK_SAYS(r->error.status == WEFT_PEER, "%s", r->error.text);
    weft_sync(r->session, NULL);
    CHECK(!r->session->deferred.r && !r->session->n_in_flight && !r->store->n_arriving);
}

TEST(a_rank_that_goes_with_deferred_steps_pending_is_an_error_not_a_hang) {
    static const char *const ways[] = {"close", "close, sync", "break", "break, sync"};
    weft_model *m = build("dcgan28", 0.3);
    for (int zero = 0; zero < 3; zero++)
        for (int i = 0; i < 4; i++) {
            world_job job = {.model = m,
                             .options = {.world = 2, .zero = zero},
                             .run = go_away,
                             .context = ways[i],
                             .comm = &(weft_comm_options){.deadline_seconds = 1}};
            if (!test_is_quick() || i == zero) world_free(world_run_any(&job, true));
        }
    weft_model_free(m);
}

SUITE("deferred",
      {T(deferred_updates_change_no_bit_in_any_order_of_graphs),
       T(deferred_updates_hide_in_what_does_not_need_them),
       T(memory_is_in_flight_only_where_something_is_gained), T(what_a_deferred_update_changes_is_not_read),
       T(a_rank_that_goes_with_deferred_steps_pending_is_an_error_not_a_hang)})
