/* test_tools_diff.c - graphtool diff: edits that the test makes are what is reported, and nothing else; a
 * model and itself are the same; exchanged, the changes are mirrored. A net is a list of layers that the test
 * edits before it builds it, so it knows what must be reported. */
#include "graph/settings/ddp.h"
#include "runtime/plan/value.h"
#include "support/models/random_model.h"
#include "support/programs.h"
#include "tools/graphtool/diff/sequence.h"
#include "tools/graphtool/diff/sums.h"
#include "tools/graphtool/output/end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sequences ---- */

/* The length of a longest common subsequence, by the table that textbooks have. */
static int longest(const uint64_t *a, int n, const uint64_t *b, int m) {
    int best[41][41] = {{0}};
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int either = best[i - 1][j] > best[i][j - 1] ? best[i - 1][j] : best[i][j - 1];
            best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : either;
        }
    return best[n][m];
}

TEST(subsequences_are_common_and_as_long_as_can_be) {
    test_random r = {test_seed(11)};
    for (int round = 0; round < test_count(20000, 2000); round++) {
        uint64_t a[40], b[40];
        int pair[40], n = random_below(&r, 41), m = random_below(&r, 41), kinds = 1 + random_below(&r, 9);
        for (int i = 0; i < n; i++) a[i] = (uint64_t)random_below(&r, kinds);
        for (int i = 0; i < m; i++) b[i] = (uint64_t)random_below(&r, kinds);
        sequence_match(a, n, b, m, pair);
        int found = 0, last = -1;
        for (int i = 0; i < n; i++) {
            if (pair[i] < 0) continue;
            CHECK(pair[i] > last && pair[i] < m && a[i] == b[pair[i]]);
            last = pair[i], found++;
        }
        CHECK_SAYS(found == longest(a, n, b, m), "round %d: %d of %d", round, found, longest(a, n, b, m));
    }
}

TEST(long_sequences_of_many_edits_have_a_common_part) {
    enum { N = 6000 };
    static uint64_t a[N], b[N];
    static int pair[N];
    test_random r = {test_seed(12)};
    for (int i = 0; i < N; i++) a[i] = (uint64_t)random_below(&r, 40), b[i] = (uint64_t)random_below(&r, 40);
    sequence_match(a, N, b, N, pair);
    int found = 0, last = -1;
    for (int i = 0; i < N; i++) {
        if (pair[i] < 0) continue;
        CHECK(pair[i] > last && a[i] == b[pair[i]]);
        last = pair[i], found++;
    }
    CHECK(found > N / 8);
}

/* ---- nets ---- */

typedef enum layer_kind { LINEAR, RELU, TANH, LEAKY, NORM, BLOCK, LAYER_KINDS } layer_kind;
enum { MOST = 24 };

typedef struct net_layer {
    layer_kind kind;
    char name[20];
    int width;    /* of LINEAR and BLOCK */
    double slope; /* of LEAKY */
} net_layer;

typedef struct net {
    int n;
    net_layer v[MOST];
    double lr;
    bool has_eval;
    int renamed; /* layers so far */
} net;

static net_layer layer_of(test_random *r, int number) {
    net_layer l = {.kind = (layer_kind)random_below(r, LAYER_KINDS),
                   .width = 5 + random_below(r, 9),
                   .slope = 0.1 + 0.01 * number};
    /* no two have a stem in common */
    snprintf(l.name, sizeof l.name, "%c%c", 'a' + number / 26, 'a' + number % 26);
    return l;
}

static net net_of(test_random *r) {
    net net = {.n = 3 + random_below(r, MOST - 8), .lr = 0.1, .has_eval = random_one_in(r, 2)};
    for (int i = 0; i < net.n; i++) net.v[i] = layer_of(r, i);
    return net;
}

static weft_value *build_layer(weft_value *x, const net_layer *l) {
    WEFT_SCOPE(x, l->name) {
        if (l->kind == LINEAR) x = weft_linear(x, l->width, "fc", NULL);
        if (l->kind == RELU) x = weft_relu(x);
        if (l->kind == TANH) x = weft_tanh(x);
        if (l->kind == LEAKY) x = weft_leaky_relu(x, l->slope);
        if (l->kind == NORM) x = weft_layer_norm(x, "norm", NULL);
        if (l->kind == BLOCK)
            x = weft_linear(weft_gelu(weft_linear(x, 7, "up", NULL)), l->width, "down", NULL);
    }
    return x;
}

static void build_graph(weft_model *m, const net *net, const char *name, weft_mode mode) {
    weft_value *x = weft_input(weft_graph_new(m, name, mode), "x", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 6});
    x = weft_linear(x, 6, "first", NULL); /* some layer has parameters */
    for (int i = 0; i < net->n; i++) x = build_layer(x, &net->v[i]);
    weft_value *loss = weft_mean(weft_square(x), WEFT_ALL, false);
    if (mode == WEFT_TRAIN) weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = net->lr});
    weft_output(loss, "loss");
}

static weft_model *build(const net *net) {
    weft_model *m = weft_model_new("net");
    build_graph(m, net, "train", WEFT_TRAIN);
    if (net->has_eval) build_graph(m, net, "eval", WEFT_EVAL);
    return m;
}

/* ---- what is expected ---- */

/* Lines "changed node aa leaky_relu", sorted. */
typedef struct said {
    int n;
    char v[4 * MOST][120];
} said;

