/* zoo_models.c - the models of weft-zoo and their list (the GANs: zoo_gan.c).
 *
 * mlp, dcgan28, dcgan, gpt and resnet18 are, to the layer, the cases that bench/torch_cpu.py times in
 * PyTorch: sizes, biases, initial values, losses, optimizers. convnet is a Fashion-MNIST classifier. Each
 * model has its training graphs, `val` (eval mode; losses, and `accuracy` where there are labels: means over
 * the batch) and `predict`. Models of Fashion-MNIST take images and labels as the files have them:
 * u8[B,28,28] and u8[B].
 */
#include "zoo.h"

#include <stdio.h>

/* ---- shared pieces ---- */

weft_value *zoo_pixels(weft_graph *g, double mean, double deviation) {
    weft_value *image = weft_input(g, "image", WEFT_U8, SHAPE(WEFT_BATCH, 28, 28));
    weft_value *x = weft_reshape(weft_cast(image, WEFT_F32), SHAPE(WEFT_BATCH, 1, 28, 28));
    return weft_offset(weft_scale(x, 1 / (255 * deviation)), -mean / deviation);
}

/* The share of rows whose largest logit is the target's. */
static weft_value *accuracy(weft_value *logits, weft_value *target) {
    weft_value *right = weft_equal(weft_argmax(logits, -1, false), weft_cast(target, WEFT_I64));
    return weft_mean(weft_cast(right, WEFT_F32), 0, NULL, false);
}

/* A classifier: graphs train, val and predict around logits(input). */
typedef struct classifier {
    weft_value *(*input)(weft_graph *g, const zoo_options *o);
    weft_value *(*logits)(weft_value *x, const zoo_options *o);
    weft_value *(*target)(weft_graph *g, const zoo_options *o);
    weft_optimizer optimizer;
} classifier;

const weft_optimizer *zoo_optimizer(const zoo_options *o, const weft_optimizer *own) {
    return o->optimizer ? o->optimizer : own;
}

int64_t zoo_width(const zoo_options *o, int64_t width) {
    return o->narrow > 1 && width >= o->narrow ? width / o->narrow : width;
}

static void classifier_graphs(weft_model *m, const zoo_options *o, const classifier *c) {
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *logits = c->logits(c->input(g, o), o), *target = c->target(g, o);
    weft_value *loss = weft_cross_entropy(logits, target);
    weft_minimize(loss, "", zoo_optimizer(o, &c->optimizer));
    weft_output(loss, "loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    logits = c->logits(c->input(g, o), o);
    target = c->target(g, o);
    weft_output(weft_cross_entropy(logits, target), "loss");
    weft_output(accuracy(logits, target), "accuracy");

    g = weft_graph_new(m, "predict", WEFT_EVAL);
    logits = c->logits(c->input(g, o), o);
    weft_output(weft_softmax(logits, -1), "probabilities");
    weft_output(weft_argmax(logits, -1, false), "class");
}

static weft_value *fashion_input(weft_graph *g, const zoo_options *o) {
    (void)o;
    return zoo_pixels(g, 0.2860, 0.3530); /* mean and deviation of the training images */
}

static weft_value *label_u8(weft_graph *g, const zoo_options *o) {
    (void)o;
    return weft_input(g, "label", WEFT_U8, SHAPE(WEFT_BATCH));
}

/* ---- mlp: 784-1024-1024-10 ---- */

static weft_value *mlp_logits(weft_value *x, const zoo_options *o) {
    WEFT_SCOPE(x, "net") {
        x = weft_flatten(x, 1);
        x = weft_relu(weft_linear(x, zoo_width(o, 1024), "fc1"));
        x = weft_relu(weft_linear(x, zoo_width(o, 1024), "fc2"));
        x = weft_linear(x, 10, "fc3");
    }
    return x;
}

static void mlp(weft_model *m, const zoo_options *o) {
    classifier_graphs(m, o, &(classifier){fashion_input, mlp_logits, label_u8, {.type = "adam", .lr = 1e-3}});
}

/* ---- convnet: two pairs of 3x3 convolutions, 93.2% on Fashion-MNIST after five epochs ---- */

static weft_value *conv_bn_relu(weft_value *x, int64_t out, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_conv2d(x, &(weft_conv){.out = out, .kernel = 3, .pad = 1, .no_bias = true}, "conv");
        x = weft_relu(weft_batch_norm(x, "bn"));
    }
    return x;
}

