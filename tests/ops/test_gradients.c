/* test_gradients.c - every op's gradient, and its gradient's gradient, against central differences in f64.
 *
 * For a sample with result y (further results are statistics kept for the backward op) and operands x, the
 * loss is sum(y * c) with c random; weft_gradients and autodiff make its gradients, as for a user. Then once
 * more: loss2 = sum(dloss/dx * c2) and its gradients with respect to x and c. Graphs run in f64 on the
 * reference kernels. */
#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"
#include "support/kernels/evaluate.h"
#include "support/kernels/samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TARGETS = 48, MAX_PLACES = 24 };

typedef struct trial {
    sample s;
    weft_value *targets[MAX_TARGETS]; /* what is differentiated by: inputs */
    weft_value *gradients[MAX_TARGETS];
    int n_targets;
    weft_value *loss;
} trial;

static weft_value *random_like(trial *t, const weft_value *v, const char *what, int i) {
    char name[32];
    snprintf(name, sizeof name, "%s%d", what, i);
    return weft_input(t->s.g, name, v->type.dtype, v->type.ndim, v->type.shape);
}

/* sum over values of sum(value * random); the randoms become targets too. */
static weft_value *random_sum(trial *t, int n, weft_value *const *values, const char *what) {
    weft_value *total = NULL;
    for (int i = 0; i < n; i++) {
        if (!values[i] || values[i]->type.dtype != WEFT_F64) continue;
        weft_value *weight = random_like(t, values[i], what, i);
        weft_value *part = weft_sum(weft_mul(values[i], weight), WEFT_ALL, false);
        total = total ? weft_add(total, part) : part;
        if (t->n_targets < MAX_TARGETS) t->targets[t->n_targets++] = weight;
    }
    return total;
}

/* Users get c of lstm too, and second gradients come by all that lstm and gru keep. */
static bool has_more_results(const weft_op *op) {
    return strncmp(op->name, "lstm", 4) == 0 || strncmp(op->name, "gru", 3) == 0;
}

/* The graph of the loss, of order 1 or 2. False when there is nothing to differentiate. */
static bool trial_build(trial *t, const weft_op *op, const op_sample *spec, int order) {
    *t = (trial){0};
    sample_build(&t->s, op, spec, true);
    if (!t->s.n) return false;
    weft_value *results[OP_MAX_OUT] = {&t->s.n->out[0]};
    for (int k = 1; has_more_results(op) && k < t->s.n->n_out; k++) results[k] = &t->s.n->out[k];
    weft_value *first[MAX_TARGETS] = {0};
    int n = 0;
    for (int i = 0; i < t->s.n_in; i++)
        if (t->s.in[i] && t->s.in[i]->type.dtype == WEFT_F64) t->targets[n++] = t->s.in[i];
    t->n_targets = n;
    t->loss = n ? random_sum(t, OP_MAX_OUT, results, "c") : NULL;
    if (!t->loss) return false;
    if (order == 2) {
        if (weft_gradients(t->loss, n, t->targets, first) != WEFT_OK) return false;
        t->loss = random_sum(t, n, first, "d");
    }
    return weft_gradients(t->loss, t->n_targets, t->targets, t->gradients) == WEFT_OK;
}

/* gradients[i] names a result of a `gradients` node; after autodiff its reader knows what took its place: an
 * output named "g<i>". */
static weft_value *output_of(const weft_graph *g, const char *name) {
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (strcmp(o->name, name) == 0) return o->value;
    return NULL;
}

static void name_outputs(trial *t) {
    char name[16];
    for (int i = 0; i < t->n_targets; i++) {
        snprintf(name, sizeof name, "g%d", i);
        weft_output(t->gradients[i], name);
    }
    weft_output(t->loss, "loss");
}

static double loss_at(evaluation *e, const weft_value *loss, const weft_value *x, int64_t i, double value) {
    double before = evaluate_get(e, x, i);
    evaluate_set(e, x, i, value);
    evaluate_run(e, NULL, NULL);
    evaluate_set(e, x, i, before);
    return evaluate_get(e, loss, 0);
}

/* Richardson's extrapolation of central differences: the error is of order h^4. */
static double difference(evaluation *e, const weft_value *loss, const weft_value *x, int64_t i) {
    const double h = 1e-4;
    double at = evaluate_get(e, x, i);
    double near = (loss_at(e, loss, x, i, at + h) - loss_at(e, loss, x, i, at - h)) / (2 * h);
    double far = (loss_at(e, loss, x, i, at + 2 * h) - loss_at(e, loss, x, i, at - 2 * h)) / (4 * h);
    return (4 * near - far) / 3;
}

