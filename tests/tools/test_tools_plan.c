/* test_tools_plan.c - plans and pictures of graphs: graphtool plan, dot, verify, trace. */
#include "support/programs.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- models and pictures ---- */

/* As graphviz reads it; the legend, heads and titles of boxes (t1, t2, ...) are not nodes of the graph. */
static int nodes_drawn(const char *file) {
    if (!ends(run("gvpr 'BEGIN{int n=0} N[!(name==\"t[0-9]*\" || name==\"head_*\" || name==\"legend\")]{n++} "
                  "END{print(n)}' %s",
                  file),
              0))
        return -1;
    char *out = read_all("out");
    int n = out ? atoi(out) : -1;
    free(out);
    return n;
}

/* Seconds of the processor (ulimit -t), which other work on the machine does not take; sanitizers and
 * qemu (tools/nightly.sh processors) take more. */
static int within(int seconds) {
    return test_is_sanitized() || getenv("QEMU_MODEL") ? 10 * seconds : seconds;
}

TEST(pictures_parse_and_stay_below_max_nodes) {
    for (int i = 0; i < ZOO; i++) {
        if (!make_model(zoo[i])) continue;
        ends(run("graphtool dot %s.bin -o a.dot", zoo[i]), 0);
        int n = nodes_drawn("a.dot");
        CHECK_SAYS(n > 3 && n <= 100, "%s: %d nodes", zoo[i], n);
        ends(run("graphtool dot %s.bin --max-nodes 12 -o b.dot", zoo[i]), 0);
        n = nodes_drawn("b.dot");
        CHECK_SAYS(n >= 1 && n <= 12, "%s: %d nodes of at most 12", zoo[i], n);
        ends(run("graphtool dot %s.bin --all --max-nodes 40 -o c.dot", zoo[i]), 0);
        n = nodes_drawn("c.dot");
        CHECK_SAYS(n >= 3 && n <= 40, "%s --all: %d nodes of at most 40", zoo[i], n);
        ends(run("graphtool dot %s.bin --view=program -o d.dot && gc d.dot", zoo[i]), 0);
    }
}

TEST(repeated_scopes_are_drawn_once) {
    ends(run("weft-zoo gpt --layers 48 --d 96 --ctx 32 -o deep.bin"), 0);
    ends(run("graphtool dot deep.bin -o deep.dot"), 0);
    char *dot = read_all("deep.dot");
    CHECK_HOLDS(dot, "\xc3\x97"
                     "48"); /* x48 */
    free(dot);
    int n = nodes_drawn("deep.dot");
    CHECK_SAYS(n > 10 && n < 60, "%d nodes", n);
}

/* conv1 and conv2 of convnet have weights of different shapes, whatever their names. */
TEST(scopes_of_different_weights_are_not_folded) {
    NEED(make_model("convnet"));
    ends(run("graphtool dot convnet.bin -o c.dot && grep -q 'weight 32.*1.*3.*3' c.dot && grep -q 'weight "
             "32.*32.*3.*3' c.dot"),
         0);
    ends(run("! grep -q 'conv1.*conv2' c.dot"), 0);
}

TEST(drawing_takes_less_than_two_seconds) {
    NEED(make_model("dcgan28"));
    ends(run("ulimit -t %d; graphtool dot dcgan28.bin --graph d_step -T svg -o p.svg", within(2)), 0);
    char *svg = read_all("p.svg");
    CHECK_HOLDS(svg, "generator");
    CHECK_HOLDS(svg, "discriminator");
    CHECK_HOLDS(svg, "</svg>");
    free(svg);
    ends(run("graphtool dot dcgan28.bin --graph g_step -T png -o p.png && head -c 4 p.png | grep -q PNG"), 0);
}

/* ---- plans ---- */

TEST(plans_are_text_json_and_verified) {
    NEED(make_model("dcgan28"));
    ends(run("graphtool plan dcgan28.bin --graph g_step --batch 4 --dump"), 0);
    char *text = read_all("out");
    CHECK_HOLDS(text, "graph g_step");
    CHECK_HOLDS(text, "generator/fc/weight");
    free(text);
    ends(run("graphtool plan dcgan28.bin --after=autodiff | grep -q '^model dcgan28'"), 0);
    ends(run("graphtool plan dcgan28.bin --json -o plan.json"), 0);
    json_t *plan = json_out("plan.json");
    CHECK(json_integer_value(json_object_get(json_object_get(plan, "memory"), "total")) > 0);
    json_decref(plan);
    ends(run("graphtool verify dcgan28.bin --batch 4"), 0);
}

