/* test_hook_pictures.c - grids of samples and pictures of curves: their bytes, and the points of curves by
 * the axes that the pictures show. */
#include "support/folder.h"
#include "support/models/hooked.h"
#include "support/locale.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- samples ---- */

/* The bytes of the image in an event file, by their place after a tag. */
static const uint8_t *find_bytes(const uint8_t *in, size_t n, const uint8_t *what, size_t length) {
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(in + i, what, length) == 0) return in + i;
    return NULL;
}

static void check_picture(const char *folder, int step, const uint8_t *events, size_t n_events) {
    static const uint8_t head[] = {0, 0, 0, 18, 0, 0, 0, 6};
    uint8_t png[1000];
    char path[100];
    snprintf(path, sizeof path, "%s/photo-%d.png", folder, step);
    size_t n = bytes_of_file(path, png, sizeof png);
    NEED(n > 40 && memcmp(png + 1, "PNG", 3) == 0);
    CHECK(memcmp(png + 16, head, 8) == 0 && png[24] == 8 && png[25] == 0); /* 18 x 6, 8 bits, gray */
    CHECK(find_bytes(events, n_events, png, n) != NULL);
    unlink(path);
}

TEST(samples_are_drawn_into_files_and_events) {
    static uint8_t events[1 << 14];
    const char *kept = getenv("WEFT_TEST_EVENTS");
    char folder[] = "/tmp/weft_samplesXXXXXX", path[100], logs[300], name[600];
    weft_error e = {0};
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/photo.png", folder);
    snprintf(logs, sizeof logs, "%s/samples", kept ? kept : folder);
    weft_dataset data = {1, hooked_list, (const char *[]){"x", NULL}};
    weft_hook hook = weft_hook_samples(&(weft_samples){
        .data = data, .path = path, .tensorboard = logs, .every = 5, .rows = 2, .columns = 4});
    weft_model *m = hooked_painter();
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    scalars *got = events_read(logs, name); /* the records have right lengths and checks, too */
    size_t n = bytes_of_file(name, events, sizeof events);
    check_picture(folder, 5, events, n);
    check_picture(folder, 10, events, n);
    CHECK(got && got->records == 3 && strcmp(got->list[0].tag, "samples") == 0 && got->list[1].step == 10);
    free(got);
    if (!kept) unlink(name), rmdir(logs);
    hook = weft_hook_samples(&(weft_samples){.data = data, .path = path, .every = 5});
    memset(path, 0, sizeof path); /* it was copied */
    t = hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
    rmdir(folder);
    weft_model_set_flow(m, "no flow"); /* the model is not compiled again: it cannot be */
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_IO);
    CHECK_HOLDS(e.text, "/photo-5.png: it cannot be written");
    weft_trainer_free(t);
    weft_model_free(m);
}

static weft_status read_whole(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    *(int32_t *)into[0] = (int32_t)i;
    return WEFT_OK;
}

static void keep_line(void *context, const char *line) {
    snprintf(context, 200, "%s", line);
}

/* A run of one iteration, which ends before the first picture is due. */
TEST(the_log_tells_which_data_of_samples_are_converted) {
    static const weft_source whole = {
        .count = SAMPLES, .n = 1, .arrays = {{"x", WEFT_I32, 1, {1}}}, .read = read_whole};
    char line[200] = "";
    weft_error e = {0};
    const weft_env env = {.log = keep_line, .log_context = line};
    weft_hook hook = weft_hook_samples(
        &(weft_samples){.data = {1, (const weft_source *const[]){&whole}, NULL}, .path = "/tmp/photo.png"});
    weft_model *m = hooked_painter();
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){
               .train = HOOKED_DATA, .iterations = 1, .n_hooks = 1, .hooks = &hook, .env = &env});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK, "%s", e.text);
    CHECK_TEXT(line, "data x: i32 is read as f32, each number as it is (nothing is scaled)");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- a strip ---- */

enum { HEIGHT = 2, WIDTH = 3, PIXELS = HEIGHT * WIDTH, COLUMNS = 4, SCALE = 2, STRIP = 3 };
enum { BETWEEN = 2, APART = 8 }; /* white pixels of images: between them, and more above real ones */

