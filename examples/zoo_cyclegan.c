/* zoo_cyclegan.c - CycleGAN of weft-zoo on 64 x 64 images, which need no pairs: Zhu et al., arXiv
 * 1703.10593. Generator G_A turns images of kind A into kind B, and G_B turns B into A; D_A tells true images
 * of kind B from made ones, and D_B those of A. Networks, names, initial values and losses are those of
 * pytorch-CycleGAN: the state_dict of its netG_A, with 6 blocks, loads under G_A, and so on.
 *
 * Theirs updates the generators first, and then shows the discriminators the images of the old ones. No
 * discriminator has moved before, so all gradients are by the weights at the step's start: one graph trains
 * both. Left out is the pool of 50 earlier images, which the discriminators may see in place of new ones:
 * this is theirs with --pool_size 0. */
#include "zoo.h"

#include <stdio.h>

enum { IMAGE = 64, BLOCKS = 6, CYCLE = 10, IDENTITY = 5 };

static const weft_init cycle_weight = {WEFT_INIT_NORMAL, 0, 0.02}, cycle_bias = {WEFT_INIT_ZEROS, 0, 0};

/* ---- layers; `place` is that in the nn.Sequential ---- */

static weft_value *conv_at(weft_value *x, int place, weft_conv c) {
    char name[16];
    snprintf(name, sizeof name, "%d", place);
    c.weight = &cycle_weight, c.bias = &cycle_bias;
    return c.output_padding ? weft_conv_transpose2d(x, &c, name) : weft_conv2d(x, &c, name);
}

static weft_value *down(weft_value *x, int64_t out, int place) {
    return conv_at(x, place, (weft_conv){.out = out, .kernel = 3, .stride = 2, .pad = 1});
}

static weft_value *up(weft_value *x, int64_t out, int place) {
    return conv_at(x, place,
                   (weft_conv){.out = out, .kernel = 3, .stride = 2, .pad = 1, .output_padding = 1});
}

/* A convolution that keeps the size: beyond its border the image is mirrored. */
static weft_value *mirrored(weft_value *x, int64_t out, int64_t kernel, int place) {
    int64_t pad = kernel / 2;
    x = weft_reflect_pad(x, 2, (int64_t[]){pad, pad, pad, pad});
    return conv_at(x, place, (weft_conv){.out = out, .kernel = kernel});
}

static weft_value *norm(weft_value *x) {
    return weft_instance_norm_op(x, NULL, NULL, 0);
}

/* ---- the networks ---- */

static weft_value *block(weft_value *x, int place) {
    char name[16];
    int64_t wide = weft_dim(x, 1);
    weft_value *y = x;
    snprintf(name, sizeof name, "%d", place);
    WEFT_SCOPE(x, name) WEFT_SCOPE(x, "conv_block") {
        y = weft_relu(norm(mirrored(y, wide, 3, 1)));
        y = norm(mirrored(y, wide, 3, 5));
    }
    return weft_add(x, y);
}

/* Images [B,3,64,64] in [-1, 1] -> images of the other kind. */
static weft_value *generator(weft_value *x, const zoo_options *o, const char *name) {
    int64_t wide = zoo_width(o, 64);
    WEFT_SCOPE(x, name) WEFT_SCOPE(x, "model") {
        x = weft_relu(norm(mirrored(x, wide, 7, 1)));
        x = weft_relu(norm(down(x, 2 * wide, 4)));
        x = weft_relu(norm(down(x, 4 * wide, 7)));
        for (int i = 0; i < BLOCKS; i++) x = block(x, 10 + i);
        x = weft_relu(norm(up(x, 2 * wide, 10 + BLOCKS)));
        x = weft_relu(norm(up(x, wide, 13 + BLOCKS)));
        x = weft_tanh(mirrored(x, 3, 7, 17 + BLOCKS));
    }
    return x;
}

/* Images [B,3,64,64] -> an answer for each of 6 x 6 patches, [B,1,6,6]: 1 is true, 0 is made. */
static weft_value *discriminator(weft_value *x, const zoo_options *o, const char *name) {
    int64_t wide = zoo_width(o, 64);
    WEFT_SCOPE(x, name) WEFT_SCOPE(x, "model") {
        x = weft_leaky_relu(conv_at(x, 0, (weft_conv){.out = wide, .kernel = 4, .stride = 2, .pad = 1}), 0.2);
        for (int i = 1; i <= 3; i++) {
            weft_conv c = {.out = wide << i, .kernel = 4, .stride = i < 3 ? 2 : 1, .pad = 1};
            x = weft_leaky_relu(norm(conv_at(x, 3 * i - 1, c)), 0.2);
        }
        x = conv_at(x, 11, (weft_conv){.out = 1, .kernel = 4, .pad = 1});
    }
    return x;
}

