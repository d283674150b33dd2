/* zoo_gan.c - the GANs of weft-zoo: a generator and a discriminator, each a subgraph of its own. Radford et
 * al., arXiv 1511.06434; sizes and initial values of dcgan are those of PyTorch's example. */
#include "zoo.h"

#include <stdio.h>

static const weft_init gan_conv = {WEFT_INIT_NORMAL, 0, 0.02}, gan_norm = {WEFT_INIT_NORMAL, 1, 0.02};

static weft_value *gan_bn(weft_value *x, const char *name) {
    return weft_batch_norm(x, name, &(weft_batch_norm_options){.weight = &gan_norm});
}

/* Convolutions with a 4 x 4 kernel; up4 is the transposed one. */
static weft_value *up4(weft_value *x, int64_t out, int64_t stride, int64_t pad, bool bias, const char *name) {
    weft_conv c = {
        .out = out, .kernel = 4, .stride = stride, .pad = pad, .no_bias = !bias, .weight = &gan_conv};
    return weft_conv_transpose2d(x, &c, name);
}

static weft_value *down4(weft_value *x, int64_t out, int64_t stride, int64_t pad, bool bias,
                         const char *name) {
    weft_conv c = {
        .out = out, .kernel = 4, .stride = stride, .pad = pad, .no_bias = !bias, .weight = &gan_conv};
    return weft_conv2d(x, &c, name);
}

/* z [B,64] -> images [B,1,28,28] in [-1, 1]. */
static weft_value *generator28(weft_value *z, const zoo_options *o) {
    int64_t wide = zoo_width(o, 128);
    WEFT_SCOPE(z, "generator") {
        z = weft_reshape(weft_linear(z, 7 * 7 * wide, "fc", NULL), WEFT_SHAPE(WEFT_BATCH, wide, 7, 7));
        z = weft_relu(gan_bn(z, "bn1"));
        z = weft_relu(gan_bn(up4(z, wide / 2, 2, 1, false, "up1"), "bn2"));
        z = weft_tanh(up4(z, 1, 2, 1, true, "up2"));
    }
    return z;
}

/* Images [B,1,28,28] -> logits [B,1]. */
static weft_value *discriminator28(weft_value *x, const zoo_options *o) {
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(down4(x, zoo_width(o, 64), 2, 1, true, "conv1"), 0.2);
        x = weft_leaky_relu(gan_bn(down4(x, zoo_width(o, 128), 2, 1, false, "conv2"), "bn2"), 0.2);
        x = weft_linear(weft_flatten(x, 1), 1, "fc", NULL);
    }
    return x;
}

/* z [B,100] -> images [B,3,64,64] in [-1, 1]. */
static weft_value *generator64(weft_value *z, const zoo_options *o) {
    (void)o;
    static const int64_t width[] = {512, 256, 128, 64};
    WEFT_SCOPE(z, "generator") {
        z = weft_reshape(z, WEFT_SHAPE(WEFT_BATCH, 100, 1, 1));
        for (int i = 0; i < 4; i++) {
            char up[16], bn[16];
            snprintf(up, sizeof up, "up%d", i + 1);
            snprintf(bn, sizeof bn, "bn%d", i + 1);
            z = weft_relu(gan_bn(up4(z, width[i], i ? 2 : 1, i ? 1 : 0, false, up), bn));
        }
        z = weft_tanh(up4(z, 3, 2, 1, false, "up5"));
    }
    return z;
}

/* Images [B,3,64,64] -> logits [B,1]. */
static weft_value *discriminator64(weft_value *x, const zoo_options *o) {
    (void)o;
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(down4(x, 64, 2, 1, false, "conv1"), 0.2);
        for (int i = 1; i < 4; i++) {
            char conv[16], bn[16];
            snprintf(conv, sizeof conv, "conv%d", i + 1);
            snprintf(bn, sizeof bn, "bn%d", i + 1);
            x = weft_leaky_relu(gan_bn(down4(x, 64 << i, 2, 1, false, conv), bn), 0.2);
        }
        x = weft_flatten(down4(x, 1, 1, 0, false, "conv5"), 1);
    }
    return x;
}

/* The parts that distinguish the GANs. */
typedef struct gan_parts {
    /* length of the generator's input */
    int64_t z;
    weft_value *(*real)(weft_graph *g); /* images in [-1, 1] */
    weft_value *(*generator)(weft_value *z, const zoo_options *o);
    weft_value *(*discriminator)(weft_value *x, const zoo_options *o);
    bool gray; /* samples are [B,H,W], not [B,C,H,W] */
    const zoo_options *o;
} gan_parts;

/* The discriminator's loss, as a mean over the batch, if the right answer is `target`, 0 or 1. */
static weft_value *bce(weft_value *logits, double target) {
    weft_value *t = weft_constant(weft_value_graph(logits), WEFT_F32, 0, NULL, target);
    return weft_bce_with_logits(logits, t, NULL);
}

static weft_value *gan_fake(weft_graph *g, const gan_parts *p) {
    return p->generator(weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, p->z), 0, 1), p->o);
}

/* The fakes pass no gradient back: this step trains the discriminator only. */
static weft_value *gan_d_loss(weft_graph *g, const gan_parts *p) {
    weft_value *real = bce(p->discriminator(p->real(g), p->o), 1);
    return weft_add(real, bce(p->discriminator(weft_stop_gradient(gan_fake(g, p)), p->o), 0));
}

static void gan_graphs(weft_model *m, const gan_parts *p) {
    weft_optimizer adam = {.type = "adam", .lr = 2e-4, .beta1 = 0.5, .beta2 = 0.999};
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *loss = gan_d_loss(d, p);
    weft_minimize(loss, "discriminator", zoo_optimizer(p->o, &adam));
    weft_output(loss, "d_loss");

    /* The discriminator is not trained here, but its running statistics move, as in PyTorch. */
    weft_graph *g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    loss = bce(p->discriminator(gan_fake(g, p), p->o), 1);
    weft_minimize(loss, "generator", zoo_optimizer(p->o, &adam));
    weft_output(loss, "g_loss");

    weft_graph *val = weft_graph_new(m, "val", WEFT_EVAL);
    weft_output(gan_d_loss(val, p), "d_loss");
    weft_output(bce(p->discriminator(gan_fake(val, p), p->o), 1), "g_loss");

    weft_value *samples = zoo_to_pixels(gan_fake(weft_graph_new(m, "predict", WEFT_EVAL), p));
    if (p->gray)
        samples = weft_reshape(samples, WEFT_SHAPE(WEFT_BATCH, weft_dim(samples, 2), weft_dim(samples, 3)));
    weft_output(samples, "samples");
}

static weft_value *real28(weft_graph *g) {
    return zoo_pixels(g, 0.5, 0.5);
}

static weft_value *real64(weft_graph *g) {
    return weft_input(g, "image", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3, 64, 64));
}

void zoo_dcgan28(weft_model *m, const zoo_options *o) {
    gan_graphs(m, &(gan_parts){64, real28, generator28, discriminator28, true, o});
}

void zoo_dcgan(weft_model *m, const zoo_options *o) {
    gan_graphs(m, &(gan_parts){100, real64, generator64, discriminator64, false, o});
}
