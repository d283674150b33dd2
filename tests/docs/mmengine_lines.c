/* mmengine_lines.c - runs the C lines of the tables in docs/from/mmengine.md, each with all names that the
 * lines use, beside a trainer of a small GAN and a classifier. Then a trainer is made of the model and the
 * options as the line left them, and trains for some iterations. */
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, CHANNELS = 3, SIDE = 4, PIXELS = CHANNELS * SIDE * SIDE, SAMPLES = 48, CLASSES = 3 };

typedef struct place {
    weft_model *model;
    weft_value *loss;  /* of a train graph that minimizes nothing yet */
    weft_value *image; /* its images u8[batch, channels, side, side] */
    weft_trainer *trainer;
    weft_trainer_options how;
    void (*line)(struct place *p);
    weft_error error;
} place;

/* One iteration of a step of your own: the discriminator twice on one batch. */
static weft_status twice(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    weft_status status = weft_trainer_run(t, "d_step", WEFT_FLOW_NEXT, error);
    return status ? status : weft_trainer_run(t, "d_step", WEFT_FLOW_SAME, error);
}

/* A step whose update is a call. */
static weft_status by_hand(weft_trainer *t, void *user, weft_error *error) {
    (void)user;
    weft_status status = weft_trainer_run(t, "d_step", WEFT_FLOW_NEXT, error);
    return status ? status : weft_run_update(weft_trainer_session(t, error), "d_step", error);
}

/* A hook that counts the points. */
static weft_status counts(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)t, (void)point, (void)error;
    ++*(int *)self;
    return WEFT_OK;
}

/* A sampler of every second sample. */
static void every_second(void *context, int64_t epoch, int64_t *order, int64_t n) {
    (void)context, (void)epoch;
    for (int64_t i = 0; i < n; i++) order[i] = 2 * i;
}

static int points;
static int64_t updates;
static const weft_env quiet; /* the usual memory and files, no log */

/* The names that lines use. lines.h has a table of them, too. */
#define LINE(number, ...)                                                                                    \
    static void line_##number(place *p) {                                                                    \
        weft_model *m = p->model;                                                                            \
        weft_trainer_options how = p->how;                                                                   \
        weft_trainer *t = p->trainer;                                                                        \
        weft_value *loss = p->loss, *image = p->image;                                                       \
        weft_error *error = &p->error;                                                                       \
        weft_metrics metrics = {0};                                                                          \
        static weft_hook hooks[4];                                                                           \
        static weft_evaluator evaluators[1];                                                                 \
        (void)m, (void)t, (void)loss, (void)image, (void)error, (void)metrics, (void)hooks,                  \
            (void)evaluators, (void)twice, (void)by_hand;                                                    \
        (void)counts, (void)points, (void)quiet, (void)every_second, (void)updates;                          \
        __VA_ARGS__;                                                                                         \
        p->how = how;                                                                                        \
    }
#include "lines.h"

/* ---- a GAN and a classifier of images ---- */

static weft_value *images(weft_graph *g) {
    return weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, CHANNELS, SIDE, SIDE));
}

static weft_value *pixels(weft_value *image) {
    return weft_scale(weft_flatten(weft_cast(image, WEFT_F32), 1), 1 / 255.0);
}

