/* test_gradients_by.c - weft_gradients with respect to any value: an input, an intermediate result, one that
 * equals another, a gradient.
 *
 * Small cases with PyTorch's results in f64, and random graphs full of what a compiler merges (equal nodes,
 * identities, chains of views, folded constants, gradients that are one), whose expected gradients are the
 * central differences of support/kernels/differences.h. */
#include "graph/core/graph.h"
#include "ops/kit/ops.h"
#include "runtime/passes/passes.h"
#include "support/kernels/differences.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- six cases: v = x w, a loss in which a value equals v or is made from it in vain, and its gradient by
 * that ---- */

static weft_value *mean_square(weft_value *v) {
    return weft_mean(weft_square(v), WEFT_ALL, false);
}

/* Each gives the target and what the loss is the mean square of. */
static weft_value *twin(weft_value *v, weft_value **target) {
    *target = weft_tanh(v);
    return weft_mul(*target, weft_tanh(v));
}

static weft_value *permuted(weft_value *v, weft_value **target) {
    *target = weft_permute(v, (int64_t[]){1, 0});
    return weft_tanh(weft_permute(*target, (int64_t[]){1, 0}));
}

static weft_value *same_shape(weft_value *v, weft_value **target) {
    *target = weft_reshape(v, 2, (int64_t[]){2, 3});
    return weft_mul(*target, v);
}

static weft_value *scaled_by_one(weft_value *v, weft_value **target) {
    *target = weft_scale(v, 1);
    return weft_mul(*target, v);
}

static weft_value *unmoved(weft_value *v, weft_value **target) {
    *target = weft_permute(v, (int64_t[]){0, 1});
    return weft_mul(*target, v);
}

static weft_value *repeated_once(weft_value *v, weft_value **target) {
    *target = weft_broadcast_to(v, 2, (int64_t[]){2, 3});
    return weft_mul(*target, v);
}

static weft_value *undropped(weft_value *v, weft_value **target) {
    *target = weft_dropout(v, 0);
    return weft_mul(*target, v);
}

static weft_value *joined(weft_value *v, weft_value **target) {
    *target = weft_concat(2, (weft_value *[]){v, v}, 0);
    return weft_concat(2, (weft_value *[]){*target, *target}, 0);
}

static weft_value *constant(weft_value *v, weft_value **target) {
    *target = weft_constant(weft_value_graph(v), WEFT_F32, 2, (int64_t[]){2, 3}, 2);
    return weft_mul(v, weft_square(*target));
}

/* Four targets that are v itself: the same numbers. */
#define OF_ITSELF                                                                                            \
    .x = {-0.664799809, -0.193794802, -0.203785956, 0.456680834, 0.400495231, 0.214299664},                  \
    .w = {0.613671064, 0.395859301, -1.37296474, -1.14789176, -0.973270774, 1.53449166},                     \
    .gradient = {-0.0226338453, -0.000150496943, 0.00730095463, -0.0480197525, -0.0197411223, 0.0118532327}, \
    .after = {0.582742315, 0.395800913, -1.36995025, -1.10202355, -0.957057909, 1.52931981}

