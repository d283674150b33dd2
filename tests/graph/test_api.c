/* test_api.c - what has trapped people who wrote models of their own: refusals without a line, the batch
 * fixed by weft_dim, lists with a longest length. Each refusal has file, line, scope and a way out. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model to go wrong in ---- */

static weft_model *m;
static weft_graph *g;
static weft_value *x; /* f32[batch,3] */

static void begin(void) {
    m = weft_model_new("m");
    g = weft_graph_new(m, "train", WEFT_TRAIN);
    x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3));
}

#pragma GCC diagnostic error "-Wshadow" /* a scope within another shadows nothing */
static weft_value *mean(weft_value *v) {
    return weft_mean(v, WEFT_ALL, false);
}

static weft_value *fc(void) {
    return weft_linear(x, 3, "fc", NULL);
}

static const weft_optimizer sgd = {.type = "sgd", .lr = 0.5};

/* Compiles at `batch` and frees the model; the error has all parts between '|' (NULL: none). */
static void finish(int64_t batch, const char *parts) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = batch}, &error);
    CHECK_SAYS(!plan == !!parts, "%s", plan ? "no error" : error.text);
    char copy[600];
    snprintf(copy, sizeof copy, "%s", parts ? parts : "");
    for (char *at = copy, *part; parts && (part = strsep(&at, "|"));) CHECK_HOLDS(error.text, part);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- refusals ---- */

static void concat_misfit(void) {
    WEFT_SCOPE(x, "net") weft_concat(2, (weft_value *[]){x, weft_slice(x, 1, 0, 2)}, 0);
}

static void stack_misfit(void) {
    WEFT_SCOPE(x, "net") weft_stack(2, (weft_value *[]){x, weft_slice(x, 1, 0, 2)}, 0);
}

static void no_parameters(void) {
    WEFT_SCOPE(x, "net") weft_minimize(mean(x), "", &sgd);
}

static void no_match(void) {
    weft_value *loss = mean(fc());
    WEFT_SCOPE(x, "net") weft_minimize(loss, "nothing", &sgd);
}

static void not_reached(void) {
    weft_value *loss = mean(fc());
    weft_linear(x, 2, "other", NULL);
    WEFT_SCOPE(x, "net") weft_minimize(loss, "", &sgd);
}

static void no_optimizer(void) {
    WEFT_SCOPE(x, "net") weft_minimize(mean(fc()), "", NULL);
}

static void twice_trained(void) {
    weft_value *loss = mean(fc());
    weft_minimize(loss, "fc", &sgd);
    WEFT_SCOPE(x, "net") weft_minimize(loss, "", &sgd);
}

static void many_nested(void) {
    weft_value *y = x;
    WEFT_SCOPE(x, "net")
    for (int i = 0; i < 40; i++) {
        weft_value *slope;
        weft_gradients(mean(weft_mul(weft_tanh(y), weft_sigmoid(y))), 1, &x, &slope);
        y = slope;
    }
    weft_output(y, "y");
}

static void missing_value(void) {
    weft_value *slope;
    WEFT_SCOPE(x, "net") weft_gradients(mean(x), 1, (weft_value *[]){NULL}, &slope);
}

static void many_minimize(void) {
    char name[16], path[32];
    WEFT_SCOPE(x, "net")
    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof name, "fc%d", i);
        snprintf(path, sizeof path, "net/%s", name);
        weft_minimize(mean(weft_linear(x, 1, name, NULL)), path,
                      &(weft_optimizer){.type = "sgd", .name = name});
    }
}

/* ---- arguments that make no sense are named as the caller wrote them ---- */

static weft_value *shaped(int ndim, const int64_t *shape) {
    return weft_input(weft_value_graph(x), "other", WEFT_F32, ndim, shape);
}

static void biased_rms(void) {
    weft_rms_norm(x, "n", &(weft_norm_options){.no_bias = true});
}

static void axes_without_list(void) {
    weft_sum(x, 2, NULL, false);
}

static void batch_of_constant(void) {
    weft_constant_tensor(weft_value_graph(x), WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2), (float[2]){0});
}

static void nameless(void) {
    weft_linear(x, 2, NULL, NULL);
}

