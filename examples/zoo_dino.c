/* zoo_dino.c - DINO of weft-zoo: Caron et al., arXiv 2104.14294. A student that sees global and local crops
 * of an image is to say what a teacher says of the global ones; the teacher follows the student, and its
 * outputs are centred by a mean over all ranks and sharpened by a temperature, so that they do not
 * collapse. Small: ViT of 4 layers of 192 on patches of 4 x 4 pixels, crops of 32 x 32 and 16 x 16 pixels,
 * 4096 outputs.
 *
 * Numbers that change with the steps are inputs: "teacher_temp", "momentum" (graph teacher).
 *     graphtool train dino.bin --set teacher_temp=linear:0.04:0.07:3000 --set
 *     momentum=cosine:0.996:1:100000 ... */
#include "zoo.h"

#include <stdio.h>

enum { PATCH = 4, GLOBAL = 32, LOCAL = 16, GLOBALS = 2, LOCALS = 4, CROPS = GLOBALS + LOCALS };
#define STUDENT_TEMPERATURE 0.1
#define CENTRE_KEEPS        0.9

static const weft_init dino_init = {WEFT_INIT_NORMAL, 0, 0.02};

static weft_value *attention(weft_value *x) {
    int64_t d = weft_dim(x, 2), heads = d % 64 ? 2 : d / 64;
    weft_value *all = weft_linear(x, 3 * d, "qkv", NULL), *part[3];
    for (int i = 0; i < 3; i++) part[i] = zoo_split_heads(weft_slice(all, 2, i * d, (i + 1) * d), heads);
    x = zoo_join_heads(weft_attention(part[0], part[1], part[2], NULL));
    return weft_linear(x, d, "proj", NULL);
}

static weft_value *block(weft_value *x, const char *name) {
    int64_t d = weft_dim(x, 2);
    WEFT_SCOPE(x, name) {
        x = weft_add(x, attention(weft_layer_norm(x, "norm1", NULL)));
        weft_value *wide = weft_gelu(weft_linear(weft_layer_norm(x, "norm2", NULL), 4 * d, "fc1", NULL));
        x = weft_add(x, weft_linear(wide, d, "fc2", NULL));
    }
    return x;
}

/* [N,3,s,s] -> [N,T,d]: a row in front that the image is read from, then one a patch. Crops of another
 * size than the global ones share all parameters: positions are interpolated. */
static weft_value *tokens(weft_value *x, int64_t d) {
    int64_t side = weft_dim(x, 2) / PATCH, whole = GLOBAL / PATCH;
    weft_value *first = weft_parameter(x, "cls_token", WEFT_SHAPE(1, 1, d), dino_init);
    weft_value *places = weft_parameter(x, "pos_embed", WEFT_SHAPE(1, d, whole, whole), dino_init);
    if (side != whole)
        places = weft_interpolate(
            places, &(weft_interpolation){.size = {side, side}, .mode = WEFT_INTERPOLATE_BILINEAR});
    places = weft_transpose(weft_flatten(places, 2), 1, 2);
    x = weft_conv2d(x, &(weft_conv){.out = d, .kernel = PATCH, .stride = PATCH}, "patch_embed");
    x = weft_pad(weft_transpose(weft_flatten(x, 2), 1, 2), 1, 1, 0);
    return weft_add(x, weft_concat(2, (weft_value *[]){first, places}, 1));
}

/* An image's representation: [N, d]. */
static weft_value *backbone(weft_value *x, const zoo_options *o) {
    x = tokens(x, zoo_width(o, 192));
    x = block(block(block(block(x, "block1"), "block2"), "block3"), "block4");
    return weft_squeeze(weft_slice(weft_layer_norm(x, "norm", NULL), 1, 0, 1), 1);
}

/* The weights of the last layer have length 1: zoo_dino freezes their magnitudes. */
static weft_value *network(weft_value *x, const zoo_options *o, const char *name) {
    const weft_linear_options last = {.no_bias = true, .parametrization = WEFT_WEIGHT_NORM};
    WEFT_SCOPE(x, name) {
        x = backbone(x, o);
        WEFT_SCOPE(x, "head") {
            x = weft_gelu(weft_linear(x, zoo_width(o, 512), "fc1", NULL));
            x = weft_normalize(weft_linear(x, zoo_width(o, 128), "fc2", NULL), -1, 0);
            x = weft_linear(x, zoo_width(o, 4096), "last", &last);
        }
    }
    return x;
}

