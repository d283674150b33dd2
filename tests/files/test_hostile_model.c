/* test_hostile_model.c - models that are well-formed messages with hostile contents, which random bytes
 * rarely produce. Fields of model.bin are set to extreme values, operands rewired, ops exchanged; every op
 * gets extreme attributes and missing operands. What shape inference accepts must compile, or fail
 * cleanly. */
#include "graph/file/io.h"
#include "graph/core/own_op.h"
#include "graph/file/model_file.h"
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "support/example.h"
#include "support/faults.h"
#include "support/models/own_model.h"
#include "support/hostile/seal.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_CAP = 64 << 20 };

static const int64_t extremes[] = {0,
                                   1,
                                   -1,
                                   2,
                                   3,
                                   7,
                                   INT64_MIN,
                                   INT64_MAX,
                                   INT32_MAX,
                                   INT32_MIN,
                                   1LL << 31,
                                   1LL << 32,
                                   1LL << 46,
                                   (1LL << 46) + 1,
                                   -(1LL << 32),
                                   1LL << 62,
                                   65536,
                                   1000,
                                   -2,
                                   INT64_MIN + 1};

static size_t below(test_random *r, size_t n) {
    return n ? (size_t)(random_bits(r) % n) : 0;
}

static int64_t extreme(test_random *r) {
    return extremes[below(r, sizeof extremes / sizeof *extremes)];
}

/* ---- one field of a message ---- */

static void change_schedules(Weft__Schedules *list, test_random *r) {
    Weft__Schedule *s = list->parts[below(r, list->n_parts)];
    int64_t *const counts[] = {&s->begin, &s->end, &s->warmup, &s->length, &s->period, &s->period_mult};
    double *const reals[] = {&s->gamma, &s->from, &s->middle, &s->to, &s->power, &s->share};
    static const double values[] = {0, -1, 0.5, 1e300, INFINITY, NAN};
    switch (below(r, 5)) {
    case 0:
        s->kind = (Weft__Schedule__Kind)below(r, 12);
        break;
    case 1:
        s->of = (Weft__Schedule__Number)below(r, 4);
        break;
    case 2:
        *counts[below(r, 6)] = extreme(r);
        break;
    case 3:
        *reals[below(r, 6)] = values[below(r, 6)];
        break;
    default:
        if (s->n_milestones) s->milestones[below(r, s->n_milestones)] = extreme(r);
        list->n_parts -= below(r, 2);
        break;
    }
}

static void change_attribute(Weft__Attribute *a, test_random *r) {
    static const double reals[] = {0, -1, 1e300, -1e300, 1.0 / 0.0, 0.0 / 0.0, 1e-310};
    switch (a->value_case) {
    case WEFT__ATTRIBUTE__VALUE_INTEGER:
        a->integer = extreme(r);
        break;
    case WEFT__ATTRIBUTE__VALUE_REAL:
        a->real = reals[below(r, sizeof reals / sizeof *reals)];
        break;
    case WEFT__ATTRIBUTE__VALUE_DTYPE:
        a->dtype = (Weft__DType)(below(r, 10));
        break;
    case WEFT__ATTRIBUTE__VALUE_FLAG:
        a->flag = !a->flag;
        break;
    case WEFT__ATTRIBUTE__VALUE_INTEGERS:
        if (a->integers->n_v && below(r, 4))
            a->integers->v[below(r, a->integers->n_v)] = extreme(r);
        else
            a->integers->n_v -= a->integers->n_v > 0;
        break;
    case WEFT__ATTRIBUTE__VALUE_SCHEDULES:
        change_schedules(a->schedules, r);
        break;
    default:
        a->name = "x";
        break;
    }
}

static void change_type(Weft__Type *t, test_random *r) {
    if (below(r, 3))
        t->dtype = (Weft__DType)below(r, 10);
    else if (t->n_shape && below(r, 2))
        t->shape[below(r, t->n_shape)] = extreme(r);
    else if (t->n_shape)
        t->n_shape--;
}

