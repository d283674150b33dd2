/* test_text.c - dumps read back: the same text at every stage, the same nodes, and a clear error for each
 * rule that a text breaks. */
#include "graph/core/graph.h"
#include "graph/core/kernel.h"
#include "graph/settings/clone.h"
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "runtime/passes/passes.h"
#include "support/example.h"
#include "support/locale.h"
#include "support/models/random_model.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model that uses much of the language ---- */

static weft_value *body(weft_value *x) {
    weft_init init = {WEFT_INIT_UNIFORM, -0.1, 0.1};
    WEFT_SCOPE(x, "net") {
        weft_value *w = weft_parameter(x, "weight", 2, (int64_t[]){3, 4}, init);
        weft_value *b = weft_parameter(x, "bias", 1, (int64_t[]){3}, (weft_init){0});
        x = weft_linear_op(x, w, b);
        WEFT_SCOPE(x, "inner") x = weft_relu(weft_add(x, b));
        const float few[] = {1, -2, 0.5f}, many[3 * 8] = {3};
        x = weft_add(x, weft_constant_tensor(weft_value_graph(x), WEFT_F32, 1, (int64_t[]){3}, few));
        weft_value *table = weft_constant_tensor(weft_value_graph(x), WEFT_F32, 2, (int64_t[]){8, 3}, many);
        x = weft_add(x, weft_sum(table, 1, (int64_t[]){0}, false));
        weft_value *least = weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, -INFINITY);
        x = weft_clamp(weft_maximum(x, least), -INFINITY, 1e9);
        weft_value *never = weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, -NAN);
        x = weft_where(weft_isnan(never), x, weft_slice(weft_pad(x, 0, 1, 0), 0, 1, INT64_MAX));
        weft_value *n = weft_state_in(weft_value_graph(x), "batches", WEFT_I64, 0, NULL,
                                      (weft_init){WEFT_INIT_CONSTANT, -3, 0});
        weft_assign(n, weft_offset(n, 1));
        weft_value *s = weft_state(x, "mean", 1, (int64_t[]){3}, (weft_init){WEFT_INIT_CONSTANT, 1.0 / 3, 0});
        weft_assign(s, weft_add(s, b));
    }
    return x;
}

