/* weight_norms.c - weights that are computed from parameters: spectral_norm and weight_norm, as builders of a
 * value and as options of layers, whose parameters and state have the names of
 * torch.nn.utils.parametrizations. */
#include "ops/weight_norms.h"

#include "ops/kit/op_kit.h"
#include "ops/optimizer/moving_mean.h"
#include "weft/layers.h"

#include <math.h>

/* ---- spectral norm ---- */

/* The weight as a matrix, whose rows are those of `axis`. */
static weft_value *matrix_of(weft_value *w, int axis) {
    int64_t order[WEFT_MAX_NDIM] = {axis}, shape[] = {w->type.shape[axis], -1};
    for (int i = 1; i < w->type.ndim; i++) order[i] = i - (i <= axis);
    if (axis) w = weft_permute(w, order);
    return weft_reshape(w, 2, shape);
}

/* m v, or m^T v: [n] */
static weft_value *times_vector(weft_value *m, weft_value *v, bool transpose) {
    int64_t flat[] = {-1};
    weft_value *column = weft_unsqueeze(v, 1);
    return column ? weft_reshape(weft_matmul(m, column, transpose, false), 1, flat) : NULL;
}

/* Steps of the power iteration: u = W v / |W v|, v = W^T u / |W^T u|. */
static bool iterate(weft_value *w, int iterations, weft_value **u, weft_value **v) {
    weft_value *fixed = weft_stop_gradient(w);
    for (int i = 0; i < iterations; i++) {
        *u = weft_normalize(times_vector(fixed, *v, false), 0, 0);
        *v = weft_normalize(times_vector(fixed, *u, true), 0, 0);
    }
    return *u && *v;
}

/* u or v of the present scope: state, or a parameter that follows what the iteration ends with. */
static weft_value *vector(weft_value *w, const char *name, int64_t length, bool in_step) {
    weft_init normal = {WEFT_INIT_NORMAL, 0, 1};
    if (!in_step) return weft_state(w, name, 1, &length, normal);
    weft_value *p = weft_parameter(w, name, 1, &length, normal);
    if (p) p->node->variable->follows = true;
    return weft_stop_gradient(p);
}

/* Keeps what the iteration ended with: in this run, or when the step ends, by the graph's first use. */
static bool keep(weft_value *before, weft_value *now, const char *name, bool in_step) {
    if (!in_step) return weft_assign(before, now), true;
    const weft_variable *v = before->node->in[0]->node->variable; /* of a stop_gradient's operand */
    return graph_moves_mean(before->node->graph, v) || weft_moving_mean(now, 0, name);
}

/* w / (u^T W v); neither u nor v depends on a value that has a gradient. */
static weft_value *divided(weft_value *w, int axis, int iterations, bool in_step) {
    weft_value *m = matrix_of(w, axis);
    weft_value *u = m ? vector(w, "_u", m->type.shape[0], in_step) : NULL, *u_before = u;
    weft_value *v = u ? vector(w, "_v", m->type.shape[1], in_step) : NULL, *v_before = v;
    if (!v) return NULL;
    if (w->node->graph->mode == WEFT_TRAIN &&
        (!iterate(m, iterations, &u, &v) || !keep(u_before, u, "_u", in_step) ||
         !keep(v_before, v, "_v", in_step)))
        return NULL;
    weft_value *along = times_vector(m, v, false);
    return weft_div(w, weft_sum(weft_mul(u, along), 0, NULL, false));
}

/* Miyato et al., arXiv 1802.05957. All is computed in f32, also where the model's products are not. */
static weft_value *spectral_normed(weft_value *w, int axis, int iterations, const char *name, bool in_step) {
    if (!w) return NULL;
    weft_graph *g = w->node->graph;
    int64_t at = axis;
    bool above = g->building_f32;
    weft_value *y = NULL;
    if (w->type.ndim < 1 || !axis_resolve(&at, w->type.ndim))
        return value_fail(w, WEFT_SHAPE, "spectral_norm: %s has no axis %d", TYPE(&w->type), axis);
    if (iterations < 1)
        return value_fail(w, WEFT_ARGUMENT, "spectral_norm: %d iterations: there must be 1 or more",
                          iterations);
    g->building_f32 = true;
    if (w->type.ndim == 1) /* a vector has one singular value, its length */
        y = weft_normalize(w, 0, 0);
    else
        WEFT_SCOPE(w, name) y = divided(w, (int)at, iterations, in_step);
    g->building_f32 = above;
    return y;
}

weft_value *weft_spectral_norm(weft_value *w, int axis, int iterations, const char *name) {
    return spectral_normed(w, axis, iterations, name, false);
}

