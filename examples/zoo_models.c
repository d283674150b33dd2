/* zoo_models.c - the list of weft-zoo's models, the parts that they share, and the small classifiers (the
 * others: zoo_NAME.c).
 *
 * All but convnet equal the cases that bench/torch_cpu.py and bench/torch_gpu.py time in PyTorch, layer by
 * layer: sizes, biases, initial values, losses, optimizers. convnet is a Fashion-MNIST classifier. Each model
 * has its training graphs, `val` (eval mode; losses, and `accuracy` where there are labels: means over the
 * batch) and `predict`. Models of Fashion-MNIST take images and labels as they are in the files: u8[B,28,28]
 * and u8[B]. */
#include "zoo.h"

/* ---- shared pieces ---- */

weft_value *zoo_pixels(weft_graph *g, double mean, double deviation) {
    weft_value *image = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
    weft_value *x = weft_reshape(weft_cast(image, WEFT_F32), WEFT_SHAPE(WEFT_BATCH, 1, 28, 28));
    return weft_offset(weft_scale(x, 1 / (255 * deviation)), -mean / deviation);
}

weft_value *zoo_accuracy(weft_value *logits, weft_value *target) {
    weft_value *wanted = weft_cast(target, WEFT_I64);
    weft_value *right = weft_equal(weft_argmax(logits, -1, false), wanted);
    return weft_mean(weft_cast(right, WEFT_F32), WEFT_ALL, false);
}

weft_value *zoo_image(weft_graph *g, const zoo_options *o, int64_t side) {
    weft_dtype dtype = o->pictures ? WEFT_U8 : WEFT_F32;
    weft_value *image = weft_input(g, "image", dtype, WEFT_SHAPE(WEFT_BATCH, 3, side, side));
    const weft_preprocess_options how = {.mean = {123.675, 116.28, 103.53}, .std = {58.395, 57.12, 57.375}};
    return o->pictures ? weft_preprocess(image, NULL, &how) : image;
}

weft_value *zoo_image224(weft_graph *g, const zoo_options *o) {
    return zoo_image(g, o, 224);
}

weft_value *zoo_label(weft_graph *g, const zoo_options *o) {
    return weft_input(g, "label", o->pictures ? WEFT_I64 : WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
}

weft_value *zoo_to_pixels(weft_value *x) {
    return weft_cast(weft_offset(weft_scale(x, 127.5), 128), WEFT_U8);
}

weft_value *zoo_words(weft_graph *g, const char *name, int64_t length) {
    return weft_input(g, name, WEFT_I32, WEFT_SHAPE(WEFT_BATCH, length));
}

weft_value *zoo_word_loss(weft_value *logits) {
    weft_value *target = zoo_words(weft_value_graph(logits), "target", weft_dim(logits, 1));
    weft_value *rows = weft_reshape(logits, WEFT_SHAPE(-1, weft_dim(logits, 2)));
    return weft_cross_entropy(rows, weft_reshape(target, WEFT_SHAPE(-1)), NULL);
}

weft_value *zoo_split_heads(weft_value *x, int64_t heads) {
    x = weft_reshape(x, WEFT_SHAPE(-1, weft_dim(x, 1), heads, weft_dim(x, 2) / heads));
    return weft_permute(x, (int64_t[]){0, 2, 1, 3});
}

weft_value *zoo_join_heads(weft_value *x) {
    int64_t times = weft_dim(x, 2), d = weft_dim(x, 1) * weft_dim(x, 3);
    return weft_reshape(weft_permute(x, (int64_t[]){0, 2, 1, 3}), WEFT_SHAPE(-1, times, d));
}

const weft_optimizer *zoo_optimizer(const zoo_options *o, const weft_optimizer *own) {
    return o->optimizer ? o->optimizer : own;
}

int64_t zoo_width(const zoo_options *o, int64_t width) {
    return o->narrow > 1 && width >= o->narrow ? width / o->narrow : width;
}

/* The three graphs share parameters, because their layers have the same paths. */
void zoo_classify(weft_model *m, const zoo_options *o, const zoo_classifier *c) {
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *logits = c->logits(c->input(g, o), o), *target = c->target(g, o);
    weft_value *loss = weft_cross_entropy(logits, target, NULL);
    weft_minimize(loss, "", zoo_optimizer(o, &c->optimizer));
    weft_output(loss, "loss");

    g = weft_graph_new(m, "val", WEFT_EVAL);
    logits = c->logits(c->input(g, o), o);
    target = c->target(g, o);
    weft_output(weft_cross_entropy(logits, target, NULL), "loss");
    weft_output(zoo_accuracy(logits, target), "accuracy");
    weft_output(logits, "logits"); /* for evaluators */

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
    return weft_input(g, "label", WEFT_U8, WEFT_SHAPE(WEFT_BATCH));
}

/* ---- mlp: 784-1024-1024-10 ---- */

static weft_value *mlp_logits(weft_value *x, const zoo_options *o) {
    WEFT_SCOPE(x, "net") {
        x = weft_flatten(x, 1);
        x = weft_relu(weft_linear(x, zoo_width(o, 1024), "fc1", NULL));
        x = weft_relu(weft_linear(x, zoo_width(o, 1024), "fc2", NULL));
        x = weft_linear(x, 10, "fc3", NULL);
    }
    return x;
}

static void mlp(weft_model *m, const zoo_options *o) {
    zoo_classify(m, o, &(zoo_classifier){fashion_input, mlp_logits, label_u8, {.type = "adam", .lr = 1e-3}});
}

/* ---- convnet: two pairs of 3x3 convolutions, 93.2% on Fashion-MNIST after five epochs ---- */

static weft_value *conv_bn_relu(weft_value *x, int64_t out, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_conv2d(x, &(weft_conv){.out = out, .kernel = 3, .pad = 1, .no_bias = true}, "conv");
        x = weft_relu(weft_batch_norm(x, "bn", NULL));
    }
    return x;
}