static weft_model *example(void) {
    weft_model *m = weft_model_new("example");
    weft_model_set_batch(m, 5);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 4});
    weft_value *y = body(x);
    weft_value *w = weft_parameter_in(g, "scale", 0, NULL, (weft_init){WEFT_INIT_ONES, 0, 0});
    weft_value *loss = weft_mean(weft_mul(y, w), WEFT_ALL, false), *d[2];
    weft_gradients(loss, 2, (weft_value *[]){x, w}, d);
    weft_output(weft_scale(d[0], 0.1), "dx");
    weft_output(w, "scale");
    weft_output(loss, "loss");
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .lr = 1e-3});
    weft_graph *v = weft_graph_new(m, "val", WEFT_EVAL);
    weft_output(body(weft_input(v, "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 4})), "y");
    weft_freeze(m, "scale");
    return m;
}

/* Parses `text` and compares the dump of what comes out. The model, or NULL; the caller frees it. */
static weft_model *same_text(const char *string) {
    weft_error error;
    weft_model *m = weft_model_parse(string, "dump", NULL, &error);
    CHECK_SAYS(m != NULL, "%s\n%s", error.text, string);
    if (!m) return NULL;
    char *again = weft_model_text(m);
    CHECK_TEXT(again, string);
    weft_text_free(again);
    return m;
}

static void round_trip(const weft_model *m) {
    char *string = weft_model_text(m);
    weft_model_free(same_text(string));
    weft_text_free(string);
}

TEST(a_model_reads_back_to_the_same_text) {
    weft_model *m = example();
    CHECK_TEXT(weft_model_error(m)->text, "");
    round_trip(m);
    weft_model_free(m);
}

/* The next line of a dump that is a node's, without results and operands: "add() in net"; their numbers. */
static const char *next_node(const char *at, char *call, size_t room, int *n_operands, int *n_results) {
    for (; *at; at += strcspn(at, "\n") + 1) {
        if (*at != '%' && strncmp(at, "minimize(", 9)) continue;
        size_t length = strcspn(at, "\n"), open = strcspn(at, "("), close = strcspn(at, ")"), begin = open;
        while (begin && at[begin - 1] != ' ') begin--;
        *n_results = *n_operands = 0;
        for (size_t i = 0; i < begin; i++) *n_results += at[i] == '%';
        for (size_t i = open + 1; i < close; i++) *n_operands += at[i] == ',' || i == open + 1;
        snprintf(call, room, "%.*s(%.*s", (int)(open - begin), at + begin, (int)(length - close), at + close);
        return at + length + 1;
    }
    return NULL;
}

/* From outside a graph is what its dump says, node by node, and operands are results of nodes before. */
TEST(a_walk_over_nodes_is_the_dump) {
    for (int seed = 0; seed < 20; seed++) {
        test_random r = {(uint64_t)seed};
        weft_model *m = seed ? random_model(&r, 1) : example();
        char *dump = weft_model_text(m), call[2000], line[2000];
        const char *at = dump;
        weft_node_info n;
        int operands, results, nodes = 0;
        for (int i = 0; weft_model_graph(m, i); i++)
            for (const weft_node *node = NULL; (node = weft_graph_node(weft_model_graph(m, i), node));) {
                NEED(weft_node_about(node, &n));
                for (int k = 0; k < n.n_results; k++)
                    CHECK(weft_value_node(weft_node_result(node, k)) == node);
                CHECK(!weft_node_result(node, n.n_results) && !weft_node_operand(node, n.n_operands));
                if (!strcmp(n.op, "parameter")) {
                    CHECK(weft_value_of(weft_model_graph(m, i), n.path) == weft_node_result(node, 0));
                    continue;
                }
                char *attributes = weft_node_attributes(node);
                snprintf(call, sizeof call, "%s()%s%s%s%s%s", n.op, *attributes ? " " : "", attributes,
                         *n.scope ? " in " : "", n.scope, n.is_backward ? " bwd" : "");
                NEED((at = next_node(at, line, sizeof line, &operands, &results)) != NULL);
                CHECK_TEXT(line, call);
                CHECK(operands == n.n_operands && results == n.n_results);
                weft_text_free(attributes);
                nodes++;
            }
        CHECK(nodes > 5 && !next_node(at, line, sizeof line, &operands, &results));
        weft_text_free(dump);
        weft_model_free(m);
    }
    CHECK(!weft_graph_node(NULL, NULL) && !weft_node_about(NULL, NULL) && !weft_value_node(NULL));
}

/* Each kind of attribute by its name; outputs in their order; lengths at any batch. */
TEST(attributes_outputs_and_lengths_that_follow_the_batch) {
    static const float numbers[] = {1, 2, 3};
    weft_model *m = weft_model_new("attributes");
    weft_model_set_batch(m, 3);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 4, 2, 3)), *sum, *size, *rows, *held;
    sum = weft_mean(x, WEFT_AXES(1, -1), true);
    size = weft_interpolate(x, &(weft_interpolation){.size = {5, 6}, .mode = WEFT_INTERPOLATE_BICUBIC});
    rows = weft_concat(
        2,
        (weft_value *[]){weft_reshape(x, WEFT_SHAPE(-1, 6)), weft_constant(g, WEFT_F32, WEFT_SHAPE(5, 6), 1)},
        0);
    held = weft_leaky_relu(weft_constant_tensor(g, WEFT_F32, WEFT_SHAPE(3), numbers), 0.25);
    weft_output(rows, "rows");
    weft_output(held, "held");
    weft_attribute a;
    CHECK(weft_node_attribute(weft_value_node(sum), "axes", &a) && a.n == 2 && a.integers[0] == 1 &&
          a.integers[1] == -1);
    CHECK(weft_node_attribute(weft_value_node(sum), "keep", &a) && a.n == 1 && a.integers[0] == 1 &&
          a.real == 1);
    CHECK(weft_node_attribute(weft_value_node(sum), "correction", &a) && a.n == 0 && a.real == 0 && !a.text);
    CHECK(weft_node_attribute(weft_value_node(size), "mode", &a) &&
          a.integers[0] == WEFT_INTERPOLATE_BICUBIC);
    CHECK_TEXT(a.text, "bicubic");
    CHECK(weft_node_attribute(weft_value_node(x), "shape", &a) && a.n == 4 && a.integers[0] == WEFT_BATCH);
    CHECK(weft_node_attribute(weft_value_node(x), "name", &a) && !a.n);
    CHECK_TEXT(a.text, "x");
    CHECK(weft_node_attribute(weft_value_node(held), "slope", &a) && a.real == 0.25);
    CHECK(weft_node_attribute(weft_value_node(weft_node_operand(weft_value_node(held), 0)), "data", &a));
    CHECK(a.bytes == sizeof numbers && a.data && !memcmp(a.data, numbers, a.bytes));
    CHECK(!weft_node_attribute(weft_value_node(sum), "slope", &a) && !weft_node_attribute(NULL, "axes", &a));
    const char *name = NULL;
    CHECK(weft_graph_output(g, 0, &name) == rows && !strcmp(name, "rows"));
    CHECK(weft_graph_output(g, 1, NULL) == held && !weft_graph_output(g, 2, &name) &&
          !weft_graph_output(NULL, 0, NULL));
    int64_t per_batch, rest;
    CHECK(weft_dim_batch(rows, 0, &per_batch, &rest) && per_batch == 4 && rest == 5);
    CHECK(weft_dim_batch(rows, -1, &per_batch, &rest) && per_batch == 0 && rest == 6);
    CHECK(!weft_dim_batch(rows, 2, &per_batch, &rest) && !weft_dim_batch(NULL, 0, &per_batch, &rest));
    x = weft_reshape(x, WEFT_SHAPE(3, 24)); /* fits a batch of 3 alone */
    CHECK(!weft_dim_batch(x, 0, &per_batch, &rest) && weft_model_error(m)->status == WEFT_OK);
    weft_model_free(m);
}