enum { MOST = 12 };
static const struct small_case {
    const char *name;
    weft_value *(*build)(weft_value *v, weft_value **target);
    float x[6], w[6];
    double gradient[MOST], after[6]; /* w when it has made a step of loss + mean square of the gradient */
} small_cases[] = {
    {"twin", twin, .x = {0.869512141, -0.132080019, -1.29009902, 0.0961598307, -0.65775609, 0.0871175453},
     .w = {0.913493514, 1.24486005, -0.244233549, 0.84436059, 1.56449187, -0.00688154949},
     .gradient = {0.0961959834, -0.00144239548, 0.00946279262, 0.000177249506, -0.154279421, -7.18214537e-11},
     .after = {0.812402455, 1.24448751, -0.22174635, 0.844326688, 1.47484437, -0.00688154948}},
    {"permuted", permuted,
     .x = {-0.368185341, 0.839325964, -0.0770145804, -0.263043582, 0.169967309, -0.0268111937},
     .w = {1.20398676, 0.0255967211, -0.361527115, 0.586669922, 0.382235378, -0.832320631},
     .gradient = {-0.114728499, -0.0498390828, 0.00715692541, 0.0215344028, 0.00927136624, 0.00743356631},
     .after = {1.15988344, 0.0189235155, -0.360733994, 0.572237604, 0.378175376, -0.832099227}},
    {"same_shape", same_shape, OF_ITSELF},
    {"unmoved", unmoved, OF_ITSELF},
    {"repeated_once", repeated_once, OF_ITSELF},
    {"undropped", undropped, OF_ITSELF},
    {"scaled_by_one", scaled_by_one,
     .x = {-0.488905698, 0.328287214, -1.24347234, -0.833239555, -0.805059552, 0.230247542},
     .w = {-1.00929809, -2.51106882, 0.133188903, 0.214398801, 0.984519899, -0.08247035},
     .gradient = {0.0400509103, -0.186731032, -0.00151422795, -0.00190044559, -0.165972549, -2.28221874e-06},
     .after = {-0.968546552, -2.37458009, 0.129405887, 0.211214903, 0.689304307, -0.082469299}},
    {"joined", joined, .x = {-0.727257371, 0.0030960755, 0.540421724, 0.338867515, 0.321342826, -1.57567346},
     .w = {-0.370501995, 0.255934119, -1.70977509, 1.66731918, 1.08785081, -0.28065443},
     .gradient = {0.0449083845, 0.000132065226, -0.153999934, 0.0941667179, 0.0582621755, 0.0737032896,
                  0.0449083845, 0.000132065226, -0.153999934, 0.0941667179, 0.0582621755, 0.0737032896},
     .after = {-0.303367646, 0.255933279, -1.53870166, 1.60172632, 1.04936643, -0.0419380001}},
    {"constant", constant,
     .x = {1.13179386, 0.9987517, -0.152234226, 0.154392719, -0.269981593, -0.233725816},
     .w = {0.131887555, 1.72374904, 0.815699279, 0.00338580064, -0.146529317, 0.808697045},
     .gradient = {0.118834085, 15.8074518, 0.0822400744, 1.45738778e-06, 0.00834672469, 0.190538968},
     .after = {-0.840519925, -104.086978, 0.709350003, 0.00295535911, -0.0892495174, 0.543155865}},
};

static void near(const char *what, const char *name, const float *got, const double *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!CHECK_SAYS(fabs(got[i] - want[i]) < 2e-6 * fmax(1, fabs(want[i])),
                        "%s: %s[%d] is %.9g, not %.9g", name, what, (int)i, got[i], want[i]))
            return;
}

static void small_case_check(const struct small_case *c) {
    float got[MOST] = {0}, after[6] = {0};
    weft_error e = {0};
    weft_value *target, *gradient;
    weft_model *m = weft_model_new(c->name);
    weft_graph *g = weft_graph_new(m, "t", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 3});
    weft_value *w = weft_parameter_in(g, "w", 2, (int64_t[]){2, 3}, (weft_init){0});
    weft_value *loss = mean_square(c->build(weft_mul(x, w), &target));
    weft_gradients(loss, 1, &target, &gradient);
    weft_output(gradient, "g");
    weft_minimize(weft_add(loss, mean_square(gradient)), "", &(weft_optimizer){.type = "sgd", .lr = 1});
    size_t bytes = (size_t)type_elements(&target->type) * sizeof *got;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    bool good = s && weft_store_set(store, "w", c->w, sizeof c->w, &e) == WEFT_OK &&
                weft_run(s, "t", &(weft_feed){"x", c->x, sizeof c->x}, 1, &(weft_fetch){"g", got, bytes}, 1,
                         &e) == WEFT_OK &&
                weft_store_get(store, "w", after, sizeof after, &e) == WEFT_OK;
    if (CHECK_SAYS(good, "%s: %s", c->name, e.text)) {
        near("gradient", c->name, got, c->gradient, type_elements(&target->type));
        near("w", c->name, after, c->after, 6);
    }
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(a_gradient_is_by_the_value_that_was_named_not_by_one_that_equals_it) {
    for (size_t i = 0; i < sizeof small_cases / sizeof *small_cases; i++) small_case_check(&small_cases[i]);
}

