/* test_cuda_optimizers.c - every optimizer, and two of a model's own, on a GPU: four steps have the CPU's
 * losses, with clipping, and in f16 a step that is skipped. */
#include "cuda/support/gpu.h"
#include "graph/settings/minimize.h"
#include "ops/catalog/catalog.h"
#include "support/models/own_model.h"
#include "support/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 4 };

/* The losses of four steps; in f16 an input of the second overflows. */
static bool train(const weft_model *m, weft_compile_options options, float losses[STEPS]) {
    weft_error e = {0};
    options.threads = 1;
    options.verify = true;
    weft_plan *plan = weft_compile(m, &options, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &e) : NULL;
    for (int step = 0; s && step < STEPS && !e.status; step++) {
        float x[4 * 16];
        test_random r = {(uint64_t)step};
        for (int i = 0; i < 4 * 16; i++) x[i] = (float)random_in(&r, -1, 1);
        if (step == 1 && options.precision == WEFT_F16) x[3] = 1e6f;
        weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}}, 1,
                 (weft_fetch[]){{"loss", &losses[step], sizeof *losses}}, 1, &e);
    }
    bool good = CHECK_SAYS(s && !e.status, "%s", e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return good;
}

/* Frees the model. */
static void check_model(weft_model *m, const char *what, weft_dtype precision, double most) {
    float cpu[STEPS], gpu[STEPS];
    if (train(m, (weft_compile_options){.precision = precision}, cpu) &&
        train(m, (weft_compile_options){.precision = precision, .device = WEFT_DEVICE_CUDA}, gpu))
        for (int i = 0; i < STEPS; i++)
            CHECK_SAYS(
                fabsf(cpu[i] - gpu[i]) <= most * (1e-3 + fabsf(cpu[i])) || (isnan(cpu[i]) && isnan(gpu[i])),
                "%s: loss %d is %g on the CPU, %g on the GPU", what, i, (double)cpu[i], (double)gpu[i]);
    weft_model_free(m);
}

static void check(const weft_optimizer *o, weft_dtype precision, double most) {
    check_model(own_model(NULL, o), o->type, precision, most);
}

TEST(every_optimizer_trains_as_on_the_cpu) {
    for (int i = 0; optimizer_kinds[i]; i++) {
        weft_optimizer o = {
            .type = optimizer_kinds[i]->type, .weight_decay = 0.01, .clip_norm = i % 2 ? 0.1 : 0};
        if (optimizer_kinds[i]->follows) continue; /* below */
        if (strcmp(o.type, "rprop") == 0) o.weight_decay = 0;
        check(&o, WEFT_F32, 1e-4);
    }
}

/* A center, and layers of spectral norm in step. */
static weft_model *model_with_means(void) {
    const weft_linear_options normed = {.parametrization = WEFT_SPECTRAL_NORM_IN_STEP};
    weft_model *m = weft_model_new("means");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 16));
    weft_value *y = weft_tanh(weft_linear(x, 33, "a", &normed));
    y = weft_linear(y, 5, "b", &normed);
    y = weft_sub(y, weft_moving_mean(weft_mean(y, WEFT_AXES(0), false), 0.5, "center"));
    weft_value *loss = weft_mean(weft_square(weft_offset(y, 1)), WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "adam", .lr = 0.05});
    weft_output(loss, "loss");
    return m;
}

TEST(moving_means_move_there_too) {
    check_model(model_with_means(), "means", WEFT_F32, 1e-4);
}

TEST(optimizers_of_ones_own_train_as_on_the_cpu) {
    check(&(weft_optimizer){.type = "signum", .weight_decay = 0.1}, WEFT_F32, 1e-4);
    check(&(weft_optimizer){.type = "normed", .clip_norm = 0.1}, WEFT_F32, 1e-4);
}

TEST(a_skipped_step_is_skipped_there_too) {
    check(&(weft_optimizer){.type = "rmsprop"}, WEFT_F16, 1e-2);
    check(&(weft_optimizer){.type = "nadam"}, WEFT_F16, 1e-2);
    check(&(weft_optimizer){.type = "normed"}, WEFT_F16, 1e-2);
}

TEST(groups_freeze_and_averages_follow_there_too) {
    static const weft_param_group late = {"*bias", .from = 1, .to = 3};
    weft_optimizer o = {.type = "adam", .ema = 0.9, .clip_norm = 0.1, .n_groups = 1, .groups = &late};
    check(&o, WEFT_F16, 1e-2);
    o.type = "lamb";
    check(&o, WEFT_F32, 1e-4);
}

GPU_SUITE("optimizers on a GPU",
          {T(groups_freeze_and_averages_follow_there_too), T(every_optimizer_trains_as_on_the_cpu),
           T(moving_means_move_there_too), T(optimizers_of_ones_own_train_as_on_the_cpu),
           T(a_skipped_step_is_skipped_there_too)})