/* What is read outside of the scope, not what was made last: batch norm assigns statistics, and a weight that
 * two layers share is not a result. */
TEST(a_value_is_found_by_its_scope) {
    weft_model *m = weft_model_new("paths");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 4)), *fc = NULL, *norm = NULL, *tied = NULL,
               *d;
    WEFT_SCOPE(x, "a") {
        fc = weft_linear(x, 4, "fc", NULL);
        norm = weft_batch_norm(fc, "bn", NULL);
    }
    weft_value *relu = weft_relu(norm);
    WEFT_SCOPE(x, "b")
    tied = weft_sub(weft_matmul(relu, weft_value_of(g, "a/fc/weight"), false, false), relu);
    weft_value *loss = weft_mean(tied, WEFT_ALL, false);
    weft_output(loss, "loss");
    weft_gradients(loss, 1, &x, &d);
    weft_output(d, "d");
    CHECK(weft_graph_value(g, "a") == norm && weft_graph_value(g, "a/bn") == norm);
    CHECK(weft_graph_value(g, "a/fc") == fc && weft_graph_value(g, "a/fc/linear") == fc);
    CHECK(weft_graph_value(g, "relu") == relu && weft_graph_value(g, "b") == tied);
    CHECK(weft_value_node(weft_graph_value(g, "b/matmul")) != NULL);
    static const char *const missing[] = {"", "a/f", "a/fc/weight", "b/relu", "c", "a/", "/a", NULL};
    for (int i = 0; i < 8; i++)
        CHECK_SAYS(!weft_graph_value(g, missing[i]), "%s", missing[i] ? missing[i] : "NULL");
    CHECK(!weft_graph_value(NULL, "a"));
    CHECK_TEXT(weft_model_error(m)->text, "");
    weft_model_free(m);
}

/* In what builders made the only unused numbers are those of parameter nodes, made in order: they come back.
 */
TEST(numbers_of_parameters_come_back) {
    weft_model *m = example();
    char *string = weft_model_text(m);
    weft_model *copy = same_text(string);
    NEED(copy != NULL);
    const weft_graph *g = m->graphs, *h = copy->graphs;
    for (; g && h; g = g->next, h = h->next) {
        CHECK(graph_node_count(g) == graph_node_count(h));
        CHECK(g->next_id == h->next_id);
        const weft_node *n = g->first, *k = h->first;
        for (; n && k; n = n->next, k = k->next)
            CHECK_SAYS(n->op == k->op && n->id == k->id, "%s %%%d is %s %%%d", n->op->name, n->id,
                       k->op->name, k->id);
    }
    CHECK(!g && !h && copy->batch == 5);
    weft_text_free(string);
    weft_model_free(copy);
    weft_model_free(m);
}