static void expect(said *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void expect(said *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (s->n < (int)(sizeof s->v / sizeof *s->v)) vsnprintf(s->v[s->n++], sizeof *s->v, format, args);
    va_end(args);
}

static int by_words(const void *a, const void *b) {
    return strcmp(a, b);
}

static void check_said(said *got, said *want, uint64_t seed, const char *edit) {
    qsort(got->v, (size_t)got->n, sizeof *got->v, by_words);
    qsort(want->v, (size_t)want->n, sizeof *want->v, by_words);
    bool is_same = got->n == want->n;
    for (int i = 0; i < got->n && is_same; i++) is_same = strcmp(got->v[i], want->v[i]) == 0;
    CHECK_SAYS(is_same, "seed %llu, %s: %d changes, %d expected", (unsigned long long)seed, edit, got->n,
               want->n);
    for (int i = 0; i < got->n && !is_same; i++) printf("  got   %s\n", got->v[i]);
    for (int i = 0; i < want->n && !is_same; i++) printf("  want  %s\n", want->v[i]);
}

/* Nodes of a layer as it is built, for a layer that is added or removed: in each graph. */
static void expect_layer(said *s, const net *net, const net_layer *l, const char *kind) {
    static const char *const ops[] = {
        [RELU] = "relu", [TANH] = "tanh", [LEAKY] = "leaky_relu", [NORM] = "layer_norm"};
    for (int g = 0; g < 1 + net->has_eval; g++) {
        if (l->kind == LINEAR) expect(s, "%s node %s/fc linear", kind, l->name);
        if (l->kind == BLOCK) {
            expect(s, "%s node %s/up linear", kind, l->name);
            expect(s, "%s node %s gelu", kind, l->name);
            expect(s, "%s node %s/down linear", kind, l->name);
        }
        if (l->kind == NORM) expect(s, "%s node %s/norm layer_norm", kind, l->name);
        if (l->kind == RELU || l->kind == TANH || l->kind == LEAKY)
            expect(s, "%s node %s %s", kind, l->name, ops[l->kind]);
    }
    const char *in = l->kind == LINEAR ? "fc" : l->kind == NORM ? "norm" : l->kind == BLOCK ? "up" : NULL;
    if (in) expect(s, "%s parameter %s/%s/weight parameter", kind, l->name, in);
    if (in) expect(s, "%s parameter %s/%s/bias parameter", kind, l->name, in);
    if (l->kind != BLOCK) return;
    expect(s, "%s parameter %s/down/weight parameter", kind, l->name);
    expect(s, "%s parameter %s/down/bias parameter", kind, l->name);
}

/* ---- edits ---- */

/* The width that layer `at` reads. */
static int width_before(const net *net, int at) {
    int width = 6;
    for (int i = 0; i < at; i++)
        if (net->v[i].kind == LINEAR || net->v[i].kind == BLOCK) width = net->v[i].width;
    return width;
}

static bool insert(test_random *r, net *net, said *s) {
    int at = random_below(r, net->n + 1);
    net_layer made = layer_of(r, MOST + net->n);
    made.width = width_before(net, at);
    if (net->n == MOST) return false;
    memmove(&net->v[at + 1], &net->v[at], (size_t)(net->n - at) * sizeof *net->v);
    net->v[at] = made;
    net->n++;
    expect_layer(s, net, &made, "added");
    return true;
}

static bool delete (test_random *r, net *net, said *s) {
    int at = random_below(r, net->n);
    const net_layer gone = net->v[at];
    bool keeps_width = (gone.kind != LINEAR && gone.kind != BLOCK) || gone.width == width_before(net, at);
    if (!keeps_width) return false;
    memmove(&net->v[at], &net->v[at + 1], (size_t)(net->n - at - 1) * sizeof *net->v);
    net->n--;
    expect_layer(s, net, &gone, "removed");
    return true;
}

static bool change_slope(test_random *r, net *net, said *s) {
    net_layer *l = &net->v[random_below(r, net->n)];
    if (l->kind != LEAKY) return false;
    l->slope += 0.5;
    for (int g = 0; g < 1 + net->has_eval; g++) expect(s, "changed node %s leaky_relu", l->name);
    return true;
}

static bool change_op(test_random *r, net *net, said *s) {
    net_layer *l = &net->v[random_below(r, net->n)];
    if (l->kind != RELU) return false;
    l->kind = TANH;
    for (int g = 0; g < 1 + net->has_eval; g++) expect(s, "changed node %s relu", l->name);
    return true;
}

/* The weights after it are as wide as what they read; that is a consequence. */
static bool change_width(test_random *r, net *net, said *s) {
    net_layer *l = &net->v[random_below(r, net->n)];
    if (l->kind != LINEAR && l->kind != BLOCK) return false;
    l->width += 11;
    const char *in = l->kind == LINEAR ? "fc" : "down";
    expect(s, "changed parameter %s/%s/weight parameter", l->name, in);
    expect(s, "changed parameter %s/%s/bias parameter", l->name, in);
    return true;
}

/* In each graph the scope is one change; its parameters have other paths, and are the same. */
static bool rename_scope(test_random *r, net *net, said *s) {
    net_layer *l = &net->v[random_below(r, net->n)];
    if (l->kind != LINEAR && l->kind != BLOCK && l->kind != NORM) return false;
    for (int g = 0; g < 1 + net->has_eval; g++) expect(s, "changed scope %s ", l->name);
    snprintf(l->name, sizeof l->name, "new%c", 'a' + net->renamed++);
    return true;
}

static bool change_rate(test_random *r, net *net, said *s) {
    (void)r;
    net->lr *= 2;
    expect(s, "changed node  minimize");
    return true;
}

static bool toggle_graph(test_random *r, net *net, said *s) {
    (void)r;
    net->has_eval = !net->has_eval;
    expect(s, "%s graph eval ", net->has_eval ? "added" : "removed");
    return true;
}

static const struct edit {
    const char *name;
    bool (*make)(test_random *r, net *net, said *s);
} edits[] = {{"insert", insert},    {"delete", delete},      {"slope", change_slope},
             {"op", change_op},     {"width", change_width}, {"rename", rename_scope},
             {"rate", change_rate}, {"graph", toggle_graph}};
enum { EDITS = sizeof edits / sizeof *edits };

/* ---- comparing ---- */

typedef struct both {
    weft_model *m[2];
    weft_plan *p[2];
    weft_compile_options how;
    const difference *written[2], *running[2]; /* of the first and the second, and exchanged */
} both;

static bool compare(both *x) {
    weft_error e = {0};
    for (int i = 0; i < 2; i++) {
        x->how.threads = 1;
        x->p[i] = weft_compile(x->m[i], &x->how, &e);
        if (!CHECK_SAYS(x->p[i] != NULL, "%s", e.text)) return false;
    }
    for (int i = 0; i < 2; i++) {
        x->written[i] = diff_models((const weft_model *const[]){x->m[i], x->m[!i]},
                                    (const weft_plan *const[]){x->p[i], x->p[!i]});
        x->running[i] = diff_plans(x->p[i], x->p[!i]);
    }
    return true;
}

static void close_both(both *x) {
    tool_close();
    for (int i = 0; i < 2; i++) {
        weft_plan_free(x->p[i]);
        weft_model_free(x->m[i]);
    }
}

static void collect_own(said *s, const difference *d) {
    for (int i = 0; i < d->n; i++)
        if (!d->v[i].follows)
            expect(s, "%s %s %s %s", diff_kinds[d->v[i].kind], diff_whats[d->v[i].what], d->v[i].path,
                   d->v[i].op);
}

/* What is the same whichever of the two comes first. */
static void mirror_line(char line[120], const diff_change *c, bool is_exchanged) {
    static const diff_kind exchanged[] = {DIFF_REMOVED, DIFF_ADDED, DIFF_CHANGED};
    const weft_node *first = c->node[is_exchanged], *second = c->node[!is_exchanged];
    snprintf(line, 120, "%d %d %d %d %d %s", is_exchanged ? exchanged[c->kind] : c->kind, c->what, c->follows,
             first ? first->id : -1, second ? second->id : -1, c->what == DIFF_GRAPH ? c->path : "");
}

static void check_mirror(const difference *a, const difference *b, uint64_t seed) {
    char(*lines[2])[120] = {test_memory((size_t)a->n * 120 + 120), test_memory((size_t)b->n * 120 + 120)};
    CHECK_SAYS(a->n == b->n, "seed %llu: %d changes, exchanged %d", (unsigned long long)seed, a->n, b->n);
    for (int i = 0; i < a->n; i++) mirror_line(lines[0][i], &a->v[i], false);
    for (int i = 0; i < b->n; i++) mirror_line(lines[1][i], &b->v[i], true);
    qsort(lines[0], (size_t)a->n, sizeof *lines[0], by_words);
    qsort(lines[1], (size_t)b->n, sizeof *lines[1], by_words);
    for (int i = 0; i < a->n && a->n == b->n; i++)
        if (!CHECK_SAYS(strcmp(lines[0][i], lines[1][i]) == 0, "seed %llu: '%s', exchanged '%s'",
                        (unsigned long long)seed, lines[0][i], lines[1][i]))
            break;
    free(lines[0]);
    free(lines[1]);
}

static const weft_variable *variable_of(const weft_node *n) {
    return n->op->flags & OP_IS_VARIABLE && !n->n_in ? n->variable : NULL;
}

/* Of nodes that no change names: that the two of a pair are alike, and that every node is counted. */
static void check_rest(const difference *d, uint64_t seed) {
    for (int g = 0; g < d->n_graphs; g++) {
        const diff_graph *graph = &d->graphs[g];
        int alone[2] = {0}, count[2] = {0};
        if (!graph->pair) continue;
        for (int i = 0; i < d->n; i++)
            if (d->v[i].graph == g && d->v[i].what == DIFF_NODE && d->v[i].kind != DIFF_CHANGED)
                alone[d->v[i].kind == DIFF_ADDED]++;
        for (int side = 0; side < 2; side++)
            for (const weft_node *n = graph->g[side]->first; n; n = n->next) count[side] += !variable_of(n);
        CHECK_SAYS(count[0] - alone[0] == count[1] - alone[1], "seed %llu: %d - %d and %d - %d nodes",
                   (unsigned long long)seed, count[0], alone[0], count[1], alone[1]);
        for (const weft_node *n = graph->g[0]->first; n; n = n->next) {
            const weft_node *other = match_other(graph->pair, 0, n);
            bool is_named = false;
            for (int i = 0; i < d->n; i++) is_named |= d->v[i].node[0] == n;
            if (is_named || !other || variable_of(n)) continue;
            CHECK(n->op == other->op && n->n_in == other->n_in && n->n_out == other->n_out);
            for (int k = 0; k < n->n_out && k < other->n_out; k++)
                CHECK(type_equal(&n->out[k].type, &other->out[k].type));
            for (int k = 0; k < n->n_in && k < other->n_in; k++)
                CHECK(!n->in[k] == !other->in[k] &&
                      (!n->in[k] || match_other(graph->pair, 0, n->in[k]->node) == other->in[k]->node));
        }
    }
}

static void check_exchanged(const both *x, uint64_t seed) {
    check_mirror(x->written[0], x->written[1], seed);
    check_mirror(x->running[0], x->running[1], seed);
    check_rest(x->written[0], seed);
    check_rest(x->running[0], seed);
}

/* ---- cases ---- */

TEST(an_edit_is_what_is_reported) {
    uint64_t first = test_seed(1);
    int made[EDITS] = {0};
    for (int i = 0; i < test_count(400, 80); i++) {
        uint64_t seed = first + (uint64_t)i;
        test_random r = {seed};
        const net before = net_of(&r);
        net after = before;
        said want = {0}, got = {0};
        const struct edit *e = &edits[i % EDITS];
        test_case_begin();
        bool is_made = false;
        for (int tries = 0; tries < 40 && !is_made; tries++) is_made = e->make(&r, &after, &want);
        if (is_made) {
            both x = {.m = {build(&before), build(&after)}};
            if (compare(&x)) {
                collect_own(&got, x.written[0]);
                check_said(&got, &want, seed, e->name);
                check_exchanged(&x, seed);
            }
            close_both(&x);
            made[i % EDITS]++;
        }
        test_case_end(!is_made);
    }
    for (int i = 0; i < EDITS; i++) CHECK_SAYS(made[i] > 0, "no case of %s", edits[i].name);
}

TEST(several_edits_are_what_is_reported) {
    uint64_t first = test_seed(5001);
    for (int i = 0; i < test_count(300, 60); i++) {
        test_random r = {first + (uint64_t)i};
        const net before = net_of(&r);
        net after = before;
        both x = {0};
        for (int k = 0; k < 4; k++) edits[random_below(&r, EDITS)].make(&r, &after, &(said){0});
        x.m[0] = build(&before), x.m[1] = build(&after);
        if (compare(&x)) check_exchanged(&x, first + (uint64_t)i);
        close_both(&x);
    }
}

static void number_names(net *net) {
    for (int i = 0; i < net->n; i++) snprintf(net->v[i].name, sizeof net->v[i].name, "%d", i);
}

/* Layers that are counted have other names after one that was inserted: those follow, and change neither
 * nodes nor parameters. */
TEST(an_inserted_layer_does_not_change_those_after_it) {
    uint64_t first = test_seed(7001);
    for (int i = 0; i < test_count(200, 40); i++) {
        test_random r = {first + (uint64_t)i};
        net before = net_of(&r), after = before;
        said want = {0}, got = {0};
        if (!insert(&r, &after, &want)) continue;
        number_names(&before);
        number_names(&after);
        both x = {.m = {build(&before), build(&after)}};
        if (compare(&x)) {
            const difference *d = x.written[0];
            for (int k = 0; k < d->n; k++)
                if (!d->v[k].follows)
                    expect(&got, "%s %s %s", diff_kinds[d->v[k].kind], diff_whats[d->v[k].what], d->v[k].op);
            for (int k = 0; k < want.n; k++) { /* without its name, as a layer beside it may be the same */
                char kind[20], what[20], path[60], op[40];
                if (sscanf(want.v[k], "%19s %19s %59s %39s", kind, what, path, op) == 4)
                    snprintf(want.v[k], sizeof want.v[k], "%s %s %s", kind, what, op);
            }
            check_said(&got, &want, first + (uint64_t)i, "insert");
            check_mirror(x.written[0], x.written[1], first + (uint64_t)i);
        }
        close_both(&x);
    }
}

TEST(random_models_are_the_same_as_themselves_and_mirrored_with_others) {
    uint64_t first = test_seed(9001);
    for (int i = 0; i < test_count(200, 40); i++) {
        uint64_t seed = first + (uint64_t)i;
        test_random r = {seed}, again = {seed};
        int world = i % 2 ? 4 : 1;
        both x = {.m = {random_model(&r, world), random_model(&again, world)}, .how = {.world = world}};
        if (compare(&x))
            CHECK_SAYS(x.written[0]->n == 0 && x.running[0]->n == 0, "seed %llu: %d and %d changes",
                       (unsigned long long)seed, x.written[0]->n, x.running[0]->n);
        close_both(&x);
        x = (both){.m = {random_model(&again, world), NULL}, .how = {.world = world, .zero = i % 3}};
        x.m[1] = random_model(&again, world);
        if (compare(&x)) check_exchanged(&x, seed);
        close_both(&x);
    }
}

/* Two plans of one model: as it is written, nothing differs but settings. */
TEST(random_plans_of_one_model_differ_in_settings_alone) {
    uint64_t first = test_seed(4001);
    for (int i = 0; i < test_count(120, 24); i++) {
        uint64_t seed = first + (uint64_t)i;
        test_random r = {seed};
        weft_error e = {0};
        both x = {.m = {random_model(&r, 4), NULL}};
        for (int k = 0; k < 2; k++) {
            x.how = random_options(&r, 4);
            x.p[k] = weft_compile(x.m[0], &x.how, &e);
        }
        if (x.p[0] && x.p[1]) {
            const difference *d = diff_models((const weft_model *const[]){x.m[0], x.m[0]},
                                              (const weft_plan *const[]){x.p[0], x.p[1]});
            for (int k = 0; k < d->n; k++)
                CHECK_SAYS(d->v[k].what == DIFF_SETTING, "seed %llu: %s", (unsigned long long)seed,
                           d->v[k].path);
            CHECK(d->n > 0 || x.p[0]->fingerprint == x.p[1]->fingerprint);
            x.running[0] = diff_plans(x.p[0], x.p[1]);
            x.running[1] = diff_plans(x.p[1], x.p[0]);
            check_mirror(x.running[0], x.running[1], seed);
            check_rest(x.running[0], seed);
        }
        close_both(&x);
    }
}

/* ---- small graphs ---- */

static weft_model *begin(weft_value **x) {
    weft_model *m = weft_model_new("small");
    *x = weft_input(weft_graph_new(m, "val", WEFT_EVAL), "x", WEFT_F32, 2, (int64_t[]){2, 8});
    return m;
}

/* Whether the one change that is not a consequence is of that kind and has these words. */
static void check_one(weft_model *a, weft_model *b, const char *kind, const char *path, const char *words) {
    both x = {.m = {a, b}};
    if (compare(&x)) {
        const difference *d = x.written[0];
        const diff_change *own = NULL;
        int n = 0;
        for (int i = 0; i < d->n; i++)
            if (!d->v[i].follows) own = &d->v[i], n++;
        CHECK_SAYS(n == 1, "%s of %s: %d changes", kind, path, n);
        for (int i = 0; i < d->n && n != 1; i++)
            printf("  %d %s %s\n", d->v[i].follows, d->v[i].path, d->v[i].text);
        if (n == 1) {
            CHECK_TEXT(diff_whats[own->what], kind);
            CHECK_TEXT(own->path, path);
            CHECK_TEXT(own->text, words);
        }
        check_mirror(d, x.written[1], 0);
    }
    close_both(&x);
}

/* Layers of one kind with numbers, each with a slope of its own; another width, and one more of them. */
static weft_model *counted(int64_t width, int with) {
    weft_value *x;
    weft_model *m = begin(&x);
    x = weft_linear(x, width, "in", NULL);
    for (int i = 0, number = 0; i < 9; i++) {
        char name[20];
        if (i == 4 && !with) continue;
        snprintf(name, sizeof name, "layer%d", number++);
        WEFT_SCOPE(x, name) x = weft_leaky_relu(weft_linear(x, width, "fc", NULL), 0.01 * (i + 1));
    }
    weft_output(x, "y");
    return m;
}

TEST(counted_layers_are_found_where_their_shapes_changed_too) {
    both x = {.m = {counted(8, false), counted(12, true)}};
    said got = {0}, want = {0};
    expect(&want, "added node layer4 leaky_relu");
    expect(&want, "added node layer4/fc linear");
    expect(&want, "added parameter layer4/fc/bias parameter");
    expect(&want, "added parameter layer4/fc/weight parameter");
    expect(&want, "changed parameter in/bias parameter");
    expect(&want, "changed parameter in/weight parameter");
    if (compare(&x)) {
        collect_own(&got, x.written[0]);
        check_said(&got, &want, 0, "counted");
        check_exchanged(&x, 0);
    }
    close_both(&x);
}

/* What a node reads is its own change where both values are in both graphs. */
static weft_model *reading(bool second) {
    weft_value *x, *a = NULL, *b = NULL;
    weft_model *m = begin(&x);
    WEFT_SCOPE(x, "a") a = weft_relu(x);
    WEFT_SCOPE(x, "b") b = weft_tanh(x);
    weft_output(a, "a");
    weft_output(b, "b");
    WEFT_SCOPE(x, "c") x = weft_mul(second ? b : a, x);
    weft_output(x, "y");
    return m;
}

TEST(reading_another_value_is_a_change) {
    check_one(reading(false), reading(true), "node", "c", "reads relu of a -> tanh of b");
}

/* Values of one op and scope: their attributes, the result or the id set them apart. */
static weft_model *reading_part(bool is_second) {
    weft_value *x, *part[2];
    weft_model *m = begin(&x);
    weft_chunk(x, 2, 1, part);
    weft_output(weft_tanh(part[is_second]), "y");
    return m;
}

static weft_model *reading_result(bool is_second) {
    weft_value *x, *values, *places = NULL;
    weft_model *m = begin(&x);
    values = weft_sort(x, 1, true, &places);
    weft_output(values, "a");
    weft_output(places, "b");
    weft_output(weft_cast(is_second ? places : values, WEFT_BF16), "y");
    return m;
}

static weft_model *reading_twin(bool is_second) {
    weft_value *x, *twin[2];
    weft_model *m = begin(&x);
    for (int i = 0; i < 2; i++) twin[i] = weft_relu(x);
    weft_output(twin[0], "a");
    weft_output(twin[1], "b");
    weft_output(weft_tanh(twin[is_second]), "y");
    return m;
}

TEST(values_of_one_name_are_set_apart) {
    check_one(reading_part(false), reading_part(true), "node", "",
              "reads slice (begin default, end 4) -> slice (begin 4, end 9223372036854775807)");
    check_one(reading_result(false), reading_result(true), "node", "",
              "reads sort (result 0) -> sort (result 1)");
    check_one(reading_twin(false), reading_twin(true), "node", "", "reads relu (%1) -> relu (%2)");
}

/* ---- numbers that are set by hand, where all axes have changed by the same factor ---- */

static weft_model *convolving(int64_t side, const weft_conv *conv) {
    weft_model *m = weft_model_new("image");
    weft_value *x =
        weft_input(weft_graph_new(m, "val", WEFT_EVAL), "x", WEFT_F32, 4, (int64_t[]){2, 2, side, side});
    weft_output(weft_conv2d(x, conv, "c"), "y");
    return m;
}

static weft_model *cutting(int64_t width, int64_t begin, int64_t end, int64_t step) {
    weft_model *m = weft_model_new("cut");
    weft_value *x = weft_input(weft_graph_new(m, "val", WEFT_EVAL), "x", WEFT_F32, 2, (int64_t[]){2, width});
    weft_output(weft_strided_slice(x, 1, begin, end, step), "y");
    return m;
}

/* Three parts of a value, the first of them as long as it says. */
static weft_model *parted(int64_t width, int64_t first) {
    weft_model *m = weft_model_new("parted");
    weft_value *x = weft_input(weft_graph_new(m, "val", WEFT_EVAL), "x", WEFT_F32, 2, (int64_t[]){2, width});
    const int64_t at[] = {0, first, width / 2, width};
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i)};
        weft_output(weft_slice(x, 1, at[i], at[i + 1]), name);
    }
    return m;
}