/* [B,1,28,28] -> [B,10]; each pool halves height and width. */
static weft_value *convnet_logits(weft_value *x, const zoo_options *o) {
    const weft_pool half = {.kernel = {2, 2}};
    WEFT_SCOPE(x, "net") {
        x = conv_bn_relu(x, zoo_width(o, 32), "conv1");
        x = weft_max_pool2d(conv_bn_relu(x, zoo_width(o, 32), "conv2"), &half);
        x = conv_bn_relu(x, zoo_width(o, 64), "conv3");
        x = weft_max_pool2d(conv_bn_relu(x, zoo_width(o, 64), "conv4"), &half);
        x = weft_dropout(weft_flatten(x, 1), 0.25);
        x = weft_dropout(weft_relu(weft_linear(x, zoo_width(o, 128), "fc1", NULL)), 0.25);
        x = weft_linear(x, 10, "fc2", NULL);
    }
    return x;
}

static void convnet(weft_model *m, const zoo_options *o) {
    weft_schedule cosine = {WEFT_SCHEDULE_COSINE, .warmup = 100, .end = o->schedule_steps, .to = 0.01};
    /* A schedule shorter than the warm-up would be an error. */
    if (cosine.warmup >= cosine.end) cosine.warmup = 0;
    zoo_classify(
        m, o,
        &(zoo_classifier){fashion_input,
                          convnet_logits,
                          label_u8,
                          {.type = "adamw", .lr = 2e-3, .weight_decay = 1e-2, .schedule = {cosine}}});
}

/* ---- the list ---- */

const zoo_entry zoo_models[ZOO_MODELS] = {
    {"mlp", 256, mlp, "784-1024-1024-10 ReLU classifier of Fashion-MNIST, Adam"},
    {"convnet", 128, convnet, "four 3x3 convolutions with BatchNorm, Fashion-MNIST, AdamW with a cosine"},
    {"dcgan28", 128, zoo_dcgan28, "DCGAN of 28x28 gray images: graphs d_step and g_step"},
    {"dcgan", 32, zoo_dcgan, "DCGAN of 64x64 colour images, the five-layer networks of PyTorch's example"},
    {"gpt", 8, zoo_gpt, "GPT, 6 layers of 384, 256 tokens of 65 characters, AdamW (--layers, --d, ...)",
     &zoo_gpt_own},
    {"resnet18", 32, zoo_resnet18, "ResNet-18 for 32x32 images, SGD with momentum", .takes_pictures = true},
    {"gpt2_124m", 8, zoo_gpt2, "GPT-2 of 124 million parameters, 1024 tokens of 50304, AdamW, clipping",
     &zoo_gpt2_own},
    {"resnet50", 32, zoo_resnet50, "ResNet-50 for ImageNet, named as torchvision's, SGD with momentum",
     .takes_pictures = true},
    {"vae", 128, zoo_vae, "variational autoencoder of 28x28 gray images, 784-400-20, Adam"},
    {"wgan_gp", 64, zoo_wgan_gp, "WGAN of 28x28 gray images with a gradient penalty: d_step and g_step"},
    {"mobilenet_v2", 32, zoo_mobilenet_v2, "MobileNetV2 for ImageNet, named as torchvision's, SGD",
     .takes_pictures = true},
    {"vit_tiny", 32, zoo_vit_tiny, "ViT-Ti/16 for ImageNet, named as timm's, AdamW", .takes_pictures = true},
    {"bert_tiny", 32, zoo_bert_tiny, "BERT-tiny on masked words, named as Hugging Face's, AdamW"},
    {"lstm_char", 32, zoo_lstm_char, "two layers of LSTM, 64 characters of 65, Adam, clipping"},
    {"llama_tiny", 8, zoo_llama_tiny, "Llama of 6 layers of 288, 256 tokens, named as Hugging Face's, AdamW"},
    {"unet_ddpm", 32, zoo_unet_ddpm, "denoising diffusion of 32x32 colour images: a U-Net with attention"},
    {"byol", 64, zoo_byol, "BYOL on two views of 32x32 images: graphs train and teacher"},
    {"simclr", 64, zoo_simclr, "SimCLR on two views of 32x32 images, negatives over all ranks, Adam"},
    {"moco", 64, zoo_moco, "MoCo on two views of 32x32 images, a queue of 4096 keys: graphs key and train"},
    {"dino", 32, zoo_dino, "DINO: a small ViT on two global and four local crops: graphs teacher and train"},
    {"moe", 16, zoo_moe,
     "a GPT of 4 layers with 8 experts each, top-2 with a capacity, 64 characters, AdamW"},
    {"cyclegan", 1, zoo_cyclegan,
     "CycleGAN between two kinds of 64x64 images, named as pytorch-CycleGAN's: two optimizers in train"},
    {"convnet_twice", 128, zoo_convnet_twice,
     "a classifier of 28x28 images trained twice on a batch: graphs plain and augmented"},
};
