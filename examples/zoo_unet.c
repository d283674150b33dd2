/* zoo_unet.c - a denoising diffusion model of weft-zoo: the U-Net of Ho et al., arXiv 2006.11239, on 32 x 32
 * images, narrower and with one block a level. In training a picture x, its time t from 0 to 999 and noise e
 * make x_t = sqrt(a_t) x + sqrt(1 - a_t) e, where a_t is the product of 1 - beta up to t; the network guesses
 * e from x_t and t. Graph predict guesses the noise, for the sampler's loop outside. */
#include "zoo.h"

#include <math.h>
#include <stdio.h>

enum { SIDE = 32, COLOURS = 3, LEVELS = 3, TIMES = 1000, GROUPS = 8 };

static weft_value *conv3(weft_value *x, int64_t out, int64_t stride, const char *name) {
    return weft_conv2d(x, &(weft_conv){.out = out, .kernel = 3, .stride = stride, .pad = 1}, name);
}

static weft_value *conv1(weft_value *x, int64_t out, const char *name) {
    return weft_conv2d(x, &(weft_conv){.out = out, .kernel = 1}, name);
}

static weft_value *norm_silu(weft_value *x, const char *name) {
    return weft_silu(weft_group_norm(x, GROUPS, name, NULL));
}

/* Two convolutions around the time's part, which is the same at each pixel, and a way past them. */
static weft_value *res_block(weft_value *x, weft_value *time, int64_t out, const char *name) {
    WEFT_SCOPE(x, name) {
        weft_value *y = conv3(norm_silu(x, "norm1"), out, 1, "conv1");
        weft_value *at =
            weft_reshape(weft_linear(time, out, "time", NULL), WEFT_SHAPE(WEFT_BATCH, out, 1, 1));
        y = conv3(weft_dropout(norm_silu(weft_add(y, at), "norm2"), 0.1), out, 1, "conv2");
        x = weft_add(y, weft_dim(x, 1) == out ? x : conv1(x, out, "past"));
    }
    return x;
}

/* [B,C,H,W] -> [B,1,H W,C] */
static weft_value *pixels_as_rows(weft_value *x) {
    return weft_unsqueeze(weft_transpose(weft_flatten(x, 2), 1, 2), 1);
}

/* Every pixel attends to all. */
static weft_value *attention_block(weft_value *x, const char *name) {
    int64_t c = weft_dim(x, 1), h = weft_dim(x, 2), w = weft_dim(x, 3);
    WEFT_SCOPE(x, name) {
        weft_value *y = weft_group_norm(x, GROUPS, "norm", NULL);
        weft_value *q = conv1(y, c, "q"), *k = conv1(y, c, "k"), *v = pixels_as_rows(conv1(y, c, "v"));
        q = pixels_as_rows(q);
        y = weft_squeeze(weft_attention(q, pixels_as_rows(k), v, NULL), 1);
        y = weft_reshape(weft_transpose(y, 1, 2), WEFT_SHAPE(WEFT_BATCH, c, h, w));
        x = weft_add(x, conv1(y, c, "proj"));
    }
    return x;
}

/* Times f32[B] -> [B, 4 d]: sines and cosines of d / 2 wavelengths up to 10000 turns, and two layers. */
static weft_value *time_embedding(weft_value *t, int64_t d) {
    weft_value *y = t;
    WEFT_SCOPE(t, "time") {
        weft_value *number = weft_arange(weft_value_graph(t), WEFT_F32, 0, (double)d / 2, 1);
        weft_value *speed = weft_exp(weft_scale(number, -log(10000) / ((double)d / 2)));
        weft_value *angle = weft_mul(weft_unsqueeze(t, 1), speed), *sine = weft_sin(angle);
        y = weft_concat(2, (weft_value *[]){sine, weft_cos(angle)}, 1);
        y = weft_silu(weft_linear(y, 4 * d, "fc1", NULL));
        y = weft_silu(weft_linear(y, 4 * d, "fc2", NULL));
    }
    return y;
}

static int64_t level_width(const zoo_options *o, int level) {
    return zoo_width(o, level ? 128 : 64);
}