/* The gradient by a permuted result continues into the loss that trains the bias. */
TEST(a_loss_made_of_gradients_by_permuted_values_trains_as_pytorch) {
    static const float x[] = {0.167387784,  1.00503695,   -0.508231044,  -0.380688965, 0.476706594,
                              -0.683951259, 1.11725914,   -0.541824579,  0.207505777,  0.161369219,
                              -0.10574621,  -0.1848149,   -0.0512440465, -0.454089075, -0.5428285,
                              -1.01331866,  -0.153319612, 0.624922872,   0.249634728,  -0.530557156,
                              0.72204715,   -0.259304643, -2.05078864,   -0.308508545, 0.900417984};
    static const float w[] = {
        1.71677935,    0.676130056,  0.939693332, 0.0679838881,  1.35628653,   0.727682114,  -0.273563355,
        -0.685243189,  1.5866822,    0.103969023, -0.373857677,  1.36705112,   0.948596954,  0.697757959,
        -0.115968585,  0.826661766,  -1.31972063, -0.0449616574, -0.792320013, 0.0673520789, -0.6567837,
        -0.0425961986, -0.310560226, -1.29365635, -0.721560061,  0.0682563633, -1.94630396,  0.0257552098,
        -0.94475311,   0.710554898,  0.276341915, -0.397411138,  0.829837024,  1.07227051,   0.895110965};
    static const float b[] = {-1.6921078,  0.337605566,   -0.151909828, 0.476567298,
                              0.380282074, -0.0262542516, -0.575380862};
    static const float after[] = {-3.14254306, -0.573407979, 1.01424365, -0.268470825,
                                  3.89758256,  -0.222297508, -3.11320673};
    float got[7] = {0};
    double want[7];
    weft_error e = {0};
    weft_model *m = weft_model_new("transposed");
    weft_graph *g = weft_graph_new(m, "t", WEFT_TRAIN);
    weft_value *p0 = weft_parameter_in(g, "p0", 2, (int64_t[]){5, 5}, (weft_init){0});
    weft_value *p1 = weft_parameter_in(g, "p1", 2, (int64_t[]){7, 5}, (weft_init){0});
    weft_value *p2 = weft_parameter_in(g, "bias", 1, (int64_t[]){7}, (weft_init){0});
    weft_value *turned = weft_permute(weft_linear_op(p0, p1, p2), (int64_t[]){1, 0});
    weft_value *loss = weft_sum(weft_tanh(weft_permute(turned, (int64_t[]){0, 1})), WEFT_ALL, false), *by[2];
    weft_gradients(loss, 2, (weft_value *[]){p2, turned}, by);
    loss = weft_add(weft_sum(by[1], WEFT_ALL, false), weft_mean(by[0], WEFT_ALL, false));
    weft_minimize(loss, "bias", &(weft_optimizer){.type = "sgd", .lr = 1});
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    bool good = s && weft_store_set(store, "p0", x, sizeof x, &e) == WEFT_OK &&
                weft_store_set(store, "p1", w, sizeof w, &e) == WEFT_OK &&
                weft_store_set(store, "bias", b, sizeof b, &e) == WEFT_OK &&
                weft_run(s, "t", NULL, 0, NULL, 0, &e) == WEFT_OK &&
                weft_store_get(store, "bias", got, sizeof got, &e) == WEFT_OK;
    for (int i = 0; i < 7; i++) want[i] = after[i];
    if (CHECK_SAYS(good, "%s", e.text)) near("bias", "transposed", got, want, 7);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* Simplified first, this loss did not depend on the parameter, and the model was refused. */
TEST(a_loss_of_gradients_of_gradients_by_transposed_values_is_no_reason_to_refuse) {
    weft_error e = {0};
    weft_value *by = NULL, *again[2] = {0};
    weft_model *m = weft_model_new("refused");
    weft_graph *g = weft_graph_new(m, "u", WEFT_TRAIN);
    weft_value *p = weft_parameter_in(g, "p", 3, (int64_t[]){3, 5, 4}, (weft_init){WEFT_INIT_NORMAL, 0, 1});
    weft_value *turned = weft_transpose(p, 1, -3);
    weft_value *loss = weft_mean(weft_sigmoid(weft_transpose(turned, 2, -2)), WEFT_ALL, false);
    weft_gradients(loss, 1, &turned, &by);
    loss = weft_sum(weft_sigmoid(by), WEFT_ALL, false);
    weft_gradients(loss, 2, (weft_value *[]){turned, by}, again);
    loss = weft_mean(weft_permute(again[1], (int64_t[]){0, 2, 1}), WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 1});
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- what passes may do before gradients are made ---- */

typedef enum mutant { NONE, SIMPLIFIED, ONE_FOR_TWO, AN_OLD_VALUE, READ_TWICE, A_NEW_VALUE } mutant;

/* a = x w, b = 1 a, c = tanh b; then as the mutant says. Whether the check lets it pass. */
static bool names_stand(mutant what) {
    weft_model *m = weft_model_new("names"), *copies = weft_model_new("copies");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){3}), *by;
    weft_value *a = weft_mul(x, weft_input(g, "w", WEFT_F32, 1, (int64_t[]){3})), *b = weft_scale(a, 1);
    weft_gradients(mean_square(weft_mul(weft_tanh(b), a)), 1, &b, &by);
    weft_output(by, "by");
    weft_graph *copy = graph_replay(g, copies, "g");
    weft_value *va = &copy->first->next->next->out[0], *vb = &va->node->next->out[0];
    copy->cursor = vb->node;
    weft_value *fresh =
        what == A_NEW_VALUE || what == ONE_FOR_TWO || what == READ_TWICE ? weft_offset(vb, 1) : NULL;
    if (what == READ_TWICE) weft_neg(fresh);
    copy->cursor = NULL;
    if (what == SIMPLIFIED) pass_simplify(copy);
    if (what == AN_OLD_VALUE) graph_replace(copy, vb, va);
    if (what == ONE_FOR_TWO) graph_replace(copy, va, fresh);
    if (fresh) graph_replace(copy, vb, fresh);
    if (fresh) fresh->node->in[0] = &copy->first->out[0];
    if (fresh) node_remove(vb->node);
    if (what == ONE_FOR_TWO) node_remove(va->node);
    bool good = graph_check_names(g, copy, "mutant");
    if (!good) CHECK_HOLDS(weft_model_error(copies)->text, "G8: graph g, after mutant");
    weft_model_free(m);
    weft_model_free(copies);
    return good;
}

