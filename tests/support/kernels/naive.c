/* naive.c - see naive.h. */
#include "support/kernels/naive.h"

#include "ops/kit/basic_attrs.h"
#include "weft/ops.h"

#include <math.h>
#include <string.h>

int64_t naive_count(const tensor_type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

void naive_place(const tensor_type *t, int64_t i, int64_t *at) {
    for (int k = t->ndim - 1; k >= 0; k--) {
        at[k] = i % t->shape[k];
        i /= t->shape[k];
    }
}

int64_t naive_number(const tensor_type *t, const int64_t *at) {
    int64_t i = 0;
    for (int k = 0; k < t->ndim; k++) i = i * t->shape[k] + at[k];
    return i;
}

static int axis_of(int64_t axis, int ndim) {
    return (int)(axis < 0 ? axis + ndim : axis);
}

/* ---- pointwise, with NumPy's broadcasting: axes are matched from the last, one of length 1 stands for all
 * ---- */

static double broadcast_get(const naive *x, const tensor_type *out, const int64_t *at) {
    int64_t from[WEFT_MAX_NDIM];
    int lead = out->ndim - x->type.ndim;
    for (int k = 0; k < x->type.ndim; k++) from[k] = x->type.shape[k] == 1 ? 0 : at[k + lead];
    return x->v[naive_number(&x->type, from)];
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

/* Whether a double holds all that becomes of integers; those beyond are in tests/pytorch/test_integers.c. */
static bool is_small(const naive *x) {
    for (int64_t i = 0; !dtype_is_float(x->type.dtype) && i < naive_count(&x->type); i++)
        if (fabs(x->v[i]) > 0x1p26) return false;
    return true;
}

static bool pointwise(const weft_node *n, const naive *in, const naive *out) {
    for (int k = 0; k < n->n_in; k++)
        if (!is_small(&in[k])) return false;
    bool is_cast = strcmp(n->op->name, "cast") == 0;
    if (is_cast && !(dtype_is_float(in->type.dtype) && dtype_is_float(out->type.dtype))) return false;
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        double x[4];
        naive_place(&out->type, i, at);
        for (int k = 0; k < n->n_in; k++) x[k] = broadcast_get(&in[k], &out->type, at);
        if (!point(n, x, &out->v[i])) return false;
    }
    return true;
}

/* ---- shapes ---- */

static void broadcast_to(const weft_node *n, const naive *in, const naive *out) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    (void)n;
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        naive_place(&out->type, i, at);
        out->v[i] = broadcast_get(in, &out->type, at);
    }
}

static void reshape(const weft_node *n, const naive *in, const naive *out) {
    (void)n;
    for (int64_t i = 0; i < naive_count(&out->type); i++) out->v[i] = in->v[i];
}

static void permute(const weft_node *n, const naive *in, const naive *out) {
    const attr_ints *axes = &((const shape_attrs *)n->attrs)->shape;
    int64_t at[WEFT_MAX_NDIM] = {0}, from[WEFT_MAX_NDIM];
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        naive_place(&out->type, i, at);
        for (int k = 0; k < axes->n; k++) from[axis_of(axes->v[k], axes->n)] = at[k];
        out->v[i] = in->v[naive_number(&in->type, from)];
    }
}

static void slice(const weft_node *n, const naive *in, const naive *out) {
    const slice_attrs *a = n->attrs;
    int axis = axis_of(a->axis, in->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0}, begin = a->begin < 0 ? a->begin + in->type.shape[axis] : a->begin;
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        naive_place(&out->type, i, at);
        at[axis] = begin + at[axis] * (a->step ? a->step : 1);
        out->v[i] = in->v[naive_number(&in->type, at)];
    }
}

static void pad(const weft_node *n, const naive *in, const naive *out) {
    const pad_attrs *a = n->attrs;
    int axis = axis_of(a->axis, in->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        naive_place(&out->type, i, at);
        at[axis] -= a->before;
        bool inside = at[axis] >= 0 && at[axis] % (a->between + 1) == 0;
        at[axis] /= a->between + 1;
        inside = inside && at[axis] < in->type.shape[axis];
        out->v[i] = inside ? in->v[naive_number(&in->type, at)] : a->value;
    }
}

static void concat(const weft_node *n, const naive *in, const naive *out) {
    int axis = axis_of(((const axis_attrs *)n->attrs)->axis, out->type.ndim);
    int64_t at[WEFT_MAX_NDIM] = {0};
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        int k = 0;
        naive_place(&out->type, i, at);
        for (; at[axis] >= in[k].type.shape[axis]; k++) at[axis] -= in[k].type.shape[axis];
        out->v[i] = in[k].v[naive_number(&in[k].type, at)];
    }
}

/* ---- sums ---- */

static void sum(const weft_node *n, const naive *in, const naive *out) {
    const sum_attrs *a = n->attrs;
    bool is_summed[WEFT_MAX_NDIM] = {false};
    int64_t at[WEFT_MAX_NDIM] = {0}, to[WEFT_MAX_NDIM], total = naive_count(&in->type);
    for (int i = 0; i < in->type.ndim; i++) is_summed[i] = a->axes.n == 0;
    for (int i = 0; i < a->axes.n; i++) is_summed[axis_of(a->axes.v[i], in->type.ndim)] = true;
    for (int64_t i = 0; i < naive_count(&out->type); i++) out->v[i] = 0;
    for (int64_t i = 0; i < total; i++) {
        int ndim = 0;
        naive_place(&in->type, i, at);
        for (int k = 0; k < in->type.ndim; k++)
            if (!is_summed[k])
                to[ndim++] = at[k];
            else if (a->keep)
                to[ndim++] = 0;
        out->v[naive_number(&out->type, to)] += in->v[i];
    }
    for (int64_t i = 0; a->mean && i < naive_count(&out->type); i++)
        out->v[i] /= fmax((double)total / (double)naive_count(&out->type) - a->correction, 0);
}

