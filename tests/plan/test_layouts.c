/* test_layouts.c - gradients that are not row-major reach the right parameters: views (transposed,
 * broadcast) and channels-last ones, through minimize. Cases of models/cases: a parameter, at most one
 * input, and the parameter after a step of sgd with lr 1, by PyTorch in f64. Plans and calls with wrong
 * strides are caught. */
#include "ops/image/pack.h"
#include "support/isa.h"
#include "support/mutants/mutants.h"
#include "support/mutants/poison.h"
#include "support/test.h"
#include "support/world.h"
#include "weft/weft.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256 };

typedef struct numbers {
    float at[ROOM];
    int n;
} numbers;

typedef struct layout_case {
    const char *name; /* models/cases/s1_NAME.json */
    weft_value *(*loss)(weft_value *w, weft_graph *g);
    int64_t shape[WEFT_MAX_NDIM];
    numbers w, input, want;
} layout_case;

/* ---- models ---- */

static weft_value *input(weft_graph *g, int ndim, const int64_t *shape) {
    return weft_input(g, "x", WEFT_F32, ndim, shape);
}

static weft_value *mean_square(weft_value *x) {
    return weft_mean(weft_square(x), WEFT_ALL, false);
}

static weft_value *mean(weft_value *w, weft_graph *g) {
    (void)g;
    return weft_mean(w, WEFT_ALL, false);
}

static weft_value *permute(weft_value *w, weft_graph *g) {
    weft_value *t = weft_permute(w, (int64_t[]){1, 0});
    return weft_sum(weft_mul(t, input(g, 2, (int64_t[]){2, 3})), WEFT_ALL, false);
}

static weft_value *attention(weft_value *w, weft_graph *g) {
    weft_value *x = input(g, 4, (int64_t[]){1, 3, 5, 4});
    return mean_square(weft_attention(x, w, x, NULL));
}

static weft_value *max_pool(weft_value *w, weft_graph *g) {
    (void)g;
    return mean_square(weft_max_pool2d(w, &(weft_pool){.kernel = {2, 2}}));
}

static weft_value *avg_pool(weft_value *w, weft_graph *g) {
    (void)g;
    return mean_square(weft_avg_pool2d(w, &(weft_pool){.kernel = {2, 2}, .stride = {1, 1}}));
}

static weft_value *conv_input(weft_value *w, weft_graph *g) {
    return mean_square(weft_conv2d_op(w, input(g, 4, (int64_t[]){4, 3, 2, 2}), NULL, NULL));
}

