/* routes.c - see routes.h. */
#include "support/models/routes.h"

#include "runtime/plan/value.h"
#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"
#include "support/kernels/evaluate.h"
#include "support/kernels/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const route_names[ROUTES] = {"direct",   "permuted", "sliced", "broadcast",
                                         "reshaped", "cast",     "twice"};

/* ---- what cannot be ---- */

const char *op_untrained(const weft_op *op) {
    if (op->flags & OP_COMPILER) return "only the compiler makes it";
    if (op_is_over_ranks(op)) return "ranks make it together: worlds/test_collectives.c";
    if (op->flags & OP_NO_GRADIENT) return "its gradient is zero, or it is a declaration";
    if (!op->gradient) return "its gradient is final: it has none of its own";
    for (const op_sample *s = op->samples; s && s->in; s++)
        for (int i = 0; i < SAMPLE_MAX_IN; i++)
            if (!sample_untrained(op, s, i)) return NULL;
    return "no sample has an operand of f32 with a gradient";
}

static tensor_type result_of(const weft_op *op, const op_sample *spec) {
    sample s;
    sample_build(&s, op, spec, false);
    tensor_type type = s.n ? s.n->out[0].type : (tensor_type){.dtype = WEFT_BOOL};
    sample_free(&s);
    return type;
}

const char *sample_untrained(const weft_op *op, const op_sample *spec, int i) {
    tensor_type in[SAMPLE_MAX_IN], out;
    if (spec->error) return "an error";
    if (spec->no_gradient) return "its sample says so";
    int n = types_parse(spec->in, in, SAMPLE_MAX_IN);
    if (i >= n || in[i].ndim < 0 || in[i].dtype != WEFT_F32) return "no operand of f32";
    out = result_of(op, spec);
    if (out.dtype != WEFT_F32) return "its result is not f32";
    return type_elements(&in[i]) + type_elements(&out) > 2000 ? "its sample is large" : NULL;
}

const char *route_missing(route way, const tensor_type *t) {
    bool is_long = false;
    for (int i = 0; i < t->ndim; i++) is_long |= t->shape[i] > 1;
    if (way == ROUTE_PERMUTED && t->ndim < 2) return "one axis";
    if (way == ROUTE_SLICED && t->ndim < 1) return "no axis";
    if (way == ROUTE_BROADCAST && !is_long) return "one element";
    return NULL;
}

/* ---- routes ---- */

static int longest_axis(const tensor_type *t) {
    int axis = 0;
    for (int i = 1; i < t->ndim; i++)
        if (t->shape[i] > t->shape[axis]) axis = i;
    return axis;
}

/* The parameter's type. */
static tensor_type route_from(route way, const tensor_type *t) {
    tensor_type from = *t;
    for (int i = 0; way == ROUTE_PERMUTED && i < t->ndim; i++) from.shape[i] = t->shape[t->ndim - 1 - i];
    if (way == ROUTE_SLICED) from.shape[longest_axis(t)] += 3;
    if (way == ROUTE_BROADCAST) from.shape[longest_axis(t)] = 1;
    if (way == ROUTE_RESHAPED) from = type_of(t->dtype, 1, (int64_t[]){type_elements(t)});
    return from;
}

static weft_value *reversed(weft_value *v) {
    int64_t axes[WEFT_MAX_NDIM];
    for (int i = 0; i < v->type.ndim; i++) axes[i] = v->type.ndim - 1 - i;
    return weft_permute(v, axes);
}

static weft_value *route_take(route way, weft_value *p, const tensor_type *t) {
    int axis = longest_axis(t);
    switch (way) {
    case ROUTE_PERMUTED:
        return reversed(p);
    case ROUTE_SLICED:
        return weft_slice(p, axis, 1, 1 + t->shape[axis]);
    case ROUTE_BROADCAST:
        return weft_broadcast_to(p, t->ndim, t->shape);
    case ROUTE_RESHAPED:
        return weft_reshape(p, t->ndim, t->shape);
    case ROUTE_CAST:
        return weft_cast(weft_cast(p, WEFT_F64), WEFT_F32);
    default:
        return p;
    }
}

/* ---- the model ---- */

static weft_value *feed(trained *t, const char *name, const tensor_type *type) {
    weft_value *v = weft_input(t->g, name, type->dtype, type->ndim, type->shape);
    if (v) t->fed[t->n_feeds++] = v;
    return v;
}

