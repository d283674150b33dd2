/* test_compare.c - what ranks must share: settings of any kind, the options of their plans, data and their
 * distribution. The first that differs is reported with both values, in the same sentence on all ranks,
 * before anything is done. */
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "support/comm_world.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <string.h>

/* One text on all ranks. */
static void all_say(const rank_run *ranks, int n, const char *want) {
    for (int i = 0; i < n; i++)
        if (*want)
            CHECK_HOLDS(ranks[i].text, want);
        else
            CHECK_TEXT(ranks[i].text, "");
}

/* ---- settings ---- */

enum { SETTINGS = 4 };
static const char *given[MOST][SETTINGS];
static int n_given[MOST];
static const char *second_name[MOST];

static void compare_given(rank_run *r) {
    int rank = r->comm->rank;
    weft_error error = {0};
    weft_setting s[SETTINGS] = {{"--seed"}, {second_name[rank]}, {"model"}, {"--lr"}};
    for (int i = 0; i < SETTINGS; i++) s[i].value = given[rank][i];
    weft_comm_compare(r->comm, s, n_given[rank], &error);
    keep(r, error.text);
    weft_collective after = {.name = "after"}; /* the communicator continues */
    if (!strstr(error.text, "ranks disagree") && weft_comm_run(r->comm, &after, &error))
        keep(r, "the communicator failed");
}

static void set_all(void) {
    for (int r = 0; r < MOST; r++) {
        const char *const values[] = {"0", "8", "mlp", "not given"};
        memcpy(given[r], values, sizeof values);
        n_given[r] = SETTINGS;
        second_name[r] = "--batch";
    }
}

static void says(const char *want) {
    rank_run ranks[MOST];
    for (int n = 2; n <= 4; n += 2) {
        window_run(n, n == 4 ? 4096 : 0, 60, 0, compare_given, ranks);
        all_say(ranks, n, want);
    }
    set_all();
}

TEST(the_first_setting_that_differs_is_named_with_both_values) {
    set_all();
    says("");
    given[1][0] = "5";
    says("the ranks do not agree: --seed 0 on rank 0, 5 on rank 1");
    given[0][0] = "5";
    says("the ranks do not agree: --seed 5 on rank 0, 0 on rank 1");
    given[1][3] = "0.1";
    says("the ranks do not agree: --lr not given on rank 0, 0.1 on rank 1");
    given[1][3] = given[1][2] = "both";
    says("the ranks do not agree: model mlp on rank 0, both on rank 1");
    given[1][2] = "\x1b[2J";
    says("the ranks do not agree: model mlp on rank 0, \\x1b[2J on rank 1");
    second_name[1] = "--depth";
    says("on rank 0, 8 on rank 1");
    n_given[1] = 3;
    says("number of elements"); /* other lists altogether */
}

TEST(what_a_rank_does_not_know_is_not_compared) {
    set_all();
    given[1][1] = NULL;
    says("");
    given[0][1] = NULL;
    says("");
    given[1][1] = given[0][1] = NULL;
    given[1][2] = "gan";
    says("model mlp on rank 0, gan on rank 1");
}

static void four_say(const char *want) {
    rank_run ranks[MOST];
    window_run(4, 4096, 60, 0, compare_given, ranks);
    all_say(ranks, 4, want);
    set_all();
}

TEST(ranks_that_know_a_setting_are_compared_whatever_others_know) {
    set_all();
    given[0][1] = NULL; /* the others agree */
    four_say("");
    given[0][1] = NULL;
    given[3][1] = "16";
    four_say("the ranks do not agree: --batch 8 on rank 1, 16 on rank 3");
    given[0][1] = given[1][1] = NULL;
    given[2][1] = "4";
    four_say("--batch 4 on rank 2, 8 on rank 3");
    for (int r = 0; r < 3; r++) given[r][1] = NULL; /* one alone knows it */
    four_say("");
    given[0][0] = given[0][1] = given[1][1] = given[1][0] = given[1][2] = NULL; /* one after the other */
    given[3][1] = "16";
    four_say("--batch 8 on rank 2, 16 on rank 3");
    given[0][0] = given[0][3] = given[1][0] = NULL;
    given[3][0] = "1";
    given[2][3] = "0.1";
    four_say("--lr not given on rank 1, 0.1 on rank 2");
}