static layout_case cases[] = {
    {"mean", mean},          {"permute", permute},           {"attention", attention},
    {"nhwc_pool", max_pool}, {"batch_norm_input", avg_pool}, {"conv_by_computed_input", conv_input},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- files ---- */

static void read_numbers(numbers *n, const json_t *list) {
    for (n->n = 0; n->n < ROOM && n->n < (int)json_array_size(list); n->n++)
        n->at[n->n] = (float)json_number_value(json_array_get(list, (size_t)n->n));
}

/* How many axes its parameter has; 0: the file cannot be read. */
static int case_read(layout_case *c) {
    char path[300];
    snprintf(path, sizeof path, TEST_DATA "/models/cases/s1_%s.json", c->name);
    json_t *file = json_load_file(path, 0, NULL);
    const json_t *w = json_array_get(json_object_get(file, "vars"), 0);
    const json_t *run = json_array_get(json_object_get(file, "runs"), 0),
                 *shape = json_object_get(w, "shape");
    json_t *feeds = json_array_get(json_object_get(run, "feeds"), 0);
    int ndim = (int)json_array_size(shape);
    for (int i = 0; i < ndim; i++) c->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    read_numbers(&c->w, json_object_get(w, "v"));
    read_numbers(&c->input, json_object_iter_value(json_object_iter(feeds))); /* one at most */
    read_numbers(&c->want, json_object_get(json_object_get(file, "want"), "0:a/w"));
    json_decref(file);
    return ndim;
}

static weft_model *case_build(const layout_case *c, int ndim) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *w = weft_parameter_in(g, "w", ndim, c->shape, (weft_init){0});
    weft_minimize(c->loss(w, g), NULL, &(weft_optimizer){.type = "sgd", .lr = 1});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- runs ---- */

/* One step from the case's parameter; what it becomes is the rank's loss list. */
static void run_case(world_rank *r) {
    const layout_case *c = r->job->context;
    weft_feed feed = {"x", c->input.at, (size_t)c->input.n * 4};
    size_t bytes = (size_t)c->w.n * 4;
    int k = r->job->options.accumulate ? r->job->options.accumulate : 1;
    weft_status status = weft_store_set(r->store, "w", c->w.at, bytes, &r->error);
    for (int i = 0; i < k && !status; i++)
        status = weft_run(r->session, "g", &feed, c->input.n > 0, NULL, 0, &r->error);
    if (!status) status = weft_sync(r->session, &r->error);
    r->losses = test_memory(bytes);
    r->n_losses = c->w.n;
    if (!status) weft_store_get(r->store, "w", r->losses, bytes, &r->error);
}

static void check_case(layout_case *c, const weft_model *m, weft_compile_options options) {
    world_job job = {.model = m, .options = options, .run = run_case, .context = c};
    world_rank *ranks = world_run(&job);
    options.world = options.world ? options.world : 1;
    for (int r = 0; r < options.world; r++)
        for (int i = 0; i < c->want.n && ranks[r].n_losses == c->want.n; i++)
            if (!CHECK_SAYS(fabsf(ranks[r].losses[i] - c->want.at[i]) < 2e-6f,
                            "%s, isa %d, world %d, zero %d, accumulate %d: w[%d] is %g, not %g", c->name,
                            options.isa, options.world, options.zero, options.accumulate, i,
                            (double)ranks[r].losses[i], (double)c->want.at[i]))
                break;
    world_free(ranks);
}

TEST(gradients_in_any_layout_reach_their_parameter) {
    static const weft_compile_options ways[] = {
        {.world = 1},
        {.accumulate = 3},
        {.world = 2},
        {.world = 2, .zero = 1},
        {.world = 2, .zero = 2, .accumulate = 2},
        {.world = 2, .zero = 2, .shard = WEFT_SHARD_FLAT},
    };
    for (int i = 0; i < CASES; i++) {
        layout_case *c = &cases[i];
        int ndim = case_read(c);
        if (!CHECK_SAYS(c->w.n > 0 && c->want.n == c->w.n, "no case %s", c->name)) continue;
        weft_model *m = case_build(c, ndim);
        for (size_t w = 0; w < 2 * sizeof ways / sizeof *ways; w++) {
            weft_compile_options o = ways[w / 2];
            o.isa = w % 2 ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE;
            o.verify = true;
            check_case(c, m, o);
        }
        weft_model_free(m);
    }
}

/* ---- volumes ---- */

static int count_copies(const weft_graph *g) {
    int copies = 0;
    for (const weft_node *n = g->first; n; n = n->next)
        copies += n->op == &weft_op_reorder || (n->op->flags & OP_VIEW && !n->out[0].base);
    return copies;
}

/* Between convolutions of volumes the two poolings that one of volumes is made of, and their gradients, read
 * views: only the input is brought into another order. */
TEST(volumes_are_pooled_where_they_lie) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = input(g, 5, (int64_t[]){2, 3, 6, 8, 8});
    x = weft_relu(weft_conv3d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "c1"));
    x = weft_max_pool3d(x, &(weft_pool){.kernel = {2, 2, 2}});
    x = weft_relu(weft_conv3d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "c2"));
    x = weft_batch_norm(x, "bn", NULL);
    x = weft_avg_pool3d(x, &(weft_pool){.kernel = {3, 3, 3}, .stride = {1, 1, 1}, .pad = {1, 1, 1}});
    x = weft_conv_transpose3d(x, &(weft_conv){.out = 4, .kernel = 2, .stride = 2}, "up");
    weft_minimize(mean_square(x), NULL, &(weft_optimizer){.type = "sgd", .lr = 1});
    for (int i = 0; i < 2; i++) {
        weft_error e = {0};
        weft_isa isa = i ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE;
        weft_plan *p = weft_compile(m, &(weft_compile_options){.isa = isa, .verify = true}, &e);
        if (CHECK_SAYS(p != NULL, "%s", e.text))
            CHECK_SAYS(count_copies(p->programs[0].graph) == 1, "%d copies",
                       count_copies(p->programs[0].graph));
        weft_plan_free(p);
    }
    weft_model_free(m);
}

/* ---- models from files ---- */

