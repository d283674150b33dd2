/* test_own_optimizers.c - optimizers of your own: what a builder built is recorded in the model, in its
 * text and in model.bin, so a loaded model trains to the same bits without the builder; any world does too;
 * what definitions and updates may not be is refused, and so are files and texts that say it. */
#include "ops/cpu/isa.h"
#include "graph/settings/minimize.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "support/models/own_model.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const weft_param_group bias = {"*bias", 0.5, WEFT_ZERO};
static const weft_optimizer optimizers[] = {
    {.type = "signum", .lr = 0.01, .momentum = 0.5, .weight_decay = 0.1, .n_groups = 1, .groups = &bias},
    {.type = "signum", .lr = 0.01, .clip_norm = 0.1},
    {.type = "normed", .lr = 0.1},
    {.type = "normed", .lr = 0.1, .eps = 0.01, .clip_norm = 0.01},
};
enum { N = sizeof optimizers / sizeof *optimizers };

static weft_model *good_model(const weft_optimizer *o) {
    weft_model *m = own_model(NULL, o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what is recorded ---- */

static int records(const own_optimizer *o) {
    int count = 0;
    for (const update_record *r = o->records; r; r = r->next) count++;
    return count;
}

TEST(an_update_element_by_element_is_recorded_once_another_for_each_shape) {
    weft_model *m = good_model(&optimizers[2]);
    const own_optimizer *signum = m->own, *scaled = signum->next;
    CHECK(signum->is_elementwise && records(signum) == 1);
    CHECK(!scaled->is_elementwise && records(scaled) == 6); /* three weights, three biases */
    weft_model_free(m);
}

TEST(signum_does_what_its_formula_says) {
    weft_model *m = weft_model_new("m");
    weft_define_optimizer(m, &own_signum);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *p = weft_parameter_in(g, "p", 1, (int64_t[]){3}, (weft_init){WEFT_INIT_ONES});
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){3});
    weft_minimize(weft_sum(weft_mul(p, x), WEFT_ALL, false), "",
                  &(weft_optimizer){.type = "signum", .lr = 0.25, .weight_decay = 0.5});
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    float slope[3] = {3, 0, -2}, got[3];
    double want[3] = {1, 1, 1};
    for (int step = 0; step < 3; step++) {
        weft_run(s, "step", (weft_feed[]){{"x", slope, sizeof slope}}, 1, NULL, 0, &e);
        for (int i = 0; i < 3; i++) want[i] -= 0.25 * ((slope[i] > 0) - (slope[i] < 0) + 0.5 * want[i]);
    }
    CHECK_SAYS(weft_store_get(store, "p", got, sizeof got, &e) == WEFT_OK, "%s", e.text);
    for (int i = 0; i < 3; i++)
        CHECK_SAYS(fabs(got[i] - want[i]) < 1e-5, "%d: %g, not %g", i, (double)got[i], want[i]);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- what the builder sees ---- */

enum { SEEN = 4 };

/* Its slot is the gradient that it was given. */
static void echo(weft_update *u) {
    u->slots[0] = u->gradient;
    u->parameter = weft_sub(u->parameter, weft_update_scale(u->gradient, u->lr));
}

/* The loss is the sum of w x, so each micro-batch's gradient of w is its x. */
static weft_model *echo_model(bool is_f16) {
    weft_model *m = weft_model_new("m");
    weft_define_optimizer(m, &(weft_optimizer_definition){"echo", .slots = {{"seen", 0}}, .build = echo});
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(1, SEEN));
    weft_value *w = weft_parameter(x, "w", WEFT_SHAPE(SEEN, 1), (weft_init){WEFT_INIT_ZEROS});
    weft_minimize(
        weft_sum(weft_matmul(x, w, false, false), WEFT_ALL, false), NULL,
        &(weft_optimizer){
            .type = "echo", .lr = 0.5, .clip_value = 1, .clip_norm = 1.25, .loss_scale = is_f16 ? 256 : 0});
    return m;
}

