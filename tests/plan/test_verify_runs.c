/* test_verify_runs.c - any program after any program, on real sessions: random plans run in random orders
 * beside a communication stream that is immediate, late, or anything between, and that leaves garbage in its
 * buffers until it is waited for. Whatever its pace, every fetched number and the whole store must have the
 * same bits. */
#include "runtime/session/state.h"
#include "support/models/random_model.h"
#include "support/slow_stream.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 24, MOST = 1 << 16 /* bytes of an output or a path */, FETCHES = 3 };

/* The final state of a player. */
typedef struct result {
    uint64_t hash;
    int fetched, waited, refused,
        pending; /* runs that fetched, that left something under way, a deferred part */
    weft_error error;
} result;

static void add_bytes(result *r, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) r->hash = (r->hash ^ at[i]) * 1099511628211u;
}

static void on_event(void *context, const weft_node_event *event) {
    (void)event;
    slow_stream_pass(context);
}

static const char *random_graph(const weft_plan *plan, test_random *r) {
    return plan->programs[random_below(r, plan->n_programs)].name;
}

/* Feeds, a run with or without sync, some fetches. Refusals (a step that another graph is in the middle of)
 * are a result, too. */
static void run_once(weft_session *s, const weft_plan *plan, test_random *r, result *out) {
    static float x[MOST / 4];
    static char memory[FETCHES][MOST];
    weft_port port;
    weft_fetch fetches[FETCHES];
    const char *graph = random_graph(plan, r);
    int n = 0;
    if (!CHECK(weft_plan_input(plan, graph, 0, &port) && port.bytes <= sizeof x)) return;
    for (size_t i = 0; i < port.bytes / 4; i++) x[i] = (float)random_in(r, -1, 1);
    weft_feed feed = {port.name, x, port.bytes};
    bool no_sync = plan->options.accumulate > 1 && random_below(r, 4) == 0, wanted = random_below(r, 2);
    bool is_manual = plan->options.manual;
    for (int i = 0; wanted && n < FETCHES && weft_plan_output(plan, graph, i, &port); i++)
        if (random_below(r, 2) && CHECK(port.bytes <= MOST)) {
            fetches[n] = (weft_fetch){port.name, memory[n], port.bytes};
            n++;
        }
    weft_status status = is_manual && no_sync ? weft_run_loss(s, graph, &feed, 1, fetches, n, &out->error)
                         : no_sync            ? weft_run_no_sync(s, graph, &feed, 1, fetches, n, &out->error)
                                              : weft_run(s, graph, &feed, 1, fetches, n, &out->error);
    if (is_manual && !status && random_below(r, 2)) status = weft_run_update(s, graph, &out->error);
    out->refused += status == WEFT_ORDER;
    add_bytes(out, &status, sizeof status);
    for (int i = 0; i < n && !status; i++) add_bytes(out, fetches[i].data, fetches[i].bytes);
    out->fetched += n;
    if (status == WEFT_ORDER) out->error = (weft_error){0};
}

static void add_store(const weft_store *store, result *out) {
    static char memory[MOST];
    const store_part *part;
    for (int i = 0; (part = store_part_at(store, i)); i++) {
        size_t bytes = (size_t)(part->end - part->begin) * dtype_bytes(part->type.dtype);
        if (!part->memory || !CHECK(bytes <= sizeof memory)) continue;
        add_bytes(out, part->memory, bytes);
    }
}

/* A session that waits for nothing that earlier runs left under way. */
static void forget_all(weft_session *s) {
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *p = &s->programs[i];
        for (int k = 0; k < p->n_steps; k++) p->steps[k].n_touched = 0;
        for (int k = 0; k < p->n_outputs; k++) p->outputs[k].owner = NULL;
    }
}

static result play(const weft_plan *plan, stream_pace pace, bool waits, uint64_t seed) {
    result out = {.hash = 14695981039346656037u};
    test_random r = {seed};
    weft_comm *comm = slow_stream_new(plan->options.rank, plan->options.world, pace, seed + 1);
    weft_store *store = weft_store_new(plan, 1, &out.error);
    weft_session *s = store ? weft_session_open_on(plan, store, comm, &out.error) : NULL;
    if (s) weft_session_trace(s, on_event, comm);
    if (s && !waits) forget_all(s);
    for (int i = 0; s && i < RUNS && !out.error.status; i++) {
        run_once(s, plan, &r, &out);
        out.waited += slow_stream_under_way(comm) > 0;
        out.pending += s->deferred.r != NULL;
        if (i % 8 == 7) weft_sync(s, &out.error);
        if (i % 8 == 7)
            CHECK_SAYS(s->n_in_flight == 0 && !s->deferred.r, "%d gathers are in flight after weft_sync",
                       s->n_in_flight);
    }
    if (s) weft_sync(s, &out.error);
    if (s) add_store(store, &out);
    weft_session_close(s);
    weft_store_free(store);
    weft_comm_free(comm);
    return out;
}