static void gradient_compare(evaluation *e, const trial *t, const weft_value *loss,
                             const weft_value *gradient, const weft_value *x, const char *what,
                             test_random *r) {
    int64_t n = type_elements(&x->type), places = n < MAX_PLACES ? n : MAX_PLACES;
    double exact[MAX_PLACES], most = 1;
    int64_t at[MAX_PLACES];
    for (int64_t p = 0; p < places; p++) { /* read before the differences run the graph again */
        at[p] = n <= MAX_PLACES ? p : (int64_t)(random_bits(r) % (uint64_t)n);
        exact[p] = evaluate_get(e, gradient, at[p]);
        most = fmax(most, fabs(exact[p]));
    }
    for (int64_t p = 0; p < places; p++) {
        double d = difference(e, loss, x, at[p]);
        if (fabs(d - exact[p]) <= 2e-7 * most) continue;
        CHECK_SAYS(false, "%s(%s) %s: %s of %s at %lld is %.10g, differences say %.10g", t->s.op->name,
                   t->s.spec->in, t->s.spec->attrs ? t->s.spec->attrs : "", what, input_name(x->node),
                   (long long)at[p], exact[p], d);
        return;
    }
    CHECK(true);
}

static void trial_check(const weft_op *op, const op_sample *spec, int order) {
    trial t;
    test_random r = {.state = 5};
    weft_error error = {0};
    if (!trial_build(&t, op, spec, order)) {
        CHECK_SAYS(model_ok(t.s.m), "%s(%s): %s", op->name, spec->in, weft_model_error(t.s.m)->text);
        sample_free(&t.s);
        return;
    }
    name_outputs(&t);
    if (CHECK_SAYS(pass_autodiff(t.s.g, 1, NULL), "%s(%s): %s", op->name, spec->in,
                   weft_model_error(t.s.m)->text)) {
        evaluation *e = evaluate_new(t.s.g, false);
        for (const weft_node *n = t.s.g->first; n; n = n->next) {
            if (n->op != &weft_op_input) continue;
            tensor x = evaluate_tensor(e, &n->out[0]);
            bool is_operand = strncmp(input_name(n), "in", 2) == 0;
            sample_fill(is_operand ? spec : NULL, &x, &r);
        }
        if (CHECK_SAYS(evaluate_run(e, NULL, &error) == WEFT_OK, "%s(%s): %s", op->name, spec->in,
                       error.text))
            for (int i = 0; i < t.n_targets; i++) {
                char name[16];
                snprintf(name, sizeof name, "g%d", i);
                evaluate_run(e, NULL, NULL);
                gradient_compare(e, &t, output_of(t.s.g, "loss"), output_of(t.s.g, name), t.targets[i],
                                 order == 1 ? "gradient" : "second gradient", &r);
            }
        evaluate_free(e);
    }
    sample_free(&t.s);
}

/* Samples that are large only to fill vectors say nothing more here. */
static bool is_small(const op_sample *spec) {
    tensor_type types[SAMPLE_MAX_IN];
    int n = types_parse(spec->in, types, SAMPLE_MAX_IN);
    for (int i = 0; i < n; i++)
        if (types[i].ndim >= 0 && type_elements(&types[i]) > 1200) return false;
    return true;
}

/* Second ones take most of the time: in short runs every third sample. */
static void all_ops(int order) {
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        int turn = 0;
        if (op->flags & OP_NO_GRADIENT || !op->gradient || !samples_are_of(op)) continue;
        for (const op_sample *s = op->samples; s && s->in; s++)
            if (!s->error && !s->no_gradient && is_small(s) &&
                (order == 1 || !test_is_quick() || turn++ % 3 == 0))
                trial_check(op, s, order);
    }
}

TEST(gradients_agree_with_differences) {
    all_ops(1);
}

TEST(second_gradients_agree_with_differences) {
    all_ops(2);
}

/* ---- operands that broadcast ---- */

/* `spec` with axis `axis` of operand `which` of length 1, or with axis -1 without its first axis. */
static bool narrowed(const op_sample *spec, int which, int axis, char text[600]) {
    tensor_type types[SAMPLE_MAX_IN];
    int n = types_parse(spec->in, types, SAMPLE_MAX_IN), used = 0;
    if (which >= n || types[which].ndim < 1 || axis >= types[which].ndim) return false;
    tensor_type *t = &types[which];
    if (axis >= 0) t->shape[axis] = 1;
    for (int i = 0; axis < 0 && i + 1 < t->ndim; i++) t->shape[i] = t->shape[i + 1];
    t->ndim -= axis < 0;
    for (int i = 0; i < n; i++)
        used += snprintf(text + used, 600 - (size_t)used, "%s%s", i ? ", " : "",
                         types[i].ndim < 0 ? "-" : TYPE(&types[i]));
    return true;
}

