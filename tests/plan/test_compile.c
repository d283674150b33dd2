/* test_compile.c - the compiler on random graphs: a compiled graph computes what the plain evaluator does,
 * the verifier accepts good plans and rejects broken ones, and dumps stop after the pass that is asked
 * for. */
#include "graph/core/graph.h"
#include "graph/settings/clone.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/onednn.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "support/kernels/evaluate.h"
#include "support/test.h"
#include "weft/file.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 40, GRAPHS = 150 };

/* ---- random graphs ---- */

typedef struct pool {
    weft_value *values[80];
    int n;
} pool;

static weft_value *any(pool *p, test_random *r) {
    return p->values[random_bits(r) % (uint64_t)p->n];
}

/* One more value of shape [ROWS, COLUMNS] from earlier ones. */
static weft_value *grow(pool *p, test_random *r) {
    weft_value *a = any(p, r), *b = any(p, r);
    int64_t last[] = {1}, first[] = {0};
    switch (random_bits(r) % 16) {
    case 0:
        return weft_add(a, b);
    case 1:
        return weft_mul(a, weft_tanh(b));
    case 2:
        return weft_sub(a, weft_sigmoid(b));
    case 3:
        return weft_relu(a);
    case 4:
        return weft_leaky_relu(a, 0.2);
    case 5:
        return weft_gelu(a);
    case 6:
        return weft_add(weft_scale(a, 0.5), weft_mean(b, 1, last, true));
    case 7:
        return weft_mul(a, weft_tanh(weft_mean(b, 1, first, false)));
    case 8:
        return weft_softmax(a, 1);
    case 9:
        return weft_scale(weft_matmul(weft_matmul(a, b, false, true), a, false, false), 1.0 / 256);
    case 10:
        return weft_reshape(weft_permute(weft_reshape(a, 3, (int64_t[]){ROWS, 5, 8}), (int64_t[]){0, 2, 1}),
                            2, (int64_t[]){ROWS, COLUMNS});
    case 11:
        return weft_concat(2, (weft_value *[]){weft_slice(a, 1, 0, 11), weft_slice(b, 1, 11, COLUMNS)}, 1);
    case 12:
        return weft_linear(a, COLUMNS, "shared", NULL);
    case 13:
        return weft_maximum(a, weft_offset(b, -0.25));
    case 14:
        return weft_where(weft_greater(a, b), a, weft_square(weft_tanh(b)));
    default:
        return weft_add(a, weft_linear(b, COLUMNS, "other", NULL));
    }
}

static weft_model *random_model(uint64_t seed, bool trains) {
    test_random r = {seed};
    weft_model *m = weft_model_new("random");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    pool p = {0};
    for (int i = 0; i < 2; i++)
        p.values[p.n++] = weft_input(g, i ? "b" : "a", WEFT_F32, 2, (int64_t[]){ROWS, COLUMNS});
    int count = 5 + (int)(random_bits(&r) % 30);
    WEFT_GRAPH_SCOPE(g, "net")
    for (int i = 0; i < count; i++) {
        weft_value *v = grow(&p, &r);
        p.values[p.n++] = v;
    }
    weft_value *loss = weft_mean(weft_square(weft_tanh(p.values[p.n - 1])), WEFT_ALL, false);
    weft_output(any(&p, &r), "some");
    weft_output(loss, "loss");
    weft_value *gradient = NULL;
    weft_gradients(loss, 1, p.values, &gradient);
    weft_output(gradient, "gradient");
    if (trains) /* all parameters there are, reached or not */
        for (weft_variable *v = m->variables; v; v = v->next)
            weft_minimize(weft_add(loss, weft_mean(weft_square(variable_value(g, v)), WEFT_ALL, false)),
                          v->path, &(weft_optimizer){.type = "sgd", .lr = 0.1, .name = v->path});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "seed %llu: %s", (unsigned long long)seed,
               weft_model_error(m)->text);
    return m;
}

/* ---- compiled against evaluated ---- */

typedef struct answers {
    float some[ROWS * COLUMNS], gradient[ROWS * COLUMNS], loss;
} answers;

