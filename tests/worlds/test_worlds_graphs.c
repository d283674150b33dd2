/* test_worlds_graphs.c - which parameters train together and which graphs train them: scopes at any depth,
 * graphs over several subgraphs, several graphs over one, parts of one, several minimize calls, parameters
 * that a loss does not reach. Each world must end with the bits of one rank; ranks are threads. */
#include "support/world.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, WIDE = 10, STEPS = 8 };

/* ---- models: subgraphs encoder (two layers), head and, outside of any scope, a scale ---- */

static weft_value *encoder(weft_value *x) {
    WEFT_SCOPE(x, "encoder") {
        x = weft_tanh(weft_linear(x, WIDE, "fc1", NULL));
        x = weft_tanh(weft_linear(weft_dropout(x, 0.1), WIDE, "fc2", NULL));
    }
    return x;
}

static weft_value *head(weft_value *x) {
    WEFT_SCOPE(x, "head") x = weft_linear(x, 4, "fc", NULL);
    weft_graph *g = weft_value_graph(x);
    return weft_mul(x, weft_parameter_in(g, "scale", 0, NULL, (weft_init){WEFT_INIT_ONES}));
}

static weft_value *input(weft_model *m, const char *graph) {
    weft_graph *g = weft_graph_new(m, graph, WEFT_TRAIN);
    return weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDE});
}

static weft_value *labels_loss(weft_value *x) {
    weft_value *y = weft_input(weft_value_graph(x), "y", WEFT_U8, 1, (int64_t[]){ROWS});
    return weft_cross_entropy(x, y, NULL);
}

static weft_value *size_loss(weft_value *x) {
    return weft_mean(weft_square(weft_offset(x, 0.5)), WEFT_ALL, false);
}

static const weft_optimizer adam = {.type = "adam", .lr = 1e-2},
                            clipped = {.type = "adamw", .lr = 1e-2, .clip_norm = 0.1},
                            sgd = {.type = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3};

/* A graph that trains what `pattern` matches of the whole model, by its labels. */
static void add_graph(weft_model *m, const char *graph, const char *pattern, const weft_optimizer *o) {
    weft_value *loss = labels_loss(head(encoder(input(m, graph))));
    weft_minimize(loss, pattern, o);
    weft_output(loss, "loss");
}

static weft_model *one_graph(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "step", "", o);
    return m;
}

/* ---- the same bits in many worlds ---- */

static world_rank *alone(const weft_model *m, int micro_batches) {
    world_job job = {.model = m, .steps = STEPS, .classes = 4};
    job.options = (weft_compile_options){.accumulate = micro_batches};
    return world_run(&job);
}

/* Ends with the model. What subgraphs say about ZeRO and buckets goes before these options. */
static void check_worlds(const char *name, weft_model *m) {
    static const weft_compile_options worlds[] = {
        {.world = 2},
        {.world = 2, .zero = 2, .bucket_cap_mb = 1e-5},
        {.world = 3, .zero = 1},
        {.world = 2, .accumulate = 2, .zero = 2, .shard = WEFT_SHARD_FLAT},
        {.world = 4, .zero = 1, .shard = WEFT_SHARD_FLAT, .bucket_cap_mb = 1e-5},
        {.world = 4, .zero = 2, .serial = true},
    };
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        char what[100];
        world_job job = {.model = m, .steps = STEPS, .classes = 4, .options = worlds[i]};
        job.options.verify = true;
        world_rank *one = alone(m, worlds[i].world * (worlds[i].accumulate ? worlds[i].accumulate : 1));
        world_rank *many = world_run(&job);
        snprintf(what, sizeof what, "%s, world %zu", name, i);
        world_check(one, many, worlds[i].world, world_trained, what);
        world_free(one);
        world_free(many);
    }
    weft_model_free(m);
}

/* The plan's subgraphs that have buckets, as "NAME NAME". */
static void check_subgraphs(const weft_model *m, const char *want) {
    char got[200] = "";
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 2}, &error);
    char *text = weft_plan_json(plan);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL, *g;
    size_t i;
    if (!CHECK_SAYS(json != NULL, "%s", error.text)) return;
    json_array_foreach(json_object_get(json, "subgraphs"), i, g) {
        size_t n = strlen(got);
        if (json_array_size(json_object_get(g, "buckets")))
            snprintf(got + n, sizeof got - n, "%s%s", n ? " " : "",
                     json_string_value(json_object_get(g, "name")));
    }
    CHECK_TEXT(got, want);
    json_decref(json);
    weft_text_free(text);
    weft_plan_free(plan);
}

/* ---- subgraphs ---- */

