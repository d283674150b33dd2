/* test_verify.c - mutants of plans for a world of two: each is a change that may let a rank read what is not there yet
 * or sum what does not belong together, and each must be caught, by a named rule. Good plans give no alarm. */
#include "graph/graph.h"
#include "ops/collective.h"
#include "runtime/verify.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <string.h>

extern const weft_op weft_op_bucket;

/* ---- a model with two subgraphs, several buckets each, an optimizer with state ---- */

static weft_value *tower(weft_value *x, const char *name, int layers, int width) {
    char layer[20];
    WEFT_SCOPE(x, name)
    for (int i = 0; i < layers; i++) {
        snprintf(layer, sizeof layer, "l%d", i);
        x = weft_tanh(weft_linear(x, width + 4 * i, layer));
    }
    return x;
}

static weft_model *make_model(test_random *r) {
    int layers = 2 + (int)(random_bits(r) % 4), width = 4 + (int)(random_bits(r) % 20);
    weft_optimizer o = {.type = "adam", .clip_norm = random_bits(r) % 2 ? 1 : 0};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){8, 16});
    weft_value *left = tower(x, "left", layers, width),
               *right = tower(weft_stop_gradient(left), "right", layers, width);
    weft_value *loss = weft_mean(weft_square(left), 0, NULL, false),
               *other = weft_mean(weft_square(right), 0, NULL, false);
    weft_minimize(loss, "left", &o);
    weft_minimize(other, "right", &o);
    weft_output(weft_add(loss, other), "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_plan *make_plan(test_random *r, int world) {
    weft_error e = {0};
    weft_model *m = make_model(r);
    weft_compile_options options = {.world = world,
                                    .threads = 1,
                                    .bucket_cap_mb = 1e-3 * (1 + (double)(random_bits(r) % 4)),
                                    .accumulate = 1 + (int)(random_bits(r) % 3),
                                    .zero = world > 1 && random_bits(r) % 2,
                                    .verify = true};
    weft_plan *plan = weft_compile(m, &options, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_model_free(m);
    return plan;
}

TEST(good_plans_give_no_alarm) {
    test_random r = {1};
    for (int i = 0; i < 200; i++) {
        weft_error e = {0};
        weft_plan *plan = make_plan(&r, 1 + i % 4);
        CHECK_SAYS(weft_plan_verify(plan, &e) == WEFT_OK, "%d: %s", i, e.text);
        weft_plan_free(plan);
    }
}

/* ---- mutants ---- */

typedef bool (*is_kind)(const weft_node *n);

static bool is_start(const weft_node *n) {
    return n->op == &weft_op_all_reduce || n->op == &weft_op_reduce;
}
static bool is_broadcast(const weft_node *n) {
    return n->op == &weft_op_broadcast;
}
static bool is_wait(const weft_node *n) {
    return n->op == &weft_op_wait;
}
static bool is_bucket(const weft_node *n) {
    return n->op == &weft_op_bucket;
}
static bool is_update(const weft_node *n) {
    return n->op->writes && n->n_in > 3 && n->in[0]->variable && n->in[0]->variable->kind == VARIABLE_SEGMENT;
}
static bool has_place(const weft_node *n) {
    return n->n_out && n->out[0].arena_offset >= 0 && !is_start(n);
}

static weft_node *pick(weft_graph *g, test_random *r, is_kind fits) {
    weft_node *chosen = NULL;
    uint64_t seen = 0;
    for (weft_node *n = g->first; n; n = n->next)
        if (fits(n) && random_bits(r) % ++seen == 0) chosen = n;
    return chosen;
}

static void renumber(weft_graph *g) {
    int order = 0;
    for (weft_node *n = g->first; n; n = n->next) n->order = order++;
}

/* Each returns false where the plan has no place for it. */
static bool drop_wait(weft_graph *g, test_random *r) {
    weft_node *w = pick(g, r, is_wait);
    if (!w) return false;
    graph_replace(g, &w->out[0], w->in[0]);
    node_remove(w);
    renumber(g);
    return true;
}

static bool swap_collectives(weft_graph *g, test_random *r) {
    weft_node *a = pick(g, r, is_start), *b = pick(g, r, is_start);
    if (!a || a == b) return false;
    collective_attrs *x = a->attrs, *y = b->attrs;
    int64_t kept = x->order;
    x->order = y->order;
    y->order = kept;
    return true;
}

static bool wait_for_another(weft_graph *g, test_random *r) {
    weft_node *a = pick(g, r, is_wait), *b = pick(g, r, is_wait);
    if (!a || a == b) return false;
    a->in[0] = b->in[0];
    a->in[1] = b->in[1];
    return true;
}

/* The scratch of a collective, or its bucket, gets the place of something that is made while it is under way. */
static bool shrink_lifetime(weft_graph *g, test_random *r) {
    weft_node *start = pick(g, r, is_start);
    for (weft_node *n = start ? start->next : NULL; n && !(is_wait(n) && n->in[0]->node == start);
         n = n->next) {
        if (!has_place(n) || node_is_silent(n)) continue;
        start->out[1].arena_offset = n->out[0].arena_offset;
        return true;
    }
    return false;
}

/* A node reads what a collective is still working on. */
static bool read_in_flight(weft_graph *g, test_random *r) {
    weft_node *start = pick(g, r, is_start);
    for (weft_node *n = start ? start->next : NULL; n && !(is_wait(n) && n->in[0]->node == start);
         n = n->next) {
        if (node_is_silent(n) || !n->kernel || !n->n_in) continue;
        n->in[0] = &start->out[0];
        return true;
    }
    return false;
}

/* A node reads parameters that a broadcast is still bringing. */
static bool read_carried(weft_graph *g, test_random *r) {
    weft_node *sent = pick(g, r, is_broadcast), *u = pick(g, r, is_update);
    if (!sent || !u || u->order < sent->order) return false;
    u->in[1] = &sent->out[0];
    return true;
}

static bool start_too_early(weft_graph *g, test_random *r) {
    weft_node *start = pick(g, r, is_start);
    if (!start) return false;
    node_move_after(start, g->first);
    renumber(g);
    return true;
}

static bool update_too_early(weft_graph *g, test_random *r) {
    weft_node *u = pick(g, r, is_update);
    if (!u) return false;
    node_move_after(u, u->in[1]->node->prev);
    renumber(g);
    return true;
}

static bool other_bucket(weft_graph *g, test_random *r) {
    weft_node *a = pick(g, r, is_bucket), *b = pick(g, r, is_bucket);
    if (!a || a == b) return false;
    a->variable = b->variable;
    return true;
}

static bool member_moves(weft_graph *g, test_random *r) {
    weft_node *a = pick(g, r, is_bucket), *b = pick(g, r, is_bucket);
    if (!a || a == b) return false;
    weft_variable *v = a->variable->members[random_bits(r) % (uint64_t)a->variable->n_members];
    v->segment = b->variable;
    return true;
}

static bool update_of_another(weft_graph *g, test_random *r) {
    weft_node *a = pick(g, r, is_update), *b = pick(g, r, is_update);
    if (!a || a == b) return false;
    weft_value *kept = a->in[1];
    a->in[1] = b->in[1];
    b->in[1] = kept;
    return true;
}

static bool bucket_moves(weft_graph *g, test_random *r) {
    weft_node *b = pick(g, r, is_bucket), *n = pick(g, r, has_place);
    if (!b || !n || b->out[0].arena_offset < 0 || b == n) return false;
    if (n->order < b->order || b->out[0].arena_offset == n->out[0].arena_offset) return false;
    n->out[0].arena_offset = b->out[0].arena_offset; /* written over the finished bucket */
    for (const weft_node *m = n; m; m = m->next)
        for (int i = 0; i < m->n_in; i++)
            if (m->in[i] && value_root(m->in[i]) == &b->out[0]) return true;
    return false;
}

TEST(every_mutant_is_caught_by_a_named_rule) {
    static bool (*const mutate[])(weft_graph * g, test_random * r) = {
        drop_wait,    swap_collectives, wait_for_another,  shrink_lifetime, start_too_early, update_too_early,
        other_bucket, member_moves,     update_of_another, bucket_moves,    read_in_flight,  read_carried};
    enum { KINDS = sizeof mutate / sizeof *mutate };
    static const char *const rules[] = {"V1", "V2", "V3", "L1", "L2", "L3", "L4", "L5", "L6"};
    int hits[sizeof rules / sizeof *rules] = {0}, mutants = 0;
    test_random r = {77};
    for (int i = 0; mutants < 400 && i < 4000; i++) {
        weft_error e = {0};
        weft_plan *plan = make_plan(&r, 2);
        program *p = &plan->programs[plan->n_programs - 1];
        if (p->n_collectives && mutate[i % KINDS](p->graph, &r)) {
            mutants++;
            weft_status status = weft_plan_verify(plan, &e);
            CHECK_SAYS(status != WEFT_OK, "seed step %d, mutant of kind %d is not caught", i, i % KINDS);
            for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
                hits[k] += strncmp(e.text, rules[k], 2) == 0;
        }
        weft_plan_free(plan);
    }
    CHECK_SAYS(mutants >= 300, "%d mutants", mutants);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        CHECK_SAYS(hits[k] > 0, "rule %s was never hit", rules[k]);
}

SUITE("verify", {T(good_plans_give_no_alarm), T(every_mutant_is_caught_by_a_named_rule)})