static weft_status read_image(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    for (int k = 0; k < PIXELS; k++) ((uint8_t *)into[0])[k] = (uint8_t)(20 * i + k);
    return WEFT_OK;
}
static const weft_source images = {
    .count = 6, .n = 1, .arrays = {{"image", WEFT_U8, 2, {HEIGHT, WIDTH}}}, .read = read_image};
static const weft_source *const images_list[] = {&images};

/* "generator" paints from random numbers, and learns to paint other images. */
static weft_value *paint(weft_graph *g) {
    weft_value *z = weft_random_uniform(g, WEFT_SHAPE(WEFT_BATCH, PIXELS), 0, 1);
    WEFT_SCOPE(z, "generator") {
        z = weft_sigmoid(weft_linear(z, PIXELS, "fc", NULL));
    }
    return z;
}

static weft_model *generator(double lr, double ema) {
    weft_model *m = weft_model_new("m");
    weft_optimizer sgd = {.type = "sgd", .lr = lr, .ema = ema};
    weft_model_set_batch(m, COLUMNS);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, HEIGHT, WIDTH));
    x = weft_reshape(weft_scale(weft_cast(x, WEFT_F32), 1 / 255.0), WEFT_SHAPE(-1, PIXELS));
    weft_minimize(weft_mse(paint(g), x, NULL), "", &sgd);
    g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(weft_reshape(paint(g), WEFT_SHAPE(-1, 1, HEIGHT, WIDTH)), "painted");
    return m;
}

/* A picture of gray pixels. */
typedef struct gray {
    int width, height;
    uint8_t *pixels;
} gray;

static gray read_gray(const char *path) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!CHECK(png_image_begin_read_from_file(&png, path))) return (gray){0};
    CHECK(png.format == PNG_FORMAT_GRAY);
    gray g = {(int)png.width, (int)png.height, test_memory(PNG_IMAGE_SIZE(png))};
    CHECK(png_image_finish_read(&png, NULL, g.pixels, 0, NULL));
    return g;
}

/* Pixel (y, x) of the image in a row and a column of a strip. */
static int pixel_of(const gray *g, int row, int column, int y, int x) {
    int top = row * (HEIGHT + BETWEEN) + (row >= STRIP ? APART : 0), left = column * (WIDTH + BETWEEN);
    return g->pixels[(top + y) * SCALE * g->width + (left + x) * SCALE];
}

static int difference(const gray *g, int row, int other) {
    int sum = 0;
    for (int i = 0; i < COLUMNS * PIXELS; i++)
        sum += abs(pixel_of(g, row, i / PIXELS, i % PIXELS / WIDTH, i % WIDTH) -
                   pixel_of(g, other, i / PIXELS, i % PIXELS / WIDTH, i % WIDTH));
    return sum;
}

/* What a training of 8 iterations draws above real images. folder: of checkpoints, NULL: none; with one it is
 * resumed. */
static gray draw_strip(double lr, double ema, const char *path, const char *folder, weft_hook more) {
    weft_error e = {0};
    weft_model *m = generator(lr, ema);
    weft_hook hooks[] = {
        weft_hook_samples(&(weft_samples){
            .path = path, .columns = COLUMNS, .scale = SCALE, .strip = STRIP, .real = "image"}),
        more};
    weft_trainer_options how = {.train = {1, images_list, NULL},
                                .iterations = 8,
                                .checkpoints = {.folder = folder, .resume = folder ? "auto" : NULL},
                                .n_hooks = more.at ? 2 : 1,
                                .hooks = hooks};
    weft_trainer *t = hooked_trainer(m, &how);
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    return read_gray(path);
}

static gray strip_of(double lr, double ema, const char *path) {
    return draw_strip(lr, ema, path, NULL, (weft_hook){0});
}

