/* training.c - runs the code blocks of docs/training.md on a small GAN and images of numbers. */
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, WIDTH = 8, SAMPLES = 42 };

static weft_value *generator(weft_graph *g) {
    weft_value *z = weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, WIDTH), 0, 1);
    WEFT_SCOPE(z, "generator")
    z = weft_linear(weft_relu(weft_linear(z, WIDTH, "fc", NULL)), WIDTH, "out", NULL);
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") x = weft_linear(x, 1, "fc", NULL);
    return x;
}

static weft_value *distance(weft_value *x, double target) {
    return weft_mean(weft_square(weft_offset(x, -target)), WEFT_ALL, false);
}

static weft_value *images(weft_graph *g) {
    return weft_input(g, "image", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WIDTH));
}

static weft_model *build(void) {
    weft_optimizer adam = {.type = "adam"};
    weft_model *m = weft_model_new("gan");
    weft_model_set_batch(m, BATCH);
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *loss =
        weft_add(distance(discriminator(images(d)), 1), distance(discriminator(generator(d)), 0));
    weft_minimize(loss, "discriminator", &adam);
    weft_output(loss, "d_loss");
    loss = distance(discriminator(generator(weft_graph_new(m, "g_step", WEFT_TRAIN))), 1);
    weft_minimize(loss, "generator", &adam);
    weft_output(loss, "g_loss");
    weft_output(distance(discriminator(images(weft_graph_new(m, "val", WEFT_EVAL))), 1), "d_loss");
    return m;
}

static bool write_images(const char *path) {
    static float rows[SAMPLES * WIDTH];
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    for (int i = 0; i < SAMPLES * WIDTH; i++) rows[i] = (float)(i % 7) / 7;
    char header[119];
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", SAMPLES,
             WIDTH);
    fprintf(f, "\x93NUMPY%c%cv%c%-117s\n", 1, 0, 0, header);
    bool good = fwrite(rows, sizeof rows, 1, f) == 1;
    return fclose(f) == 0 && good;
}

static int check(bool is_right, const char *what, const weft_error *error) {
    if (!is_right) fprintf(stderr, "%s: %s\n", what, error->text);
    return !is_right;
}

/* With a step of your own, until the discriminator is good or 40 iterations have run. */
static int own(weft_error *error) {
    weft_model *m = build();
    weft_source *s = weft_source_open("train.npy", NULL, NULL, error);
    weft_trainer *t = s ? own_steps(m, s, error) : NULL;
    int wrong = check(t && weft_trainer_fit(t, error) == WEFT_OK && weft_trainer_progress(t)->iteration == 40,
                      "own", error);
    weft_trainer_free(t);
    weft_source_free(s);
    weft_model_free(m);
    return wrong;
}

/* Ten iterations with updates as calls, in a trainer and by hand. */
static int manual(weft_error *error) {
    static float image[BATCH * WIDTH];
    weft_feed batches[] = {{"image", image, sizeof image}, {"image", image, sizeof image}};
    weft_model *m = build();
    weft_source *s = weft_source_open("train.npy", NULL, NULL, error);
    weft_trainer_options how = {.train = {1, (const weft_source *[]){s}, (const char *[]){"image"}},
                                .iterations = 10,
                                .train_step = manual_step,
                                .compile = {.manual = true, .accumulate = 2}};
    weft_trainer *t = s ? weft_trainer_new(m, &how, error) : NULL;
    int wrong = check(t && weft_trainer_fit(t, error) == WEFT_OK, "manual", error);
    if (t) wrong += check(!step_by_hand(weft_trainer_session(t, error), batches, 2, error), "by hand", error);
    weft_trainer_free(t);
    weft_source_free(s);
    weft_model_free(m);
    return wrong;
}

/* Twice: the second one finds the first one's last checkpoint, and has nothing left to do. */
static int resuming(weft_error *error) {
    weft_model *m = build();
    weft_source *s = weft_source_open("train.npy", NULL, NULL, error);
    weft_trainer_options how = {.train = {1, (const weft_source *[]){s}, (const char *[]){"image"}}};
    int wrong = check(s && !train_on(m, how, error) && !train_on(m, how, error), "resume", error);
    weft_source_free(s);
    weft_model_free(m);
    return wrong;
}

static int stopping(weft_error *error) {
    weft_model *m = build();
    double below = 1e9;
    weft_hook hook = stop_below(&below);
    weft_source *s = weft_source_open("train.npy", NULL, NULL, error);
    weft_trainer_options how = {
        .train = {1, (const weft_source *[]){s}, (const char *[]){"image"}}, .n_hooks = 1, .hooks = &hook};
    weft_trainer *t = s ? weft_trainer_new(m, &how, error) : NULL;
    int wrong = check(t && weft_trainer_fit(t, error) == WEFT_OK && weft_trainer_progress(t)->iteration == 1,
                      "stop", error);
    weft_trainer_free(t);
    weft_source_free(s);
    weft_model_free(m);
    return wrong;
}

/* A classifier of two classes, whose samples have weights. */
static weft_model *build_classifier(void) {
    weft_model *m = weft_model_new("classifier");
    weft_model_set_batch(m, BATCH);
    weft_graph *g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    weft_value *weight = weft_input(g, "weight", WEFT_F32, WEFT_SHAPE(WEFT_BATCH));
    weft_value *logits = weft_linear(weft_reshape(weight, WEFT_SHAPE(-1, 1)), 3, "fc", NULL);
    weft_output(logits, "logits");
    weft_output(weft_add(weight, weft_cast(label, WEFT_F32)), "losses");
    return m;
}

static weft_status read_weight(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    *(int32_t *)into[0] = (int32_t)(i % 3);
    *(float *)into[1] = (float)i;
    return WEFT_OK;
}

static int measuring(weft_error *error) {
    weft_model *m = build_classifier();
    weft_source s = {.count = 7,
                     .n = 2,
                     .arrays = {{"label", WEFT_I32, 0, {0}}, {"weight", WEFT_F32, 0, {0}}},
                     .read = read_weight};
    const weft_source *const list[] = {&s};
    weft_evaluator own = weighted_loss();
    weft_metrics metrics = {0};
    weft_trainer_options how = {.compile.graph = "val", .val = {1, list, NULL}};
    weft_trainer *t = classifier(m, how, error);
    int wrong = check(t && weft_trainer_validate(t, &metrics, error) == WEFT_OK &&
                          weft_metrics_get(&metrics, "accuracy_top3") == 1,
                      "classifier", error);
    weft_trainer_free(t);
    how.evaluators = &own, how.n_evaluators = 1;
    t = weft_trainer_new(m, &how, error);
    wrong +=
        check(t && weft_trainer_validate(t, &metrics, error) == WEFT_OK && /* sum w (w + w % 3) / sum w */
                  weft_metrics_get(&metrics, "weighted") == (91.0 + 1 + 2 * 2 + 4 + 2 * 5) / 21,
              "weighted", error);
    weft_trainer_free(t);
    weft_model_free(m);
    return wrong;
}

int main(void) {
    weft_error error = {0};
    weft_model *m = build();
    int wrong = check(write_images("train.npy") && write_images("val.npy"), "files", &error);
    choose_flow(m);
    wrong += check(weft_model_error(m)->status == WEFT_OK, "flow", weft_model_error(m));
    wrong += check(train(m, NULL, &error) == WEFT_OK, "train", &error);
    wrong += own(&error) + manual(&error) + stopping(&error) + resuming(&error) + measuring(&error);
    weft_model_free(m);
    return wrong != 0;
}