/* ---- losses ---- */

/* A batch of both kinds, and what the generators make of it. */
typedef struct cycle {
    const zoo_options *o;
    weft_value *a, *b, *fake_b, *fake_a;
} cycle;

static weft_value *cycle_image(weft_graph *g, const char *name) {
    return weft_input(g, name, WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3, IMAGE, IMAGE));
}

static cycle cycle_batch(weft_graph *g, const zoo_options *o) {
    cycle c = {.o = o};
    c.a = cycle_image(g, "a");
    c.b = cycle_image(g, "b");
    c.fake_b = generator(c.a, o, "G_A");
    c.fake_a = generator(c.b, o, "G_B");
    return c;
}

/* The mean square of what the discriminator's answers to x miss of `target`. */
static weft_value *missed(weft_value *x, const cycle *c, const char *name, double target) {
    weft_value *answer = discriminator(x, c->o, name);
    return weft_mse(answer, weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, target), NULL);
}

/* How far what a generator makes of x is from `wanted`. */
static weft_value *apart(weft_value *x, const cycle *c, const char *name, weft_value *wanted) {
    return weft_l1(generator(x, c->o, name), wanted, NULL);
}

/* Equations 1 to 3 with squares in place of logarithms, and section 5.2's loss for images that need no
 * change. */
static weft_value *cycle_g_loss(const cycle *c) {
    weft_value *fooled = missed(c->fake_b, c, "D_A", 1);
    fooled = weft_add(fooled, missed(c->fake_a, c, "D_B", 1));
    weft_value *there_and_back = apart(c->fake_b, c, "G_B", c->a);
    there_and_back = weft_add(there_and_back, apart(c->fake_a, c, "G_A", c->b));
    weft_value *same = apart(c->b, c, "G_A", c->b);
    same = weft_add(same, apart(c->a, c, "G_B", c->a));
    weft_value *loss = weft_add(fooled, weft_scale(there_and_back, CYCLE));
    loss = weft_add(loss, weft_scale(same, IDENTITY));
    weft_output(loss, "g_loss");
    weft_output(there_and_back, "cycle_loss");
    weft_output(same, "identity_loss");
    return loss;
}

/* Of one discriminator; made images pass no gradient to their generator. */
static weft_value *told_apart(weft_value *real, weft_value *made, const cycle *c, const char *name) {
    weft_value *of_real = missed(real, c, name, 1);
    weft_value *of_made = missed(weft_stop_gradient(made), c, name, 0);
    return weft_scale(weft_add(of_real, of_made), 0.5);
}

static weft_value *cycle_d_loss(const cycle *c) {
    weft_value *loss = told_apart(c->b, c->fake_b, c, "D_A");
    loss = weft_add(loss, told_apart(c->a, c->fake_a, c, "D_B"));
    weft_output(loss, "d_loss");
    return loss;
}

/* The rate falls to 0 in the second hundred of epochs, as in the paper. */
void zoo_cyclegan(weft_model *m, const zoo_options *o) {
    const weft_schedule line = {WEFT_SCHEDULE_LINEAR, .by_epoch = true, .begin = 100,
                                .end = 200,           .from = 1,        .to = WEFT_ZERO};
    const weft_optimizer adam = {.type = "adam", .lr = 2e-4, .beta1 = 0.5, .schedule = {line}};
    cycle c = cycle_batch(weft_graph_new(m, "train", WEFT_TRAIN), o);
    weft_minimize(cycle_g_loss(&c), "G_A,G_B", zoo_optimizer(o, &adam));
    weft_minimize(cycle_d_loss(&c), "D_A,D_B", zoo_optimizer(o, &adam));

    c = cycle_batch(weft_graph_new(m, "val", WEFT_EVAL), o);
    cycle_g_loss(&c);
    cycle_d_loss(&c);

    weft_value *made = cycle_image(weft_graph_new(m, "predict", WEFT_EVAL), "a");
    weft_output(zoo_to_pixels(generator(made, o, "G_A")), "fake_b");
}