static void image_of_volume(void) {
    weft_conv3d(shaped(WEFT_SHAPE(1, 2, 3, 3, 3)), &(weft_conv){.out = 2, .kernel_hw = {3, 3}}, "c");
}

static void volume_of_image(void) {
    weft_conv2d(shaped(WEFT_SHAPE(1, 2, 3, 3)), &(weft_conv){.out = 2, .kernel_dhw = {3, 3, 3}}, "c");
}

static void no_depth(void) {
    weft_adaptive_avg_pool3d(shaped(WEFT_SHAPE(1, 2, 3, 3, 3)), 0, 1, 1);
}

static void no_length(void) {
    weft_adaptive_max_pool1d(shaped(WEFT_SHAPE(1, 2, 3)), 0);
}

static void top_of_few(void) {
    weft_topk(shaped(WEFT_SHAPE(2, 3)), 5, 1, true, NULL);
}

static void top_of_none(void) {
    weft_topk(shaped(WEFT_SHAPE(2, 3)), 1, 5, true, NULL);
}

static const struct {
    void (*build)(void);
    const char *parts;
} refusals[] = {
    {biased_rms, "rms_norm: no_bias has no effect"},
    {axes_without_list, "sum: 2 axes, and their list is NULL: pass 0 for all axes"},
    {batch_of_constant, "constant_tensor: axis 0 is WEFT_BATCH|use 1, which broadcasts, or an input"},
    {nameless, "a layer or a scope needs a name"},
    {image_of_volume, "conv3d: kernel_hw: a volume has three axes: use _dhw"},
    {volume_of_image, "conv2d: kernel_dhw: an image has two axes: use _hw"},
    {no_depth, "adaptive_avg_pool3d: a size of 0 x 1 x 1: each at least 1"},
    {no_length, "adaptive_max_pool1d: a length of 0: at least 1"},
    {top_of_few, "topk: k=5: 1 to 3, the length of axis 1 of f32[2,3]"},
    {top_of_none, "topk: f32[2,3] has no axis 5"},
    {concat_misfit, "in net: concat: |outside axis 0, the only one that may differ"},
    {stack_misfit, "in net: stack: |all values have one type and shape"},
    {no_parameters, "in net: minimize: |layers (weft_linear) and weft_parameter make them"},
    {no_match, "in net: minimize: |a pattern is a path or contains '*'"},
    {not_reached, "in net: minimize: |narrow the pattern, freeze it, or set find_unused_parameters"},
    {no_optimizer, "in net: minimize: |&(weft_optimizer){.type = "},
    {twice_trained, "in net: minimize: |add their losses, or train it in two graphs"},
    {many_nested, "in net: gradients: |nest fewer"},
    {missing_value, "in net: gradients: operand 1 is NULL|was it ever set?"},
    {many_minimize, "in net: minimize: more than 256 calls|train more parameters by one call"},
};

TEST(refusals_name_file_line_scope_and_a_way_out) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char parts[300];
        snprintf(parts, sizeof parts, "test_api.c:|%s", refusals[i].parts);
        begin();
        refusals[i].build();
        finish(4, parts);
    }
}

/* A binding raises at each call, and the program may continue. */
TEST(a_model_whose_error_was_taken_can_be_built_further) {
    weft_error error = {.status = WEFT_DATA, .text = "kept"};
    begin();
    CHECK(weft_model_take_error(m, &error) == WEFT_OK && error.status == WEFT_DATA);
    CHECK(!weft_reshape(x, WEFT_SHAPE(4)) && !weft_relu(x));
    CHECK(weft_model_take_error(m, &error) == WEFT_SHAPE && strstr(error.text, "reshape"));
    CHECK(weft_model_error(m)->status == WEFT_OK && weft_relu(x));
    CHECK(!weft_reshape(x, WEFT_SHAPE(4)) && weft_model_take_error(m, NULL) != WEFT_OK);
    weft_output(weft_relu(x), "y");
    finish(4, NULL);
    CHECK(weft_model_take_error(NULL, &error) == WEFT_ARGUMENT && strstr(error.text, "no model"));
}

