/* test_cuda_libraries.c - how kernels use cuBLASLt and cuDNN: operands at any address, algorithms that keep
 * the session's rules, tables of measured choices. */
#include "cuda/support/gpu.h"
#include "graph/text/text.h"
#include "ops/calibration.h"
#include "ops/catalog/catalog.h"
#include "runtime/session/calibrate.h"
#include "support/kernels/sample.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cublasLt.h"
#include "cuda_host/cuda_host.h"
#include "cuda_host/cudnn.h"
#endif

/* ---- running a graph on either device ---- */

/* Elements of the input, and the most of a result. */
enum { X = 4 * 7 * 9, MOST_OUT = 4 * 7 * 9 * 9 };

/* What one evaluation gives. */
typedef struct outcome {
    float y[MOST_OUT];
    size_t bytes;
    uint64_t fingerprint;
    char table[4000];
} outcome;

static weft_session *open_on(const weft_plan *plan, weft_store **store) {
    weft_error error = {0};
    *store = weft_store_new(plan, 5, &error);
    weft_session *s = *store ? weft_session_open(plan, *store, &error) : NULL;
    CHECK_SAYS(s, "%s", error.text);
    return s;
}

static void calibrate(weft_session *s, outcome *o) {
    weft_error error = {0};
    calibrating c;
    weft_status status = calibrate_begin(&c, s, "a test", &error);
    while (!status && c.n_done < c.n_nodes) status = calibrate_next(&c, &error);
    CHECK_SAYS(status == WEFT_OK, "%s", error.text);
    snprintf(o->table, sizeof o->table, "%s", c.table.data);
    CHECK(strlen(o->table) == c.table.length);
    calibrate_end(&c);
}

/* Runs graph "g" of m on x; with `tables`, also measures a table. */
static void evaluate(const weft_model *m, weft_compile_options options, bool tables, outcome *o) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &options, &error);
    weft_store *store = NULL;
    float x[X];
    test_random r = {3};
    for (int i = 0; i < X; i++) x[i] = (float)random_in(&r, -1, 1);
    NEED(CHECK_SAYS(plan, "%s", error.text));
    weft_port port;
    weft_session *s = open_on(plan, &store);
    CHECK(weft_plan_output(plan, "g", 0, &port) && port.bytes <= sizeof o->y);
    o->bytes = port.bytes;
    o->fingerprint = plan->fingerprint;
    if (s && tables) calibrate(s, o);
    if (s)
        CHECK_SAYS(weft_run(s, "g", (weft_feed[]){{"x", x, sizeof x}}, 1,
                            (weft_fetch[]){{"y", o->y, port.bytes}}, 1, &error) == WEFT_OK,
                   "%s", error.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* SUMS: the order of sums differs between CPU and GPU. GELU: NVIDIA's own fused gelu may use tanh.approx.f32,
 * whose relative error is 2^-11 (PTX ISA). */
#ifdef WEFT_CUDA_HOST
static const float SUMS = 1e-5f, GELU = 1e-5f;
#else
static const float SUMS = 1e-5f, GELU = 1e-3f;
#endif

/* Within this relative bound. */
static void check_close(const char *what, float bound, const outcome *want, const outcome *got) {
    CHECK(want->bytes == got->bytes);
    for (size_t i = 0; i < want->bytes / sizeof(float); i++)
        if (!(fabsf(want->y[i] - got->y[i]) <= bound * (1 + fabsf(want->y[i])))) {
            CHECK_SAYS(false, "%s: element %zu is %g on the CPU, %g on the GPU", what, i, (double)want->y[i],
                       (double)got->y[i]);
            return;
        }
}

static weft_model *model_of(weft_value *(*build)(weft_value *x)) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_output(build(weft_input(g, "x", WEFT_F32, 3, (int64_t[]){4, 7, 9})), "y");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- operands at any place and strides ---- */

static weft_value *plain(weft_value *x) {
    return weft_matmul(x, x, false, true);
}

/* Its first element is aligned to 4 bytes only. */
static weft_value *from_the_second_column(weft_value *x) {
    weft_value *v = weft_slice(x, 2, 1, 9);
    return weft_matmul(v, v, false, true);
}

static weft_value *batches_of_two_axes(weft_value *x) {
    weft_value *v = weft_permute(weft_reshape(x, 4, (int64_t[]){4, 7, 3, 3}), (int64_t[]){2, 0, 1, 3});
    return weft_matmul(v, v, false, true);
}

/* Rows and columns both have strides above 1, so a copy is made. */
static weft_value *every_axis_strided(weft_value *x) {
    weft_value *v = weft_permute(weft_reshape(x, 4, (int64_t[]){4, 7, 3, 3}), (int64_t[]){3, 0, 1, 2});
    weft_value *w = weft_permute(v, (int64_t[]){3, 2, 1, 0});
    return weft_matmul(w, w, true, false);
}

static weft_value *broadcast(weft_value *x) {
    weft_value *v = weft_reshape(x, 4, (int64_t[]){4, 1, 7, 9});
    return weft_matmul(v, weft_slice(x, 0, 0, 3), false, true);
}

static weft_value *of_part_of_an_image(weft_value *x) {
    weft_value *image = weft_slice(weft_reshape(x, 4, (int64_t[]){4, 7, 3, 3}), 0, 1, 4);
    return weft_conv2d(image, &(weft_conv){.out = 5, .kernel = 2, .pad = 1}, "conv");
}

static const struct {
    const char *name;
    weft_value *(*build)(weft_value *x);
} cases[] = {{"plain", plain},
             {"from_the_second_column", from_the_second_column},
             {"batches_of_two_axes", batches_of_two_axes},
             {"every_axis_strided", every_axis_strided},
             {"broadcast", broadcast},
             {"of_part_of_an_image", of_part_of_an_image}};

TEST(operands_may_lie_anywhere) {
    static outcome cpu, gpu;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *m = model_of(cases[i].build);
        evaluate(m, (weft_compile_options){0}, false, &cpu);
        evaluate(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA, .verify = true}, false, &gpu);
        check_close(cases[i].name, SUMS, &cpu, &gpu);
        weft_model_free(m);
    }
}

