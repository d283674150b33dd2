/* test_steps.c - building, loading, compiling, verifying, printing and opening a session take time in
 * proportion to the model. For n, 2n and 4n the second increase may be 2.2 times the first (2 is linear, n
 * log n 2.1 at these sizes, n^2 is 4). Fixed and linear parts cancel in that, so a quadratic term shows while
 * it is a twentieth of the whole. Steps are counted instead of seconds, so a busy machine changes nothing.
 * WEFT_TEST_FIGURES=1 prints all counts.
 *
 * A step is a basic block. This program contains the library's own sources (graph, ops, runtime) once more,
 * compiled with -fsanitize-coverage=trace-pc: the compiler puts a call of __sanitizer_cov_trace_pc into every
 * block of every function, so every loop is counted. What libc does in one call for many bytes (memset,
 * memmove, strcmp ...) is wrapped by the linker and counts a step for each 32 bytes. Not counted: kernels'
 * libraries (oneDNN is asked once per node) and what printf spends on a number. */
#include "examples/zoo.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the counter ---- */

static uint64_t steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    steps++;
}

static size_t length_to(const char *a, const char *b, size_t most) {
    size_t n = 0;
    while (n < most && a[n] && a[n] == b[n]) n++;
    return n;
}

#define COUNT(bytes) (steps += 1 + (bytes) / 32)
void *__real_memset(void *to, int c, size_t n);
void *__real_memcpy(void *to, const void *from, size_t n);
void *__real_memmove(void *to, const void *from, size_t n);
int __real_memcmp(const void *a, const void *b, size_t n);
size_t __real_strlen(const char *s);
int __real_strcmp(const char *a, const char *b);
int __real_strncmp(const char *a, const char *b, size_t n);
void *__wrap_memset(void *to, int c, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n);
size_t __wrap_strlen(const char *s);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strncmp(const char *a, const char *b, size_t n);

void *__wrap_memset(void *to, int c, size_t n) {
    COUNT(n);
    return __real_memset(to, c, n);
}
void *__wrap_memcpy(void *to, const void *from, size_t n) {
    COUNT(n);
    return __real_memcpy(to, from, n);
}
void *__wrap_memmove(void *to, const void *from, size_t n) {
    COUNT(n);
    return __real_memmove(to, from, n);
}
int __wrap_memcmp(const void *a, const void *b, size_t n) {
    COUNT(n);
    return __real_memcmp(a, b, n);
}
size_t __wrap_strlen(const char *s) {
    size_t n = __real_strlen(s);
    COUNT(n);
    return n;
}
int __wrap_strcmp(const char *a, const char *b) {
    COUNT(length_to(a, b, SIZE_MAX));
    return __real_strcmp(a, b);
}
int __wrap_strncmp(const char *a, const char *b, size_t n) {
    COUNT(length_to(a, b, n));
    return __real_strncmp(a, b, n);
}

/* ---- families: models of any size ---- */

static const int64_t three[] = {3};
static const weft_optimizer adam = {.type = "adam", .lr = 0.01};

static weft_value *weight(weft_value *near, const char *name) {
    return weft_parameter(near, name, 1, three, (weft_init){WEFT_INIT_ONES});
}

static weft_value *input_of(weft_model *m, const char *graph) {
    return weft_input(weft_graph_new(m, graph, WEFT_TRAIN), "x", WEFT_F32, 1, three);
}

/* What every family ends with. */
static void train(weft_value *y) {
    weft_value *loss = weft_mean(y, WEFT_ALL, false);
    weft_minimize(loss, "", &adam);
    weft_output(loss, "loss");
}

static void gpt(weft_model *m, int n) {
    zoo_options o = {.layers = n, .d = 8, .heads = 2, .ctx = 4, .vocab = 5};
    zoo_models[4].build(m, &o);
}

/* Pointwise nodes in a row, fusable, as far as groups go. */
static void chain(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    x = weft_mul(x, weight(x, "w"));
    for (int i = 0; i < n; i++) x = i % 2 ? weft_tanh(x) : weft_mul(x, x);
    train(x);
}

/* Pairs of long-lived values that are read in the order in which they were made, and in the reverse one. */
static void skips(weft_model *m, int n) {
    weft_value **kept = calloc((size_t)n, sizeof *kept), *x = input_of(m, "g");
    x = weft_mul(x, weight(x, "w"));
    for (int i = 0; kept && i < n; i++) kept[i] = x = weft_sum(weft_mul(x, x), 1, (int64_t[]){0}, true);
    for (int i = 0; kept && i < n; i++) x = weft_add(x, kept[i % 2 ? i : n - 1 - i]);
    free(kept);
    train(x);
}