TEST(until_gradients_are_made_each_value_of_the_users_stands_for_itself) {
    CHECK(names_stand(NONE));
    CHECK(names_stand(A_NEW_VALUE));
    CHECK(!names_stand(SIMPLIFIED));
    CHECK(!names_stand(AN_OLD_VALUE));
    CHECK(!names_stand(ONE_FOR_TWO));
    CHECK(!names_stand(READ_TWICE));
}

/* ---- random graphs in f64 ---- */

enum { MAX_VALUES = 120, MAX_GRADIENTS = 12, GRADIENTS_PER_GRAPH = 3 };

typedef struct maker {
    test_random r;
    weft_graph *g;
    int n, n_outputs;
    weft_value *v[MAX_VALUES]; /* what operands and targets are taken from */
} maker;

static int below(maker *m, int n) {
    return (int)(random_bits(&m->r) % (uint64_t)n);
}

static weft_value *any(maker *m) {
    int old = below(m, m->n), young = m->n - 1 - below(m, m->n < 6 ? m->n : 6);
    return m->v[below(m, 2) ? old : young];
}

static weft_value *keep(maker *m, weft_value *v) {
    if (v && m->n < MAX_VALUES) m->v[m->n++] = v;
    return v;
}

static weft_value *permute_any(maker *m, weft_value *x, bool is_identity) {
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 0; i < x->type.ndim; i++) axes[i] = i;
    for (int i = x->type.ndim - 1; !is_identity && i > 0; i--) {
        int k = below(m, i + 1);
        int64_t t = axes[i];
        axes[i] = axes[k];
        axes[k] = t;
    }
    return weft_permute(x, axes);
}