/* ---- rules ---- */

/* The rules of a session, and how often to run. */
typedef struct setting {
    bool deterministic, tf32;
    int runs;
} setting;

/* Runs a node of this signature `runs` times, on numbers that use all bits of their type; y gets result 0 of
 * each run, `room` floats apart. */
static void run_node(gpu *g, const char *signature, setting how, float *y, size_t room) {
    weft_error error = {0};
    weft_node *n = node_from_signature(signature, NULL, &weft_catalog, &error);
    NEED(CHECK_SAYS(n, "%s", error.text));
    kernel_env env = g->env;
    env.deterministic = how.deterministic;
    env.tf32 = how.tf32;
    block in[2],
        out = block_new(&n->out[0].type, type_is_image(&n->out[0].type) ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS);
    test_random r = {9};
    for (int i = 0; i < 2; i++) {
        in[i] = block_new(&n->in[i]->type, n->op->image_in >> i & 1 ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS);
        sample_fill(&(op_sample){0}, &in[i].t, &r);
    }
    const weft_kernel *kernel = kernel_select(n, &env, &n->graph->model->arena, NULL);
    for (int i = 0; CHECK(kernel) && i < how.runs; i++, y += room) {
        weft_status status = gpu_run(n, kernel, &env, (tensor[]){in[0].t, in[1].t}, &out.t, &error);
        CHECK_SAYS(status == WEFT_OK, "%s: %s", signature, error.text);
        memcpy(y, out.t.data, room * sizeof *y);
    }
    for (int i = 0; i < 2; i++) block_free(&in[i]);
    block_free(&out);
    weft_model_free(n->graph->model);
}

/* Shapes for which the emulated heuristics begin with each of their algorithms. */
static const char *const products[] = {"matmul(f32[16,64], f32[64,16])", "matmul(f32[16,64], f32[64,20])",
                                       "matmul(f32[16,64], f32[64,24])", "matmul(f32[16,64], f32[64,28])",
                                       "matmul(f32[16,68], f32[68,28])"};