/* A step of a file's model from zeros and with an input of 1, 2, 3, ...; `w` gets n elements of net/w. */
static bool step_file(const char *name, weft_isa isa, size_t inputs, float *w, size_t n) {
    char path[300];
    float x[16];
    weft_error e = {0};
    for (size_t i = 0; i < inputs; i++) x[i] = (float)i + 1;
    memset(w, 0, n * sizeof *w);
    snprintf(path, sizeof path, TEST_DATA "/attack/%s", name);
    weft_model *m = weft_load(path, NULL, &e);
    weft_plan *p = m ? weft_compile(m, &(weft_compile_options){.isa = isa, .verify = true}, &e) : NULL;
    weft_store *s = p ? weft_store_new(p, 1, &e) : NULL;
    weft_session *r = s ? weft_session_open(p, s, &e) : NULL;
    bool good = r && !weft_store_set(s, "net/w", w, n * sizeof *w, &e) &&
                !weft_run(r, "g", &(weft_feed){"c", x, inputs * sizeof *x}, inputs > 0, NULL, 0, &e) &&
                !weft_store_get(s, "net/w", w, n * sizeof *w, &e);
    CHECK_SAYS(good, "%s: %s", name, e.text);
    weft_session_close(r);
    weft_store_free(s);
    weft_plan_free(p);
    weft_model_free(m);
    return good;
}

static void check_all(const char *name, const float *got, const float *want, int n) {
    for (int i = 0; i < n; i++)
        if (!CHECK_SAYS(fabsf(got[i] - want[i]) < 1e-6f, "%s: w[%d] is %g, not %g", name, i, (double)got[i],
                        (double)want[i]))
            return;
}

TEST(models_whose_gradients_are_views_train_from_files) {
    static float w[4096], tenth[4096];
    static const float transposed[] = {-1, -4, -7, -10, -13, -2, -5, -8, -11, -14, -3, -6, -9, -12, -15};
    static const float rows[] = {-1, -2, -3, -4, -5, -1, -2, -3, -4, -5, -1, -2, -3, -4, -5};
    float mean_of[15];
    for (int i = 0; i < 15; i++) mean_of[i] = -1 / 15.0f;
    for (int i = 0; i < 4096; i++) tenth[i] = -0.01f;
    for (int i = 0; i < 2; i++) {
        weft_isa isa = i ? WEFT_ISA_AUTO : WEFT_ISA_REFERENCE;
        if (step_file("mean_grad_wrong.bin", isa, 0, w, 15)) check_all("mean", w, mean_of, 15);
        if (step_file("permute_grad_wrong.bin", isa, 15, w, 15)) check_all("permute", w, transposed, 15);
        if (step_file("rowsum_grad_wrong.bin", isa, 5, w, 15)) check_all("rows", w, rows, 15);
        if (step_file("cast_sum.bin", isa, 0, w, 4096)) check_all("cast", w, tenth, 4096);
    }
}

/* ---- strides that went wrong ---- */

/* A graph beside it that reads one of its packed weights. */
static void add_eval(weft_model *m) {
    weft_value *x =
        weft_input(weft_graph_new(m, "eval", WEFT_EVAL), "x", WEFT_F32, 4, (int64_t[]){2, 16, 8, 8});
    weft_output(weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "same1"), "y");
}

/* Every kind of view, images with packed weights (two of one shape, one of which is packed for two shapes), a
 * parameter that is an image, an output that is channels-last. */
static weft_model *everything(void) {
    weft_model *m = weft_model_new("everything");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){2, 3, 8, 8});
    weft_value *w = weft_parameter_in(g, "image", 4, (int64_t[]){2, 3, 8, 8}, (weft_init){0});
    weft_value *y =
        weft_relu(weft_conv2d(weft_add(x, w), &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "c1"));
    y = weft_conv2d(weft_batch_norm(y, "bn", NULL), &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "same1");
    y = weft_conv2d(y, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "same2");
    weft_value *small = weft_max_pool2d(y, &(weft_pool){.kernel = {2, 2}});
    weft_output(weft_conv2d(small, &(weft_conv){.out = 16, .kernel = 3}, "c2"), "small");
    y = weft_conv2d(y, &(weft_conv){.out = 16, .kernel = 3}, "c2");
    weft_output(y, "image");
    weft_value *rows = weft_permute(weft_reshape(y, 2, (int64_t[]){2, 16 * 36}), (int64_t[]){1, 0});
    rows = weft_linear(weft_permute(weft_tanh(weft_slice(rows, 0, 3, 35)), (int64_t[]){1, 0}), 4, "fc", NULL);
    weft_value *t = weft_parameter_in(g, "turned", 2, (int64_t[]){4, 2}, (weft_init){0});
    weft_value *loss = weft_mean(weft_mul(rows, weft_permute(t, (int64_t[]){1, 0})), WEFT_ALL, false);
    loss = weft_add(loss, weft_mean(weft_max_pool2d(w, &(weft_pool){.kernel = {2, 2}}), WEFT_ALL, false));
    weft_minimize(weft_add(loss, mean_square(y)), NULL, &(weft_optimizer){.type = "adam", .lr = 1});
    weft_output(loss, "loss");
    add_eval(m);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* 1: changed and caught; 0: there was no place for it. */