/* Down from 32 to 8 pixels a side; what each level leaves is kept for the way up. */
static weft_value *way_down(weft_value *x, weft_value *time, const zoo_options *o, weft_value **kept) {
    for (int i = 0; i < LEVELS; i++) {
        char name[16];
        snprintf(name, sizeof name, "down%d", i);
        WEFT_SCOPE(x, name) {
            x = res_block(x, time, level_width(o, i), "res");
            if (i == 1) x = attention_block(x, "attn");
            kept[i] = x;
            if (i < LEVELS - 1) x = conv3(x, level_width(o, i), 2, "shrink");
        }
    }
    return x;
}

static weft_value *way_up(weft_value *x, weft_value *time, const zoo_options *o, weft_value **kept) {
    for (int i = LEVELS - 1; i >= 0; i--) {
        char name[16];
        snprintf(name, sizeof name, "up%d", i);
        WEFT_SCOPE(x, name) {
            x = res_block(weft_concat(2, (weft_value *[]){x, kept[i]}, 1), time, level_width(o, i), "res");
            if (i == 1) x = attention_block(x, "attn");
            if (i) {
                x = weft_interpolate(x, &(weft_interpolation){.scale = {2, 2}});
                x = conv3(x, level_width(o, i), 1, "grow");
            }
        }
    }
    return x;
}

/* Noisy images [B,3,32,32] and times f32[B] -> the noise in them. */
static weft_value *unet(weft_value *x, weft_value *t, const zoo_options *o) {
    WEFT_SCOPE(x, "unet") {
        weft_value *time = time_embedding(t, level_width(o, 0)), *kept[LEVELS] = {NULL};
        x = way_down(conv3(x, level_width(o, 0), 1, "in"), time, o, kept);
        x = res_block(x, time, level_width(o, LEVELS - 1), "mid1");
        x = res_block(attention_block(x, "attn"), time, level_width(o, LEVELS - 1), "mid2");
        x = conv3(norm_silu(way_up(x, time, o, kept), "norm"), COLOURS, 1, "out");
    }
    return x;
}

/* a_t of times i64[B], as [B,1,1,1]: beta grows from 0.0001 to 0.02. */
static weft_value *signal_share(weft_value *t) {
    weft_value *beta = weft_linspace(weft_value_graph(t), WEFT_F32, 1e-4, 0.02, TIMES);
    weft_value *shares = weft_cumprod(weft_offset(weft_neg(beta), 1), 0);
    return weft_reshape(weft_index_select(shares, 0, t), WEFT_SHAPE(WEFT_BATCH, 1, 1, 1));
}

/* The mean square of what the guess misses, at a random time of each image. */
static weft_value *ddpm_loss(weft_graph *g, const zoo_options *o) {
    weft_value *x = weft_input(g, "image", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, COLOURS, SIDE, SIDE));
    weft_value *t = weft_floor(weft_random_uniform(g, WEFT_SHAPE(WEFT_BATCH), 0, TIMES));
    weft_value *noise = weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, COLOURS * SIDE * SIDE), 0, 1);
    noise = weft_reshape(noise, WEFT_SHAPE(WEFT_BATCH, COLOURS, SIDE, SIDE));
    weft_value *share = signal_share(weft_cast(t, WEFT_I64));
    weft_value *rest = weft_sqrt(weft_offset(weft_neg(share), 1)), *signal = weft_mul(weft_sqrt(share), x);
    weft_value *loss = weft_mse(unet(weft_add(signal, weft_mul(rest, noise)), t, o), noise, NULL);
    weft_output(loss, "loss");
    return loss;
}

void zoo_unet_ddpm(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 2e-4, .clip_norm = 1};
    weft_minimize(ddpm_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "", zoo_optimizer(o, &adam));
    ddpm_loss(weft_graph_new(m, "val", WEFT_EVAL), o);
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_value *x = weft_input(g, "image", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, COLOURS, SIDE, SIDE));
    weft_value *t = weft_input(g, "time", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    weft_output(unet(x, weft_cast(t, WEFT_F32), o), "noise");
}