static weft_value *generator(weft_graph *g) {
    weft_value *z = weft_random_normal(g, WEFT_SHAPE(WEFT_BATCH, 8), 0, 1);
    WEFT_SCOPE(z, "generator") {
        z = weft_relu(weft_batch_norm(weft_linear(z, 16, "fc", NULL), "bn", NULL));
        z = weft_linear(z, PIXELS, "out", NULL);
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator")
    x = weft_linear(weft_relu(weft_linear(x, 16, "fc1", NULL)), 1, "fc2", NULL);
    return x;
}

static weft_value *classifier(weft_value *x) {
    WEFT_SCOPE(x, "classifier") x = weft_linear(x, CLASSES, "fc", NULL);
    return x;
}

static weft_value *mean_square(weft_value *logits, double target) {
    return weft_mean(weft_square(weft_offset(logits, -target)), WEFT_ALL, false);
}

static weft_value *class_loss(weft_graph *g, weft_value **scores) {
    weft_value *label = weft_input(g, "label", WEFT_I32, WEFT_SHAPE(WEFT_BATCH));
    *scores = classifier(pixels(images(g)));
    return weft_cross_entropy(*scores, label, NULL);
}

static void build(place *p) {
    weft_optimizer adam = {.type = "adam"};
    weft_value *scores;
    weft_model *m = p->model = weft_model_new("gan");
    weft_model_set_batch(m, BATCH);
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *d_loss = mean_square(discriminator(pixels(images(d))), 1);
    d_loss = weft_add(d_loss, mean_square(discriminator(weft_stop_gradient(generator(d))), 0));
    weft_minimize(d_loss, "discriminator", &adam);
    weft_output(d_loss, "d_loss");
    weft_value *g_loss = mean_square(discriminator(generator(weft_graph_new(m, "g_step", WEFT_TRAIN))), 1);
    weft_minimize(g_loss, "generator", &adam);
    weft_output(g_loss, "g_loss");
    weft_value *c_loss = class_loss(weft_graph_new(m, "c_step", WEFT_TRAIN), &scores);
    weft_minimize(c_loss, "classifier", &adam);
    weft_output(c_loss, "c_loss");
    weft_output(class_loss(weft_graph_new(m, "val", WEFT_EVAL), &scores), "loss");
    weft_output(scores, "scores");
    weft_output(generator(weft_graph_new(m, "predict", WEFT_EVAL)), "sample");
    weft_graph *r = weft_graph_new(m, "r_step", WEFT_TRAIN);
    p->loss = mean_square(generator(r), 0);
    p->image = images(r);
}

/* ---- a line ---- */

static bool run_line(void (*line)(place *p), const char *text, const weft_dataset *data) {
    place p = {.line = line};
    build(&p);
    p.how = (weft_trainer_options){
        .compile = {.threads = 1}, .train = *data, .val = *data, .test = *data, .iterations = 12};
    weft_model_set_flow(p.model, "d_step g_step c_step");
    weft_model_set_flow_named(p.model, "lines", "r_step"); /* some lines train it */
    p.trainer = weft_trainer_new(p.model, &p.how, &p.error);
    if (p.trainer) line(&p);
    weft_trainer_free(p.trainer);
    weft_trainer *then = p.error.status ? NULL : weft_trainer_new(p.model, &p.how, &p.error);
    if (then) weft_trainer_fit(then, &p.error);
    weft_trainer_free(then);
    weft_model_free(p.model);
    if (p.error.status) fprintf(stderr, "%s\n  %s\n", text, p.error.text);
    return !p.error.status;
}

int main(void) {
    static uint8_t numbers[SAMPLES * PIXELS];
    static int32_t labels[SAMPLES];
    weft_source sources[2];
    for (int i = 0; i < SAMPLES * PIXELS; i++) numbers[i] = (uint8_t)(i * 37);
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % CLASSES;
    weft_array *arrays[] = {
        weft_array_new(WEFT_U8, 4, (int64_t[]){SAMPLES, CHANNELS, SIDE, SIDE}, numbers, NULL, NULL),
        weft_array_new(WEFT_I32, 1, (int64_t[]){SAMPLES}, labels, NULL, NULL)};
    bool good = arrays[0] && arrays[1];
    for (int i = 0; good && i < 2; i++) good = !weft_array_source(arrays[i], &sources[i], NULL);
    const weft_dataset data = {2, (const weft_source *[]){&sources[0], &sources[1]},
                               (const char *[]){"image", "label"}};
    for (size_t i = 0; good && i < sizeof lines / sizeof *lines; i++)
        good = run_line(lines[i].run, lines[i].text, &data);
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    return good ? 0 : 1;
}
