/* test_own_ops.c - ops that a program defines (weft/op.h): their values at any strides; their gradients and
 * second gradients against central differences; models that are saved, read, resumed and distributed to the
 * same bits; what definitions, calls, and a program's own functions may not be; memory that runs out. */
#include "graph/core/own_op.h"
#include "support/faults.h"
#include "support/folder.h"
#include "support/world.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- two ops:  y0 = alpha x^2 z  and  y1 = x + order z ---- */

/* What the functions of an op have seen. */
typedef struct seen {
    atomic_int kernels, strided;
    atomic_int batch; /* the longest axis 0 that infer was called for */
    atomic_int reduced;
} seen;

static bool is_float(const weft_op_type *t) {
    return t->dtype == WEFT_F32 || t->dtype == WEFT_F64;
}

static bool same_type(const weft_op_type *a, const weft_op_type *b) {
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

static bool bend_infer(weft_op_types *t) {
    seen *s = t->context;
    const weft_op_type *x = &t->operands[0], *z = &t->operands[1];
    if (s && x->ndim && x->shape[0] > s->batch) s->batch = (int)x->shape[0];
    if (s && !is_float(x)) s->reduced++;
    if (is_float(x) && same_type(x, z)) return true;
    snprintf(t->why, sizeof t->why, "x and z must be f32 or f64, and of one type");
    return false;
}

static double element(const weft_op_tensor *t, const int64_t *at) {
    int64_t place = 0;
    for (int i = 0; i < t->type.ndim; i++) place += at[i] * t->strides[i];
    return t->type.dtype == WEFT_F32 ? (double)((const float *)t->data)[place]
                                     : ((const double *)t->data)[place];
}

static void put(const weft_op_tensor *t, int64_t place, double v) {
    if (t->type.dtype == WEFT_F32)
        ((float *)t->data)[place] = (float)v;
    else
        ((double *)t->data)[place] = v;
}

static bool next(const weft_op_type *t, int64_t *at) {
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (++at[i] < t->shape[i]) return true;
        at[i] = 0;
    }
    return false;
}

static bool is_row_major(const weft_op_tensor *t) {
    int64_t step = 1;
    for (int i = t->type.ndim - 1; i >= 0; step *= t->type.shape[i--])
        if (t->strides[i] != step && t->type.shape[i] > 1) return false;
    return true;
}

static weft_status bend(weft_op_run *run) {
    seen *s = run->context;
    int64_t at[WEFT_MAX_NDIM] = {0}, place = 0;
    if (s) s->kernels++;
    if (s && !(is_row_major(&run->operands[0]) && is_row_major(&run->operands[1]))) s->strided++;
    if (!is_row_major(&run->results[0]) || !is_row_major(&run->results[1]) || run->threads < 1)
        return WEFT_INTERNAL;
    do {
        double x = element(&run->operands[0], at), z = element(&run->operands[1], at);
        put(&run->results[0], place, run->reals[0] * x * x * z);
        put(&run->results[1], place++, x + (double)run->integers[0] * z);
    } while (next(&run->results[0].type, at));
    return WEFT_OK;
}

/* dx = 2 alpha x z d0 + d1      dz = alpha x^2 d0 + order d1      where a result is used */
static void bend_gradient(weft_op_gradient *g) {
    weft_value *x = g->operands[0], *z = g->operands[1], *d0 = g->result_gradients[0],
               *d1 = g->result_gradients[1];
    if (d0 && g->wanted[0]) g->gradients[0] = weft_mul(weft_scale(d0, 2 * g->reals[0]), weft_mul(x, z));
    if (d0 && g->wanted[1]) g->gradients[1] = weft_mul(weft_scale(d0, g->reals[0]), weft_square(x));
    if (d1 && g->wanted[0]) g->gradients[0] = g->gradients[0] ? weft_add(g->gradients[0], d1) : d1;
    if (!d1 || !g->wanted[1]) return;
    weft_value *more = weft_scale(d1, (double)g->integers[0]);
    g->gradients[1] = g->gradients[1] ? weft_add(g->gradients[1], more) : more;
}

#define BEND                                                                                                 \
    .n_operands = 2, .n_results = 2, .numbers = {{{"alpha", 0.5}}, {{"order", 2}}}, .infer = bend_infer,     \
    .gradient = bend_gradient, .kernel = bend

/* cube = x^3, whose gradient is an op of the program too: 3 x^2 d. */
static weft_status cube(weft_op_run *run) {
    int64_t at[WEFT_MAX_NDIM] = {0}, place = 0;
    do {
        double x = element(&run->operands[0], at);
        put(&run->results[0], place++, x * x * x);
    } while (next(&run->results[0].type, at));
    return WEFT_OK;
}

static weft_status cube_slope(weft_op_run *run) {
    int64_t at[WEFT_MAX_NDIM] = {0}, place = 0;
    do {
        double x = element(&run->operands[0], at);
        put(&run->results[0], place++, 3 * x * x * element(&run->operands[1], at));
    } while (next(&run->results[0].type, at));
    return WEFT_OK;
}

static void cube_gradient(weft_op_gradient *g) {
    weft_value *in[] = {g->operands[0], g->result_gradients[0]};
    g->gradients[0] = weft_call_op("test.cube_slope", 2, in, NULL);
}

static void slope_gradient(weft_op_gradient *g) {
    weft_value *x = g->operands[0], *d = g->operands[1], *by = g->result_gradients[0];
    if (g->wanted[0]) g->gradients[0] = weft_scale(weft_mul(weft_mul(x, d), by), 6);
    if (g->wanted[1]) g->gradients[1] = weft_scale(weft_mul(weft_square(x), by), 3);
}

static bool float_infer(weft_op_types *t) {
    return is_float(&t->operands[0]);
}

/* Every op of this suite; NULL when memory is out. */
static weft_op_set *ops_new(const weft_env *env, seen *s, weft_error *e) {
    const weft_op_definition list[] = {
        {.name = "test.bend", .context = s, BEND},
        {.name = "test.bend_strided", .context = s, .strided = true, BEND},
        {.name = "test.cube",
         .n_operands = 1,
         .infer = float_infer,
         .gradient = cube_gradient,
         .kernel = cube},
        {.name = "test.cube_slope",
         .n_operands = 2,
         .infer = float_infer,
         .gradient = slope_gradient,
         .kernel = cube_slope},
    };
    weft_op_set *ops = weft_op_set_new(env, e);
    for (size_t i = 0; ops && i < sizeof list / sizeof *list; i++)
        if (weft_define_op(ops, &list[i], e)) {
            weft_op_set_free(ops);
            return NULL;
        }
    return ops;
}

/* ---- running ---- */