static void change_call(Weft__Graph *g, test_random *r) {
    Weft__Call *c = g->calls[below(r, g->n_calls)];
    switch (below(r, 7)) {
    case 0:
        if (c->n_operand_call)
            c->operand_call[below(r, c->n_operand_call)] = (uint32_t)below(r, g->n_calls + 1);
        break;
    case 1:
        if (c->n_operand_call) c->operand_result[below(r, c->n_operand_call)] = (uint32_t)below(r, 3);
        break;
    case 2:
        c->op = (char *)op_at((int)below(r, (size_t)op_count()))->name;
        break;
    case 3:
        c->n_operand_call = c->n_operand_result = below(r, c->n_operand_call + 1);
        break;
    case 4:
        if (c->n_results) change_type(c->results[below(r, c->n_results)], r);
        break;
    default:
        if (c->n_attributes) change_attribute(c->attributes[below(r, c->n_attributes)], r);
        break;
    }
}

static void change_subgraph(Weft__Model *m, test_random *r) {
    static const char *const paths[] = {"",     "/",   "discriminator", "generator", "generator/fc",
                                        "none", "../x"};
    static const char *const groups[] = {"",          ";",         "0-",          "3-1", "0;0",
                                         "0-1048575", "0-1048576", "9999999999,", "1"};
    Weft__Subgraph *s = m->subgraphs[below(r, m->n_subgraphs)];
    Weft__Attribute *a = s->options[below(r, s->n_options)];
    if (!below(r, 3))
        s->path = (char *)paths[below(r, sizeof paths / sizeof *paths)];
    else if (a->value_case == WEFT__ATTRIBUTE__VALUE_TEXT)
        a->text = (char *)groups[below(r, sizeof groups / sizeof *groups)];
    else
        change_attribute(a, r);
}

static void change_flow(Weft__Model *m, test_random *r) {
    static const char *const names[] = {"train", "late", "d_step", "g_step", "val", "none", "a/b", ""};
    Weft__Flow *flow = m->flows[below(r, m->n_flows)];
    const char *name = names[below(r, sizeof names / sizeof *names)];
    Weft__FlowStep *s = flow->steps[below(r, flow->n_steps)];
    switch (below(r, 7)) {
    case 0:
        flow->name = (char *)name;
        break;
    case 1:
        s->graph = (char *)name;
        break;
    case 2:
        s->repeat = (uint32_t)extreme(r);
        break;
    case 3:
        s->accumulate = (uint32_t)extreme(r);
        break;
    case 4:
        s->batch = (Weft__FlowStep__Batch)below(r, 5);
        break;
    case 5:
        s->from = extreme(r);
        break;
    default:
        s->to = extreme(r);
        break;
    }
}

static void change_optimizer(Weft__Model *m, test_random *r) {
    static const char *const names[] = {"signum", "adam", "eps", "lr", "", "a b", "momentum_buffer", "mean"};
    static const double reals[] = {0, -1, 1e300, 1.0 / 0.0, 0.0 / 0.0};
    Weft__Optimizer *o = m->optimizers[below(r, m->n_optimizers)];
    Weft__Graph *g = o->updates[below(r, o->n_updates)];
    char *name = (char *)names[below(r, sizeof names / sizeof *names)];
    double real = reals[below(r, sizeof reals / sizeof *reals)];
    switch (below(r, 9)) {
    case 0:
        o->type = name;
        break;
    case 1:
        o->slots[below(r, o->n_slots)]->name = name;
        break;
    case 2:
        o->slots[below(r, o->n_slots)]->initial = real;
        break;
    case 3:
        o->numbers[below(r, o->n_numbers)]->field = name;
        break;
    case 4:
        o->numbers[below(r, o->n_numbers)]->value = real;
        break;
    case 5:
        o->n_updates = below(r, o->n_updates + 1);
        break;
    case 6:
        g->outputs[below(r, g->n_outputs)]->call = (uint32_t)below(r, g->n_calls);
        break;
    default:
        change_call(g, r);
        break;
    }
}