TEST(each_top_level_scope_with_trained_parameters_is_a_subgraph) {
    weft_model *m = one_graph(&adam);
    check_subgraphs(m, "encoder head model");
    check_worlds("by scopes", m);
    m = one_graph(&clipped);
    weft_freeze(m, "head/*");
    check_subgraphs(m, "encoder model");
    check_worlds("a frozen scope", m);
}

TEST(a_scope_at_any_depth_can_be_a_subgraph) {
    weft_model *m = one_graph(&adam);
    weft_model_set_ddp(m, "encoder/fc1", &(weft_ddp_options){.zero = 1, .bucket_cap_mb = 1e-5});
    check_subgraphs(m, "encoder/fc1 encoder head model");
    check_worlds("a nested scope", m);
    m = one_graph(&clipped);
    weft_model_set_ddp(m, "encoder/fc2", &(weft_ddp_options){.zero = 2, .shard = WEFT_SHARD_FLAT});
    weft_model_set_ddp(m, "encoder", &(weft_ddp_options){.zero = -1});
    check_worlds("a nested scope, clipped", m);
}

TEST(the_whole_model_can_be_one_subgraph) {
    weft_model *m = one_graph(&clipped);
    weft_model_set_ddp(m, "", NULL);
    check_subgraphs(m, "model");
    check_worlds("the whole model", m);
    m = one_graph(&sgd);
    weft_model_set_ddp(m, "", &(weft_ddp_options){.zero = 2});
    weft_model_set_ddp(m, "head", &(weft_ddp_options){.zero = -1});
    check_subgraphs(m, "model head");
    check_worlds("the rest of the model", m);
}

/* ---- graphs ---- */

TEST(a_graph_may_span_subgraphs_with_options_of_their_own) {
    weft_model *m = one_graph(&clipped);
    weft_model_set_ddp(m, "encoder",
                       &(weft_ddp_options){.zero = 2, .shard = WEFT_SHARD_FLAT, .bucket_cap_mb = 3e-4});
    weft_model_set_ddp(m, "head", &(weft_ddp_options){.zero = 1});
    check_worlds("one graph, three subgraphs", m);
}

TEST(a_model_may_be_optimized_twice_on_one_batch) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "first", "", &adam);
    add_graph(m, "second", "", &sgd);
    check_worlds("two graphs", m);
    m = weft_model_new("m");
    add_graph(m, "first", "", &clipped);
    add_graph(m, "second", "", &clipped);
    weft_model_set_ddp(m, "", &(weft_ddp_options){.bucket_cap_mb = 5e-4});
    check_worlds("two graphs, one optimizer", m);
}

TEST(graphs_may_train_parts_of_a_subgraph) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "all", "", &adam);
    add_graph(m, "part", "encoder/fc2", &sgd);
    weft_model_set_ddp(m, "", NULL);
    check_worlds("all, and a part", m);
    m = weft_model_new("m");
    add_graph(m, "low", "encoder/fc1", &adam);
    add_graph(m, "high", "head", &clipped);
    add_graph(m, "both", "e*", &sgd);
    weft_model_set_ddp(m, "", NULL);
    check_worlds("parts that overlap", m);
}

TEST(a_graph_may_minimize_several_losses) {
    weft_model *m = weft_model_new("m");
    weft_value *hidden = encoder(input(m, "step")), *loss = labels_loss(head(hidden));
    weft_minimize(loss, "head", &clipped);
    weft_minimize(weft_add(loss, size_loss(hidden)), "encoder", &adam);
    weft_minimize(loss, "scale", &sgd);
    weft_output(loss, "loss");
    check_worlds("three minimize calls", m);
}

/* ---- what a graph does not train stays ---- */

static void run_part(world_rank *r) {
    for (int i = 0; i < 3; i++) world_micro(r, "part", 2 * i + r->rank, NULL);
}

static void run_nothing(world_rank *r) {
    (void)r;
}

static bool outside_of_fc2(const char *path) {
    return !strstr(path, "encoder/fc2") && !strstr(path, "/step");
}

static bool in_fc2(const char *path) {
    return strstr(path, "encoder/fc2") && strncmp(path, "optimizer.", 10);
}

