/* random_net.c - see random_net.h. A block is a function of a table by kind of network; inside it names are
 * those of its own scope. */
#include "support/models/random_net.h"

#include <stdio.h>

enum { MOST_BLOCKS = 4 };

typedef weft_value *block(weft_value *x, test_random *r);

/* ---- for any axes ---- */

static weft_value *activation(weft_value *x, test_random *r) {
    switch (random_below(r, 9)) {
    case 0:
        return weft_relu(x);
    case 1:
        return weft_gelu(x);
    case 2:
        return weft_silu(x);
    case 3:
        return weft_leaky_relu(x, 0.2);
    case 4:
        return weft_softplus(x, 1, 20);
    case 5:
        return weft_mul(weft_sigmoid(x), x);
    case 6:
        return weft_softsign(x);
    case 7:
        return weft_elu(x, 1);
    default:
        return weft_tanh(x);
    }
}

static weft_value *linear(weft_value *x, test_random *r) {
    return activation(weft_linear(x, 3 + random_below(r, 7), "fc", NULL), r);
}

static weft_value *linear_without_bias(weft_value *x, test_random *r) {
    weft_linear_options o = {.no_bias = true};
    return activation(weft_linear(x, 3 + random_below(r, 7), "fc", &o), r);
}

static weft_value *weight_normed(weft_value *x, test_random *r) {
    weft_linear_options o = {.parametrization = WEFT_WEIGHT_NORM};
    return activation(weft_linear(x, 3 + random_below(r, 7), "fc", &o), r);
}

static weft_value *spectral_in_step(weft_value *x, test_random *r) {
    weft_linear_options o = {.parametrization = WEFT_SPECTRAL_NORM_IN_STEP};
    return activation(weft_linear(x, 3 + random_below(r, 7), "fc", &o), r);
}

static weft_value *layer_norm(weft_value *x, test_random *r) {
    return random_one_in(r, 2) ? weft_layer_norm(x, "norm", NULL) : weft_rms_norm(x, "norm", NULL);
}

static weft_value *dropout(weft_value *x, test_random *r) {
    return weft_dropout(x, 0.1 + 0.1 * random_below(r, 4));
}

static weft_value *noise(weft_value *x, test_random *r) {
    int64_t shape[WEFT_MAX_NDIM];
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = weft_dim(x, i);
    weft_value *drawn = random_one_in(r, 2)
                            ? weft_random_normal(weft_value_graph(x), weft_ndim(x), shape, 0, 1)
                            : weft_random_uniform(weft_value_graph(x), weft_ndim(x), shape, -1, 1);
    return weft_add(x, weft_scale(drawn, 0.1));
}

/* A gradient that reaches its parameter through a view. */
static weft_value *gate(weft_value *x, test_random *r) {
    weft_value *by = weft_parameter(x, "by", 1, (int64_t[]){1}, (weft_init){WEFT_INIT_CONSTANT, 1, 0});
    return random_one_in(r, 2) ? weft_mul(x, weft_reshape(by, 0, NULL)) : weft_mul(x, by);
}

static weft_value *sorted(weft_value *x, test_random *r) {
    weft_value *places = NULL, *s = weft_sort(x, -1, random_one_in(r, 2), &places);
    return random_one_in(r, 2) ? s : weft_add(s, weft_take_along_axis(weft_square(x), places, -1));
}

static weft_value *scattered(weft_value *x, test_random *r) {
    weft_value *places = weft_argsort(x, -1, random_one_in(r, 2));
    return weft_scatter_add(weft_scale(x, 0.5), weft_ndim(x) - 1, places, weft_tanh(x));
}

static weft_value *chosen(weft_value *x, test_random *r) {
    weft_value *zero = weft_constant(weft_value_graph(x), WEFT_F32, 0, NULL, 0);
    weft_value *other = random_one_in(r, 2) ? weft_scale(x, 0.1) : weft_square(x);
    return weft_where(weft_greater(x, zero), x, other);
}

/* ---- features ---- */