static void change_model(Weft__Model *m, test_random *r) {
    if (m->n_optimizers && below(r, 4)) {
        change_optimizer(m, r);
        return;
    }
    Weft__Graph *g = m->graphs[below(r, m->n_graphs)];
    switch (below(r, 14)) {
    case 0:
        m->batch = extreme(r);
        break;
    case 1: {
        Weft__Variable *v = m->variables[below(r, m->n_variables)];
        if (v->n_shape) v->shape[below(r, v->n_shape)] = extreme(r);
        break;
    }
    case 2:
        m->variables[below(r, m->n_variables)]->init = (Weft__Variable__Init)below(r, 10);
        break;
    case 3:
        g->train = !g->train;
        break;
    case 4:
        g->n_calls = below(r, g->n_calls + 1);
        break;
    case 5:
        if (g->n_outputs) g->outputs[below(r, g->n_outputs)]->call = (uint32_t)below(r, g->n_calls + 2);
        break;
    case 6:
        if (m->n_subgraphs) change_subgraph(m, r);
        break;
    case 7:
        if (m->n_flows) change_flow(m, r);
        break;
    default:
        change_call(g, r);
        break;
    }
}

static void *arena_piece(void *a, size_t bytes) {
    return arena_new(a, bytes);
}

static void arena_keep(void *a, void *memory) {
    (void)a;
    (void)memory;
}

/* A copy of the message with one to three fields changed, as the file "x". */
static void put_changed(faults *f, const fake_file *good, uint64_t seed) {
    arena a;
    test_random r = {seed};
    arena_init(&a, NULL);
    ProtobufCAllocator allocator = {arena_piece, arena_keep, &a};
    Weft__Model *m = weft__model__unpack(&allocator, good->bytes, (const uint8_t *)good->data);
    if (!CHECK(m != NULL)) return;
    for (size_t i = 1 + below(&r, 3); i > 0; i--) change_model(m, &r);
    put_message(f, "x", m);
    arena_free(&a);
}

/* Compiles what loads; a plan that fits into little memory also gets a store. */
static bool use(faults *f, weft_model *m, uint64_t seed) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    CHECK_SAYS(plan || (error.status && error.status != WEFT_INTERNAL), "seed %llu: %s",
               (unsigned long long)seed, error.text);
    if (plan && weft_plan_memory(plan).total < 1 << 20) {
        weft_store *s = weft_store_new(plan, 1, &error);
        CHECK_SAYS(s != NULL, "seed %llu: %s", (unsigned long long)seed, error.text);
        weft_store_free(s);
    }
    (void)f;
    bool made = plan != NULL;
    weft_plan_free(plan);
    return made;
}

static void check_hostile(weft_model *(*make)(const weft_env *env), const weft_op_set *ops,
                          const weft_op_set *reading) {
    faults f;
    faults_init(&f);
    f.env.ops = ops;
    weft_model *example = make(&f.env);
    CHECK(weft_save(example, "good", NULL) == WEFT_OK);
    weft_model_free(example);
    f.env.ops = reading;
    const fake_file *good = fake_get(&f, "good");
    int loaded = 0, compiled = 0, mutations = test_count(2000, 600);
    uint64_t first = test_seed(1);
    f.cap = MEMORY_CAP;
    for (uint64_t seed = first; good && seed < first + (uint64_t)mutations; seed++) {
        weft_error error = {0};
        test_case_begin();
        put_changed(&f, good, seed);
        weft_model *m = weft_load("x", &f.env, &error);
        CHECK_SAYS(m || (error.status == WEFT_FILE && *error.text), "seed %llu: status %d %s",
                   (unsigned long long)seed, error.status, error.text);
        loaded += m != NULL;
        compiled += m && use(&f, m, seed);
        weft_model_free(m);
        CHECK_SAYS(f.live == 0 && f.handles == 0, "seed %llu: %zu bytes are left", (unsigned long long)seed,
                   f.live);
        test_case_end(false);
    }
    bool may_compile = !reading || !reading->shows_others;
    CHECK_SAYS(loaded > mutations / 20 && (compiled > mutations / 50 || !may_compile),
               "%d loaded, %d compiled: the test tests little", loaded, compiled);
    faults_end(&f);
}

TEST(well_formed_models_with_hostile_contents_fail_cleanly) {
    check_hostile(example_model, NULL, NULL);
}

/* Half of the calls are of an update that is recorded for each shape. */
static weft_model *with_own_optimizers(const weft_env *env) {
    return own_model(env, &(weft_optimizer){.type = "normed"});
}

TEST(hostile_optimizers_of_a_models_own_fail_cleanly) {
    check_hostile(with_own_optimizers, NULL, NULL);
}

