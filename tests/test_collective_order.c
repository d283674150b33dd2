/* test_collective_order.c - which sums are deferred and which gathers are early
 * (runtime/passes/collective_order.c): every third, latest layers last, and none where all gradients are
 * needed together. test_worlds*.c show that no bit changes. */
#include "runtime/plan/program.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 9 };

/* A chain of layers, a bucket each; the backward ends with the first one's. */
static weft_model *chain(double clip_norm) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 64});
    WEFT_SCOPE(x, "net") {
        for (int i = 0; i < LAYERS; i++) {
            char name[16];
            snprintf(name, sizeof name, "w%d", i);
            x = weft_matmul(
                x, weft_parameter(x, name, 2, (int64_t[]){64, 64}, (weft_init){WEFT_INIT_ONES, 0, 0}), false,
                false);
        }
    }
    x = weft_mean(x, 2, (int64_t[]){0, 1}, false);
    weft_output(x, "loss");
    weft_minimize(x, "net", &(weft_optimizer){.type = "sgd", .clip_norm = clip_norm});
    return m;
}

static weft_plan *plan_of(const weft_model *m, int zero, weft_shard shard, int rank) {
    weft_error e = {0};
    weft_compile_options o = {.world = 3,
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

/* The stream as text: "+3" the sum of bucket 3, "-3" its gather, "|" where the deferred part begins. */
static void show_stream(const weft_plan *plan, char *text, size_t room) {
    size_t at = 0;
    const program *p = &plan->programs[0];
    for (const weft_node *n = p->graph->first; n && at < room; n = n->next) {
        if (n->order == p->deferred) at += (size_t)snprintf(text + at, room - at, "| ");
        if (n->op->flags & OP_COMMUNICATES && strcmp(n->op->name, "wait") != 0 && n->variable)
            at +=
                (size_t)snprintf(text + at, room - at, "%c%s ", strcmp(n->op->name, "all_gather") ? '+' : '-',
                                 strrchr(n->variable->path, '.') + 1);
    }
}

static void check_stream(double clip_norm, int zero, const char *stream) {
    weft_model *m = chain(clip_norm);
    for (int i = 0; i < 6; i++) {
        char text[300] = "";
        weft_plan *plan = plan_of(m, zero, i % 2 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY, i / 2);
        NEED(plan);
        show_stream(plan, text, sizeof text);
        CHECK_TEXT(text, stream);
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

TEST(every_third_sum_but_the_last_goes_late_and_outlasts_its_run) {
    check_stream(0, 0, "+0 +1 +3 +4 +6 +7 +8 +5 +2 | ");
}

TEST(every_third_gather_of_zero_goes_early) {
    check_stream(0, 1, "+0 +1 +2 +3 -0 +4 +5 +6 -3 +7 +8 -8 -7 -6 -5 -4 -2 -1 ");
    check_stream(0, 2, "+0 +1 +2 +3 -0 +4 +5 +6 -3 +7 +8 -8 -7 -6 -5 -4 -2 -1 ");
}

TEST(a_clipped_norm_moves_nothing) {
    check_stream(1, 0, "+0 +1 +2 +3 +4 +5 +6 +7 +8 ");
    check_stream(1, 1, "+0 +1 +2 +3 +4 +5 +6 +7 +8 -8 -7 -6 -5 -4 -3 -2 -1 -0 ");
}

SUITE("stream order", {T(every_third_sum_but_the_last_goes_late_and_outlasts_its_run),
                       T(every_third_gather_of_zero_goes_early), T(a_clipped_norm_moves_nothing)})