typedef struct ran {
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} ran;

static bool ran_open(ran *r, const weft_model *m, const weft_compile_options *o, weft_error *e) {
    *r = (ran){.plan = weft_compile(m, o, e)};
    if (r->plan) r->store = weft_store_new(r->plan, 3, e);
    if (r->store) r->session = weft_session_open(r->plan, r->store, e);
    return r->session;
}

static void ran_close(ran *r) {
    weft_session_close(r->session);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
}

static const weft_compile_options proved = {.verify = true, .threads = 2};

/* ---- values ---- */

/* y0 of x as it is, of its transpose, and of a z that is broadcast. */
TEST(a_kernel_gets_types_shapes_strides_and_numbers) {
    for (int strided = 0; strided < 2; strided++) {
        seen s = {0};
        weft_error e = {0};
        weft_op_set *ops = ops_new(NULL, &s, &e);
        weft_env env = {.ops = ops};
        weft_model *m = weft_model_new_in("m", &env);
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3, 4));
        weft_value *z = weft_input(g, "z", WEFT_F32, WEFT_SHAPE(3));
        weft_value *t = weft_permute(x, (int64_t[]){1, 0}), *wide = weft_broadcast_to(z, WEFT_SHAPE(4, 3));
        weft_value *y =
            weft_call_op(strided ? "test.bend_strided" : "test.bend", 2, (weft_value *[]){t, wide},
                         &(weft_op_numbers){{{"alpha", 0.25}}, {{"order", -3}}});
        weft_output(y, "y0");
        weft_output(weft_node_result(weft_value_node(y), 1), "y1");
        ran r;
        NEED(ran_open(&r, m, &proved, &e));
        float in[12], third[3] = {1, -2, 0.5f}, y0[12], y1[12];
        for (int i = 0; i < 12; i++) in[i] = (float)i - 5;
        CHECK(!weft_run(r.session, "g", (weft_feed[]){{"x", in, sizeof in}, {"z", third, sizeof third}}, 2,
                        (weft_fetch[]){{"y0", y0, sizeof y0}, {"y1", y1, sizeof y1}}, 2, &e));
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 3; k++) {
                float a = in[4 * k + i], b = third[k];
                CHECK_SAYS(y0[3 * i + k] == 0.25f * a * a * b && y1[3 * i + k] == a - 3 * b,
                           "strided %d: element %d,%d: %g and %g", strided, i, k, (double)y0[3 * i + k],
                           (double)y1[3 * i + k]);
            }
        CHECK_SAYS(s.kernels == 1 && s.strided == strided, "%d runs, %d with strides", s.kernels, s.strided);
        char *text = weft_plan_text(r.plan);
        CHECK_HOLDS(text, strided ? "= test.bend_strided(" : "= test.bend(");
        CHECK_HOLDS(text, " alpha=0.25 order=-3 by own");
        weft_text_free(text);
        ran_close(&r);
        weft_model_free(m);
        weft_op_set_free(ops);
    }
}

/* Two equal calls are one; a call with other numbers is another one; one that nobody reads is dropped; and
 * the operand, which is read after the call, keeps its elements. */
TEST(calls_are_merged_dropped_and_never_in_place) {
    seen s = {0};
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, &s, &e);
    weft_env env = {.ops = ops};
    weft_model *m = weft_model_new_in("m", &env);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_scale(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4)), 2), *in[] = {x, x};
    weft_value *a = weft_call_op("test.bend", 2, in, NULL);
    weft_value *b = weft_call_op("test.bend", 2, in, &(weft_op_numbers){{{"alpha", 0.5}}, {{0}}});
    weft_value *c = weft_call_op("test.bend", 2, in, &(weft_op_numbers){{{"alpha", 0}}, {{0}}});
    weft_call_op("test.bend", 2, in, &(weft_op_numbers){{{"alpha", 7}}, {{0}}});
    weft_value *ab = weft_add(a, b), *abc = weft_add(ab, c);
    weft_output(weft_add(abc, x), "y");
    ran r;
    NEED(ran_open(&r, m, &proved, &e));
    float v[4] = {1, 2, 3, -4}, y[4];
    CHECK(!weft_run(r.session, "g", (weft_feed[]){{"x", v, sizeof v}}, 1, (weft_fetch[]){{"y", y, sizeof y}},
                    1, &e));
    for (int i = 0; i < 4; i++) {
        float w = 2 * v[i];
        CHECK_SAYS(y[i] == w * w * w + w, "%d: %g", i, (double)y[i]);
    }
    CHECK_SAYS(s.kernels == 2, "%d calls run", s.kernels);
    ran_close(&r);
    weft_model_free(m);
    weft_op_set_free(ops);
}

/* ---- gradients ---- */

enum { N = 6 };

/* Of a loss of x and z with fixed weights: outputs "loss", its gradients "gx" and "gz", "loss2" of those, and
 * the gradients of that, "gxx" and "gzz". */
static weft_model *gradients_model(const weft_env *env, int used) {
    weft_model *m = weft_model_new_in("m", env);
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F64, WEFT_SHAPE(2, 3)), *by[2], *twice[2];
    weft_value *z = weft_input(g, "z", WEFT_F64, WEFT_SHAPE(2, 3)), *in[] = {x, z};
    weft_value *y = weft_call_op("test.bend", 2, in, NULL), *y1 = weft_node_result(weft_value_node(y), 1);
    weft_value *bent = used == 0 ? y : used == 1 ? y1 : weft_mul(y, y1);
    bent = weft_add(bent, weft_call_op("test.cube", 1, &x, NULL));
    weft_value *loss = weft_sum(weft_tanh(bent), WEFT_ALL, false);
    weft_output(loss, "loss");
    weft_gradients(loss, 2, in, by);
    weft_output(by[0], "gx");
    weft_output(by[1], "gz");
    weft_value *mixed = weft_mul(by[0], by[1]);
    weft_value *squares = weft_add(mixed, weft_square(by[0]));
    weft_value *loss2 = weft_sum(squares, WEFT_ALL, false);
    weft_output(loss2, "loss2");
    weft_gradients(loss2, 2, in, twice);
    weft_output(twice[0], "gxx");
    weft_output(twice[1], "gzz");
    return m;
}

typedef struct point {
    double x[N], z[N], loss, loss2, gx[N], gz[N], gxx[N], gzz[N];
} point;

static bool point_run(ran *r, point *p, weft_error *e) {
    const weft_feed feeds[] = {{"x", p->x, sizeof p->x}, {"z", p->z, sizeof p->z}};
    const weft_fetch fetches[] = {{"loss", &p->loss, sizeof p->loss}, {"loss2", &p->loss2, sizeof p->loss2},
                                  {"gx", p->gx, sizeof p->gx},        {"gz", p->gz, sizeof p->gz},
                                  {"gxx", p->gxx, sizeof p->gxx},     {"gzz", p->gzz, sizeof p->gzz}};
    return !weft_run(r->session, "g", feeds, 2, fetches, 6, e);
}