static weft_value *convnet_logits(weft_value *x, const zoo_options *o) {
    const weft_pool half = {.kernel = {2, 2}};
    WEFT_SCOPE(x, "net") {
        x = conv_bn_relu(x, zoo_width(o, 32), "conv1");
        x = weft_max_pool2d(conv_bn_relu(x, zoo_width(o, 32), "conv2"), &half);
        x = conv_bn_relu(x, zoo_width(o, 64), "conv3");
        x = weft_max_pool2d(conv_bn_relu(x, zoo_width(o, 64), "conv4"), &half);
        x = weft_dropout(weft_flatten(x, 1), 0.25);
        x = weft_dropout(weft_relu(weft_linear(x, zoo_width(o, 128), "fc1")), 0.25);
        x = weft_linear(x, 10, "fc2");
    }
    return x;
}

static void convnet(weft_model *m, const zoo_options *o) {
    weft_schedule cosine = {WEFT_SCHEDULE_COSINE, .warmup_steps = 100, .total_steps = o->schedule_steps,
                            .floor = 0.01};
    if (cosine.warmup_steps >= cosine.total_steps) cosine.warmup_steps = 0;
    classifier_graphs(m, o,
                      &(classifier){fashion_input,
                                    convnet_logits,
                                    label_u8,
                                    {.type = "adamw", .lr = 2e-3, .weight_decay = 1e-2, .schedule = cosine}});
}

/* ---- resnet18 for 32x32 images: 3x3 stem without pooling ---- */

static weft_value *conv_bn(weft_value *x, int64_t out, int64_t kernel, int64_t stride, const char *conv,
                           const char *bn) {
    weft_conv c = {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .no_bias = true};
    return weft_batch_norm(weft_conv2d(x, &c, conv), bn);
}

static weft_value *basic_block(weft_value *x, int64_t out, int64_t stride, const char *name) {
    WEFT_SCOPE(x, name) {
        weft_value *shortcut = x;
        if (stride != 1 || weft_dim(x, 1) != out)
            shortcut = conv_bn(x, out, 1, stride, "short_conv", "short_bn");
        weft_value *y = weft_relu(conv_bn(x, out, 3, stride, "conv1", "bn1"));
        x = weft_relu(weft_add(conv_bn(y, out, 3, 1, "conv2", "bn2"), shortcut));
    }
    return x;
}

static weft_value *resnet18_logits(weft_value *x, const zoo_options *o) {
    (void)o;
    WEFT_SCOPE(x, "net") {
        x = weft_relu(conv_bn(x, 64, 3, 1, "conv1", "bn1"));
        for (int i = 0; i < 4; i++) {
            char name[24];
            snprintf(name, sizeof name, "layer%d", i + 1);
            WEFT_SCOPE(x, name) {
                x = basic_block(x, 64 << i, i ? 2 : 1, "0");
                x = basic_block(x, 64 << i, 1, "1");
            }
        }
        x = weft_flatten(weft_adaptive_avg_pool2d(x, 1, 1), 1);
        x = weft_linear(x, 10, "fc");
    }
    return x;
}

static weft_value *image32(weft_graph *g, const zoo_options *o) {
    (void)o;
    return weft_input(g, "image", WEFT_F32, SHAPE(WEFT_BATCH, 3, 32, 32));
}

static weft_value *label_i32(weft_graph *g, const zoo_options *o) {
    (void)o;
    return weft_input(g, "label", WEFT_I32, SHAPE(WEFT_BATCH));
}

static void resnet18(weft_model *m, const zoo_options *o) {
    weft_optimizer sgd = {.type = "sgd", .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4};
    classifier_graphs(m, o, &(classifier){image32, resnet18_logits, label_i32, sgd});
}

/* ---- gpt: GPT-2's blocks (pre-norm, GELU by tanh, learned positions), a head of its own ---- */

static const weft_init gpt_init = {WEFT_INIT_NORMAL, 0, 0.02}, gpt_bias = {WEFT_INIT_ZEROS};

static weft_value *gpt_linear(weft_value *x, int64_t out, const char *name) {
    return weft_linear_with(x, out, name, &(weft_linear_options){.weight = &gpt_init, .bias = &gpt_bias});
}

/* Columns `part` of three of qkv[B,T,3d] as heads: [B,H,T,d/H]. */
static weft_value *gpt_heads(weft_value *qkv, int part, const zoo_options *o) {
    weft_value *x = weft_slice(qkv, 2, part * o->d, (part + 1) * o->d);
    return weft_permute(weft_reshape(x, SHAPE(WEFT_BATCH, o->ctx, o->heads, o->d / o->heads)),
                        (int64_t[]){0, 2, 1, 3});
}