static weft_value *batch_norm(weft_value *x, test_random *r) {
    (void)r;
    return weft_batch_norm(x, "norm", NULL);
}

static weft_value *spectral(weft_value *x, test_random *r) {
    weft_linear_options o = {.parametrization = WEFT_SPECTRAL_NORM};
    return activation(weft_linear(x, 3 + random_below(r, 7), "fc", &o), r);
}

static weft_value *largest(weft_value *x, test_random *r) {
    weft_value *places = NULL;
    int64_t k = 1 + random_below(r, (int)weft_dim(x, 1));
    return weft_topk(x, k, 1, random_one_in(r, 2), &places);
}

static weft_value *summed_up(weft_value *x, test_random *r) {
    (void)r;
    return weft_scale(weft_cumsum(x, 1), 0.3);
}

static weft_value *weighed(weft_value *x, test_random *r) {
    (void)r;
    return weft_mul(x, weft_softmax(weft_linear(x, weft_dim(x, 1), "scores", NULL), 1));
}

static weft_value *looked_up(weft_value *x, test_random *r) {
    weft_value *rows =
        weft_embedding(weft_argmax(x, 1, false), weft_dim(x, 1), 2 + random_below(r, 3), "rows", NULL);
    return weft_concat(2, (weft_value *[]){x, rows}, 1);
}

static weft_value *crossed(weft_value *x, test_random *r) {
    weft_value *y = weft_linear(x, 2 + random_below(r, 3), "left", NULL);
    return weft_flatten(weft_einsum("bi,bj->bij", 2, (weft_value *[]){weft_tanh(y), x}), 1);
}

static weft_value *joined(weft_value *x, test_random *r) {
    int64_t in = weft_dim(x, 1), left = 1 + random_below(r, 3);
    const weft_init init = {WEFT_INIT_UNIFORM, -0.3, 0.3};
    weft_value *parts[] = {weft_parameter(x, "left", 2, (int64_t[]){in, left}, init),
                           weft_parameter(x, "right", 2, (int64_t[]){in, 3}, init)};
    return weft_tanh(weft_matmul(x, weft_concat(2, parts, 1), false, false));
}

/* ---- sequences ---- */

/* [B, T, heads * d] -> [B, heads, T, d]. */
static weft_value *heads_of(weft_value *x, int64_t heads) {
    int64_t d = weft_dim(x, 2) / heads;
    weft_value *y = weft_reshape(x, 4, (int64_t[]){-1, weft_dim(x, 1), heads, d});
    return weft_permute(y, (int64_t[]){0, 2, 1, 3});
}

static weft_value *attention(weft_value *x, test_random *r) {
    int64_t heads = 1 + random_below(r, 3), shared = random_one_in(r, 3) ? 1 : heads,
            d = 2 * (1 + random_below(r, 3));
    weft_attention_options o = {.causal = random_one_in(r, 2)};
    if (random_one_in(r, 4)) o.dropout = 0.2;
    if (random_one_in(r, 4)) o.window = 2;
    weft_value *q = heads_of(weft_linear(x, heads * d, "q", NULL), heads),
               *k = heads_of(weft_linear(x, shared * d, "k", NULL), shared),
               *v = heads_of(weft_linear(x, shared * d, "v", NULL), shared);
    if (random_one_in(r, 3)) q = weft_rotary(q, NULL), k = weft_rotary(k, NULL);
    weft_value *y = weft_permute(weft_attention(q, k, v, &o), (int64_t[]){0, 2, 1, 3});
    y = weft_linear(weft_reshape(y, 3, (int64_t[]){-1, weft_dim(x, 1), heads * d}), weft_dim(x, 2), "out",
                    NULL);
    return weft_add(x, y);
}

static weft_value *recurrent(weft_value *x, test_random *r) {
    weft_recurrent o = {.hidden = 2 + random_below(r, 4), .batch_first = true};
    weft_value *last, *cells;
    o.bidirectional = random_one_in(r, 3);
    if (random_one_in(r, 3)) o.layers = 2;
    switch (random_below(r, 3)) {
    case 0:
        return weft_lstm(x, &o, "lstm", &last, &cells);
    case 1:
        return weft_gru(x, &o, "gru", &last);
    default:
        return weft_rnn(x, &o, "rnn", &last);
    }
}