/* Central differences by element i of x (is_z: of z). */
static void differences(ran *r, const point *at, bool is_z, int i, double *first, double *second) {
    const double h = 1e-5;
    weft_error e = {0};
    point up = *at, down = *at;
    (is_z ? up.z : up.x)[i] += h;
    (is_z ? down.z : down.x)[i] -= h;
    CHECK_SAYS(point_run(r, &up, &e) && point_run(r, &down, &e), "%s", e.text);
    *first = (up.loss - down.loss) / (2 * h);
    *second = (up.loss2 - down.loss2) / (2 * h);
}

TEST(gradients_and_second_gradients_agree_with_differences) {
    for (int used = 0; used < 3; used++) {
        weft_error e = {0};
        weft_op_set *ops = ops_new(NULL, NULL, &e);
        weft_env env = {.ops = ops};
        weft_model *m = gradients_model(&env, used);
        point at = {.x = {0.5, -1, 0.25, 1.5, -0.75, 0.1}, .z = {1, 0.5, -0.5, 0.75, 0.2, -1}};
        ran r;
        NEED(ran_open(&r, m, &proved, &e));
        NEED(point_run(&r, &at, &e));
        for (int i = 0; i < 2 * N; i++) {
            double first, second, is = (i < N ? at.gx : at.gz)[i % N], is2 = (i < N ? at.gxx : at.gzz)[i % N];
            differences(&r, &at, i >= N, i % N, &first, &second);
            CHECK_SAYS(fabs(is - first) < 1e-7 && fabs(is2 - second) < 1e-7,
                       "results %d, operand %d, element %d: %.9g and %.9g, not %.9g and %.9g", used, i / N,
                       i % N, is, is2, first, second);
        }
        ran_close(&r);
        weft_model_free(m);
        weft_op_set_free(ops);
    }
}

/* ---- models: files, texts, worlds ---- */

static weft_model *net_of(const weft_env *env, int64_t batch, double alpha) {
    weft_model *m = weft_model_new_in("net", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(batch, 8)), *y = NULL;
    WEFT_SCOPE(x, "net") {
        weft_value *h = weft_linear(x, 12, "a", NULL), *in[] = {h, weft_tanh(h)};
        y = weft_call_op("test.bend", 2, in, &(weft_op_numbers){{{"alpha", alpha}}, {{0}}});
        y = weft_add(y, weft_node_result(weft_value_node(y), 1));
        y = weft_call_op("test.cube", 1, (weft_value *[]){weft_tanh(y)}, NULL);
        y = weft_linear(y, 3, "b", NULL);
    }
    weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "adam", .lr = 0.01});
    weft_output(loss, "loss");
    return m;
}

static weft_model *net_in(const weft_env *env, int64_t batch) {
    return net_of(env, batch, 0.3);
}

static weft_model *good_net(const weft_env *env, int64_t batch) {
    weft_model *m = net_in(env, batch);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static world_rank *trained(const weft_model *m, int world, int accumulate, int zero) {
    world_job job = {.model = m, .steps = 5};
    job.options = (weft_compile_options){
        .world = world, .accumulate = accumulate, .zero = zero, .bucket_cap_mb = 0.0001, .verify = true};
    return world_run(&job);
}

TEST(any_world_trains_to_the_bits_of_one_rank) {
    seen s = {0};
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, &s, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, 4);
    world_rank *alone = trained(m, 1, 2, 0);
    for (int zero = 0; zero <= 2; zero++) {
        char what[40];
        snprintf(what, sizeof what, "zero=%d", zero);
        world_rank *ranks = trained(m, 2, 1, zero);
        world_check(alone, ranks, 2, world_trained, what);
        world_free(ranks);
    }
    world_free(alone);
    weft_model_free(m);
    weft_op_set_free(ops);
}

static char *path_new(void) {
    static char path[] = "/tmp/weft_own_op_XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int file = mkstemp(path);
    if (file >= 0) close(file);
    return path;
}

/* Through model.bin, or the text. */
static weft_model *again(const weft_model *m, const weft_env *env, bool is_text, weft_error *e) {
    weft_model *copy = NULL;
    char *path = path_new(), *text = weft_model_text(m);
    if (is_text)
        copy = weft_model_parse(text, "text", env, e);
    else if (!weft_save(m, path, e))
        copy = weft_load(path, env, e);
    unlink(path);
    weft_text_free(text);
    return copy;
}

/* Reads with a set of its own. */
TEST(a_model_that_was_read_trains_to_the_same_bits) {
    for (int is_text = 0; is_text < 2; is_text++) {
        weft_error e = {0};
        weft_op_set *ops = ops_new(NULL, NULL, &e), *others = ops_new(NULL, NULL, &e);
        weft_env env = {.ops = ops}, other = {.ops = others};
        weft_model *m = good_net(&env, 4), *copy = again(m, &other, is_text, &e);
        if (!CHECK_SAYS(copy != NULL, "%s", e.text)) return;
        char *text = weft_model_text(m), *read = weft_model_text(copy);
        CHECK_TEXT(read, text);
        CHECK_HOLDS(text, "test.bend(");
        CHECK_HOLDS(text, " alpha=0.3 order=2 in net");
        world_rank *one = trained(m, 1, 1, 0);
        weft_model_free(m);
        weft_op_set_free(ops);
        world_rank *two = trained(copy, 1, 1, 0);
        world_check(one, two, 1, world_all, "read again");
        world_free(one);
        world_free(two);
        weft_text_free(text);
        weft_text_free(read);
        weft_model_free(copy);
        weft_op_set_free(others);
    }
}