/* One step on four micro-batches, of this rank's share. Where is_bad, the last rank's last one overflows. */
static void echo_step(world_rank *r, bool is_bad) {
    static const float xs[4][SEEN] = {{8, 3, 0.5f, -2}, {-8, 3, 0.25f, -2}, {7, 3, 0, -2}, {-6, 3, 0.25f, 2}};
    int each = 4 / r->world;
    for (int i = 0; i < each; i++) {
        float x[SEEN];
        memcpy(x, xs[r->rank * each + i], sizeof x);
        if (is_bad && r->rank == r->world - 1 && i == each - 1) x[2] = 1e6f;
        weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
    }
    if (!r->error.status) weft_sync(r->session, &r->error);
}

/* Means 0.25, 3, 0.25, -1; by value 0.25, 1, 0.25, -1; their norm is 1.4577. */
static void check_seen(world_rank *r) {
    static const double means[SEEN] = {0.25, 1, 0.25, -1};
    float seen[SEEN], w[SEEN];
    weft_store_get(r->store, "optimizer.echo:all/w/seen", seen, sizeof seen, &r->error);
    weft_store_get(r->store, "w", w, sizeof w, &r->error);
    for (int i = 0; i < SEEN && !r->error.status; i++) {
        double want = means[i] * 1.25 / sqrt(2.125);
        CHECK_SAYS(fabs(seen[i] - want) < 1e-5 && fabs(w[i] + 0.5 * want) < 1e-5,
                   "rank %d of %d: element %d of the gradient is %g, not %g; w is %g", r->rank, r->world, i,
                   (double)seen[i], want, (double)w[i]);
    }
}

static void echo_run(world_rank *r) {
    bool is_f16 = r->job->options.precision == WEFT_F16;
    echo_step(r, false);
    check_seen(r);
    if (is_f16) echo_step(r, true);
    if (is_f16) check_seen(r);
}

/* Summed over micro-batches and ranks, unscaled, clipped by value, then by norm. In f16 a step that overflows
 * changes nothing. */
TEST(the_builder_sees_the_finished_gradient_and_no_step_that_overflows) {
    for (int f16 = 0; f16 < 2; f16++)
        for (int world = 1; world <= 4; world *= 2) {
            weft_model *m = echo_model(f16);
            world_job job = {.model = m, .run = echo_run};
            job.options = (weft_compile_options){.world = world,
                                                 .accumulate = 4 / world,
                                                 .precision = f16 ? WEFT_F16 : WEFT_F32,
                                                 .verify = true};
            world_free(world_run(&job));
            weft_model_free(m);
        }
}

/* ---- the same bits ---- */

static world_rank *trained(const weft_model *m, int world, int accumulate, int zero, weft_shard shard) {
    world_job job = {.model = m, .steps = 5};
    job.options = (weft_compile_options){.world = world,
                                         .accumulate = accumulate,
                                         .zero = zero,
                                         .shard = shard,
                                         .bucket_cap_mb = 0.01,
                                         .verify = true};
    return world_run(&job);
}

TEST(any_world_trains_to_the_bits_of_one_rank) {
    for (int i = 0; i < N; i++) {
        bool is_flat = strcmp(optimizers[i].type, "signum") == 0;
        weft_model *m = good_model(&optimizers[i]);
        world_rank *alone = trained(m, 1, 2, 0, 0);
        for (int zero = 0; zero <= 2; zero++)
            for (int shard = 0; shard <= (is_flat && zero); shard++) {
                char what[80];
                world_rank *ranks = trained(m, 2, 1, zero, (weft_shard)shard);
                snprintf(what, sizeof what, "%d, zero=%d shard=%d", i, zero, shard);
                world_check(alone, ranks, 2, world_trained, what);
                world_free(ranks);
            }
        world_free(alone);
        weft_model_free(m);
    }
}

/* Through model.bin, and through the text. */
static weft_model *again(const weft_model *m, bool is_text) {
    weft_error e = {0};
    weft_model *copy;
    char path[] = "/tmp/weft_own_XXXXXX";
    if (is_text) {
        char *text = weft_model_text(m);
        copy = weft_model_parse(text, "text", NULL, &e);
        weft_text_free(text);
    } else {
        int file = mkstemp(path);
        if (file >= 0) close(file);
        CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
        copy = weft_load(path, NULL, &e);
        unlink(path);
    }
    CHECK_SAYS(copy != NULL, "%s", e.text);
    return copy;
}