TEST(every_pass_on_a_graph_leaves_text_that_reads_back) {
    weft_model *m = example(), *copy = model_clone_variables(m, 7, 1, 0);
    weft_graph *g = graph_replay(m->graphs, copy, "step");
    NEED(g != NULL);
    round_trip(copy);
    for (int pass = 0; pass < 4; pass++) {
        bool good = pass == 1   ? pass_autodiff(g, 1, NULL)
                    : pass == 3 ? pass_fuse(g, WEFT_DEVICE_CPU)
                                : pass_simplify(g);
        CHECK_SAYS(good, "%s", copy->error.text);
        round_trip(copy);
    }
    weft_model_free(copy);
    weft_model_free(m);
}

/* Every stage of the compiler, both ways of stepping, all the kernels that this machine has. */
TEST(every_stage_of_a_plan_reads_back) {
    weft_model *m = example_model(NULL);
    for (int accumulate = 1; accumulate <= 2; accumulate++)
        for (int i = 0; weft_pass_name(i); i++) {
            weft_error error = {0};
            weft_compile_options o = {
                .threads = 1, .accumulate = accumulate, .stop_after = weft_pass_name(i), .batch = 3};
            weft_plan *plan = weft_compile(m, &o, &error);
            CHECK_SAYS(plan != NULL, "%s: %s", o.stop_after, error.text);
            char *string = weft_plan_text(plan);
            if (string) weft_model_free(same_text(string));
            weft_text_free(string);
            weft_plan_free(plan);
        }
    weft_model_free(m);
}