/* A number of 0, and of -0, is in texts and files; one that the definition has got since is its default. */
TEST(numbers_of_zero_are_kept_and_new_ones_are_the_default) {
    for (int is_text = 0; is_text < 2; is_text++) {
        weft_error e = {0};
        weft_op_set *older = weft_op_set_new(NULL, &e), *newer = weft_op_set_new(NULL, &e);
        weft_op_definition d = {.name = "test.grown", .n_operands = 1, .kernel = cube};
        d.numbers = (weft_op_numbers){{{"a", 0.5}}, {{"i", 3}}, {0}};
        CHECK_SAYS(!weft_define_op(older, &d, &e), "%s", e.text);
        d.numbers = (weft_op_numbers){{{"a", 0.5}, {"b", 0.7}}, {{"i", 3}, {"j", 4}}, {0}};
        CHECK_SAYS(!weft_define_op(newer, &d, &e), "%s", e.text);
        weft_env env = {.ops = older}, other = {.ops = newer};
        weft_model *m = weft_model_new_in("m", &env);
        weft_value *x = weft_input(weft_graph_new(m, "g", WEFT_EVAL), "x", WEFT_F32, WEFT_SHAPE(3));
        const weft_op_numbers zeros = {{{"a", -0.0}}, {{"i", 0}}, {0}};
        weft_output(weft_call_op("test.grown", 1, &x, &zeros), "y");
        weft_model *copy = again(m, &other, is_text, &e);
        if (CHECK_SAYS(copy != NULL, "%s", e.text)) {
            const weft_graph *g = weft_model_graph(copy, 0);
            char *text = weft_node_attributes(weft_graph_node(g, weft_graph_node(g, NULL)));
            CHECK_TEXT(text, "a=-0 b=0.7 i=0 j=4");
            weft_text_free(text);
        }
        weft_model_free(copy);
        weft_model_free(m);
        weft_op_set_free(older);
        weft_op_set_free(newer);
    }
}

/* Steps [from, to) on data by their numbers. */
static void steps_run(ran *r, int from, int to, float *loss, weft_error *e) {
    for (int step = from; step < to && !e->status; step++) {
        float x[4 * 8];
        test_random random = {(uint64_t)step};
        for (int i = 0; i < 4 * 8; i++) x[i] = (float)random_in(&random, -1, 1);
        weft_run(r->session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1,
                 (weft_fetch[]){{"loss", loss, sizeof *loss}}, 1, e);
    }
}

TEST(a_training_resumes_to_the_same_bits) {
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, 4), *copy = again(m, &env, false, &e);
    float whole = 0, resumed = 1, a[2][12 * 8], b[2][3];
    char *path = path_new();
    ran one, two;
    NEED(copy && ran_open(&one, m, &proved, &e) && ran_open(&two, copy, &proved, &e));
    steps_run(&one, 0, 5, &whole, &e);
    CHECK(!weft_weights_save(one.store, path, true, &e));
    steps_run(&one, 5, 10, &whole, &e);
    CHECK(!weft_weights_load(two.store, path, NULL, NULL, &e));
    steps_run(&two, 5, 10, &resumed, &e);
    weft_store_get(one.store, "net/a/weight", a[0], sizeof a[0], &e);
    weft_store_get(two.store, "net/a/weight", a[1], sizeof a[1], &e);
    weft_store_get(one.store, "net/b/bias", b[0], sizeof b[0], &e);
    weft_store_get(two.store, "net/b/bias", b[1], sizeof b[1], &e);
    CHECK_SAYS(e.status == WEFT_OK, "%s", e.text);
    CHECK(whole == resumed && memcmp(a[0], a[1], sizeof a[0]) == 0 && memcmp(b[0], b[1], sizeof b[0]) == 0);
    unlink(path);
    ran_close(&one);
    ran_close(&two);
    weft_model_free(m);
    weft_model_free(copy);
    weft_op_set_free(ops);
}

/* Whether a model takes the newest checkpoint of the folder. */
static bool takes_checkpoint(const weft_model *m, const char *folder, weft_error *e) {
    weft_plan *plan = weft_compile(m, NULL, e);
    weft_checkpoint *c = plan ? weft_checkpoint_newest(folder, plan, NULL, NULL, e) : NULL;
    bool is_taken = c != NULL;
    weft_checkpoint_close(c);
    weft_plan_free(plan);
    return is_taken;
}

/* A number of the op belongs to the model as an op's name does. */
TEST(a_checkpoint_knows_the_numbers_of_an_op) {
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, 4), *other = net_of(&env, 4, 0.25), *copy = again(m, &env, true, &e);
    char folder[] = "/tmp/weft_own_ops_XXXXXX";
    float loss;
    ran r;
    NEED(mkdtemp(folder) && copy && ran_open(&r, m, &proved, &e));
    steps_run(&r, 0, 1, &loss, &e);
    weft_checkpoint_options o = {.folder = folder};
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(r.session, &o, &e);
    NEED(w && !weft_checkpoint_begin(w, 1, false, NULL, 0, &e));
    CHECK_SAYS(weft_checkpoint_end(w, &e) == WEFT_OK, "%s", e.text);
    weft_checkpoint_writer_close(w);
    CHECK_SAYS(takes_checkpoint(copy, folder, &e), "%s", e.text);
    CHECK(!takes_checkpoint(other, folder, &e) && e.status == WEFT_FILE);
    remove_tree(folder);
    ran_close(&r);
    weft_model_free(m);
    weft_model_free(other);
    weft_model_free(copy);
    weft_op_set_free(ops);
}

TEST(dumps_of_all_passes_are_read_back) {
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, 4);
    for (int i = 0; weft_pass_name(i); i++) {
        weft_plan *plan = weft_compile(m, &(weft_compile_options){.stop_after = weft_pass_name(i)}, &e);
        char *text = plan ? weft_plan_text(plan) : NULL;
        weft_model *copy = text ? weft_model_parse(text, "plan", &env, &e) : NULL;
        char *read = copy ? weft_model_text(copy) : NULL;
        CHECK_SAYS(read != NULL, "%s: %s", weft_pass_name(i), e.text);
        if (read) CHECK_TEXT(read, text);
        weft_text_free(text);
        weft_text_free(read);
        weft_model_free(copy);
        weft_plan_free(plan);
    }
    weft_model_free(m);
    weft_op_set_free(ops);
}

/* The batch is bound when the model is compiled; where it computes in bf16 the op still gets f32. */
TEST(any_batch_and_precision_compiles) {
    seen s = {0};
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, &s, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, WEFT_BATCH);
    for (int i = 0; i < 4; i++) {
        weft_compile_options o = {
            .batch = i + 1, .precision = i % 2 ? WEFT_BF16 : WEFT_F32, .verify = true, .accumulate = 2};
        weft_plan *plan = weft_compile(m, &o, &e);
        CHECK_SAYS(plan && s.batch == i + 1, "batch %d: infer has seen %d: %s", i + 1, s.batch, e.text);
        weft_plan_free(plan);
    }
    CHECK_SAYS(s.reduced == 0, "%d calls of infer in a reduced type", s.reduced);
    weft_model_free(m);
    weft_op_set_free(ops);
}