/* Of 6 real images 4 are in one row, 2 in the next; every pixel is SCALE wide and high. */
static void check_real(const gray *g) {
    for (int i = 0; i < 2 * COLUMNS * PIXELS; i++) {
        int image = i / PIXELS, y = i % PIXELS / WIDTH, x = i % WIDTH;
        int shown = pixel_of(g, STRIP + image / COLUMNS, image % COLUMNS, y, x);
        CHECK_SAYS(shown == (image < 6 ? 20 * image + i % PIXELS : 255), "image %d, %d %d: %d", image, y, x,
                   shown);
    }
    for (int y = 0; y < g->height; y += SCALE)
        for (int x = 0; x < g->width; x += SCALE) {
            const uint8_t *at = g->pixels + y * g->width + x;
            CHECK(at[0] == at[1] && at[0] == at[g->width] && at[0] == at[g->width + 1]);
        }
}

/* Rows of one training have the same latents: without learning they are the same. */
TEST(a_strip_shows_the_training_above_real_images) {
    char path[] = "/tmp/weft_stripXXXXXX.png";
    NEED(close(mkstemps(path, 4)) == 0);
    gray still = strip_of(1e-30, 0, path), learns = strip_of(1, 0, path),
         averages = strip_of(1, 0.999999, path);
    CHECK(still.width == SCALE * (COLUMNS * (WIDTH + BETWEEN) - BETWEEN));
    CHECK(still.height == SCALE * ((STRIP + 2) * (HEIGHT + BETWEEN) - BETWEEN + APART));
    check_real(&still);
    CHECK(difference(&still, 0, 1) == 0 && difference(&still, 0, 2) == 0);
    CHECK(memcmp(still.pixels, still.pixels + SCALE * (WIDTH + BETWEEN), WIDTH * SCALE)); /* two latents */
    CHECK(difference(&learns, 0, 1) > 24 && difference(&learns, 1, 2) > 24);
    /* from the first update on the average stays where it is */
    CHECK(difference(&averages, 0, 1) > 5 && difference(&averages, 1, 2) == 0);
    free(still.pixels), free(learns.pixels), free(averages.pixels);
    unlink(path);
}

/* Stops in the sixth iteration. */
static weft_status stops_at_six(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)self, (void)error;
    if (point == WEFT_AFTER_ITERATION && weft_trainer_progress(t)->iteration == 6) weft_trainer_stop(t);
    return WEFT_OK;
}

/* Rows of iterations 0, 4 and 6, none of 8; the random numbers of whoever predicts stay where they are. */
TEST(a_strip_of_a_training_that_is_stopped_ends_there) {
    char path[] = "/tmp/weft_stripXXXXXX.png";
    weft_error e = {0};
    double counter = -1;
    NEED(close(mkstemps(path, 4)) == 0);
    weft_model *m = generator(1, 0);
    weft_hook hooks[] = {
        {.name = "stops", .at = stops_at_six},
        weft_hook_samples(&(weft_samples){.path = path, .columns = COLUMNS, .scale = SCALE, .strip = STRIP})};
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){
               .train = {1, images_list, NULL}, .iterations = 8, .n_hooks = 2, .hooks = hooks});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    CHECK(weft_store_get(weft_trainer_store(t), "optimizer.graph/predict/step", &counter, sizeof counter,
                         &e) == WEFT_OK &&
          counter == 0);
    weft_trainer_free(t);
    weft_model_free(m);
    gray g = read_gray(path);
    CHECK(g.height == SCALE * (STRIP * (HEIGHT + BETWEEN) - BETWEEN)); /* no real images */
    CHECK(difference(&g, 1, 2) > 5);
    free(g.pixels);
    unlink(path);
}

/* The picture lies beside the checkpoints. */
static gray run_strip(const char *folder, weft_hook more) {
    char path[100];
    snprintf(path, sizeof path, "%s/strip.png", folder);
    return draw_strip(1, 0.5, path, folder, more);
}

static bool is_same(const gray *a, const gray *b) {
    return a->width == b->width && a->height == b->height &&
           memcmp(a->pixels, b->pixels, (size_t)a->width * (size_t)a->height) == 0;
}

/* Stopped after 6 of 8 iterations and resumed, the picture is that of one run; it stays where nothing is left
 * to train. Rows of a picture that is another's are not kept. */