static weft_value *weighted(trained *t, weft_value *v, const char *name) {
    return weft_sum(weft_mul(v, feed(t, name, &v->type)), WEFT_ALL, false);
}

static weft_node *op_node(trained *t, const weft_op *op, const op_sample *spec, int operand, route way) {
    tensor_type types[SAMPLE_MAX_IN];
    weft_value *in[SAMPLE_MAX_IN] = {0};
    void *attrs = arena_new(&t->m->arena, op->attrs_bytes + 1);
    const char *at = spec->attrs ? spec->attrs : "";
    char why[200], name[16];
    int n = types_parse(spec->in, types, SAMPLE_MAX_IN);
    if (n < 0 || !attrs || !attrs_parse(&at, op, attrs, &t->m->arena, why)) return NULL;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "in%d", i);
        if (types[i].ndim < 0) continue;
        in[i] = i == operand ? route_take(way, t->p, &types[i]) : feed(t, name, &types[i]);
    }
    return node_new(t->g, op, n, in, attrs);
}

static void loss_build(trained *t, const weft_op *op, const op_sample *spec, int operand, route way,
                       const tensor_type *type) {
    tensor_type scalar = type_scalar(WEFT_F32), from = route_from(way, type);
    weft_init normal = {WEFT_INIT_NORMAL, 0, 1};
    weft_value *s = feed(t, "s", &scalar);
    t->p = weft_parameter_in(t->g, "p", from.ndim, from.shape, normal);
    t->q = weft_parameter_in(t->g, "q", 1, (int64_t[]){3}, normal);
    weft_node *n = t->p && t->q ? op_node(t, op, spec, operand, way) : NULL;
    if (!n) return;
    weft_value *sum = weft_add(weighted(t, &n->out[0], "c"), weighted(t, t->q, "k"));
    if (way == ROUTE_TWICE) sum = weft_add(sum, weighted(t, reversed(t->p), "d"));
    t->loss = weft_mul(sum, s);
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Numbers of bf16 by their upper 16 bits: which of them a tensor has; the two zeros are one. */
typedef struct numbers {
    bool has[1 << 16];
} numbers;

static bool *number_of(numbers *n, uint32_t bits) {
    return &n->has[bits << 1 ? bits >> 16 : 0];
}

/* The first number of bf16 in the range, from `bits` on in steps, that is free; -1: none. */
static int64_t free_bits(numbers *n, sample_range range, uint32_t bits, uint32_t step) {
    for (;; bits += step) {
        float f;
        memcpy(&f, &bits, sizeof f);
        if (!(f >= range.low && f < range.high)) return -1; /* beyond zero it is NaN */
        if (!*number_of(n, bits)) return bits;
    }
}

/* As bf16 holds them, so that no precision rounds what it is given; no two alike, so that a maximum is one of
 * them. All are in the sample's range, as a product of others overflows: where that has fewer numbers of bf16
 * than the tensor has elements, some are alike. */
static void coarse(const tensor *t, const op_sample *spec) {
    const uint32_t one = 0x10000u; /* in the last place, away from zero */
    sample_range range = sample_range_of(spec);
    numbers n = {{0}};
    float *v = t->data;
    for (int64_t i = 0; t->type.dtype == WEFT_F32 && i < type_elements(&t->type); i++) {
        uint32_t bits = bits_of(v[i]) & ~(one - 1);
        float f;
        memcpy(&f, &bits, sizeof f);
        if (f < range.low || f >= range.high) bits += one;
        int64_t found = free_bits(&n, range, bits, one);
        if (found < 0) found = free_bits(&n, range, bits, 0 - one);
        if (found >= 0) bits = (uint32_t)found;
        *number_of(&n, bits) = true;
        memcpy(&v[i], &bits, sizeof bits);
    }
}

static tensor tensor_filled(const tensor_type *type, const op_sample *spec, test_random *r) {
    tensor t = {.type = *type, .data = test_memory(type_bytes(type))};
    stride_row_major(type, t.stride);
    sample_fill(spec, &t, r);
    coarse(&t, spec);
    return t;
}

static bool is_operand(const weft_value *fed) {
    return strncmp(input_name(fed->node), "in", 2) == 0;
}

/* What an op gets beyond the range of its sample may overflow where the sample's own values do not. */
static bool is_in_range(const tensor *t, const op_sample *spec) {
    double low = -2, high = 2;
    if (spec && spec->low < spec->high) low = spec->low, high = spec->high;
    for (int64_t i = 0; dtype_is_float(t->type.dtype) && i < type_elements(&t->type); i++)
        if (!(tensor_get(t, i) >= low && tensor_get(t, i) <= high)) return false;
    return true;
}

static bool are_in_range(const trained *t, const op_sample *spec) {
    bool good = is_in_range(&t->at, spec);
    for (int i = 0; i < t->n_feeds; i++)
        good = good && is_in_range(&t->data[i], is_operand(t->fed[i]) ? spec : NULL);
    return CHECK_SAYS(good, "%s: a value is outside of the range of the sample", t->what);
}

bool trained_build(trained *t, const weft_op *op, const op_sample *spec, int operand, route way) {
    tensor_type types[SAMPLE_MAX_IN];
    char text[600];
    test_random r = {(uint64_t)operand * 16 + way + 1000};
    sample_describe(spec, op, text);
    *t = (trained){.op = op, .spec = spec, .operand = operand, .way = way, .m = weft_model_new("trained")};
    snprintf(t->what, sizeof t->what, "%s, operand %d %s", text, operand, route_names[way]);
    t->g = weft_graph_new(t->m, "t", WEFT_TRAIN);
    types_parse(spec->in, types, SAMPLE_MAX_IN);
    loss_build(t, op, spec, operand, way, &types[operand]);
    if (!CHECK_SAYS(t->loss, "%s: %s", t->what, weft_model_error(t->m)->text)) return false;
    for (int i = 0; i < t->n_feeds; i++)
        t->data[i] = tensor_filled(&t->fed[i]->type, is_operand(t->fed[i]) ? spec : NULL, &r);
    for (int i = 0; i < t->n_feeds; i++)
        if (strcmp(input_name(t->fed[i]->node), "k") == 0) memcpy(t->k, t->data[i].data, sizeof t->k);
    t->at = tensor_filled(&t->p->type, spec, &r);
    for (int i = 0; i < 3; i++) t->q_at[i] = (float)i;
    return are_in_range(t, spec);
}

void trained_free(trained *t) {
    for (int i = 0; i < t->n_feeds; i++) free(t->data[i].data);
    free(t->at.data);
    weft_model_free(t->m);
}

/* ---- differences ---- */

static void feed_evaluation(const trained *t, evaluation *e, const tensor *p) {
    for (int i = 0; i < t->n_feeds; i++) {
        tensor to = evaluate_tensor(e, t->fed[i]);
        if (!dtype_is_float(to.type.dtype)) memcpy(to.data, t->data[i].data, type_bytes(&to.type));
        for (int64_t k = 0; dtype_is_float(to.type.dtype) && k < type_elements(&to.type); k++)
            tensor_set(&to, k, i ? tensor_get(&t->data[i], k) : 1);
    }
    for (int64_t i = 0; i < type_elements(&t->at.type); i++) tensor_set(p, i, tensor_get(&t->at, i));
}

/* Richardson's extrapolation of central differences; NaN at a jump or a kink (a nearest pixel's border),
 * where the two differences disagree and there is no gradient. */
static double difference(const trained *t, evaluation *e, const run_state *run, const tensor *p, int64_t i) {
    const double h = 1e-4, moves[] = {h, -h, 2 * h, -2 * h}, at = tensor_get(p, i);
    double loss[4];
    for (int k = 0; k < 4; k++) {
        tensor_set(p, i, at + moves[k]);
        evaluate_run(e, run, NULL);
        loss[k] = evaluate_get(e, t->loss, 0);
    }
    tensor_set(p, i, at);
    double near = (loss[0] - loss[1]) / (2 * h), far = (loss[2] - loss[3]) / (4 * h);
    bool is_smooth = fabs(near - far) <= 1e-2 + 0.1 * fmax(fabs(near), fabs(far));
    return is_smooth ? (4 * near - far) / 3 : NAN;
}

static const weft_value *fed_by(const trained *t, const char *name) {
    for (int i = 0; i < t->n_feeds; i++)
        if (strcmp(input_name(t->fed[i]->node), name) == 0) return t->fed[i];
    return NULL;
}

/* How the gradient is computed: from the graph as it is, disturbed, or without one term of its loss. */
typedef struct telling {
    double by;
    uint64_t seed;
    int64_t lost; /* -1: none */
} telling;

/* At the places of `at`. */
static bool gradients_tell(const trained *t, const run_state *run, telling how, const expected *at,
                           double gradient[ROUTE_PLACES]) {
    weft_error error = {0};
    evaluation *e = evaluate_new(t->g, true);
    tensor p = evaluate_variable(e, t->p->node->variable);
    tensor q = evaluate_variable(e, t->q->node->variable);
    feed_evaluation(t, e, &p);
    for (int i = 0; i < 3; i++) tensor_set(&q, i, t->q_at[i]);
    if (how.lost >= 0) evaluate_set(e, fed_by(t, "c"), how.lost, 0);
    evaluate_disturb(e, how.by, how.seed);
    bool good = CHECK_SAYS(evaluate_run(e, run, &error) == WEFT_OK, "%s: %s", t->what, error.text);
    for (int i = 0; good && i < at->n; i++) gradient[i] = difference(t, e, run, &p, at->place[i]);
    evaluate_free(e);
    return good;
}

bool trained_differences(const trained *t, const run_state *run, expected *to) {
    int64_t elements = type_elements(&t->at.type);
    test_random r = {99};
    *to = (expected){.n = elements < ROUTE_PLACES ? (int)elements : ROUTE_PLACES};
    for (int i = 0; i < to->n; i++) {
        bool is_end = i == 0 || i == to->n - 1;
        int64_t end = i ? elements - 1 : 0, any = (int64_t)(random_bits(&r) % (uint64_t)elements);
        to->place[i] = elements <= ROUTE_PLACES ? i : is_end ? end : any;
    }
    bool good = gradients_tell(t, run, (telling){.lost = -1}, to, to->gradient);
    for (int i = 0; i < to->n; i++) to->most = fmax(to->most, fabs(to->gradient[i]));
    return good;
}

bool trained_disturb(const trained *t, const run_state *run, double by, int first, int n, expected *to) {
    double gradient[ROUTE_PLACES];
    for (int k = first; k < first + n; k++) {
        if (!gradients_tell(t, run, (telling){by, 7919u * (uint64_t)k + 1, -1}, to, gradient)) return false;
        for (int i = 0; i < to->n; i++)
            to->moved[i] = fmax(to->moved[i], fabs(gradient[i] - to->gradient[i]) / by);
    }
    return true;
}

/* The same model with the nodes of its gradient, the graph's one output. False where the loss does not depend
 * on p. */
static bool with_gradient(const trained *t, trained *to) {
    weft_value *gradient;
    if (!trained_build(to, t->op, t->spec, t->operand, t->way) ||
        weft_gradients(to->loss, 1, &to->p, &gradient) != WEFT_OK)
        return false;
    weft_output(gradient, "gradient");
    return pass_autodiff(to->g, 1, NULL);
}

bool trained_disturb_backward(const trained *t, const run_state *run, double by, int n, expected *to) {
    trained full;
    bool good = true;
    if (with_gradient(t, &full)) {
        double exact[ROUTE_PLACES];
        evaluation *e = evaluate_new(full.g, true);
        tensor p = evaluate_variable(e, full.p->node->variable);
        for (int k = 0; good && k <= n; k++) {
            feed_evaluation(&full, e, &p);
            evaluate_disturb(e, k ? by : 0, 7919u * (uint64_t)k + 1);
            good = CHECK(evaluate_run(e, run, NULL) == WEFT_OK);
            for (int i = 0; good && i < to->n; i++) {
                double gradient = evaluate_get(e, full.g->outputs->value, to->place[i]);
                if (!k) exact[i] = gradient;
                to->moved[i] = fmax(to->moved[i], fabs(gradient - exact[i]) / by);
            }
        }
        evaluate_free(e);
    }
    trained_free(&full);
    return good;
}

bool trained_lose(const trained *t, const run_state *run, int64_t element, expected *to) {
    return gradients_tell(t, run, (telling){.lost = element}, to, to->gradient);
}

int64_t trained_terms(const trained *t) {
    return type_elements(&fed_by(t, "c")->type);
}
