/* test_precision.c - bf16 and f16: how a model states its precision and where that is kept; every op runs
 * reduced as its rule says; every model of the zoo compiles and is verified in any world; worlds train to the
 * same bits; weights are cast once per update. (Dumps: test_plan_text; trainings beside PyTorch's autocast:
 * test_goldens; f16's scale: test_loss_scale.) */
#include "examples/zoo.h"
#include "graph/settings/clone.h"
#include "graph/settings/precision.h"
#include "ops/catalog/catalog.h"
#include "ops/optimizer/update.h"
#include "runtime/plan/program.h"
#include "support/kernels/sample.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const weft_dtype lows[] = {WEFT_BF16, WEFT_F16};

/* ---- what a model says ---- */

/* Two graphs over scopes a, a/b and c. */
static weft_model *scoped(void) {
    weft_model *m = weft_model_new("scoped");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 8});
        WEFT_SCOPE(x, "a") {
            x = weft_linear(x, 8, "fc", NULL);
            WEFT_SCOPE(x, "b") x = weft_relu(weft_linear(x, 8, "fc", NULL));
        }
        WEFT_SCOPE(x, "c") x = weft_linear(x, 8, "fc", NULL);
        weft_output(x, "y");
    }
    return m;
}

TEST(the_longest_path_that_fits_a_node_is_its_precision) {
    weft_model *m = scoped();
    CHECK(precision_of(m, "train", "a/b", WEFT_BF16) == WEFT_BF16);
    CHECK(weft_model_set_precision(m, "a", WEFT_BF16) == WEFT_OK);
    CHECK(weft_model_set_precision(m, "a/b", WEFT_F32) == WEFT_OK);
    CHECK(weft_model_set_precision(m, "val", WEFT_F16) == WEFT_OK);
    CHECK(weft_model_set_precision(m, "val/a/b", WEFT_F16) == WEFT_OK);
    static const struct {
        const char *graph, *scope;
        weft_dtype dtype;
    } rows[] = {
        {"train", "", WEFT_F32},       {"train", "a", WEFT_BF16},  {"train", "a/fc", WEFT_BF16},
        {"train", "a/b/fc", WEFT_F32}, {"train", "ab", WEFT_F32},  {"train", "c", WEFT_F32},
        {"val", "", WEFT_F16},         {"val", "c/fc", WEFT_F16},  {"val", "a/fc", WEFT_BF16},
        {"val", "a/b", WEFT_F16},      {"validate", "", WEFT_F32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_dtype got = precision_of(m, rows[i].graph, rows[i].scope, WEFT_F32);
        CHECK_SAYS(got == rows[i].dtype, "%s %s: %s", rows[i].graph, rows[i].scope, dtype_name(got));
    }
    CHECK(weft_model_set_precision(m, NULL, WEFT_F16) == WEFT_OK &&
          precision_of(m, "train", "c", WEFT_F32) == WEFT_F16);
    CHECK(weft_model_set_precision(m, "", WEFT_F32) == WEFT_OK &&
          precision_of(m, "train", "c", WEFT_BF16) == WEFT_F32);
    weft_model_free(m);
}

TEST(files_and_texts_keep_precisions) {
    weft_error e = {0};
    weft_model *m = scoped();
    weft_model_set_precision(m, "a", WEFT_BF16);
    weft_model_set_precision(m, "a/b", WEFT_F32);
    weft_model_set_precision(m, NULL, WEFT_F16);
    weft_model_set_precision(m, "a", WEFT_F16); /* in place of the first */
    char *text = weft_model_text(m), path[] = "/tmp/weft_precision_XXXXXX";
    CHECK_HOLDS(text, "precision a f16\nprecision a/b f32\nprecision / f16\ngraph");
    int file = mkstemp(path);
    CHECK(file >= 0 && weft_save(m, path, &e) == WEFT_OK);
    weft_model *back[] = {weft_load(path, NULL, &e), weft_model_parse(text, "text", NULL, &e),
                          model_clone_variables(m, 4, 1, 0)};
    for (int i = 0; i < 2; i++) {
        char *again = weft_model_text(back[i]);
        CHECK_TEXT(again, text);
        weft_text_free(again);
    }
    CHECK(precision_at(back[2], "a/b") && precision_at(back[2], "/")->dtype == WEFT_F16);
    for (int i = 0; i < 3; i++) weft_model_free(back[i]);
    remove(path);
    weft_text_free(text);
    weft_model_free(m);
}

static void refused(const char *path, weft_dtype dtype, const char *why) {
    weft_model *m = scoped();
    weft_error e = {0};
    weft_model_set_precision(m, path, dtype);
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK(plan == NULL);
    CHECK_HOLDS(e.text, why);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(wrong_precisions_are_named) {
    refused("a", WEFT_F64, "precision a: f64: it must be f32, bf16 or f16");
    refused(NULL, WEFT_I32, "precision /: i32");
    refused("a//b", WEFT_BF16, "'a//b' cannot be the name of a graph");
    refused("generator", WEFT_BF16, "the model has no graph and no scope 'generator'");
    refused("train/z", WEFT_BF16, "no scope 'train/z'");
    static const struct {
        const char *line, *why;
    } texts[] = {{"precision a i64\n", "precision a: i64"},
                 {"precision a f3\n", "precision a: no element type"},
                 {"precision a bf16\nprecision a f16\n", "precision a is listed twice"},
                 {"precision / bf16\nprecision / bf16\n", "precision / is listed twice"},
                 {"precision a|b bf16\n", "cannot be a path"},
                 {"graph g eval\nprecision a bf16\n", "come before graphs"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[200];
        weft_error e = {0};
        snprintf(text, sizeof text, "model m batch=1\n%s", texts[i].line);
        CHECK(weft_model_parse(text, "t", NULL, &e) == NULL);
        CHECK_HOLDS(e.text, texts[i].why);
    }
    weft_error e = {0};
    weft_model *m = scoped();
    CHECK(weft_compile(m, &(weft_compile_options){.precision = WEFT_F64}, &e) == NULL);
    CHECK_HOLDS(e.text, "precision=f64: it must be f32, bf16 or f16");
    weft_model_free(m);
}

/* ---- the rules ---- */

/* Whether operand or result i may be reduced; bits: those that stay f32. */
static bool may_be_reduced(const weft_op *op, unsigned bits, int i) {
    return op->precision != PRECISION_F32 && !(i < 32 && bits >> i & 1);
}

/* A node's float types: reduced where its rule says so (all but those of f32_in, or none), as infer gives
 * them, else f32 or f64. */
static void check_types(weft_node *n) {
    char shown[200];
    int n_reduced = 0, n_high = 0;
    tensor_type before[OP_MAX_OUT];
    node_show(n, shown);
    for (int i = 0; i < n->n_in; i++) {
        weft_dtype dtype = n->in[i] ? n->in[i]->type.dtype : WEFT_BOOL;
        if (!dtype_is_float(dtype)) continue;
        if (!may_be_reduced(n->op, n->op->f32_in, i))
            CHECK_SAYS(!dtype_is_reduced(dtype), "%s: operand %d is %s", shown, i, dtype_name(dtype));
        else if (dtype_is_reduced(dtype))
            n_reduced++;
        else
            n_high++;
    }
    CHECK_SAYS(!n_reduced || !n_high, "%s: %d reduced operands and %d that are not", shown, n_reduced,
               n_high);
    CHECK_SAYS(n_reduced || n->op->precision != PRECISION_REDUCED, "%s does not run reduced", shown);
    for (int k = 0; k < n->n_out; k++) {
        const bool *wide = node_f32_output(n);
        bool want = n_reduced && may_be_reduced(n->op, n->op->f32_out, k) && !(wide && *wide);
        before[k] = n->out[k].type;
        if (n->op != &weft_op_cast && n->op != &weft_op_constant && dtype_is_float(before[k].dtype))
            CHECK_SAYS(dtype_is_reduced(before[k].dtype) == want, "%s: result %d is %s", shown, k,
                       TYPE(&before[k]));
    }
    if (n->op == &weft_op_input) return; /* its name is taken: by itself */
    CHECK_SAYS(node_retype(n), "%s: %s", shown, n->graph->model->error.text);
    for (int k = 0; k < n->n_out; k++)
        CHECK_SAYS(type_equal(&before[k], &n->out[k].type), "%s: result %d was %s", shown, k,
                   TYPE(&before[k]));
}

TEST(every_op_infers_reduced_results_from_the_reduced_operands_of_its_rule) {
    int n = 0;
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        if (op->precision == PRECISION_F32)
            CHECK_SAYS(!op->f32_in && !op->f32_out, "%s has no rule", op->name);
        for (const op_sample *spec = op->samples; op->precision && spec && spec->in; spec++) {
            sample s;
            if (spec->error || strncmp(spec->in, "f32", 3)) continue;
            sample_build_reduced(&s, op, spec, WEFT_BF16, false);
            CHECK_SAYS(s.n != NULL, "%s: %s", op->name, s.error_text);
            if (s.n && s.n_changed) check_types(s.n);
            n++;
            sample_free(&s);
        }
    }
    CHECK(n > 100);
}

/* ---- the zoo ---- */

static const zoo_options small = {
    .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15, .batch = 2, .narrow = 8};

static weft_model *zoo_model(int i, const zoo_options *o) {
    weft_model *m = weft_model_new(zoo_models[i].name);
    weft_model_set_batch(m, o->batch);
    zoo_models[i].build(m, o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

TEST(behind_the_pass_every_type_is_what_the_rules_say) {
    for (int i = 0; i < ZOO_MODELS; i++)
        for (int k = 0; k < 2; k++) {
            weft_error e = {0};
            weft_model *m = zoo_model(i, &small);
            weft_compile_options o = {.precision = lows[k], .stop_after = "precision"};
            weft_plan *plan = weft_compile(m, &o, &e);
            CHECK_SAYS(plan != NULL, "%s: %s", zoo_models[i].name, e.text);
            for (int p = 0; plan && p < plan->n_programs; p++)
                for (weft_node *n = plan->programs[p].graph->first; n; n = n->next)
                    if (n->op != &weft_op_minimize) check_types(n);
            weft_plan_free(plan);
            weft_model_free(m);
        }
}

TEST(every_model_of_the_zoo_is_proved_in_every_world) {
    static const struct {
        int world, zero, accumulate;
    } worlds[] = {{1, 0, 1}, {1, 0, 4}, {2, 0, 1}, {2, 1, 2}, {4, 2, 1}};
    int step = test_is_quick() ? 3 : 1;
    for (int i = 0; i < ZOO_MODELS; i++)
        for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++)
            for (int k = 0; k < 2; k++) {
                weft_error e = {0};
                if ((i + (int)w + k) % step) continue;
                weft_model *m = zoo_model(i, &small);
                weft_compile_options o = {.precision = lows[k],
                                          .world = worlds[w].world,
                                          .zero = worlds[w].zero,
                                          .accumulate = worlds[w].accumulate,
                                          .rank = worlds[w].world - 1,
                                          .threads = 1,
                                          .verify = true};
                weft_plan *plan = weft_compile(m, &o, &e);
                CHECK_SAYS(plan && !weft_plan_verify(plan, &e), "%s in a world of %d: %s", zoo_models[i].name,
                           worlds[w].world, e.text);
                weft_plan_free(plan);
                weft_model_free(m);
            }
}

static void check_bits(int model, weft_dtype reduced, int line) {
    static const struct {
        int world, accumulate, zero;
        weft_shard shard;
    } worlds[] = {{2, 1, 0, 0}, {2, 2, 1, WEFT_SHARD_FLAT}, {3, 1, 2, 0}};
    char what[100];
    int w = worlds[line].world, a = worlds[line].accumulate;
    weft_model *m = zoo_model(model, &small);
    world_job one = {.model = m, .steps = test_is_quick() ? 2 : 6};
    one.options = (weft_compile_options){.accumulate = w * a, .precision = reduced};
    world_job many = one;
    many.options = (weft_compile_options){.world = w,
                                          .accumulate = a,
                                          .zero = worlds[line].zero,
                                          .shard = worlds[line].shard,
                                          .precision = reduced,
                                          .bucket_cap_mb = 0.01};
    world_rank *alone = world_run(&one), *ranks = world_run(&many);
    snprintf(what, sizeof what, "%s in %s, world %d", zoo_models[model].name, dtype_name(reduced), w);
    for (int i = 0; i < alone->n_losses; i++) CHECK_SAYS(isfinite(alone->losses[i]), "%s: run %d", what, i);
    CHECK(alone->n_losses > 1 && alone->losses[0] != alone->losses[alone->n_losses - 1]);
    world_check(alone, ranks, w, world_trained, what);
    world_free(alone);
    world_free(ranks);
    weft_model_free(m);
}

TEST(worlds_train_to_the_same_bits) {
    for (int i = 0; i < ZOO_MODELS; i++)
        for (int line = 0; line < 3; line++)
            if (strcmp(zoo_models[i].name, "mlp") == 0 || strcmp(zoo_models[i].name, "gpt") == 0)
                for (int k = 0; k < 2; k++) check_bits(i, lows[k], line);
}

/* ---- casts of weights ---- */

enum { ROWS = 4, WIDE = 16 };

/* A product, one with the weight transposed by a view, and one in f32. */
static weft_model *weights(void) {
    weft_model *m = weft_model_new("weights");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "predict" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, WIDE}), *y = x;
        WEFT_SCOPE(x, "net") {
            weft_value *w =
                weft_parameter(x, "w", 2, (int64_t[]){WIDE, WIDE}, (weft_init){WEFT_INIT_XAVIER_UNIFORM});
            y = weft_linear(weft_matmul(y, weft_transpose(w, 0, 1), false, false), WIDE, "a", NULL);
            y = weft_linear(y, WIDE, "exact", NULL);
        }
        if (!i)
            weft_minimize(weft_mean(weft_square(y), WEFT_ALL, false), "",
                          &(weft_optimizer){.type = "sgd", .lr = 0.5});
        weft_output(y, "y");
    }
    weft_model_set_precision(m, "net/exact", WEFT_F32);
    return m;
}