/* The input is a change, and the one node (NULL: nothing else) of which the text has these words. */
static void check_by_hand(weft_model *a, weft_model *b, const char *words) {
    both x = {.m = {a, b}};
    if (compare(&x)) {
        int n = 0, named = 0;
        for (int i = 0; i < x.written[0]->n; i++) {
            const diff_change *c = &x.written[0]->v[i];
            if (c->follows || c->what != DIFF_NODE) continue;
            n++;
            named += words && strstr(c->text, words) != NULL;
        }
        CHECK_SAYS(n == 1 + (words != NULL) && named == (words != NULL), "%s: %d changes, %d of them that",
                   words ? words : "nothing", n, named);
        check_mirror(x.written[0], x.written[1], 0);
    }
    close_both(&x);
}

TEST(what_is_set_by_hand_never_follows) {
    const weft_conv plain = {.out = 2, .kernel = 2, .stride = 1, .dilation = 1, .pad = 1};
    weft_conv set[4] = {plain, plain, plain, plain};
    static const char *const words[] = {"kernel 2,2 -> 4,4", "stride 1,1 -> 2,2", "dilation 1,1 -> 2,2",
                                        "pad 1,1 -> 2,2"};
    set[0].kernel = set[1].stride = set[2].dilation = set[3].pad = 2;
    set[0].kernel = 4;
    for (int i = 0; i < 4; i++) check_by_hand(convolving(16, &plain), convolving(32, &set[i]), words[i]);
    check_by_hand(convolving(16, &plain), convolving(32, &plain), NULL);
    check_by_hand(cutting(16, 2, 4, 1), cutting(32, 4, 8, 1), "begin 2 -> 4");
    check_by_hand(cutting(16, 0, 16, 2), cutting(32, 0, 32, 4), "step 2 -> 4");
    check_by_hand(cutting(16, 0, 8, 1), cutting(32, 0, 16, 1), NULL);
    check_by_hand(parted(24, 5), parted(48, 10), NULL);
    check_by_hand(parted(24, 5), parted(48, 7), "end 5 -> 7");
}

