/* test_flow.c - flows: what their texts mean and how wrong ones are refused; that files and dumps keep them;
 * the flow of a plan; graphs of one plan with different numbers of micro-batches. */
#include "graph/settings/flow.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDTH = 5, OUT = 2 };

/* ---- a model of two networks: a trains left, b trains right, both trains both; mean writes a state ---- */

static weft_value *network(weft_value *x) {
    WEFT_SCOPE(x, "left") x = weft_tanh(weft_linear(x, 9, "fc", NULL));
    WEFT_SCOPE(x, "right") x = weft_linear(x, OUT, "fc", NULL);
    return x;
}

static void add_graph(weft_model *m, const char *name, const char *pattern) {
    weft_graph *g = weft_graph_new(m, name, WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(ROWS, WIDTH));
    weft_value *loss = weft_mse(network(x), weft_input(g, "t", WEFT_F32, WEFT_SHAPE(ROWS, OUT)), NULL);
    weft_minimize(loss, pattern, &(weft_optimizer){.type = "adam", .lr = 1e-2, .clip_norm = 0.1});
    weft_output(loss, "loss");
}

static weft_model *build(void) {
    weft_model *m = weft_model_new("m");
    add_graph(m, "a", "left");
    add_graph(m, "b", "right");
    add_graph(m, "both", NULL);
    weft_graph *mean = weft_graph_new(m, "mean", WEFT_TRAIN);
    weft_value *weight = weft_value_of(mean, "left/fc/weight");
    weft_assign(weft_state(weight, "mean", WEFT_SHAPE(9, WIDTH), (weft_init){0}), weight);
    weft_graph *val = weft_graph_new(m, "val", WEFT_EVAL);
    weft_output(network(weft_input(val, "x", WEFT_F32, WEFT_SHAPE(ROWS, WIDTH))), "y");
    return m;
}

/* ---- texts ---- */

/* The line of a flow in the model's text, without "flow NAME "; the caller frees it. */
static char *line_of(const weft_model *m, const char *name) {
    char begin[80], *text = weft_model_text(m);
    snprintf(begin, sizeof begin, "\nflow %s ", name);
    const char *at = text ? strstr(text, begin) : NULL;
    char *line = at ? strndup(at + strlen(begin), strcspn(at + strlen(begin), "\n")) : NULL;
    weft_text_free(text);
    return line;
}

