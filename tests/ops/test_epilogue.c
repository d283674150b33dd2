/* test_epilogue.c - the pass that fuses what follows a product into it, in plans for a GPU: the forms that it
 * takes, those that it leaves alone, and that the graph computes the same as before. (Kernels: test_cuda_ops,
 * test_cuda_sessions.) */
#include "examples/zoo.h"
#include "runtime/plan/program.h"
#include "support/kernels/evaluate.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- plans ---- */

static weft_plan *compile(const weft_model *m, weft_device device, weft_dtype precision,
                          const char *stop_after) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(
        m,
        &(weft_compile_options){
            .device = device, .threads = 1, .precision = precision, .verify = true, .stop_after = stop_after},
        &error);
    CHECK_SAYS(plan, "%s", error.text);
    return plan;
}

/* Nodes of an op in the first program, those inside of fused ones too. */
static int count(const weft_plan *plan, const char *op) {
    int found = 0;
    for (const weft_node *n = plan->programs[0].graph->first; n; n = n->next) {
        found += strcmp(n->op->name, op) == 0;
        for (int b = 0; b < n->n_body; b++) found += strcmp(n->body[b]->op->name, op) == 0;
    }
    return found;
}

typedef struct expected {
    const char *op;
    int n;
} expected;

static void check_counts(const char *what, weft_model *m, weft_device device, weft_dtype precision,
                         const expected *want) {
    weft_plan *plan = compile(m, device, precision, NULL);
    for (; plan && want->op; want++)
        CHECK_SAYS(count(plan, want->op) == want->n, "%s in %s: %d nodes of %s, not %d", what,
                   dtype_name(precision), count(plan, want->op), want->op, want->n);
    weft_plan_free(plan);
}

static weft_model *zoo_model(const char *name, int64_t layers) {
    weft_model *m = weft_model_new(name);
    zoo_options o = {.batch = 2, .layers = layers, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .narrow = 4};
    weft_model_set_batch(m, 2);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, name) == 0) zoo_models[i].build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what is taken ---- */

TEST(plans_for_a_gpu_have_activations_and_bias_gradients_in_their_products) {
    static const expected mlp[] = {{"linear_act", 2},
                                   {"matmul_act_backward", 2},
                                   {"linear_weight", 3},
                                   {"linear", 1},
                                   {"relu", 0},
                                   {"relu_backward", 0},
                                   {"matmul", 0},
                                   {"sum", 0},
                                   {0}};
    static const expected gpt[] = {{"linear_act", 3}, {"matmul_act_backward", 3}, {"linear_weight", 12},
                                   {"gelu_tanh", 0},  {"gelu_tanh_backward", 0},  {0}};
    weft_model *small = zoo_model("mlp", 0), *large = zoo_model("gpt", 3);
    for (weft_dtype precision = WEFT_F32; precision <= WEFT_F16; precision++) {
        if (precision != WEFT_F32 && !dtype_is_reduced(precision)) continue;
        check_counts("mlp", small, WEFT_DEVICE_CUDA, precision, mlp);
        check_counts("gpt", large, WEFT_DEVICE_CUDA, precision, gpt);
    }
    weft_model_free(small);
    weft_model_free(large);
}

TEST(plans_for_the_cpu_stay_as_they_are) {
    static const expected none[] = {{"linear_act", 0}, {"matmul_act_backward", 0}, {"linear_weight", 0}, {0}};
    weft_model *m = zoo_model("mlp", 0);
    check_counts("mlp", m, WEFT_DEVICE_CPU, WEFT_F32, none);
    weft_plan *before = compile(m, WEFT_DEVICE_CPU, WEFT_F32, "clean"),
              *after = compile(m, WEFT_DEVICE_CPU, WEFT_F32, "epilogue");
    char *want = weft_plan_text(before), *got = weft_plan_text(after);
    CHECK_TEXT(got, want);
    weft_text_free(want);
    weft_text_free(got);
    weft_plan_free(before);
    weft_plan_free(after);
    weft_model_free(m);
}

/* ---- small models ---- */

enum { ROWS = 6, IN = 5 };