/* Nodes are found in another scope by what they compute of what. */
static weft_model *in_scope(const char *scope) {
    weft_value *x;
    weft_model *m = begin(&x);
    WEFT_SCOPE(x, scope) x = weft_relu(x);
    weft_output(weft_tanh(x), "y");
    return m;
}

TEST(a_node_in_another_scope_is_one_change) {
    check_one(in_scope("here"), in_scope("there"), "node", "here", "scope here -> there");
}

/* Two scopes of equal content each get another name, and are built in the other order. */
static weft_model *two_parents(const char *name, bool is_reversed) {
    weft_value *x, *y[2] = {NULL};
    weft_model *m = begin(&x);
    for (int i = 0; i < 2; i++) {
        int at = is_reversed ? !i : i;
        WEFT_SCOPE(x, at ? "right" : "left")
        WEFT_SCOPE(x, name)
        y[at] = weft_tanh(weft_relu(x));
    }
    for (int i = 0; i < 2; i++) weft_output(y[i], i ? "right" : "left");
    return m;
}

TEST(a_scope_with_another_name_is_looked_for_where_it_was) {
    both x = {.m = {two_parents("old", false), two_parents("new", true)}};
    said got = {0}, want = {0};
    expect(&want, "left/old: name left/old -> left/new");
    expect(&want, "right/old: name right/old -> right/new");
    if (compare(&x)) {
        const difference *d = x.written[0];
        for (int i = 0; i < d->n; i++) expect(&got, "%s: %s", d->v[i].path, d->v[i].text);
        check_said(&got, &want, 0, "two names");
    }
    close_both(&x);
}