static double number(const json_t *of, const char *key) {
    return json_number_value(json_object_get(of, key));
}

/* A step of k micro-batches is a first run, k - 2 that add, a last one; each graph is the sum of its ops. */
static void check_sums(int accumulate, double *launches) {
    static const char *const keys[] = {"launches", "read_bytes", "written_bytes", "flops", "estimated_ms"};
    ends(run("graphtool plan mlp.bin --device cuda --dtype bf16 --accumulate %d --estimate h100 --json",
             accumulate),
         0);
    json_t *all = json_out("out"), *graphs = json_object_get(all, "graphs"), *graph, *op;
    size_t g, i;
    CHECK(json_array_size(graphs) == (accumulate < 3 ? (size_t)accumulate : 3));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        double step = 0;
        json_array_foreach(graphs, g, graph) {
            double sum = 0;
            json_array_foreach(json_object_get(graph, "ops"), i, op) sum += number(op, keys[k]);
            CHECK(sum > 0 && fabs(sum - number(graph, keys[k])) <= 1e-6 * sum);
            step += number(graph, "times") * sum;
        }
        CHECK(fabs(step - number(json_object_get(all, "step"), keys[k])) <= 1e-6 * step);
    }
    *launches = number(json_object_get(all, "step"), "launches");
    json_decref(all);
}

/* Casts of weights run once a step, so a micro-batch more adds less than a whole step. */
TEST(tables_of_work_add_up) {
    double launches[7];
    NEED(make_model("mlp"));
    for (int k = 1; k < 7; k++) check_sums(k, &launches[k]);
    for (int k = 4; k < 6; k++) CHECK(launches[k + 1] - launches[k] == launches[4] - launches[3]);
    CHECK(launches[4] - launches[3] < launches[1] && launches[4] > launches[3]);
    ends(run("graphtool plan mlp.bin --graph val --device cuda --estimate h200"), 0);
    char *val = read_all("out");
    CHECK(val && strstr(val, "graph val") && !strstr(val, "a step"));
    free(val);
    ends(run("graphtool plan mlp.bin --threads 1 --bytes"), 0); /* on a CPU too: calls, and their bytes */
    refuses(run("graphtool plan mlp.bin --estimate h200"), "--estimate has no effect without --device=cuda");
    refuses(run("graphtool plan mlp.bin --device cuda --estimate a40"),
            "--estimate=a40: h100 or h200 is needed");
}

TEST(plans_of_a_world_list_its_collectives) {
    NEED(make_model("dcgan28"));
    ends(run("graphtool plan dcgan28.bin --world 4 --batch 4 --json"), 0);
    json_t *plan = json_out("out");
    json_t *graph = json_array_get(json_object_get(plan, "graphs"), 0), *one;
    size_t i, order = 0;
    CHECK(json_integer_value(json_object_get(plan, "world")) == 4);
    CHECK(json_integer_value(json_object_get(json_object_get(plan, "memory"), "communication")) > 0);
    json_array_foreach(json_object_get(graph, "collectives"), i, one) {
        CHECK(json_integer_value(json_object_get(one, "order")) == (json_int_t)order++);
        CHECK_HOLDS(json_string_value(json_object_get(one, "bucket")), "discriminator.");
        CHECK_HOLDS(json_string_value(json_object_get(one, "ready_after")), "(discriminator/");
        CHECK_HOLDS(json_string_value(json_object_get(one, "needed_by")), "adam_update");
    }
    CHECK(order >= 1);
    json_array_foreach(json_object_get(plan, "subgraphs"), i, one)
        CHECK(json_is_true(json_object_get(one, "ddp")));
    json_decref(plan);
    ends(run("graphtool verify dcgan28.bin --batch 4 --world 4 --accumulate 2 | grep 'on all 4 ranks'"), 0);
    ends(run("graphtool verify dcgan28.bin --batch 4 --world 4 --rank 3 | grep 'passes$'"), 0);
    /* flat: nearly each rank with a range has another plan */
    for (int is_flat = 0; is_flat < 2; is_flat++) {
        ends(run("ulimit -t %d; graphtool verify dcgan28.bin --batch 4 --world 4096 --zero 2 %s >proved",
                 within(10), is_flat ? "--shard flat" : ""),
             0);
        ends(run("grep 'on all 4096 ranks, which have %d different plans' proved", is_flat ? 146 : 10), 0);
    }
    NEED(make_model("mlp"));
    ends(run("graphtool verify mlp.bin --world 4096 --zero 2 --shard flat --json >proved"), 0);
    plan = json_out("proved");
    CHECK(json_integer_value(json_object_get(plan, "classes")) > 256);
    CHECK(json_integer_value(json_object_get(plan, "whole")) == 256);
    json_decref(plan);
}

