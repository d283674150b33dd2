/* test_drawn.c - what a picture of a graph says is true: the dot text, read by cgraph, is compared with the
 * graph itself. Each drawn node names the nodes that it stands for (attribute `nodes`). Every model of the
 * zoo and random models are drawn, each in many ways. */
#include "graph/core/graph.h"
#include "ops/kit/ops.h"
#include "runtime/plan/program.h"
#include "support/models/random_model.h"
#include "tools/graphtool/diagram/draw.h"
#include "tools/graphtool/output/end.h"

#include "examples/zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a picture, as it is read ---- */

typedef struct picture {
    const weft_graph *graph;
    const weft_node **nodes; /* in the graph's order */
    int n_nodes;
    Agraph_t *text;
    Agnode_t **drawn; /* by place; NULL: the node is not drawn */
    int *place;       /* of a value's node, by the value's id */
    char what[160];
} picture;

static void list_nodes(picture *p) {
    size_t room = (size_t)p->graph->n_nodes + 1;
    p->nodes = test_memory(room * sizeof *p->nodes);
    p->drawn = memset(test_memory(room * sizeof *p->drawn), 0, room * sizeof *p->drawn);
    p->place = test_memory(((size_t)p->graph->next_id + 1) * sizeof *p->place);
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) p->place[n->out[k].id] = p->n_nodes;
        p->nodes[p->n_nodes++] = n;
    }
}

static char *text_of(const diagram *s, const weft_model *m) {
    char *text = NULL;
    size_t length = 0;
    Agraph_t *g = draw_diagram(s, m, "title");
    FILE *f = open_memstream(&text, &length);
    if (!f || agwrite(g, f) || fclose(f)) abort();
    agclose(g);
    return text;
}

static bool is_unit(Agnode_t *n) {
    const char *name = agnameof(n);
    return name[0] == 'n' && name[1] >= '0' && name[1] <= '9';
}

static const char *attribute(void *of, const char *name) {
    const char *value = agget(of, (char *)name);
    return value ? value : "";
}

/* The next node of "12-15 18", after *place within the range up to *to; -1: there is no more. */
static int next_place(const char **at, int *place, int *to) {
    int length = 0;
    if (*place < *to) return ++*place;
    if (sscanf(*at, "%d%n", place, &length) < 1) return -1;
    *at += length;
    *to = *place;
    if (**at == '-' && sscanf(*at, "-%d%n", to, &length) == 1) *at += length;
    return *place;
}

#define EACH_PLACE(n, i)                                                                                     \
    for (struct {                                                                                            \
             const char *at;                                                                                 \
             int place, to;                                                                                  \
         } r = {attribute(n, "nodes"), 0, 0};                                                                \
         (i = next_place(&r.at, &r.place, &r.to)) >= 0;)

static void read_units(picture *p) {
    int i;
    for (Agnode_t *n = agfstnode(p->text); n; n = agnxtnode(p->text, n)) {
        if (!is_unit(n)) continue;
        CHECK_SAYS(*attribute(n, "nodes") || *attribute(n, "output"), "%s: %s stands for nothing", p->what,
                   agnameof(n));
        EACH_PLACE(n, i) {
            if (!CHECK_SAYS(i < p->n_nodes, "%s: there is no node %d", p->what, i)) continue;
            CHECK_SAYS(!p->drawn[i], "%s: node %d is drawn twice", p->what, i);
            p->drawn[i] = n;
        }
    }
}

/* ---- edges ---- */

static Agnode_t *maker(const picture *p, const weft_value *v) {
    return p->drawn[p->place[v->id]];
}

/* Does a node that `to` stands for read a result of one that `from` does? */
static bool reads(const picture *p, Agnode_t *from, Agnode_t *to) {
    int i;
    EACH_PLACE(to, i) {
        const weft_node *n = i < p->n_nodes ? p->nodes[i] : NULL;
        for (int k = 0; n && k < n->n_in; k++)
            if (n->in[k] && maker(p, n->in[k]) == from) return true;
    }
    for (const graph_output *o = p->graph->outputs; o; o = o->next)
        if (strcmp(o->name, attribute(to, "output")) == 0 && maker(p, o->value) == from) return true;
    return false;
}