/* Either the op refuses these operands, or its gradients have their shapes. */
static void check_narrowed(const op_sample *spec, const weft_op *op, int which, int axis) {
    char text[600];
    op_sample changed = {.in = text, .attrs = spec->attrs};
    trial t;
    if (!narrowed(spec, which, axis, text)) return;
    bool is_built = trial_build(&t, op, &changed, 1);
    if (t.s.n && is_built) {
        name_outputs(&t);
        CHECK_SAYS(pass_autodiff(t.s.g, 1, NULL), "%s(%s): %s", op->name, text,
                   weft_model_error(t.s.m)->text);
        for (int i = 0; model_ok(t.s.m) && i < t.n_targets; i++) {
            char name[16];
            snprintf(name, sizeof name, "g%d", i);
            const tensor_type *want = &t.targets[i]->type, *got = &output_of(t.s.g, name)->type;
            CHECK_SAYS(type_equal(want, got), "%s(%s): the gradient of %s is %s", op->name, text, TYPE(want),
                       TYPE(got));
        }
    }
    sample_free(&t.s);
}

TEST(operands_that_an_op_broadcasts_get_gradients_of_their_shape) {
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        if (op->flags & OP_NO_GRADIENT || !op->gradient || !samples_are_of(op)) continue;
        for (const op_sample *s = op->samples; s && s->in; s++)
            for (int which = 0; !s->error && !s->no_gradient && which < SAMPLE_MAX_IN; which++)
                for (int axis = -1; axis < WEFT_MAX_NDIM; axis++) check_narrowed(s, op, which, axis);
    }
}

/* ---- what a gradient is computed from ---- */

/* Whether the second gradient by y, where S is the sum of the first ones times random numbers, has a way from
 * S to y: without one it is a constant. */
static bool reaches(trial *t, weft_value *s, weft_value *y) {
    weft_value *by = NULL;
    if (weft_gradients(s, 1, &y, &by) != WEFT_OK) return false;
    weft_output(by, "by");
    return pass_autodiff(t->s.g, 1, NULL) && output_of(t->s.g, "by")->node->op != &weft_op_constant;
}

/* Of samples of one step a recurrent op reads no state, so one sample suffices. */
static bool is_of_result(const weft_op *op, int *seen) {
    bool is = false;
    for (const op_sample *spec = op->samples; spec && spec->in; spec++) {
        trial t;
        if (spec->error || spec->no_gradient || !is_small(spec)) continue;
        bool is_built = trial_build(&t, op, spec, 2);
        is |= is_built && reaches(&t, t.loss, &t.s.n->out[0]);
        CHECK_SAYS(model_ok(t.s.m), "%s(%s): %s", op->name, spec->in, weft_model_error(t.s.m)->text);
        *seen += is_built;
        sample_free(&t.s);
    }
    return is;
}

/* A gradient by an intermediate value reaches what reads that value. So the gradient of an op is a function
 * of its result where PyTorch's is, and of its operands elsewhere: else second gradients by values differ.
 * test_opinfo compares them with PyTorch's; here each op does what its descriptor says. */
TEST(gradients_are_of_the_result_where_the_descriptor_says_so) {
    int seen = 0;
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        if (op->flags & OP_NO_GRADIENT || !op->gradient || !samples_are_of(op)) continue;
        bool says = op->flags & OP_FROM_RESULT;
        CHECK_SAYS(is_of_result(op, &seen) == says, "%s: a second gradient by its result %s", op->name,
                   says ? "ends before the result" : "reaches the result");
    }
    CHECK_SAYS(seen > 200 || !samples_are_all(), "%d samples", seen);
}

/* The gradients of recurrent ops read their own states; what users get is a copy, like PyTorch's stack. */
TEST(gradients_of_recurrent_layers_are_not_of_what_users_get) {
    for (int kind = 0; kind < 3; kind++) {
        static const char *const gates[] = {"f64[3,2,12]", "f64[3,2,9]", "f64[3,2,3]"};
        trial t = {.s.m = weft_model_new("m")};
        tensor_type x;
        types_parse(gates[kind], &x, 1);
        t.s.g = weft_graph_new(t.s.m, "g", WEFT_TRAIN);
        weft_value *c = NULL, *in[2] = {weft_input(t.s.g, "x", WEFT_F64, 3, x.shape)}, *first[2];
        in[1] = weft_input(t.s.g, "w", WEFT_F64, 2, (int64_t[]){x.shape[2], 3});
        weft_value *h = kind == 0   ? weft_lstm_op(in[0], in[1], NULL, NULL, false, &c)
                        : kind == 1 ? weft_gru_op(in[0], in[1], NULL, NULL, false)
                                    : weft_rnn_op(in[0], in[1], NULL, false, false);
        weft_value *results[] = {h, c};
        weft_gradients(random_sum(&t, 2, results, "c"), 2, in, first);
        CHECK_SAYS(!reaches(&t, random_sum(&t, 2, first, "d"), h) && model_ok(t.s.m), "%s: %s", gates[kind],
                   weft_model_error(t.s.m)->text);
        weft_model_free(t.s.m);
    }
}

SUITE("gradients", {T(gradients_are_of_the_result_where_the_descriptor_says_so),
                    T(gradients_of_recurrent_layers_are_not_of_what_users_get),
                    T(gradients_agree_with_differences), T(second_gradients_agree_with_differences),
                    T(operands_that_an_op_broadcasts_get_gradients_of_their_shape)})