/* The error names each op once, and says why. */
TEST(a_plan_for_a_gpu_names_the_ops_without_a_kernel) {
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    weft_env env = {.ops = ops};
    weft_model *m = good_net(&env, 4);
    CHECK(!weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA}, &e));
    CHECK(e.status == WEFT_UNSUPPORTED);
    CHECK_HOLDS(e.text, "no kernel of this backend can run them");
    CHECK_HOLDS(e.text, "test.bend: its program defines a kernel for CPUs alone; test.cube: its program");
    weft_model_free(m);
    weft_op_set_free(ops);
}

TEST(a_model_that_lacks_its_ops_says_which_and_what_to_do) {
    static const char want[] = "there is no op 'test.bend': a program defines such ops (weft_define_op), "
                               "and gives their set in weft_env.ops before it makes or loads the model";
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e), *few = weft_op_set_new(NULL, &e);
    weft_env env = {.ops = ops}, little = {.ops = few};
    weft_model *m = good_net(&env, 4);
    for (int i = 0; i < 4; i++) {
        CHECK(!again(m, i / 2 ? &little : NULL, i % 2, &e));
        CHECK(e.status == WEFT_FILE);
        CHECK_HOLDS(e.text, want);
        CHECK_HOLDS(e.text, i % 2 ? "text:" : "graph step: call ");
    }
    /* one with a name beside it, and with fewer operands than the calls have */
    weft_define_op(few, &(weft_op_definition){.name = "test.bent", BEND}, &e);
    CHECK(!again(m, &little, false, &e));
    CHECK_HOLDS(e.text, "there is no op 'test.bend': did you mean 'test.bent'? A program defines such ops");
    weft_define_op(few, &(weft_op_definition){.name = "test.bend", .n_operands = 1, .kernel = cube}, &e);
    CHECK(!again(m, &little, false, &e) && e.status == WEFT_FILE);
    CHECK_HOLDS(e.text, "test.bend");
    weft_model_free(m);
    weft_op_set_free(ops);
    weft_op_set_free(few);
}

/* As graphtool reads it: the model says what it is, has the bytes that it had, and cannot be compiled. */
TEST(a_model_can_be_shown_without_its_ops) {
    weft_error e = {0};
    faults f;
    faults_init(&f);
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    f.env.ops = ops;
    weft_model *m = good_net(&f.env, 4);
    weft_save(m, "own", &e);
    f.env.ops = &own_ops_shown;
    weft_model *shown = weft_load("own", &f.env, &e);
    if (!CHECK_SAYS(shown != NULL, "%s", e.text)) return;
    char *text = weft_model_text(m), *read = weft_model_text(shown);
    CHECK_HOLDS(read, " alpha=0.3 order=2 in net");
    CHECK_TEXT(read, text);
    weft_save(shown, "again", &e);
    const fake_file *a = fake_get(&f, "own"), *b = fake_get(&f, "again");
    CHECK(a && b && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
    CHECK(!weft_compile(shown, NULL, &e) && e.status == WEFT_UNSUPPORTED);
    CHECK_HOLDS(e.text, "in net: test.bend: an op of the program that made the model, which is not defined "
                        "here (weft_define_op): it can be shown, not run");
    weft_text_free(text);
    weft_text_free(read);
    weft_model_free(m);
    weft_model_free(shown);
    weft_op_set_free(ops);
    faults_end(&f);
}

/* The second result of another "test.bend" is f64. */
static bool other_infer(weft_op_types *t) {
    t->results[1].dtype = WEFT_F64;
    return true;
}

TEST(a_definition_that_does_not_fit_the_file_is_refused) {
    for (int n_results = 1; n_results <= 2; n_results++) {
        weft_error e = {0};
        weft_op_definition d = {.name = "test.bend", BEND};
        weft_op_set *ops = ops_new(NULL, NULL, &e), *others = weft_op_set_new(NULL, &e);
        d.infer = n_results == 2 ? other_infer : NULL;
        d.n_results = n_results;
        CHECK_SAYS(weft_define_op(others, &d, &e) == WEFT_OK, "%s", e.text);
        weft_env env = {.ops = ops}, other = {.ops = others};
        weft_model *m = good_net(&env, 4);
        CHECK(!again(m, &other, false, &e) && e.status == WEFT_FILE);
        CHECK_HOLDS(e.text,
                    n_results == 2
                        ? "test.bend: result 1 is f64[4,12]; in the file f32[4,12]: it is defined another way"
                        : "test.bend has 1 results; in the file 2: it is defined another way");
        weft_model_free(m);
        weft_op_set_free(ops);
        weft_op_set_free(others);
    }
}

/* ---- what is refused ---- */

#define LATER .reserved = {[WEFT_RESERVED - 1] = 1}
#define GOOD  .n_operands = 1, .kernel = cube

TEST(what_definitions_may_not_be) {
    static const struct {
        weft_op_definition d;
        weft_status status;
        const char *error;
    } rows[] = {
        {{.name = "test.cube", GOOD}, WEFT_NAME, "the set has an op 'test.cube' already"},
        {{GOOD}, WEFT_ARGUMENT, "the name ''"},
        {{.name = "relu", GOOD}, WEFT_ARGUMENT, "the name 'relu': two words with a '.' between"},
        {{.name = ".relu", GOOD}, WEFT_ARGUMENT, "the name '.relu'"},
        {{.name = "a.", GOOD}, WEFT_ARGUMENT, "the name 'a.'"},
        {{.name = "a.b.c", GOOD}, WEFT_ARGUMENT, "the name 'a.b.c'"},
        {{.name = "a.b c", GOOD}, WEFT_ARGUMENT, "the name 'a.b c'"},
        {{.name = "a.9", GOOD}, WEFT_ARGUMENT, "the name 'a.9'"},
        {{.name = "a.b\n", GOOD}, WEFT_ARGUMENT, "the name 'a.b\\x0a'"},
        {{.name = "abcdefghijklmnopqrst.abcdefghijklmnopqrst", GOOD}, WEFT_ARGUMENT, "at most 40 characters"},
        {{.name = "a.b", .kernel = cube}, WEFT_ARGUMENT, "a.b: n_operands=0: it must be 1 to 8"},
        {{.name = "a.b", .kernel = cube, .n_operands = 9}, WEFT_ARGUMENT, "n_operands=9"},
        {{.name = "a.b", .kernel = cube, .n_operands = -1}, WEFT_ARGUMENT, "n_operands=-1"},
        {{.name = "a.b", .n_results = -1, GOOD}, WEFT_ARGUMENT, "a.b: n_results=-1: it must be 1 to 8"},
        {{.name = "a.b", .n_results = 9, GOOD}, WEFT_ARGUMENT, "n_results=9"},
        {{.name = "a.b", .n_operands = 1}, WEFT_ARGUMENT, "a.b: it needs a kernel"},
        {{.name = "a.b", LATER, GOOD}, WEFT_ARGUMENT, "weft_op_definition: words of `reserved` are not 0"},
        {{.name = "a.b", .numbers = {LATER}, GOOD}, WEFT_ARGUMENT, "weft_op_numbers: words of `reserved`"},
        {{.name = "a.b", .numbers = {{{"", 1}}, {{0}}}, GOOD}, WEFT_ARGUMENT, "a.b: number ''"},
        {{.name = "a.b", .numbers = {{{"k=", 1}}, {{0}}}, GOOD}, WEFT_ARGUMENT, "number 'k='"},
        {{.name = "a.b", .numbers = {{{"_k", 1}}, {{0}}}, GOOD},
         WEFT_ARGUMENT,
         "number '_k': a letter, then"},
        {{.name = "a.b", .numbers = {{{0}}, {{"2d", 1}}}, GOOD}, WEFT_ARGUMENT, "number '2d'"},
        {{.name = "a.b", .numbers = {{{"k", 1}, {"k", 1}}, {{0}}}, GOOD}, WEFT_ARGUMENT, "no two alike"},
        {{.name = "a.b", .numbers = {{{"k", 1}}, {{"k", 1}}}, GOOD}, WEFT_ARGUMENT, "no two alike"},
        {{.name = "a.b", .numbers = {{{"k", NAN}}, {{0}}}, GOOD}, WEFT_ARGUMENT, "default of k is not a fin"},
    };
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_status status = weft_define_op(ops, &rows[i].d, &e);
        CHECK_SAYS(status == rows[i].status && e.status == status && strstr(e.text, rows[i].error),
                   "row %zu: %d: %s, not: %s", i, status, e.text, rows[i].error);
        CHECK(weft_define_op(ops, &rows[i].d, NULL) == rows[i].status);
    }
    CHECK(weft_define_op(NULL, &rows[0].d, &e) == WEFT_ARGUMENT);
    CHECK(weft_define_op(ops, NULL, &e) == WEFT_ARGUMENT);
    /* the longest name, and all operands, results and numbers */
    CHECK_SAYS(weft_define_op(ops,
                              &(weft_op_definition){
                                  .name = "abcdefghijklmnopqrst.abcdefghijklmnopqrs",
                                  .n_operands = 8,
                                  .n_results = 8,
                                  .kernel = cube,
                                  .numbers = {{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}, {"h"}},
                                              {{"i"}, {"j"}, {"k"}, {"l"}, {"m"}, {"n"}, {"o"}, {"p"}}},
                              },
                              &e) == WEFT_OK,
               "%s", e.text);
    weft_op_set_free(ops);
    weft_op_set_free(NULL);
}