static weft_value *convolved_line(weft_value *x, test_random *r) {
    weft_conv c = {.out = 2 + random_below(r, 4), .kernel = 3, .pad = 1};
    weft_value *y = weft_transpose(x, 1, 2);
    y = random_one_in(r, 3) ? weft_conv_transpose1d(y, &c, "conv") : weft_conv1d(y, &c, "conv");
    return activation(weft_transpose(y, 1, 2), r);
}

static weft_value *pooled_line(weft_value *x, test_random *r) {
    weft_pool p = {.kernel = {2}, .stride = {1}};
    if (weft_dim(x, 1) < 3) return x;
    weft_value *y = weft_transpose(x, 1, 2);
    y = random_one_in(r, 2) ? weft_max_pool1d(y, &p) : weft_avg_pool1d(y, &p);
    return weft_transpose(y, 1, 2);
}

static weft_value *through_time(weft_value *x, test_random *r) {
    switch (random_below(r, 3)) {
    case 0:
        return weft_scale(weft_cumsum(x, 1), 0.3);
    case 1:
        return weft_roll(x, 1, 1);
    default:
        return weft_flip(x, 1, (int64_t[]){1});
    }
}

/* ---- images ---- */

static weft_value *convolution(weft_value *x, test_random *r) {
    weft_conv c = {.out = 2 + random_below(r, 5), .kernel = 1 + random_below(r, 3), .pad = 1};
    if (weft_dim(x, 2) > 4 && random_one_in(r, 3)) c.stride = 2;
    if (random_one_in(r, 4)) c.no_bias = true;
    return activation(weft_conv2d(x, &c, "conv"), r);
}

static weft_value *grouped(weft_value *x, test_random *r) {
    int64_t groups = weft_dim(x, 1);
    weft_conv c = {.out = groups * (1 + random_below(r, 2)), .kernel = 3, .pad = 1, .groups = groups};
    return activation(weft_conv2d(x, &c, "conv"), r);
}

static weft_value *spectral_convolution(weft_value *x, test_random *r) {
    weft_conv c = {
        .out = 2 + random_below(r, 5), .kernel = 3, .pad = 1, .parametrization = WEFT_SPECTRAL_NORM};
    return activation(weft_conv2d(x, &c, "conv"), r);
}

static weft_value *convolution_in_step(weft_value *x, test_random *r) {
    weft_conv c = {
        .out = 2 + random_below(r, 4), .kernel = 3, .pad = 1, .parametrization = WEFT_SPECTRAL_NORM_IN_STEP};
    x = random_one_in(r, 2) ? weft_conv2d(x, &c, "conv") : weft_conv_transpose2d(x, &c, "up");
    return activation(x, r);
}

static weft_value *transposed(weft_value *x, test_random *r) {
    weft_conv c = {.out = 2 + random_below(r, 4), .kernel = 3, .pad = 1};
    if (weft_dim(x, 2) < 5) c.stride = 2, c.kernel = 2, c.pad = 0;
    return activation(weft_conv_transpose2d(x, &c, "up"), r);
}

static weft_value *volume(weft_value *x, test_random *r) {
    weft_conv c = {.out = 2 + random_below(r, 2), .kernel = 3, .pad = 1};
    weft_value *y = weft_conv3d(weft_unsqueeze(x, 1), &c, "conv"); /* channels become the depth */
    int64_t n = weft_dim(y, 1) * weft_dim(y, 2);
    return activation(weft_reshape(y, 4, (int64_t[]){-1, n, weft_dim(y, 3), weft_dim(y, 4)}), r);
}

static weft_value *pooled(weft_value *x, test_random *r) {
    weft_pool p = {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = random_one_in(r, 2)};
    if (weft_dim(x, 2) < 4 || weft_dim(x, 3) < 4) return weft_adaptive_avg_pool2d(x, 2, 2);
    return random_one_in(r, 2) ? weft_max_pool2d(x, &p) : weft_avg_pool2d(x, &p);
}