static weft_value *reshape_any(maker *m, weft_value *x, bool is_same) {
    int64_t n = type_elements(&x->type), rows = n % 2 == 0 && below(m, 2) ? 2 : 1;
    return is_same ? weft_reshape(x, x->type.ndim, x->type.shape)
                   : weft_reshape(x, 2, (int64_t[]){rows, n / rows});
}

/* Of the same shape, or of one more axis where it stays small. */
static weft_value *broadcast_any(maker *m, weft_value *x, bool is_same) {
    int64_t shape[WEFT_MAX_NDIM] = {2};
    is_same |= x->type.ndim > 2 || type_elements(&x->type) > 6;
    memcpy(shape + !is_same, x->type.shape, (size_t)x->type.ndim * sizeof *shape);
    (void)m;
    return weft_broadcast_to(x, x->type.ndim + !is_same, shape);
}

static weft_value *slice_any(maker *m, weft_value *x, bool is_all) {
    if (x->type.ndim == 0) return weft_scale(x, 1);
    int axis = below(m, x->type.ndim);
    int64_t n = x->type.shape[axis], begin = is_all ? 0 : below(m, (int)n);
    return weft_slice(x, axis, begin, is_all ? INT64_MAX : begin + 1 + below(m, (int)(n - begin)));
}

/* An operand of x's shape: one that has it, or x in another dress. */
static weft_value *like(maker *m, weft_value *x) {
    for (int i = 0; i < 4; i++) {
        weft_value *y = any(m);
        if (shape_equal(&y->type, &x->type)) return y;
    }
    return weft_tanh(x);
}

static weft_value *concat_any(maker *m, weft_value *x) {
    if (x->type.ndim == 0 || type_elements(&x->type) > 6) return weft_neg(x);
    return weft_concat(2, (weft_value *[]){x, below(m, 2) ? x : like(m, x)}, below(m, x->type.ndim));
}

/* The same call on the same operands as a node before. */
static weft_value *again(maker *m) {
    weft_node *n = any(m)->node;
    bool is_made = n->op == &weft_op_input || n->op == &weft_op_gradients;
    return is_made ? weft_tanh(any(m)) : node_value(m->g, n->op, n->n_in, n->in, n->attrs);
}

static weft_value *number_like(maker *m, const weft_value *x, double value) {
    return weft_constant(m->g, WEFT_F64, x->type.ndim, x->type.shape, value);
}

static weft_value *sum_any(maker *m, weft_value *x) {
    int64_t axis = x->type.ndim ? below(m, x->type.ndim) : 0;
    weft_value *(*op)(weft_value *, int, const int64_t *, bool) = below(m, 2) ? (weft_sum) : (weft_mean);
    return op(x, x->type.ndim ? 1 : 0, x->type.ndim ? &axis : NULL, below(m, 2));
}

