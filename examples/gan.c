/* gan.c - a whole GAN: two networks, two training graphs, one store. Trains on Fashion-MNIST, saves weights:
 *     weft-gan train-images-idx3-ubyte.gz weights.safetensors [STEPS] */
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, Z = 64 };

static weft_value *generator(weft_value *z) {
    WEFT_SCOPE(z, "generator") { /* a top-level scope: a subgraph, trained on its own */
        z = weft_reshape(weft_linear(z, 7 * 7 * 64, "fc", NULL), WEFT_SHAPE(-1, 64, 7, 7));
        z = weft_relu(weft_batch_norm(z, "bn", NULL));
        z = weft_tanh(weft_conv_transpose2d(z, &(weft_conv){.out = 1, .kernel = 4, .stride = 4}, "up"));
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(weft_conv2d(x, &(weft_conv){.out = 64, .kernel = 4, .stride = 4}, "conv"), 0.2);
        x = weft_linear(weft_flatten(x, 1), 1, "fc", NULL);
    }
    return x;
}

static weft_value *bce(weft_value *logits, double target) {
    weft_value *t = weft_constant(weft_value_graph(logits), WEFT_F32, 0, NULL, target);
    return weft_bce_with_logits(logits, t, NULL);
}

static weft_value *fake(weft_graph *g) {
    return generator(weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, Z), 0, 1));
}

static void build(weft_model *m) {
    weft_optimizer adam = {.type = "adam", .lr = 2e-4, .beta1 = 0.5};
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *image = weft_input(d, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
    weft_value *real = weft_reshape(weft_cast(image, WEFT_F32), WEFT_SHAPE(-1, 1, 28, 28));
    real = weft_offset(weft_scale(real, 1 / 127.5), -1);
    weft_value *loss = bce(discriminator(real), 1);
    loss = weft_add(loss, bce(discriminator(weft_stop_gradient(fake(d))), 0));
    weft_minimize(loss, "discriminator", &adam);
    weft_output(loss, "d_loss");

    loss = bce(discriminator(fake(weft_graph_new(m, "g_step", WEFT_TRAIN))), 1);
    weft_minimize(loss, "generator", &adam);
    weft_output(loss, "g_loss");
}

int main(int argc, char **argv) {
    weft_error error = {0};
    if (argc < 3) return fprintf(stderr, "usage: weft-gan IMAGES WEIGHTS [STEPS]\n"), 2;
    weft_model *m = weft_model_new("gan");
    weft_model_set_batch(m, BATCH);
    build(m);
    weft_source *images = weft_source_open(argv[1], NULL, NULL, &error);
    weft_hook log = weft_hook_text(stdout, 50);
    weft_trainer_options how = {.train = {1, (const weft_source *[]){images}, (const char *[]){"image"}},
                                .seed = 1,
                                .iterations = argc > 3 ? atoi(argv[3]) : 400,
                                .n_hooks = 1,
                                .hooks = &log};
    /* compiles: reports a mistake in any line above */
    weft_trainer *t = images ? weft_trainer_new(m, &how, &error) : NULL;
    if (t && !weft_trainer_fit(t, &error)) weft_trainer_save(t, argv[2], false, &error);
    if (error.status) fprintf(stderr, "gan: %s\n", error.text);
    weft_trainer_free(t);
    weft_source_free(images);
    weft_model_free(m);
    return error.status ? 1 : 0;
}