/* ---- ops of a program ---- */

/* The result has the operand's length divided by `parts`, which may be any number. */
static bool parts_infer(weft_op_types *t) {
    weft_op_type *x = &t->operands[0], *y = &t->results[0];
    if (x->dtype != WEFT_F32 || x->ndim != 2 || t->integers[0] == 0) return false;
    y->shape[1] = t->integers[0] == -1 ? 0 : x->shape[1] / t->integers[0];
    return true;
}

static void parts_gradient(weft_op_gradient *g) {
    weft_value *x = g->operands[0], *d = weft_sum(g->result_gradients[0], WEFT_AXES(1), true);
    g->gradients[0] =
        weft_broadcast_to(weft_scale(d, g->reals[0]), WEFT_SHAPE(weft_dim(x, 0), weft_dim(x, 1)));
}

static weft_status parts_run(weft_op_run *run) {
    (void)run;
    return WEFT_OK;
}

static weft_model *with_own_op(const weft_env *env) {
    weft_model *m = weft_model_new_in("own", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 6)), *y = weft_linear(x, 8, "a", NULL);
    for (int i = 0; i < 3; i++)
        y = weft_call_op("test.parts", 1, &y, &(weft_op_numbers){{{"scale", i - 1}}, {{"parts", i % 2 + 1}}});
    weft_value *loss = weft_mean(y, WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd"});
    weft_output(loss, "loss");
    return m;
}

TEST(hostile_calls_of_a_programs_ops_fail_cleanly) {
    weft_error e = {0};
    weft_op_set *ops = weft_op_set_new(NULL, &e);
    const weft_op_definition parts = {.name = "test.parts",
                                      .n_operands = 1,
                                      .numbers = {{{"scale", 1}}, {{"parts", 1}}},
                                      .infer = parts_infer,
                                      .gradient = parts_gradient,
                                      .kernel = parts_run};
    CHECK_SAYS(weft_define_op(ops, &parts, &e) == WEFT_OK, "%s", e.text);
    check_hostile(with_own_op, ops, ops);
    check_hostile(with_own_op, ops, &own_ops_shown);
    weft_op_set_free(ops);
}

static weft_model *with_strategy(const weft_env *env) {
    weft_model *m = example_model(env);
    weft_model_strategy(m, "zero:stage=2,shard=flat");
    return m;
}

TEST(hostile_strategies_fail_cleanly) {
    check_hostile(with_strategy, NULL, NULL);
}

/* ---- every op, every attribute ---- */

static void set_field(const op_attr *f, void *attrs, int64_t v, size_t at) {
    switch (f->kind) {
    case ATTR_INT:
        ATTR_FIELD(int64_t, attrs, f) = v;
        break;
    case ATTR_REAL:
        ATTR_FIELD(double, attrs, f) = (double)v;
        break;
    case ATTR_BOOL:
        ATTR_FIELD(bool, attrs, f) = v & 1;
        break;
    case ATTR_DTYPE:
        ATTR_FIELD(weft_dtype, attrs, f) = (weft_dtype)v;
        break;
    case ATTR_KEY:
        ATTR_FIELD(uint64_t, attrs, f) = (uint64_t)v;
        break;
    case ATTR_STRING:
    case ATTR_SCHEDULES:
        ATTR_FIELD(const char *, attrs, f) = v & 1 ? NULL : "%s\"\\/";
        break;
    case ATTR_BYTES:
        ATTR_FIELD(attr_bytes, attrs, f).n = (size_t)v;
        if (v & 1) ATTR_FIELD(attr_bytes, attrs, f).data = NULL;
        break;
    case ATTR_INTS:
        if (at == WEFT_MAX_NDIM)
            ATTR_FIELD(attr_ints, attrs, f).n = (int)(v & 15);
        else
            ATTR_FIELD(attr_ints, attrs, f).v[at] = v;
        break;
    }
}

/* The sample's node again with `attrs` or operand `missing` left out; what infer accepts is dumped and read
 * back. */