TEST(plans_read_back_cannot_be_compiled_again) {
    weft_error error = {0};
    weft_model *m = example_model(NULL);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    char *string = weft_plan_text(plan);
    weft_model *again = string ? weft_model_parse(string, "plan", NULL, &error) : NULL;
    CHECK_SAYS(again != NULL, "%s", error.text);
    CHECK(!weft_compile(again, NULL, &error));
    CHECK_HOLDS(error.text, "that only the compiler makes");
    CHECK(weft_save(again, "/tmp/never", &error) == WEFT_ARGUMENT);
    CHECK_HOLDS(error.text, "only a model as it was built can be saved");
    weft_text_free(string);
    weft_model_free(again);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- what later stages print, written by hand ---- */

static const char stages[] =
    "model planned batch=2\n"
    "parameter a/w f32[3,4] kaiming_uniform(2.23606797749979,0)\n"
    "parameter a/b f32[] normal(0.25,0.001) frozen\n"
    "state a/s f32[4] ones(0,0)\n"
    "bucket a.0 f32[100] members=a/w,a/b@20\n"
    "optimizer optimizer.adam:a/*/a.0/exp_avg f32[100] zeros(0,0) members=a/w,a/b@20\n"
    "optimizer optimizer.adam:a/*/lr f64[] constant(0.001,0)\n"
    "gradient gradient.a.0 f32[100] members=a/w,a/b@20\n"
    "graph run train\n"
    "%0 f32[2,3,4,4]:nhwc = input() name=\"x\" dtype=f32 shape=B,3,4,4 by reference @0 +0x0\n"
    "%2 f32[2,3,4,4]:nhwc = relu(%0) in a bwd by reference @2 =%9+16\n"
    "%9 f32[2,3,4,4]:s(1,2,6,24) = add(%2, a/b) in a/c upd by reference @3 +0x40\n"
    "%11 f32[4] = state() path=\"a/s\" by reference @1\n"
    "%13 f32[2,3,4,4], %15 f32[2,3,4,4]:nhwc = fused(%9, a/b, %2) {%12 f32[2,3,4,4] = add(%9, a/b); "
    "%13 f32[2,3,4,4] = relu(%12); %15 f32[2,3,4,4] = add(%13, %2)} in a by reference @4 "
    "=a/b+0,+0x1f40 work+0x80:64\n"
    "%20 f32[2,3,4,4] = relu(%15) by reference @5\n"
    "output y %13\n"
    "output b a/b\n";

TEST(layouts_places_buckets_and_fused_bodies_read_back) {
    weft_model *m = same_text(stages);
    NEED(m != NULL);
    const weft_variable *w = variable_find(m, "a/w"), *b = variable_find(m, "a/b"),
                        *s = variable_find(m, "a.0");
    CHECK(w->bucket == s && w->offset == 0 && b->bucket == s && b->offset == 20 && s->n_members == 2);
    CHECK(variable_find(m, "optimizer.adam:a/*/a.0/exp_avg")->bucket == s);
    const weft_node *n = m->graphs->last->prev;
    CHECK(n->op == &weft_op_fused && n->n_body == 3 && n->body_out[0] == &n->body[1]->out[0]);
    CHECK(n->body[0]->in[0] == n->in[0] && n->body[2]->in[0] == &n->body[1]->out[0] &&
          n->body[2]->in[1] == n->in[2]);
    CHECK(n->out[0].base == n->in[1] && n->out[1].arena_offset == 0x1f40 && n->workspace_bytes == 64);
    CHECK(n->order == 4 && strcmp(n->kernel->name, "reference") == 0 && n->out[0].has_layout);
    weft_model_free(m);
}

/* ---- errors: one line of a good text changed ---- */

TEST(each_broken_rule_has_its_message) {
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"model planned", "modem planned", "dump:1: the first line must be 'model NAME batch=N'"},
        {"model planned", "model plan+ed", "dump:1: model name"},
        {"batch=2", "batch=0", "a batch of 0"},
        {"batch=2", "batch=2 x", "dump:1: 'the end of the line' is expected, but there is ' x'"},
        {"f32[3,4] kai", "f32[3,0] kai", "dump:2: a/w: its type cannot be read"},
        {"f32[3,4] kai", "f33[3,4] kai", "dump:2: a/w: its type cannot be read"},
        {"kaiming_uniform", "he", "there is no initializer 'he'"},
        {"normal(0.25,0.001)", "normal(0.25,-1)",
         "dump:3: a/b: initializer: normal with a negative deviation"},
        {"normal(0.25", "normal(nan", "initializer: a number that is not finite"},
        {"parameter a/b", "parameter a/w", "a/w is listed twice"},
        {"parameter a/b", "parameter a//b", "cannot be a path"},
        {"members=a/w,a/b@20\nopt", "members=a/w,a/c\nopt", "its member 'a/c' is not a parameter"},
        {"members=a/w,a/b@20\nopt", "members=a/w,a/b@5\nopt", "a number from 12 to"},
        {"members=a/w,a/b@20\nopt", "members=a/w,a/b@100\nopt", "reach past its end"},
        {"members=a/w,a/b@20\nopt", "members=a/w,a/w\nopt", "a/w is in two buckets"},
        {"members=a/w,a/b@20\ngra", "members=a/w,a/b\ngra", "is at another offset of the bucket"},
        {"gradient gradient.a.0 f32[100] members=a/w,a/b@20",
         "shard a.0.own f32[100] members=a/w,a/b@20 of=a.0",
         "a.0.own: its members cannot be read"}, /* it would be written without its bucket */
        {"graph run train", "graph run test", "dump:9: 'eval' is expected, but there is 'test'"},
        {"graph run train", "%1 f32[] = relu(%0)", "dump:9: 'model', a kind of variable or 'graph'"},
        {"output y", "graph run eval\noutput y", "there is a graph 'run' already"},
        {"%0 f32[2,3,4,4]:nhwc = input", "%0 f32[2,3,4,4]:nhwc = imput", "dump:10: there is no op 'imput'"},
        {"%0 f32[2,3,4,4]:nhwc = input", "%0 f32[2,3,4,5]:nhwc = input",
         "input returns f32[2,3,4,4], but the line has"},
        {"%0 f32[2,3,4,4]:nhwc = input", "input", "input has 1 results, but the line has 0"},
        {"name=\"x\"", "name=\"x\" name=\"y\"", "input: name is given twice"},
        {"name=\"x\"", "nome=\"x\"", "input has no attribute 'nome'"},
        {"name=\"x\"", "name=x", "the value of name cannot be read"},
        {"shape=B,3,4,4", "shape=B,3,4,\n", "the value of shape cannot be read"},
        {"relu(%0)", "relu(%9)", "dump:11: no earlier line defines %9"},
        {"relu(%0)", "relu(%2)", "no earlier line defines %2"},
        {"relu(%0)", "relu(%-1)", "a number from 0 to"},
        {"relu(%0)", "relu(%99999999)", "numbers below"},
        {"relu(%0)", "relu(-)", "operand 0 is missing"},
        {"relu(%0)", "relu()", "0 operands"},
        {"relu(%0)", "relu(a/x)", "there is no parameter 'a/x'"},
        {"%2 f32", "%0 f32", "%0 is made twice"},
        {":s(1,2,6,24)", ":s(1,2,6)", "',' is expected"},
        {":s(1,2,6,24)", ":nchw", "':s(' is expected"},
        {"%11 f32[4] =", "%11 f32[4]:nhwc =", ":nhwc needs 4 axes"},
        {"%0 f32[2,3,4,4]:nhwc = input", "%0 f32[2,3,4,4]:ndhwc = input", ":ndhwc needs 5 axes"},
        {"path=\"a/s\"", "path=\"a/t\"", "there is no state 'a/t'"},
        {"{%12 f32[2,3,4,4] = add(%9, a/b); ", "{", "no earlier line defines %12"},
        {"%15 f32[2,3,4,4] = add(%13, %2)}", "%15 f32[2,3,4,4] = add(%13, %0)}",
         "not an operand of the node"},
        {"%15 f32[2,3,4,4] = add(%13, %2)}", "%16 f32[2,3,4,4] = add(%13, %2)}",
         "no node of the body defines %15"},
        {"%15 f32[2,3,4,4] = add(%13, %2)}", "%15 f32[] = sum(%13)}", "is not pointwise"},
        {"upd by reference", "upd by referense", "add has no kernel 'referense'"},
        {" in a/c", " in a//c", "cannot be a scope"},
        {"@2 =%9+16", "@2 =%8+16", "%2 is in the buffer of a value that no line defines"},
        {"@2 =%9+16", "@2 =%2+16", "%2 is in the buffer of itself"},
        {"@3 +0x40", "@3 =%2+0", "is in the buffer of itself"},
        {"@5\n", "@5 and more\n", "'the end of the line' is expected, but there is ' and more'"},
        {"output b a/b", "output y a/b", "graph run has an output 'y' already"},
        {"output b a/b", "output b -", "no value"},
        {"output b a/b", "parameter a/z f32[] zeros(0,0)", "variables must come before graphs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(stages, cases[i].from);
        CHECK_SAYS(at != NULL, "case %zu: no '%s'", i, cases[i].from);
        if (!at) continue;
        text t = {0};
        weft_error error = {0};
        text_bytes(&t, stages, (size_t)(at - stages));
        text_add(&t, "%s%s", cases[i].to, at + strlen(cases[i].from));
        char *broken = text_detach(&t);
        weft_model *m = weft_model_parse(broken, "dump", NULL, &error);
        CHECK_SAYS(!m && strstr(error.text, cases[i].says), "'%s' for '%s': \"%s\", wanted \"%s\"",
                   cases[i].to, cases[i].from, m ? "no error" : error.text, cases[i].says);
        weft_model_free(m);
        free(broken);
    }
}