/* A compiler that makes a wrong plan for one rank: in a small world, whose plans are all proved whole, and in
 * a large one, where ranks 0 and 4 to 63 have the plan without a range of ZeRO 1, and rank 40 is neither the
 * first nor the last of them. */
TEST(a_world_with_one_wrong_rank_is_refused) {
    static const struct {
        const char *spoil, *command, *says;
    } rows[] = {
        {"2 one rank leaves out a collective", "mlp.bin --world 4 --zero 1 --clip-norm 1",
         "L12: rank 2, train: its collectives are not those of rank 0"},
        {"3 parameters lie in another order on one rank", "dcgan28.bin --world 4",
         "L13: rank 3, generator.0: parameters are not laid out as on rank 0"},
        {"3 a rank takes another's place", "mlp.bin --world 4 --zero 1",
         "L13: rank 3, net: its process group is another seen from its first rank"},
        {"40 a border moves on one rank", "mlp.bin --world 64 --zero 1",
         "L13: rank 40, net.0: ranges are not those of its process group"},
        {"63 one rank swaps two collectives", "mlp.bin --world 64",
         "L12: rank 63: its ranges are those of rank 0, but its plan is another"},
        {"1 an update by gradients of another range", "mlp.bin --world 64 --zero 1", "rank 1: L7: "},
    };
    NEED(make_model("mlp") && make_model("dcgan28"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ends(run("SPOIL=\"%s\" spoiled_graphtool verify %s", rows[i].spoil, rows[i].command), 1);
        char *err = read_all("err");
        CHECK_HOLDS(err, rows[i].says);
        free(err);
        ends(run("SPOIL=\"%s\" spoiled_graphtool verify %s --json | grep -c '\"fine\": false'", rows[i].spoil,
                 rows[i].command),
             0);
    }
    ends(run("spoiled_graphtool verify mlp.bin --world 64 --zero 1"), 0);
}

/* A discriminator whose scope `d` has state: batch norm's statistics, used twice in the order that C
 * chose, or spectral norm's vectors. */
static void write_noted(const char *name, bool reversed) {
    char path[300];
    weft_error error = {0};
    path_of(name, path);
    weft_model *m = weft_model_new("noted");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *scores[2];
    for (int i = 0; i < 2; i++) {
        weft_value *x = weft_input(g, i ? "b" : "a", WEFT_F32, 2, (int64_t[]){4, 3});
        WEFT_SCOPE(x, "d") {
            scores[i] = reversed ? weft_batch_norm(weft_linear(x, 2, "fc", NULL), "bn", NULL)
                                 : weft_linear(x, 2, "fc",
                                               &(weft_linear_options){.parametrization = WEFT_SPECTRAL_NORM});
        }
    }
    weft_value *loss = weft_mean(reversed ? weft_sub(scores[1], scores[0]) : weft_sub(scores[0], scores[1]),
                                 WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_output(loss, "loss");
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
}

/* weft_plan_note, where a user of graphtool sees it. */
TEST(notes_of_a_plan_are_told_by_every_command_that_runs_it) {
    write_noted("turned.bin", true);
    write_noted("ranks.bin", false);
    ends(run("graphtool plan turned.bin | grep '^note: graph step: sub: a later operand'"), 0);
    ends(run("graphtool info turned.bin | grep '^note: graph step: sub: a later operand'"), 0);
    ends(run("graphtool plan ranks.bin --world 2 | grep '^note: differs from one rank: d/fc/'"), 0);
    ends(run("! graphtool plan ranks.bin | grep '^note: '"), 0);
    put_npy("x.npy", "<f4", "(8, 3)", (const float[24]){0}, 24 * sizeof(float));
    ends(run("graphtool train turned.bin --data a=x.npy --data b=x.npy --steps 1 2>&1 | grep '^graphtool: "
             "graph "
             "step: sub: a later operand'"),
         0);
    ends(run("graphtool launch -n 2 train ranks.bin --data a=x.npy --data b=x.npy --steps 1 2>&1 | grep "
             "'^graphtool: differs from one rank: d/fc/'"),
         0);
}

/* The line of a text that begins so; the caller frees it. */
static char *line_of(const char *text, const char *begin) {
    const char *at = text ? strstr(text, begin) : NULL;
    return at ? strndup(at, strcspn(at, "\n")) : NULL;
}

TEST(a_summary_tells_buckets_collectives_and_streams) {
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool plan dcgan28.bin --world 4 --batch 4 --threads 1 --bucket-cap-mb 25"), 0));
    char *text = read_all("out"), *graph = strstr(text, "\ngraph g_step"), *line;
    CHECK_HOLDS(text, "dcgan28: batch 4, rank 0 of 4, 1 thread, ");
    CHECK_HOLDS(text, "\nsubgraph generator: 9 parameters, 540161 numbers, 2.1 MiB; bucket_cap_mb=25\n");
    CHECK_HOLDS(line = line_of(text, "  generator.0 "),
                " \xe2\x80\xa6 "); /* from its first parameter to its last */
    free(line);
    NEED(graph != NULL);
    CHECK_HOLDS(line = line_of(graph, "all_reduce generator.1"), "matmul"); /* its weight's gradient */
    free(line);
    /* what starts first is above, with its track from there to the wait */
    const char *start = strstr(graph, "start all_reduce generator.0");
    const char *next = strstr(graph, "start all_reduce generator.1"),
               *wait = strstr(graph, "wait generator.0");
    const char *update = wait ? strstr(wait, "adam_update generator.0") : NULL;
    CHECK(start && next && wait && update && start < next && next < wait && wait < update);
    CHECK_HOLDS(line = line_of(graph, "start all_reduce generator.0"), " 0 all_reduce generator.0, ");
    CHECK_HOLDS(line, " o ");
    free(line);
    CHECK_HOLDS(text, "memory of this rank");
    free(text);
}

/* Sharded state: what goes back to all is read first by a next run, and both summaries and pictures say
 * where. */
TEST(collectives_in_flight_lead_to_their_first_reader) {
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool plan dcgan28.bin --world 2 --batch 4 --zero 1"), 0));
    char *text = read_all("out");
    CHECK_HOLDS(text, "first read of generator.0: ");
    CHECK_HOLDS(text, "next run: ");
    CHECK_HOLDS(text, "into the next run\n");
    free(text);
    NEED(ends(run("graphtool dot dcgan28.bin --view=plan --world 2 --batch 4 --zero 1 -o z.dot && gc z.dot"),
              0));
    text = read_all("z.dot");
    CHECK_HOLDS(text, "of the last g_step");
    CHECK_HOLDS(text, "generator.0 is first read");
    free(text);
}

TEST(plans_say_what_guards_their_steps) {
    static const struct {
        const char *options, *want;
    } cases[] = {{"--guard nan", "\nguard: nan\n"},
                 {"--guard spike=2.5", "\nguard: spike=2.5\n"},
                 {"--guard off", NULL},
                 {"--device cuda --guard grad", "\nguard: grad\n"},
                 {"--device cuda", NULL}};
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        NEED(ends(run("graphtool plan mlp.bin --batch 4 %s", cases[i].options), 0));
        char *text = read_all("out");
        CHECK_SAYS(cases[i].want ? strstr(text, cases[i].want) != NULL : !strstr(text, "\nguard: "), "%s: %s",
                   cases[i].options, text);
        free(text);
    }
}

/* What a run does not wait for is after its end. */
TEST(deferred_steps_follow_the_end_of_their_run) {
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool plan dcgan28.bin --world 2 --batch 4"), 0));
    char *text = read_all("out"), *graph = strstr(text, "\ngraph g_step");
    const char *end = graph ? strstr(graph, "end of the run") : NULL,
               *wait = end ? strstr(end, "wait generator.0") : NULL;
    CHECK(end && wait && strstr(graph, "wait generator.0") == wait);
    CHECK_HOLDS(graph, "first read of discriminator.0: ");
    CHECK_HOLDS(graph, ", in a later run");
    CHECK_HOLDS(text, "of which in flight across runs");
    free(text);
    NEED(ends(run("graphtool plan dcgan28.bin --world 2 --batch 4 --json"), 0));
    json_t *plan = json_out("out");
    CHECK(json_integer_value(json_object_get(json_object_get(plan, "memory"), "in_flight")) > 0);
    CHECK(json_integer_value(
              json_object_get(json_array_get(json_object_get(plan, "graphs"), 0), "deferred_nodes")) > 4);
    json_decref(plan);
    NEED(ends(run("graphtool dot dcgan28.bin --view=plan --world 2 --batch 4 -o t.dot && gc t.dot"), 0));
    text = read_all("t.dot");
    CHECK_HOLDS(text, "of the last g_step");
    CHECK_HOLDS(text, "in a later run");
    free(text);
}

TEST(pictures_of_plans_show_subgraphs_and_streams) {
    for (int i = 0; i < ZOO; i++) {
        if (!make_model(zoo[i])) continue;
        ends(run("graphtool dot %s.bin --view=plan -o p.dot && gc p.dot", zoo[i]),
             0); /* one rank: no stream beside */
        NEED(ends(
            run("graphtool dot %s.bin --view=plan --world 8 --bucket-cap-mb 1 -o q.dot && gc q.dot", zoo[i]),
            0));
        char *dot = read_all("q.dot");
        CHECK_HOLDS(dot, "communication stream");
        CHECK_HOLDS(dot, "subgraph ");
        CHECK_HOLDS(dot, "nodes until the wait");
        free(dot);
        ends(run("graphtool dot %s.bin --view=plan --world 8 --bucket-cap-mb 0.1 --max-nodes 12 -o r.dot && "
                 "gc r.dot",
                 zoo[i]),
             0);
        int n = nodes_drawn("r.dot"), all = nodes_drawn("q.dot");
        CHECK_SAYS(n > 0 && n <= 2 * 2 * (12 + 4), "%s: %d nodes of %d", zoo[i], n, all);
    }
    NEED(ends(run("graphtool dot gpt.bin --view=plan --world 4 --accumulate 3 -T png -o g.png"), 0));
    ends(run("head -c 4 g.png | grep -q PNG"), 0);
}

TEST(ddp_options_spread_one_subgraph) {
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool plan dcgan28.bin --world 2 --ddp generator:zero=1,bucket_cap_mb=0.5"), 0));
    char *text = read_all("out"), *line;
    CHECK_HOLDS(line = line_of(text, "subgraph generator"), "zero=1");
    free(line);
    line = line_of(text, "subgraph discriminator");
    CHECK(line && !strstr(line, "zero"));
    free(line);
    free(text);
    NEED(ends(run("graphtool plan dcgan28.bin --world 2 --ddp :zero=1"), 0)); /* the whole model as one */
    text = read_all("out");
    CHECK_HOLDS(text, "subgraph model: ");
    free(text);
    refuses(run("graphtool plan dcgan28.bin --world 2 --ddp generato:zero=1"),
            "graphtool: ddp: there is no parameter under 'generato'");
    refuses(run("graphtool plan dcgan28.bin --world 2 --ddp generator:zero=7"), "zero=7");
    refuses(
        run("graphtool plan dcgan28.bin --world 2 --ddp generator:zero=1 --ddp generator:shard=flat,zero=2"),
        "zero of this path is given twice");
    refuses(run("graphtool plan dcgan28.bin --world 2 --ddp generator"), "PATH:FIELDS is needed");
    refuses(run("graphtool plan dcgan28.bin --shard=thin"), "greedy or flat");
    refuses(run("graphtool plan dcgan28.bin --reduce=slow"), "ordered or fast");
}

/* A plan costs what the model costs, not what the world does. */
TEST(the_plan_of_the_last_of_4096_ranks_takes_seconds) {
    for (int i = 0; i < ZOO; i++) {
        if (!make_model(zoo[i])) continue;
        ends(run("ulimit -t %d; plan='graphtool plan %s.bin --world 4096 --rank 4095 --zero 2'; $plan && "
                 "$plan --json",
                 within(3), zoo[i]),
             0);
    }
}

/* ---- traces ---- */

/* Each row is in order of time. The data have 7 batches: after one step 10 more begin an epoch. */
TEST(a_trace_holds_every_node_and_every_wait_for_data) {
    enum { ROWS = 3, STEPS = 10 };
    make_data();
    NEED(make_model("mlp"));
    ends(run("graphtool trace mlp.bin " DATA " --batch 10 --steps 10 --warmup 1 -o trace.json"), 0);
    json_t *all = json_out("trace.json"), *events = json_object_get(all, "traceEvents"), *one;
    size_t i, adam = 0, of_row[ROWS] = {0}, waits = 0;
    double last[ROWS] = {0}, waited = 0;
    json_array_foreach(events, i, one) {
        if (strcmp(json_string_value(json_object_get(one, "ph")), "X") != 0) continue;
        double begin = json_number_value(json_object_get(one, "ts"));
        size_t row = (size_t)json_integer_value(json_object_get(one, "tid"));
        const char *name = json_string_value(json_object_get(one, "name"));
        NEED(row < ROWS);
        CHECK(begin >= last[row]);
        last[row] = begin;
        of_row[row]++;
        adam += strncmp(name, "adam_update", 11) == 0;
        waits += strncmp(name, "wait for batch ", 15) == 0;
        if (row == 2) waited += json_number_value(json_object_get(one, "dur"));
    }
    CHECK(adam > 0 && adam % STEPS == 0);
    CHECK_SAYS(of_row[1] == 0 && of_row[2] == STEPS + 1 && waits == STEPS && waited > 0,
               "%zu waits among %zu events, %g us", waits, of_row[2], waited);
    json_decref(all);
    ends(run("graphtool trace mlp.bin --batch 4 --steps 2 --json -o trace.json"), 0);
    all = json_out("out");
    waited = json_number_value(json_object_get(all, "data_ms"));
    CHECK(waited > 0 && waited < json_number_value(json_object_get(all, "step_ms")));
    json_decref(all);
    ends(run("graphtool trace mlp.bin --batch 4"), 2);
    ends(run("graphtool trace mlp.bin -o no/such.json"), 2);
}

/* Bars that contain each other, from the outermost. */
typedef struct bar_stack {
    int n;
    struct {
        double end;
        const char *name;
    } bars[32];
} bar_stack;

/* Puts a bar inside those that have not ended; it must end before they do. */
static void push_bar(bar_stack *s, const json_t *bar) {
    double begin = json_number_value(json_object_get(bar, "ts")),
           end = begin + json_number_value(json_object_get(bar, "dur"));
    const char *name = json_string_value(json_object_get(bar, "name"));
    const double rounding = 1e-3;
    while (s->n && s->bars[s->n - 1].end <= begin + rounding) s->n--;
    CHECK_SAYS(!s->n || end <= s->bars[s->n - 1].end + rounding, "%s ends after %s", name,
               s->bars[s->n ? s->n - 1 : 0].name);
    NEED(s->n < 32);
    s->bars[s->n].end = end;
    s->bars[s->n++].name = name;
}

static double in_memory(const char *key) {
    ends(run("graphtool plan mlp.bin --batch 4 --threads 1 --json"), 0);
    json_t *plan = json_out("out");
    double bytes = json_number_value(json_object_get(json_object_get(plan, "memory"), key));
    json_decref(plan);
    return bytes;
}

TEST(a_trace_nests_nodes_in_scopes_and_steps_and_counts_memory) {
    static const char *const path[] = {"step 1", "train", "forward", "net", "fc1"};
    NEED(make_model("mlp"));
    ends(run("graphtool trace mlp.bin --batch 4 --threads 1 --steps 2 -o trace.json"), 0);
    json_t *all = json_out("trace.json"), *events = json_object_get(all, "traceEvents"), *one;
    bar_stack s = {0};
    size_t i, steps = 0, layers = 0;
    double most = 0;
    json_array_foreach(events, i, one) {
        const char *phase = json_string_value(json_object_get(one, "ph"));
        if (strcmp(phase, "C") == 0) {
            double bytes = json_number_value(json_object_get(json_object_get(one, "args"), "bytes"));
            if (bytes > most) most = bytes;
        }
        if (strcmp(phase, "X") != 0 || json_integer_value(json_object_get(one, "tid")) != 0) continue;
        push_bar(&s, one);
        const char *name = s.bars[s.n - 1].name;
        steps += strncmp(name, "step ", 5) == 0;
        if (strncmp(name, "fc1 linear %", 12) != 0 || layers++) continue;
        CHECK_SAYS(s.n == 6, "%d bars", s.n);
        for (int k = 0; k < 5 && k < s.n; k++) CHECK_TEXT(s.bars[k].name, path[k]);
    }
    CHECK_SAYS(steps == 2 && layers == 2, "%zu steps, %zu times fc1", steps, layers);
    double room = in_memory("activations") + in_memory("gradients") + in_memory("workspace");
    CHECK_SAYS(most > room / 2 && most <= room, "%g bytes at most, of %g", most, room);
    json_decref(all);
}

/* 14 `gradients`, each of the one before: they would make 2^14 times what they say. */
TEST(gradients_of_gradients_have_a_budget_that_is_told_with_the_file) {
    refuses(run("graphtool plan %s", TEST_DATA "/attack/nested_gradients_796B.bin"),
            "nested_gradients_796B.bin: gradients: graph g: its gradients take more than");
}

/* Wherever it runs out: while the file is unpacked, while it is compiled, when its store is made. */
TEST(memory_that_is_out_is_told_with_what_needs_it) {
#ifndef __SANITIZE_ADDRESS__ /* which needs terabytes of addresses */
    NEED(make_model("gpt2_124m") && make_model("mlp"));
    int status = 1, told = 0;
    for (int kib = starting_kib(); kib < 1000000 && status; kib += 300) {
        status = run("ulimit -v %d; graphtool plan gpt2_124m.bin --world 4096 --zero 2", kib);
        char *err = read_all("err");
        bool is_told = status == 0 || (status == 2 && strstr(err, "gpt2_124m.bin: "));
        /* A process needs some memory before it knows its model, and not always the same. */
        CHECK_SAYS(is_told || !starts_with(kib - 1000), "%d KiB: exit %d, %s", kib, status, err);
        told += status == 2;
        free(err);
    }
    CHECK_SAYS(told > 5, "memory was out %d times: the test tests little", told);
    refuses(run("ulimit -v 600000; graphtool bench gpt2_124m.bin --threads 1 --batch 1"),
            "gpt2_124m.bin: model gpt2_124m with batch 1 needs ");
    refuses(run("ulimit -v 600000; graphtool bench gpt2_124m.bin --threads 1 --batch 1 --no-memory-check"),
            "store of model gpt2_124m: 1493710976 bytes could not be allocated");
#endif
}

/* The page has the bytes of both pictures, titles as text, and no address that a browser would have to
 * load. */
TEST(a_report_is_one_file) {
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool predict dcgan28.bin --random-weights --threads 1 --grid 2x2 -o four.png && "
                  "graphtool dot dcgan28.bin --graph g_step -o step.svg"),
              0));
    NEED(ends(
        run("graphtool report dcgan28.bin --batch 16 --threads 1 --picture '<b>Four</b> & \"more\"=four.png' "
            "--picture Step=step.svg -o page.html"),
        0));
    ends(run("grep -o 'image/png;base64,[^\"]*' page.html | cut -d, -f2 | base64 -d | cmp - four.png"), 0);
    ends(run("grep -o 'svg+xml;base64,[^\"]*' page.html | cut -d, -f2 | base64 -d | cmp - step.svg"), 0);
    ends(run("test \"$(sed 's/base64,[^\"]*//' page.html | grep -c -E 'https?:|<script|<link|<b>')\" = 0"),
         0);
    char *page = read_all("page.html");
    CHECK_HOLDS(page, "<h2>&lt;b&gt;Four&lt;/b&gt; &amp; &quot;more&quot;</h2>");
    CHECK_HOLDS(page, "<tr><td>d_step</td>");
    free(page);
    refuses(run("graphtool report dcgan28.bin"), "-o FILE.html is needed");
    refuses(run("graphtool report dcgan28.bin --picture Model=dcgan28.bin -o p.html"),
            "dcgan28.bin is neither a PNG nor an SVG");
    refuses(run("graphtool report dcgan28.bin --picture four.png -o p.html"), "--picture");
    refuses(run("graphtool report dcgan28.bin --picture Four=none.png -o p.html"),
            "none.png: cannot be opened");
    refuses(run("graphtool report dcgan28.bin --picture Four=four.png -o four.png"),
            "it is a file of --picture too");
    CHECK(!exists("p.html"));
}

