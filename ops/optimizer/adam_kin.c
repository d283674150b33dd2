/* adam_kin.c - optimizers with Adam's moments, built from ops: amsgrad, adamax, nadam, radam; and adam and
 * adamw where amsgrad is set, for which adam_update has no operand. m and v are the moments of g, t is the
 * step.
 *     amsgrad   u = max(u, v)          p -= lr / (1 - beta1^t) m / (sqrt(u) / sqrt(1 - beta2^t) + eps)
 *     adamax    u = max(beta2 u, |g| + eps)               p -= lr / (1 - beta1^t) m / u
 *     nadam     mu = beta1 (1 - 0.96^(t momentum_decay) / 2), pi = the product of mu up to t
 *               p -= lr ((1 - mu) / (1 - pi) g + mu' / (1 - pi mu') m) / (sqrt(v / (1 - beta2^t)) + eps)
 *               with mu' the mu of t + 1
 *     radam     adam's step, times a factor, where the variance of 1 / sqrt(v) is known (rho > 5);
 *               else p -= lr / (1 - beta1^t) m
 * torch.optim.Adam, Adamax, NAdam, RAdam; Reddi et al., arXiv 1904.09237; Kingma and Ba, arXiv 1412.6980,
 * algorithm 2; Dozat, ICLR 2016 workshop; Liu et al., arXiv 1908.03265. */
#include "ops/optimizer/build.h"
#include "ops/optimizer/update.h"

enum { M, V, MOST };

/* The gradient, with the decay where it is not decoupled; then *p has it. */
static weft_value *decayed(const weft_update *u, const minimize_attrs *a, bool is_decoupled, weft_value **p) {
    *p = is_decoupled ? decayed_parameter(u, a) : u->parameter;
    return is_decoupled ? u->gradient : decayed_gradient(u, a);
}

static void moments(weft_update *u, const minimize_attrs *a, weft_value *g) {
    u->slots[M] = moved_by(u, u->slots[M], g, a->beta1);
    u->slots[V] = moved(u->slots[V], weft_square(g), a->beta2);
}

void build_amsgrad(weft_update *u, const minimize_attrs *a, bool is_decoupled) {
    weft_value *p, *g = decayed(u, a, is_decoupled, &p);
    moments(u, a, g);
    u->slots[MOST] = weft_maximum(u->slots[MOST], u->slots[V]);
    weft_value *root = weft_sqrt(bias_of(a->beta2, u->step));
    weft_value *below = weft_offset(divided(weft_sqrt(u->slots[MOST]), root), a->eps);
    weft_value *lr = weft_div(u->lr, first_bias(u, a->beta1));
    u->parameter = stepped(p, weft_div(u->slots[M], below), lr);
}

static void amsgrad(weft_update *u, const minimize_attrs *a) {
    build_amsgrad(u, a, false);
}

static void adamax(weft_update *u, const minimize_attrs *a) {
    weft_value *g = decayed_gradient(u, a), **s = u->slots;
    weft_value *least = weft_offset(weft_abs(g), a->eps), *lr = weft_div(u->lr, first_bias(u, a->beta1));
    s[M] = moved_by(u, s[M], g, a->beta1);
    s[V] = weft_maximum(weft_scale(s[V], a->beta2), least);
    u->parameter = stepped(u->parameter, weft_div(s[M], s[V]), lr);
}

/* ---- nadam ---- */

/* mu at step t, by beta1 as a schedule has made it: PyTorch multiplies the product by it, whatever beta1 was
 * before. All parameters have one beta1, since there are no numbers of groups. */
weft_value *update_product(weft_value *t, weft_value *beta1, const minimize_attrs *a) {
    weft_value *grown = weft_offset(weft_scale(power_of(0.96, weft_scale(t, a->momentum_decay)), -0.5), 1);
    return beta1 ? weft_mul(weft_scale(beta1, a->beta1), grown) : weft_scale(grown, a->beta1);
}

