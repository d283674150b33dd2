/* training.c - domain ai.onnx.preview.training: gradients, and steps of optimizers as formulas on tensors. */
#include "interchange/onnx/operators/families.h"

/* ---- gradients ---- */

/* The value of the graph that a text of attribute `list` names, which must be operand i, too. */
static weft_value *named(onnx_call *c, const onnx_attribute *list, int k, int i) {
    onnx_value *v = onnx_find(c->in->frame, list->texts[k]);
    if (!v || !onnx_has(c, i) || strcmp(c->node->in[i], list->texts[k]))
        return onnx_refuse(
            c, "the gradient by '%.80s' at another value than its own: give '%.80s' itself as operand %d",
            list->texts[k], list->texts[k], i);
    return onnx_in(c, i);
}

static bool is_texts(const onnx_attribute *a) {
    return a && a->type == ONNX_ATTRIBUTE_STRINGS && a->n > 0;
}

/* Gradients of y by each of xs, where zs are given. Operands are xs, then zs. */
weft_value *onnx_build_gradient(onnx_call *c) {
    enum { MOST = 64 };
    weft_value *values[MOST], *gradients[MOST] = {0};
    const onnx_attribute *xs = onnx_attribute_of(c, "xs"), *zs = onnx_attribute_of(c, "zs");
    const char *y = onnx_word(c, "y", "");
    onnx_value *loss = onnx_find(c->in->frame, y);
    if (c->scratch_graph) return onnx_refuse(c, "gradients of constants");
    if (!is_texts(xs) || xs->n > MOST || (zs && zs->type != ONNX_ATTRIBUTE_STRINGS))
        return onnx_refuse(c, "xs has not 1 to %d names", MOST);
    if (onnx_operands(c) != xs->n + (zs ? zs->n : 0))
        return onnx_refuse(c, "operands are not as many as xs and zs");
    if (!loss || !loss->value[c->side])
        return onnx_refuse(c, "y is '%.80s', which the graph does not have", y);
    weft_value *scalar = loss->value[c->side];
    for (int i = 0; i < weft_ndim(scalar); i++)
        if (weft_dim(scalar, i) != 1)
            return onnx_refuse(c, "y, '%.80s', has more than one element: sum it", y);
    if (weft_ndim(scalar)) scalar = weft_reshape(scalar, 0, NULL);
    for (int i = 0; i < xs->n; i++)
        if (!(values[i] = named(c, xs, i, i))) return NULL;
    for (int i = 0; zs && i < zs->n; i++)
        if (!named(c, zs, i, xs->n + i)) return NULL;
    if (weft_gradients(scalar, xs->n, values, gradients)) return NULL;
    for (int i = 0; i < xs->n; i++) onnx_result(c, i, gradients[i]);
    return gradients[0];
}

/* ---- steps of optimizers ---- */

/* Of one tensor. Operands are R, T, and lists of X, of G, and of one or two more; results are lists of the
 * new X and of the new others. */
typedef struct step {
    weft_value *rate, *count, *x, *g; /* R, T; T in the type of x */
    weft_value *state[2], *new_state[2];
} step;

/* R or T, one number, in the type of x. */
static weft_value *number_of(onnx_call *c, int i, weft_value *x) {
    weft_value *v = onnx_in(c, i);
    if (!v || !x) return NULL;
    for (int j = 0; j < weft_ndim(v); j++)
        if (weft_dim(v, j) != 1) return onnx_refuse(c, "operand %d has more than one number", i);
    v = weft_ndim(v) ? weft_reshape(v, 0, NULL) : v;
    return weft_value_dtype(v) == weft_value_dtype(x) ? v : weft_cast(v, weft_value_dtype(x));
}

/* The gradient with that of norm_coefficient |x|^2 / 2. */
static weft_value *regularized(const step *s, double coefficient) {
    return coefficient ? weft_add(weft_scale(s->x, coefficient), s->g) : s->g;
}

/* T > 0 ? a : b */
static weft_value *if_begun(onnx_call *c, const step *s, weft_value *a, weft_value *b) {
    return weft_where(weft_greater(s->count, onnx_constant(c, s->count, 0)), a, b);
}

/* keep a + more b */
static weft_value *mixed(weft_value *a, double keep, weft_value *b, double more) {
    weft_value *kept = weft_scale(a, keep), *added = weft_scale(b, more);
    return weft_add(kept, added);
}