static bool run_compiled(const weft_model *m, weft_isa isa, const float *a, const float *b, answers *out) {
    weft_error e = {0};
    size_t bytes = sizeof out->some;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.isa = isa, .threads = 2}, &e);
    weft_store *store = plan ? weft_store_new(plan, 3, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    bool good = s && weft_run(s, "g", (weft_feed[]){{"a", a, bytes}, {"b", b, bytes}}, 2,
                              (weft_fetch[]){{"some", out->some, bytes},
                                             {"gradient", out->gradient, bytes},
                                             {"loss", &out->loss, 4}},
                              3, &e) == WEFT_OK;
    CHECK_SAYS(good, "%s", e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return good;
}

static const weft_value *output_value(const weft_graph *g, const char *name) {
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (strcmp(o->name, name) == 0) return o->value;
    return NULL;
}

/* The plain way: expand gradients on a copy of the model's graph and run every node in f64. */
static void run_plain(const weft_model *m, weft_store *store, const float *a, const float *b, answers *out) {
    weft_error e = {0};
    weft_model *copy = model_clone_variables(m, m->batch, 1, 0);
    weft_graph *g = graph_replay(m->graphs, copy, "g");
    NEED(g && pass_autodiff(g, 1, NULL));
    evaluation *run = evaluate_new(g, true);
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_input)
            for (int i = 0; i < ROWS * COLUMNS; i++)
                evaluate_set(run, &n->out[0], i, strcmp(input_name(n), "a") ? b[i] : a[i]);
    for (weft_variable *v = copy->variables; v; v = v->next) {
        tensor t = evaluate_variable(run, v);
        size_t bytes = type_bytes(&v->type);
        float *values = test_memory(bytes);
        CHECK(weft_store_get(store, v->path, values, bytes, &e) == WEFT_OK);
        for (int64_t i = 0; i < type_elements(&v->type); i++) tensor_set(&t, i, values[i]);
        free(values);
    }
    CHECK_SAYS(evaluate_run(run, NULL, &e) == WEFT_OK, "%s", e.text);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        out->some[i] = (float)evaluate_get(run, output_value(g, "some"), i);
        out->gradient[i] = (float)evaluate_get(run, output_value(g, "gradient"), i);
    }
    out->loss = (float)evaluate_get(run, output_value(g, "loss"), 0);
    evaluate_free(run);
    weft_model_free(copy);
}

static double distance(const float *x, const float *y, int n) {
    double most = 0, scale = 1e-3;
    for (int i = 0; i < n; i++) {
        if (fabs(y[i]) > scale) scale = fabs(y[i]);
        if (fabs((double)x[i] - y[i]) > most) most = fabs((double)x[i] - y[i]);
    }
    return most / scale;
}

TEST(compiled_random_graphs_compute_what_plain_evaluation_does) {
    static const weft_isa isas[] = {WEFT_ISA_REFERENCE, WEFT_ISA_AUTO};
    float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
    test_random r = {5};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        a[i] = (float)random_in(&r, -1, 1);
        b[i] = (float)random_in(&r, -1, 1);
    }
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        weft_model *m = random_model(seed, false);
        weft_error e = {0};
        weft_plan *plan = weft_compile(m, NULL, &e);
        weft_store *store = weft_store_new(plan, 3, &e);
        answers plain = {0}, got = {0};
        run_plain(m, store, a, b, &plain);
        for (int i = 0; i < 2; i++) {
            if (!run_compiled(m, isas[i], a, b, &got)) continue;
            bool close = distance(got.some, plain.some, ROWS * COLUMNS) < 1e-4 &&
                         distance(got.gradient, plain.gradient, ROWS * COLUMNS) < 1e-3 &&
                         fabs(got.loss - plain.loss) < 1e-5;
            CHECK_SAYS(close, "seed %llu, %s: loss %g against %g, some off by %g, gradient by %g",
                       (unsigned long long)seed, isa_name(isas[i]), got.loss, plain.loss,
                       distance(got.some, plain.some, ROWS * COLUMNS),
                       distance(got.gradient, plain.gradient, ROWS * COLUMNS));
        }
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* ---- the verifier ---- */

/* Whether a program still means the same when `v` starts `shift` bytes elsewhere is for the verifier to
 * say. */
static weft_value *random_place(const weft_graph *g, test_random *r) {
    weft_value *chosen = NULL;
    uint64_t seen = 0;
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k].arena_offset >= 0 && random_bits(r) % ++seen == 0) chosen = &n->out[k];
    return chosen;
}

/* Brute force, apart from the verifier: do any two values that are both still wanted at some step share
 * bytes? */
static bool lives_through(const weft_graph *g, const weft_value *v, int step) {
    if (v->node->order > step) return false;
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->order > step && value_root(n->in[i]) == v) return true;
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (value_root(o->value) == v) return true;
    return false;
}