TEST(a_strip_of_a_training_that_is_resumed_keeps_its_rows) {
    const weft_hook stop = {.name = "stops", .at = stops_at_six}, nothing = {0};
    char whole[] = "/tmp/weft_wholeXXXXXX", parts[] = "/tmp/weft_partsXXXXXX",
         lost[] = "/tmp/weft_lostXXXXXX", path[100];
    NEED(mkdtemp(whole) && mkdtemp(parts) && mkdtemp(lost));
    gray once = run_strip(whole, nothing), stopped = run_strip(parts, stop),
         resumed = run_strip(parts, nothing), again = run_strip(parts, nothing), gone = run_strip(lost, stop);
    CHECK(stopped.height == once.height && !is_same(&stopped, &once)); /* its third row is from iteration 6 */
    CHECK(is_same(&resumed, &once) && is_same(&again, &once));
    snprintf(path, sizeof path, "%s/strip.png", lost);
    FILE *f = fopen(path, "w"); /* no picture */
    NEED(f && fclose(f) == 0);
    free(gone.pixels);
    gone = run_strip(lost, nothing);
    CHECK(gone.height == once.height - 2 * SCALE * (HEIGHT + BETWEEN)); /* the last row alone */
    free(once.pixels), free(stopped.pixels), free(resumed.pixels), free(again.pixels), free(gone.pixels);
    remove_tree(whole), remove_tree(parts), remove_tree(lost);
}

/* A picture that would be too large with its gap above the real images is refused before the training. */
TEST(a_strip_that_would_be_too_large_at_its_end_is_refused_at_once) {
    enum { ROWS = 20000 / 64 / (HEIGHT + BETWEEN) }; /* the most without the gap */
    weft_error e = {0};
    weft_model *m = generator(1, 0);
    for (int real = 0; real < 2; real++) {
        weft_hook hook = weft_hook_samples(&(weft_samples){.path = "/tmp/weft_never.png",
                                                           .columns = 1,
                                                           .scale = 64,
                                                           .strip = real ? ROWS - 3 : ROWS,
                                                           .real = real ? "image" : NULL});
        weft_trainer *t = weft_trainer_new(
            m,
            &(weft_trainer_options){
                .train = {1, images_list, NULL}, .iterations = 8, .n_hooks = 1, .hooks = &hook},
            &e);
        CHECK_SAYS(!t == !!real, "real %d: %s", real, e.text);
        if (real) CHECK_HOLDS(e.text, "larger than 20000 pixels");
        weft_trainer_free(t);
    }
    weft_model_free(m);
}

/* ---- curves ---- */

/* Text between `from` and `to` of the n-th line that has `mark`. */
static const char *line_with(const char *text, const char *mark, int n) {
    const char *at = text;
    for (int i = 0; at && (at = strstr(at, mark)) && i < n; i++) at++;
    while (at && at > text && at[-1] != '\n') at--;
    return at;
}

/* The axis of y by two of its numbers, as the picture shows them. */
static bool find_axis(const char *svg, double *value, double *per_pixel) {
    double y[2], v[2];
    for (int i = 0; i < 2; i++) {
        const char *at = line_with(svg, "text-anchor=\"end\"", i), *y_at = at ? strstr(at, " y=\"") : NULL,
                   *v_at = at ? strchr(at, '>') : NULL;
        if (!y_at || !v_at) return false;
        y[i] = atof(y_at + 4), v[i] = atof(v_at + 1);
    }
    *per_pixel = (v[1] - v[0]) / (y[1] - y[0]);
    *value = v[0] - (y[0] - 4) * *per_pixel; /* letters stand 4 pixels below their line */
    return true;
}

