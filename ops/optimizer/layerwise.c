/* layerwise.c - optimizers whose step is scaled by norms of each parameter: lamb and lars. |x| is a 2-norm.
 *     lamb    m, v as adam, with bias corrections    d = m' / (sqrt(v') + eps) + weight_decay p
 *             p -= lr |p| / |d| d
 *     lars    d = g + weight_decay p      d *= trust |p| / (|g| + weight_decay |p| + eps)
 *             b = momentum b + d          p -= lr b
 * A ratio with a norm of 0 counts as 1. You et al., arXiv 1904.00962, algorithm 2; arXiv 1708.03888,
 * algorithm 1. */
#include "ops/optimizer/build.h"

/* above / below, and 1 where `above` or `of` is 0; a NaN passes on. */
static weft_value *ratio(weft_value *above, weft_value *of, weft_value *below) {
    weft_value *zero = number_like(above, 0), *one = number_like(above, 1);
    weft_value *is_zero = weft_equal(weft_mul(above, of), zero);
    return weft_where(is_zero, one, weft_div(above, weft_where(is_zero, one, below)));
}

static void lamb(weft_update *u, const minimize_attrs *a) {
    enum { M, V };
    weft_value **s = u->slots;
    s[M] = moved_by(u, s[M], u->gradient, a->beta1);
    s[V] = moved(s[V], weft_square(u->gradient), a->beta2);
    weft_value *below = weft_sqrt(divided(s[V], bias_of(a->beta2, u->step)));
    weft_value *d = weft_div(divided(s[M], first_bias(u, a->beta1)), weft_offset(below, a->eps));
    if (a->weight_decay != 0) d = weft_add(d, weft_update_scale(u->parameter, u->weight_decay));
    weft_value *of_d = norm_of(d), *trust = ratio(norm_of(u->parameter), of_d, of_d);
    u->parameter = stepped(u->parameter, weft_mul(d, trust), u->lr);
}

static void lars(weft_update *u, const minimize_attrs *a) {
    weft_value *of_p = norm_of(u->parameter), *of_g = norm_of(u->gradient), **buffer = &u->slots[0];
    weft_value *below = weft_offset(weft_add(of_g, weft_update_scale(of_p, u->weight_decay)), a->eps);
    weft_value *trust = ratio(weft_scale(of_p, a->trust), of_g, below);
    weft_value *d = weft_mul(decayed_gradient(u, a), trust);
    if (a->momentum != 0) d = *buffer = weft_add(by_momentum(u, *buffer, a->momentum), d);
    u->parameter = stepped(u->parameter, d, u->lr);
}

static const char *broken(const minimize_attrs *a) {
    bool good = a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1;
    return good ? NULL : "betas must be in [0, 1)";
}

const optimizer_kind optimizer_lamb = {
    .type = "lamb",
    .build = lamb,
    .fields = {"beta1", "beta2", "eps"},
    .defaults = {{"eps", 1e-6}},
    .slots = {{"exp_avg"}, {"exp_avg_sq"}},
    .broken = broken,
};

const optimizer_kind optimizer_lars = {
    .type = "lars",
    .build = lars,
    .fields = {"momentum", "trust", "eps"},
    .slots = {{"momentum_buffer", .need = offsetof(minimize_attrs, momentum)}},
};