static const char *const convolutions[] = {
    "conv2d(f32[2,8,6,6]:nhwc, f32[16,8,3,3]) out=16 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1",
    "conv2d(f32[2,9,6,6]:nhwc, f32[16,9,3,3]) out=16 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1",
    "conv2d(f32[2,8,7,6]:nhwc, f32[16,8,3,3]) out=16 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1"};
enum { ROOM = 16 * 16 };

/* The largest difference between the results of two settings. */
static double differ(gpu *g, const char *signature, setting a, setting b) {
    float y[2][ROOM];
    double most = 0;
    run_node(g, signature, a, y[0], ROOM);
    run_node(g, signature, b, y[1], ROOM);
    for (int i = 0; i < ROOM; i++) most = fmax(most, fabs((double)y[0][i] - (double)y[1][i]));
    return most;
}

TEST(bits_repeat_where_they_must) {
    /* Split sums in place and nondeterministic engines would differ here. */
    gpu *g = gpu_open();
    float y[4][ROOM];
    NEED(g);
    for (int i = 0; i < 8; i++) {
        const char *signature = i < 5 ? products[i] : convolutions[i - 5];
        run_node(g, signature, (setting){.deterministic = true, .runs = 4}, y[0], ROOM);
        for (int k = 1; k < 4; k++)
            CHECK_SAYS(!memcmp(y[0], y[k], sizeof y[0]), "%s differs on run %d", signature, k);
    }
    gpu_close(g);
}

/* Sums of 64 to 81 products of up to 4, in any order: 1e-4 is some ten times their rounding, and a tenth of
 * what TF32 does. */
TEST(products_are_rounded_only_where_tf32_is_asked_for) {
    gpu *g = gpu_open();
    NEED(g);
    const setting exact = {.deterministic = true, .runs = 1}, again = {.runs = 1},
                  tf32 = {.tf32 = true, .runs = 1};
    double rounded = 0;
    for (int i = 0; i < 8; i++) {
        const char *signature = i < 5 ? products[i] : convolutions[i - 5];
        double difference = differ(g, signature, exact, again), with_tf32 = differ(g, signature, exact, tf32);
        CHECK_SAYS(difference < 1e-4, "%s: %g apart without TF32", signature, difference);
        CHECK_SAYS(with_tf32 < 0.05, "%s: %g apart with TF32", signature, with_tf32);
        rounded = fmax(rounded, with_tf32);
    }
#ifdef WEFT_CUDA_HOST
    CHECK(rounded > 1e-3);
#else
    /* the option allows rounding; a library need not use it for products as small as these */
    printf("\n      TF32 changes a result by %g at most", rounded);
#endif
    gpu_close(g);
}

/* ---- tables ---- */