/* ---- the peak ---- */

/* Offsets say that no two buffers that are alive at once overlap: lifetimes that are too long break it. Those
 * that are too short miss a node that reads or writes the value. */
static void check_alive(const program *p) {
    const alive_list l = alive_of(p);
    uint64_t most = 0;
    CHECK(l.peak_bytes <= p->arena_bytes);
    for (int step = 0; step <= l.steps; step++) {
        uint64_t bytes = 0;
        for (int i = 0; i < l.n; i++) bytes += l.v[i].first <= step && step <= l.v[i].last ? l.v[i].bytes : 0;
        if (bytes > most) most = bytes;
        CHECK(step != l.peak || bytes == l.peak_bytes);
    }
    CHECK(most == l.peak_bytes);
    for (int i = 0; i < l.n; i++)
        for (int k = 0; k < i; k++) {
            const alive_buffer *a = &l.v[i], *b = &l.v[k];
            int64_t at = a->value ? a->value->arena_offset : a->node->workspace_offset;
            int64_t other = b->value ? b->value->arena_offset : b->node->workspace_offset;
            bool meet = a->first <= b->last && b->first <= a->last;
            CHECK(!meet || at + (int64_t)a->bytes <= other || other + (int64_t)b->bytes <= at);
        }
    for (const weft_node *n = p->graph->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            const weft_value *root = n->in[i] ? value_root(n->in[i]) : NULL;
            for (int k = 0; root && k < l.n; k++)
                CHECK(l.v[k].value != root || (l.v[k].first <= n->order && n->order <= l.v[k].last));
        }
}