static const weft_variable *derived(const weft_plan *plan, const char *of) {
    char prefix[100];
    snprintf(prefix, sizeof prefix, "derived.%s/", of);
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_DERIVED && strncmp(v->path, prefix, strlen(prefix)) == 0) return v;
    return NULL;
}

static void predict(weft_session *s, const float *x, float *y) {
    weft_error e = {0};
    CHECK_SAYS(weft_run(s, "predict", (weft_feed[]){{"x", x, sizeof(float) * ROWS * WIDE}}, 1,
                        (weft_fetch[]){{"y", y, sizeof(float) * ROWS * WIDE}}, 1, &e) == WEFT_OK,
               "%s", e.text);
}

TEST(casts_of_weights_are_derived_values_that_follow_their_parameter) {
    static float x[ROWS * WIDE], y[2][ROWS * WIDE], w[WIDE * WIDE];
    test_random random = {5};
    weft_error e = {0};
    weft_model *m = weights();
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)random_in(&random, -1, 1);
    weft_compile_options o = {.precision = WEFT_BF16, .verify = true};
    weft_plan *plan = weft_compile(m, &o, &e);
    if (!CHECK_SAYS(plan != NULL, "%s", e.text)) return;
    CHECK(derived(plan, "net/w") && derived(plan, "net/a/weight") && !derived(plan, "net/exact/weight"));
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    NEED(s);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; round == 2 && i < WIDE * WIDE; i++) w[i] = (float)random_in(&random, -1, 1);
        if (round == 2) CHECK(weft_store_set(store, "net/w", w, sizeof w, &e) == WEFT_OK);
        if (round % 2)
            CHECK(weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &e) == WEFT_OK);
        predict(s, x, y[0]);
        weft_session *fresh = weft_session_open(plan, store, &e);
        predict(fresh, x, y[1]);
        weft_session_close(fresh);
        CHECK_SAYS(memcmp(y[0], y[1], sizeof y[0]) == 0, "round %d", round);
    }
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("precision", {T(the_longest_path_that_fits_a_node_is_its_precision), T(files_and_texts_keep_precisions),
                    T(wrong_precisions_are_named),
                    T(every_op_infers_reduced_results_from_the_reduced_operands_of_its_rule),
                    T(behind_the_pass_every_type_is_what_the_rules_say),
                    T(every_model_of_the_zoo_is_proved_in_every_world), T(worlds_train_to_the_same_bits),
                    T(casts_of_weights_are_derived_values_that_follow_their_parameter)})