/* Each leaves one error in a model that has the ops. */
TEST(what_calls_may_not_be) {
    weft_error e = {0};
    weft_op_set *ops = ops_new(NULL, NULL, &e);
    weft_define_op(ops, &(weft_op_definition){.name = "test.plain", .n_operands = 2, .kernel = cube}, &e);
    weft_env env = {.ops = ops};
#define CALL(name, n, ...) weft_call_op(name, n, in, &(weft_op_numbers){__VA_ARGS__})
#define ROWS(X)                                                                                              \
    X(weft_call_op("test.bent", 2, in, NULL), WEFT_NAME,                                                     \
      "weft_call_op: there is no op 'test.bent': did you mean 'test.bend'?")                                 \
    X(weft_call_op("bend", 2, in, NULL), WEFT_NAME, "weft_call_op: there is no op 'bend'")                   \
    X(weft_call_op(NULL, 2, in, NULL), WEFT_NAME, "weft_call_op: there is no op ''")                         \
    X(weft_call_op("relu", 1, in, NULL), WEFT_NAME, "weft_call_op: relu is Weft's: call its function")       \
    X(weft_call_op("test.bend", 1, in, NULL), WEFT_ARGUMENT, "test.bend: 1 operands: it takes 2")            \
    X(weft_call_op("test.cube", 2, in, NULL), WEFT_ARGUMENT, "test.cube: 2 operands: it takes 1")            \
    X(weft_call_op("test.bend", 2, (weft_value *[]){in[0], NULL}, NULL), WEFT_ARGUMENT,                      \
      "test.bend: operand 1 is NULL, and no call before this one failed")                                    \
    X(weft_call_op("test.bend", 2, (weft_value *[]){in[0], far}, NULL), WEFT_ARGUMENT,                       \
      "operand 1 belongs to graph other")                                                                    \
    X(weft_call_op("test.bend", 2, (weft_value *[]){in[0], flat}, NULL), WEFT_SHAPE,                         \
      "test.bend: x and z must be f32 or f64, and of one type")                                              \
    X(weft_call_op("test.plain", 2, (weft_value *[]){in[0], flat}, NULL), WEFT_SHAPE,                        \
      "test.plain: operand 1 is f32[12]: without an `infer` all operands are f32 and of one shape")          \
    X(weft_call_op("test.plain", 2, (weft_value *[]){whole, whole}, NULL), WEFT_TYPE,                        \
      "test.plain: operand 0 is i64[3,4]: without an `infer`")                                               \
    X(CALL("test.bend", 2, {{"beta", 1}}), WEFT_NAME, "test.bend: it has no number 'beta'")                  \
    X(CALL("test.bend", 2, {{"order", 1}}), WEFT_NAME, "it has no number 'order': that is one of its whole numbers") \
    X(CALL("test.bend", 2, {{"alhpa", 1}}), WEFT_NAME, "it has no number 'alhpa': did you mean 'alpha'?")    \
    X(CALL("test.bend", 2, .integers = {{"alpha", 1}}), WEFT_NAME, "it has no whole number 'alpha'")         \
    X(CALL("test.bend", 2, {{"alpha", 1}, {"alpha", 2}}), WEFT_ARGUMENT,                                     \
      "test.bend: the call gives alpha twice")                                                               \
    X(CALL("test.bend", 2, {{"alpha", INFINITY}}), WEFT_ARGUMENT, "alpha is not a finite number")            \
    X(CALL("test.bend", 2, LATER), WEFT_ARGUMENT, "weft_op_numbers: words of `reserved` are not 0")
#define ROW(call, code, says)                                                                                \
    {                                                                                                        \
        weft_model *m = weft_model_new_in("m", &env);                                                        \
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL), *other = weft_graph_new(m, "other", WEFT_EVAL);   \
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3, 4)), *in[] = {x, x};                      \
        weft_value *flat = weft_flatten(x, 0), *whole = weft_cast(x, WEFT_I64);                              \
        weft_value *far = weft_input(other, "x", WEFT_F32, WEFT_SHAPE(3, 4));                                \
        CHECK((call) == NULL && in[1] && flat && whole && far);                                              \
        CHECK_HOLDS(weft_model_error(m)->text, says);                                                        \
        CHECK_SAYS(weft_model_error(m)->status == (code), "%s", weft_model_error(m)->text);                  \
        CHECK_HOLDS(weft_model_error(m)->text, "test_own_ops.c:");                                           \
        weft_model_free(m);                                                                                  \
    }
    ROWS(ROW)
    CHECK(!weft_call_op("test.cube", 1, NULL, NULL) && !weft_call_op("test.cube", 0, NULL, NULL));
    CHECK(!weft_call_op("test.cube", 1, (weft_value *[]){NULL}, NULL));
    weft_op_set_free(ops);
}

