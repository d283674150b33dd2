/* test_preprocess.c - the data preprocessor against PyTorch's tensor functions and torchvision's rules
 * (golden/make_preprocess.py), in train and in eval graphs, at two batches of one model; and what it
 * refuses. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* make_preprocess.py has these numbers too. */
enum { N = 2, C = 3, H = 5, W = 6, IMAGE = C * H * W, MOST = N * C * 8 * 8 };

static const struct {
    weft_preprocess_options options;
    float draws[N * WEFT_PREPROCESS_DRAWS];
    int64_t height, width;
    float train[MOST], eval[MOST];
} rows[] = {
#include "golden/preprocess.h"
};

/* ---- the model ---- */

static weft_model *build(const weft_preprocess_options *o, int64_t h, int64_t w) {
    weft_model *m = weft_model_new("preprocess");
    for (int train = 0; train < 2; train++) {
        weft_graph *g = weft_graph_new(m, train ? "train" : "val", train ? WEFT_TRAIN : WEFT_EVAL);
        weft_value *x = weft_input(g, "image", WEFT_U8, 4, (int64_t[]){WEFT_BATCH, C, h, w});
        weft_value *draws =
            train ? weft_input(g, "draws", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, WEFT_PREPROCESS_DRAWS})
                  : NULL;
        weft_output(weft_preprocess(x, draws, o), "y");
    }
    return m;
}

/* Runs one graph on the first n images. */
static void run(const weft_model *m, size_t row, int64_t n, bool train, float *got, size_t bytes) {
    const char *graph = train ? "train" : "val";
    unsigned char images[N * IMAGE];
    weft_error error = {0};
    for (int i = 0; i < N * IMAGE; i++) images[i] = (unsigned char)((7 * i * i + 31 * i + 13) % 251);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = n, .threads = 1}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
    weft_feed in[] = {{"image", images, (size_t)(n * IMAGE)},
                      {"draws", rows[row].draws, (size_t)n * WEFT_PREPROCESS_DRAWS * sizeof(float)}};
    weft_port port = {0};
    if (s)
        weft_run(s, graph, in, weft_plan_input(plan, graph, 1, &port) ? 2 : 1, &(weft_fetch){"y", got, bytes},
                 1, &error);
    CHECK_SAYS(s && !error.status, "row %zu: %s", row, error.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* Only a division by std may round differently. */
static void check_graph(const weft_model *m, size_t row, int64_t n, bool train) {
    const float *want = train ? rows[row].train : rows[row].eval;
    size_t count = (size_t)(n * C * rows[row].height * rows[row].width), wrong = 0;
    float got[MOST];
    memset(got, 0xff, sizeof got); /* NaN */
    run(m, row, n, train, got, count * sizeof *got);
    for (size_t i = 0; i < count; i++) wrong += !(fabsf(got[i] - want[i]) <= 2e-7f * fabsf(want[i]));
    CHECK_SAYS(!wrong, "row %zu, %s, %lld images: %zu of %zu numbers are wrong", row,
               train ? "train" : "eval", (long long)n, wrong, count);
}

TEST(images_are_those_of_torchvision) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = build(&rows[i].options, H, W);
        CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
        for (int64_t n = 1; n <= N; n++)
            for (int train = 0; train < 2; train++) check_graph(m, i, n, train);
        weft_model_free(m);
    }
}

/* A train graph with options.centered has the bits of an eval graph, and no input of draws. */
TEST(a_train_graph_may_be_centered) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_preprocess_options o = rows[i].options;
        float got[MOST], want[MOST];
        size_t count = (size_t)(N * C * rows[i].height * rows[i].width);
        o.centered = true;
        weft_model *m = weft_model_new("centered");
        for (int train = 0; train < 2; train++) {
            weft_graph *g = weft_graph_new(m, train ? "train" : "val", train ? WEFT_TRAIN : WEFT_EVAL);
            weft_value *x = weft_input(g, "image", WEFT_U8, 4, (int64_t[]){WEFT_BATCH, C, H, W});
            weft_output(weft_preprocess(x, NULL, &o), "y");
        }
        CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
        run(m, i, N, true, got, count * sizeof *got);
        run(m, i, N, false, want, count * sizeof *want);
        CHECK(memcmp(got, want, count * sizeof *got) == 0);
        weft_model_free(m);
    }
}

/* ---- what is refused ---- */

static void refused(const weft_preprocess_options *o, const char *part) {
    weft_model *m = build(o, 8, 8);
    CHECK_SAYS(strstr(weft_model_error(m)->text, part), "wanted \"%s\", got \"%s\"", part,
               weft_model_error(m)->text);
    weft_model_free(m);
}

TEST(options_that_make_no_sense_are_told) {
    refused(&(weft_preprocess_options){.border = -1}, "border=-1");
    refused(&(weft_preprocess_options){.multiple = -2}, "multiple=-2");
    refused(&(weft_preprocess_options){.crop_height = 9}, "the crop is larger than an image of 8 x 8");
    refused(&(weft_preprocess_options){.crop_width = 11, .border = 1}, "of 10 x 10, border included");
    refused(&(weft_preprocess_options){.std = {1, -1, 1}}, "std of channel 1 is below 0");
    refused(&(weft_preprocess_options){.std = {NAN}}, "std of channel 0");
    weft_model *m = weft_model_new("draws");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "image", WEFT_U8, 4, (int64_t[]){WEFT_BATCH, C, 8, 8});
    CHECK(weft_preprocess(x, NULL, NULL) != NULL); /* nothing to do but the cast */
    CHECK(!weft_preprocess(x, NULL, &(weft_preprocess_options){.flip = true}));
    CHECK_HOLDS(weft_model_error(m)->text, "need draws, f32[N, 3]");
    CHECK(!weft_preprocess(NULL, NULL, NULL));
    weft_model_free(m);
}

SUITE("preprocess", {T(images_are_those_of_torchvision), T(a_train_graph_may_be_centered),
                     T(options_that_make_no_sense_are_told)})