TEST(what_is_alive_never_overlaps_and_is_there_for_its_readers) {
    uint64_t first = test_seed(31);
    for (int i = 0; i < test_count(60, 12); i++) {
        test_random r = {first + (uint64_t)i};
        int world = 1 + 3 * random_below(&r, 2);
        weft_model *m = random_model(&r, world);
        const weft_compile_options o = random_options(&r, world);
        weft_error e = {0};
        weft_plan *p = weft_compile(m, &o, &e);
        for (int k = 0; p && k < p->n_programs; k++) check_alive(&p->programs[k]);
        tool_close();
        weft_plan_free(p);
        weft_model_free(m);
    }
}

/* ---- the command ---- */

TEST(the_exit_status_says_whether_anything_differs) {
    NEED(make_model("mlp"));
    ends(run("graphtool diff mlp.bin mlp.bin"), 0);
    char *out = read_all("out");
    CHECK_HOLDS(out, "the two are the same");
    free(out);
    ends(run("graphtool diff mlp.bin --against --batch=9"), 1);
    out = read_all("out");
    CHECK_HOLDS(out, "256 -> 9");
    free(out);
    ends(run("graphtool diff mlp.bin --batch 9 --against --batch=9"), 0);
    ends(run("graphtool diff mlp.bin mlp.bin --world 4 --against '--zero 1 --rank 1'"), 1);
    refuses(run("graphtool diff mlp.bin"), "a second model is needed, or --against");
    refuses(run("graphtool diff mlp.bin mlp.bin mlp.bin"), "two models are enough");
    refuses(run("graphtool diff mlp.bin nothere.bin"), "nothere.bin");
    refuses(run("graphtool diff mlp.bin --against --zeros=1"), "no option --zeros");
    refuses(run("graphtool diff mlp.bin --against --batch=0"), "--batch=0: a whole number");
    refuses(run("graphtool diff mlp.bin mlp.bin -o mlp.bin"), "mlp.bin");
    refuses(run("graphtool diff mlp.bin mlp.bin --graph nothere"), "no graph 'nothere'");
}

