/* naive.c - see naive.h. */
#include "support/naive.h"

#include "ops/basic_attrs.h"
#include "weft/ops.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const tensor_type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

/* Element number i of shape t, as a place; and back. */
static void place(const tensor_type *t, int64_t i, int64_t *at) {
    for (int k = t->ndim - 1; k >= 0; k--) {
        at[k] = i % t->shape[k];
        i /= t->shape[k];
    }
}

static int64_t number(const tensor_type *t, const int64_t *at) {
    int64_t i = 0;
    for (int k = 0; k < t->ndim; k++) i = i * t->shape[k] + at[k];
    return i;
}

static int axis_of(int64_t axis, int ndim) {
    return (int)(axis < 0 ? axis + ndim : axis);
}

/* ---- pointwise, with NumPy's broadcasting: axes are matched from the last, one of length 1 stands for all ---- */

static double broadcast_get(const naive *x, const tensor_type *out, const int64_t *at) {
    int64_t from[WEFT_MAX_NDIM];
    int lead = out->ndim - x->type.ndim;
    for (int k = 0; k < x->type.ndim; k++) from[k] = x->type.shape[k] == 1 ? 0 : at[k + lead];
    return x->v[number(&x->type, from)];
}

static double attr_number(const weft_node *n) {
    return ((const number_attrs *)n->attrs)->value;
}

static bool point(const weft_node *n, const double *x, double *y) {
    const char *op = n->op->name;
    if (!strcmp(op, "add"))
        *y = x[0] + x[1];
    else if (!strcmp(op, "sub"))
        *y = x[0] - x[1];
    else if (!strcmp(op, "mul"))
        *y = x[0] * x[1];
    else if (!strcmp(op, "tanh"))
        *y = tanh(x[0]);
    else if (!strcmp(op, "sigmoid"))
        *y = 1 / (1 + exp(-x[0]));
    else if (!strcmp(op, "square"))
        *y = x[0] * x[0];
    else if (!strcmp(op, "neg"))
        *y = -x[0];
    else if (!strcmp(op, "scale"))
        *y = x[0] * attr_number(n);
    else if (!strcmp(op, "offset"))
        *y = x[0] + attr_number(n);
    else if (!strcmp(op, "stop_gradient") || !strcmp(op, "cast"))
        *y = x[0]; /* between types of floats */
    else
        return false;
    return true;
}

static bool pointwise(const weft_node *n, const naive *in, const naive *out) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        double x[4];
        place(&out->type, i, at);
        for (int k = 0; k < n->n_in; k++) x[k] = broadcast_get(&in[k], &out->type, at);
        if (!point(n, x, &out->v[i])) return false;
    }
    return true;
}

/* ---- shapes ---- */

static void broadcast_to(const weft_node *n, const naive *in, const naive *out) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    (void)n;
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        place(&out->type, i, at);
        out->v[i] = broadcast_get(in, &out->type, at);
    }
}

static void reshape(const weft_node *n, const naive *in, const naive *out) {
    (void)n;
    for (int64_t i = 0; i < count_of(&out->type); i++) out->v[i] = in->v[i];
}

static void permute(const weft_node *n, const naive *in, const naive *out) {
    const attr_ints *axes = &((const shape_attrs *)n->attrs)->shape;
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM];
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        place(&out->type, i, at);
        for (int k = 0; k < axes->n; k++) from[axis_of(axes->v[k], axes->n)] = at[k];
        out->v[i] = in->v[number(&in->type, from)];
    }
}

static void slice(const weft_node *n, const naive *in, const naive *out) {
    const slice_attrs *a = n->attrs;
    int axis = axis_of(a->axis, in->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0}, begin = a->begin < 0 ? a->begin + in->type.shape[axis] : a->begin;
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        place(&out->type, i, at);
        at[axis] += begin;
        out->v[i] = in->v[number(&in->type, at)];
    }
}

static void pad(const weft_node *n, const naive *in, const naive *out) {
    const pad_attrs *a = n->attrs;
    int axis = axis_of(a->axis, in->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        place(&out->type, i, at);
        at[axis] -= a->before;
        bool inside = at[axis] >= 0 && at[axis] < in->type.shape[axis];
        out->v[i] = inside ? in->v[number(&in->type, at)] : 0;
    }
}

static void concat(const weft_node *n, const naive *in, const naive *out) {
    int axis = axis_of(((const axis_attrs *)n->attrs)->axis, out->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < count_of(&out->type); i++) {
        int k = 0;
        place(&out->type, i, at);
        for (; at[axis] >= in[k].type.shape[axis]; k++) at[axis] -= in[k].type.shape[axis];
        out->v[i] = in[k].v[number(&in[k].type, at)];
    }
}

/* ---- sums ---- */

static void sum(const weft_node *n, const naive *in, const naive *out) {
    const sum_attrs *a = n->attrs;
    bool is_summed[WEFT_MAX_NDIM] = {false};
    int64_t at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM], total = count_of(&in->type);
    for (int i = 0; i < in->type.ndim; i++) is_summed[i] = a->axes.n == 0;
    for (int i = 0; i < a->axes.n; i++) is_summed[axis_of(a->axes.v[i], in->type.ndim)] = true;
    for (int64_t i = 0; i < count_of(&out->type); i++) out->v[i] = 0;
    for (int64_t i = 0; i < total; i++) {
        int ndim = 0;
        place(&in->type, i, at);
        for (int k = 0; k < in->type.ndim; k++)
            if (!is_summed[k])
                to[ndim++] = at[k];
            else if (a->keep)
                to[ndim++] = 0;
        out->v[number(&out->type, to)] += in->v[i];
    }
    for (int64_t i = 0; a->mean && i < count_of(&out->type); i++)
        out->v[i] /= (double)total / (double)count_of(&out->type);
}

/* ---- the list ---- */

bool naive_run(const weft_node *n, const naive *in, const naive *out) {
    static const struct {
        const char *op;
        void (*run)(const weft_node *n, const naive *in, const naive *out);
    } known[] = {{"reshape", reshape}, {"permute", permute}, {"broadcast_to", broadcast_to},
                 {"slice", slice},     {"pad", pad},         {"concat", concat},
                 {"sum", sum}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(n->op->name, known[i].op) == 0) {
            known[i].run(n, in, out);
            return true;
        }
    return pointwise(n, in, out);
}