/* Inputs of 16 bits are fed as they are. */
TEST(inputs_may_have_every_type) {
    static const uint16_t ones[2][3] = {{0x3f80, 0xc000, 0},
                                        {0x3c00, 0xc000, 0}}; /* 1, -2, 0 in bf16 and f16 */
    for (int i = 0; i < 2; i++) {
        weft_error e = {0};
        float y[3] = {0};
        weft_model *own = weft_model_new("m");
        weft_value *v =
            weft_input(weft_graph_new(own, "g", WEFT_EVAL), "v", i ? WEFT_F16 : WEFT_BF16, WEFT_SHAPE(3));
        weft_output(weft_cast(v, WEFT_F32), "y");
        weft_plan *plan = weft_compile(own, NULL, &e);
        weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
        weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
        CHECK_SAYS(s && !weft_run(s, "g", &(weft_feed){"v", ones[i], 6}, 1, &(weft_fetch){"y", y, 12}, 1, &e),
                   "%s", e.text);
        CHECK(y[0] == 1 && y[1] == -2 && y[2] == 0);
        weft_session_close(s);
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(own);
    }
}

/* ---- shapes and scopes ---- */

TEST(a_shape_is_written_once_also_in_a_scope_within_another) {
    int calls = 0;
    begin();
    WEFT_SCOPE(x, "a") WEFT_SCOPE(x, "b") x = weft_reshape(x, WEFT_SHAPE(-1, ++calls, 3));
    CHECK(calls == 1);
    CHECK(weft_ndim(x) == 3 && weft_dim(x, 2) == 3);
    weft_value *sum = weft_sum(x, WEFT_AXES(-1, 1), false);
    CHECK(weft_ndim(sum) == 1);
    weft_output(sum, "y");
    finish(4, NULL);
}

/* ---- the batch ---- */

/* At the batch that the model is built with it is not an error: nothing tells a batch of 1 from a shape of
 * 1. */
TEST(a_shape_that_fixes_the_batch_is_told_how_to_follow_it) {
    static const char way[] =
        "test_api.c:|the batch of 1 that the model was built with|not 4|-1 or WEFT_BATCH";
    begin();
    weft_output(weft_reshape(x, WEFT_SHAPE(3, weft_dim(x, 0))), "y");
    finish(4, way);
    begin();
    weft_output(weft_broadcast_to(x, WEFT_SHAPE(2, weft_dim(x, 0), 3)), "y");
    finish(4, way);
    begin();
    weft_output(weft_reshape(x, WEFT_SHAPE(3, weft_dim(x, 0))), "y");
    finish(1, NULL);
    begin();
    weft_output(weft_reshape(x, WEFT_SHAPE(3, -1)), "y");
    weft_output(weft_reshape(x, WEFT_SHAPE(3, WEFT_BATCH)), "z");
    finish(4, NULL);
}

TEST(batch_norm_needs_a_batch_when_it_is_compiled) {
    static const char small[] =
        "test_api.c:|in bn: batch_norm: |one value a channel has no variance|larger batch";
    for (int64_t batch = 1; batch <= 4; batch += 3) {
        begin();
        weft_minimize(mean(weft_square(weft_batch_norm(fc(), "bn", NULL))), "", &sgd);
        finish(batch, batch == 1 ? small : NULL);
    }
    begin(); /* no batch that could be bound */
    weft_batch_norm(weft_constant(weft_graph_new(m, "fixed", WEFT_TRAIN), WEFT_F32, WEFT_SHAPE(2, 3), 0), "a",
                    NULL);
    CHECK(!weft_model_error(m)->status);
    weft_model_free(m);
    m = weft_model_new("m");
    g = weft_graph_new(m, "fixed", WEFT_TRAIN);
    weft_batch_norm(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(1, 3)), "bn", NULL);
    finish(0, small);
}

/* ---- options that would do nothing ---- */

static char logged[2000];

static void keep_line(void *context, const char *line) {
    (void)context;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", line);
}

/* A model whose two scopes have such options, compiled for a world; `part` is in the log (NULL: nothing has
 * no effect). */