/* One line stands for the graphs and for what is in the scope. */
TEST(a_layer_more_is_one_line) {
    ends(run("weft-zoo gpt --layers 3 --d 32 --heads 2 --ctx 8 -o a.bin"), 0);
    ends(run("weft-zoo gpt --layers 5 --d 32 --heads 2 --ctx 8 -o b.bin"), 0);
    ends(run("graphtool diff a.bin b.bin"), 1);
    char *out = read_all("out");
    CHECK_HOLDS(out, "graphs train, val, predict\n  added  gpt/blocks/*  scope  22 nodes  x2\n");
    CHECK_HOLDS(out, "peak of graph train");
    free(out);
    ends(run("weft-zoo gpt --layers 3 --d 48 --heads 2 --ctx 8 -o c.bin; graphtool diff a.bin c.bin"), 1);
    out = read_all("out");
    CHECK_HOLDS(out, "changed  gpt/wte/weight  parameter  f32[65,32] -> f32[65,48]\n\nfrom these follow");
    free(out);
}

static double sum_named(const json_t *all, const char *list, const char *name, const char *key) {
    size_t i;
    json_t *it;
    json_array_foreach(json_object_get(all, list), i,
                       it) if (strcmp(json_string_value(json_object_get(it, "name")), name) ==
                               0) return json_number_value(json_object_get(it, key));
    return -1;
}