/* ---- weight norm ---- */

/* torch._weight_norm (Salimans and Kingma, arXiv 1602.07868): g v / |v|, |v| over all axes but one. */
weft_value *weft_weight_norm(weft_value *v, weft_value *g, int axis) {
    if (!v || !g) return weft_mul(v, g);
    int64_t at = axis, axes[WEFT_MAX_NDIM];
    tensor_type lengths = v->type;
    int n = 0;
    if (v->type.ndim < 2 || !axis_resolve(&at, v->type.ndim))
        return value_fail(v, WEFT_SHAPE, "weight_norm: %s with axis %d: it needs that axis and others",
                          TYPE(&v->type), axis);
    for (int i = 0; i < v->type.ndim; i++)
        if (i != at) axes[n++] = i;
    for (int i = 0; i < n; i++) lengths.shape[axes[i]] = 1;
    if (!type_equal(&lengths, &g->type))
        return value_fail(v, WEFT_SHAPE, "weight_norm: g is %s: it must be %s, a length for each of axis %d",
                          TYPE(&g->type), TYPE(&lengths), axis);
    weft_value *length = weft_sqrt(weft_sum(weft_square(v), n, axes, true));
    return weft_mul(v, weft_div(g, length));
}

/* The mean square of initial values, which have fans as in torch.nn.init. */
static double mean_square(weft_init init, int ndim, const int64_t *shape) {
    double a = init.a, b = init.b, field = 1, gain;
    for (int i = 2; i < ndim; i++) field *= (double)shape[i];
    double fan_in = field * (double)shape[1], fan_out = field * (double)shape[0];
    switch (init.kind) {
    case WEFT_INIT_ONES:
        return 1;
    case WEFT_INIT_CONSTANT:
        return a * a;
    case WEFT_INIT_UNIFORM:
        return (a * a + a * b + b * b) / 3;
    case WEFT_INIT_NORMAL:
        return a * a + b * b;
    case WEFT_INIT_XAVIER_UNIFORM:
    case WEFT_INIT_XAVIER_NORMAL:
        gain = a == 0 ? 1 : a;
        return gain * gain * 2 / (fan_in + fan_out);
    case WEFT_INIT_KAIMING_UNIFORM:
    case WEFT_INIT_KAIMING_NORMAL:
        return (a == 0 ? 2 : a * a) / fan_in;
    default:
        return 0;
    }
}

/* ---- layers ---- */

/* original0 is g, original1 is v. g begins as the length that v has in the mean. */
static weft_value *weight_normed(weft_value *x, int ndim, const int64_t *shape, const weft_init *said,
                                 weft_init otherwise) {
    int64_t lengths[WEFT_MAX_NDIM] = {shape[0]};
    double elements = 1;
    for (int i = 1; i < ndim; i++) {
        lengths[i] = 1;
        elements *= (double)shape[i];
    }
    double square = mean_square(said ? *said : otherwise, ndim, shape);
    weft_init length = {WEFT_INIT_CONSTANT, sqrt(elements * square), 0};
    weft_value *g = parameter_or_else(x, "original0", ndim, lengths, NULL, length);
    weft_value *v = g ? parameter_or_else(x, "original1", ndim, shape, said, otherwise) : NULL;
    return weft_weight_norm(v, g, 0);
}

weft_value *layer_weight(weft_value *x, int ndim, const int64_t *shape, const weft_init *said,
                         weft_init otherwise, weft_parametrization form, int axis) {
    weft_value *w = NULL;
    if (form == WEFT_PLAIN_WEIGHT) return parameter_or_else(x, "weight", ndim, shape, said, otherwise);
    if (form != WEFT_SPECTRAL_NORM && form != WEFT_SPECTRAL_NORM_IN_STEP && form != WEFT_WEIGHT_NORM)
        return value_fail(x, WEFT_ARGUMENT,
                          "parametrization=%d: it must be WEFT_SPECTRAL_NORM, WEFT_SPECTRAL_NORM_IN_STEP or "
                          "WEFT_WEIGHT_NORM",
                          (int)form);
    WEFT_SCOPE(x, "parametrizations") WEFT_SCOPE(x, "weight") {
        if (form == WEFT_WEIGHT_NORM)
            w = weight_normed(x, ndim, shape, said, otherwise);
        else
            w = spectral_normed(parameter_or_else(x, "original", ndim, shape, said, otherwise), axis, 1, "0",
                                form == WEFT_SPECTRAL_NORM_IN_STEP);
    }
    return w;
}
