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
        weft_value *one = weft_sum(weft_square(weft_sub(w, x)), WEFT_ALL, false);
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
        weft_text_free(text);
        weft_text_free(same);
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
        x = weft_tanh(weft_linear(x, 256, name, NULL));
    }
    weft_minimize(
        weft_mean(x, WEFT_ALL, false), NULL,
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
        weft_text_free(text);
        weft_plan_free(plan);
    }
}

/* ---- kinds ---- */

/* A layer of each sort, by no name that says what it is; x is [2, 4, 8, 8]. */
static weft_value *layers(weft_value *x) {
    static const weft_norm_options two = {.axes = 2};
    weft_graph *g = weft_value_graph(x);
    weft_value *ids = weft_constant(g, WEFT_I32, 1, (int64_t[]){3}, 1), *rows, *line;
    x = weft_conv2d(x, &(weft_conv){.out = 8, .kernel = 3, .pad = 1}, "full");
    x = weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1, .groups = 8}, "deep");
    x = weft_conv2d(x, &(weft_conv){.out = 8, .kernel = 1, .groups = 2}, "half");
    x = weft_conv_transpose2d(x, &(weft_conv){.out = 8, .kernel = 1, .groups = 8}, "up");
    x = weft_batch_norm(x, "p", NULL);
    x = weft_group_norm(x, 2, "q", NULL);
    x = weft_instance_norm(x, "r", NULL);
    x = weft_layer_norm(x, "s", &two);
    line = weft_reshape(x, 3, (int64_t[]){2, 8, 64});
    line = weft_conv1d(line, &(weft_conv){.out = 8, .kernel = 1, .groups = 8}, "thin");
    line = weft_conv1d(weft_slice(line, 1, 0, 1), &(weft_conv){.out = 1, .kernel = 1}, "single");
    rows = weft_rms_norm(weft_embedding(ids, 5, 8, "t", NULL), "u", NULL);
    rows = weft_linear(weft_linear(rows, 4, "v", NULL), 6, "w", NULL);
    rows = weft_lstm(weft_unsqueeze(rows, 1), &(weft_recurrent){.hidden = 3}, "x", NULL, NULL);
    rows = weft_gru(rows, &(weft_recurrent){.hidden = 3}, "y", NULL);
    rows = weft_mul(rows, weft_parameter(rows, "scale", WEFT_SHAPE(3), (weft_init){WEFT_INIT_ONES}));
    x = weft_mean(line, WEFT_ALL, false);
    return weft_add(x, weft_mean(weft_square(rows), WEFT_ALL, false));
}

static weft_model *model_of_layers(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *loss = layers(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(2, 4, 8, 8)));
    weft_minimize(loss, NULL, o);
    weft_output(loss, "loss");
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

enum { NORM = 1, BIAS = 2, EMBEDDING = 4, DEPTHWISE = 8, FLAT = 16 };
static const struct {
    const char *path;
    unsigned kinds;
} kinds[] = {
    {"full/weight", 0},
    {"full/bias", BIAS | FLAT},
    {"deep/weight", DEPTHWISE},
    {"deep/bias", DEPTHWISE | BIAS | FLAT},
    {"half/weight", 0},
    {"half/bias", BIAS | FLAT},
    {"up/weight", 0},
    {"up/bias", BIAS | FLAT},
    {"p/weight", NORM | FLAT},
    {"p/bias", NORM | BIAS | FLAT},
    {"q/weight", NORM | FLAT},
    {"q/bias", NORM | BIAS | FLAT},
    {"r/weight", NORM | FLAT},
    {"r/bias", NORM | BIAS | FLAT},
    {"s/weight", NORM},
    {"s/bias", NORM | BIAS},
    {"thin/weight", DEPTHWISE},
    {"thin/bias", DEPTHWISE | BIAS | FLAT},
    {"single/weight", 0},
    {"single/bias", BIAS | FLAT},
    {"t/weight", EMBEDDING},
    {"u/weight", NORM | FLAT},
    {"v/weight", 0},
    {"v/bias", BIAS | FLAT},
    {"w/weight", 0},
    {"w/bias", BIAS | FLAT},
    {"x/weight_ih_l0", 0},
    {"x/weight_hh_l0", 0},
    {"x/bias_ih_l0", BIAS | FLAT},
    {"x/bias_hh_l0", BIAS | FLAT},
    {"y/weight_ih_l0", 0},
    {"y/weight_hh_l0", 0},
    {"y/bias_ih_l0", BIAS | FLAT},
    {"y/bias_hh_l0", BIAS | FLAT},
    {"scale", FLAT},
};

static void check_kinds(const weft_model *m, const char *what) {
    weft_parameter_info p;
    size_t n = 0;
    for (int i = 0; weft_model_parameter(m, NULL, i, &p); i++) {
        if (p.is_state) continue;
        size_t k = 0;
        while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].path, p.path)) k++;
        if (!CHECK_SAYS(k < sizeof kinds / sizeof *kinds, "%s: %s has no row", what, p.path)) continue;
        CHECK_SAYS(p.kinds == kinds[k].kinds, "%s: %s is %u, not %u", what, p.path, p.kinds, kinds[k].kinds);
        n++;
    }
    CHECK_SAYS(n == sizeof kinds / sizeof *kinds, "%s: %zu parameters", what, n);
}