/* Of page.html. */
static void check_total(double mib, const char *what) {
    char row[100];
    char *page = read_all("page.html");
    snprintf(row, sizeof row, "<td>total</td><td>%.1f MiB</td>", mib);
    CHECK_SAYS(page && strstr(page, row) &&
                   !strstr(page, "the guard's copies") == (strstr(what, "off") != NULL),
               "%s: %s", what, row);
    free(page);
}

/* The log of a training has its memory. */
static void check_trained(const char *model, const char *data, const char *options) {
    NEED(ends(run("graphtool report %s %s -o page.html && graphtool train %s %s %s --steps 1 --log log",
                  model, options, model, options, data),
              0));
    json_t *line = json_out("log");
    check_total(json_number_value(json_object_get(line, "memory_mib")), options);
    json_decref(line);
}

TEST(the_memory_of_a_report_is_that_of_the_training) {
    static const char *const options[] = {"", "--guard off", "--accumulate 2 --clip-norm 1 --ema 0.9",
                                          "--isa reference --precision :bf16 --flow train*2"};
    static const char rank[] = "mlp.bin --world 2 --rank 1 --zero 1 --threads 1";
    char all[200];
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        snprintf(all, sizeof all, "--batch 10 --threads 1 %s", options[i]);
        check_trained("mlp.bin", DATA, all);
    }
    check_trained("dcgan28.bin", "--data image=images.idx", "--batch 4 --threads 1");
    NEED(ends(run("graphtool report %s -o page.html && graphtool plan %s --flow train --guard nan --json",
                  rank, rank),
              0));
    json_t *plan = json_out("out"), *memory = json_object_get(plan, "memory");
    check_total(json_number_value(json_object_get(memory, "total")) / (1 << 20), rank);
    json_decref(plan);
}

