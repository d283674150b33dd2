/* test_verify_mutants.c - wrong plans: each is a good one of random_model.c with one change of mutants.h that
 * may let a rank read data too early, sum what does not belong together, or act differently from the others.
 * Every one must be caught, by a rule that its list names, and every rule must catch something. */
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "runtime/verify/verify.h"
#include "support/stream_player.h"
#include "support/mutants/mutants.h"
#include "support/models/random_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 4, TRIES = 400, PLAYS = 60 };

enum { MOST_RULES = 100 };

/* hits: by rules V and L, by number. Those of strides are test_layouts.c's, those of sessions
 * test_verify_runs.c's. */
typedef struct tally {
    int mutants, conflicts, hits[2][MOST_RULES];
} tally;

/* ---- worlds ---- */

typedef struct world {
    int n;
    weft_plan *plans[WORLD];
} world;

static bool open_world(world *w, test_random *r) {
    weft_error e = {0};
    w->n = 1 + random_below(r, 8);
    if (w->n > WORLD) w->n = 2;
    weft_model *m = random_model(r, w->n);
    weft_compile_options options = random_options(r, w->n);
    for (int k = 0; k < w->n; k++) {
        options.rank = k;
        w->plans[k] = weft_compile(m, &options, &e);
        CHECK_SAYS(w->plans[k] != NULL, "%s", e.text);
    }
    weft_model_free(m);
    return e.status == WEFT_OK;
}

static void close_world(world *w) {
    for (int k = 0; k < w->n; k++) weft_plan_free(w->plans[k]);
}

/* ---- one mutant ---- */

/* "L10: graph ..." is named by "L3 L10". */
static bool is_named(const char *list, const char *text) {
    size_t n = strcspn(text, ":");
    for (const char *at = list; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, text, n) == 0 && (at[n] == ' ' || !at[n])) return true;
    return false;
}

/* Where a rule's hits are counted: "L10", and whatever follows it; NULL: of another kind. */
static int *hits_of(tally *t, const char *rule) {
    int number = *rule == 'V' || *rule == 'L' ? atoi(rule + 1) : 0;
    return number > 0 && number < MOST_RULES ? &t->hits[*rule == 'L'][number] : NULL;
}

static void count_rule(tally *t, const char *text) {
    if (hits_of(t, text)) ++*hits_of(t, text);
}

/* Each rule that a mutant of the list names has caught one. */
static void check_hits(const mutant *list, tally *t) {
    for (const mutant *m = list; m->name; m++)
        for (const char *at = m->rules; *at; at += strcspn(at, " "), at += strspn(at, " "))
            CHECK_SAYS(!hits_of(t, at) || *hits_of(t, at) > 0, "rule %.3s was never hit", at);
}

/* false: this is not a fault, as no stream ever meets the other. (The stream is first in, first out: whoever
 * waits for a later collective has waited for this one, too.) */
static bool judge(const world *w, const weft_plan *plan, const mutant *m, uint64_t seed, test_random *r,
                  tally *t) {
    weft_error e = {0};
    char what[200] = "";
    if (m->conflicts && !stream_conflicts(plan, r, PLAYS, NULL, what)) return false;
    weft_status status = weft_plan_verify(plan, &e);
    if (!status) status = verify_world((const weft_plan *const *)w->plans, w->n, &e);
    CHECK_SAYS(status == WEFT_INTERNAL, "seed %llu: not caught: %s", (unsigned long long)seed, m->name);
    CHECK_SAYS(!status || is_named(m->rules, e.text), "seed %llu: %s: caught by %s", (unsigned long long)seed,
               m->name, e.text);
    t->mutants++;
    t->conflicts += m->conflicts;
    count_rule(t, e.text);
    return true;
}

static bool try_mutant(const mutant *m, test_random *r, tally *t) {
    uint64_t seed = r->state;
    world w = {0};
    bool is_done = false;
    if (!open_world(&w, r)) return false;
    victim v = {.plan = w.plans[random_below(r, w.n)], .r = r};
    for (int i = 0; i < 2 * v.plan->n_programs && !is_done; i++) {
        v.p = &v.plan->programs[random_below(r, v.plan->n_programs)];
        v.g = v.p->graph;
        is_done = m->mutate(&v);
    }
    if (is_done) is_done = judge(&w, v.plan, m, seed, r, t);
    close_world(&w);
    return is_done;
}

/* `count` mutants of each kind; fewer of a rare one. Each kind has numbers of its own, so that a new one
 * changes none of the others. */
static void try_list(const mutant *list, int count, uint64_t seed, tally *t) {
    for (const mutant *m = list; m->name; m++) {
        if (isa_best() < m->least) continue;
        int done = 0;
        test_random r = {seed};
        for (const char *c = m->name; *c; c++) r.state = r.state * 31 + (uint64_t)*c;
        for (int i = 0; i < TRIES && done < count; i++) done += try_mutant(m, &r, t);
        CHECK_SAYS(2 * done >= count, "%d of %d: %s", done, count, m->name);
    }
}

TEST(every_mutant_is_caught_by_a_named_rule) {
    uint64_t seed = test_seed(77);
    tally t = {0};
    bool quick = test_is_quick();
    int each = quick ? 3 : 12;
    try_list(mutants_of_collectives, each, seed, &t);
    try_list(mutants_of_buckets, each, seed, &t);
    CHECK_SAYS(t.mutants >= (quick ? 100 : 500) && t.conflicts >= 5 * each,
               "%d mutants, %d of them seen to conflict", t.mutants, t.conflicts);
    if (!quick) check_hits(mutants_of_collectives, &t);
    if (!quick) check_hits(mutants_of_buckets, &t);
    for (int k = 0; k < 2 * MOST_RULES && getenv("WEFT_TEST_SHOW"); k++)
        if (t.hits[k / MOST_RULES][k % MOST_RULES])
            printf("%c%d: %d\n", "VL"[k / MOST_RULES], k % MOST_RULES,
                   t.hits[k / MOST_RULES][k % MOST_RULES]);
}

/* Two writes without a read between them: no byte is read too early or too late, but the older value would
 * stay. */
TEST(writes_that_change_places_are_caught) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){4});
    weft_value *s = weft_state(x, "s", 1, (int64_t[]){4}, (weft_init){WEFT_INIT_ZEROS});
    weft_assign(s, weft_scale(x, 2));
    weft_assign(s, weft_offset(x, 3));
    weft_plan *plan = weft_compile(m, NULL, &e);
    NEED(plan != NULL);
    weft_graph *compiled = plan->programs[0].graph;
    weft_node *assigns[2] = {0};
    int count = 0;
    for (weft_node *n = compiled->first; n; n = n->next)
        if (n->op->flags & OP_WRITES && count < 2) assigns[count++] = n;
    NEED(count == 2 && weft_plan_verify(plan, &e) == WEFT_OK);
    node_move_after(assigns[0], assigns[1]);
    mutant_renumber(compiled);
    CHECK(weft_plan_verify(plan, &e) != WEFT_OK);
    CHECK_HOLDS(e.text, "V4");
    CHECK_HOLDS(e.text, "out of turn");
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("verify mutants", {T(every_mutant_is_caught_by_a_named_rule), T(writes_that_change_places_are_caught)})
