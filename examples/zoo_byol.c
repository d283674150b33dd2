/* zoo_byol.c - BYOL of weft-zoo on 32 x 32 images: self-supervised learning without negative pairs. Grill
 * et al., arXiv 2006.07733: an online network (encoder, projector, predictor) guesses, from one view of an
 * image, what a target network makes of the other; the loss is 2 - 2 cos, over both ways round. The target
 * is the online network as it was: graph teacher moves it by target = tau target + (1 - tau) online. */
#include "zoo.h"

#define TAU 0.99

static weft_value *projection(weft_value *x, const zoo_options *o, const char *network) {
    WEFT_SCOPE(x, network) {
        x = zoo_head(zoo_encoder(x, o, false), o, false, "projector");
    }
    return x;
}

static weft_value *prediction(weft_value *x, const zoo_options *o) {
    x = projection(x, o, "online");
    WEFT_SCOPE(x, "online") {
        x = zoo_head(x, o, false, "predictor");
    }
    return x;
}

/* Mean over the images of 2 - 2 cos between what `online` predicts and `target` projects. */
static weft_value *distance(weft_value *seen, weft_value *other, const zoo_options *o) {
    weft_value *guess = prediction(seen, o);
    weft_value *truth = weft_stop_gradient(projection(other, o, "target"));
    weft_value *cosine = weft_cosine_similarity(guess, truth, 1, 0);
    return weft_offset(weft_scale(weft_mean(cosine, WEFT_ALL, false), -2), 2);
}

static weft_value *byol_loss(weft_graph *g, const zoo_options *o) {
    weft_value *a = zoo_view(g, "view_a"), *b = zoo_view(g, "view_b");
    weft_value *one = distance(a, b, o), *loss = weft_add(one, distance(b, a, o));
    weft_output(loss, "loss");
    return loss;
}

void zoo_byol(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 3e-4};
    weft_minimize(byol_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "online", zoo_optimizer(o, &adam));
    weft_graph *g = weft_graph_new(m, "teacher", WEFT_EVAL);
    zoo_follow(g, "target", "online", weft_constant(g, WEFT_F32, 0, NULL, TAU));
    weft_model_set_flow(m, "train teacher");
    byol_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_value *x = zoo_view(weft_graph_new(m, "predict", WEFT_EVAL), "image");
    WEFT_SCOPE(x, "online") x = zoo_encoder(x, o, false);
    weft_output(x, "features");
}