TEST(a_table_is_read_and_what_is_wrong_in_it_is_told) {
    static const struct {
        const char *text, *error;
    } tables[] = {{"weft calibration 1\n# here\n\nmatmul(f32[2,3], f32[3,4]) -> id=60\n", NULL},
                  {"weft calibration 1", "it does not begin with"},
                  {"", "it does not begin with"},
                  {"weft calibration 1\nmatmul(f32[2,3], f32[3,4]) id=60\n", "line 2: it is not"},
                  {"weft calibration 1\n\n -> id=60\n", "line 3: it is not"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        arena a;
        weft_env env = {0};
        weft_error error = {0};
        arena_init(&a, &env);
        const calibration *c = calibration_read(tables[i].text, "table", &a, &error);
        CHECK((c != NULL) == !tables[i].error);
        if (tables[i].error) CHECK_HOLDS(error.text, tables[i].error);
        weft_node *n = node_from_signature("matmul(f32[2,3], f32[3,4])", NULL, &weft_catalog, &error);
        NEED(n);
        kernel_env with = {.calibration = c}, rounding = {.calibration = c, .tf32 = true};
        const char *says = calibration_find(n, &with);
        CHECK(c ? says && strcmp(says, "id=60") == 0 : !says);
        CHECK(!calibration_find(n, &rounding));
        weft_model_free(n->graph->model);
        arena_free(&a);
    }
}

static bool write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

TEST(a_measured_table_is_part_of_the_plan) {
    static outcome plain_run, with_table, with_another;
    static const char path[] = "calibration.test";
    weft_model *m = model_of(plain);
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true};
    evaluate(m, options, true, &plain_run);
    CHECK_HOLDS(plain_run.table,
                "weft calibration 1\n# a test\nmatmul(f32[4,7,9], f32[4,7,9]) transpose_b=1 -> id=");
    options.calibration = path;
    NEED(write_text(path, plain_run.table));
    evaluate(m, options, false, &with_table);
    check_close("with a table", SUMS, &plain_run, &with_table);
    /* an algorithm that no library has is ignored */
    NEED(write_text(path,
                    "weft calibration 1\nmatmul(f32[4,7,9], f32[4,7,9]) transpose_b=1 -> id=99999 tile=3\n"));
    evaluate(m, options, false, &with_another);
    CHECK(memcmp(with_another.y, plain_run.y, plain_run.bytes) == 0);
    CHECK(plain_run.fingerprint != with_table.fingerprint &&
          with_table.fingerprint != with_another.fingerprint);
    weft_error error = {0};
    remove(path);
    CHECK(!weft_compile(m, &options, &error));
    CHECK_HOLDS(error.text, "compile: calibration: calibration.test: cannot be opened");
    weft_model_free(m);
}

/* ---- convolutions, and tables of runs that were cut ---- */

/* A graph that only evaluates, with a product; then one that trains two convolutions: forwards, the gradient
 * of an image, gradients of weights. */
static weft_model *convolutions_and_a_product(void) {
    weft_model *m = weft_model_new("m");
    weft_graph *eval = weft_graph_new(m, "eval", WEFT_EVAL), *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_output(weft_linear(weft_input(eval, "x", WEFT_F32, 2, (int64_t[]){32, 16}), 24, "fc", NULL), "y");
    weft_value *y = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){2, 8, 6, 6});
    WEFT_SCOPE(y, "net") {
        y = weft_relu(weft_conv2d(y, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, "one"));
        y = weft_conv2d(y, &(weft_conv){.out = 8, .kernel = 3, .pad = 1}, "two");
    }
    weft_value *loss = weft_mean(weft_mul(y, y), WEFT_ALL, false);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_output(loss, "loss");
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_plan *plan_with(const weft_model *m, const char *table) {
    weft_error error = {0};
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .calibration = table};
    weft_plan *plan = weft_compile(m, &options, &error);
    CHECK_SAYS(plan, "%s", error.text);
    return plan;
}

/* The loss after two steps. */
static float train_with(const weft_model *m, const char *table) {
    weft_error error = {0};
    weft_plan *plan = plan_with(m, table);
    weft_store *store = NULL;
    weft_session *s = plan ? open_on(plan, &store) : NULL;
    float x[2 * 8 * 36], loss = NAN;
    test_random r = {4};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)random_in(&r, -1, 1);
    for (int i = 0; i < 2 && s; i++)
        CHECK_SAYS(weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}}, 1,
                            (weft_fetch[]){{"loss", &loss, sizeof loss}}, 1, &error) == WEFT_OK,
                   "%s", error.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return loss;
}

/* Checks what was found for the node just measured. `engine`: of the emulated cuDNN, what the choice for
 * convolutions begins with. */