/* Of what does not train all graphs are there. */
TEST(a_report_of_a_model_that_does_not_train_has_its_graphs) {
    char path[300];
    weft_error error = {0};
    path_of("only.bin", path);
    weft_model *m = weft_model_new("only");
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(weft_random_normal(g, WEFT_SHAPE(4), 0, 1), "x");
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
    ends(run("graphtool report only.bin -o page.html && grep -q '<td>predict</td>' page.html"), 0);
}

SUITE("tools: plans", {T(pictures_parse_and_stay_below_max_nodes),
                       T(repeated_scopes_are_drawn_once),
                       T(scopes_of_different_weights_are_not_folded),
                       T(drawing_takes_less_than_two_seconds),
                       T(plans_are_text_json_and_verified),
                       T(tables_of_work_add_up),
                       T(plans_of_a_world_list_its_collectives),
                       T(a_world_with_one_wrong_rank_is_refused),
                       T(notes_of_a_plan_are_told_by_every_command_that_runs_it),
                       T(a_summary_tells_buckets_collectives_and_streams),
                       T(collectives_in_flight_lead_to_their_first_reader),
                       T(plans_say_what_guards_their_steps),
                       T(deferred_steps_follow_the_end_of_their_run),
                       T(pictures_of_plans_show_subgraphs_and_streams),
                       T(ddp_options_spread_one_subgraph),
                       T(the_plan_of_the_last_of_4096_ranks_takes_seconds),
                       T(a_trace_holds_every_node_and_every_wait_for_data),
                       T(a_trace_nests_nodes_in_scopes_and_steps_and_counts_memory),
                       T(gradients_of_gradients_have_a_budget_that_is_told_with_the_file),
                       T(memory_that_is_out_is_told_with_what_needs_it),
                       T(a_report_is_one_file),
                       T(the_memory_of_a_report_is_that_of_the_training),
                       T(a_report_of_a_model_that_does_not_train_has_its_graphs)})