/* ---- strings and numbers ---- */

TEST(strings_with_quotes_and_percent_signs_survive) {
    weft_model *m = weft_model_new("strings");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *w = weft_parameter_in(g, "w", 0, NULL, (weft_init){0});
    weft_minimize(w, "a\"b\\n%9 ", &(weft_optimizer){.type = "sgd", .name = "n"});
    CHECK_TEXT(weft_model_error(m)->text, "");
    round_trip(m);
    weft_model_free(m);
}

TEST(a_comma_locale_changes_nothing) {
    weft_model *m = example();
    char *before = weft_model_text(m);
    if (locale_comma()) {
        char *after = weft_model_text(m);
        CHECK(strchr(before, '.') != NULL);
        CHECK_TEXT(after, before);
        weft_model_free(same_text(after));
        weft_text_free(after);
        locale_back();
    }
    weft_text_free(before);
    weft_model_free(m);
}

/* ---- signatures ---- */

static void same_signature(const char *string) {
    weft_error error;
    weft_node *n = node_from_signature(string, NULL, &weft_catalog, &error);
    CHECK_SAYS(n != NULL, "%s: %s", string, error.text);
    if (!n) return;
    text t = {0};
    node_signature(&t, n);
    CHECK_TEXT(t.data, string);
    free(text_detach(&t));
    weft_model_free(n->graph->model);
}