static void variables(weft_model *m, int n) {
    weft_value *x = input_of(m, "g"), *sum = x;
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "w%d", i);
        sum = weft_add(sum, weft_mul(x, weight(x, name)));
    }
    train(sum);
}

/* A subgraph each. */
static void scopes(weft_model *m, int n) {
    weft_value *x = input_of(m, "g"), *sum = x;
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "s%d", i);
        WEFT_SCOPE(x, name) sum = weft_add(sum, weft_mul(x, weight(x, "w")));
    }
    train(sum);
}

/* A name more in front of each scope, up to 100. */
static void nested(weft_model *m, int n) {
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, three), *sum = x;
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "s%d", i);
        weft_graph_scope_enter(g, name);
        sum = weft_add(sum, weft_mul(x, weight(x, "w")));
        for (int k = 0; k < 100 && (i % 100 == 99 || i == n - 1); k++) weft_scope_leave(g);
    }
    train(sum);
}

/* State that is read and written. */
static void states(weft_model *m, int n) {
    weft_value *x = input_of(m, "g"), *sum = weft_mul(x, weight(x, "w"));
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "s%d", i);
        weft_value *s = weft_state(x, name, 1, three, (weft_init){WEFT_INIT_ZEROS});
        weft_assign(s, weft_add(s, x));
        sum = weft_add(sum, s);
    }
    train(sum);
}

/* Every other node is a view of the one before that cannot be merged with it. */
static void views(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    x = weft_reshape(weft_mul(x, weight(x, "w")), 3, (int64_t[]){1, 3, 1});
    for (int i = 0; i < n; i++)
        x = i % 2 ? weft_slice(weft_broadcast_to(x, 3, (int64_t[]){2, 3, 1}), 0, 0, 1)
                  : weft_permute(weft_reshape(x, 3, (int64_t[]){3, 1, 1}), (int64_t[]){1, 0, 2});
    train(x);
}

static void wide(weft_model *m, int n) {
    weft_value **parts = calloc((size_t)n, sizeof *parts), *x = input_of(m, "g");
    x = weft_mul(x, weight(x, "w"));
    for (int i = 0; parts && i < n; i++) parts[i] = weft_slice(weft_scale(x, i + 2), 0, 0, 1);
    for (int count = n, joined; parts && count > 1; count = joined) {
        joined = 0;
        for (int i = 0; i < count; i += 30)
            parts[joined++] = weft_concat(count - i < 30 ? count - i : 30, parts + i, 0);
    }
    if (parts) train(parts[0]);
    free(parts);
}

static void outputs(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    x = weft_mul(x, weight(x, "w"));
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "y%d", i);
        weft_output(weft_scale(x, i + 2), name);
    }
    train(x);
}

static void graphs(weft_model *m, int n) {
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "g%d", i);
        weft_value *x = input_of(m, name);
        weft_output(weft_mul(x, weight(x, "w")), "y");
    }
}

/* Declarations that each concern a few nodes. */
static void declarations(weft_model *m, int n) {
    weft_value *x = input_of(m, "g"), *w = weight(x, "w"), *sum = weft_mul(x, w);
    for (int i = 0; i < n; i++) {
        weft_value *y = weft_square(weft_scale(w, i + 2)), *loss = weft_mean(y, WEFT_ALL, false), *by;
        weft_gradients(loss, 1, &y, &by);
        sum = weft_add(sum, by);
    }
    train(sum);
}

/* Convolutions, whose weights are packed, and products, with what follows them. */
static void layers(weft_model *m, int n) {
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){2, 16, 4, 4}), *y = NULL;
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "conv%d", i);
        x = weft_relu(weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, name));
        snprintf(name, sizeof name, "fc%d", i);
        y = weft_relu(weft_linear(y ? y : weft_reshape(x, 2, (int64_t[]){16, 32}), 32, name, NULL));
    }
    train(weft_add(weft_mean(y, WEFT_ALL, false), weft_mean(x, WEFT_ALL, false)));
}