static bool is_overwritten(const weft_graph *g, const weft_value *v) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *w = &n->out[k];
            if (w == v || w->arena_offset < 0 || w->node->order < v->node->order) continue;
            bool meets = w->arena_offset < v->arena_offset + (int64_t)value_span(v) &&
                         v->arena_offset < w->arena_offset + (int64_t)value_span(w);
            if (meets && lives_through(g, v, n->order)) return true;
        }
    return false;
}

TEST(the_verifier_finds_values_that_were_moved_onto_others) {
    test_random r = {11};
    int caught = 0, harmful = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        weft_model *m = random_model(seed, seed % 2);
        weft_error e = {0};
        weft_plan *plan = weft_compile(m, NULL, &e);
        NEED(plan);
        CHECK_SAYS(weft_plan_verify(plan, &e) == WEFT_OK, "seed %llu: %s", (unsigned long long)seed, e.text);
        weft_graph *g = plan->programs[0].graph;
        for (int i = 0; i < 10; i++) {
            weft_value *v = random_place(g, &r), *to = random_place(g, &r);
            int64_t kept = v->arena_offset;
            v->arena_offset = to->arena_offset;
            bool harms = is_overwritten(g, v), found = weft_plan_verify(plan, &e) != WEFT_OK;
            harmful += harms;
            caught += found;
            CHECK_SAYS(found || !harms, "seed %llu: %%%d moved onto %%%d is not noticed",
                       (unsigned long long)seed, v->id, to->id);
            if (found) CHECK(e.text[0] == 'V');
            v->arena_offset = kept;
        }
        weft_plan_free(plan);
        weft_model_free(m);
    }
    CHECK_SAYS(harmful > 100 && caught >= harmful, "%d harmful, %d caught", harmful, caught);
}

TEST(the_verifier_finds_an_update_that_overtakes_a_reader) {
    weft_model *m = random_model(4, true);
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, NULL, &e);
    NEED(plan);
    weft_graph *g = plan->programs[0].graph;
    weft_node *update = NULL, *reader = NULL;
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op->writes) update = n;
    NEED(update);
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n != update && n->in[i] && n->in[i]->variable &&
                n->in[i]->variable->bucket == update->in[0]->variable)
                reader = n;
    NEED(reader);
    node_move_after(reader, update);
    int order = 0;
    for (weft_node *n = g->first; n; n = n->next) n->order = order++;
    CHECK(weft_plan_verify(plan, &e) != WEFT_OK);
    CHECK(e.text[0] == 'V');
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- stages ---- */

TEST(every_stage_dumps_text_that_parses_back) {
    weft_model *m = random_model(9, true);
    weft_error e = {0};
    for (int i = 0; weft_pass_name(i); i++) {
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.stop_after = weft_pass_name(i)}, &e);
        CHECK_SAYS(plan != NULL, "%s: %s", weft_pass_name(i), e.text);
        if (!plan) continue;
        char *text = weft_plan_text(plan);
        weft_model *back = weft_model_parse(text, weft_pass_name(i), NULL, &e);
        CHECK_SAYS(back != NULL, "%s: %s", weft_pass_name(i), e.text);
        char *again = weft_model_text(back);
        CHECK_TEXT(again, text);
        weft_text_free(again);
        weft_text_free(text);
        weft_model_free(back);
        weft_plan_free(plan);
    }
    CHECK(weft_compile(m, &(weft_compile_options){.stop_after = "nonsense"}, &e) == NULL);
    CHECK_HOLDS(e.text,
                "there is no pass 'nonsense'; there are flow, argument_order, rank_states, subgraphs");
    weft_model_free(m);
}

/* y = 1 x, tanh and relu make one fused node; unoptimized each has its own. */
TEST(an_unoptimized_plan_has_the_nodes_that_were_built) {
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "eval", WEFT_EVAL), "x", WEFT_F32, 1, (int64_t[]){40});
    weft_output(weft_relu(weft_tanh(weft_scale(x, 1))), "y");
    for (int is_off = 0; is_off < 2; is_off++) {
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.unoptimized = is_off}, NULL);
        char *text = weft_plan_text(plan);
        CHECK_SAYS(!is_off == !strstr(text, " = scale("), "%s", text);
        if (is_off) CHECK(strstr(text, "= tanh(") && strstr(text, "= relu(") && !strstr(text, "fused"));
        if (!is_off && isa_best() > WEFT_ISA_REFERENCE) CHECK(strstr(text, "fused") != NULL);
        weft_text_free(text);
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