/* Values stay about as large as 1. */
static weft_value *step(maker *m) {
    weft_value *x = any(m);
    bool vain = below(m, 2);
    switch (below(m, 18)) {
    case 0:
        return weft_tanh(x);
    case 1:
        return weft_sigmoid(x);
    case 2:
        return weft_scale(x, vain ? 1 : 0.5);
    case 3:
        return weft_offset(x, vain ? 0 : 0.25);
    case 4:
        return permute_any(m, x, vain);
    case 5:
        return reshape_any(m, x, vain);
    case 6:
        return broadcast_any(m, x, vain);
    case 7:
        return slice_any(m, x, vain);
    case 8:
        return concat_any(m, x);
    case 9:
        return again(m);
    case 10:
        return weft_cast(x, WEFT_F64);
    case 11:
        return weft_dropout(x, 0);
    case 12:
        return weft_stop_gradient(x);
    case 13:
        return weft_mul(x, vain ? number_like(m, x, 1) : weft_tanh(like(m, x)));
    case 14:
        return weft_add(x, vain ? number_like(m, x, 0) : like(m, x));
    case 15:
        return sum_any(m, x);
    case 16:
        return weft_tanh(keep(m, weft_square(keep(m, number_like(m, x, 0.5)))));
    default:
        return weft_mul(weft_tanh(x), weft_sigmoid(weft_sub(x, like(m, x))));
    }
}

/* ---- targets that mean something ---- */

/* Whether `to` is made from `from`: walks back. */
static bool reaches(const weft_value *from, const weft_value *to) {
    if (from == to) return true;
    bool *met = test_memory((size_t)to->node->graph->next_id);
    memset(met, 0, (size_t)to->node->graph->next_id);
    met[to->id] = true;
    for (const weft_node *n = to->node; n; n = n->prev) {
        bool is_met = false;
        for (int k = 0; k < n->n_out; k++) is_met |= met[n->out[k].id];
        for (int i = 0; is_met && i < n->n_in; i++) met[n->in[i]->id] = true;
    }
    bool good = met[from->id];
    free(met);
    return good;
}

/* d/dv of a gradient by t, with v between t and its loss, has no meaning but by the formula that autodiff
 * takes: v is then both moved by t and held. Such v are not asked for. */
static bool has_meaning(maker *m, const weft_value *v, const weft_value *loss) {
    for (const weft_node *n = m->g->first; n; n = n->next)
        for (int k = 0; n->op == &weft_op_gradients && k < n->n_out; k++)
            if (reaches(&n->out[k], loss) && v->id < n->id && v != n->in[k + 1] && reaches(n->in[k + 1], v))
                return false;
    return true;
}

static weft_value *some_loss(maker *m) {
    weft_value *loss = NULL;
    for (int i = 0; i < 3; i++) {
        weft_value *part = mean_square(any(m));
        loss = loss ? weft_add(loss, part) : part;
    }
    return keep(m, loss);
}

static void add_gradients(maker *m) {
    weft_value *loss = some_loss(m), *targets[4], *gradients[4];
    char name[16];
    int n = 0;
    for (int i = 0; loss && i < 8 && n < 4; i++) {
        weft_value *v = n && below(m, 6) == 0 ? targets[0] : below(m, 12) == 0 ? loss : any(m);
        if (has_meaning(m, v, loss)) targets[n++] = v;
    }
    if (n == 0 || weft_gradients(loss, n, targets, gradients)) return;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "g%d", m->n_outputs++);
        weft_output(keep(m, gradients[i]), name);
    }
}

static weft_model *random_graph(uint64_t seed, weft_graph **g) {
    static const int64_t shapes[][2] = {{2, 3}, {3, 2}, {1, 3}};
    weft_model *model = weft_model_new("random");
    maker m = {.r = {seed}, .g = *g = weft_graph_new(model, "g", WEFT_TRAIN)};
    for (int i = 0; i < 3; i++)
        keep(&m, weft_input(m.g, (const char *[]){"x0", "x1", "x2"}[i], WEFT_F64, 2, shapes[i]));
    int rounds = 1 + below(&m, GRADIENTS_PER_GRAPH);
    for (int k = 0; k < rounds; k++) {
        int steps = 4 + below(&m, 8);
        for (int i = 0; i < steps; i++) keep(&m, step(&m));
        add_gradients(&m);
    }
    return model;
}