TEST(a_model_that_was_read_trains_to_the_same_bits_without_the_builder) {
    for (int i = 0; i < 2 * N; i++) {
        weft_model *m = good_model(&optimizers[i / 2]), *copy = again(m, i % 2);
        char *text = weft_model_text(m), *read = weft_model_text(copy);
        CHECK_TEXT(read, text);
        world_rank *one = trained(m, 1, 1, 0, 0), *two = trained(copy, 1, 1, 0, 0);
        world_check(one, two, 1, world_all, "read again");
        world_free(one);
        world_free(two);
        weft_text_free(text);
        weft_text_free(read);
        weft_model_free(m);
        weft_model_free(copy);
    }
}

/* After each pass; a plan without `minimize` nodes names no definitions. */
TEST(dumps_of_all_passes_are_read_back) {
    for (int i = 0; weft_pass_name(i); i++) {
        weft_error e = {0};
        weft_model *m = good_model(&optimizers[i % N]);
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.stop_after = weft_pass_name(i)}, &e);
        char *text = plan ? weft_plan_text(plan) : NULL;
        weft_model *copy = text ? weft_model_parse(text, "plan", NULL, &e) : NULL;
        char *read = copy ? weft_model_text(copy) : NULL;
        CHECK_SAYS(read != NULL, "%s: %s", weft_pass_name(i), e.text);
        if (read) CHECK_TEXT(read, text);
        weft_text_free(text);
        weft_text_free(read);
        weft_model_free(copy);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* What simplify puts in the place of a node of the update is one too: it is fused with its neighbours, and
 * may run late as they do. */