TEST(two_compiles_agree) {
    weft_model *m = random_model(21, true);
    weft_plan *one = weft_compile(m, NULL, NULL), *two = weft_compile(m, NULL, NULL);
    NEED(one && two);
    char *a = weft_plan_text(one), *b = weft_plan_text(two);
    CHECK_TEXT(a, b);
    weft_text_free(a);
    weft_text_free(b);
    weft_plan_free(one);
    weft_plan_free(two);
    weft_model_free(m);
}

static weft_plan *with_isa(const weft_model *m, weft_isa isa, weft_error *e) {
    return weft_compile(m, &(weft_compile_options){.isa = isa, .threads = 1}, e);
}

static const char *setting_of(const weft_plan *plan, const char *wanted) {
    const char *name, *value;
    for (int i = 0; weft_plan_setting_at(plan, i, &name, &value); i++)
        if (strcmp(name, wanted) == 0) return value;
    return NULL;
}

/* A plan tells the library that computes its product, what that may use and what it chose; they are in the
 * fingerprint. A plan without products has no such library, nor has one of reference kernels. */
TEST(a_plan_tells_the_library_that_computes_in_it) {
    weft_error e = {0};
    if (isa_best() == WEFT_ISA_REFERENCE) return; /* no kernel of this processor calls the library */
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){64, 48});
    weft_output(weft_linear(x, 32, "fc", NULL), "y");
    weft_plan *plan = with_isa(m, WEFT_ISA_AUTO, &e), *plain = with_isa(m, WEFT_ISA_REFERENCE, &e);
    NEED(plan && plain);
    onednn_library here = onednn_library_here();
    NEED(plan->library.name && setting_of(plan, "onednn"));
    CHECK_TEXT(plan->library.name, "onednn");
    CHECK_TEXT(setting_of(plan, "onednn"), here.version);
    CHECK_TEXT(setting_of(plan, "onednn isa"), here.isa);
    CHECK(setting_of(plan, "onednn implementations") && *plan->library.implementations);
    CHECK(!plain->library.name && !setting_of(plain, "onednn"));
    plan_library was = plan->library;
    uint64_t fingerprint = plan->fingerprint;
    const char **const parts[] = {&plan->library.version, &plan->library.set, &plan->library.implementations};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = "other";
        CHECK(plan_collect_settings(plan) && plan_identify(plan, m) && plan->fingerprint != fingerprint);
        plan->library = was;
    }
    CHECK(plan_collect_settings(plan) && plan_identify(plan, m) && plan->fingerprint == fingerprint);
    weft_plan_free(plan);
    weft_plan_free(plain);
    weft_model_free(m);
}

TEST(a_parameter_is_trained_once_in_a_graph) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 3});
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 2, "fc", NULL)), 2, (int64_t[]){0, 1}, false);
    weft_minimize(loss, "fc", &(weft_optimizer){.type = "sgd", .name = "one"});
    weft_minimize(loss, "fc", &(weft_optimizer){.type = "sgd", .name = "two"});
    weft_error e = {0};
    CHECK(weft_compile(m, NULL, &e) == NULL);
    CHECK_SAYS(e.status == WEFT_ORDER, "%s", e.text);
    CHECK_HOLDS(e.text, "graph step: two minimize calls train fc/weight");
    weft_model_free(m);
}

/* Two uses of a network with batch norm (0), dropout (1) or spectral norm (2). */
static weft_value *network(weft_value *x, int kind) {
    WEFT_SCOPE(x, "d") {
        x = kind == 2 ? weft_linear(x, 3, "fc", &(weft_linear_options){.parametrization = WEFT_SPECTRAL_NORM})
                      : weft_linear(x, 3, "fc", NULL);
        if (kind == 0) x = weft_batch_norm(x, "bn", NULL);
        if (kind == 1) x = weft_dropout(x, 0.5);
    }
    return weft_mean(x, WEFT_ALL, false);
}