static void check_last(const calibrating *c, const char *engine) {
    const calibrated *n = &c->nodes[c->n_done - 1];
    bool is_product = strncmp(n->key, "linear(", 7) == 0;
    CHECK_SAYS(c->last.ways > 0 && c->last.ms > 0, "%s", n->key);
    CHECK_SAYS(strncmp(c->last.choice.data, is_product ? "id=" : "engine=", is_product ? 3 : 7) == 0,
               "%s: %s", n->key, c->last.choice.data);
#ifdef WEFT_CUDA_HOST
    /* the fastest that keeps the rules, though another is proposed first; slow ones are dropped */
    const char *fastest = is_product ? "id=61 " : engine;
    CHECK_SAYS(strncmp(c->last.choice.data, fastest, strlen(fastest)) == 0, "%s: %s", n->key,
               c->last.choice.data);
    CHECK_SAYS(c->last.ways == 1 || (c->last.dropped >= 1 && c->last.dropped < c->last.ways),
               "%s: %d of %d dropped", n->key, c->last.dropped, c->last.ways);
#else
    (void)engine;
#endif
#ifdef WEFT_CUDA_HOST
    if (!is_product)
        CHECK_TEXT(c->last.skipped.data, "6 tensor_core, 3 reduced_precision_reduction, 3 nondeterministic");
#endif
}

/* The table of each moment is whole, and has a line for each node so far. */
static void check_table(const calibrating *c) {
    arena a;
    weft_env env = {0};
    weft_error error = {0};
    arena_init(&a, &env);
    const calibration *read = calibration_read(c->table.data, "table", &a, &error);
    CHECK_SAYS(read, "%s", error.text);
    kernel_env with = c->session->kernels;
    with.calibration = read;
    for (int i = 0; i < c->n_nodes; i++)
        CHECK_SAYS((calibration_find(c->nodes[i].node, &with) != NULL) == (i < c->n_done), "node %d of %d", i,
                   c->n_done);
    arena_free(&a);
}