/* Convolutions whose weights all come first: each is packed where it is used. */
static void packs(weft_model *m, int n) {
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){2, 16, 4, 4});
    for (int k = 0; k < 2 * n; k++) {
        char name[24];
        snprintf(name, sizeof name, "conv%d", k % n);
        if (k >= n) {
            x = weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 3, .pad = 1}, name);
            continue;
        }
        weft_graph_scope_enter(g, name);
        weft_parameter(x, "weight", 4, (int64_t[]){16, 16, 3, 3}, (weft_init){WEFT_INIT_ONES});
        weft_scope_leave(g);
    }
    weft_output(x, "y");
}

/* Views first, then nodes that read each as a copy. */
static void copies(weft_model *m, int n) {
    weft_value **kept = calloc((size_t)n, sizeof *kept);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){3, 4}), *sum = NULL;
    for (int i = 0; kept && i < n; i++) kept[i] = weft_permute(weft_scale(x, i + 2), (int64_t[]){1, 0});
    for (int i = 0; kept && i < n; i++) {
        weft_value *y = weft_sum(weft_reshape(kept[i], 1, (int64_t[]){12}), WEFT_ALL, false);
        sum = sum ? weft_add(sum, y) : y;
    }
    free(kept);
    if (sum) weft_output(sum, "y");
}

/* State that is written time and again, with readers between. */
static void rewrites(weft_model *m, int n) {
    weft_value *x = input_of(m, "g"), *s = NULL, *sum = weft_mul(x, weight(x, "w"));
    for (int i = 0; i < n; i++) {
        s = weft_state(x, "s", 1, three, (weft_init){WEFT_INIT_ZEROS});
        for (int k = 0; k < 8; k++) sum = weft_add(sum, weft_scale(s, i + k + 2));
        weft_assign(s, weft_scale(x, i + 2));
    }
    train(sum);
}

/* State that is fetched as it was, and written. */
static void shown(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    char name[40];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "s%d", i);
        weft_value *s = weft_state(x, name, 1, three, (weft_init){WEFT_INIT_ZEROS});
        weft_assign(s, weft_offset(s, 1));
        weft_output(s, name);
    }
}

/* One layer with state and random numbers, used again and again. */
static void uses(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    for (int i = 0; i < n; i++) WEFT_SCOPE(x, "d") {
            weft_value *s = weft_state(x, "s", 1, three, (weft_init){WEFT_INIT_ZEROS});
            weft_assign(s, weft_add(weft_scale(s, 0.9), x));
            x = weft_dropout(weft_mul(x, weight(x, "w")), 0.1);
        }
    train(x);
}

/* A group of its own for each parameter. */
static void groups(weft_model *m, int n) {
    weft_param_group *list = calloc((size_t)n, sizeof *list);
    char(*names)[24] = calloc((size_t)n, sizeof *names);
    weft_value *x = input_of(m, "g"), *sum = x;
    for (int i = 0; list && names && i < n; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        list[i] = (weft_param_group){names[i], 1.0 / (i + 1), 0};
        sum = weft_add(sum, weft_mul(x, weight(x, names[i])));
    }
    weft_value *loss = weft_mean(sum, WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 0.1, .n_groups = n, .groups = list});
    weft_output(loss, "loss");
    free(list);
    free(names);
}

/* Gradients by the last value of a long chain: nothing before it matters. */
static void last_gradients(weft_model *m, int n) {
    weft_value *x = input_of(m, "g");
    x = weft_mul(x, weight(x, "w"));
    for (int i = 0; i < n; i++) x = i % 2 ? weft_tanh(x) : weft_mul(x, x);
    weft_value *sum = x;
    for (int i = 0; i < n; i++) {
        weft_value *by;
        weft_gradients(weft_mean(weft_square(weft_scale(x, i + 2)), WEFT_ALL, false), 1, &x, &by);
        sum = weft_add(sum, by);
    }
    train(sum);
}

/* Norms over all ranks, and their running statistics from rank 0. */
static void norms(weft_model *m, int n) {
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "bn%d", i);
        WEFT_SCOPE(x, "net") x = weft_batch_norm(x, name, NULL);
    }
    weft_model_set_ddp_text(m, "net", "sync_batch_norm=1 broadcast_buffers=1");
    train(x);
}

static void inputs(weft_model *m, int n) {
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *sum = NULL;
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "x%d", i);
        weft_value *x = weft_input(g, name, WEFT_F32, 1, three);
        sum = sum ? weft_add(sum, x) : weft_mul(x, weight(x, "w"));
    }
    if (sum) train(sum);
}

