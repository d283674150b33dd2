/* test_order.c - a read returns the value at the place where it was built, whatever writes follow: random
 * programs of reads and writes of three states or parameters (each other's old and new values: a = b, b = a),
 * against an interpreter that works line by line. Parameters may be parts of one bucket. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>

enum { STATES = 3, LINES = 16 };

typedef enum kind { READ, ADD, OFFSET, ASSIGN } kind;

/* A value = a state, a + b or a + 1; or a state := a. Values go by the number of their line. */
typedef struct line {
    kind kind;
    int state, a, b;
    bool is_output;
} line;

static const char *const names[STATES] = {"s0", "s1", "s2"};

/* The first so many of the three are parameters; is_trained: another graph trains them. */
typedef struct storage {
    int parameters;
    bool is_trained;
} storage;

static int below(test_random *r, int n) {
    return n ? (int)(random_bits(r) % (uint64_t)n) : 0;
}

/* Begins with a read of each state. */
static void draw(test_random *r, line *program) {
    static const kind kinds[] = {READ, ADD, OFFSET, ASSIGN, ASSIGN};
    int values[LINES], n = 0;
    for (int i = 0; i < LINES; i++) {
        line *l = &program[i];
        bool is_first = i < STATES;
        *l = (line){is_first ? READ : kinds[below(r, 5)], is_first ? i : below(r, STATES), 0, 0,
                    below(r, 3) == 0};
        if (n) l->a = values[below(r, n)];
        if (n) l->b = values[below(r, n)];
        if (l->kind != ASSIGN) values[n++] = i;
    }
}

static void interpret(const line *program, float *states, float *values) {
    for (int i = 0; i < LINES; i++) {
        const line *l = &program[i];
        if (l->kind == READ) values[i] = states[l->state];
        if (l->kind == ADD) values[i] = values[l->a] + values[l->b];
        if (l->kind == OFFSET) values[i] = values[l->a] + 1;
        if (l->kind == ASSIGN) states[l->state] = values[l->a];
    }
}

static weft_value *read(weft_value *x, int state, storage how) {
    weft_init init = {WEFT_INIT_CONSTANT, state, 0};
    return state < how.parameters ? weft_parameter(x, names[state], 0, NULL, init)
                                  : weft_state(x, names[state], 0, NULL, init);
}

static void train(weft_model *m, storage how) {
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_constant(g, WEFT_F32, 0, NULL, 0), *loss = x;
    for (int i = 0; i < how.parameters; i++) loss = weft_add(loss, weft_square(read(x, i, how)));
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.25});
}

static weft_model *build(const line *program, storage how) {
    weft_model *m = weft_model_new("m");
    if (how.is_trained) train(m, how);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_constant(g, WEFT_F32, 0, NULL, 0), *v[LINES] = {NULL};
    for (int i = 0; i < LINES; i++) {
        const line *l = &program[i];
        char name[8];
        if (l->kind == READ) v[i] = read(x, l->state, how);
        if (l->kind == ADD) v[i] = weft_add(v[l->a], v[l->b]);
        if (l->kind == OFFSET) v[i] = weft_offset(v[l->a], 1);
        if (l->kind == ASSIGN) weft_assign(v[l->state], v[l->a]);
        snprintf(name, sizeof name, "y%d", i);
        if (v[i] && (l->is_output || i == STATES - 1)) weft_output(v[i], name);
    }
    return m;
}

typedef struct rig {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} rig;

static bool check_run(rig *r, const line *program, const float *states, const float *values) {
    weft_fetch fetches[LINES];
    char text[LINES][8];
    float y[LINES], s;
    int n = 0, line[LINES];
    bool good = true;
    for (int i = 0; i < LINES; i++) {
        if (program[i].kind == ASSIGN || !(program[i].is_output || i == STATES - 1)) continue;
        snprintf(text[n], sizeof text[n], "y%d", i);
        fetches[n] = (weft_fetch){text[n], &y[n], sizeof y[n]};
        line[n++] = i;
    }
    if (weft_run(r->session, "g", NULL, 0, fetches, n, &r->error)) return false;
    for (int k = 0; k < n; k++) good &= y[k] == values[line[k]];
    for (int k = 0; k < STATES; k++)
        good &= weft_store_get(r->store, names[k], &s, sizeof s, &r->error) == WEFT_OK && s == states[k];
    return good;
}

static bool agrees(const line *program, storage how, const weft_compile_options *o, weft_error *error) {
    float states[STATES] = {0, 1, 2}, values[LINES] = {0};
    rig r = {0};
    weft_model *m = build(program, how);
    r.plan = weft_compile(m, o, &r.error);
    r.store = r.plan ? weft_store_new(r.plan, 7, &r.error) : NULL;
    r.session = r.store ? weft_session_open(r.plan, r.store, &r.error) : NULL;
    bool good = r.session != NULL;
    for (int run = 0; run < 3 && good; run++) {
        if (run && how.is_trained) { /* the updates are half of what was assigned before */
            good = weft_run(r.session, "train", NULL, 0, NULL, 0, &r.error) == WEFT_OK;
            for (int i = 0; i < how.parameters; i++) states[i] /= 2;
        }
        interpret(program, states, values);
        good = good && check_run(&r, program, states, values);
    }
    *error = r.error;
    weft_session_close(r.session);
    weft_store_free(r.store);
    weft_plan_free(r.plan);
    weft_model_free(m);
    return good;
}

TEST(reads_see_what_was_there_when_they_were_built) {
    for (uint64_t seed = test_seed(1), end = seed + (uint64_t)test_count(400, 100); seed < end; seed++) {
        test_random r = {seed};
        line program[LINES];
        weft_error error = {0};
        draw(&r, program);
        weft_compile_options options = {.verify = true, .isa = (weft_isa)below(&r, 2)};
        test_case_begin();
        storage how = {below(&r, STATES + 1), false};
        how.is_trained = how.parameters && below(&r, 2);
        bool good = agrees(program, how, &options, &error);
        CHECK_SAYS(good, "seed %llu: %s", (unsigned long long)seed,
                   error.status ? error.text : "another number");
        test_case_end(false);
    }
}

SUITE("order", {T(reads_see_what_was_there_when_they_were_built)})