/* Measures all nodes into the file; `engine` as in check_last. */
static void measure(const weft_model *m, const char *path, const char *engine) {
    weft_error error = {0};
    weft_plan *plan = plan_with(m, NULL);
    weft_store *store = NULL;
    weft_session *s = plan ? open_on(plan, &store) : NULL;
    calibrating c = {0};
    int kinds[4] = {0};
    static const char *const names[] = {"conv2d(", "conv_transpose2d(", "conv2d_weight(", "linear("};
    NEED(s && CHECK_SAYS(!calibrate_begin(&c, s, "a test", &error), "%s", error.text));
    check_table(&c);
    while (c.n_done < c.n_nodes && CHECK_SAYS(!calibrate_next(&c, &error), "%s", error.text)) {
        if (CHECK_SAYS(!c.why.status, "%s", c.why.text)) check_last(&c, engine);
        if (!c.n_skipped) check_table(&c);
        for (int k = 0; k < 4; k++)
            kinds[k] += strncmp(c.nodes[c.n_done - 1].key, names[k], strlen(names[k])) == 0;
        /* the graph that trains comes first */
        CHECK(kinds[3] == (c.n_done == c.n_nodes));
    }
    CHECK(kinds[0] == 2 && kinds[1] == 1 && kinds[2] == 2 && kinds[3] == 1 && c.n_skipped == 0);
    CHECK(write_text(path, c.table.data));
    calibrate_end(&c);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

#ifdef WEFT_CUDA_HOST
/* All convolutions since the last call ran on this engine with this tile. */
static void check_engine(int engine, int tile) {
    int all, these = cudnn_host_runs(engine, tile, &all);
    CHECK_SAYS(these == all && all == 2 * 5, "%d of %d convolutions on engine %d, tile %d", these, all,
               engine, tile);
}
#else
#define check_engine(engine, tile)  ((void)0)
#define cudnn_host_runs(a, b, c)    ((void)(c))
#define cudnn_host_withdraw(engine) ((void)0)
#endif

TEST(convolutions_are_measured_and_a_plan_opens_the_fastest) {
    static const char path[] = "calibration.convolutions.test";
    enum { PLAIN = 5, ANY = 6 }; /* engines of the emulated cuDNN */
    weft_model *m = convolutions_and_a_product();
    int all;
    measure(m, path, "engine=5 k2=2");
    cudnn_host_runs(PLAIN, 1, &all);
    float usual = train_with(m, NULL);
    check_engine(PLAIN, 1);
    float fastest = train_with(m, path);
    check_engine(PLAIN, 2);
    CHECK_SAYS(fabsf(usual - fastest) <= 1e-5f * usual, "%g, %g", (double)usual, (double)fastest);
    /* a library that has the engine no more: its own first choice */
    cudnn_host_withdraw(PLAIN);
    float other = train_with(m, path);
    check_engine(ANY, 1);
    CHECK_SAYS(fabsf(usual - other) <= 1e-5f * usual, "%g, %g", (double)usual, (double)other);
#ifdef WEFT_CUDA_HOST
    /* of the engines proposed first none opens: those that the session runs on are measured */
    measure(m, path, "engine=6 k2=1");
    cudnn_host_withdraw(-1);
    cudnn_host_runs(ANY, 1, &all);
    train_with(m, path);
    check_engine(ANY, 1);
#endif
    remove(path);
    weft_model_free(m);
}

#ifdef WEFT_CUDA_HOST
/* Lines that the library or the session's rules do not accept: the library's own first choice. */
TEST(a_line_that_no_engine_has_is_ignored) {
    static const char path[] = "calibration.wrong.test";
    static const char *const lines[] = {"engine=5 k2=7",
                                        "engine=5 k9=1",
                                        "engine=5 k2=2 more",
                                        "engine=5 k2=",
                                        "engine=",
                                        "id=3",
                                        "engine=4 k2=1" /* needs too much workspace */,
                                        "engine=3 k2=1" /* sums in the result's precision */,
                                        "engine=2 k2=1" /* not deterministic */};
    weft_model *m = convolutions_and_a_product();
    float usual = train_with(m, NULL);
    weft_plan *plan = plan_with(m, NULL);
    char *name = NULL;
    for (int i = 0; plan && i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            if (!name && n->op == &weft_op_conv2d) name = calibration_key(n, &plan->kernels);
    NEED(name);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char table[1000];
        snprintf(table, sizeof table, "weft calibration 1\n%s -> %s\n", name, lines[i]);
        CHECK(write_text(path, table));
        float with = train_with(m, path);
        CHECK_SAYS(memcmp(&with, &usual, sizeof with) == 0, "%s: %g, %g", lines[i], (double)with,
                   (double)usual);
    }
    remove(path);
    free(name);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* Begins to measure a session that is opened on the whole library. */
static weft_session *begin_measuring(const weft_plan *plan, weft_store **store, calibrating *c) {
    weft_error error = {0};
    weft_session *s = plan ? open_on(plan, store) : NULL;
    CHECK_SAYS(s && !calibrate_begin(c, s, "a test", &error), "%s", error.text);
    return s;
}

static void end_measuring(calibrating *c, weft_session *s, weft_store *store) {
    calibrate_end(c);
    weft_session_close(s);
    weft_store_free(store);
}

/* The convolutions, which come first, have a reason and no line; the product after them has one. */
static void check_skipped(const calibrating *c, const char *reason) {
    weft_error error = {0};
    bool is_product = c->n_done == c->n_nodes;
    weft_status want = is_product ? WEFT_OK : WEFT_UNSUPPORTED;
    CHECK(c->n_skipped == c->n_done - is_product && (c->last.ways > 0) == is_product);
    CHECK_SAYS(c->why.status == want, "%s", c->why.text);
    CHECK(calibrate_check(c, &error) == want);
    if (!is_product) CHECK_HOLDS(c->why.text, reason);
    if (!is_product) CHECK_HOLDS(error.text, "calibrate: none of ");
}

TEST(a_node_that_cannot_be_measured_is_skipped) {
    weft_model *m = convolutions_and_a_product();
    weft_plan *plan = plan_with(m, NULL);
    /* after the session opened there is no engine; then there is one that a table cannot describe */
    for (int hidden = 0; hidden < 2; hidden++) {
        weft_error error = {0};
        weft_store *store = NULL;
        calibrating c = {0};
        weft_session *s = begin_measuring(plan, &store, &c);
        if (hidden) cudnn_host_hide_knobs(5);
        for (int engine = 5; engine <= 6 && !hidden; engine++) cudnn_host_withdraw(engine);
        while (c.n_done < c.n_nodes && CHECK_SAYS(!calibrate_next(&c, &error), "%s", error.text))
            check_skipped(&c, hidden ? "none of its engines runs" : "listing the engines");
        CHECK(c.n_nodes == 6 && strstr(c.table.data, "\nlinear(") && !strstr(c.table.data, "conv"));
        cudnn_host_withdraw(-1);
        cudnn_host_hide_knobs(-1);
        end_measuring(&c, s, store);
    }
    weft_plan_free(plan);
    weft_model_free(m);
}

/* What fails the nodes after it too ends the measurement. */
TEST(memory_that_is_out_and_a_broken_device_skip_no_node) {
    weft_model *m = convolutions_and_a_product();
    weft_plan *plan = plan_with(m, NULL);
    weft_store *store = NULL;
    weft_error error = {0};
    calibrating c = {0};
    weft_session *s = begin_measuring(plan, &store, &c);
    cuda_host_fail_allocation(1);
    CHECK(calibrate_next(&c, &error) == WEFT_MEMORY && error.status == WEFT_MEMORY);
    cuda_host_fail_allocation(0);
    CHECK(calibrate_next(&c, &error) == WEFT_OK && c.n_done == 1 && c.n_skipped == 0);
    cuda_host_break();
    CHECK(calibrate_next(&c, &error) == WEFT_DEVICE && c.n_done == 1 && c.n_skipped == 0);
    cuda_host_forget_trouble();
    end_measuring(&c, s, store);
    weft_plan_free(plan);
    weft_model_free(m);
}

#endif

/* ---- epilogues ---- */

static weft_value *layer(weft_value *x) {
    return weft_gelu_tanh(weft_linear(x, 16, "fc", NULL));
}

/* With the library's epilogues and, on the emulated GPU, without them. */
TEST(an_epilogue_is_measured_and_may_be_apart_from_its_product) {
    static outcome cpu, gpu, with_table;
    static const char path[] = "calibration.epilogue.test",
                      key[] = "linear_act(f32[4,7,9], f32[16,9], f32[16]) act=gelu_tanh -> ";
    weft_model *m = model_of(layer);
    weft_compile_options options = {.device = WEFT_DEVICE_CUDA, .deterministic = true, .verify = true};
    evaluate(m, (weft_compile_options){0}, false, &cpu);
#ifdef WEFT_CUDA_HOST
    for (int refused = 1; refused >= 0; refused--) {
        cublasLt_host_refuse_epilogues(refused);
#else
    for (int refused = 0; refused >= 0; refused--) {
#endif
        evaluate(m, options, true, &gpu);
        check_close("measured", GELU, &cpu, &gpu);
        CHECK_HOLDS(gpu.table, key);
        CHECK(!refused || strstr(gpu.table, " -> apart id="));
        NEED(write_text(path, gpu.table));
        options.calibration = path;
        evaluate(m, options, false, &with_table);
        check_close("with a table", GELU, &cpu, &with_table);
        CHECK(gpu.fingerprint != with_table.fingerprint);
        options.calibration = NULL;
    }
    remove(path);
    /* apart, though the library has the epilogue */
    NEED(write_text(
        path, "weft calibration 1\n"
              "linear_act(f32[4,7,9], f32[16,9], f32[16]) act=gelu_tanh -> apart id=60 tile=20 stages=8\n"));
    options.calibration = path;
    evaluate(m, options, false, &with_table);
    check_close("apart", GELU, &cpu, &with_table);
    remove(path);
    weft_model_free(m);
}

GPU_SUITE("cuda libraries",
          {T(operands_may_lie_anywhere), T(bits_repeat_where_they_must),
           T(products_are_rounded_only_where_tf32_is_asked_for),
           T(a_table_is_read_and_what_is_wrong_in_it_is_told), T(a_measured_table_is_part_of_the_plan),
           T(convolutions_are_measured_and_a_plan_opens_the_fastest),
#ifdef WEFT_CUDA_HOST
           T(a_line_that_no_engine_has_is_ignored), T(a_node_that_cannot_be_measured_is_skipped),
           T(memory_that_is_out_and_a_broken_device_skip_no_node),
#endif
           T(an_epilogue_is_measured_and_may_be_apart_from_its_product)})
