/* test_collective_order.c - which sums are deferred and which gathers are early
 * (runtime/passes/collective_order.c): every third, latest layers last, and none where all gradients are
 * needed together; and where sums of several minimizes go. test_worlds*.c show that no bit changes. */
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 9 };

static weft_value *weight(weft_value *x, const char *name, int64_t columns) {
    return weft_parameter(x, name, 2, (int64_t[]){64, columns}, (weft_init){WEFT_INIT_ONES, 0, 0});
}

/* A chain of layers, a bucket each; the backward ends with the first one's. `joined`: each weight is joined
 * of two parameters, so their gradients are views with gaps, which have to be copied to reach the bucket. */
static weft_value *chain(weft_value *x, const char *scope, int layers, bool joined) {
    WEFT_SCOPE(x, scope) {
        for (int i = 0; i < layers; i++) {
            char name[2][16];
            for (int k = 0; k < 2; k++) snprintf(name[k], sizeof name[k], "%c%d", 'w' + k, i);
            weft_value *w = weight(x, name[0], joined ? 32 : 64);
            if (joined) w = weft_concat(2, (weft_value *[]){w, weight(x, name[1], 32)}, 1);
            x = weft_matmul(x, w, false, false);
        }
    }
    return x;
}

static weft_value *input(weft_model *m, const char *graph) {
    return weft_input(weft_graph_new(m, graph, WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 64});
}

static weft_value *mean(weft_value *x) {
    return weft_mean(x, 2, (int64_t[]){0, 1}, false);
}

static weft_model *one_chain(double clip_norm, bool joined) {
    weft_model *m = weft_model_new("m");
    weft_value *loss = mean(chain(input(m, "step"), "net", LAYERS, joined));
    weft_output(loss, "loss");
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .clip_norm = clip_norm});
    return m;
}

