/* zoo_byol.c - BYOL of weft-zoo on 32 x 32 images: self-supervised learning without negative pairs. Grill
 * et al., arXiv 2006.07733: an online network (encoder, projector, predictor) guesses, from one view of an
 * image, what a target network makes of the other; the loss is 2 - 2 cos, over both ways round. The target
 * is the online network as it was: graph teacher moves it by target = tau target + (1 - tau) online. Views
 * are inputs, since augmenting is the data's part. */
#include "zoo.h"

#include <stdio.h>
#include <string.h>

#define TAU 0.99

static weft_value *block(weft_value *x, int64_t out, int64_t stride, const char *name) {
    const weft_conv c = {.out = out, .kernel = 3, .stride = stride, .pad = 1, .no_bias = true};
    WEFT_SCOPE(x, name) {
        x = weft_relu(weft_batch_norm(weft_conv2d(x, &c, "conv"), "bn", NULL));
    }
    return x;
}

/* Linear, BatchNorm, ReLU, linear: the projector and the predictor. */
static weft_value *head(weft_value *x, const zoo_options *o, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_relu(weft_batch_norm(weft_linear(x, zoo_width(o, 512), "fc1", NULL), "bn", NULL));
        x = weft_linear(x, zoo_width(o, 128), "fc2", NULL);
    }
    return x;
}

/* An image's representation, [B, 256], and its projection. */
static weft_value *encoder(weft_value *x, const zoo_options *o) {
    x = block(x, zoo_width(o, 64), 1, "block1");
    x = block(x, zoo_width(o, 128), 2, "block2");
    x = block(x, zoo_width(o, 256), 2, "block3");
    return weft_mean(x, WEFT_AXES(2, 3), false);
}

static weft_value *projection(weft_value *x, const zoo_options *o, const char *network) {
    WEFT_SCOPE(x, network) {
        x = head(encoder(x, o), o, "projector");
    }
    return x;
}

static weft_value *prediction(weft_value *x, const zoo_options *o) {
    x = projection(x, o, "online");
    WEFT_SCOPE(x, "online") {
        x = head(x, o, "predictor");
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

static weft_value *view(weft_graph *g, const char *name) {
    return weft_input(g, name, WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3, 32, 32));
}

static weft_value *byol_loss(weft_graph *g, const zoo_options *o) {
    weft_value *a = view(g, "view_a"), *b = view(g, "view_b");
    weft_value *one = distance(a, b, o), *loss = weft_add(one, distance(b, a, o));
    weft_output(loss, "loss");
    return loss;
}

/* Every parameter of the target takes a step towards the online network's of the same name. */
static void move_teacher(weft_model *m) {
    weft_graph *g = weft_graph_new(m, "teacher", WEFT_EVAL);
    weft_parameter_info p;
    for (int i = 0; weft_model_parameter(m, "target", i, &p); i++) {
        char online[256];
        if (p.is_state) continue; /* running statistics are the target's own */
        snprintf(online, sizeof online, "online%s", p.path + strlen("target"));
        weft_value *target = weft_value_of(g, p.path), *own = weft_scale(weft_value_of(g, online), 1 - TAU);
        weft_assign(target, weft_add(weft_scale(target, TAU), own));
    }
}

void zoo_byol(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 3e-4};
    weft_minimize(byol_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "online", zoo_optimizer(o, &adam));
    move_teacher(m);
    weft_model_set_flow(m, "train teacher");
    byol_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_value *x = view(weft_graph_new(m, "predict", WEFT_EVAL), "image");
    WEFT_SCOPE(x, "online") x = encoder(x, o);
    weft_output(x, "features");
}