TEST(no_pace_of_the_stream_changes_a_bit) {
    test_random r = {test_seed(5)};
    int plans = test_count(200, 12), in_flight = 0, fetched = 0, wrong = 0, pending = 0;
    for (int i = 0; i < plans; i++) {
        weft_error e = {0};
        uint64_t seed = r.state;
        int world = 2 + random_below(&r, 4);
        weft_model *m = random_model(&r, world);
        weft_compile_options options = random_options(&r, world);
        options.rank = random_below(&r, world);
        weft_plan *plan = weft_compile(m, &options, &e);
        weft_model_free(m);
        test_case_begin();
        if (!CHECK_SAYS(plan != NULL, "seed %llu: %s", (unsigned long long)seed, e.text)) {
            test_case_end(false);
            continue;
        }
        result at_once = play(plan, STREAM_AT_ONCE, true, seed);
        CHECK_SAYS(!at_once.error.status, "seed %llu: %s", (unsigned long long)seed, at_once.error.text);
        for (stream_pace pace = STREAM_RANDOM; pace <= STREAM_LATE; pace++) {
            result got = play(plan, pace, true, seed);
            CHECK_SAYS(!got.error.status, "seed %llu: %s", (unsigned long long)seed, got.error.text);
            CHECK_SAYS(got.hash == at_once.hash, "seed %llu, pace %d: other bits", (unsigned long long)seed,
                       pace);
            in_flight += got.waited;
            fetched += got.fetched;
            pending += got.pending;
        }
        bool is_harmless = play(plan, STREAM_LATE, false, seed).hash == at_once.hash;
        wrong += !is_harmless;
        weft_plan_free(plan);
        test_case_end(false);
    }
    CHECK_SAYS(in_flight > plans && fetched > plans, "%d runs left something under way, %d fetches",
               in_flight, fetched);
    CHECK_SAYS(pending > plans, "%d runs left a deferred part", pending);
    CHECK_SAYS(wrong > plans / 4, "only %d of %d plans go wrong where nobody waits", wrong, plans);
}

/* ---- sessions that do not wait, or do not count ---- */

static weft_session *open_sharded(test_random *r, weft_plan **plan, weft_store **store, weft_comm **comm) {
    weft_error e = {0};
    weft_model *m = random_model(r, 2);
    weft_compile_options options = random_options(r, 2);
    options.zero = 1;
    *plan = weft_compile(m, &options, &e);
    weft_model_free(m);
    *comm = slow_stream_new(0, 2, STREAM_AT_ONCE, 1);
    *store = *plan ? weft_store_new(*plan, 1, &e) : NULL;
    weft_session *s = *store ? weft_session_open_on(*plan, *store, *comm, &e) : NULL;
    CHECK_SAYS(s != NULL, "%s", e.text);
    return s;
}

/* Is some value of the step in a variable that `fits`? */
static bool touches(const step *st, const weft_session *s,
                    bool (*fits)(const weft_session *s, const weft_variable *v)) {
    for (int k = 0; k < st->n_touched; k++)
        if (fits(s, st->touched[k])) return true;
    return false;
}

static bool is_sharded(const weft_session *s, const weft_variable *v) {
    (void)s;
    return v->kind == VARIABLE_BUCKET && v->shards;
}

static bool is_deferred(const weft_session *s, const weft_variable *v) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (v->kind == VARIABLE_BUCKET && s->programs[i].needs && s->programs[i].needs[v->index]) return true;
    return false;
}

static bool forget_wait(weft_session *s, bound_program *p, test_random *r) {
    step *st = &p->steps[random_below(r, p->n_steps)];
    if (node_starts_collective(st->node) || !touches(st, s, is_sharded)) return false;
    st->n_touched = 0;
    return true;
}

/* A step that may be the first to meet a deferred part forgets it. */
static bool forget_deferred(weft_session *s, bound_program *p, test_random *r) {
    step *st = &p->steps[random_below(r, p->n_steps)];
    if (st->ends_deferred || st->node->order >= p->p->deferred || !touches(st, s, is_deferred)) return false;
    st->n_touched = 0;
    return true;
}