/* A training graph around loss(x), or where that gives none one without; x is [2, 3, IN], so that products
 * and activations differ in their axes. */
static weft_model *model_of(weft_value *(*loss)(weft_value *x)) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *y = loss(weft_input(g, "x", WEFT_F32, 3, (int64_t[]){2, 3, IN}));
    if (y) {
        y = weft_mean(weft_square(y), WEFT_ALL, false);
        weft_minimize(y, NULL, &(weft_optimizer){.type = "sgd", .lr = 0.1});
        weft_output(y, "loss");
    }
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static weft_value *three_layers(weft_value *x) {
    x = weft_relu(weft_linear(x, 16, "a", NULL));
    x = weft_gelu_tanh(weft_linear(x, 24, "b", NULL));
    x = weft_reshape(x, 2, (int64_t[]){ROWS, 24});
    x = weft_relu(weft_linear(x, 130, "c", &(weft_linear_options){.no_bias = true}));
    return weft_linear(x, 3, "d", NULL);
}

/* Whoever looks at z before relu keeps both. */
static weft_value *relu_of_what_is_fetched(weft_value *x) {
    weft_value *z = weft_linear(x, 16, "a", NULL);
    weft_output(z, "z");
    return weft_linear(weft_relu(z), 8, "b", NULL);
}

static weft_value *relu_of_what_is_read_twice(weft_value *x) {
    weft_value *z = weft_linear(x, 16, "a", NULL);
    return weft_linear(weft_add(weft_relu(z), weft_scale(z, 0.1)), 8, "b", NULL);
}

/* gelu_tanh's operand is a result of its own. */
static weft_value *gelu_of_what_is_fetched(weft_value *x) {
    weft_value *z = weft_linear(x, 16, "a", NULL);
    weft_output(z, "z");
    return weft_linear(weft_gelu_tanh(z), 8, "b", NULL);
}

/* The gradient of y is fetched too. */
static weft_value *product_that_is_read_twice(weft_value *x) {
    weft_value *y = weft_relu(weft_linear(x, 16, "a", NULL)), *out[] = {y, x};
    if (weft_gradients(weft_mean(weft_square(weft_linear(y, 8, "b", NULL)), WEFT_ALL, false), 2,
                       (weft_value *[]){y, x}, out))
        return NULL;
    weft_output(out[0], "dy");
    weft_output(out[1], "dx");
    return NULL;
}

/* cuBLASLt keeps GELU's operand in rows of a multiple of 8. */
static weft_value *odd_width(weft_value *x) {
    return weft_linear(weft_gelu_tanh(weft_linear(x, 12, "a", NULL)), 8, "b", NULL);
}

static weft_value *gelu_by_erf(weft_value *x) {
    return weft_linear(weft_gelu(weft_linear(x, 16, "a", NULL)), 8, "b", NULL);
}

static const struct {
    const char *name;
    weft_value *(*loss)(weft_value *x);
    int forward, backward, weights; /* linear_act, matmul_act_backward, linear_weight */
} cases[] = {
    {"three layers", three_layers, 3, 3, 3},
    {"relu of what is fetched", relu_of_what_is_fetched, 0, 0, 2},
    {"relu of what is read twice", relu_of_what_is_read_twice, 0, 0, 2},
    {"gelu_tanh of what is fetched", gelu_of_what_is_fetched, 1, 1, 2},
    {"a product that is read twice", product_that_is_read_twice, 1, 0, 0},
    {"a width that is not a multiple of 8", odd_width, 0, 0, 2},
    {"gelu by erf", gelu_by_erf, 0, 0, 2},
};
enum { CASES = sizeof cases / sizeof *cases };

TEST(what_somebody_else_reads_and_what_the_library_lacks_stays) {
    for (int i = 0; i < CASES; i++) {
        weft_model *m = model_of(cases[i].loss);
        check_counts(cases[i].name, m, WEFT_DEVICE_CUDA, WEFT_F32,
                     (expected[]){{"linear_act", cases[i].forward},
                                  {"matmul_act_backward", cases[i].backward},
                                  {"linear_weight", cases[i].weights},
                                  {0}});
        weft_model_free(m);
    }
}