static void sharded(const weft_ddp_options *one, const weft_ddp_options *two, int world, int zero,
                    weft_shard shard, const char *part) {
    weft_error error = {0};
    m = weft_model_new_in("m", &(weft_env){.log = keep_line});
    g = weft_graph_new(m, "train", WEFT_TRAIN);
    x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_minimize(mean(weft_add(fc(), weft_linear(x, 3, "other", NULL))), "", &sgd);
    weft_model_set_ddp(m, "fc", one);
    weft_model_set_ddp(m, "other", two);
    weft_compile_options o = {.world = world, .zero = zero, .shard = shard};
    logged[0] = 0;
    weft_plan *plan = weft_compile(m, &o, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    if (part)
        CHECK_HOLDS(logged, part);
    else
        CHECK_SAYS(!strstr(logged, "no effect"), "%s", logged);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(sharding_without_effect_is_told) {
    static const weft_ddp_options none = {0}, flat = {.shard = WEFT_SHARD_FLAT}, own = {.zero = 1},
                                  off = {.zero = -1};
    sharded(&none, &none, 2, 0, WEFT_SHARD_FLAT, "compile: shard=flat has no effect without ZeRO");
    sharded(&off, &off, 2, 1, WEFT_SHARD_GREEDY, "zero=1 has no effect: every subgraph has its own zero");
    sharded(&own, &own, 2, 2, WEFT_SHARD_GREEDY, "zero=2 has no effect");
    sharded(&none, &flat, 2, 0, WEFT_SHARD_GREEDY, "subgraph other: shard=flat has no effect without ZeRO");
    sharded(&none, &flat, 2, 1, WEFT_SHARD_GREEDY, NULL);
    sharded(&none, &own, 2, 2, WEFT_SHARD_FLAT, NULL);
    sharded(&own, &off, 2, 0, WEFT_SHARD_GREEDY, NULL);
    sharded(&off, &flat, 1, 1, WEFT_SHARD_FLAT, NULL); /* one rank may have the options of many */
}

/* ---- lists of any length ---- */

/* Runs graph "train" once, without an update, on x = 1, 2, 3 and gives its output "y" of n floats. */
static void run(float *y, int n) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, NULL, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &error) : NULL;
    float in[3] = {1, 2, 3};
    if (session)
        weft_run(session, "train", &(weft_feed){"x", in, sizeof in}, 1,
                 &(weft_fetch){"y", y, (size_t)n * sizeof *y}, 1, &error);
    CHECK_SAYS(!error.status, "%s", error.text);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(arange_may_be_as_long_as_the_batch) {
    begin();
    weft_value *n = weft_arange(g, WEFT_F32, 1, WEFT_BATCH, 2);
    weft_output(weft_mul(x, weft_unsqueeze(n, 1)), "y");
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 4}, &error);
    weft_port port = {0};
    CHECK_SAYS(plan && weft_plan_output(plan, "train", 0, &port) && port.shape[0] == 4, "%s", error.text);
    weft_plan_free(plan);
    float y[3];
    run(y, 3);
    CHECK(y[0] == 1 && y[2] == 3);
}

TEST(concat_and_stack_take_any_number_of_values) {
    enum { MANY = 1100 }; /* more than 32 groups of 32 */
    static weft_value *part[MANY];
    static float y[3 * MANY];
    for (int stacks = 0; stacks < 2; stacks++) {
        begin();
        for (int i = 0; i < MANY; i++) part[i] = weft_scale(x, i);
        weft_output(stacks ? weft_stack(MANY, part, 1) : weft_concat(MANY, part, 1), "y");
        run(y, 3 * MANY);
        for (int i = 0; i < 3 * MANY; i++)
            if (!CHECK_SAYS(y[i] == (float)(i / 3 * (i % 3 + 1)), "%d: %g", i, y[i])) break;
    }
    begin();
    for (int i = 0; i < MANY; i++) part[i] = i == 700 ? NULL : x;
    weft_concat(MANY, part, 0);
    finish(4, "test_api.c:|concat: operand 700 is missing");
}