/* ---- what the compiler makes of them ---- */

static bool is_close(const double *got, const double *want, int64_t n, int64_t *where) {
    double most = 1;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (*where = 0; *where < n; ++*where)
        if (!(fabs(got[*where] - want[*where]) <= 1e-6 * most)) return false;
    return true;
}

static void outputs_compare(uint64_t seed, const weft_graph *g, const differences *d, double *const *got) {
    int i = 0;
    for (const graph_output *o = g->outputs; o; o = o->next, i++) {
        int64_t at = 0;
        const double *want = differences_at(d, o->value);
        const weft_node *n = o->value->node;
        if (!CHECK_SAYS(
                is_close(got[i], want, type_elements(&o->value->type), &at),
                "seed %llu: gradient %%%d, of %%%d by %%%d (%s), at %lld: %.12g, differences say %.12g",
                (unsigned long long)seed, o->value->id, n->in[0]->id, n->in[o->value->index + 1]->id,
                n->in[o->value->index + 1]->node->op->name, (long long)at, got[i][at], want[at]))
            return;
    }
}

static void random_check(uint64_t seed) {
    weft_error e = {0};
    weft_graph *g;
    weft_model *m = random_graph(seed, &g);
    weft_feed feeds[3];
    weft_fetch fetches[MAX_GRADIENTS];
    double *got[MAX_GRADIENTS];
    int n_feeds = 0, n = 0;
    test_random r = {seed + 1};
    if (!CHECK_SAYS(model_ok(m), "seed %llu: %s", (unsigned long long)seed, weft_model_error(m)->text)) {
        weft_model_free(m);
        return;
    }
    differences *d = differences_new(g);
    for (const weft_node *in = g->first; in; in = in->next) {
        if (in->op != &weft_op_input) continue;
        double *x = differences_at(d, &in->out[0]);
        for (int64_t i = 0; i < type_elements(&in->out[0].type); i++) x[i] = random_in(&r, -1, 1);
        feeds[n_feeds] =
            (weft_feed){(const char *[]){"x0", "x1", "x2"}[n_feeds], x, type_bytes(&in->out[0].type)};
        n_feeds++;
    }
    for (const graph_output *o = g->outputs; o; o = o->next, n++) {
        got[n] = test_memory(type_bytes(&o->value->type));
        fetches[n] = (weft_fetch){o->name, got[n], type_bytes(&o->value->type)};
    }
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true, .threads = 1}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    if (CHECK_SAYS(s && weft_run(s, "g", feeds, n_feeds, fetches, n, &e) == WEFT_OK, "seed %llu: %s",
                   (unsigned long long)seed, e.text) &&
        CHECK(differences_run(d)))
        outputs_compare(seed, g, d, got);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    for (int i = 0; i < n; i++) free(got[i]);
    differences_free(d);
    weft_model_free(m);
}

TEST(gradients_by_random_values_of_random_graphs_are_their_differences) {
    int n = test_count(600, 100);
    uint64_t seed = test_seed(1);
    for (int i = 0; i < n; i++) {
        test_case_begin();
        random_check(seed + (uint64_t)i);
        test_case_end(false);
    }
}

SUITE("gradients by any value",
      {T(a_gradient_is_by_the_value_that_was_named_not_by_one_that_equals_it),
       T(a_loss_made_of_gradients_by_permuted_values_trains_as_pytorch),
       T(a_loss_of_gradients_of_gradients_by_transposed_values_is_no_reason_to_refuse),
       T(until_gradients_are_made_each_value_of_the_users_stands_for_itself),
       T(gradients_by_random_values_of_random_graphs_are_their_differences)})