TEST(signatures_make_nodes_with_layouts) {
    same_signature("relu(f32[8,3,12,12]:nhwc)");
    same_signature("relu(f32[8,3,5,12,12]:ndhwc)");
    same_signature("add(f32[8,3,12,12], f32[12]:s(0))");
    same_signature("linear(f32[4,3], f32[5,3], -)");
    same_signature("constant() dtype=f32 shape=2,3 value=0.5");
    weft_node *n = node_from_signature("relu(f32[8,3,12,12]:nhwc)", NULL, &weft_catalog, NULL);
    NEED(n != NULL);
    CHECK(n->in[0]->has_layout && n->in[0]->stride[1] == 1 && n->out[0].has_layout &&
          n->out[0].stride[1] == 1);
    weft_model_free(n->graph->model);
    weft_error error;
    CHECK(!node_from_signature("relu(f32[8,3]", NULL, &weft_catalog, &error));
    CHECK_HOLDS(error.text, "signature:1: ')' is expected");
    CHECK(!node_from_signature("relu(f32[8,3]) x", NULL, &weft_catalog, &error));
    CHECK(!node_from_signature("linear(f32[8,3], f32[2,2])", NULL, &weft_catalog, &error));
    CHECK_HOLDS(error.text, "the last axis of x must be");
}

/* What a file holds is shown, not sent to the terminal. */
TEST(errors_of_hostile_texts_are_plain) {
    static const char *const texts[] = {
        "model m batch=1\n\x1b[31m\xff\xc2\x9b\n",
        "model m batch=1\ngraph g train\n%0 f32[1] = input() name=\"\x1b[1m\x7f\" dtype=f32 shape=1\n",
        "model m batch=1\nparameter \x1b]0;x\x07 f32[1] zeros(0,0)\n",
        "model \x1b[31m batch=1\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        weft_error error = {0};
        weft_model *m = weft_model_parse(texts[i], "hostile \x1b[5m\xff.txt", NULL, &error);
        CHECK_SAYS(!m, "text %zu is a model", i);
        weft_model_free(m);
        for (const char *p = error.text; *p; p++)
            CHECK_SAYS(*p >= ' ' && *p <= '~', "text %zu: byte 0x%02x", i, (unsigned char)*p);
        CHECK_HOLDS(error.text, "hostile \\x1b[5m\\xff.txt:");
    }
}

TEST(other_letters_are_shown_as_they_are) {
    weft_error error = {0};
    CHECK(!weft_load("no/größe_日本_\xf0\x9f\x8c\x8a\xe2\x80\xae\xed\xa0\x80\xc0\xaf.bin", NULL, &error));
    CHECK_HOLDS(
        error.text,
        "no/größe_日本_\xf0\x9f\x8c\x8a\\xe2\\x80\\xae\\xed\\xa0\\x80\\xc0\\xaf.bin: cannot be opened");
}

TEST(texts_in_a_model_are_printable) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *w = weft_parameter_in(g, "w", 1, (int64_t[]){3}, (weft_init){.kind = WEFT_INIT_ONES});
    weft_minimize(weft_mean(w, WEFT_ALL, false), "w\x1b[31m",
                  &(weft_optimizer){.type = "sgd", .lr = 1, .name = "o"});
    CHECK_HOLDS(weft_model_error(m)->text, "pattern='w\\x1b[31m': printable ASCII is needed");
    weft_model_free(m);
}

SUITE("text", {T(a_model_reads_back_to_the_same_text), T(a_walk_over_nodes_is_the_dump),
               T(attributes_outputs_and_lengths_that_follow_the_batch), T(a_value_is_found_by_its_scope),
               T(numbers_of_parameters_come_back), T(every_pass_on_a_graph_leaves_text_that_reads_back),
               T(every_stage_of_a_plan_reads_back), T(plans_read_back_cannot_be_compiled_again),
               T(layouts_places_buckets_and_fused_bodies_read_back), T(each_broken_rule_has_its_message),
               T(strings_with_quotes_and_percent_signs_survive), T(a_comma_locale_changes_nothing),
               T(signatures_make_nodes_with_layouts), T(errors_of_hostile_texts_are_plain),
               T(other_letters_are_shown_as_they_are), T(texts_in_a_model_are_printable)})