/* Tensors in the model, each with bytes of its own; and one as long as many. */
static void tensors(weft_model *m, int n) {
    weft_value *x = weight(input_of(m, "g"), "w");
    for (int i = 0; i < n; i++) {
        float data[3 * 20] = {(float)i};
        weft_value *rows = weft_constant_tensor(weft_value_graph(x), WEFT_F32, 2, (int64_t[]){20, 3}, data);
        x = weft_add(x, weft_sum(rows, 1, (int64_t[]){0}, false));
    }
    train(x);
}

static void long_tensor(weft_model *m, int n) {
    weft_value *x = weight(input_of(m, "g"), "w");
    float *data = calloc((size_t)n * 3, sizeof *data);
    weft_value *rows = weft_constant_tensor(weft_value_graph(x), WEFT_F32, 2, (int64_t[]){n, 3}, data);
    free(data);
    train(weft_add(x, weft_sum(rows, 1, (int64_t[]){0}, false)));
}

/* Graphs that train one model, a part each. */
static void trainings(weft_model *m, int n) {
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "w%d", i);
        weft_value *x = input_of(m, name), *loss = weft_mean(weft_mul(x, weight(x, name)), WEFT_ALL, false);
        weft_minimize(loss, name, &(weft_optimizer){.type = "sgd", .lr = 0.1, .name = name});
        weft_output(loss, "loss");
    }
}

typedef struct family {
    const char *name;
    void (*build)(weft_model *m, int n);
    int n;       /* and two and four times that */
    double most; /* growth, where it is above that of the others; 0: it is not */
} family;

/* First fit looks at up to 4,096 places for each buffer (runtime/passes/placement.c), which these sizes do
 * not reach yet; each of at most 256 minimize calls goes through all variables (MODEL_MAX_TRAININGS). */
#define PLACED  2.55
#define TRAINED 2.4

static const family families[] = {
    {"gpt", gpt, 8},
    {"chain", chain, 1000},
    {"skips", skips, 60, PLACED},
    {"variables", variables, 100, PLACED},
    {"scopes", scopes, 100, PLACED},
    {"nested", nested, 100, PLACED},
    {"states", states, 100},
    {"views", views, 150},
    {"wide", wide, 250},
    {"outputs", outputs, 300},
    {"graphs", graphs, 30},
    {"declarations", declarations, 100},
    {"layers", layers, 10},
    {"packs", packs, 250},
    {"copies", copies, 400},
    {"rewrites", rewrites, 50},
    {"shown", shown, 300},
    {"uses", uses, 60},
    {"groups", groups, 100, PLACED},
    {"last_gradients", last_gradients, 200},
    {"norms", norms, 30},
    {"inputs", inputs, 300},
    {"tensors", tensors, 100},
    {"long_tensor", long_tensor, 20000},
    {"trainings", trainings, 15, TRAINED},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- what is done with them ---- */

static weft_model *built(const family *f, int n) {
    weft_model *m = weft_model_new(f->name);
    f->build(m, n);
    CHECK_SAYS(!weft_model_error(m)->status, "%s: %s", f->name, weft_model_error(m)->text);
    return m;
}

static void read_back(const weft_model *m) {
    weft_error e = {0};
    char *text = weft_model_text(m);
    weft_model *again = text ? weft_model_parse(text, "text", NULL, &e) : NULL;
    CHECK_SAYS(again != NULL, "%s", e.text);
    weft_model_free(again);
    weft_text_free(text);
    CHECK_SAYS(weft_save(m, "test_steps.bin", &e) == WEFT_OK, "%s", e.text);
    again = weft_load("test_steps.bin", NULL, &e);
    CHECK_SAYS(again != NULL, "%s", e.text);
    weft_model_free(again);
    remove("test_steps.bin");
}

/* What a tool does with every value of a store. */
static void looked_up(const weft_store *store) {
    const char *path;
    for (int i = 0; (path = weft_store_path(store, i)); i++)
        CHECK_SAYS(weft_store_shape(store, path, NULL, NULL) >= 0, "%s", path);
}

/* Alone, as the other ranks of a world are not there; a GPU's session wants its backend. */
static void opened(const weft_plan *plan, const weft_compile_options *o) {
    weft_error e = {0};
    if (o->device == WEFT_DEVICE_CUDA) return;
    weft_store *store = weft_store_new(plan, 1, &e);
    if (!CHECK_SAYS(store != NULL, "%s", e.text)) return;
    looked_up(store);
    weft_session *session = o->world < 2 ? weft_session_open(plan, store, &e) : NULL;
    CHECK_SAYS(session || o->world > 1, "%s", e.text);
    weft_session_close(session);
    weft_store_free(store);
}

static void compiled(const weft_model *m, const weft_compile_options *o) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(m, o, &e);
    if (!CHECK_SAYS(plan != NULL, "%s", e.text)) return;
    CHECK_SAYS(weft_plan_verify(plan, &e) == WEFT_OK, "%s", e.text);
    char *text = weft_plan_text(plan), *json = weft_plan_json(plan);
    CHECK(text && json);
    opened(plan, o);
    weft_text_free(text);
    weft_text_free(json);
    weft_plan_free(plan);
}