/* Each of the two in numbers, as `plan` says them of it alone. */
TEST(sums_are_those_of_the_plans) {
    static const char *const keys[] = {"first", "second"}, *const batches[] = {"8", "24"};
    NEED(make_model("mlp"));
    ends(run("graphtool diff mlp.bin --batch 8 --against --batch=24 --json"), 1);
    json_t *all = json_out("out");
    for (int i = 0; i < 2; i++) {
        ends(run("graphtool plan mlp.bin --batch %s --json", batches[i]), 0);
        json_t *plan = json_out("out"), *memory = json_object_get(plan, "memory");
        const json_t *train = json_array_get(json_object_get(plan, "graphs"), 0);
        CHECK(sum_named(all, "memory", "total", keys[i]) ==
              json_number_value(json_object_get(memory, "total")));
        CHECK(sum_named(all, "memory", "of which kernels' workspace", keys[i]) ==
              json_number_value(json_object_get(memory, "workspace")));
        CHECK(sum_named(all, "totals", "train: FLOP", keys[i]) ==
              json_number_value(json_object_get(train, "flops")));
        CHECK(sum_named(all, "totals", "train: arena", keys[i]) ==
              json_number_value(json_object_get(train, "peak_bytes")));
        json_decref(plan);
    }
    json_decref(all);
}

TEST(json_has_every_change) {
    ends(run("weft-zoo gpt --layers 1 --d 32 --heads 2 --ctx 8 -o a.bin"), 0);
    ends(run("weft-zoo gpt --layers 2 --d 32 --heads 2 --ctx 8 -o b.bin"), 0);
    ends(run("graphtool diff a.bin b.bin --json"), 1);
    json_t *all = json_out("out"), *it;
    int added = 0, variables = 0;
    size_t i;
    json_array_foreach(json_object_get(all, "changes"), i, it) {
        bool is_node = strcmp(json_string_value(json_object_get(it, "what")), "node") == 0;
        bool is_added = strcmp(json_string_value(json_object_get(it, "kind")), "added") == 0;
        json_t *nodes = json_object_get(it, "nodes");
        added += is_node && is_added, variables += !is_node && is_added;
        CHECK(!is_added || json_integer_value(json_array_get(nodes, 0)) == -1);
        CHECK(!is_node || json_integer_value(json_array_get(nodes, 1)) >= 0);
    }
    CHECK(json_is_false(json_object_get(all, "same")));
    CHECK_SAYS(added == 66 && variables == 12, "%d nodes, %d variables", added, variables);
    CHECK(json_array_size(json_object_get(all, "peaks")) == 3);
    json_decref(all);
}

TEST(names_of_files_stay_within_their_lines) {
    NEED(make_model("mlp"));
    ends(run("cp mlp.bin \"$(printf 'a\\033[31m\\nb.bin')\""), 0);
    ends(run("graphtool diff mlp.bin \"$(printf 'a\\033[31m\\nb.bin')\""), 0);
    char *out = read_all("out");
    CHECK(out && !strchr(out, '\033') && !strstr(out, "\nb.bin"));
    CHECK_HOLDS(out, "[31m");
    free(out);
}

/* ---- large ---- */

static int within(int seconds) {
    return test_is_sanitized() || getenv("QEMU_MODEL") ? 10 * seconds : seconds;
}

static void save_chain(const char *name, int n, int with) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("chain");
    weft_value *x = weft_input(weft_graph_new(m, "val", WEFT_EVAL), "x", WEFT_F32, 2, (int64_t[]){2, 8});
    for (int i = 0; i < n; i++) {
        x = i % 2 ? weft_relu(x) : weft_tanh(x);
        if (i == with) x = weft_sigmoid(x);
    }
    weft_output(x, "y");
    path_of(name, path);
    CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
}

TEST(large_models_take_seconds) {
    if (test_is_quick()) return;
    save_chain("a.bin", 130000, -1);
    save_chain("b.bin", 130000, 77777);
    ends(run("ulimit -t %d; graphtool diff a.bin b.bin", within(20)), 1);
    char *out = read_all("out");
    CHECK_HOLDS(out, "added  (no scope)  sigmoid  f32[2,8]");
    free(out);
    ends(run("weft-zoo gpt --layers 384 --d 32 --heads 2 --ctx 8 -o a.bin"), 0);
    ends(run("weft-zoo gpt --layers 384 --d 48 --heads 2 --ctx 8 -o b.bin"), 0);
    ends(run("ulimit -t %d; graphtool diff a.bin b.bin --view=program", within(20)), 1);
}

SUITE("tools_diff", {T(subsequences_are_common_and_as_long_as_can_be),
                     T(long_sequences_of_many_edits_have_a_common_part),
                     T(an_edit_is_what_is_reported),
                     T(several_edits_are_what_is_reported),
                     T(an_inserted_layer_does_not_change_those_after_it),
                     T(random_plans_of_one_model_differ_in_settings_alone),
                     T(random_models_are_the_same_as_themselves_and_mirrored_with_others),
                     T(counted_layers_are_found_where_their_shapes_changed_too),
                     T(reading_another_value_is_a_change),
                     T(values_of_one_name_are_set_apart),
                     T(what_is_set_by_hand_never_follows),
                     T(a_node_in_another_scope_is_one_change),
                     T(a_scope_with_another_name_is_looked_for_where_it_was),
                     T(what_is_alive_never_overlaps_and_is_there_for_its_readers),
                     T(the_exit_status_says_whether_anything_differs),
                     T(a_layer_more_is_one_line),
                     T(sums_are_those_of_the_plans),
                     T(json_has_every_change),
                     T(names_of_files_stay_within_their_lines),
                     T(large_models_take_seconds)})