/* The curve of the loss: each point where the axis says, in the SVG and as a pixel of the PNG. */
static void check_curve(const char *svg, const png_image *png, const uint8_t *pixels, const seen *s) {
    double value = 0, per_pixel = 1, x, y;
    const char *at = line_with(svg, "stroke=\"#1f6fb4\" stroke-width=\"1.8\"", 0);
    NEED(at && find_axis(svg, &value, &per_pixel) && (at = strstr(at, "points=\"")));
    at += 8;
    for (int begin = 0; begin < s->n; begin += 4) {
        int end = begin + 4 < s->n ? begin + 4 : s->n, used = 0;
        NEED(sscanf(at, "%lf,%lf%n", &x, &y, &used) == 2);
        CHECK_SAYS(fabs(value + y * per_pixel - seen_mean(s, begin, end)) < fabs(per_pixel) * 0.02,
                   "step %d: %g, not %g", end, value + y * per_pixel, seen_mean(s, begin, end));
        const uint8_t *pixel = pixels + ((size_t)(2 * y) * png->width + (size_t)(2 * x)) * 3;
        bool is_free = end != s->val_iteration[0] && end != s->val_iteration[1]; /* of marks */
        CHECK(!is_free ||
              (abs(pixel[0] - 0x1f) < 90 && abs(pixel[1] - 0x6f) < 90 && abs(pixel[2] - 0xb4) < 60));
        at += used + (at[used] == ' ');
    }
    CHECK(*at == '"');
}

TEST(curves_are_where_the_axes_say) {
    char folder[] = "/tmp/weft_curvesXXXXXX", paths[2][100];
    NEED(mkdtemp(folder));
    for (int i = 0; i < 2; i++) snprintf(paths[i], sizeof paths[i], "%s/c.%s", folder, i ? "png" : "svg");
    static char svg[1 << 16];
    weft_error e = {0};
    seen s = {0};
    weft_model *m = hooked_model();
    weft_hook hooks[] = {SEES(&s), weft_hook_curves(paths[0], 4), weft_hook_curves(paths[1], 4)};
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){
               .train = HOOKED_DATA, .val = HOOKED_DATA, .epochs = 2, .n_hooks = 3, .hooks = hooks});
    locale_comma(); /* which changes nothing */
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    locale_back();
    CHECK(bytes_of_file(paths[0], svg, sizeof svg - 1) > 1000);
    png_image png = {.version = PNG_IMAGE_VERSION};
    CHECK(png_image_begin_read_from_file(&png, paths[1]) && png.width == 2 * 920 && png.height == 2 * 280);
    png.format = PNG_FORMAT_RGB;
    uint8_t *pixels = test_memory(PNG_IMAGE_SIZE(png));
    CHECK(png_image_finish_read(&png, NULL, pixels, 0, NULL));
    check_curve(svg, &png, pixels, &s);
    CHECK_HOLDS(svg, ">loss</text>");
    CHECK_HOLDS(svg, ">lr</text>");
    CHECK_HOLDS(svg, ">val</text>");
    free(pixels);
    weft_model_free(m);
    unlink(paths[0]), unlink(paths[1]);
    weft_hook wrong = weft_hook_curves(paths[0], 0);
    m = hooked_model();
    t = hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .n_hooks = 1, .hooks = &wrong});
    rmdir(folder);
    CHECK(weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_IO);
    CHECK_HOLDS(e.text, "it cannot be written");
    weft_trainer_free(t);
    weft_model_free(m);
}

static double number_at(const char *text, const char *mark) {
    const char *at = strstr(text, mark);
    return at ? atof(at + strlen(mark)) : NAN;
}

/* 42 names: 24 panels in rows of four. Names end before the legend begins, and are still different. */
TEST(curves_of_many_metrics_fit_their_panels) {
    enum { NAMES = 40 };
    char texts[NAMES][60], folder[] = "/tmp/weft_panelsXXXXXX", path[100];
    const char *names[NAMES];
    static char svg[1 << 18];
    weft_error e = {0};
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], i % 2 ? "m%d" : "the_%d_metric_of_a_decoder_head_%d", i, i);
        names[i] = texts[i];
    }
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.svg", folder);
    weft_model *m = hooked_model_with(NULL, NAMES, names);
    weft_hook hook = weft_hook_curves(path, 4);
    weft_trainer *t = hooked_trainer(
        m, &(weft_trainer_options){.train = HOOKED_DATA, .val = HOOKED_DATA, .n_hooks = 1, .hooks = &hook});
    CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    CHECK(bytes_of_file(path, svg, sizeof svg - 1) > 1000);
    CHECK(number_at(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"") == 4 * 460);
    CHECK(number_at(svg, "height=\"") == 6 * 280 + 28);
    CHECK_HOLDS(svg, ">and 18 more</text>");
    CHECK_HOLDS(svg, ">loss</text>");
    CHECK_HOLDS(svg, ">the_2_metric_...ecoder_head_2</text>");
    CHECK_HOLDS(svg, ">the_4_metric_...ecoder_head_4</text>");
    int heads = 0;
    for (const char *at = svg; (at = strstr(at, "font-size=\"14\"")); at++) {
        const char *line = at, *name = strchr(at, '>') + 1;
        while (strncmp(line, "<text", 5)) line--;
        double left = number_at(line, "x=\""), end = left + 8 * (double)strcspn(name, "<");
        CHECK_SAYS(end <= left + 460 - 64 - 18 - 2 * 44 - 7 * 8, "%.40s ends at %g", name, end - left);
        heads++;
    }
    CHECK_SAYS(heads == 24 + 1, "%d", heads);
    unlink(path), rmdir(folder);
}