/* n crops of one size go through the network at once: [n, B, outputs]. */
static weft_value *outputs(weft_value *const *crops, int n, const zoo_options *o, const char *name) {
    weft_value *y = network(weft_concat(n, crops, 0), o, name);
    return weft_reshape(y, WEFT_SHAPE(n, -1, weft_dim(y, 1)));
}

static weft_value *crop(weft_graph *g, int i) {
    char name[16];
    int64_t side = i < GLOBALS ? GLOBAL : LOCAL;
    snprintf(name, sizeof name, "crop%d", i);
    return weft_input(g, name, WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3, side, side));
}

static weft_value *at(weft_value *all, int i) {
    return weft_reshape(weft_slice(all, 0, i, i + 1), WEFT_SHAPE(-1, weft_dim(all, 2)));
}

/* Each of the teacher's two answers against the student's to all other crops, as a mean over the pairs. */
static weft_value *dino_loss(weft_graph *g, const zoo_options *o) {
    weft_value *crops[CROPS];
    for (int i = 0; i < CROPS; i++) crops[i] = crop(g, i);
    weft_value *temperature = weft_input(g, "teacher_temp", WEFT_F32, 0, NULL);
    weft_value *seen = weft_stop_gradient(outputs(crops, GLOBALS, o, "teacher"));
    weft_value *global = outputs(crops, GLOBALS, o, "student");
    weft_value *local = outputs(crops + GLOBALS, LOCALS, o, "student");
    weft_value *said = weft_log_softmax(
        weft_scale(weft_concat(2, (weft_value *[]){global, local}, 0), 1 / STUDENT_TEMPERATURE), -1);
    weft_value *centre = weft_state(seen, "centre", 1, (int64_t[]){weft_dim(seen, 2)}, (weft_init){0});
    weft_value *wanted = weft_softmax(weft_div(weft_sub(seen, centre), temperature), -1);
    weft_value *loss = NULL;
    for (int i = 0; i < GLOBALS; i++)
        for (int k = 0; k < CROPS; k++) {
            if (i == k) continue;
            weft_value *truth = at(wanted, i), *guess = at(said, k);
            weft_value *agree = weft_sum(weft_mul(truth, guess), WEFT_AXES(-1), false);
            weft_value *pair = weft_neg(weft_mean(agree, WEFT_ALL, false));
            loss = loss ? weft_add(loss, pair) : pair;
        }
    loss = weft_scale(loss, 1.0 / (GLOBALS * (CROPS - 1)));
    weft_value *mean = weft_all_reduce(weft_mean(seen, WEFT_AXES(0, 1), false), WEFT_RANKS_MEAN, NULL);
    weft_value *kept = weft_scale(centre, CENTRE_KEEPS);
    weft_assign(centre, weft_add(kept, weft_scale(mean, 1 - CENTRE_KEEPS)));
    weft_output(loss, "loss");
    return loss;
}

void zoo_dino(weft_model *m, const zoo_options *o) {
    static const weft_param_group flat[] = {{.kinds = WEFT_PARAMS_FLAT, .decay_scale = WEFT_ZERO}};
    const weft_optimizer adamw = {
        .type = "adamw", .lr = 5e-4, .weight_decay = 0.04, .clip_norm = 3, .n_groups = 1, .groups = flat};
    weft_graph *teacher = weft_graph_new(m, "teacher", WEFT_EVAL);
    weft_value *loss = dino_loss(weft_graph_new(m, "train", WEFT_TRAIN), o);
    weft_freeze(m, "student/head/last/parametrizations/weight/original0");
    weft_minimize(loss, "student", zoo_optimizer(o, &adamw));
    zoo_follow(teacher, "teacher", "student",
               zoo_after_first(teacher, weft_input(teacher, "momentum", WEFT_F32, 0, NULL)));
    weft_model_set_flow(m, "teacher train");
    weft_value *x = weft_input(weft_graph_new(m, "predict", WEFT_EVAL), "image", WEFT_F32,
                               WEFT_SHAPE(WEFT_BATCH, 3, GLOBAL, GLOBAL));
    WEFT_SCOPE(x, "teacher") x = backbone(x, o);
    weft_output(x, "features");
}