static weft_plan *plan_of(const weft_model *m, int zero, weft_shard shard, int rank, weft_guard guard) {
    weft_error e = {0};
    weft_compile_options o = {.world = 3,
                              .guard = guard,
                              .rank = rank,
                              .zero = zero,
                              .shard = shard,
                              .bucket_cap_mb = 0.02,
                              .threads = 1,
                              .verify = true};
    weft_plan *plan = weft_compile(m, &o, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    return plan;
}

/* The stream as text: "!" the sum of a guard's flags, "+3" the sum of bucket 3, "-3" its gather, "|" where
 * the deferred part begins, "." the end of the backward. Buckets of subgraphs other than "net" are shown by
 * their paths. */
static void show_stream(const weft_plan *plan, char *text, size_t room) {
    size_t at = 0;
    const program *p = &plan->programs[0];
    const weft_node *last = p->graph->last;
    while (last->is_update || node_is_silent(last)) last = last->prev;
    for (const weft_node *n = p->graph->first; n && at < room; n = n->next) {
        if (n->prev == last) at += (size_t)snprintf(text + at, room - at, ". ");
        if (n->order == p->deferred) at += (size_t)snprintf(text + at, room - at, "| ");
        if (!(n->op->flags & OP_COMMUNICATES) || strcmp(n->op->name, "wait") == 0) continue;
        if (strcmp(n->in[0]->node->op->name, "guard") == 0)
            at += (size_t)snprintf(text + at, room - at, "! ");
        if (!n->variable) continue;
        const char *path = n->variable->path, *name = strncmp(path, "net.", 4) ? path : path + 4;
        at += (size_t)snprintf(text + at, room - at, "%c%s ", strcmp(n->op->name, "all_gather") ? '+' : '-',
                               name);
    }
}

/* Without a guard, and with one. Frees the model. */
static void check_streams(weft_model *m, int zero, const char *stream, const char *guarded) {
    for (int i = 0; i < 12; i++) {
        char text[300] = "";
        weft_shard shard = i % 2 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
        weft_plan *plan = plan_of(m, zero, shard, i / 2 % 3, i < 6 ? WEFT_GUARD_OFF : WEFT_GUARD_NAN);
        NEED(plan);
        show_stream(plan, text, sizeof text);
        CHECK_TEXT(text, i < 6 ? stream : guarded);
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

/* With a guard the stream is the same after its flags: were their sum the last, no update could start before
 * all buckets are summed. */
static void check_stream_of(weft_model *m, int zero, const char *stream) {
    char guarded[300];
    snprintf(guarded, sizeof guarded, "! %s", stream);
    check_streams(m, zero, stream, guarded);
}

/* Gradients that are copied into their buckets are summed no later. */
static void check_stream(double clip_norm, int zero, const char *stream) {
    check_stream_of(one_chain(clip_norm, false), zero, stream);
    check_stream_of(one_chain(clip_norm, true), zero, stream);
}

TEST(every_third_sum_but_the_last_goes_late_and_outlasts_its_run) {
    check_stream(0, 0, "+0 +1 +3 +4 +6 +7 . +8 +5 +2 | ");
}

TEST(every_third_gather_of_zero_goes_early) {
    check_stream(0, 1, "+0 +1 +2 +3 -0 +4 +5 +6 -3 +7 . +8 -8 -7 -6 -5 -4 -2 -1 ");
    check_stream(0, 2, "+0 +1 +2 +3 -0 +4 +5 +6 -3 +7 . +8 -8 -7 -6 -5 -4 -2 -1 ");
}

TEST(a_clipped_norm_moves_nothing) {
    check_stream(1, 0, "+0 +1 +2 +3 +4 +5 +6 +7 . +8 ");
    check_stream(1, 1, "+0 +1 +2 +3 +4 +5 +6 +7 . +8 -8 -7 -6 -5 -4 -3 -2 -1 -0 ");
}

/* Three nets on each other and one loss; each net has a minimize of its own. `shared`: they stand on a net
 * that another graph trains. */
static weft_model *three_chains(bool joined, bool shared) {
    static const char *const scopes[] = {"a", "b", "c"};
    weft_model *m = weft_model_new("m");
    weft_value *x = input(m, "step");
    if (shared) x = chain(x, "front", 1, false);
    for (int i = 0; i < 3; i++) x = chain(x, scopes[i], 3, joined);
    x = mean(x);
    weft_output(x, "loss");
    for (int i = 0; i < 3; i++)
        weft_minimize(x, scopes[i], &(weft_optimizer){.type = i == 1 ? "adam" : "sgd", .name = scopes[i]});
    if (shared)
        weft_minimize(mean(chain(input(m, "first"), "front", 1, false)), "front",
                      &(weft_optimizer){.type = "sgd", .name = "front"});
    return m;
}

TEST(sums_of_a_minimize_do_not_wait_for_updates_of_an_earlier_one) {
    static const char sharded[] = "+a.0 +a.1 +a.2 +b.0 -a.0 +b.1 +b.2 +c.0 -b.0 +c.1 . +c.2 "
                                  "-a.2 -a.1 -b.2 -b.1 -c.2 -c.1 -c.0 ";
    static const char shared[] =
        "+a.0 +a.1 +a.2 +b.0 +b.1 +b.2 +c.0 +c.1 . +c.2 | -a.2 -a.1 -a.0 -b.2 -b.1 -b.0 -c.2 -c.1 -c.0 ";
    /* A deferred part begins with a wait after the gate; ZeRO 2 waits for most sums before it. */
    static const char guarded[] =
        "! +a.0 +a.1 +a.2 +b.0 +b.1 +b.2 +c.0 +c.1 . +c.2 -a.2 -a.1 -a.0 -b.2 -b.1 -b.0 | -c.2 -c.1 -c.0 ";
    for (int joined = 0; joined < 2; joined++) {
        check_stream_of(three_chains(joined, false), 0, "+a.0 +a.1 +b.0 +b.1 +c.0 +c.1 . +c.2 +b.2 +a.2 ");
        check_stream_of(three_chains(joined, false), 1, sharded);
        check_stream_of(three_chains(joined, false), 2, sharded);
        check_stream_of(three_chains(joined, true), 0, "+a.0 +a.1 +a.2 +b.0 +b.1 +b.2 +c.0 +c.1 . +c.2 | ");
        check_stream_of(three_chains(joined, true), 1, shared);
        check_streams(three_chains(joined, true), 2, shared, guarded);
    }
}

/* Every plan is proved (.verify), whatever is sharded and however many buckets there are. */
TEST(several_minimizes_have_plans_in_every_world) {
    static const double caps[] = {1e-4, 0.02, 0.04, 1};
    enum { WAYS = 4 * 3 * 2 * 2 * 2 * 2 * 2, MODELS = 4 };
    weft_model *m[MODELS];
    for (int k = 0; k < MODELS; k++) m[k] = three_chains(k % 2, k / 2);
    for (int i = 0; i < WAYS; i += test_is_quick() ? 5 : 1) { /* 5 divides no option's part of i */
        weft_error e = {0};
        weft_compile_options o = {.world = 2,
                                  .threads = 1,
                                  .verify = true,
                                  .bucket_cap_mb = caps[i % 4],
                                  .zero = i / 4 % 3,
                                  .shard = i / 12 % 2 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY,
                                  .serial = i / 24 % 2,
                                  .accumulate = 1 + i / 48 % 2,
                                  .isa = i / 96 % 2 ? WEFT_ISA_REFERENCE : WEFT_ISA_AUTO,
                                  .rank = i / 192 % 2};
        for (int k = 0; k < MODELS; k++) {
            weft_plan *plan = weft_compile(m[k], &o, &e);
            CHECK_SAYS(plan != NULL, "way %d, model %d: %s", i, k, e.text);
            weft_plan_free(plan);
        }
    }
    for (int k = 0; k < MODELS; k++) weft_model_free(m[k]);
}

SUITE("stream order", {T(every_third_sum_but_the_last_goes_late_and_outlasts_its_run),
                       T(every_third_gather_of_zero_goes_early), T(a_clipped_norm_moves_nothing),
                       T(sums_of_a_minimize_do_not_wait_for_updates_of_an_earlier_one),
                       T(several_minimizes_have_plans_in_every_world)})