/* Means of a constant differ in the last bits; neither those nor numbers as far apart as can be are ticks
 * without end. */
TEST(curves_of_constants_have_few_ticks) {
    static const double values[] = {0.1, 1e300, -0.1, 0, 5e-324, 1e16 + 2};
    char folder[] = "/tmp/weft_ticksXXXXXX", path[100];
    static char svg[1 << 16];
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.svg", folder);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        weft_error e = {0};
        weft_model *m = hooked_model_with(&values[i], 0, NULL);
        weft_hook hook = weft_hook_curves(path, 10);
        weft_trainer *t = hooked_trainer(
            m, &(weft_trainer_options){.train = HOOKED_DATA, .epochs = 2, .n_hooks = 1, .hooks = &hook});
        CHECK_SAYS(t && weft_trainer_fit(t, &e) == WEFT_OK && weft_trainer_check(t, &e) == WEFT_OK, "%s",
                   e.text);
        weft_trainer_free(t);
        weft_model_free(m);
        memset(svg, 0, sizeof svg);
        int ticks = 0;
        CHECK(bytes_of_file(path, svg, sizeof svg - 1) > 1000);
        for (const char *at = svg; (at = strstr(at, "text-anchor=\"middle\"")); at++) ticks++;
        for (const char *at = svg; (at = strstr(at, "text-anchor=\"end\"")); at++) ticks++;
        CHECK_SAYS(ticks > 10 && ticks < 60, "%g: %d", values[i], ticks);
    }
    unlink(path), rmdir(folder);
}

TEST(a_run_that_fails_before_its_first_step_leaves_the_picture) {
    char path[] = "/tmp/weft_curvesXXXXXX.svg", text[20] = "";
    weft_error e = {0};
    int file = mkstemps(path, 4);
    NEED(file >= 0 && write(file, "an earlier one", 14) == 14 && close(file) == 0);
    weft_model *m = hooked_model();
    weft_hook hooks[] = {weft_hook_curves(path, 1), weft_hook_csv("/tmp/weft_no_folder/log.csv", 1)};
    weft_trainer *t =
        hooked_trainer(m, &(weft_trainer_options){.train = HOOKED_DATA, .n_hooks = 2, .hooks = hooks});
    CHECK(weft_trainer_fit(t, &e) == WEFT_IO);
    weft_trainer_free(t);
    weft_model_free(m);
    CHECK(bytes_of_file(path, text, sizeof text - 1) == 14 && strcmp(text, "an earlier one") == 0);
    unlink(path);
}

SUITE("hook pictures",
      {T(samples_are_drawn_into_files_and_events), T(the_log_tells_which_data_of_samples_are_converted),
       T(a_strip_shows_the_training_above_real_images), T(a_strip_of_a_training_that_is_stopped_ends_there),
       T(a_strip_of_a_training_that_is_resumed_keeps_its_rows),
       T(a_strip_that_would_be_too_large_at_its_end_is_refused_at_once), T(curves_are_where_the_axes_say),
       T(curves_of_many_metrics_fit_their_panels), T(curves_of_constants_have_few_ticks),
       T(a_run_that_fails_before_its_first_step_leaves_the_picture)})