/* ---- the list ---- */

bool naive_run(const weft_node *n, const naive *in, const naive *out) {
    static const struct {
        const char *op;
        naive_op *run;
    } known[] = {{"reshape", reshape},
                 {"reorder", reshape}, /* of the same shape */
                 {"permute", permute},
                 {"broadcast_to", broadcast_to},
                 {"slice", slice},
                 {"pad", pad},
                 {"concat", concat},
                 {"sum", sum},
                 {"matmul", naive_matmul},
                 {"linear", naive_linear},
                 {"conv2d", naive_conv},
                 {"conv_transpose2d", naive_conv},
                 {"conv2d_weight", naive_conv},
                 {"conv3d", naive_conv},
                 {"conv_transpose3d", naive_conv},
                 {"conv3d_weight", naive_conv},
                 {"random_uniform", naive_random_uniform},
                 {"random_normal", naive_random_normal},
                 {"dropout", naive_dropout},
                 {"bucket", naive_bucket},
                 {"chunk_squares", naive_chunk_squares},
                 {"sgd_update", naive_sgd_update},
                 {"adam_update", naive_adam_update},
                 {"renew", naive_renew}};
    if (strcmp(n->op->name, "sum") == 0 && !is_small(in)) return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(n->op->name, known[i].op) == 0) {
            known[i].run(n, in, out);
            return true;
        }
    return n->op->flags & OP_POINTWISE && n->n_body == 0 && pointwise(n, in, out);
}

/* ---- elements ---- */

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return bits >> 15 ? -v : v;
}

/* The nearest number with `bits` of fraction and no exponent below `least`; rint takes ties to even. */
static double rounded(double v, int bits, int least) {
    int exponent;
    if (v == 0 || v - v != 0) return v;
    frexp(v, &exponent);
    int unit = (exponent - 1 < least ? least : exponent - 1) - bits;
    return ldexp(rint(ldexp(v, -unit)), unit);
}

static uint16_t half_bits(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(rounded(v, 10, -14));
    int exponent;
    if (isnan(a)) return 0x7e00;
    if (a >= 65536) return sign | 0x7c00;
    if (a < ldexp(1, -14)) return sign | (uint16_t)ldexp(a, 24);
    frexp(a, &exponent);
    return sign | (uint16_t)((exponent + 14) << 10 | ((int)ldexp(a, 11 - exponent) & 1023));
}

static double brain_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

static uint16_t brain_bits(double v) {
    float f = (float)rounded(v, 7, -126);
    uint32_t wide;
    memcpy(&wide, &f, sizeof wide);
    return (uint16_t)(wide >> 16);
}

void naive_read(const tensor *from, double *to) {
    const void *p = from->data;
    for (int64_t i = 0; i < naive_count(&from->type); i++) switch (from->type.dtype) {
        case WEFT_F32:
            to[i] = ((const float *)p)[i];
            break;
        case WEFT_F64:
            to[i] = ((const double *)p)[i];
            break;
        case WEFT_F16:
            to[i] = half_value(((const uint16_t *)p)[i]);
            break;
        case WEFT_BF16:
            to[i] = brain_value(((const uint16_t *)p)[i]);
            break;
        case WEFT_I32:
            to[i] = ((const int32_t *)p)[i];
            break;
        case WEFT_I8:
            to[i] = ((const int8_t *)p)[i];
            break;
        case WEFT_U16:
            to[i] = ((const uint16_t *)p)[i];
            break;
        case WEFT_U32:
            to[i] = ((const uint32_t *)p)[i];
            break;
        case WEFT_I64:
            to[i] = (double)((const int64_t *)p)[i];
            break;
        default:
            to[i] = ((const uint8_t *)p)[i];
            break; /* u8, bool */
        }
}

void naive_write(const tensor *to, const double *from) {
    void *p = to->data;
    for (int64_t i = 0; i < naive_count(&to->type); i++) switch (to->type.dtype) {
        case WEFT_F32:
            ((float *)p)[i] = (float)from[i];
            break;
        case WEFT_F64:
            ((double *)p)[i] = from[i];
            break;
        case WEFT_F16:
            ((uint16_t *)p)[i] = half_bits(from[i]);
            break;
        case WEFT_BF16:
            ((uint16_t *)p)[i] = brain_bits(from[i]);
            break;
        case WEFT_I32:
            ((int32_t *)p)[i] = (int32_t)(int64_t)from[i]; /* the low bits */
            break;
        case WEFT_I8:
            ((int8_t *)p)[i] = (int8_t)(int64_t)from[i];
            break;
        case WEFT_U16:
            ((uint16_t *)p)[i] = (uint16_t)(int64_t)from[i];
            break;
        case WEFT_U32:
            ((uint32_t *)p)[i] = (uint32_t)(int64_t)from[i];
            break;
        case WEFT_I64:
            ((int64_t *)p)[i] = (int64_t)from[i];
            break;
        default:
            ((uint8_t *)p)[i] = (uint8_t)from[i];
            break;
        }
}