static void call_again(const weft_node *n, const void *attrs, int missing) {
    weft_model *m = weft_model_new("again");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value **in = test_memory(((size_t)n->n_in + 1) * sizeof *in);
    for (int i = 0; i < n->n_in; i++) {
        char name[20];
        const tensor_type *t = n->in[i] && i != missing ? &n->in[i]->type : NULL;
        snprintf(name, sizeof name, "x%d", i);
        in[i] = t ? weft_input(g, name, t->dtype, t->ndim, t->shape) : NULL;
    }
    weft_node *again = node_new(g, n->op, n->n_in, in, attrs);
    CHECK_SAYS(again || weft_model_error(m)->status, "%s: no node and no error", n->op->name);
    CHECK(weft_model_error(m)->status != WEFT_INTERNAL);
    if (again && attrs == n->attrs) {
        weft_error error = {0};
        char *string = weft_model_text(m);
        weft_model *copy = weft_model_parse(string, "text", NULL, &error);
        CHECK_SAYS(copy != NULL, "%s\n%s", error.text, string);
        weft_model_free(copy);
        weft_text_free(string);
    }
    free(in);
    weft_model_free(m);
}

static void attack_node(const weft_node *n) {
    size_t bytes = n->op->attrs_bytes;
    char *attrs = test_memory(bytes + 1);
    for (const op_attr *f = n->op->attrs; f && f->name; f++)
        for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++)
            for (size_t at = 0; at <= (f->kind == ATTR_INTS ? WEFT_MAX_NDIM : 0); at++) {
                memcpy(attrs, n->attrs, bytes);
                set_field(f, attrs, extremes[i], at);
                call_again(n, attrs, -1);
            }
    for (int i = -1; i < n->n_in; i++) call_again(n, n->attrs, i);
    free(attrs);
}

TEST(every_op_meets_extreme_attributes_and_missing_operands) {
    int attacked = 0;
    for (int i = 0; i < op_count(); i++)
        for (const op_sample *s = op_at(i)->samples; s && s->in; s++) {
            text t = {0};
            if (s->error) continue;
            text_add(&t, "%s(%s)%s%s", op_at(i)->name, s->in, s->attrs ? " " : "", s->attrs ? s->attrs : "");
            char *signature = text_detach(&t);
            weft_error error = {0};
            weft_node *n = node_from_signature(signature, NULL, &weft_catalog, &error);
            CHECK_SAYS(n || op_at(i)->flags & OP_VARIABLE, "%s: %s", signature, error.text);
            if (n) {
                attack_node(n);
                weft_model_free(n->graph->model);
                attacked++;
            }
            free(signature);
        }
    CHECK(attacked > op_count() / 2);
}

/* Only compiled: a session would take terabytes. */
TEST(axes_of_more_than_32_bits_are_planned) {
    static const int64_t lengths[] = {(int64_t)1 << 31, (int64_t)1 << 32, ((int64_t)1 << 32) + 3};
    for (size_t k = 0; k < 3 * sizeof lengths / sizeof *lengths; k++) {
        weft_error e = {0};
        int64_t m = k / 3 == 0 ? lengths[k % 3] : 1, n = k / 3 == 1 ? lengths[k % 3] : 1;
        int64_t inner = k / 3 == 2 ? lengths[k % 3] : 144;
        weft_model *model = weft_model_new("long");
        weft_graph *g = weft_graph_new(model, "g", WEFT_EVAL);
        weft_value *a = weft_input(g, "a", WEFT_F32, 2, (int64_t[]){m, inner});
        weft_value *b = weft_input(g, "b", WEFT_F32, 2, (int64_t[]){inner, n});
        weft_output(weft_matmul(a, b, false, false), "y");
        weft_plan *plan = weft_compile(model, &(weft_compile_options){.threads = 1}, &e);
        CHECK_SAYS(plan != NULL, "%lld x %lld x %lld: %s", (long long)m, (long long)inner, (long long)n,
                   e.text);
        weft_plan_free(plan);
        weft_model_free(model);
    }
}

SUITE("hostile models",
      {T(well_formed_models_with_hostile_contents_fail_cleanly),
       T(hostile_optimizers_of_a_models_own_fail_cleanly), T(hostile_calls_of_a_programs_ops_fail_cleanly),
       T(hostile_strategies_fail_cleanly), T(every_op_meets_extreme_attributes_and_missing_operands),
       T(axes_of_more_than_32_bits_are_planned)})
