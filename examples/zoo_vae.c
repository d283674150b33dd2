/* zoo_vae.c - the variational autoencoder of weft-zoo: 784-400-20-400-784 on 28 x 28 images, the sizes and
 * the loss of PyTorch's example. Kingma and Welling, arXiv 1312.6114: the loss is the cross-entropy of the
 * pixels and the distance of N(mu, exp(logvar)) from N(0, 1), -1/2 sum(1 + logvar - mu^2 - exp(logvar));
 * here their mean over the images, not the sum. */
#include "zoo.h"

enum { PIXELS = 28 * 28, LATENT = 20 };

/* Pixels [B, 784] from 0 to 1. */
static weft_value *vae_pixels(weft_graph *g) {
    weft_value *image = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
    return weft_flatten(weft_scale(weft_cast(image, WEFT_F32), 1.0 / 255), 1);
}

/* Latents [B, 20] -> logits of the pixels. */
static weft_value *vae_decode(weft_value *z, const zoo_options *o) {
    WEFT_SCOPE(z, "decoder") {
        z = weft_relu(weft_linear(z, zoo_width(o, 400), "fc1", NULL));
        z = weft_linear(z, PIXELS, "fc2", NULL);
    }
    return z;
}

/* Pixels -> mean and logarithm of the variance of the latents, [B, 20] each. */
static void vae_encode(weft_value *x, const zoo_options *o, weft_value **mu, weft_value **logvar) {
    WEFT_SCOPE(x, "encoder") {
        weft_value *h = weft_relu(weft_linear(x, zoo_width(o, 400), "fc1", NULL));
        *mu = weft_linear(h, LATENT, "mu", NULL);
        *logvar = weft_linear(h, LATENT, "logvar", NULL);
    }
}

static weft_value *normal_latents(weft_graph *g) {
    return weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, LATENT), 0, 1);
}

/* The mean over the images of what a row [n] sums up to. */
static weft_value *mean_of_rows(weft_value *x) {
    return weft_mean(weft_sum(x, 1, (int64_t[]){1}, false), WEFT_ALL, false);
}

/* Outputs reconstruction_loss, kl_loss and loss, their sum, which is returned. */
static weft_value *vae_loss(weft_graph *g, const zoo_options *o) {
    weft_value *x = vae_pixels(g), *mu = NULL, *logvar = NULL;
    vae_encode(x, o, &mu, &logvar);
    weft_value *deviation = weft_exp(weft_scale(logvar, 0.5));
    weft_value *z = weft_add(mu, weft_mul(deviation, normal_latents(g)));
    weft_value *pixels =
        mean_of_rows(weft_bce_with_logits(vae_decode(z, o), x, &(weft_loss){.reduction = WEFT_LOSS_NONE}));
    weft_value *far = weft_square(mu), *wide = weft_sub(weft_exp(logvar), logvar);
    weft_value *kl = mean_of_rows(weft_scale(weft_offset(weft_add(far, wide), -1), 0.5));
    weft_value *loss = weft_add(pixels, kl);
    weft_output(pixels, "reconstruction_loss");
    weft_output(kl, "kl_loss");
    weft_output(loss, "loss");
    return loss;
}

void zoo_vae(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 1e-3};
    weft_minimize(vae_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "", zoo_optimizer(o, &adam));
    vae_loss(weft_graph_new(m, "val", WEFT_EVAL), o);

    weft_value *drawn = vae_decode(normal_latents(weft_graph_new(m, "predict", WEFT_EVAL)), o);
    weft_value *pixels = weft_cast(weft_offset(weft_scale(weft_sigmoid(drawn), 255), 0.5), WEFT_U8);
    weft_output(weft_reshape(pixels, WEFT_SHAPE(WEFT_BATCH, 28, 28)), "samples");
}
