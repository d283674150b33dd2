/* test_pictures.c - pictures of graphtool dot: each zoo model's pictures fit a readable page, collapsing
 * leaves out no node and counts none twice, and nodes have tooltips. */
#include "examples/zoo.h"
#include "graph/settings/ddp.h"
#include "runtime/plan/program.h"
#include "support/programs.h"
#include "support/models/random_model.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/diagram/stream_collapse.h"
#include "tools/graphtool/diagram/diagram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pages ---- */

/* Pixels of 1/96 inch; SVG has points, 1/72. */
static int pixels(const char *svg, const char *name) {
    char key[40];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = strstr(svg, key);
    return at ? (int)(atof(at + strlen(key)) * 96 / 72 + 0.5) : -1;
}

static double smallest_font(const char *svg) {
    double smallest = 1e9;
    for (const char *at = svg; (at = strstr(at, "font-size=\"")); at++) {
        double points = atof(at + strlen("font-size=\""));
        if (points < smallest) smallest = points;
    }
    return smallest * 96 / 72;
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

static void check_page(const char *what, const char *svg) {
    int width = pixels(svg, "width"), height = pixels(svg, "height");
    CHECK_SAYS(width > 0 && width <= 1600 && height > 0 && height <= 2400, "%s: %d x %d", what, width,
               height);
    CHECK_SAYS(smallest_font(svg) >= 12, "%s: text of %g pixels", what, smallest_font(svg));
    CHECK_SAYS(count(svg, "class=\"node\"") > 5, "%s: %d nodes", what, count(svg, "class=\"node\""));
}

/* The next place where words are drawn, and its x; NULL: no more. */
static const char *next_x(const char *at, const char *words, double *x) {
    const char *found = at ? strstr(at, words) : NULL, *tag = found;
    while (tag && tag > at && strncmp(tag, " x=\"", 4) != 0) tag--;
    if (tag) *x = atof(tag + 4);
    return found ? found + 1 : NULL;
}

/* Streams of a graph: compute on the left, communication on the right; graphs are in one order. */
static void check_sides(const char *what, const char *svg) {
    const char *compute = svg, *communication = svg;
    double left = 0, right = 0;
    if (count(svg, ">compute stream<") != count(svg, ">communication stream<"))
        return; /* one has no second stream */
    while ((compute = next_x(compute, ">compute stream<", &left))) {
        communication = next_x(communication, ">communication stream<", &right);
        CHECK_SAYS(left > 0 && left < right, "%s: streams at %g and %g", what, left, right);
    }
}

/* The forward pass is on the left, the backward pass on its right, and updates on the far right. */
static void check_phases(const char *what, const char *svg) {
    static const char *const heads[] = {">forward<", ">backward<", ">updates<"};
    double before = -1, x = -1;
    for (int i = 0; i < 3; i++, before = x)
        if (next_x(svg, heads[i], &x))
            CHECK_SAYS(before < x, "%s: %s at %g, after %g", what, heads[i], x, before);
}

/* In short runs a view shows every fourth model, each view others. */
static void check_zoo(const char *options) {
    static int views;
    int stride = test_is_quick() ? 4 : 1, first = views++ % stride;
    for (int i = first; i < ZOO_MODELS; i += stride) {
        char what[200];
        const char *name = zoo_models[i].name;
        snprintf(what, sizeof what, "%s %s", name, options);
        if (!make_model(name)) continue;
        NEED(ends(run("graphtool dot %s.bin %s -T svg -o p.svg && ! test -s err", name, options), 0));
        char *svg = read_all("p.svg");
        check_page(what, svg);
        check_phases(what, svg);
        check_sides(what, svg);
        free(svg);
    }
}

TEST(graphs_of_the_zoo_fit_a_page) {
    check_zoo("");
}

TEST(programs_of_the_zoo_fit_a_page) {
    check_zoo("--view=program");
}

TEST(programs_with_collectives_fit_a_page) {
    check_zoo("--view=program --world 8 --zero 1");
}

TEST(plans_of_the_zoo_fit_a_page) {
    check_zoo("--view=plan --world 2 --ddp :shard=flat,zero=1,bucket_cap_mb=4");
    check_zoo("--view=plan");
    check_zoo("--view=plan --world 8");
    check_zoo("--view=plan --world 4 --zero 1");
}

/* Whatever addresses the process has. */
TEST(a_picture_is_the_same_each_time) {
    static const char *const models[] = {"mlp", "dcgan28", "gpt"}, *const views[] = {"", "--view=program",
                                                                                     "--view=plan --world 2"};
    for (int i = 0; i < 9; i++) {
        const char *model = models[i / 3], *view = views[i % 3];
        if (!make_model(model)) continue;
        ends(
            run("graphtool dot %s.bin %s -o first.dot && for i in 1 2 3 4 5 6; do graphtool dot %s.bin %s -o "
                "again.dot && cmp first.dot again.dot || exit 1; done",
                model, view, model, view),
            0);
    }
}

/* ---- what is on it ---- */

/* What repeats is drawn once, with each of its layers inside. */
TEST(blocks_of_resnets_and_gpts_show_inside) {
    static const struct {
        const char *model, *options, *holds[6];
    } cases[] = {{"resnet50", "", {"conv3  conv2d", "bn3  batch_norm", "downsample", "layer1", "layer4"}},
                 {"resnet18", "", {"short_conv  conv2d", "bn2  batch_norm", "layer2", "layer4"}},
                 {"gpt",
                  "",
                  {"attention", "gelu_tanh", "out  linear",
                   "\xc3\x97"
                   "6"}},
                 {"gpt",
                  "--view=program",
                  {"attention_backward", "gelu_tanh_backward",
                   "\xc3\x97"
                   "6"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!make_model(cases[i].model)) continue;
        NEED(ends(run("graphtool dot %s.bin %s -o p.dot", cases[i].model, cases[i].options), 0));
        char *dot = read_all("p.dot");
        for (int k = 0; cases[i].holds[k]; k++) CHECK_HOLDS(dot, cases[i].holds[k]);
        free(dot);
    }
}

TEST(nodes_tell_name_shape_bytes_and_kernel) {
    NEED(make_model("mlp"));
    NEED(ends(run("graphtool dot mlp.bin --view=program --isa reference -T svg -o p.svg"), 0));
    char *svg = read_all("p.svg");
    CHECK_HOLDS(svg, "xlink:title=\"linear in net/fc1");
    CHECK_HOLDS(svg, "f32[256,1024], 1.0 MiB");
    CHECK_HOLDS(svg, "kernel: reference");
    free(svg);
    NEED(ends(run("graphtool dot mlp.bin -T svg -o p.svg"), 0));
    svg = read_all("p.svg");
    CHECK_HOLDS(svg, "f32[256,1024], 1.0 MiB");
    CHECK(!strstr(svg, "kernel:"));
    free(svg);
    NEED(ends(run("graphtool dot mlp.bin --view=plan --world 2 -T svg -o p.svg"), 0));
    svg = read_all("p.svg");
    CHECK_HOLDS(svg, "xlink:title=\"all_reduce");
    free(svg);
}

/* Asked for, depth and nodes are given, whatever the page. */
TEST(asked_for_all_is_shown) {
    NEED(make_model("resnet18"));
    NEED(ends(run("graphtool dot resnet18.bin --max-nodes 1000 -o p.dot"), 0));
    char *dot = read_all("p.dot");
    CHECK_SAYS(count(dot, "  conv2d") == 18, "%d", count(dot, "  conv2d")); /* of 20: two blocks are equal */
    free(dot);
    NEED(ends(run("graphtool dot resnet18.bin --all --max-nodes 1000 -o p.dot && "
                  "graphtool dot resnet18.bin --all -T svg -o p.svg"),
              0));
    dot = read_all("p.dot");
    CHECK_SAYS(count(dot, "conv2d_weight") >= 20, "%d", count(dot, "conv2d_weight"));
    free(dot);
}

/* ---- collapsing ---- */

static int items_of(const weft_graph *g) {
    int n = 0;
    for (const weft_node *i = g->first; i; i = i->next)
        n += strcmp(i->op->name, "parameter") != 0 &&
             !(strcmp(i->op->name, "constant") == 0 && type_elements(&i->out[0].type) == 1);
    for (const graph_output *o = g->outputs; o; o = o->next) n++;
    return n;
}

static void check_diagram(const weft_graph *g, const diagram_how *how) {
    diagram s;
    diagram_build(&s, g, how);
    if (how->all) CHECK(s.n_items == items_of(g));
    for (int b = 1; s.n_units > how->max_nodes && b < s.n_boxes; b++)
        CHECK_SAYS(s.boxes[b].is_closed || s.boxes[b].run || s.boxes[b].is_bare,
                   "%d units of at most %d, and %s is open", s.n_units, how->max_nodes, s.boxes[b].path);
    int *stands = test_memory(sizeof(int) * (size_t)(s.n_units + 1)), sum = 0;
    memset(stands, 0, sizeof(int) * (size_t)(s.n_units + 1));
    for (int i = 0; i < s.n_items; i++) {
        const diagram_item *item = &s.items[i];
        NEED(item->unit >= s.units && item->unit < s.units + s.n_units);
        CHECK(item->representative->representative == item->representative);
        CHECK(item->unit == item->representative->unit);
        stands[item->unit - s.units]++;
    }
    for (int u = 0; u < s.n_units; sum += s.units[u++].stands)
        CHECK_SAYS(stands[u] == s.units[u].stands, "unit %d: %d and %d", u, stands[u], s.units[u].stands);
    CHECK_SAYS(sum == s.n_items, "%d of %d items", sum, s.n_items);
    for (int e = 0; e < s.n_edges; e++) {
        CHECK(s.edges[e].from < s.units + s.n_units && s.edges[e].to < s.units + s.n_units);
    }
    free(stands);
    diagram_free(&s);
}

static void check_diagrams(const weft_graph *g) {
    static const int max_nodes[] = {4, 20, 1000000};
    for (int i = 0; i < 36; i++)
        check_diagram(g, &(diagram_how){.collapsing = (diagram_collapsing)(i % 3),
                                        .all = i / 3 % 2,
                                        .depth = i / 6 % 2 ? 1 + i % 4 : -1,
                                        .max_nodes = max_nodes[i / 12]});
}

static void check_rows(const weft_plan *plan) {
    stream_list list = stream_list_of(plan);
    for (int i = 0; i < 2 * list.n; i++) {
        const streams *l = &list.v[i / 2];
        int rows = 0, drawn = 0;
        stream_collapse f = stream_collapse_of(l, i % 2);
        for (int k = 0; k < f.n_steps; rows += f.steps[k++].n_rows) {
            CHECK(f.steps[k].row == rows && f.step_of[rows] == &f.steps[k]);
            const stream_step *first = f.steps[k].representative;
            CHECK(first->representative == first && first <= &f.steps[k]);
            CHECK(first->kinds == f.steps[k].kinds);
            drawn += first == &f.steps[k] ? f.steps[k].rounds : 0;
        }
        CHECK_SAYS(rows == l->n_rows && drawn == f.n_steps, "%d of %d rows, %d of %d steps", rows, l->n_rows,
                   drawn, f.n_steps);
    }
    tool_close();
}

static weft_value *random_layers(weft_value *x, test_random *r, int depth) {
    int parts = 1 + random_below(r, 4), rounds = 1 + random_below(r, 3);
    int64_t width = 2 + random_below(r, 3);
    uint64_t again = r->state;
    for (int i = 0; i < parts; i++) {
        char name[16];
        if (random_below(r, 3)) r->state = again; /* as the one before */
        again = r->state;
        snprintf(name, sizeof name, "%s%d", random_below(r, 8) ? "b" : "c", i);
        WEFT_SCOPE(x, name) {
            for (int k = 0; k < rounds; k++) {
                snprintf(name, sizeof name, "fc%d", k);
                x = weft_relu(weft_linear(x, width, name, NULL));
            }
            if (depth > 0 && random_below(r, 2)) x = random_layers(x, r, depth - 1);
            if (random_below(r, 4) == 0) x = weft_add(x, weft_tanh(x));
        }
    }
    return x;
}

static weft_model *draw_model(test_random *r, uint64_t seed, int world) {
    if (seed % 2) return random_model(r, world);
    weft_model *m = weft_model_new("layers");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
    x = weft_mean(weft_square(random_layers(x, r, 3)), WEFT_ALL, false);
    weft_minimize(x, "", &(weft_optimizer){.type = "adam"});
    weft_output(x, "loss");
    return m;
}

TEST(folding_counts_every_node_once) {
    uint64_t cases = (uint64_t)test_count(60, 20), seed = test_seed(1);
    for (uint64_t i = seed; i < seed + cases; i++) {
        test_case_begin();
        test_random r = {i};
        int world = 1 + random_below(&r, 4);
        weft_error e = {0};
        weft_model *m = draw_model(&r, i, world);
        weft_compile_options o = random_options(&r, world);
        weft_plan *plan = weft_compile(m, &o, &e);
        CHECK_SAYS(plan != NULL, "seed %llu: %s", (unsigned long long)i, e.text);
        for (const weft_graph *g = m->graphs; g; g = g->next) check_diagrams(g);
        for (int p = 0; plan && p < plan->n_programs; p++) check_diagrams(plan->programs[p].graph);
        if (plan) check_rows(plan);
        weft_plan_free(plan);
        weft_model_free(m);
        test_case_end(false);
    }
}

TEST(random_models_fit_a_page) {
    static const char *const views[] = {"graph", "program --world 2", "plan --world 2 --zero 1"};
    uint64_t cases = (uint64_t)test_count(12, 3), seed = test_seed(1);
    for (uint64_t i = seed; i < seed + cases; i++) {
        test_case_begin();
        test_random r = {i};
        weft_error e = {0};
        char path[300], what[100];
        weft_model *m = draw_model(&r, i, 2);
        for (ddp_entry *d = m->ddps; d; d = d->next) d->attrs.zero = 0; /* else --zero may have no effect */
        NEED(ends(run("true"), 0));                                     /* makes the folder */
        path_of("r.bin", path);
        CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
        for (int k = 0; k < 3; k++) {
            snprintf(what, sizeof what, "seed %llu, %s", (unsigned long long)i, views[k]);
            if (!CHECK_SAYS(run("graphtool dot r.bin --view=%s -T svg -o r.svg && ! test -s err", views[k]) ==
                                0,
                            "%s", what))
                continue;
            char *svg = read_all("r.svg");
            check_page(what, svg);
            check_phases(what, svg);
            check_sides(what, svg);
            free(svg);
        }
        weft_model_free(m);
        test_case_end(false);
    }
}

/* Thousands of nodes without a scope: runs of them, or as many parts as fit. */
TEST(long_graphs_without_scopes_fit_a_page) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("long");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_EVAL), "x", WEFT_F32, 2, (int64_t[]){4, 3});
    for (int i = 0; i < 3000; i++) x = i % 3 ? weft_tanh(x) : weft_relu(x);
    weft_output(x, "y");
    NEED(ends(run("true"), 0)); /* makes the folder */
    path_of("long.bin", path);
    CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
    NEED(ends(run("graphtool dot long.bin -T svg -o l.svg"), 0));
    char *svg = read_all("l.svg");
    check_page("long.bin", svg);
    CHECK_HOLDS(svg, "\xc3\x97"
                     "1000");
    free(svg);
}

SUITE("pictures",
      {T(graphs_of_the_zoo_fit_a_page), T(programs_of_the_zoo_fit_a_page),
       T(programs_with_collectives_fit_a_page), T(plans_of_the_zoo_fit_a_page),
       T(a_picture_is_the_same_each_time), T(blocks_of_resnets_and_gpts_show_inside),
       T(nodes_tell_name_shape_bytes_and_kernel), T(asked_for_all_is_shown), T(random_models_fit_a_page),
       T(long_graphs_without_scopes_fit_a_page), T(folding_counts_every_node_once)})
