/* zoo_wgan.c - WGAN-GP of weft-zoo: 28 x 28 images, a critic without BatchNorm (its penalty is one an image,
 * so images must not meet in it) but with LayerNorm, as the paper recommends. Gulrajani et al., arXiv
 * 1704.00028: the critic's loss is mean D(fake) - mean D(real) + 10 mean (|grad D(x)| - 1)^2, where x lies at
 * random between a real and a generated image. */
#include "zoo.h"

enum { LATENT = 128, PENALTY = 10 };

/* z [B,128] -> images [B,1,28,28] in [-1, 1]. */
static weft_value *wgan_generator(weft_value *z, const zoo_options *o) {
    int64_t wide = zoo_width(o, 128);
    const weft_conv up1 = {.out = wide / 2, .kernel = 4, .stride = 2, .pad = 1};
    const weft_conv up2 = {.out = 1, .kernel = 4, .stride = 2, .pad = 1};
    WEFT_SCOPE(z, "generator") {
        z = weft_reshape(weft_linear(z, 7 * 7 * wide, "fc", NULL), WEFT_SHAPE(WEFT_BATCH, wide, 7, 7));
        z = weft_relu(weft_batch_norm(z, "bn1", NULL));
        z = weft_relu(weft_batch_norm(weft_conv_transpose2d(z, &up1, "up1"), "bn2", NULL));
        z = weft_tanh(weft_conv_transpose2d(z, &up2, "up2"));
    }
    return z;
}

/* Images [B,1,28,28] -> scores [B,1]. */
static weft_value *wgan_critic(weft_value *x, const zoo_options *o) {
    const weft_conv conv1 = {.out = zoo_width(o, 64), .kernel = 4, .stride = 2, .pad = 1};
    const weft_conv conv2 = {.out = zoo_width(o, 128), .kernel = 4, .stride = 2, .pad = 1};
    const weft_norm_options whole = {.axes = 3}; /* an image over all its channels and pixels */
    WEFT_SCOPE(x, "critic") {
        x = weft_leaky_relu(weft_conv2d(x, &conv1, "conv1"), 0.2);
        x = weft_leaky_relu(weft_layer_norm(weft_conv2d(x, &conv2, "conv2"), "norm2", &whole), 0.2);
        x = weft_linear(weft_flatten(x, 1), 1, "fc", NULL);
    }
    return x;
}

static weft_value *wgan_fake(weft_graph *g, const zoo_options *o) {
    return wgan_generator(weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, LATENT), 0, 1), o);
}

static weft_value *mean_of(weft_value *x) {
    return weft_mean(x, WEFT_ALL, false);
}

/* What the critic minimizes except for the penalty: mean D(fake) - mean D(real). */
static weft_value *score_distance(weft_value *fake, weft_value *real, const zoo_options *o) {
    weft_value *of_fake = mean_of(wgan_critic(fake, o));
    return weft_sub(of_fake, mean_of(wgan_critic(real, o)));
}

/* Mean over the images of (|gradient of the critic by the image| - 1)^2. */
static weft_value *gradient_penalty(weft_value *x, const zoo_options *o) {
    weft_value *score = weft_sum(wgan_critic(x, o), WEFT_ALL, false), *slope = NULL;
    weft_gradients(score, 1, &x, &slope);
    weft_value *squares = weft_sum(weft_square(slope), 3, (int64_t[]){1, 2, 3}, false);
    return mean_of(weft_square(weft_offset(weft_sqrt(squares), -1)));
}

/* a t + b (1 - t) with one random t an image. */
static weft_value *between(weft_value *a, weft_value *b) {
    weft_value *t = weft_random_uniform(weft_value_graph(a), WEFT_SHAPE(WEFT_BATCH, 1, 1, 1), 0, 1);
    return weft_add(b, weft_mul(t, weft_sub(a, b)));
}

void zoo_wgan_gp(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 1e-4, .beta1 = WEFT_ZERO, .beta2 = 0.9};
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = zoo_pixels(g, 0.5, 0.5), *fake = weft_stop_gradient(wgan_fake(g, o));
    weft_value *distance = score_distance(fake, real, o);
    weft_value *penalty = gradient_penalty(between(real, fake), o);
    weft_value *loss = weft_add(distance, weft_scale(penalty, PENALTY));
    weft_minimize(loss, "critic", zoo_optimizer(o, &adam));
    weft_output(loss, "d_loss");
    weft_output(penalty, "penalty_loss");

    loss = weft_neg(mean_of(wgan_critic(wgan_fake(weft_graph_new(m, "g_step", WEFT_TRAIN), o), o)));
    weft_minimize(loss, "generator", zoo_optimizer(o, &adam));
    weft_output(loss, "g_loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    real = zoo_pixels(g, 0.5, 0.5);
    weft_output(score_distance(wgan_fake(g, o), real, o), "d_loss");

    weft_value *drawn = wgan_fake(weft_graph_new(m, "predict", WEFT_EVAL), o);
    weft_output(weft_reshape(zoo_to_pixels(drawn), WEFT_SHAPE(WEFT_BATCH, 28, 28)), "samples");
}