/* x - by / (sqrt(h) + eps) */
static weft_value *stepped(const step *s, weft_value *by, weft_value *h, double eps) {
    return weft_sub(s->x, weft_div(by, weft_offset(weft_sqrt(h), eps)));
}

/* R / (1 + T decay) g / (sqrt(h + g^2) + eps) */
static weft_value *adagrad(onnx_call *c, step *s) {
    double decay = onnx_real(c, "decay_factor", 0), eps = onnx_real(c, "epsilon", 1e-6F);
    weft_value *g = regularized(s, onnx_real(c, "norm_coefficient", 0));
    weft_value *rate = weft_div(s->rate, weft_offset(weft_scale(s->count, decay), 1));
    s->new_state[0] = weft_add(s->state[0], weft_square(g));
    return stepped(s, weft_mul(rate, g), s->new_state[0], eps);
}

/* 1 - number^T */
static weft_value *without_power(onnx_call *c, const step *s, double number) {
    return weft_offset(weft_neg(weft_pow(onnx_constant(c, s->count, number), s->count)), 1);
}

static weft_value *adam(onnx_call *c, step *s) {
    double alpha = onnx_real(c, "alpha", 0.9F), beta = onnx_real(c, "beta", 0.999F),
           eps = onnx_real(c, "epsilon", 1e-6F);
    double after = onnx_real(c, "norm_coefficient_post", 0);
    weft_value *g = regularized(s, onnx_real(c, "norm_coefficient", 0));
    weft_value *v = mixed(s->state[0], alpha, g, 1 - alpha);
    weft_value *h = mixed(s->state[1], beta, weft_square(g), 1 - beta);
    weft_value *bias = weft_sqrt(without_power(c, s, beta));
    bias = weft_div(bias, without_power(c, s, alpha));
    weft_value *rate = if_begun(c, s, weft_mul(s->rate, bias), s->rate);
    weft_value *x = stepped(s, weft_mul(rate, v), h, eps);
    s->new_state[0] = v;
    s->new_state[1] = h;
    return after ? weft_scale(x, 1 - after) : x;
}

/* In the first step the gradient counts whole. */
static weft_value *momentum(onnx_call *c, step *s) {
    double alpha = onnx_real(c, "alpha", 0), beta = onnx_real(c, "beta", 0);
    const char *mode = onnx_word(c, "mode", "standard");
    bool is_nesterov = !strcmp(mode, "nesterov");
    if (!is_nesterov && strcmp(mode, "standard")) return onnx_refuse(c, "mode is '%.40s'", mode);
    weft_value *g = regularized(s, onnx_real(c, "norm_coefficient", 0));
    weft_value *later = onnx_constant(c, s->count, beta), *first = onnx_constant(c, s->count, 1);
    weft_value *part = if_begun(c, s, later, first), *kept = weft_scale(s->state[0], alpha);
    weft_value *v = weft_add(kept, weft_mul(part, g));
    s->new_state[0] = v;
    return weft_sub(s->x, weft_mul(s->rate, is_nesterov ? weft_add(g, weft_scale(v, alpha)) : v));
}

/* A step for each tensor of the node; an optimizer has n_states tensors for each. */
static weft_value *steps(onnx_call *c, int n_states, weft_value *(*of)(onnx_call *, step *)) {
    int n = (onnx_operands(c) - 2) / (2 + n_states);
    weft_value *first = NULL;
    if (n < 1 || onnx_operands(c) != 2 + n * (2 + n_states))
        return onnx_refuse(c, "%d operands", onnx_operands(c));
    for (int i = 0; i < n; i++) {
        step s = {.x = onnx_in(c, 2 + i)};
        s.g = onnx_in(c, 2 + n + i);
        s.rate = number_of(c, 0, s.x);
        s.count = number_of(c, 1, s.x);
        for (int k = 0; k < n_states; k++) s.state[k] = onnx_in(c, 2 + (2 + k) * n + i);
        if (!s.rate || !s.count || !s.g || !s.state[0] || !s.state[n_states - 1]) return NULL;
        weft_value *x = of(c, &s);
        if (!x) return NULL;
        onnx_result(c, i, x);
        for (int k = 0; k < n_states; k++) onnx_result(c, (1 + k) * n + i, s.new_state[k]);
        if (!i) first = x;
    }
    return first;
}

weft_value *onnx_build_adagrad(onnx_call *c) {
    return steps(c, 1, adagrad);
}

weft_value *onnx_build_adam(onnx_call *c) {
    return steps(c, 2, adam);
}

weft_value *onnx_build_momentum(onnx_call *c) {
    return steps(c, 1, momentum);
}