TEST(texts_are_written_as_they_are_read) {
    static const char *const rows[][2] = {
        {"a", "a"},
        {" a\tb  both ", "a b both"},
        {"a*5 b", "a*5 b"},
        {"a*1 b", "a b"},
        {"a{accumulate=4} b", "a{accumulate=4} b"},
        {"a{ batch=next , accumulate=4 }*3 b{batch=same}", "a{accumulate=4,batch=next}*3 b{batch=same}"},
        {"0-999: a; 1000-: a*5 b", "0-999: a; 1000-: a*5 b"},
        {"0-0:a;1-:b", "0-0: a; 1-: b"},
        {"a; 10-19: b; 5-: both", "a; 10-19: b; 5-: both"},
        {"0-: a", "a"},
        {"a; b", "a b"},
        {"10-: b ; 0-9: a", "10-: b; 0-9: a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = build();
        weft_model_set_flow(m, "both");
        CHECK_SAYS(weft_model_set_flow(m, rows[i][0]) == WEFT_OK, "%s: %s", rows[i][0],
                   weft_model_error(m)->text);
        char *line = line_of(m, "train");
        CHECK_SAYS(line && strcmp(line, rows[i][1]) == 0, "%s: written as %s", rows[i][0], line ? line : "-");
        free(line);
        weft_model_free(m);
    }
}

TEST(wrong_texts_are_refused_with_the_place_and_the_rule) {
    static const char *const rows[][2] = {
        {"", "at '': a step begins with the name of a graph"},
        {"a;", "at '': a step begins with the name of a graph"},
        {"a**5", "at '*5': a number of 1 to 18 digits"},
        {"a*5{accumulate=2}", "at '{accumulate=2}': settings come before '*'"},
        {"a*0", "the number before it must be 1 to 2^20"},
        {"a*2000000", "the number before it must be 1 to 2^20"},
        {"a*99999999999999999999", "a number of 1 to 18 digits"},
        {"a{}", "at '}': there are accumulate=K, batch=next and batch=same"},
        {"a{batch=other}", "at 'other}': batch is next or same"},
        {"a{accumulate=2", "'}' must end the settings"},
        {"a{accumulate=2}b", "at 'b': a blank or ';' must follow a step"},
        {"a/b", "a step begins with the name"},
        {"5: a", "a range is FIRST-LAST: or FIRST-:"},
        {"5-x: a", "a number of 1 to 18 digits"},
        {"0-9 : a", "a step begins with the name"},
        {"9-5: a; b", "step 1, a: a range goes from an iteration"},
        {"0-9: a", "no step runs in iteration 10: write '10-:'"},
        {"5-: a", "no step runs in iteration 0"},
        {"0-4: a; 6-: a", "no step runs in iteration 5"},
        {"a{batch=same}", "step 1, a: batch=same needs a step before it"},
        {"5-: a; b{batch=same}", "step 2, b: batch=same needs a step before it"},
        {"a{accumulate=4} a{accumulate=2}", "step 2, a: a graph has one accumulate in a flow"},
        {"a{accumulate=4,accumulate=4}", "accumulate is given twice"},
        {"a b{batch=next, batch=same}", "batch is given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = build();
        weft_status status = weft_model_set_flow(m, rows[i][0]);
        const char *text = weft_model_error(m)->text;
        CHECK_SAYS(status == WEFT_ARGUMENT, "'%s' passed", rows[i][0]);
        CHECK_SAYS(strstr(text, rows[i][1]) && strstr(text, "test_flow.c:") && strstr(text, "flow train: "),
                   "'%s': %s", rows[i][0], text);
        weft_model_free(m);
    }
}

TEST(names_are_checked_when_the_model_is_compiled) {
    static const struct {
        const char *name, *steps, *error;
        weft_compile_options options;
    } rows[] = {
        {"train", "a", NULL, {0}},
        {"train", "a aa", "test_flow.c:", {0}},
        {"train", "a aa", ": flow train: the model has no graph 'aa': did you mean 'a'? It has a, b, both, mean, val", {0}},
        {"train", "a quite", ": flow train: the model has no graph 'quite'; it has a, b, both, mean, val", {0}},
        {"a", "b", NULL, {.flow = "a"}},
        {"late", "a", NULL, {.flow = "late"}},
        {"late", "a", "the model has no flow 'later': did you mean 'late'? It has late", {.flow = "later"}},
        {"late", "a", NULL, {.flow = "train"}},
        {"late", "a", "graph b is not in flow late", {.flow = "late", .graph = "b"}},
        {"late", "a", "graph val is not in flow train", {.flow = "train", .graph = "val"}},
        {"train", "a mean{accumulate=2}", "accumulate=2 of graph mean: it trains nothing", {0}},
        {"train", "a mean{batch=next}", "batch=next of graph mean: it has no inputs", {0}},
        {"train", "mean a{batch=same}", "no step before it in iteration 0 takes any", {0}},
        {"train", "mean a{accumulate=2} b", NULL, {0}},
        {"train", "a b a{accumulate=4} b{accumulate=2}", NULL, {0}},
        {"train", "a{accumulate=4} b{accumulate=3}", "b runs on the batches of a, of whose 4 micro-", {0}},
        {"train", "a{accumulate=4} b{accumulate=3,batch=next}", NULL, {0}},
        {"train", "a{accumulate=2} b", "whose 2 micro-batches it cannot take 4", {.accumulate = 4}},
        /* an evaluation has its own number of micro-batches, beside which the flow's say nothing */
        {"train", "a b{accumulate=4}", "whose 1 micro-batches it cannot take 4", {0}},
        {"train", "a b{accumulate=4}", NULL, {.graph = "val"}},
        {"train",
         "0-9: both; a{accumulate=2} b{accumulate=4}",
         "b runs on the batches of",
         {.accumulate = 4}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_model *m = build();
        weft_model_set_flow_named(m, rows[i].name, rows[i].steps);
        weft_plan *plan = weft_compile(m, &rows[i].options, &e);
        CHECK_SAYS(!plan == (rows[i].error != NULL) && (plan || strstr(e.text, rows[i].error)), "row %zu: %s",
                   i, e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* ---- random flows, against the definition: an iteration at a time ---- */

enum { LAST = 12 }; /* ranges of random flows end before this iteration, or never */

static bool runs(const weft_flow_step *s, int64_t i) {
    return s->from <= i && i < s->to;
}

/* Iterations from LAST on are all alike. */
static bool is_good(int n, const weft_flow_step *steps) {
    for (int64_t i = 0; i <= LAST; i++) {
        int seen = 0;
        for (int k = 0; k < n; k++) {
            if (!runs(&steps[k], i)) continue;
            if (!seen && steps[k].batch == WEFT_FLOW_SAME) return false;
            seen++;
        }
        if (!seen) return false;
    }
    return true;
}

/* Uniform in [0, n). */
static int64_t below(test_random *r, int64_t n) {
    return (int64_t)random_in(r, 0, (double)n - 1e-9);
}

static int random_steps(test_random *r, weft_flow_step *steps) {
    static const char *const graphs[] = {"a", "b", "both"};
    int n = (int)below(r, 5) + 1;
    for (int k = 0; k < n; k++) {
        int graph = (int)below(r, 3);
        int64_t from = below(r, 2) ? 0 : below(r, LAST - 1);
        int64_t to = below(r, 2) ? INT64_MAX : from + 1 + below(r, LAST - from);
        steps[k] = (weft_flow_step){
            graphs[graph], 1 + (int)below(r, 3), graph * 2, (weft_flow_batch)below(r, 3), from, to};
    }
    return n;
}

TEST(random_flows_are_taken_if_each_iteration_has_a_step_and_read_back_as_they_were) {
    int taken = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        test_random r = {seed + 1};
        weft_flow_step steps[8];
        int n = random_steps(&r, steps);
        weft_model *m = weft_model_new("m"), *again = weft_model_new("m");
        bool is_taken = flow_set(m, "train", n, steps);
        CHECK_SAYS(is_taken == is_good(n, steps), "seed %llu: %s", (unsigned long long)seed,
                   weft_model_error(m)->text);
        char *line = line_of(m, "train");
        if (is_taken) {
            taken++;
            CHECK(weft_model_set_flow(again, line) == WEFT_OK);
            const flow_entry *e = flow_find(again, "train");
            for (int k = 0; e && k < n; k++)
                CHECK(strcmp(e->steps[k].graph, steps[k].graph) == 0 && e->n == n &&
                      e->steps[k].repeat == steps[k].repeat &&
                      e->steps[k].accumulate == steps[k].accumulate && e->steps[k].batch == steps[k].batch &&
                      e->steps[k].from == steps[k].from && e->steps[k].to == steps[k].to);
        }
        free(line);
        weft_model_free(m);
        weft_model_free(again);
    }
    CHECK(taken > 300 && taken < 1700);
}

/* ---- files and plans ---- */

TEST(files_and_dumps_keep_flows) {
    static const char *const names[] = {"train", "late"};
    weft_error e = {0};
    weft_model *m = build();
    weft_model_set_flow(m, "0-3: a{accumulate=2}*5 b{batch=same}; 4-: both");
    weft_model_set_flow_named(m, "late", "b mean");
    char *text = weft_model_text(m);
    weft_model *parsed = weft_model_parse(text, "text", NULL, &e);
    CHECK_SAYS(parsed != NULL, "%s", e.text);
    CHECK_SAYS(weft_save(m, "flow.bin", &e) == WEFT_OK, "%s", e.text);
    weft_model *loaded = weft_load("flow.bin", NULL, &e);
    CHECK_SAYS(loaded != NULL, "%s", e.text);
    weft_model *const copies[] = {parsed, loaded};
    for (int i = 0; i < 2; i++) {
        char *again = weft_model_text(copies[i]);
        CHECK(again && strcmp(again, text) == 0);
        for (int k = 0; k < 2; k++) CHECK(strcmp(weft_flow_name(copies[i], k), names[k]) == 0);
        CHECK(!weft_flow_name(copies[i], 2) && !weft_flow_name(copies[i], -1));
        weft_text_free(again);
        weft_model_free(copies[i]);
    }
    weft_text_free(text);
    remove("flow.bin");
    weft_model_free(m);
}

TEST(wrong_lines_of_dumps_are_named) {
    static const char *const rows[][2] = {
        {"flow train\n", "t:2"},
        {"flow train a*0\n", "the number before it must be 1 to 2^20"},
        {"flow a/b a\n", "its name must be 1 to 200 letters"},
        {"flow train a\nflow train b\n", "t:3: flow train is listed twice"},
        {"graph g eval\nflow train g\n", "t:3: flows must come before graphs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        weft_error e = {0};
        snprintf(text, sizeof text, "model m batch=1\n%s", rows[i][0]);
        CHECK(weft_model_parse(text, "t", NULL, &e) == NULL);
        CHECK_HOLDS(e.text, rows[i][1]);
    }
}

static void check_plan(weft_model *m, const weft_compile_options *options, int n,
                       const weft_flow_step *steps) {
    weft_error e = {0};
    weft_flow_step s;
    weft_plan *plan = weft_compile(m, options, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    for (int i = 0; plan && i < n; i++) {
        CHECK(weft_plan_flow(plan, i, &s));
        CHECK_SAYS(strcmp(s.graph, steps[i].graph) == 0 && s.accumulate == steps[i].accumulate &&
                       s.repeat == steps[i].repeat,
                   "step %d: %s accumulate=%d", i, s.graph, s.accumulate);
    }
    CHECK(!weft_plan_flow(plan, n, &s) && !weft_plan_flow(plan, -1, &s));
    weft_plan_free(plan);
}

TEST(a_plan_says_the_flow_it_is_for) {
    weft_port port;
    weft_error e = {0};
    weft_model *m = build();
    /* without a flow: the training graphs in their order; one that takes no batches runs once */
    check_plan(m, &(weft_compile_options){.accumulate = 3}, 4,
               (weft_flow_step[]){{"a", 1, 3}, {"b", 1, 3}, {"both", 1, 3}, {"mean", 1, 1}});
    weft_model_set_flow(m, "a{accumulate=2}*5 b{accumulate=1} mean");
    weft_model_set_flow_named(m, "late", "both mean");
    check_plan(m, NULL, 3, (weft_flow_step[]){{"a", 5, 2}, {"b", 1, 1}, {"mean", 1, 1}});
    check_plan(m, &(weft_compile_options){.accumulate = 4, .flow = "late"}, 2,
               (weft_flow_step[]){{"both", 1, 4}, {"mean", 1, 1}});
    /* a flow alone is compiled */
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.flow = "late"}, &e);
    CHECK_SAYS(weft_plan_input(plan, "both", 0, &port) && !weft_plan_input(plan, "a", 0, &port), "%s",
               e.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- micro-batches of each graph ---- */

typedef struct rig {
    weft_plan *plan;
    weft_session *session;
} rig;

static rig rig_open(const weft_model *m, weft_compile_options options, weft_store **store) {
    weft_error e = {0};
    options.threads = 1;
    options.verify = true;
    rig r = {.plan = weft_compile(m, &options, &e)};
    if (r.plan && !*store) *store = weft_store_new(r.plan, 3, &e);
    r.session = r.plan && *store ? weft_session_open(r.plan, *store, &e) : NULL;
    CHECK_SAYS(r.session != NULL, "%s", e.text);
    return r;
}

static void rig_close(rig *r) {
    weft_session_close(r->session);
    weft_plan_free(r->plan);
}

/* Runs a graph on micro-batches [first, first + n) of a fixed sequence. */
static void run_graph(const rig *r, const char *graph, int first, int n) {
    weft_error e = {0};
    for (int i = first; i < first + n; i++) {
        float x[ROWS * WIDTH], t[ROWS * OUT];
        test_random random = {(uint64_t)i + 1};
        for (int k = 0; k < ROWS * WIDTH; k++) x[k] = (float)random_in(&random, -1, 1);
        for (int k = 0; k < ROWS * OUT; k++) t[k] = (float)random_in(&random, -1, 1);
        weft_feed feeds[] = {{"x", x, sizeof x}, {"t", t, sizeof t}};
        CHECK_SAYS(weft_run(r->session, graph, feeds, 2, NULL, 0, &e) == WEFT_OK, "%s", e.text);
    }
}

static const char *const weights[] = {"left/fc/weight", "left/fc/bias", "right/fc/weight", "right/fc/bias"};

/* All weights, one after another. */
static size_t read_weights(const weft_store *store, float into[100]) {
    size_t at = 0;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        int64_t shape[WEFT_MAX_NDIM], n = 1;
        int ndim = weft_store_shape(store, weights[i], NULL, shape);
        for (int k = 0; k < ndim; k++) n *= shape[k];
        CHECK(weft_store_get(store, weights[i], into + at, (size_t)n * sizeof(float), NULL) == WEFT_OK);
        at += (size_t)n;
    }
    return at;
}

/* Graph `one` with k and graph `two` with l micro-batches, in one plan; then each in a plan of its own. */
static void check_pair(const char *one, int k, const char *two, int l) {
    char steps[120];
    float got[100], want[100];
    weft_model *m = build(), *plain = build();
    weft_store *store = NULL, *apart = NULL;
    snprintf(steps, sizeof steps, "%s{accumulate=%d,batch=next} %s{accumulate=%d,batch=next}", one, k, two,
             l);
    weft_model_set_flow(m, steps);
    rig all = rig_open(m, (weft_compile_options){.flow = "train"}, &store);
    weft_compile_options more = {.accumulate = k > l ? k : l}, less = {.accumulate = k > l ? l : k};
    rig large = rig_open(plain, more, &apart), small = rig_open(plain, less, &apart);
    for (int s = 0, at = 0; s < 5; s++) {
        run_graph(&all, one, at, k);
        run_graph(k > l ? &large : &small, one, at, k);
        run_graph(&all, two, at + k, l);
        run_graph(k > l ? &small : &large, two, at + k, l);
        at += k + l;
    }
    size_t n = read_weights(store, got);
    CHECK_SAYS(n == 74 && read_weights(apart, want) == n && memcmp(got, want, n * sizeof *got) == 0,
               "%s with %d and %s with %d micro-batches", one, k, two, l);
    CHECK(weft_plan_memory(all.plan).gradients <= weft_plan_memory(large.plan).gradients);
    rig_close(&all);
    rig_close(&large);
    rig_close(&small);
    weft_store_free(store);
    weft_store_free(apart);
    weft_model_free(m);
    weft_model_free(plain);
}

TEST(graphs_of_one_plan_have_their_own_micro_batches) {
    static const int counts[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            if (i == k) continue;
            check_pair("a", counts[i], "b", counts[k]);
            check_pair("both", counts[i], "a", counts[k]); /* they share gradient buffers */
        }
}

/* ---- what passes from graph to graph by state ---- */

/* Graph "writes" trains, and keeps x, or a mix of it and what was kept; graph "reads" trains by what is
 * kept. */
static weft_model *passing(double kept) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "writes", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(ROWS, WIDTH));
    weft_value *state = weft_state(x, "kept", WEFT_SHAPE(ROWS, WIDTH), (weft_init){0});
    weft_assign(state, kept ? weft_add(weft_scale(state, kept), x) : weft_neg(x));
    weft_minimize(weft_mean(weft_square(network(x)), WEFT_ALL, false), "left",
                  &(weft_optimizer){.type = "sgd", .lr = 1e-2});
    g = weft_graph_new(m, "reads", WEFT_TRAIN);
    x = weft_mul(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(ROWS, WIDTH)), weft_value_of(g, "kept"));
    weft_minimize(weft_mean(weft_square(network(x)), WEFT_ALL, false), "right",
                  &(weft_optimizer){.type = "sgd", .lr = 1e-2});
    return m;
}

/* What one graph overwrites in each micro-batch is no other graph's; what it renews is. */
TEST(a_state_that_micro_batches_overwrite_is_read_by_no_other_graph) {
    static const struct {
        double kept;
        const char *flow;
        int accumulate;
        bool is_refused;
    } rows[] = {
        {0, "writes reads", 1, false},
        {0, "writes reads", 2, true},
        {0, "reads writes", 2, true}, /* in the next iteration */
        {0, "writes{accumulate=1} reads{batch=next}", 2, false},
        {0, "writes", 2, false},
        {0.9, "writes reads", 2, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_model *m = passing(rows[i].kept);
        weft_model_set_flow(m, rows[i].flow);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.accumulate = rows[i].accumulate}, &e);
        CHECK_SAYS(!plan == rows[i].is_refused, "row %zu: %s", i, e.text);
        if (!plan) CHECK(e.status == WEFT_ORDER);
        if (!plan)
            CHECK_HOLDS(e.text,
                        "graph writes overwrites kept in each of its 2 micro-batches, and graph reads");
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* ---- graphs that no flow runs ---- */

/* With a graph that moves "left" towards "right", one that counts for itself, and one that reads nothing of
 * another's. */
static weft_model *with_teacher(void) {
    weft_model *m = build();
    weft_graph *g = weft_graph_new(m, "teacher", WEFT_EVAL);
    weft_value *bias = weft_value_of(g, "left/fc/bias");
    weft_assign(bias, weft_scale(bias, 0.9));
    g = weft_graph_new(m, "counts", WEFT_EVAL);
    weft_value *count =
        weft_state(weft_input(g, "y", WEFT_F32, WEFT_SHAPE(1)), "count", WEFT_SHAPE(1), (weft_init){0});
    weft_assign(count, weft_offset(count, 1));
    return m;
}

TEST(a_graph_that_assigns_what_another_reads_is_in_a_flow_or_named) {
    static const struct {
        const char *name, *steps;
        bool is_idle;
    } rows[] = {{"train", "a", true}, {"train", "a teacher", false}, {"other", "teacher", false}};
    weft_idle_graph found;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = with_teacher();
        weft_model_set_flow_named(m, rows[i].name, rows[i].steps);
        CHECK_SAYS(weft_flow_idle(m, 0, &found) == rows[i].is_idle, "row %zu", i);
        if (rows[i].is_idle)
            CHECK(strcmp(found.graph, "teacher") == 0 && strcmp(found.path, "left/fc/bias") == 0 &&
                  strcmp(found.reader, "a") == 0 && !weft_flow_idle(m, 1, &found));
        CHECK(!weft_flow_idle(m, -1, &found) && !weft_flow_idle(NULL, 0, &found));
        weft_model_free(m);
    }
}

SUITE("flow", {T(a_state_that_micro_batches_overwrite_is_read_by_no_other_graph),
               T(a_graph_that_assigns_what_another_reads_is_in_a_flow_or_named),
               T(texts_are_written_as_they_are_read), T(wrong_texts_are_refused_with_the_place_and_the_rule),
               T(names_are_checked_when_the_model_is_compiled),
               T(random_flows_are_taken_if_each_iteration_has_a_step_and_read_back_as_they_were),
               T(files_and_dumps_keep_flows), T(wrong_lines_of_dumps_are_named),
               T(a_plan_says_the_flow_it_is_for), T(graphs_of_one_plan_have_their_own_micro_batches)})