/* They follow from the calls, so what a file or a text holds says them, too. */
TEST(kinds_are_what_the_calls_use_a_parameter_for) {
    static const char path[] = "kinds.bin";
    weft_error e = {0};
    weft_model *m = model_of_layers(&(weft_optimizer){.type = "sgd"});
    check_kinds(m, "built");
    char *text = weft_model_text(m);
    CHECK_SAYS(!weft_save(m, path, &e), "%s", e.text);
    weft_model *loaded = weft_load(path, NULL, &e);
    if (CHECK_SAYS(loaded != NULL, "%s", e.text)) check_kinds(loaded, "loaded");
    weft_model *parsed = text ? weft_model_parse(text, NULL, NULL, &e) : NULL;
    if (CHECK_SAYS(parsed != NULL, "%s", e.text)) check_kinds(parsed, "parsed");
    weft_text_free(text);
    remove(path);
    weft_model_free(m);
    weft_model_free(loaded);
    weft_model_free(parsed);
}

/* A step of sgd with a gradient that groups cannot change: what each parameter moves by, or decays by, says
 * its group. */
static void step_of_layers(const weft_model *m, float after[][600]) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    if (!CHECK_SAYS(plan != NULL, "%s", e.text)) return;
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    float x[2 * 4 * 8 * 8];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 7 % 11) / 5 - 1;
    CHECK_SAYS(!weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &e), "%s", e.text);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(store, kinds[k].path, NULL, shape);
        for (int i = 0; i < ndim; i++) n *= shape[i];
        CHECK(!weft_store_get(store, kinds[k].path, after[k], (size_t)n * sizeof(float), &e));
    }
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* The rows of MMEngine's paramwise_cfg: norm_decay_mult, then bias_lr_mult and bias_decay_mult,
 * dwconv_decay_mult, flat_decay_mult; a key of custom_keys goes before all. */
static const weft_param_group paramwise[] = {
    {"w", .lr_scale = 5},
    {.kinds = WEFT_PARAMS_NORM, .decay_scale = WEFT_ZERO},
    {.kinds = WEFT_PARAMS_BIAS, .lr_scale = 2, .decay_scale = 0.5},
    {.kinds = WEFT_PARAMS_DEPTHWISE, .decay_scale = 0.25},
    {.kinds = WEFT_PARAMS_FLAT | WEFT_PARAMS_EMBEDDING, .decay_scale = 0.125},
};

/* The group of a parameter by the rules that MMEngine's DefaultOptimWrapperConstructor has, from 0; -1:
 * none. */
static int paramwise_of(const char *path, unsigned k) {
    if (!strncmp(path, "w/", 2)) return 0;
    if (k & NORM) return 1;
    if (k & BIAS) return 2;
    return k & DEPTHWISE ? 3 : k & (FLAT | EMBEDDING) ? 4 : -1;
}

/* The same groups by path, one for each parameter. */
TEST(a_parameter_is_in_the_first_group_whose_pattern_and_kinds_it_has) {
    enum { COUNT = sizeof kinds / sizeof *kinds };
    static float by_kind[COUNT][600], by_path[COUNT][600], plain[COUNT][600];
    weft_param_group each[COUNT];
    int n = 0, moved = 0;
    for (int k = 0; k < COUNT; k++) {
        int group = paramwise_of(kinds[k].path, kinds[k].kinds);
        if (group < 0) continue;
        each[n] = paramwise[group];
        each[n].kinds = 0;
        each[n++].pattern = kinds[k].path;
    }
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1, .weight_decay = 0.1};
    weft_model *none = model_of_layers(&sgd);
    sgd.groups = paramwise, sgd.n_groups = 5;
    weft_model *kind = model_of_layers(&sgd);
    sgd.groups = each, sgd.n_groups = n;
    weft_model *path = model_of_layers(&sgd);
    step_of_layers(none, plain);
    step_of_layers(kind, by_kind);
    step_of_layers(path, by_path);
    for (int k = 0; k < COUNT; k++) {
        CHECK_SAYS(!memcmp(by_kind[k], by_path[k], sizeof *by_kind), "%s", kinds[k].path);
        moved += memcmp(by_kind[k], plain[k], sizeof *plain) != 0;
    }
    CHECK_SAYS(moved >= 12, "%d parameters tell their group", moved);
    weft_model_free(none);
    weft_model_free(kind);
    weft_model_free(path);
}

SUITE("groups", {T(kinds_are_what_the_calls_use_a_parameter_for),
                 T(a_parameter_is_in_the_first_group_whose_pattern_and_kinds_it_has),
                 T(a_groups_numbers_are_those_of_an_optimizer_of_its_own),
                 T(plans_of_worlds_with_groups_are_proved_and_files_keep_them),
                 T(buckets_of_groups_start_in_order_and_the_first_one_early)})