/* Invisible edges only place things. */
static bool is_seen(Agedge_t *e) {
    return strcmp(attribute(e, "style"), "invis") != 0;
}

static void check_edges(const picture *p) {
    for (Agnode_t *n = agfstnode(p->text); n; n = agnxtnode(p->text, n))
        for (Agedge_t *e = agfstout(p->text, n); e; e = agnxtout(p->text, e)) {
            if (!is_seen(e)) continue;
            bool up = strcmp(attribute(e, "dir"), "back") == 0; /* drawn upwards */
            Agnode_t *from = up ? aghead(e) : agtail(e), *to = up ? agtail(e) : aghead(e);
            CHECK_SAYS(is_unit(from) && is_unit(to) && reads(p, from, to),
                       "%s: no node of %s (%s) reads one of %s (%s)", p->what, agnameof(to),
                       attribute(to, "label"), agnameof(from), attribute(from, "label"));
        }
}

static bool is_joined(const picture *p, Agnode_t *a, Agnode_t *b) {
    for (Agedge_t *e = agfstedge(p->text, a); e; e = agnxtedge(p->text, e, a))
        if (is_seen(e) && (agtail(e) == b || aghead(e) == b)) return true;
    return false;
}

static bool has_edge(const picture *p, Agnode_t *a) {
    for (Agedge_t *e = agfstedge(p->text, a); e; e = agnxtedge(p->text, e, a))
        if (is_seen(e)) return true;
    return false;
}

/* ---- counts ---- */

/* How long the part is that two paths have in common: whole names, and the '/' after them. */
static size_t common_path(const char *a, const char *b) {
    size_t n = 0;
    for (size_t i = 0;; i++) {
        bool ends = !a[i] || !b[i];
        if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/')) n = i + (a[i] == '/' && b[i] == '/');
        if (ends || a[i] != b[i]) return n;
    }
}

static bool is_in_child(const weft_node *n, const char *path, size_t common) {
    size_t length = common + strcspn(path + common, "/");
    return strncmp(n->scope, path, length) == 0 && (!n->scope[length] || n->scope[length] == '/');
}

/* Of the scopes beside each other for which the unit stands: the number of the one in which `path` is, from
 * 0; -1: it is in none of them. */
static int member_of(const picture *p, Agnode_t *unit, const char *path, size_t common) {
    int i, n = -1;
    const char *last = NULL;
    EACH_PLACE(unit, i) {
        const weft_node *k = p->nodes[i];
        if (strncmp(k->scope, path, common) != 0) continue;
        if (!last || !is_in_child(k, last, common)) last = k->scope, n++;
        if (is_in_child(k, path, common)) return n;
    }
    return -1;
}

/* Whether one scope reads of the scope before it, which is drawn as the same one. */
static bool is_of_member_before(const picture *p, int reader, const weft_node *from) {
    const weft_node *n = p->nodes[reader];
    size_t common = common_path(n->scope, from->scope);
    int before = member_of(p, p->drawn[reader], from->scope, common);
    return before >= 0 && member_of(p, p->drawn[reader], n->scope, common) == before + 1;
}

/* Each read between nodes that are drawn apart has its edge, unless it leads to the next of a count; in
 * pictures with gradients, of which some edges are left out, and of rounds each reader has one. */
static void check_joined(const picture *p, bool is_whole) {
    for (int i = 0; i < p->n_nodes; i++) {
        const weft_node *n = p->nodes[i];
        for (int k = 0; p->drawn[i] && k < n->n_in; k++) {
            Agnode_t *from = n->in[k] ? maker(p, n->in[k]) : NULL;
            if (from && from != p->drawn[i])
                CHECK_SAYS(is_whole
                               ? is_joined(p, from, p->drawn[i]) || is_of_member_before(p, i, n->in[k]->node)
                               : has_edge(p, p->drawn[i]),
                           "%s: node %d, %s, reads node %d, and has no edge", p->what, i, n->op->name,
                           p->place[n->in[k]->id]);
        }
    }
}