/* ---- the same numbers ---- */

static void fill(evaluation *run, const weft_plan *plan) {
    test_random r = {3};
    const weft_graph *g = plan->programs[0].graph;
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        tensor t = evaluate_variable(run, v);
        bool is_positive = v->kind == VARIABLE_OPTIMIZER;
        for (int64_t k = 0; !v->bucket && k < type_elements(&t.type); k++)
            tensor_set(&t, k, random_in(&r, is_positive ? 0.1 : -0.5, 0.5));
    }
    for (const weft_node *n = g->first; n; n = n->next)
        for (int64_t k = 0; n->op == &weft_op_input && k < type_elements(&n->out[0].type); k++)
            evaluate_set(run, &n->out[0], k, random_in(&r, -1, 1));
}

static evaluation *run_after(const weft_plan *plan) {
    weft_error error = {0};
    evaluation *run = evaluate_new(plan->programs[0].graph, true);
    fill(run, plan);
    CHECK_SAYS(evaluate_run(run, NULL, &error) == WEFT_OK, "%s", error.text);
    return run;
}

static void check_same(const char *what, const tensor *got, const tensor *want) {
    for (int64_t k = 0; k < type_elements(&want->type); k++) {
        double g = tensor_get(got, k), w = tensor_get(want, k);
        if (fabs(g - w) <= 1e-12 * (1 + fabs(w))) continue;
        CHECK_SAYS(false, "%s: element %lld is %.17g, was %.17g", what, (long long)k, g, w);
        return;
    }
    CHECK(true);
}

TEST(what_the_pass_makes_computes_the_same) {
    for (int i = 0; i < CASES; i++) {
        weft_model *m = model_of(cases[i].loss);
        weft_plan *before = compile(m, WEFT_DEVICE_CUDA, WEFT_F32, "clean"),
                  *after = compile(m, WEFT_DEVICE_CUDA, WEFT_F32, "epilogue");
        NEED(before && after);
        evaluation *want = run_after(before), *got = run_after(after);
        const weft_variable *v = before->model->variables;
        for (const weft_variable *w = after->model->variables; v && w; v = v->next, w = w->next) {
            tensor a = evaluate_variable(want, v), b = evaluate_variable(got, w);
            check_same(v->path, &b, &a);
        }
        const graph_output *o = before->programs[0].graph->outputs;
        for (const graph_output *q = after->programs[0].graph->outputs; o && q; o = o->next, q = q->next) {
            tensor a = evaluate_tensor(want, o->value), b = evaluate_tensor(got, q->value);
            check_same(cases[i].name, &b, &a);
        }
        evaluate_free(want);
        evaluate_free(got);
        weft_plan_free(before);
        weft_plan_free(after);
        weft_model_free(m);
    }
}

/* ---- text ---- */

TEST(its_nodes_read_back) {
    weft_model *m = model_of(three_layers);
    for (int i = 0; i < 2; i++) {
        weft_error error = {0};
        weft_plan *plan = compile(m, WEFT_DEVICE_CUDA, i ? WEFT_BF16 : WEFT_F32, NULL);
        char *text = weft_plan_text(plan);
        weft_model *back = weft_model_parse(text, "plan", NULL, &error);
        char *again = back ? weft_model_text(back) : NULL;
        CHECK_SAYS(back, "%s", error.text);
        if (again)
            CHECK(strncmp(text, again, strlen(again)) == 0); /* except for what launches have as comments */

        CHECK_HOLDS(text, "u8[6,32] = linear_act(");
        CHECK_HOLDS(text, "act=relu keep=1");
        weft_text_free(again);
        weft_text_free(text);
        weft_model_free(back);
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

SUITE("epilogue",
      {T(plans_for_a_gpu_have_activations_and_bias_gradients_in_their_products),
       T(plans_for_the_cpu_stay_as_they_are), T(what_somebody_else_reads_and_what_the_library_lacks_stays),
       T(what_the_pass_makes_computes_the_same), T(its_nodes_read_back)})
