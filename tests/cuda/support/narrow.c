/* narrow.c - see narrow.h. */
#include "cuda/support/narrow.h"

#include <string.h>

/* The sizes that all four share. */
#define SIZES .layers = 2, .d = 32, .heads = 2, .ctx = 8, .vocab = 10, .schedule_steps = 15
const narrow_model narrow_models[NARROW_MODELS] = {{"mlp", {SIZES, .batch = 3, .narrow = 3}, 10},
                                                   {"gpt", {SIZES, .batch = 2}, 20},
                                                   {"convnet", {SIZES, .batch = 2, .narrow = 8}, 100},
                                                   {"dcgan28", {SIZES, .batch = 2, .narrow = 8}, 100}};

/* Weight decay and clipping, so that steps depend on every gradient. */
const weft_optimizer narrow_clipped = {.type = "adamw", .lr = 2e-3, .weight_decay = 0.05, .clip_norm = 0.3};

weft_model *narrow_build(const narrow_model *c, const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new(c->name);
    zoo_options o = c->size;
    o.optimizer = optimizer;
    weft_model_set_batch(m, o.batch);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, c->name) == 0) zoo_models[i].build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* The first layers differ in width, so the two programs differ. */
weft_model *narrow_two_graphs(void) {
    weft_model *m = weft_model_new("two");
    const char *const names[] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, names[i], WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 5});
        WEFT_SCOPE(x, names[i]) x = weft_linear(weft_relu(weft_linear(x, 7 + i, "a", NULL)), 3, "b", NULL);
        weft_value *loss = weft_mean(x, WEFT_ALL, false);
        weft_minimize(loss, names[i], &(weft_optimizer){.type = "adam", .lr = 0.1});
        weft_output(loss, "loss");
    }
    return m;
}

world_rank *narrow_train(const weft_model *m, weft_compile_options options, void (*run)(world_rank *r)) {
    return world_run(&(world_job){.model = m, .steps = NARROW_STEPS, .options = options, .run = run});
}