/* One node, which copies each element once. */
TEST(a_concat_of_many_values_is_one_node) {
    enum { MANY = 100 };
    weft_value *part[MANY];
    weft_error error = {0};
    begin();
    for (int i = 0; i < MANY; i++) part[i] = weft_permute(weft_scale(x, i), (int64_t[]){1, 0});
    weft_output(weft_concat(MANY, part, 0), "y");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 2, .verify = true}, &error);
    char *text = plan ? weft_plan_text(plan) : NULL;
    int found = 0, copies = 0;
    for (const char *at = text; at && (at = strstr(at, "concat(")); at++) found++;
    for (const char *at = text; at && (at = strstr(at, "reorder(")); at++) copies++;
    CHECK_SAYS(found == 1 && copies == 0, "%d concats, %d copies: %s", found, copies, error.text);
    weft_text_free(text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* Every second row of the batch that a plan has, which is not the one that the model was built with. */
TEST(a_slice_with_a_step_follows_the_batch) {
    enum { ROWS = 7 };
    weft_error error = {0};
    begin();
    weft_value *part = weft_strided_slice(weft_scale(x, 1), 0, 1, INT64_MAX, 2), *dx;
    weft_gradients(weft_sum(weft_square(part), WEFT_ALL, false), 1, &x, &dx);
    weft_output(part, "y");
    weft_output(dx, "dx");
    weft_plan *none = weft_compile(m, NULL, &error); /* of a batch of 1 there is no second row */
    CHECK(!none && error.status == WEFT_SHAPE);
    CHECK_HOLDS(error.text, "output y: f32[0,3] has no elements");
    weft_plan_free(none);
    weft_model_free(m);

    begin();
    part = weft_strided_slice(weft_scale(x, 1), 0, 0, INT64_MAX, 2);
    weft_gradients(weft_sum(weft_square(part), WEFT_ALL, false), 1, &x, &dx);
    weft_output(part, "y");
    weft_output(dx, "dx");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = ROWS, .verify = true}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &error) : NULL;
    float in[ROWS][3], y[(ROWS + 1) / 2][3], d[ROWS][3];
    for (int i = 0; i < ROWS * 3; i++) in[i / 3][i % 3] = (float)(i + 1);
    weft_fetch want[] = {{"y", y, sizeof y}, {"dx", d, sizeof d}};
    if (session) weft_run(session, "train", &(weft_feed){"x", in, sizeof in}, 1, want, 2, &error);
    CHECK_SAYS(session && !error.status, "%s", error.text);
    for (int i = 0; i < ROWS * 3; i++) {
        int row = i / 3, column = i % 3;
        if (row % 2 == 0) CHECK(y[row / 2][column] == in[row][column]);
        CHECK(d[row][column] == (row % 2 ? 0 : 2 * in[row][column]));
    }
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(gradients_are_taken_by_any_number_of_values) {
    enum { MANY = 150 };
    weft_value *part[MANY], *slope[MANY];
    static float y[3 * MANY];
    begin();
    weft_value *sum = weft_scale(x, 0);
    for (int i = 0; i < MANY; i++) sum = weft_add(sum, weft_square(part[i] = weft_scale(x, i)));
    CHECK(!weft_gradients(weft_sum(sum, WEFT_ALL, false), MANY, part, slope));
    weft_output(weft_concat(MANY, slope, 1), "y");
    run(y, 3 * MANY);
    for (int i = 0; i < 3 * MANY; i++)
        if (!CHECK_SAYS(y[i] == (float)(2 * (i / 3) * (i % 3 + 1)), "%d: %g", i, y[i])) break;
}

SUITE("api",
      {T(refusals_name_file_line_scope_and_a_way_out), T(a_model_whose_error_was_taken_can_be_built_further),
       T(inputs_may_have_every_type), T(a_shape_is_written_once_also_in_a_scope_within_another),
       T(a_shape_that_fixes_the_batch_is_told_how_to_follow_it),
       T(batch_norm_needs_a_batch_when_it_is_compiled), T(arange_may_be_as_long_as_the_batch),
       T(sharding_without_effect_is_told), T(concat_and_stack_take_any_number_of_values),
       T(a_concat_of_many_values_is_one_node), T(a_slice_with_a_step_follows_the_batch),
       T(gradients_are_taken_by_any_number_of_values)})