/* ---- functions of a program that do what they may not ---- */

/* How, by the number `how`. */
static bool odd_infer(weft_op_types *t) {
    weft_op_type *y = &t->results[0];
    switch (t->integers[0]) {
    case 1:
        y->dtype = (weft_dtype)77;
        break;
    case 2:
        y->ndim = 9;
        break;
    case 3:
        y->ndim = -1;
        break;
    case 4:
        y->shape[1] = 0;
        break;
    case 5:
        y->shape[0] = -4;
        break;
    case 6:
        y->shape[0] = INT64_MAX;
        break;
    case 7:
        return false;
    case 8:
        memset(t->why, 'w', sizeof t->why);
        return false;
    case 9:
        snprintf(t->why, sizeof t->why, "two\nlines\x1b[31m");
        return false;
    default:
        break;
    }
    return true;
}

static const weft_op_numbers hows = {{{0}}, {{"how", 0}}};

TEST(an_infer_that_returns_nonsense_is_refused) {
    static const struct {
        weft_status status;
        const char *error;
    } rows[] = {
        {WEFT_TYPE, "test.odd: its `infer` gives result 0 the element type 77, which does not exist"},
        {WEFT_SHAPE, "test.odd: its `infer` gives result 0 9 axes: 0 to 8 are allowed"},
        {WEFT_SHAPE, "gives result 0 -1 axes"},
        {WEFT_SHAPE, "gives result 0 the type f32[3,0]: every axis must be at least 1"},
        {WEFT_SHAPE, "gives result 0 the type f32[-4,4]: every axis must be at least 1"},
        {WEFT_SHAPE, "the whole below 2^46 bytes"},
        {WEFT_SHAPE, "test.odd: its `infer` refuses f32[3,4]"},
        {WEFT_SHAPE, "test.odd: wwwwwwwwww"},
        {WEFT_SHAPE, "test.odd: two\\x0alines\\x1b[31m"},
    };
    weft_error e = {0};
    weft_op_set *ops = weft_op_set_new(NULL, &e);
    weft_op_definition odd = {
        .name = "test.odd", .n_operands = 1, .numbers = hows, .infer = odd_infer, .kernel = cube};
    CHECK(weft_define_op(ops, &odd, &e) == WEFT_OK);
    weft_env env = {.ops = ops};
    for (size_t i = 0; i <= sizeof rows / sizeof *rows; i++) {
        weft_model *m = weft_model_new_in("m", &env);
        weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(3, 4));
        weft_value *y = weft_call_op("test.odd", 1, &x, &(weft_op_numbers){{{0}}, {{"how", (int64_t)i}}});
        const weft_error *got = weft_model_error(m);
        if (i)
            CHECK_SAYS(!y && got->status == rows[i - 1].status && strstr(got->text, rows[i - 1].error),
                       "row %zu: %d: %s", i, got->status, got->text);
        else
            CHECK(y != NULL);
        weft_model_free(m);
    }
    weft_op_set_free(ops);
}

static void odd_gradient(weft_op_gradient *g) {
    weft_value *d = g->result_gradients[0], *x = g->operands[0];
    weft_graph *graph = weft_value_graph(x);
    g->gradients[0] = d;
    switch (g->integers[0]) {
    case 1:
        g->gradients[0] = weft_sum(d, WEFT_AXES(0), false);
        break;
    case 2:
        g->gradients[0] = weft_cast(d, WEFT_F64);
        break;
    case 3:
        g->gradients[0] = *(weft_value **)g->context;
        break;
    case 4:
        g->gradients[0] = weft_mul(d, weft_input(graph, "more", WEFT_F32, WEFT_SHAPE(3, 4)));
        break;
    case 5:
        g->gradients[0] =
            weft_mul(d, weft_parameter_in(graph, "w", WEFT_SHAPE(3, 4), (weft_init){WEFT_INIT_ONES}));
        break;
    case 6:
        g->gradients[0] = weft_dropout(d, 0.5);
        break;
    case 7:
        weft_output(d, "d");
        break;
    case 8:
        weft_scope_enter(d, "open");
        break;
    case 9:
        g->gradients[0] = weft_concat(2, (weft_value *[]){d, weft_cast(d, WEFT_F64)}, 0);
        break;
    case 10:
        weft_gradients(weft_sum(d, WEFT_ALL, false), 1, &x, &g->gradients[0]);
        break;
    case 11:
        g->gradients[0] = weft_call_op("gone.test", 1, &d, NULL);
        break;
    case 12:
        g->gradients[0] = NULL;
        break;
    default:
        break;
    }
}