/* What one scope reads of another that is drawn as the same one, it reads of the one before it. */
static void check_member(const picture *p, int reader, const weft_node *from) {
    const weft_node *n = p->nodes[reader];
    if (n->is_backward != from->is_backward || n->is_update || from->is_update) return;
    if (n->op->flags & OP_COMMUNICATES) return;
    size_t common = common_path(n->scope, from->scope);
    if (!n->scope[common] || !from->scope[common]) return;
    int before = member_of(p, p->drawn[reader], from->scope, common);
    int own = member_of(p, p->drawn[reader], n->scope, common);
    CHECK_SAYS(before < 0 || own == before + 1, "%s: node %d, %s of %s, number %d, reads %s of %s, number %d",
               p->what, reader, n->op->name, n->scope, own, from->op->name, from->scope, before);
}

static void check_counts(const picture *p) {
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; p->drawn[i] && k < p->nodes[i]->n_in; k++)
            if (p->nodes[i]->in[k] && maker(p, p->nodes[i]->in[k]))
                check_member(p, i, p->nodes[i]->in[k]->node);
}

/* ---- what has to be there ---- */

/* Marks, by place, the nodes that outputs, trainings and assignments depend on. */
static bool *needed(const picture *p) {
    bool *is = test_memory((size_t)p->n_nodes + 1);
    memset(is, 0, (size_t)p->n_nodes + 1);
    for (const graph_output *o = p->graph->outputs; o; o = o->next) is[p->place[o->value->id]] = true;
    for (int i = p->n_nodes; i-- > 0;) {
        const weft_node *n = p->nodes[i];
        is[i] |= n->op == &weft_op_minimize || n->op == &weft_op_assign;
        for (int k = 0; is[i] && k < n->n_in; k++)
            if (n->in[k]) is[p->place[n->in[k]->id]] = true;
    }
    return is;
}

static bool assigns(const weft_graph *g, const weft_variable *v) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_assign && n->variable == v) return true;
    return false;
}

/* Parameters are words of their layers unless the graph assigns them; scalar constants are left out. */
static bool is_small(const weft_graph *g, const weft_node *n) {
    if (n->op == &weft_op_parameter) return !assigns(g, n->variable);
    return n->op == &weft_op_constant && type_elements(&n->out[0].type) == 1;
}

static void check_complete(const picture *p, bool all) {
    bool *is = needed(p);
    for (int i = 0; i < p->n_nodes; i++) {
        const weft_node *n = p->nodes[i];
        if (is_small(p->graph, n) || (!all && (!is[i] || n->is_backward || n->is_update))) continue;
        CHECK_SAYS(p->drawn[i] != NULL, "%s: node %d, %s in %s, is missing", p->what, i, n->op->name,
                   n->scope);
    }
    free(is);
}

/* Each output once; and an input is drawn with no op of another kind, unless its scope is closed. */
static void check_ends(const picture *p) {
    int i, outputs = 0, wanted = 0;
    for (const graph_output *o = p->graph->outputs; o; o = o->next) wanted++;
    for (Agnode_t *n = agfstnode(p->text); n; n = agnxtnode(p->text, n)) {
        bool has_input = false, has_other = *attribute(n, "output");
        outputs += *attribute(n, "output") != 0;
        if (!is_unit(n) || strcmp(attribute(n, "shape"), "folder") == 0) continue;
        EACH_PLACE(n, i)
        *(p->nodes[i]->op == &weft_op_input ? &has_input : &has_other) = true;
        CHECK_SAYS(!has_input || !has_other, "%s: %s is an input and another thing", p->what, agnameof(n));
    }
    CHECK_SAYS(outputs == wanted, "%s: %d outputs of %d", p->what, outputs, wanted);
}

/* ---- a part of a graph ---- */

/* How many reads each node is away from one, by place; parameters and scalars lead nowhere. */
static int *distances(const picture *p, int from) {
    int *away = test_memory(((size_t)p->n_nodes + 1) * sizeof *away);
    for (int i = 0; i < p->n_nodes; i++) away[i] = i == from ? 0 : 1000000;
    for (bool shrinks = true; shrinks;) {
        shrinks = false;
        for (int i = 0; i < p->n_nodes; i++)
            for (int k = 0; k < p->nodes[i]->n_in; k++) {
                if (!p->nodes[i]->in[k]) continue;
                int made = p->place[p->nodes[i]->in[k]->id];
                const weft_op *op = p->nodes[made]->op;
                bool leads = made == from || (op != &weft_op_parameter && op != &weft_op_constant);
                if (leads && away[i] > away[made] + 1) away[i] = away[made] + 1, shrinks = true;
                if (away[made] > away[i] + 1) away[made] = away[i] + 1, shrinks = true;
            }
    }
    return away;
}