static void compare_alone(rank_run *r) {
    weft_setting s = {"x", "1"};
    weft_error error = {0};
    if (weft_comm_compare(r->comm, &s, 1, &error) || weft_comm_compare(NULL, &s, 1, &error))
        keep(r, "alone it must be fine");
    if (weft_comm_compare(r->comm, NULL, 1, &error) != WEFT_ARGUMENT) keep(r, "no settings");
}

TEST(one_rank_agrees_with_itself) {
    rank_run ranks[MOST];
    window_run(1, 0, 60, 0, compare_alone, ranks);
    CHECK_TEXT(ranks[0].text, "");
}

/* ---- plans ---- */

static weft_model *model(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 8});
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 6, "fc", NULL)), WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "adam"});
    weft_output(loss, "loss");
    return m;
}

static weft_compile_options rank_1; /* what it compiles with; rank 0 has `base` */
static const weft_compile_options base = {
    .world = 2, .threads = 1, .batch = 4, .isa = WEFT_ISA_REFERENCE, .bucket_cap_mb = 1};

static void open_session(rank_run *r) {
    weft_error error = {0};
    weft_model *m = model();
    weft_compile_options o = r->comm->rank ? rank_1 : base;
    o.rank = r->comm->rank;
    weft_plan *plan = weft_compile(m, &o, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *s = store ? weft_session_open_on(plan, store, r->comm, &error) : NULL;
    keep(r, error.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

static void plans_say(const char *want) {
    rank_run ranks[MOST];
    window_run(2, 0, 60, 0, open_session, ranks);
    all_say(ranks, 2, want);
    rank_1 = base;
}

TEST(an_option_of_the_plan_that_differs_is_named) {
    rank_1 = base;
    plans_say("");
    rank_1.batch = 8;
    plans_say("batch 4 on rank 0, 8 on rank 1");
    rank_1.threads = 2;
    plans_say("threads 1 on rank 0, 2 on rank 1");
    rank_1.isa = isa_best();
    char best[60] = ""; /* where the best is the reference, ranks agree */
    if (rank_1.isa > WEFT_ISA_REFERENCE)
        snprintf(best, sizeof best, "isa reference on rank 0, %s on rank 1", isa_name(rank_1.isa));
    plans_say(best);
    rank_1.precision = WEFT_BF16;
    plans_say("precision f32 on rank 0, bf16 on rank 1");
    rank_1.accumulate = 2;
    plans_say("accumulate 1 on rank 0, 2 on rank 1");
    rank_1.bucket_cap_mb = 0.5;
    plans_say("bucket_cap_mb 1 on rank 0, 0.5 on rank 1");
    rank_1.zero = 1;
    plans_say("zero 0 on rank 0, 1 on rank 1");
    rank_1.shard = WEFT_SHARD_FLAT;
    plans_say("shard greedy on rank 0, flat on rank 1");
    rank_1.serial = true;
    plans_say("serial 0 on rank 0, 1 on rank 1");
    rank_1.reduce = WEFT_REDUCE_FAST;
    plans_say("reduce ordered on rank 0, fast on rank 1");
    rank_1.check_equal = true;
    plans_say("check_equal 0 on rank 0, 1 on rank 1");
    rank_1.unoptimized = true;
    plans_say("unoptimized 0 on rank 0, 1 on rank 1");
}

/* ---- loaders ---- */

enum { ROWS = 300000, WIDTH = 8 }; /* more than two MiB: a middle that is not looked at */
typedef struct dealing {
    weft_loader_options options;
    const char *path;
} dealing;
static dealing dealt[2];

static void open_loader(rank_run *r) {
    static const char *const names[] = {"image"};
    const dealing *d = &dealt[r->comm->rank];
    weft_error error = {0};
    weft_source *a = weft_source_open(d->path, NULL, NULL, &error);
    weft_loader_options o = d->options;
    if (!o.num_replicas) o.rank = r->comm->rank, o.num_replicas = 2;
    if (o.seed == 77) o.names = names;
    weft_loader *l = a ? weft_loader_new(1, (const weft_source *const *)&a, &o, NULL, &error) : NULL;
    if (l) weft_loader_agree(l, r->comm, &error);
    keep(r, error.text);
    weft_loader_free(l);
    weft_source_free(a);
}

static void loaders_say(const char *want) {
    rank_run ranks[MOST];
    window_run(2, 0, 60, 0, open_loader, ranks);
    all_say(ranks, 2, want);
    for (int i = 0; i < 2; i++) dealt[i] = (dealing){{.batch = 4, .shuffle = true, .seed = 3}, "compare.a"};
}

/* u8[rows, WIDTH] of IDX, all zeroes but one. */
static void write_rows(const char *path, int rows, long at, int value) {
    const unsigned char head[12] = {0,
                                    0,
                                    8,
                                    2,
                                    (unsigned char)(rows >> 24),
                                    (unsigned char)(rows >> 16),
                                    (unsigned char)(rows >> 8),
                                    (unsigned char)rows,
                                    0,
                                    0,
                                    0,
                                    WIDTH};
    FILE *f = fopen(path, "wb");
    NEED(f != NULL);
    fwrite(head, 1, sizeof head, f);
    for (long i = 0; i < (long)rows * WIDTH; i++) fputc(i == at ? value : 0, f);
    fclose(f);
}

TEST(loaders_that_would_deal_otherwise_are_told) {
    const long last = (long)ROWS * WIDTH - 1;
    write_rows("compare.a", ROWS, 0, 1);
    write_rows("compare.same", ROWS, 0, 1);
    write_rows("compare.first", ROWS, 0, 2);
    write_rows("compare.last", ROWS, last, 1);
    write_rows("compare.short", ROWS - 1, 0, 1);
    for (int i = 0; i < 2; i++) dealt[i] = (dealing){{.batch = 4, .shuffle = true, .seed = 3}, "compare.a"};
    loaders_say("");
    dealt[1].options.seed = 5;
    loaders_say("the ranks do not agree: seed 3 on rank 0, 5 on rank 1");
    dealt[1].options.batch = 8;
    loaders_say("batch 4 on rank 0, 8 on rank 1");
    dealt[0].options.shuffle = false;
    loaders_say("shuffle 0 on rank 0, 1 on rank 1");
    dealt[1].options.drop_last = true;
    loaders_say("drop_last 0 on rank 0, 1 on rank 1");
    dealt[1].options.in_a_row = 2;
    loaders_say("in_a_row 1 on rank 0, 2 on rank 1");
    dealt[1].path = "compare.same";
    loaders_say("");
    dealt[1].path = "compare.first";
    loaders_say("array 0: hash of the first and the last MiB ");
    dealt[1].path = "compare.last";
    dealt[0].options.seed = dealt[1].options.seed = 77;
    loaders_say("image: hash of the first and the last MiB ");
    dealt[1].path = "compare.short";
    loaders_say("array 0: type and shape u8[300000,8] on rank 0, u8[299999,8] on rank 1");
    for (int i = 0; i < 2; i++) dealt[i].options.num_replicas = 2; /* both rank 0 */
    loaders_say("it is for rank 0 of 2, but the communicator is rank 1 of 2");
    remove("compare.a"), remove("compare.same"), remove("compare.first");
    remove("compare.last"), remove("compare.short");
}

SUITE("what ranks share",
      {T(the_first_setting_that_differs_is_named_with_both_values),
       T(what_a_rank_does_not_know_is_not_compared),
       T(ranks_that_know_a_setting_are_compared_whatever_others_know), T(one_rank_agrees_with_itself),
       T(an_option_of_the_plan_that_differs_is_named), T(loaders_that_would_deal_otherwise_are_told)})
