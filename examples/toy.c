/* toy.c - the smallest training. tests/golden/make_toy.py is the same in PyTorch and prints these losses. */
#include "weft/weft.h"

static weft_status one(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)i, (void)error;
    *(float *)into[0] = 1;
    return WEFT_OK;
}

static void build(weft_model *m) {
    weft_init zero = {WEFT_INIT_ZEROS};
    weft_optimizer sgd = {.type = "sgd",
                          .lr = 0.01,
                          .schedule = {{WEFT_SCHEDULE_MULTI_STEP, .by_epoch = true, .milestones = {2, 3}}}};
    weft_value *x =
        weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 1));
    weft_value *y = weft_linear(x, 1, "linear", &(weft_linear_options){.weight = &zero, .bias = &zero});
    weft_value *loss1 = weft_mse(y, x, NULL), *loss2 = weft_mean(weft_abs(weft_sub(y, x)), WEFT_ALL, false);
    weft_output(loss1, "loss1");
    weft_output(loss2, "loss2");
    weft_minimize(weft_add(loss1, loss2), "", &sgd);
}

int main(void) {
    weft_error error = {0};
    weft_model *model = weft_model_new("toy");
    weft_model_set_batch(model, 2);
    build(model);
    weft_source ones = {.count = 50, .n = 1, .arrays = {{"x", WEFT_F32, 1, {1}}}, .read = one};
    weft_hook log = weft_hook_text(stdout, 10);
    weft_trainer_options how = {
        .train = {1, (const weft_source *[]){&ones}}, .epochs = 5, .n_hooks = 1, .hooks = &log};
    weft_trainer *t = weft_trainer_new(model, &how, &error);
    if (t) weft_trainer_fit(t, &error);
    if (error.status) fprintf(stderr, "toy: %s\n", error.text);
    weft_trainer_free(t);
    weft_model_free(model);
    return error.status != WEFT_OK;
}