/* All that is near is drawn, and nothing else. */
static void check_near(const picture *p, int from, int hops) {
    int *away = distances(p, from);
    bool *is = needed(p);
    for (int i = 0; i < p->n_nodes; i++) {
        const weft_op *op = p->nodes[i]->op;
        if (op == &weft_op_parameter || op == &weft_op_constant || op == &weft_op_minimize) continue;
        bool is_near = away[i] <= hops && is[i];
        CHECK_SAYS(!is_near == !p->drawn[i], "%s: node %d, %s, is %d away, and %s", p->what, i, op->name,
                   away[i], p->drawn[i] ? "drawn" : "not drawn");
    }
    free(away);
    free(is);
}

/* The picture of a graph as written, closed by close_picture. */
static picture open_picture(const weft_graph *g, const weft_model *m, const diagram_how *how) {
    diagram s;
    picture p = {.graph = g};
    snprintf(p.what, sizeof p.what, "%.60s, graph %.40s: %d %d %d %d", m->name, g->name, how->collapsing,
             how->max_nodes, how->all, how->is_brief);
    diagram_build(&s, g, how);
    char *text = text_of(&s, m);
    diagram_free(&s);
    p.text = agmemread(text);
    if (!p.text) abort();
    free(text);
    list_nodes(&p);
    read_units(&p);
    return p;
}

static void close_picture(picture *p) {
    agclose(p->text);
    free(p->nodes);
    free(p->drawn);
    free(p->place);
}

static void check_part(const weft_graph *g, const weft_model *m, const weft_node *n, int hops) {
    char name[20];
    snprintf(name, sizeof name, "%%%d", n->id);
    picture p =
        open_picture(g, m, &(diagram_how){.depth = -1, .max_nodes = 10000, .focus = name, .hops = hops});
    check_edges(&p);
    check_near(&p, p.place[n->id], hops);
    close_picture(&p);
}

/* A scope that is expanded is open, though all others are closed. */
static void check_expanded(const weft_graph *g, const weft_model *m, const weft_node *n) {
    text_list paths = {1, {n->scope}};
    picture p = open_picture(g, m, &(diagram_how){.depth = 0, .max_nodes = 10000, .expand = &paths});
    Agnode_t *drawn = p.drawn[p.place[n->id]];
    bool *is = needed(&p);
    CHECK_SAYS(!is[p.place[n->id]] || (drawn && strcmp(attribute(drawn, "shape"), "folder") != 0),
               "%s: %s is not open", p.what, n->scope);
    free(is);
    check_edges(&p);
    close_picture(&p);
}

TEST(parts_of_graphs_are_true) {
    for (int i = 0; i < ZOO_MODELS; i += test_is_quick() ? 4 : 1) {
        weft_model *m = weft_model_new(zoo_models[i].name);
        weft_model_set_batch(m, zoo_models[i].batch);
        zoo_models[i].build(m, &(zoo_options)ZOO_DEFAULTS);
        for (const weft_graph *g = m->graphs; g; g = g->next) {
            int at = 0;
            for (const weft_node *n = g->first; n; n = n->next) {
                if (++at % (g->n_nodes / 5 + 1) || !n->n_out || n->op == &weft_op_constant) continue;
                check_part(g, m, n, at % 4);
                if (*n->scope && n->op != &weft_op_parameter && n->op != &weft_op_state)
                    check_expanded(g, m, n);
            }
        }
        weft_model_free(m);
        tool_close();
    }
}

/* ---- many pictures ---- */

static void check_picture(const weft_graph *g, const weft_model *m, const diagram_how *how) {
    picture p = open_picture(g, m, how);
    check_edges(&p);
    check_joined(&p, !how->all && how->collapsing < COLLAPSE_RUNS);
    /* else units merge, updates of all scopes do, and a round has no scope */
    if (how->max_nodes >= 100000 && how->collapsing < COLLAPSE_RUNS && !how->is_brief) check_counts(&p);
    check_complete(&p, how->all);
    check_ends(&p);
    close_picture(&p);
}