static weft_value *resized(weft_value *x, test_random *r) {
    weft_interpolation o = {.size = {2 + random_below(r, 5), 2 + random_below(r, 5)},
                            .mode =
                                random_one_in(r, 2) ? WEFT_INTERPOLATE_NEAREST : WEFT_INTERPOLATE_BILINEAR};
    return weft_interpolate(x, &o);
}

static weft_value *image_norm(weft_value *x, test_random *r) {
    switch (random_below(r, 3)) {
    case 0:
        return weft_group_norm(x, weft_dim(x, 1) % 2 ? 1 : 2, "norm", NULL);
    case 1:
        return weft_instance_norm(x, "norm", NULL);
    default:
        return weft_batch_norm(x, "norm", NULL);
    }
}

static weft_value *shuffled(weft_value *x, test_random *r) {
    (void)r;
    if (weft_dim(x, 1) % 4 == 0) return weft_pixel_shuffle(x, 2);
    if (weft_dim(x, 2) % 2 || weft_dim(x, 3) % 2) return x;
    return weft_pixel_unshuffle(x, 2);
}

static weft_value *padded(weft_value *x, test_random *r) {
    const int64_t pads[] = {1, 1, 0, 1};
    switch (random_below(r, 3)) {
    case 0:
        return weft_reflect_pad(x, 2, pads);
    case 1:
        return weft_circular_pad(x, 2, pads);
    default:
        return weft_replicate_pad(x, 2, pads);
    }
}

/* ---- networks ---- */

#define ANY                                                                                                  \
    linear, linear_without_bias, weight_normed, spectral_in_step, layer_norm, dropout, noise, gate, sorted,  \
        scattered, chosen
static block *const features[] = {ANY,     linear,    batch_norm, largest, summed_up,
                                  weighed, looked_up, crossed,    joined,  spectral};
static block *const sequences[] = {ANY,       attention,      attention,   recurrent,    recurrent,
                                   recurrent, convolved_line, pooled_line, through_time, spectral};
static block *const images[] = {
    dropout, noise,  gate,    chosen,     convolution, convolution, grouped, convolution_in_step, transposed,
    volume,  pooled, resized, image_norm, image_norm,  shuffled,    padded,  spectral_convolution};
#undef ANY
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* The last block of each table is the one with state of each rank's own. */
static block *draw(const random_net *n, test_random *r) {
    static const struct {
        block *const *blocks;
        int count;
    } tables[] = {{features, COUNT(features)}, {sequences, COUNT(sequences)}, {images, COUNT(images)}};
    return tables[n->kind].blocks[random_below(r, tables[n->kind].count - !n->is_local)];
}

random_net net_draw(test_random *r, const char *name, net_kind kind, bool is_local) {
    return (random_net){name, kind, 1 + random_below(r, MOST_BLOCKS), is_local, random_bits(r)};
}

/* [B, features] of what the blocks leave. */
static weft_value *flat(weft_value *x, const random_net *n, test_random *r) {
    int64_t last = weft_dim(x, 1);
    if (n->kind == NET_FEATURES) return x;
    if (n->kind == NET_IMAGE)
        return random_one_in(r, 3) ? weft_flatten(x, 1) : weft_mean(x, 2, (int64_t[]){2, 3}, false);
    if (random_one_in(r, 2)) return weft_mean(x, 1, (int64_t[]){1}, false);
    return weft_squeeze(weft_slice(x, 1, last - 1, last), 1);
}

weft_value *net_build(weft_value *x, const random_net *n, int64_t out) {
    test_random own = {n->seed};
    char name[20];
    WEFT_SCOPE(x, n->name) {
        for (int i = 0; i < n->blocks; i++) {
            block *b = draw(n, &own);
            snprintf(name, sizeof name, "b%d", i);
            WEFT_SCOPE(x, name)
            x = b(x, &own);
        }
        x = weft_linear(flat(x, n, &own), out, "last", NULL);
    }
    return x;
}