TEST(a_graph_leaves_what_it_does_not_train_untouched) {
    for (int zero = 0; zero < 3; zero++) {
        char where[300];
        weft_model *m = weft_model_new("m");
        add_graph(m, "all", "", &adam);
        add_graph(m, "part", "encoder/fc2", &adam);
        weft_model_set_ddp(m, "", NULL);
        world_job job = {.model = m, .classes = 4, .options = {.world = 2, .zero = zero}, .run = run_part};
        world_job still = {
            .model = m, .classes = 4, .options = {.world = 2, .zero = zero}, .run = run_nothing};
        world_rank *ran = world_run(&job), *first = world_run(&still);
        for (int i = 0; i < 2; i++) {
            CHECK_SAYS(world_agrees(&first[i], &ran[i], outside_of_fc2, where), "zero %d: %s", zero, where);
            CHECK(!world_agrees(&first[i], &ran[i], in_fc2, where));
        }
        world_free(ran);
        world_free(first);
        weft_model_free(m);
    }
}

/* ---- parameters that a loss does not reach ---- */

/* Graph "all" reaches everything, "low" the encoder alone; both minimize over the whole model. */
static weft_model *half_reached(bool find_unused, const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "all", "", o);
    weft_value *loss = size_loss(encoder(input(m, "low")));
    weft_minimize(loss, "", o);
    weft_output(loss, "loss");
    weft_model_set_ddp(m, "", &(weft_ddp_options){.find_unused_parameters = find_unused});
    return m;
}

TEST(a_parameter_that_a_loss_does_not_reach_is_named) {
    weft_model *m = half_reached(false, &adam);
    for (int world = 1; world < 3; world++) {
        weft_error error = {0};
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = world}, &error);
        CHECK(plan == NULL && error.status != WEFT_OK);
        CHECK_HOLDS(error.text, "low");
        CHECK_HOLDS(error.text, "head/fc/weight");
        CHECK_HOLDS(error.text, "find_unused_parameters");
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

static void run_reduced(world_rank *r) {
    for (int i = 0; i < 3; i++) world_micro(r, "low", 2 * i + r->rank, NULL);
}

static bool is_unused(const char *path) {
    return strstr(path, "head/fc") || strstr(path, "scale");
}

TEST(an_unused_parameter_stays_out_while_others_train) {
    check_worlds("unused", half_reached(true, &adam));
    check_worlds("unused, clipped and decayed", half_reached(true, &clipped));
    weft_model *m = half_reached(true, &clipped);
    for (int zero = 0; zero < 3; zero++) {
        char where[300];
        world_job job = {.model = m, .classes = 4, .options = {.world = 2, .zero = zero}, .run = run_reduced};
        world_job still = {
            .model = m, .classes = 4, .options = {.world = 2, .zero = zero}, .run = run_nothing};
        world_rank *ran = world_run(&job), *first = world_run(&still);
        for (int i = 0; i < 2; i++)
            CHECK_SAYS(world_agrees(&first[i], &ran[i], is_unused, where), "zero %d: %s", zero, where);
        CHECK(!world_agrees(&first[0], &ran[0], in_fc2, where));
        world_free(ran);
        world_free(first);
    }
    weft_model_free(m);
}

TEST(a_graph_that_reaches_nothing_trains_nothing) {
    weft_model *m = half_reached(true, &clipped);
    weft_value *x = input(m, "none");
    weft_minimize(size_loss(x), "head", &clipped);
    check_worlds("nothing reached, clipped", m);
}

TEST(a_plan_lists_what_a_graph_leaves_out) {
    weft_error error = {0};
    weft_model *m = half_reached(true, &adam);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = 2}, &error);
    char *text = weft_plan_json(plan);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL, *unused = json_object_get(json, "unused"), *u;
    size_t i;
    CHECK_SAYS(json_array_size(unused) == 3, "%zu unused: %s", json_array_size(unused), error.text);
    json_array_foreach(unused, i, u) {
        CHECK_TEXT(json_string_value(json_object_get(u, "graph")), "low");
        CHECK_SAYS(is_unused(json_string_value(json_object_get(u, "parameter"))), "%zu", i);
    }
    json_decref(json);
    weft_text_free(text);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("graphs of worlds",
      {T(each_top_level_scope_with_trained_parameters_is_a_subgraph),
       T(a_scope_at_any_depth_can_be_a_subgraph), T(the_whole_model_can_be_one_subgraph),
       T(a_graph_may_span_subgraphs_with_options_of_their_own),
       T(a_model_may_be_optimized_twice_on_one_batch), T(graphs_may_train_parts_of_a_subgraph),
       T(a_graph_may_minimize_several_losses), T(a_graph_leaves_what_it_does_not_train_untouched),
       T(a_parameter_that_a_loss_does_not_reach_is_named),
       T(an_unused_parameter_stays_out_while_others_train), T(a_graph_that_reaches_nothing_trains_nothing),
       T(a_plan_lists_what_a_graph_leaves_out)})