static void check_graph(const weft_graph *g, const weft_model *m, bool all) {
    static const int max_nodes[] = {100000, 100, 31, 4};
    for (int i = 0; i < 24; i++)
        check_picture(g, m,
                      &(diagram_how){.collapsing = (diagram_collapsing)(i % 3),
                                     .depth = i % 5 == 4 ? 1 : -1,
                                     .max_nodes = max_nodes[i / 6],
                                     .all = all,
                                     .is_brief = i / 3 % 2});
    tool_close();
}

/* The graphs as written, with the backward pass, and as they run. */
static void check_model(const weft_model *m, const weft_compile_options *options) {
    static const char *const passes[] = {"optimizer", NULL};
    for (const weft_graph *g = m->graphs; g; g = g->next) check_graph(g, m, false);
    for (int i = 0; i < 2; i++) {
        weft_error e = {0};
        weft_compile_options o = *options;
        o.stop_after = passes[i];
        weft_plan *plan = weft_compile(m, &o, &e);
        CHECK_SAYS(plan != NULL, "%s: %s", m->name, e.text);
        for (int p = 0; plan && p < plan->n_programs; p++) check_graph(plan->programs[p].graph, m, true);
        weft_plan_free(plan);
    }
}

/* In short runs every sixth. */
TEST(pictures_of_the_zoo_are_true) {
    for (int i = 0; i < ZOO_MODELS; i += test_is_quick() ? 6 : 1) {
        weft_model *m = weft_model_new(zoo_models[i].name);
        weft_model_set_batch(m, zoo_models[i].batch);
        zoo_models[i].build(m, &(zoo_options)ZOO_DEFAULTS);
        check_model(m, &(weft_compile_options){.threads = 1});
        weft_model_free(m);
    }
}

TEST(pictures_of_random_models_are_true) {
    uint64_t cases = (uint64_t)test_count(30, 6), seed = test_seed(1);
    for (uint64_t i = seed; i < seed + cases; i++) {
        test_case_begin();
        test_random r = {i};
        int world = 1 + random_below(&r, 4);
        weft_model *m = random_model(&r, world);
        weft_compile_options o = random_options(&r, world);
        check_model(m, &o);
        weft_model_free(m);
        test_case_end(false);
    }
}

/* ---- layers that read each other ---- */

/* Equal layers, most of which read the one before; some outputs read others of them. */
static weft_model *layers_of(test_random *r) {
    enum { MOST = 12 };
    weft_model *m = weft_model_new("layers");
    weft_value *x =
        weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 8});
    weft_value *made[MOST + 1] = {x};
    bool is_read[MOST + 1] = {false};
    int n = 3 + random_below(r, MOST - 2), often = 1 + random_below(r, 6);
    for (int i = 0; i < n; i++) {
        char name[20];
        snprintf(name, sizeof name, "block%d", i);
        int from = random_one_in(r, often) ? random_below(r, i + 1) : i;
        is_read[from] = true;
        WEFT_SCOPE(x, name) made[i + 1] = weft_gelu(weft_linear(made[from], 8, "fc", NULL));
    }
    weft_value *sum = made[n];
    for (int i = 1; i < n; i++)
        if (!is_read[i]) sum = weft_add(sum, made[i]);
    for (int i = random_below(r, 3); i > 0; i--) sum = weft_add(sum, made[random_below(r, n + 1)]);
    weft_value *loss = weft_mean(weft_square(sum), WEFT_ALL, false);
    weft_output(loss, "loss");
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    return m;
}

TEST(layers_of_one_count_read_the_one_before) {
    uint64_t seed = test_seed(41);
    for (uint64_t i = seed; i < seed + (uint64_t)test_count(60, 6); i++) {
        test_case_begin();
        test_random r = {i};
        weft_model *m = layers_of(&r);
        check_model(m, &(weft_compile_options){.threads = 1, .batch = 4});
        weft_model_free(m);
        test_case_end(false);
    }
}

SUITE("drawn", {T(pictures_of_the_zoo_are_true), T(parts_of_graphs_are_true),
                T(layers_of_one_count_read_the_one_before), T(pictures_of_random_models_are_true)})
