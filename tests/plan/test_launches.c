/* test_launches.c - plans for a GPU, on any machine: every zoo model in several worlds is cut into launches
 * that the verifier accepts; after a change to one of them it names the broken rule. */
#include "examples/zoo.h"
#include "runtime/plan/launches.h"
#include "runtime/plan/program.h"
#include "runtime/verify/verify.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    int world, zero, accumulate;
    weft_dtype precision;
    bool serial;
    weft_guard guard;
} setting;

static const setting settings[] = {{1, 0, 1, WEFT_F32, false},
                                   {1, 0, 1, WEFT_BF16, false},
                                   {4, 0, 1, WEFT_BF16, false},
                                   {4, 1, 1, WEFT_BF16, false},
                                   {4, 2, 1, WEFT_F16, false},
                                   {8, 1, 3, WEFT_F32, false},
                                   {4, 1, 1, WEFT_F32, true},
                                   {1, 0, 2, WEFT_F32, false, WEFT_GUARD_NAN},
                                   {4, 2, 1, WEFT_BF16, false, WEFT_GUARD_NAN},
                                   {4, 1, 1, WEFT_F16, false, WEFT_GUARD_GRAD}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static weft_model *zoo_model(const zoo_entry *entry) {
    weft_model *m = weft_model_new(entry->name);
    zoo_options o = ZOO_DEFAULTS;
    if (entry->own) o = zoo_sized(&o, entry->own);
    o.batch = 2;
    weft_model_set_batch(m, 2);
    entry->build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_plan *compile(const weft_model *m, const setting *s) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m,
                                   &(weft_compile_options){.device = WEFT_DEVICE_CUDA,
                                                           .threads = 1,
                                                           .world = s->world,
                                                           .rank = s->world - 1,
                                                           .zero = s->zero,
                                                           .accumulate = s->accumulate,
                                                           .precision = s->precision,
                                                           .serial = s->serial,
                                                           .guard = s->guard},
                                   &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    return plan;
}

static int count_kind(const program *p, launch_kind kind) {
    int n = 0;
    for (int i = 0; i < p->n_launches; i++) n += p->launches[i].kind == kind;
    return n;
}

TEST(zoo_models_are_cut_into_launches_that_hold) {
    weft_error error;
    for (int i = 0; i < ZOO_MODELS; i++) {
        weft_model *m = zoo_model(&zoo_models[i]);
        for (int k = 0; k < SETTINGS; k++) {
            weft_plan *plan = compile(m, &settings[k]);
            if (!plan) continue;
            for (int p = 0; p < plan->n_programs; p++) {
                const program *one = &plan->programs[p];
                CHECK_SAYS(!verify_launches(one, &error), "%s: %s", zoo_models[i].name, error.text);
                CHECK(count_kind(one, LAUNCH_COLLECTIVE) == one->n_collectives);
            }
            CHECK(plan->memory.inputs > CUDA_RUN_BYTES);
            weft_plan_free(plan);
        }
        weft_model_free(m);
    }
}

/* Alone there is nothing to wait for: uploads, derived values, the rest; once more where the order of least
 * memory parts them. */
TEST(one_gpu_needs_few_launches_a_step) {
    for (int i = 0; i < ZOO_MODELS; i++) {
        weft_model *m = zoo_model(&zoo_models[i]);
        weft_plan *plan = compile(m, &settings[1]);
        for (int p = 0; plan && p < plan->n_programs; p++)
            CHECK_SAYS(plan->programs[p].n_launches <= 4, "%s: %s has %d launches", zoo_models[i].name,
                       plan->programs[p].name, plan->programs[p].n_launches);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* Each line of the plan's list says how its launch goes to the GPU. */
TEST(plans_say_what_is_captured) {
    static const char *const ways[] = {", not captured\n", ", captured\n", ", captured\n",
                                       ", captured over NCCL\n"};
    weft_model *m = zoo_model(&zoo_models[0]);
    weft_plan *plan = compile(m, &settings[3]);
    char *text = weft_plan_text(plan);
    int lines[4] = {0};
    for (const char *at = text; at && (at = strstr(at, "# launch ")); at++)
        for (int kind = 0; kind < 4; kind++) {
            char begin[40];
            const char *end = strchr(at, '\n');
            size_t length = strlen(ways[kind]);
            snprintf(begin, sizeof begin, ": %s, steps", launch_name((launch_kind)kind));
            const char *name = strstr(at, begin);
            if (!end || !name || name > end) continue;
            lines[kind]++;
            CHECK_SAYS(strncmp(end + 1 - length, ways[kind], length) == 0, "%.*s", (int)(end - at), at);
        }
    for (int kind = 0; kind < 4; kind++)
        CHECK_SAYS(lines[kind] > 0, "no launch is %s", launch_name((launch_kind)kind));
    weft_text_free(text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- one change ---- */

typedef bool change(program *p, launch_entry *l);

static bool lose_wait(program *p, launch_entry *l) {
    (void)p;
    if (l->waits < 0) return false;
    l->waits = -1;
    return true;
}

static bool wait_for_earlier(program *p, launch_entry *l) {
    (void)p;
    int of_stream = -1;
    for (int i = 0; i < l->waits; i++)
        if ((p->launches[i].kind == LAUNCH_COLLECTIVE) != (l->kind == LAUNCH_COLLECTIVE) &&
            p->launches[i].records)
            of_stream = i;
    if (of_stream < 0) return false;
    l->waits = of_stream;
    return true;
}

static bool wait_for_later(program *p, launch_entry *l) {
    if (l->waits < 0) return false;
    l->waits = p->n_launches - 1;
    return true;
}

static bool lose_event(program *p, launch_entry *l) {
    (void)p;
    bool had = l->records;
    l->records = false;
    return had;
}

static bool lose_gather(program *p, launch_entry *l) {
    (void)p;
    if (!l->n_in_flight) return false;
    l->n_in_flight--;
    return true;
}

static bool lose_node(program *p, launch_entry *l) {
    (void)p;
    if (l->n_nodes < 2) return false;
    l->last--;
    return true;
}

static bool lose_gate(program *p, launch_entry *l) {
    (void)p;
    bool had = l->gates;
    l->gates = false;
    return had;
}

static bool gain_gate(program *p, launch_entry *l) {
    (void)p;
    bool had = l->gates;
    l->gates = true;
    return !had;
}

static bool change_kind(program *p, launch_entry *l) {
    (void)p;
    if (!l->n_nodes || l->kind == LAUNCH_COLLECTIVE) return false;
    l->kind = l->kind == LAUNCH_COMPUTE ? LAUNCH_REFRESH : LAUNCH_COMPUTE;
    return true;
}

static const struct {
    const char *name;
    change *make;
    const char *rules; /* any of which may say it */
    bool may_be_harmless;
} changes[] = {{"a wait is gone", lose_wait, "S2 S3", true}, /* a later one may do for it */
               {"a wait is for an earlier launch", wait_for_earlier, "S2 S3", true},
               {"a wait is for a later launch", wait_for_later, "S5", false},
               {"an event is gone", lose_event, "S5", false},
               {"a gather is not awaited", lose_gather, "S4", false},
               {"a node is in no launch", lose_node, "S1", false},
               {"a launch is of another kind", change_kind, "S1", false},
               {"the gate is not read", lose_gate, "S6", false},
               {"what is read as a gate is not a gate", gain_gate, "S6", false}};
enum { CHANGES = sizeof changes / sizeof *changes };

static int caught[7], made[CHANGES]; /* by number of the rule; by change */

static void try_change(program *p, int index, int c) {
    weft_error error = {0};
    launch_entry before = p->launches[index];
    if (changes[c].make(p, &p->launches[index])) {
        bool is_good = !verify_launches(p, &error);
        made[c]++;
        CHECK_SAYS(!is_good || changes[c].may_be_harmless, "graph %s, launch %d: %s, and no rule says so",
                   p->graph->name, index, changes[c].name);
        if (!is_good) {
            char rule[3] = {error.text[0], error.text[1]};
            CHECK_SAYS(strstr(changes[c].rules, rule), "%s, and the rule is %s", changes[c].name, error.text);
            caught[rule[1] - '0']++;
        }
    }
    p->launches[index] = before;
}

TEST(a_changed_launch_is_found_by_its_rule) {
    static const setting sharded = {4, 1, 1, WEFT_BF16, false, WEFT_GUARD_NAN};
    const char *const names[] = {"mlp", "gpt", "dcgan28"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int z = 0; z < ZOO_MODELS; z++) {
            if (strcmp(zoo_models[z].name, names[i])) continue;
            weft_model *m = zoo_model(&zoo_models[z]);
            weft_plan *plan = compile(m, &sharded);
            for (int p = 0; plan && p < plan->n_programs; p++)
                for (int l = 0; l < plan->programs[p].n_launches; l++)
                    for (int c = 0; c < CHANGES; c++) try_change(&plan->programs[p], l, c);
            weft_plan_free(plan);
            weft_model_free(m);
        }
    for (int rule = 1; rule <= 6; rule++) CHECK_SAYS(caught[rule] > 0, "S%d has caught nothing", rule);
    for (int c = 0; c < CHANGES; c++) CHECK_SAYS(made[c] > 0, "never: %s", changes[c].name);
}

/* Moves the first node of the launch after the gate into the gate's. */
static bool move_past_gate(program *p) {
    int gate = 0;
    while (gate + 1 < p->n_launches && !p->launches[gate].gates) gate++;
    launch_entry *l = &p->launches[gate], *next = l + 1;
    if (!l->gates || gate + 1 == p->n_launches || next->n_nodes < 2) return false;
    l->last = next->first;
    l->n_nodes++;
    next->n_nodes--;
    for (const weft_node *n = p->graph->last; n && n->order > l->last; n = n->prev) {
        launch_kind kind;
        if (launch_kind_of(n, &kind) && kind == LAUNCH_COMPUTE) next->first = n->order;
    }
    return true;
}

TEST(a_launch_that_goes_on_past_its_gate_is_found) {
    static const setting guarded = {1, 0, 1, WEFT_F32, false, WEFT_GUARD_NAN};
    int moved = 0;
    for (int i = 0; i < ZOO_MODELS; i++) {
        weft_model *m = zoo_model(&zoo_models[i]);
        weft_plan *plan = compile(m, &guarded);
        for (int p = 0; plan && p < plan->n_programs; p++) {
            weft_error error = {0};
            if (!move_past_gate(&plan->programs[p])) continue;
            moved++;
            CHECK(verify_launches(&plan->programs[p], &error) == WEFT_INTERNAL);
            CHECK_HOLDS(error.text, "S6: ");
        }
        weft_plan_free(plan);
        weft_model_free(m);
    }
    CHECK_SAYS(moved >= ZOO_MODELS, "%d programs", moved);
}

/* Heads of 300 elements, and f64 in rows, are beyond the GPU's kernels. */
TEST(all_ops_without_a_kernel_are_told_at_once) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){1, 1, 2, 300});
    weft_value *y = weft_cast(weft_attention(x, x, x, NULL), WEFT_F64);
    y = weft_softmax(weft_scale(weft_softmax(y, -1), 3), -1);
    weft_output(weft_sum(weft_log_softmax(y, -1), WEFT_ALL, false), "y");
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA}, &error);
    CHECK(plan == NULL && error.status == WEFT_UNSUPPORTED);
    CHECK_HOLDS(error.text, "attention %");
    CHECK_HOLDS(error.text, ", softmax %");
    CHECK_HOLDS(error.text, ", log_softmax %");
    CHECK_HOLDS(error.text,
                ": no kernel of this backend can run them (attention: tensor cores: heads of more than");
    CHECK_SAYS(!strstr(strstr(error.text, ", softmax") + 1, ", softmax"), "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("launches",
      {T(zoo_models_are_cut_into_launches_that_hold), T(one_gpu_needs_few_launches_a_step),
       T(plans_say_what_is_captured), T(a_changed_launch_is_found_by_its_rule),
       T(a_launch_that_goes_on_past_its_gate_is_found), T(all_ops_without_a_kernel_are_told_at_once)})