static bool has_deferred(const weft_session *s) {
    return s->plan->in_flight_bytes > 0;
}

static bool forget_region(weft_session *s, bound_program *p, test_random *r) {
    step *st = &p->steps[random_below(r, p->n_steps)];
    bool is_it =
        st->ends_deferred && !st->n_touched && p->deferred < p->n_steps && st < p->steps + p->deferred;
    if (!is_it || node_starts_collective(st->node)) return false;
    st->ends_deferred = false;
    return has_deferred(s);
}

static bool overtake_deferred(weft_session *s, bound_program *p, test_random *r) {
    step *st = &p->steps[random_below(r, p->n_steps)];
    if (!has_deferred(s) || !node_starts_collective(st->node) || st >= p->steps + p->deferred) return false;
    st->ends_deferred = false;
    for (int i = 0; i < s->plan->n_programs; i++) {
        const bound_program *other = &s->programs[i];
        if (other->deferred < other->n_steps && deferred_needed_by(other, st) < other->n_steps) return true;
    }
    st->ends_deferred = true; /* it needs all that each of them writes: it waits for that */
    return false;
}

static bool leave_late(weft_session *s, bound_program *p, test_random *r) {
    (void)s, (void)r;
    if (p->deferred == p->n_steps) return false;
    p->deferred++;
    return true;
}

static bool hide_arrival(weft_session *s, bound_program *p, test_random *r) {
    (void)s, (void)r;
    return p->deferred < p->n_steps && p->n_owners-- > 0;
}

static bool is_from_shards(const program *p, const char *output) {
    for (const graph_output *o = p->graph->outputs; o; o = o->next) {
        const weft_variable *v = value_root(o->value)->variable;
        if (strcmp(o->name, output) == 0) return v && v->bucket && v->bucket->shards;
    }
    return false;
}

static bool forget_fetch(weft_session *s, bound_program *p, test_random *r) {
    (void)s;
    if (!p->n_outputs) return false; /* an update alone */
    fetched *o = &p->outputs[random_below(r, p->n_outputs)];
    o->owner = NULL;
    return is_from_shards(p->p, o->name);
}

static bool forget_version(weft_session *s, bound_program *p, test_random *r) {
    (void)s, (void)r;
    bool is_real = p->p->trains && program_ends_step(p->p);
    if (is_real) p->n_written = 0;
    return is_real;
}

typedef struct forgetful {
    bool (*forget)(weft_session *s, bound_program *p, test_random *r);
    const char *rules;
} forgetful;

/* Whether there was something to forget. */
static bool try_forgetful(weft_session *s, const forgetful *f, test_random *r, int number) {
    weft_error e = {0};
    CHECK_SAYS(verify_session(s, &e) == WEFT_OK, "%s", e.text);
    for (int tries = 0; tries < 40; tries++) {
        bound_program *p = &s->programs[random_below(r, s->plan->n_programs)];
        if (!f->forget(s, p, r)) continue;
        weft_status status = verify_session(s, &e);
        char rule[4] = {e.text[0], e.text[1], e.text[2]};
        CHECK_SAYS(status && strstr(f->rules, rule), "session %d is not caught by %s: %s", number, f->rules,
                   e.text);
        return true;
    }
    return false;
}

TEST(a_session_that_forgets_to_wait_is_caught) {
    static const forgetful mutants[] = {{forget_wait, "L14 L18"}, {forget_fetch, "L14 L18"},
                                        {forget_version, "L15"},  {forget_deferred, "L18"},
                                        {forget_region, "L18"},   {overtake_deferred, "L19"},
                                        {leave_late, "L19"},      {hide_arrival, "L19"}};
    enum { KINDS = sizeof mutants / sizeof *mutants };
    test_random r = {9};
    int hits[KINDS] = {0}, sessions = KINDS * (test_is_quick() ? 8 : 40);
    for (int i = 0; i < sessions; i++) {
        weft_plan *plan;
        weft_store *store;
        weft_comm *comm;
        weft_session *s = open_sharded(&r, &plan, &store, &comm);
        if (s) hits[i % KINDS] += try_forgetful(s, &mutants[i % KINDS], &r, i);
        weft_session_close(s);
        weft_store_free(store);
        weft_comm_free(comm);
        weft_plan_free(plan);
    }
    for (int k = 0; k < KINDS; k++)
        CHECK_SAYS(hits[k] > sessions / KINDS / 12, "kind %d: %d mutants", k, hits[k]);
}

SUITE("verify runs", {T(no_pace_of_the_stream_changes_a_bit), T(a_session_that_forgets_to_wait_is_caught)})
