/* zoo_views.c - what the self-supervised models of weft-zoo share: an encoder of 32 x 32 images, a head
 * of two layers, and networks that follow another. Views are inputs, since augmenting is the data's
 * part. */
#include "zoo.h"

#include <stdio.h>
#include <string.h>

weft_value *zoo_view(weft_graph *g, const char *name) {
    return weft_input(g, name, WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 3, 32, 32));
}

static weft_value *block(weft_value *x, int64_t out, int64_t stride, bool in_groups, const char *name) {
    const weft_conv c = {.out = out, .kernel = 3, .stride = stride, .pad = 1, .no_bias = true};
    WEFT_SCOPE(x, name) {
        x = weft_conv2d(x, &c, "conv");
        x = in_groups ? weft_group_norm(x, 8, "norm", NULL) : weft_batch_norm(x, "bn", NULL);
        x = weft_relu(x);
    }
    return x;
}

weft_value *zoo_encoder(weft_value *x, const zoo_options *o, bool in_groups) {
    x = block(x, zoo_width(o, 64), 1, in_groups, "block1");
    x = block(x, zoo_width(o, 128), 2, in_groups, "block2");
    x = block(x, zoo_width(o, 256), 2, in_groups, "block3");
    return weft_mean(x, WEFT_AXES(2, 3), false);
}

weft_value *zoo_head(weft_value *x, const zoo_options *o, bool in_groups, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_linear(x, zoo_width(o, 512), "fc1", NULL);
        x = weft_relu(in_groups ? x : weft_batch_norm(x, "bn", NULL));
        x = weft_linear(x, zoo_width(o, 128), "fc2", NULL);
    }
    return x;
}

void zoo_follow(weft_graph *g, const char *follower, const char *leader, weft_value *keep) {
    const weft_model *m = weft_graph_model(g);
    weft_value *take = weft_offset(weft_neg(keep), 1);
    weft_parameter_info p;
    for (int i = 0; weft_model_parameter(m, follower, i, &p); i++) {
        char path[256];
        if (p.is_state) continue; /* running statistics are the follower's own */
        snprintf(path, sizeof path, "%s%s", leader, p.path + strlen(follower));
        weft_value *own = weft_value_of(g, p.path), *other = weft_value_of(g, path);
        weft_value *kept = weft_mul(own, keep);
        weft_assign(own, weft_add(kept, weft_mul(other, take)));
    }
}

weft_value *zoo_after_first(weft_graph *g, weft_value *keep) {
    weft_value *has_run = weft_state(keep, "has_run", 0, NULL, (weft_init){0}); /* 0: this is the first run */
    weft_value *now = weft_mul(keep, has_run);
    weft_assign(has_run, weft_constant(g, WEFT_F32, 0, NULL, 1));
    return now;
}