static int try_mutant(const weft_model *m, const mutant *kind, uint64_t seed, int *hits) {
    test_random r = {seed};
    weft_error e = {0};
    char rule[8] = "";
    weft_isa isas[] = {WEFT_ISA_REFERENCE, isa_within(WEFT_ISA_AVX2), WEFT_ISA_AUTO};
    weft_compile_options options = {
        .threads = 1, .world = 1 + seed % 2, .isa = isas[seed % 3], .verify = true};
    weft_plan *plan = weft_compile(m, &options, &e);
    if (!CHECK_SAYS(plan != NULL, "%s", e.text)) return 0;
    victim v = {.plan = plan, .p = &plan->programs[0], .g = plan->programs[0].graph, .r = &r};
    int is_done = kind->mutate(&v);
    if (is_done) {
        CHECK_SAYS(weft_plan_verify(plan, &e) == WEFT_INTERNAL, "seed %d: not caught: %s", (int)seed,
                   kind->name);
        sscanf(e.text, "%7[^:]", rule);
        hits[rule[0] == 'K' ? rule[1] - '0' : 0]++;
        CHECK_SAYS(strstr(kind->rules, rule), "seed %d: %s: caught by %s", (int)seed, kind->name, e.text);
    }
    weft_plan_free(plan);
    return is_done;
}

/* Whether a kernel of this processor packs a weight of the model. */
static bool packs_weights(const weft_model *m) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    bool is_found = false;
    for (const weft_node *n = plan ? plan->programs[0].graph->first : NULL; n; n = n->next)
        is_found |= n->op == &weft_op_pack;
    weft_plan_free(plan);
    return is_found;
}

TEST(strides_that_went_wrong_are_caught) {
    int hits[10] = {0}; /* by number of the rule; 0: of others */
    weft_model *m = everything();
    if (!packs_weights(m)) { /* many mutants are of that */
        test_not_reached("mutants of plans that pack weights");
        weft_model_free(m);
        return;
    }
    for (const mutant *kind = mutants_of_layouts; kind->name; kind++) {
        int done = 0;
        for (uint64_t seed = 1; seed <= 200 && done < 8; seed++) done += try_mutant(m, kind, seed, hits);
        CHECK_SAYS(done >= 4, "%d times: %s", done, kind->name);
    }
    for (int rule = 1; rule <= 7; rule++) CHECK_SAYS(hits[rule], "rule K%d was never hit", rule);
    weft_model_free(m);
}

/* ---- calls ---- */

/* Nobody verified this plan: whoever checks calls stops before the kernel reads what is not its operand's. */
TEST(a_call_with_an_operand_that_lies_otherwise_is_an_error) {
    weft_error e = {0};
    test_random r = {3};
    weft_model *m = everything();
    weft_plan *p = weft_compile(m, &(weft_compile_options){.threads = 1}, &e);
    NEED(p != NULL);
    victim v = {.plan = p, .p = &p->programs[0], .g = p->programs[0].graph, .r = &r};
    while (!mutants_of_layouts[0].mutate(&v)) {
    }
    weft_store *s = weft_store_new(p, 1, &e);
    weft_session *session = s ? weft_session_open(p, s, &e) : NULL;
    NEED(session != NULL);
    static float x[2 * 3 * 8 * 8];
    poison *checked = poison_put(session, POISON_NAN);
    weft_status status = weft_run(session, "step", &(weft_feed){"x", x, sizeof x}, 1, NULL, 0, &e);
    poison_end(checked);
    CHECK_SAYS(status == WEFT_INTERNAL, "status %d: %s", status, e.text);
    CHECK_HOLDS(e.text, "has strides (");
    weft_session_close(session);
    weft_store_free(s);
    weft_plan_free(p);
    weft_model_free(m);
}

SUITE("layouts", {T(gradients_in_any_layout_reach_their_parameter), T(volumes_are_pooled_where_they_lie),
                  T(models_whose_gradients_are_views_train_from_files), T(strides_that_went_wrong_are_caught),
                  T(a_call_with_an_operand_that_lies_otherwise_is_an_error)})
