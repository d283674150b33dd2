/* test_groups.c - numbers of parameter groups: each parameter trains to the bits that it has where the whole
 * optimizer has its group's numbers, in one rank and in the plans of worlds, which are proved. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5, STEPS = 6 };

/* a and b have gradients of their own, so neither sees how the other one is trained. */
static weft_model *model(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(N)), *loss = NULL;
    for (int i = 0; i < 2; i++) {
        weft_value *w =
            weft_parameter(x, i ? "b" : "a", WEFT_SHAPE(N), (weft_init){WEFT_INIT_CONSTANT, 0.5, 0});
        weft_value *one = weft_sum(weft_square(weft_sub(w, x)), 0, NULL, false);
        loss = loss ? weft_add(loss, one) : one;
    }
    weft_minimize(loss, NULL, o);
    weft_output(loss, "loss");
    return m;
}

static void train(const weft_optimizer *o, float a[N], float b[N]) {
    weft_error e = {0};
    weft_model *m = model(o);
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    for (int step = 0; step < STEPS; step++) {
        float x[N];
        for (int i = 0; i < N; i++) x[i] = (float)((step * 3 + i * 5) % 7) / 3 - 1;
        CHECK_SAYS(!weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &e), "%s", e.text);
    }
    CHECK(!weft_store_get(store, "a", a, N * sizeof *a, &e) &&
          !weft_store_get(store, "b", b, N * sizeof *b, &e));
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* The optimizer of all parameters, the group of b, and the optimizer that b then has. */
typedef struct row {
    weft_optimizer all;
    weft_param_group group;
    weft_optimizer alone;
} row;

static const row rows[] = {
    {{.type = "adam", .lr = 0.1},
     {"b", .numbers = {{"beta1", 0.5}, {"eps", 1e-3}}},
     {.type = "adam", .lr = 0.1, .beta1 = 0.5, .eps = 1e-3}},
    {{.type = "adamw", .lr = 0.1},
     {"b", .lr_scale = 2, .numbers = {{"beta2", 0.9}}},
     {.type = "adamw", .lr = 0.2, .beta2 = 0.9}},
    {{.type = "sgd", .lr = 0.1, .momentum = 0.9},
     {"b", .numbers = {{"momentum", 0.5}, {"dampening", 0.25}}},
     {.type = "sgd", .lr = 0.1, .momentum = 0.5, .dampening = 0.25}},
    {{.type = "sgd", .lr = 0.1, .momentum = 0.9},
     {"b", .numbers = {{"momentum", 0}}},
     {.type = "sgd", .lr = 0.1}},
    {{.type = "rmsprop", .lr = 0.1},
     {"b", .numbers = {{"alpha", 0.5}}},
     {.type = "rmsprop", .lr = 0.1, .alpha = 0.5}},
    {{.type = "adagrad", .lr = 0.1},
     {"b", .numbers = {{"lr_decay", 0.5}}},
     {.type = "adagrad", .lr = 0.1, .lr_decay = 0.5}},
};

TEST(a_groups_numbers_are_those_of_an_optimizer_of_its_own) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float a[3][N], b[3][N];
        weft_optimizer grouped = rows[i].all;
        grouped.n_groups = 1;
        grouped.groups = &rows[i].group;
        train(&grouped, a[0], b[0]);
        train(&rows[i].all, a[1], b[1]);
        train(&rows[i].alone, a[2], b[2]);
        CHECK_SAYS(!memcmp(a[0], a[1], sizeof a[0]), "row %zu: a is %g, not %g", i, a[0][0], a[1][0]);
        CHECK_SAYS(!memcmp(b[0], b[2], sizeof b[0]), "row %zu: b is %g, not %g", i, b[0][0], b[2][0]);
        CHECK_SAYS(memcmp(b[1], b[2], sizeof b[1]) != 0, "row %zu tests nothing", i);
    }
}

TEST(plans_of_worlds_with_groups_are_proved_and_files_keep_them) {
    static const char path[] = "groups.bin";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_optimizer grouped = rows[i].all;
        grouped.n_groups = 1;
        grouped.groups = &rows[i].group;
        weft_model *m = model(&grouped);
        CHECK_SAYS(!weft_save(m, path, &e), "%s", e.text);
        weft_model *again = weft_load(path, NULL, &e);
        char *text = weft_model_text(m), *same = again ? weft_model_text(again) : NULL;
        CHECK_SAYS(text && same && !strcmp(text, same), "row %zu: %s", i, e.text);
        for (int zero = 0; zero < 3; zero++) {
            weft_plan *plan = weft_compile(
                m, &(weft_compile_options){.world = 2, .rank = 1, .zero = zero, .verify = true}, &e);
            CHECK_SAYS(plan != NULL, "row %zu: %s", i, e.text);
            weft_plan_free(plan);
        }
        free(text);
        free(same);
        weft_model_free(m);
        weft_model_free(again);
    }
    remove(path);
}

/* Twelve layers of 257 KiB, whose parameters are in groups by pattern. */
static weft_plan *plan_of_layers(const weft_param_group *groups, int n) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 256));
    WEFT_SCOPE(x, "net")
    for (int i = 0; i < 12; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        x = weft_tanh(weft_linear(x, 256, name));
    }
    weft_minimize(
        weft_mean(x, 0, NULL, false), NULL,
        &(weft_optimizer){.type = "sgd", .groups = n ? groups : NULL, .n_groups = n, .clip_norm = 1});
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.world = 2, .bucket_cap_mb = 2, .verify = true}, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_model_free(m);
    return plan;
}

/* As PyTorch's DDP: whatever the groups, buckets are numbered in the order in which their sums start, and the
 * first one holds at most 1 MiB. Three layers fit into that, seven into a bucket of 2 MiB. */
TEST(buckets_of_groups_start_in_order_and_the_first_one_early) {
    static const struct {
        int n;
        weft_param_group groups[3];
    } rows[] = {{0, {{0}}},
                {1, {{"*bias", 2}}},
                {1, {{"*weight", 2}}},
                {2, {{"net/1*", 2}, {"net/4*", 3}}},
                {3, {{"*bias", 2}, {"net/0*", 3}, {"net/8*", 4}}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_plan *plan = plan_of_layers(rows[i].groups, rows[i].n);
        char *text = weft_plan_text(plan);
        int next = 0, numbers = 0;
        const char *first = text ? strstr(text, "bucket net.0 f32[") : NULL;
        CHECK(first && sscanf(first, "bucket net.0 f32[%d]", &numbers) == 1 && numbers * 4 <= 1 << 20);
        for (const char *at = text; at && (at = strstr(at, " = all_reduce(")); at++) {
            int number = -1;
            const char *path = strstr(at, "path=\"net.");
            if (path) sscanf(path, "path=\"net.%d", &number);
            CHECK_SAYS(number == next, "row %zu: sum %d is of bucket %d", i, next, number);
            next++;
        }
        CHECK_SAYS(next > 2, "row %zu: %d sums", i, next);
        free(text);
        weft_plan_free(plan);
    }
}

SUITE("groups", {T(a_groups_numbers_are_those_of_an_optimizer_of_its_own),
                 T(plans_of_worlds_with_groups_are_proved_and_files_keep_them),
                 T(buckets_of_groups_start_in_order_and_the_first_one_early)})
