/* zoo_resnet.c - the ResNets of weft-zoo (He et al. 2015, arXiv:1512.03385): 18 layers for 32x32 images, 50
 * layers for ImageNet. resnet50 has torchvision's parameter names, without a scope around them, so that a
 * state_dict of torchvision, saved as safetensors, loads without renaming. */
#include "zoo.h"

#include <math.h>
#include <stdio.h>

/* ---- resnet18 for 32x32 images: 3x3 stem without pooling ---- */

static weft_value *conv_bn(weft_value *x, int64_t out, int64_t kernel, int64_t stride, const char *conv,
                           const char *bn) {
    weft_conv c = {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .no_bias = true};
    return weft_batch_norm(weft_conv2d(x, &c, conv), bn, NULL);
}

/* relu(bn(conv(relu(bn(conv(x))))) + shortcut); the shortcut is a 1x1 convolution where the shape changes. */
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

/* [B,3,32,32] -> [B,10]; four stages of two blocks, with 64 to 512 channels. */
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
        x = weft_linear(x, 10, "fc", NULL);
    }
    return x;
}

static weft_value *image32(weft_graph *g, const zoo_options *o) {
    return zoo_image(g, o, 32);
}

void zoo_resnet18(weft_model *m, const zoo_options *o) {
    weft_optimizer sgd = {.type = "sgd", .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4};
    zoo_classify(m, o, &(zoo_classifier){image32, resnet18_logits, zoo_label, sgd});
}

/* ---- resnet50: bottlenecks "v1.5" as in torchvision, with the stride in the 3x3 convolution ---- */

/* torchvision's kaiming_normal_(mode="fan_out", nonlinearity="relu"): deviation sqrt(2 / (out k k)). */
static weft_value *fan_out_conv_bn(weft_value *x, int64_t out, int64_t kernel, int64_t stride,
                                   const char *conv, const char *bn) {
    const weft_init normal = {WEFT_INIT_NORMAL, 0, sqrt(2.0 / (double)(out * kernel * kernel))};
    weft_conv c = {.out = out,
                   .kernel = kernel,
                   .stride = stride,
                   .pad = kernel / 2,
                   .no_bias = true,
                   .weight = &normal};
    return weft_batch_norm(weft_conv2d(x, &c, conv), bn, NULL);
}

/* 1x1, 3x3 and 1x1 convolutions around a narrow middle; the result has 4 * width channels. */
static weft_value *bottleneck(weft_value *x, int64_t width, int64_t stride, const char *name) {
    WEFT_SCOPE(x, name) {
        weft_value *y = weft_relu(fan_out_conv_bn(x, width, 1, 1, "conv1", "bn1"));
        y = weft_relu(fan_out_conv_bn(y, width, 3, stride, "conv2", "bn2"));
        y = fan_out_conv_bn(y, 4 * width, 1, 1, "conv3", "bn3");
        if (stride != 1 || weft_dim(x, 1) != 4 * width) {
            WEFT_SCOPE(x, "downsample") {
                x = fan_out_conv_bn(x, 4 * width, 1, stride, "0", "1");
            }
        }
        x = weft_relu(weft_add(y, x));
    }
    return x;
}

/* [B,3,224,224] -> [B,1000]; four stages of bottlenecks. */
static weft_value *resnet50_logits(weft_value *x, const zoo_options *o) {
    static const int blocks[] = {3, 4, 6, 3};
    x = weft_relu(fan_out_conv_bn(x, zoo_width(o, 64), 7, 2, "conv1", "bn1"));
    x = weft_max_pool2d(x, &(weft_pool){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    for (int i = 0; i < 4; i++) {
        char layer[24], block[24];
        snprintf(layer, sizeof layer, "layer%d", i + 1);
        WEFT_SCOPE(x, layer) {
            for (int j = 0; j < blocks[i]; j++) {
                snprintf(block, sizeof block, "%d", j);
                x = bottleneck(x, zoo_width(o, 64) << i, i && !j ? 2 : 1, block);
            }
        }
    }
    return weft_linear(weft_flatten(weft_adaptive_avg_pool2d(x, 1, 1), 1), 1000, "fc", NULL);
}

void zoo_resnet50(weft_model *m, const zoo_options *o) {
    weft_optimizer sgd = {.type = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4};
    zoo_classify(m, o, &(zoo_classifier){zoo_image224, resnet50_logits, zoo_label, sgd});
    weft_model_set_ddp(m, "", NULL); /* one subgraph, although it has several top-level scopes */
}
