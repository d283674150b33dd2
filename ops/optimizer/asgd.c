/* asgd.c - the optimizers asgd, rprop and lion; t is the step.
 *     asgd    eta = lr / (1 + lambd lr (t - 1))^alpha     p = p (1 - lambd eta) - eta g
 *             ax += mu (p - ax) with mu = 1 / max(1, t - 1 - t0): the averaged weights
 *     rprop   s = g times the gradient before
 *             size *= eta_plus where s > 0, eta_minus where s < 0, within [step_min, step_max]
 *             where s < 0 g counts as 0      p -= sign(g) size
 *     lion    p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g)    m = beta2 m + (1 - beta2) g
 * torch.optim.ASGD, torch.optim.Rprop; Polyak and Juditsky, SIAM J. Control Optim. 30 (1992); Riedmiller and
 * Braun, ICNN 1993; Chen et al., arXiv 2302.06675, algorithm 2. */
#include "ops/optimizer/build.h"

static void asgd(weft_update *u, const minimize_attrs *a) {
    weft_value *g = decayed_gradient(u, a), *before = weft_offset(u->step, -1), **ax = &u->slots[0];
    weft_value *grown = weft_offset(weft_scale(weft_mul(u->lr, before), a->lambd), 1);
    weft_value *eta = weft_div(u->lr, power_by(grown, a->alpha));
    weft_value *kept = weft_update_scale(u->parameter, weft_offset(weft_scale(eta, -a->lambd), 1));
    weft_value *mu = weft_reciprocal(weft_maximum(number_like(eta, 1), weft_offset(before, -a->t0)));
    u->parameter = stepped(kept, g, eta);
    *ax = weft_add(*ax, weft_update_scale(weft_sub(u->parameter, *ax), mu));
}

static void rprop(weft_update *u, const minimize_attrs *a) {
    enum { PREV, SIZE };
    weft_value *g = u->gradient, **s = u->slots, *zero = number_like(g, 0), *size = s[SIZE];
    weft_value *is_first = weft_equal(u->step, number_like(u->step, 1));
    weft_value *product = weft_mul(g, s[PREV]);
    weft_value *grows = weft_greater(product, zero), *turned = weft_greater(zero, product);
    /* at the first step PREV is 0, so nothing grows or shrinks */
    size = weft_where(is_first, weft_cast(u->lr, g ? g->type.dtype : WEFT_F32), size);
    weft_value *grown = weft_scale(size, a->eta_plus);
    size = weft_where(turned, weft_scale(size, a->eta_minus), size);
    size = weft_where(grows, grown, size);
    s[SIZE] = weft_clamp(size, a->step_min, a->step_max);
    s[PREV] = weft_where(turned, zero, g);
    /* the rate is the first size alone, but parameters of rate 0 do not move */
    weft_value *d = weft_mul(weft_sign(s[PREV]), s[SIZE]),
               *moves = weft_greater(u->lr, number_like(u->lr, 0));
    u->parameter = weft_where(moves, weft_sub(u->parameter, d), u->parameter);
}

static void lion(weft_update *u, const minimize_attrs *a) {
    weft_value *m = u->slots[0], *d = weft_sign(moved_by(u, m, u->gradient, a->beta1));
    u->parameter = stepped(decayed_parameter(u, a), d, u->lr);
    u->slots[0] = moved(m, u->gradient, a->beta2);
}

static const char *rprop_broken(const minimize_attrs *a) {
    if (!(a->eta_minus > 0 && a->eta_minus < 1 && a->eta_plus > 1))
        return "rprop needs 0 < eta_minus < 1 < eta_plus";
    if (a->weight_decay != 0) return "weight_decay is set, but rprop has none";
    return a->step_min > a->step_max ? "step_min must not be above step_max" : NULL;
}

static const char *lion_broken(const minimize_attrs *a) {
    bool good = a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1;
    return good ? NULL : "betas must be in [0, 1)";
}

const optimizer_kind optimizer_asgd = {
    .type = "asgd",
    .build = asgd,
    .fields = {"lambd", "alpha", "t0"},
    .defaults = {{"lr", 1e-2}, {"alpha", 0.75}},
    .slots = {{"ax"}},
};

const optimizer_kind optimizer_rprop = {
    .type = "rprop",
    .build = rprop,
    .fields = {"eta_minus", "eta_plus", "step_min", "step_max"},
    .defaults = {{"lr", 1e-2}},
    .slots = {{"prev"}, {"step_size"}},
    .reads_lr_once = true,
    .broken = rprop_broken,
};

const optimizer_kind optimizer_lion = {
    .type = "lion",
    .build = lion,
    .fields = {"beta1", "beta2"},
    .defaults = {{"lr", 1e-4}, {"beta2", 0.99}},
    .slots = {{"exp_avg"}},
    .broken = lion_broken,
};
