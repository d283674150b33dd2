/* zoo_mobilenet.c - MobileNetV2 of weft-zoo, with the names and initial values of torchvision's
 * mobilenet_v2. Sandler et al., arXiv 1801.04381, table 2: inverted residuals, that is a 1x1 convolution
 * to more channels, a 3x3 convolution of each channel alone, and a 1x1 convolution back without an
 * activation. */
#include "zoo.h"

#include <math.h>
#include <stdio.h>

/* A convolution and its BatchNorm, named `conv` and `bn`. Initial values as
 * kaiming_normal_(mode="fan_out"). */
static weft_value *conv_bn(weft_value *x, weft_conv c, const char *conv, const char *bn) {
    const weft_init normal = {WEFT_INIT_NORMAL, 0, sqrt(2.0 / (double)(c.out * c.kernel * c.kernel))};
    c.pad = c.kernel / 2;
    c.no_bias = true;
    c.weight = &normal;
    return weft_batch_norm(weft_conv2d(x, &c, conv), bn, NULL);
}

static weft_value *conv_bn_relu6(weft_value *x, weft_conv c, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_relu6(conv_bn(x, c, "0", "1"));
    }
    return x;
}

/* [B,C,H,W] -> [B,out,H/stride,W/stride]; the middle has `expand` times C channels. */
static weft_value *inverted_residual(weft_value *x, int64_t expand, int64_t out, int64_t stride) {
    int64_t in = weft_dim(x, 1), middle = in * expand;
    weft_value *y = x;
    WEFT_SCOPE(x, "conv") {
        if (expand > 1) y = conv_bn_relu6(y, (weft_conv){.out = middle, .kernel = 1}, "0");
        y = conv_bn_relu6(y, (weft_conv){.out = middle, .kernel = 3, .stride = stride, .groups = middle},
                          expand > 1 ? "1" : "0");
        y = conv_bn(y, (weft_conv){.out = out, .kernel = 1}, expand > 1 ? "2" : "1", expand > 1 ? "3" : "2");
    }
    return stride == 1 && in == out ? weft_add(x, y) : y;
}

static weft_value *mobilenet_features(weft_value *x, const zoo_options *o) {
    static const struct stage {
        int64_t expand, out, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int number = 0;
    x = conv_bn_relu6(x, (weft_conv){.out = zoo_width(o, 32), .kernel = 3, .stride = 2}, "0");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        for (int64_t j = 0; j < stages[i].blocks; j++) {
            char name[16];
            snprintf(name, sizeof name, "%d", ++number);
            WEFT_SCOPE(x, name) {
                x = inverted_residual(x, stages[i].expand, zoo_width(o, stages[i].out),
                                      j ? 1 : stages[i].stride);
            }
        }
    return conv_bn_relu6(x, (weft_conv){.out = zoo_width(o, 1280), .kernel = 1}, "18");
}

/* [B,3,224,224] -> [B,1000] */
static weft_value *mobilenet_logits(weft_value *x, const zoo_options *o) {
    const weft_init normal = {WEFT_INIT_NORMAL, 0, 0.01}, zeros = {WEFT_INIT_ZEROS};
    WEFT_SCOPE(x, "features") {
        x = mobilenet_features(x, o);
    }
    x = weft_dropout(weft_mean(x, 2, (int64_t[]){2, 3}, false), 0.2);
    WEFT_SCOPE(x, "classifier") {
        x = weft_linear(x, 1000, "1", &(weft_linear_options){.weight = &normal, .bias = &zeros});
    }
    return x;
}

void zoo_mobilenet_v2(weft_model *m, const zoo_options *o) {
    weft_optimizer sgd = {.type = "sgd", .lr = 0.045, .momentum = 0.9, .weight_decay = 4e-5};
    zoo_classify(m, o, &(zoo_classifier){zoo_image224, mobilenet_logits, zoo_label, sgd});
    weft_model_set_ddp(m, "", NULL); /* one subgraph, although it has two top-level scopes */
}
