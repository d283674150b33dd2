/* rmsprop.c - the optimizer rmsprop: torch.optim.RMSprop.
 *     v = alpha v + (1 - alpha) g^2
 *     d = g / (sqrt(v) + eps)            centered: v - mean(g)^2 in place of v
 *     momentum: b = momentum b + d, and b in place of d
 *     p -= lr d
 * Hinton, Neural networks for machine learning, lecture 6e; centered: Graves, arXiv 1308.0850, eq. 38 to
 * 45. */
#include "ops/optimizer/build.h"

static void build(weft_update *u, const minimize_attrs *a) {
    enum { SQUARE_AVG, MOMENTUM_BUFFER, GRAD_AVG };
    weft_value *g = decayed_gradient(u, a), **s = u->slots;
    weft_value *v = s[SQUARE_AVG] = moved(s[SQUARE_AVG], weft_square(g), a->alpha);
    if (a->centered) {
        s[GRAD_AVG] = moved(s[GRAD_AVG], g, a->alpha);
        v = weft_sub(v, weft_square(s[GRAD_AVG]));
    }
    weft_value *d = weft_div(g, weft_offset(weft_sqrt(v), a->eps));
    if (a->momentum != 0)
        d = s[MOMENTUM_BUFFER] = weft_add(by_momentum(u, s[MOMENTUM_BUFFER], a->momentum), d);
    u->parameter = stepped(u->parameter, d, u->lr);
}

const optimizer_kind optimizer_rmsprop = {
    .type = "rmsprop",
    .build = build,
    .fields = {"alpha", "eps", "momentum", "centered"},
    .defaults = {{"lr", 1e-2}},
    .slots = {{"square_avg"},
              {"momentum_buffer", .need = offsetof(minimize_attrs, momentum)},
              {"grad_avg", .flag = offsetof(minimize_attrs, centered)}},
};