TEST(a_gradient_that_builds_nonsense_is_refused) {
    static const char *const rows[] = {
        "test.odd: its gradient by operand 0 is f32[4]: it must be f32[3,4]",
        "test.odd: its gradient by operand 0 is f64[3,4]: it must be f32[3,4]",
        "test.odd: its gradient by operand 0 is f32[3,4] of another graph: it must be f32[3,4]",
        "test.odd: its gradient calls input: it may not name inputs and parameters, draw, train or",
        "test.odd: its gradient calls parameter",
        "test.odd: its gradient calls dropout",
        "test.odd: its gradient names an output",
        "test.odd: its gradient leaves a scope open",
        "(in the gradient of test.odd)",
        "test.odd: its gradient calls gradients",
        "weft_call_op: there is no op 'gone.test': a program defines such ops",
        "its loss does not depend on parameter",
        "test.flat: this op has no gradient, so it cannot be between a parameter and the loss",
    };
    enum { ROWS_OF = sizeof rows / sizeof *rows };
    weft_error e = {0};
    weft_op_set *ops = weft_op_set_new(NULL, &e);
    weft_model *far_model = weft_model_new("far");
    weft_graph *far_graph = weft_graph_new(far_model, "far", WEFT_EVAL);
    weft_value *far = weft_input(far_graph, "x", WEFT_F32, WEFT_SHAPE(3, 4));
    weft_op_definition odd = {.name = "test.odd",
                              .n_operands = 1,
                              .numbers = hows,
                              .gradient = odd_gradient,
                              .kernel = cube,
                              .context = &far};
    weft_op_definition flat = {.name = "test.flat", .n_operands = 1, .kernel = cube, .numbers = hows};
    CHECK(!weft_define_op(ops, &odd, &e) && !weft_define_op(ops, &flat, &e));
    weft_env env = {.ops = ops};
    for (int i = 0; i <= ROWS_OF; i++) {
        weft_model *m = weft_model_new_in("m", &env);
        weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
        weft_value *x = weft_parameter_in(g, "p", WEFT_SHAPE(3, 4), (weft_init){WEFT_INIT_ONES});
        weft_value *y = weft_call_op(i == ROWS_OF ? "test.flat" : "test.odd", 1, &x,
                                     &(weft_op_numbers){{{0}}, {{"how", i}}});
        weft_minimize(weft_sum(y, WEFT_ALL, false), NULL, &(weft_optimizer){.type = "sgd"});
        weft_plan *plan = weft_compile(m, NULL, &e);
        if (i)
            CHECK_SAYS(!plan && strstr(e.text, rows[i - 1]), "row %d: %s, not: %s", i, e.text, rows[i - 1]);
        else
            CHECK_SAYS(plan != NULL, "%s", e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
    weft_model_free(far_model);
    weft_op_set_free(ops);
}

/* Fails as the first element says; 0: it does not. */
static weft_status failing(weft_op_run *run) {
    int how = (int)*(const float *)run->operands[0].data;
    if (!how) return cube(run);
    if (how == 2) snprintf(run->why, sizeof run->why, "element %d is\nbad", 3);
    if (how == 3) memset(run->why, 'w', sizeof run->why);
    return how == 4 ? (weft_status)77 : how == 5 ? (weft_status)-1 : how == 1 ? WEFT_MEMORY : WEFT_DATA;
}

TEST(a_kernel_that_fails_is_one_error_and_the_session_lives) {
    static const struct {
        weft_status status;
        const char *error;
    } rows[] = {
        {WEFT_MEMORY, "out of memory"},
        {WEFT_DATA, "element 3 is\\x0abad"},
        {WEFT_DATA, "wwwwwwww"},
        {WEFT_ARGUMENT, "its kernel returns 77, which is not a status"},
        {WEFT_ARGUMENT, "its kernel returns -1, which is not a status"},
    };
    weft_error e = {0};
    weft_op_set *ops = weft_op_set_new(NULL, &e);
    weft_op_definition d = {.name = "test.fails", .n_operands = 1, .kernel = failing};
    CHECK(!weft_define_op(ops, &d, &e));
    weft_env env = {.ops = ops};
    weft_model *m = weft_model_new_in("m", &env);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(2)), *y = NULL;
    WEFT_SCOPE(x, "net") y = weft_call_op("test.fails", 1, &x, NULL);
    weft_output(y, "y");
    ran r;
    NEED(ran_open(&r, m, &proved, &e));
    for (int i = 0; i < 12; i++) {
        float in[2] = {i % 2 ? (float)(i / 2) : 0, 2}, out[2] = {0};
        weft_status status = weft_run(r.session, "g", (weft_feed[]){{"x", in, sizeof in}}, 1,
                                      (weft_fetch[]){{"y", out, sizeof out}}, 1, &e);
        int row = i % 2 ? i / 2 - 1 : -1;
        if (row < 0)
            CHECK_SAYS(status == WEFT_OK && out[1] == 8, "run %d: %s", i, e.text);
        else
            CHECK_SAYS(status == rows[row].status && strstr(e.text, rows[row].error) &&
                           strstr(e.text, "graph g: test.fails %") && strstr(e.text, " (net): "),
                       "run %d: %d: %s", i, status, e.text);
    }
    ran_close(&r);
    weft_model_free(m);
    weft_op_set_free(ops);
}

/* ---- memory ---- */

/* Defined, built, saved, read, compiled and run once. */
static weft_status road(faults *f, weft_error *e) {
    float loss;
    ran r = {0};
    weft_model *copy = NULL;
    weft_op_set *ops = ops_new(&f->env, NULL, e);
    weft_env env = f->env;
    env.ops = ops;
    weft_model *m = ops ? net_in(&env, 4) : NULL;
    if (ops && !m) e->status = WEFT_MEMORY;
    if (m && !weft_save(m, "own", e)) copy = weft_load("own", &env, e);
    if (copy && ran_open(&r, copy, &(weft_compile_options){.threads = 1}, e)) steps_run(&r, 0, 1, &loss, e);
    ran_close(&r);
    weft_model_free(copy);
    weft_model_free(m);
    weft_op_set_free(ops);
    return e->status;
}

TEST(memory_that_runs_out_is_one_clean_error) {
    faults f;
    faults_init(&f);
    for (long n = 1, step = 1;; n += step, step = n / 200 + 1) {
        weft_error e = {0};
        faults_arm(&f, n, 0, false);
        weft_status status = road(&f, &e);
        bool hit = faults_hit(&f);
        CHECK_SAYS(f.live == 0, "allocation %ld: %zu bytes leak", n, f.live);
        /* a kernel may fall back to another */
        CHECK_SAYS(status == WEFT_OK || (hit && status == WEFT_MEMORY), "allocation %ld: status %d: %s", n,
                   status, e.text);
        if (!hit) break;
    }
    faults_end(&f);
}

SUITE("ops of a program", {T(a_kernel_gets_types_shapes_strides_and_numbers),
                           T(calls_are_merged_dropped_and_never_in_place),
                           T(gradients_and_second_gradients_agree_with_differences),
                           T(any_world_trains_to_the_bits_of_one_rank),
                           T(a_model_that_was_read_trains_to_the_same_bits),
                           T(a_training_resumes_to_the_same_bits),
                           T(a_checkpoint_knows_the_numbers_of_an_op),
                           T(dumps_of_all_passes_are_read_back),
                           T(any_batch_and_precision_compiles),
                           T(a_plan_for_a_gpu_names_the_ops_without_a_kernel),
                           T(a_model_that_lacks_its_ops_says_which_and_what_to_do),
                           T(a_model_can_be_shown_without_its_ops),
                           T(a_definition_that_does_not_fit_the_file_is_refused),
                           T(numbers_of_zero_are_kept_and_new_ones_are_the_default),
                           T(what_definitions_may_not_be),
                           T(what_calls_may_not_be),
                           T(an_infer_that_returns_nonsense_is_refused),
                           T(a_gradient_that_builds_nonsense_is_refused),
                           T(a_kernel_that_fails_is_one_error_and_the_session_lives),
                           T(memory_that_runs_out_is_one_clean_error)})