static weft_value *gpt_block(weft_value *x, const zoo_options *o, const char *name) {
    WEFT_SCOPE(x, name) {
        weft_value *qkv = gpt_linear(weft_layer_norm(x, "ln1"), 3 * o->d, "qkv");
        weft_value *y =
            weft_attention(gpt_heads(qkv, 0, o), gpt_heads(qkv, 1, o), gpt_heads(qkv, 2, o), true, 0);
        y = weft_reshape(weft_permute(y, (int64_t[]){0, 2, 1, 3}), SHAPE(WEFT_BATCH, o->ctx, o->d));
        x = weft_add(x, gpt_linear(y, o->d, "proj"));
        y = weft_gelu_tanh(gpt_linear(weft_layer_norm(x, "ln2"), 4 * o->d, "fc"));
        x = weft_add(x, gpt_linear(y, o->d, "out"));
    }
    return x;
}

/* tokens [B,T] -> logits [B,T,vocab] */
static weft_value *gpt_body(weft_value *tokens, const zoo_options *o) {
    weft_value *x = tokens, *position = NULL;
    WEFT_SCOPE(tokens, "gpt") {
        x = weft_embedding(tokens, o->vocab, o->d, "wte", &gpt_init);
        WEFT_SCOPE(x, "wpe") {
            position = weft_parameter(x, "weight", SHAPE(o->ctx, o->d), gpt_init);
        }
        x = weft_add(x, position);
        WEFT_SCOPE(x, "blocks") {
            for (int i = 0; i < o->layers; i++) {
                char name[24];
                snprintf(name, sizeof name, "%d", i);
                x = gpt_block(x, o, name);
            }
        }
        x = weft_layer_norm(x, "ln_f");
        x = weft_linear_with(x, o->vocab, "head",
                             &(weft_linear_options){.no_bias = true, .weight = &gpt_init});
    }
    return x;
}

static weft_value *gpt_rows(weft_value *tokens, const zoo_options *o) {
    return weft_reshape(gpt_body(tokens, o), SHAPE(-1, o->vocab));
}

static weft_value *gpt_tokens(weft_graph *g, const zoo_options *o) {
    return weft_input(g, "tokens", WEFT_I32, SHAPE(WEFT_BATCH, o->ctx));
}

static weft_value *gpt_target(weft_graph *g, const zoo_options *o) {
    return weft_reshape(weft_input(g, "target", WEFT_I32, SHAPE(WEFT_BATCH, o->ctx)), SHAPE(-1));
}

static void gpt(weft_model *m, const zoo_options *o) {
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *loss = weft_cross_entropy(gpt_rows(gpt_tokens(g, o), o), gpt_target(g, o));
    const weft_optimizer adamw = {.type = "adamw", .lr = 3e-4, .weight_decay = 0.1};
    weft_minimize(loss, "", zoo_optimizer(o, &adamw));
    weft_output(loss, "loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *logits = gpt_rows(gpt_tokens(g, o), o), *target = gpt_target(g, o);
    weft_output(weft_cross_entropy(logits, target), "loss");
    weft_output(accuracy(logits, target), "accuracy");

    g = weft_graph_new(m, "predict", WEFT_EVAL);
    logits = gpt_body(gpt_tokens(g, o), o);
    weft_output(logits, "logits");
    weft_output(weft_argmax(weft_slice(logits, 1, -1, INT64_MAX), -1, false),
                "next"); /* after the last token */
}

/* ---- the list ---- */

const zoo_entry zoo_models[ZOO_MODELS] = {
    {"mlp", 256, mlp, "784-1024-1024-10 ReLU classifier of Fashion-MNIST, Adam"},
    {"convnet", 128, convnet, "four 3x3 convolutions with BatchNorm, Fashion-MNIST, AdamW with a cosine"},
    {"dcgan28", 128, zoo_dcgan28, "DCGAN of 28x28 gray images: graphs d_step and g_step"},
    {"dcgan", 32, zoo_dcgan, "DCGAN of 64x64 colour images, the five-layer networks of PyTorch's example"},
    {"gpt", 8, gpt, "GPT, 6 layers of 384, 256 tokens of 65 characters, AdamW (--layers, --d, ...)"},
    {"resnet18", 32, resnet18, "ResNet-18 for 32x32 images, SGD with momentum"},
};