/* 1 - x */
static weft_value *rest(weft_value *x) {
    return weft_offset(weft_scale(x, -1), 1);
}

static void nadam(weft_update *u, const minimize_attrs *a) {
    weft_value *p, *g = decayed(u, a, a->decoupled_weight_decay, &p);
    weft_value *mu = update_product(u->step, u->numbers[1], a), *pi = u->numbers[0];
    weft_value *next = update_product(weft_offset(u->step, 1), u->numbers[1], a);
    moments(u, a, g);
    weft_value *below = weft_offset(weft_sqrt(divided(u->slots[V], bias_of(a->beta2, u->step))), a->eps);
    weft_value *above = rest(mu), *all = weft_mul(pi, next);
    weft_value *of_g = weft_mul(u->lr, weft_div(above, rest(pi)));
    weft_value *of_m = weft_mul(u->lr, weft_div(next, rest(all)));
    p = stepped(p, weft_div(g, below), of_g);
    u->parameter = stepped(p, weft_div(u->slots[M], below), of_m);
}

/* ---- radam ---- */

/* sqrt((rho - 4)(rho - 2) most / ((most - 4)(most - 2) rho)) */
static weft_value *rectified(weft_value *rho, double most) {
    weft_value *less = weft_offset(rho, -4), *above = weft_mul(less, weft_offset(rho, -2));
    return weft_sqrt(weft_div(weft_scale(above, most / ((most - 4) * (most - 2))), rho));
}

static void radam(weft_update *u, const minimize_attrs *a) {
    weft_value *p, *g = decayed(u, a, a->decoupled_weight_decay, &p), *bias = bias_of(a->beta2, u->step);
    double most = 2 / (1 - a->beta2) - 1;
    weft_value *power = weft_mul(u->step, power_of(a->beta2, u->step));
    weft_value *rho = weft_offset(weft_scale(weft_div(power, bias), -2), most);
    weft_value *is_known = weft_greater(rho, number_like(rho, 5));
    moments(u, a, g);
    weft_value *factor = rectified(rho, most);
    factor = weft_mul(factor, weft_sqrt(bias));
    factor = weft_where(is_known, factor, number_like(factor, 1));
    weft_value *root = weft_offset(weft_sqrt(u->slots[V]), a->eps);
    weft_value *below = weft_where(is_known, root, number_like(root, 1));
    weft_value *of_m = first_bias(u, a->beta1), *lr = weft_div(weft_mul(u->lr, factor), of_m);
    u->parameter = stepped(p, weft_div(u->slots[M], below), lr);
}

/* The rules of the constructors. */
static const char *broken(const minimize_attrs *a) {
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1)) return "betas must be in [0, 1)";
    return a->eps < 0 ? "eps must not be negative" : NULL;
}

const optimizer_kind optimizer_amsgrad = {
    .type = "amsgrad",
    .build = amsgrad,
    .fields = {"beta1", "beta2", "eps"},
    .slots = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}},
    .broken = broken,
};

const optimizer_kind optimizer_adamax = {
    .type = "adamax",
    .build = adamax,
    .fields = {"beta1", "beta2", "eps"},
    .defaults = {{"lr", 2e-3}},
    .slots = {{"exp_avg"}, {"exp_inf"}},
    .broken = broken,
};

const optimizer_kind optimizer_nadam = {
    .type = "nadam",
    .build = nadam,
    .fields = {"beta1", "beta2", "eps", "momentum_decay", "decoupled_weight_decay"},
    .defaults = {{"lr", 2e-3}},
    .slots = {{"exp_avg"}, {"exp_avg_sq"}},
    .has_product = true,
    .broken = broken,
};

const optimizer_kind optimizer_radam = {
    .type = "radam",
    .build = radam,
    .fields = {"beta1", "beta2", "eps", "decoupled_weight_decay"},
    .slots = {{"exp_avg"}, {"exp_avg_sq"}},
    .broken = broken,
};
