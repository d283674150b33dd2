/* zoo_twice.c - convnet_twice of weft-zoo: a classifier that is trained twice on each batch, as it is, and
 * cropped and flipped at random. Both training graphs have the same parameters and the same optimizer, whose
 * moments both move. */
#include "zoo.h"

/* Two convolutions and a linear layer: [B,1,28,28] -> [B,10]. */
static weft_value *twice_logits(weft_value *x, const zoo_options *o) {
    const weft_pool half = {.kernel = {2, 2}};
    const weft_conv conv1 = {.out = zoo_width(o, 32), .kernel = 3, .pad = 1};
    const weft_conv conv2 = {.out = zoo_width(o, 64), .kernel = 3, .pad = 1};
    WEFT_SCOPE(x, "net") {
        x = weft_max_pool2d(weft_relu(weft_conv2d(x, &conv1, "conv1")), &half);
        x = weft_max_pool2d(weft_relu(weft_conv2d(x, &conv2, "conv2")), &half);
        x = weft_linear(weft_flatten(x, 1), 10, "fc", NULL);
    }
    return x;
}

/* u8 images, by two pixels to any side and mirrored where `draws` says so (NULL: as they are); normalized. */
static weft_value *twice_pixels(weft_graph *g, weft_value *draws) {
    const weft_preprocess_options moved = {.border = draws ? 2 : 0,
                                           .crop_height = draws ? 28 : 0,
                                           .crop_width = draws ? 28 : 0,
                                           .flip = draws != NULL,
                                           .mean = {255 * 0.2860},
                                           .std = {255 * 0.3530}};
    weft_value *image = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
    return weft_preprocess(weft_reshape(image, WEFT_SHAPE(WEFT_BATCH, 1, 28, 28)), draws, &moved);
}

static weft_value *twice_label(weft_graph *g) {
    return weft_input(g, "label", WEFT_U8, WEFT_SHAPE(WEFT_BATCH));
}

static void twice_train(weft_graph *g, weft_value *draws, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 1e-3};
    weft_value *logits = twice_logits(twice_pixels(g, draws), o);
    weft_value *loss = weft_cross_entropy(logits, twice_label(g), NULL);
    weft_minimize(loss, "", zoo_optimizer(o, &adam));
    weft_output(loss, "loss");
}

void zoo_convnet_twice(weft_model *m, const zoo_options *o) {
    twice_train(weft_graph_new(m, "plain", WEFT_TRAIN), NULL, o);
    weft_graph *g = weft_graph_new(m, "augmented", WEFT_TRAIN);
    twice_train(g, weft_input(g, "draws", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WEFT_PREPROCESS_DRAWS)), o);

    g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *logits = twice_logits(twice_pixels(g, NULL), o), *target = twice_label(g);
    weft_output(weft_cross_entropy(logits, target, NULL), "loss");
    weft_output(zoo_accuracy(logits, target), "accuracy");

    g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(weft_argmax(twice_logits(twice_pixels(g, NULL), o), -1, false), "class");
}