/* One of the ways; NULL: building, printing, saving and reading back. */
typedef struct way {
    const char *name;
    const weft_compile_options *options;
} way;

static const weft_compile_options alone = {.threads = 2, .verify = true};
static const weft_compile_options many = {
    .threads = 2, .world = 8, .rank = 5, .zero = 2, .bucket_cap_mb = 1e-4};
static const weft_compile_options serial = {.threads = 2, .world = 8, .zero = 1, .serial = true};
static const weft_compile_options half = {
    .threads = 2, .world = 2, .accumulate = 3, .precision = WEFT_BF16, .bucket_cap_mb = 1e-4};
static const weft_compile_options gpu = {
    .threads = 2, .verify = true, .device = WEFT_DEVICE_CUDA, .precision = WEFT_BF16};
static const way ways[] = {{"model", NULL},     {"alone", &alone}, {"zero 2", &many},
                           {"serial", &serial}, {"bf16", &half},   {"gpu", &gpu}};
enum { WAYS = sizeof ways / sizeof *ways };

static uint64_t steps_of(const family *f, const way *w, int n) {
    uint64_t before = steps;
    weft_model *m = built(f, n);
    if (w->options) before = steps;
    if (w->options)
        compiled(m, w->options);
    else
        read_back(m);
    uint64_t count = steps - before;
    weft_model_free(m);
    return count;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Sorting by addresses takes some more or fewer steps in each run: what grows too much is counted again, and
 * the least counts. */
static void check_growth(const family *f, const way *w) {
    double growth = 9, most = f->most > 0 ? f->most : 2.2;
    uint64_t one = UINT64_MAX, two = one, four = one;
    for (int i = 0; i < 5 && growth >= most; i++) {
        one = least(one, steps_of(f, w, f->n));
        two = least(two, steps_of(f, w, 2 * f->n));
        four = least(four, steps_of(f, w, 4 * f->n));
        growth = (double)(four - two) / (double)(two - one);
    }
    CHECK_SAYS(one > 1000 && two > one && growth < most,
               "%s, %s: %d, %d and %d take %llu, %llu and %llu steps: up %.2f times the second time", f->name,
               w->name, f->n, 2 * f->n, 4 * f->n, (unsigned long long)one, (unsigned long long)two,
               (unsigned long long)four, growth);
    if (getenv("WEFT_TEST_FIGURES"))
        fprintf(stderr, "%-16s %-8s %6d %12llu %12llu %12llu %.3f\n", f->name, w->name, f->n,
                (unsigned long long)one, (unsigned long long)two, (unsigned long long)four, growth);
}

TEST(twice_the_step_up_takes_twice_the_steps) {
    for (int i = 0; i < FAMILIES; i++)
        for (int k = test_is_quick() ? i % 2 : 0; k < WAYS; k += 1 + test_is_quick())
            check_growth(&families[i], &ways[k]);
}

/* From sizes that are trained today to one that is not yet. */
TEST(steps_a_layer_stay_the_same_however_many_there_are) {
    for (int k = 0; k < 3; k++) {
        double few = (double)steps_of(&families[0], &ways[k], 6) / 6;
        double many_layers = (double)steps_of(&families[0], &ways[k], 96) / 96;
        CHECK_SAYS(many_layers < 1.3 * few, "%s: %.0f steps a layer of 6, %.0f of 96", ways[k].name, few,
                   many_layers);
    }
}

SUITE("steps",
      {T(twice_the_step_up_takes_twice_the_steps), T(steps_a_layer_stay_the_same_however_many_there_are)})
