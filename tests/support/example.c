/* example.c - see example.h. */
#include "support/example.h"

#include "weft/ddp.h"
#include "weft/flow.h"
#include "weft/layers.h"
#include "weft/train.h"

static weft_value *generator(weft_value *z) {
    WEFT_SCOPE(z, "generator") {
        z = weft_relu(weft_batch_norm(weft_linear(z, 4 * 3 * 3, "fc", NULL), "bn", NULL));
        z = weft_reshape(z, 4, (int64_t[]){-1, 4, 3, 3});
        z = weft_tanh(
            weft_conv_transpose2d(z, &(weft_conv){.out = 1, .kernel = 4, .stride = 2, .pad = 1}, "up"));
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(weft_conv2d(x, &(weft_conv){.out = 4, .kernel = 3, .pad = 1}, "conv"), 0.2);
        x = weft_dropout(weft_flatten(x, 1), 0.25);
        x = weft_linear(x, 1, "fc", NULL);
    }
    return x;
}

static weft_value *image_of(weft_graph *g) {
    weft_value *x = weft_input(g, "image", WEFT_U8, 3, (int64_t[]){WEFT_BATCH, 6, 6});
    x = weft_scale(weft_cast(x, WEFT_F32), 1.0 / 127.5);
    float shade[6] = {0, 0.125f, -0.125f}, mask[6][6] = {{0.5f}, {0}, {0, 0.25f}};
    x = weft_reshape(weft_offset(x, -1), 4, (int64_t[]){-1, 1, 6, 6});
    x = weft_add(x, weft_constant_tensor(g, WEFT_F32, 1, (int64_t[]){6}, shade));
    return weft_add(x, weft_constant_tensor(g, WEFT_F32, 2, (int64_t[]){6, 6}, mask));
}

static void discriminator_step(weft_model *m) {
    weft_graph *g = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = image_of(g);
    weft_value *fake = generator(weft_random_normal(g, 2, (int64_t[]){WEFT_BATCH, 8}, 0, 1));
    weft_value *score = weft_sub(discriminator(weft_stop_gradient(fake)), discriminator(real));
    weft_value *loss = weft_mean(score, WEFT_ALL, false), *slope = NULL;
    weft_gradients(loss, 1, &real, &slope);
    loss = weft_add(loss, weft_scale(weft_mean(weft_square(slope), WEFT_ALL, false), 10));
    weft_minimize(loss, "discriminator",
                  &(weft_optimizer){.type = "adam",
                                    .lr = 2e-4,
                                    .beta1 = 0.5,
                                    .n_groups = 1,
                                    .groups = &(weft_param_group){"*bias", 2},
                                    .schedule = {{WEFT_SCHEDULE_COSINE, .warmup = 3, .end = 50}}});
    weft_output(loss, "d_loss");
}

static void generator_step(weft_model *m) {
    weft_graph *g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    weft_value *score = discriminator(generator(weft_random_normal(g, 2, (int64_t[]){WEFT_BATCH, 8}, 0, 1)));
    weft_value *loss = weft_mean(weft_neg(score), WEFT_ALL, false);
    weft_minimize(
        loss, "generator",
        &(weft_optimizer){.type = "sgd", .name = "gen", .lr = 0.1, .momentum = 0.9, .clip_norm = 1});
    weft_output(loss, "g_loss");
}

weft_model *example_model(const weft_env *env) {
    weft_model *m = weft_model_new_in("example", env);
    weft_model_set_batch(m, 4);
    discriminator_step(m);
    generator_step(m);
    weft_graph *v = weft_graph_new(m, "val", WEFT_EVAL);
    weft_output(discriminator(image_of(v)), "score");
    weft_freeze(m, "generator/up/bias");
    weft_model_set_ddp(
        m, "generator",
        &(weft_ddp_options){
            .bucket_cap_mb = 0.5, .zero = 1, .shard = WEFT_SHARD_FLAT, .broadcast_buffers = true});
    weft_model_set_ddp(m, "discriminator/conv",
                       &(weft_ddp_options){.zero = -1, .wire = WEFT_BF16, .process_group = "0-1;3,2"});
    weft_model_set_flow(m, "0-9: d_step; 10-: d_step*2 g_step d_step{batch=next}");
    weft_model_set_flow_named(m, "late", "g_step d_step{accumulate=2,batch=next}");
    return m;
}
