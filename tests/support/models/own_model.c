/* own_model.c - see own_model.h. */
#include "support/models/own_model.h"

#include <strings.h>

/* b = g + momentum (b - g)      p -= lr (sign(b) + weight_decay p) */
static void signum(weft_update *u) {
    weft_value *difference = weft_sub(u->slots[0], u->gradient);
    u->slots[0] = weft_add(u->gradient, weft_update_scale(difference, u->numbers[0]));
    weft_value *decay = weft_update_scale(u->parameter, u->weight_decay);
    weft_value *direction = weft_add(weft_sign(u->slots[0]), decay);
    u->parameter = weft_sub(u->parameter, weft_update_scale(direction, u->lr));
}

/* m = m + (g - m) / step      s = max(0.9 s, |m|)      p -= lr m / (s + eps) */
static void normed(weft_update *u) {
    weft_value *share = weft_reciprocal(u->step), *difference = weft_sub(u->gradient, u->slots[0]);
    u->slots[0] = weft_add(u->slots[0], weft_update_scale(difference, share));
    weft_value *norm = weft_vector_norm(u->slots[0], 2, WEFT_ALL, false);
    u->slots[1] = weft_maximum(weft_scale(u->slots[1], 0.9), norm);
    weft_value *eps = weft_cast(u->numbers[0], WEFT_F32), *below = weft_add(u->slots[1], eps);
    u->parameter = weft_sub(u->parameter, weft_update_scale(weft_div(u->slots[0], below), u->lr));
}

const weft_optimizer_definition own_signum = {
    .type = "signum", .slots = {{"momentum_buffer", 0}}, .numbers = {{"momentum", 0.9}}, .build = signum};
const weft_optimizer_definition own_normed = {
    .type = "normed", .slots = {{"mean", 0}, {"most", 0.5}}, .numbers = {{"eps", 1e-6}}, .build = normed};

weft_model *own_model(const weft_env *env, const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new_in("own", env);
    weft_define_optimizer(m, &own_signum);
    weft_define_optimizer(m, &own_normed);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 16}), *y = x;
    WEFT_SCOPE(x, "net") {
        y = weft_tanh(weft_linear(y, 300, "a", NULL));
        y = weft_tanh(weft_linear(y, 33, "b", NULL));
        y = weft_linear(y, 5, "c", NULL);
    }
    weft_value *loss = weft_mean(weft_square(y), WEFT_ALL, false);
    if (strcasecmp(optimizer->type, "muon") == 0) weft_freeze(m, "*bias"); /* it refuses them */
    weft_minimize(loss, "net", optimizer);
    weft_output(loss, "loss");
    return m;
}
