/* adagrad.c - the optimizers adagrad and adadelta.
 *     adagrad     s += g^2        p -= lr / (1 + (step - 1) lr_decay) g / (sqrt(s) + eps)
 *     adadelta    s = rho s + (1 - rho) g^2       d = sqrt(q + eps) / sqrt(s + eps) g
 *                 q = rho q + (1 - rho) d^2       p -= lr d
 * torch.optim.Adagrad, torch.optim.Adadelta; Duchi et al., JMLR 12 (2011); Zeiler, arXiv 1212.5701,
 * algorithm 1. */
#include "ops/optimizer/build.h"

static void adagrad(weft_update *u, const minimize_attrs *a) {
    weft_value *g = decayed_gradient(u, a), *lr = u->lr;
    weft_value *sum = u->slots[0] = weft_add(u->slots[0], weft_square(g));
    if (a->lr_decay != 0) lr = weft_div(lr, weft_offset(weft_scale(u->step, a->lr_decay), 1 - a->lr_decay));
    u->parameter = stepped(u->parameter, weft_div(g, weft_offset(weft_sqrt(sum), a->eps)), lr);
}

static void adadelta(weft_update *u, const minimize_attrs *a) {
    enum { SQUARE_AVG, ACC_DELTA };
    weft_value *g = decayed_gradient(u, a), **s = u->slots;
    s[SQUARE_AVG] = moved(s[SQUARE_AVG], weft_square(g), a->rho);
    weft_value *root = weft_sqrt(weft_offset(s[ACC_DELTA], a->eps));
    weft_value *d = weft_mul(weft_div(root, weft_sqrt(weft_offset(s[SQUARE_AVG], a->eps))), g);
    s[ACC_DELTA] = moved(s[ACC_DELTA], weft_square(d), a->rho);
    u->parameter = stepped(u->parameter, d, u->lr);
}

const optimizer_kind optimizer_adagrad = {
    .type = "adagrad",
    .build = adagrad,
    .fields = {"lr_decay", "initial_accumulator", "eps"},
    .defaults = {{"lr", 1e-2}, {"eps", 1e-10}},
    .slots = {{"sum", .initial_from = offsetof(minimize_attrs, initial_accumulator)}},
};

const optimizer_kind optimizer_adadelta = {
    .type = "adadelta",
    .build = adadelta,
    .fields = {"rho", "eps"},
    .defaults = {{"lr", 1}, {"eps", 1e-6}},
    .slots = {{"square_avg"}, {"acc_delta"}},
};