TEST(an_update_is_fused_into_one_node_a_bucket) {
    weft_error e = {0};
    int fused = 0, renewed = 0, busy = 0;
    if (isa_best() == WEFT_ISA_REFERENCE) return; /* no kernel of this processor is fused */
    weft_model *m = good_model(&optimizers[1]);
    weft_plan *plan = weft_compile(m, NULL, &e);
    if (!CHECK_SAYS(plan != NULL, "%s", e.text)) return;
    bool is_behind = false;
    for (const weft_node *n = plan->programs[0].graph->first; n; n = n->next) {
        is_behind |= strcmp(n->op->name, "schedule") == 0;
        if (!is_behind || n->out[0].type.ndim == 0 || node_is_silent(n)) continue;
        CHECK_SAYS(n->is_update, "%s is after the schedule, but is not a part of the update", n->op->name);
        renewed += strcmp(n->op->name, "renew") == 0;
        fused += strcmp(n->op->name, "fused") == 0;
        busy++;
    }
    CHECK_SAYS(fused == 1 && renewed == 2 && busy <= 4, "%d fused, %d renewals of %d nodes", fused, renewed,
               busy);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* As adam's, an update that is made of ops element by element copies nothing: it writes parameters and state
 * where they lie, in worlds and with ZeRO, too. For nadam and rprop two fused nodes make the update, and one
 * value is renewed by a node that does not read it. */
TEST(updates_element_by_element_are_written_in_place) {
    static const weft_optimizer built[] = {
        {.type = "signum", .lr = 0.01, .clip_norm = 0.1},
        {.type = "rmsprop", .momentum = 0.9},
        {.type = "rmsprop", .clip_norm = 1},
        {.type = "adagrad"},
        {.type = "adadelta"},
        {.type = "adamax"},
        {.type = "nadam"},
        {.type = "radam"},
        {.type = "amsgrad"},
        {.type = "asgd"},
        {.type = "rprop"},
        {.type = "lion"},
    };
    if (isa_best() == WEFT_ISA_REFERENCE) return; /* no kernel of this processor is fused */
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        for (int world = 1; world <= 2; world++) {
            weft_error e = {0};
            int renewed = 0, copied = 0;
            weft_model *m = good_model(&built[i]);
            weft_plan *plan = weft_compile(
                m, &(weft_compile_options){.world = world, .zero = world - 1, .verify = true}, &e);
            CHECK_SAYS(plan != NULL, "%s: %s", built[i].type, e.text);
            for (const weft_node *n = plan ? plan->programs[0].graph->first : NULL; n; n = n->next) {
                bool is_renewal = strcmp(n->op->name, "renew") == 0;
                renewed += is_renewal;
                copied += is_renewal && value_root(n->in[2]) != n->in[0];
            }
            int most = strcmp(built[i].type, "nadam") == 0 || strcmp(built[i].type, "rprop") == 0;
            CHECK_SAYS(renewed > 0 && copied <= most, "%s in a world of %d: %d of %d renewals are copies",
                       built[i].type, world, copied, renewed);
            weft_plan_free(plan);
            weft_model_free(m);
        }
}

/* ---- what is refused ---- */

TEST(flat_shards_are_refused_where_they_would_cut_a_norm) {
    weft_error e = {0};
    weft_model *m = good_model(&optimizers[2]);
    CHECK(!weft_compile(m, &(weft_compile_options){.world = 2, .zero = 2, .shard = WEFT_SHARD_FLAT}, &e));
    CHECK_HOLDS(e.text,
                "has shard=flat, which cuts parameters, but the update of normed is not element by element: "
                "use shard=greedy, or zero=0");
    weft_model_free(m);
}

TEST(a_shape_that_was_not_recorded_is_refused) {
    weft_error e = {0};
    weft_model *m = good_model(&optimizers[2]), *copy = again(m, false);
    weft_graph *g = weft_graph_new(copy, "other", WEFT_TRAIN);
    weft_value *p = weft_parameter_in(g, "p", 1, (int64_t[]){3}, (weft_init){WEFT_INIT_ONES});
    weft_minimize(weft_mean(p, WEFT_ALL, false), "p", &(weft_optimizer){.type = "normed"});
    CHECK(!weft_compile(copy, NULL, &e));
    CHECK_HOLDS(e.text, "optimizer normed: its update is not recorded for parameters f32[3]");
    weft_model_free(m);
    weft_model_free(copy);
}

static void nothing(weft_update *u) {
    (void)u;
}
static void null(weft_update *u) {
    u->parameter = NULL;
}
static void other_shape(weft_update *u) {
    u->parameter = weft_mean(u->parameter, WEFT_ALL, false);
}
static void draws(weft_update *u) {
    weft_graph *g = weft_value_graph(u->parameter);
    u->parameter = weft_add(u->parameter, weft_random_normal(g, WEFT_SHAPE(7), 0, 1));
}
static void makes_state(weft_update *u) {
    weft_graph *g = weft_value_graph(u->parameter);
    u->parameter = weft_add(u->parameter, weft_parameter_in(g, "w", 0, NULL, (weft_init){WEFT_INIT_ONES}));
}
static void mixes(weft_update *u) {
    u->parameter = weft_sub(u->parameter, u->lr);
}
static void long_one(weft_update *u) {
    for (int i = 0; i < 600; i++) u->parameter = weft_offset(u->parameter, 1);
}
static void matrices(weft_update *u) {
    u->parameter = weft_matmul(u->parameter, u->parameter, true, false);
}

TEST(what_a_definition_may_not_be_is_told) {
    static const struct {
        const char *error;
        weft_optimizer_definition d;
        bool minimizes; /* the error comes when a call uses it */
    } rows[] = {
        {NULL, {"still", .build = nothing}, true},
        {"a definition with a builder is needed", {"x"}, false},
        {"its type must be 1 to 40 letters", {"a b", .build = nothing}, false},
        {"its type must be 1 to 40 letters", {NULL, .build = nothing}, false},
        {"there is one of this type already", {"AdamW", .build = nothing}, false},
        {"slot 'a b': 1 to 40 letters", {"x", .slots = {{"a b", 0}}, .build = nothing}, false},
        {"slot 'a': 1 to 40 letters, digits, '_', and no two alike",
         {"x", .slots = {{"a", 0}, {"a", 0}}, .build = nothing},
         false},
        {"slot a: its initial value inf", {"x", .slots = {{"a", INFINITY}}, .build = nothing}, false},
        {"number 'softness': it must name, once, a number of weft_optimizer",
         {"x", .numbers = {{"softness", 0}}, .build = nothing},
         false},
        {"number 'lr': it must name, once", {"x", .numbers = {{"lr", 0}}, .build = nothing}, false},
        {"number 'eps': it must name, once",
         {"x", .numbers = {{"eps", 0}, {"eps", 0}}, .build = nothing},
         false},
        {"eps=-1: it must be from 0", {"x", .numbers = {{"eps", -1}}, .build = nothing}, false},
        {"its update: a value is NULL when its builder returns", {"x", .build = null}, true},
        {"its update: parameter must keep the parameter's shape", {"x", .build = other_shape}, true},
        {"draws random numbers", {"x", .build = draws}, true},
        {"names a variable: state is kept in slots", {"x", .build = makes_state}, true},
        {"cast one", {"x", .build = mixes}, true},
        {"has more than 512 calls", {"x", .build = long_one}, false},
        {"matmul", {"x", .build = matrices}, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = weft_model_new("m");
        weft_error e = {0};
        weft_define_optimizer(m, &rows[i].d);
        if (rows[i].minimizes) {
            weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
            weft_value *p = weft_parameter_in(g, "p", 1, (int64_t[]){7}, (weft_init){WEFT_INIT_ONES});
            weft_minimize(weft_mean(p, WEFT_ALL, false), "", &(weft_optimizer){.type = rows[i].d.type});
        }
        weft_plan *plan = weft_compile(m, NULL, &e);
        CHECK_SAYS(rows[i].error ? !plan && strstr(e.text, rows[i].error) : plan != NULL,
                   "wanted '%s', got '%s'", rows[i].error ? rows[i].error : "none", e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
    CHECK(weft_define_optimizer(NULL, &own_signum) == WEFT_ARGUMENT);
}

/* One replacement in the text of a good model each. */
TEST(texts_that_define_what_no_builder_can_are_refused) {
    static const struct {
        const char *from, *to, *error;
    } rows[] = {
        {"define signum", "define adam", "there is one of this type already"},
        {"slot momentum_buffer=0", "slot momentum_buffer=x", "momentum_buffer has no number"},
        {"define signum", "define signum x", "' number ' is expected"},
        {"define signum", "define signum slot momentum_buffer=1", "and no two alike"},
        {"update signum", "update nobody", "update: no line defines 'nobody'"},
        {"name=\"gradient\"", "name=\"other\"", "other is not an input that an update has"},
        {"name=\"parameter\"", "name=\"step\"", "has an input 'step' already"},
        {"output parameter", "output lr", "lr is not an output that an update has"},
        {"output slot.momentum_buffer", "output slot.none", "slot.none is not an output"},
        {"= sub(", "= random_normal(", "random_normal: 2 operands, 0 to 0 are allowed"},
        {"graph step train", "graph step train\nupdate signum", "updates must come before graphs"},
        {"f64[] = input() name=\"lr\" dtype=f64", "f32[] = input() name=\"lr\" dtype=f32", "numbers f64[]"},
    };
    weft_model *m = good_model(&optimizers[0]);
    char *text = weft_model_text(m);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        char *at = strstr(text, rows[i].from);
        if (!CHECK_SAYS(at != NULL, "'%s' is not in %s", rows[i].from, text)) continue;
        size_t before = (size_t)(at - text);
        char *changed = test_memory(strlen(text) + strlen(rows[i].to) + 1);
        sprintf(changed, "%.*s%s%s", (int)before, text, rows[i].to, at + strlen(rows[i].from));
        weft_model *read = weft_model_parse(changed, "text", NULL, &e);
        CHECK_SAYS(!read && strstr(e.text, rows[i].error), "%s: wanted '%s', got '%s'", rows[i].to,
                   rows[i].error, e.text);
        weft_model_free(read);
        free(changed);
    }
    weft_text_free(text);
    weft_model_free(m);
}

SUITE("own optimizers",
      {T(an_update_element_by_element_is_recorded_once_another_for_each_shape),
       T(signum_does_what_its_formula_says),
       T(the_builder_sees_the_finished_gradient_and_no_step_that_overflows),
       T(any_world_trains_to_the_bits_of_one_rank),
       T(a_model_that_was_read_trains_to_the_same_bits_without_the_builder),
       T(dumps_of_all_passes_are_read_back), T(an_update_is_fused_into_one_node_a_bucket),
       T(updates_element_by_element_are_written_in_place),
       T(flat_shards_are_refused_where_they_would_cut_a_norm), T(a_shape_that_was_not_recorded_is_refused),
       T(what_a_definition_may_not_be_is_told), T(texts_that_define_what_no_builder_can_are_refused)})