/* C may build arguments from right to left; a plan says where that may matter. */
TEST(operands_that_are_built_in_the_other_order_are_noted) {
    enum { IN_ORDER, REVERSED, IN_TURN, APART, HOWS };
    for (int kind = 0; kind < 3; kind++)
        for (int how = 0; how < HOWS; how++) {
            weft_error e = {0};
            weft_model *m = weft_model_new("m");
            weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
            weft_value *a = weft_input(g, "a", WEFT_F32, 2, (int64_t[]){4, 3}),
                       *b = weft_input(g, "b", WEFT_F32, 2, (int64_t[]){4, 3});
            weft_value *first = network(a, kind),
                       *second = network(how == IN_TURN ? weft_add(b, first) : b, kind);
            if (how == APART) weft_output(first, "first"), first = weft_mean(a, WEFT_ALL, false);
            weft_minimize(how == IN_ORDER ? weft_sub(first, second) : weft_sub(second, first), "",
                          &(weft_optimizer){.type = "sgd", .lr = 0.1});
            weft_plan *plan = with_isa(m, WEFT_ISA_AUTO, &e);
            const char *note = plan ? weft_plan_note(plan, 0) : NULL;
            CHECK_SAYS(plan && !note == (how != REVERSED), "kind %d, how %d: %s %s", kind, how, e.text,
                       note ? note : "no note");
            if (note) CHECK_HOLDS(note, "graph step: sub at ");
            if (note) CHECK_HOLDS(note, kind == 1 ? "draw random numbers in d" : "update d/");
            if (plan) CHECK(!weft_plan_note(plan, 1) && !weft_plan_note(plan, -1));
            weft_plan_free(plan);
            weft_model_free(m);
        }
    CHECK(!weft_plan_note(NULL, 0));
}

/* ---- state that makes ranks differ ---- */

enum { BATCH_NORM, DROPOUT, SPECTRAL_NORM, SPECTRAL_TWICE, CENTER, CENTER_ELSEWHERE, DECAY, LEARNERS };

static weft_value *center_of(weft_value *near) {
    return weft_state(near, "center", 1, (int64_t[]){3}, (weft_init){0});
}

/* Moves the state by the mean of y, or, without a y, towards 0. */
static void renew(weft_value *center, weft_value *y) {
    weft_value *now = weft_scale(center, 0.9);
    if (y) now = weft_add(now, weft_scale(weft_mean(y, 1, (int64_t[]){0}, false), 0.1));
    weft_assign(center, now);
}

static weft_value *read_samples(weft_graph *g) {
    return weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
}

static weft_model *learner(int kind) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = read_samples(g), *y = kind < CENTER ? NULL : weft_linear(x, 3, "fc", NULL);
    weft_value *loss = y ? weft_mean(weft_sub(y, center_of(x)), WEFT_ALL, false)
                         : network(x, kind < SPECTRAL_NORM ? kind : SPECTRAL_NORM);
    if (kind == SPECTRAL_TWICE) {
        weft_value *more = network(x, SPECTRAL_NORM);
        loss = weft_add(loss, more);
    }
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    if (kind == CENTER) renew(center_of(x), y);
    if (kind <= CENTER) return m;
    weft_graph *other = weft_graph_new(m, "other", WEFT_TRAIN);
    weft_value *z = kind == CENTER_ELSEWHERE ? read_samples(other) : NULL;
    renew(center_of(z ? z : weft_constant(other, WEFT_F32, 0, NULL, 1)), z);
    weft_model_set_flow(m, "step other");
    return m;
}

TEST(state_that_makes_ranks_differ_is_noted) {
    char of_one_use[1000] = "";
    for (int kind = 0; kind < LEARNERS; kind++)
        for (int world = 1; world <= 2; world++) {
            weft_error e = {0};
            weft_model *m = learner(kind);
            weft_plan *plan = weft_compile(m, &(weft_compile_options){.world = world, .verify = true}, &e);
            const char *note = plan ? weft_plan_note(plan, 0) : NULL;
            bool wanted = world == 2 && kind != BATCH_NORM && kind != DROPOUT && kind != DECAY;
            CHECK_SAYS(plan && !note == !wanted, "kind %d, world %d: %s %s", kind, world, e.text,
                       note ? note : "");
            if (note)
                CHECK_HOLDS(note, kind < CENTER ? "differs from one rank: d/fc/"
                                                : "differs from one rank: center (read by step): ");
            if (note && kind == SPECTRAL_NORM) snprintf(of_one_use, sizeof of_one_use, "%s", note);
            if (note && kind == SPECTRAL_TWICE) CHECK_TEXT(note, of_one_use);
            weft_plan_free(plan);
            weft_model_free(m);
        }
}

SUITE("compile",
      {T(operands_that_are_built_in_the_other_order_are_noted), T(state_that_makes_ranks_differ_is_noted),
       T(compiled_random_graphs_compute_what_plain_evaluation_does),
       T(the_verifier_finds_values_that_were_moved_onto_others),
       T(the_verifier_finds_an_update_that_overtakes_a_reader), T(every_stage_dumps_text_that_parses_back),
       T(an_unoptimized_plan_has_the_nodes_that_were_built), T(two_compiles_agree),
       T(a_plan_tells_the_library_that_computes_in_it), T(a_parameter_is_trained_once_in_a_graph)})
