/* test_preprocess.c - the data preprocessor against plain loops: options drawn at random, in train and in
 * eval graphs, at two batches of one model; and what it refuses. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 3, MOST = 40 };

/* ---- plain loops ---- */

typedef struct want {
    int64_t height, width;
    float *data; /* [n, C, height, width] */
} want;

static int64_t begin_of(int64_t left, float draw, bool train) {
    int64_t odd = left / 2 % 2 && left % 2; /* half to even */
    return train ? (int64_t)floor((double)draw * (double)(left + 1)) : left / 2 + odd;
}

static float pixel(const weft_preprocess_options *o, const unsigned char *image, int64_t h, int64_t w,
                   int64_t c, int64_t y, int64_t x) {
    int64_t from = o->swap_channels ? C - 1 - c : c;
    y -= o->border, x -= o->border;
    float v = y < 0 || x < 0 || y >= h || x >= w ? 0 : image[(from * h + y) * w + x];
    return (v - (float)o->mean[c]) / (o->std[c] != 0 ? (float)o->std[c] : 1);
}

static want loops(const weft_preprocess_options *o, const unsigned char *images, const float *draws,
                  int64_t n, int64_t h, int64_t w, bool train) {
    int64_t rows = o->crop_height ? o->crop_height : h + 2 * o->border, m = o->multiple ? o->multiple : 1;
    int64_t columns = o->crop_width ? o->crop_width : w + 2 * o->border;
    want r = {(rows + m - 1) / m * m, (columns + m - 1) / m * m, NULL};
    r.data = test_memory((size_t)(n * C * r.height * r.width) * sizeof *r.data);
    for (int64_t i = 0; i < n; i++) {
        const float *d = draws + 3 * i;
        int64_t top = begin_of(h + 2 * o->border - rows, d[0], train),
                left = begin_of(w + 2 * o->border - columns, d[1], train);
        bool flips = train && o->flip && d[2] < 0.5f;
        for (int64_t c = 0; c < C; c++)
            for (int64_t y = 0; y < r.height; y++)
                for (int64_t x = 0; x < r.width; x++)
                    r.data[((i * C + c) * r.height + y) * r.width + x] =
                        y >= rows || x >= columns ? (float)o->fill
                                                  : pixel(o, images + i * C * h * w, h, w, c, top + y,
                                                          left + (flips ? columns - 1 - x : x));
    }
    return r;
}

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

static void check_graph(const weft_model *m, const weft_preprocess_options *o, int64_t n, int64_t h,
                        int64_t w, bool train, test_random *r) {
    const char *graph = train ? "train" : "val";
    unsigned char images[4 * C * MOST * MOST];
    float draws[3 * 4];
    weft_error error = {0};
    for (int64_t i = 0; i < n * C * h * w; i++) images[i] = (unsigned char)random_bits(r);
    for (int i = 0; i < 3 * n; i++) draws[i] = (float)(random_bits(r) >> 40) * 0x1p-24f;
    if (random_bits(r) % 4 == 0) draws[0] = 0, draws[1] = 1 - 0x1p-24f, draws[2] = 0.5f;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = n, .threads = 1}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
    CHECK_SAYS(s != NULL, "%s", error.text);
    want expected = loops(o, images, draws, n, h, w, train);
    size_t bytes = (size_t)(n * C * expected.height * expected.width) * sizeof(float);
    float *got = test_memory(bytes);
    weft_feed in[] = {{"image", images, (size_t)(n * C * h * w)},
                      {"draws", draws, (size_t)n * 3 * sizeof(float)}};
    weft_port port = {0};
    if (s)
        weft_run(s, graph, in, weft_plan_input(plan, graph, 1, &port) ? 2 : 1, &(weft_fetch){"y", got, bytes},
                 1, &error);
    CHECK_SAYS(s && !error.status, "%s", error.text);
    float worst = 0;
    for (size_t i = 0; s && !error.status && i < bytes / sizeof *got; i++)
        worst = fmaxf(worst, fabsf(got[i] - expected.data[i]));
    CHECK_SAYS(worst <= 1e-4f, "%s, %lld images of %lld x %lld: off by %g", graph, (long long)n, (long long)h,
               (long long)w, worst);
    free(got);
    free(expected.data);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

TEST(images_are_those_of_plain_loops) {
    test_random r = {test_seed(1)};
    for (int i = 0; i < test_count(60, 15); i++) {
        int64_t h = 3 + (int64_t)(random_bits(&r) % 20), w = 3 + (int64_t)(random_bits(&r) % 20);
        weft_preprocess_options o = {.border = (int64_t)(random_bits(&r) % 3),
                                     .flip = random_bits(&r) % 2,
                                     .swap_channels = random_bits(&r) % 2,
                                     .multiple = (int64_t)(random_bits(&r) % 5),
                                     .fill = (double)(random_bits(&r) % 3)};
        if (random_bits(&r) % 4) o.crop_height = 1 + (int64_t)(random_bits(&r) % (uint64_t)h);
        if (random_bits(&r) % 4) o.crop_width = 1 + (int64_t)(random_bits(&r) % (uint64_t)w);
        for (int c = 0; c < C && random_bits(&r) % 3; c++)
            o.mean[c] = 100 + c, o.std[c] = c == 1 ? 0 : 50 + c;
        weft_model *m = build(&o, h, w);
        CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
        for (int n = 1; n <= 4; n += 3)
            for (int train = 0; train < 2; train++) check_graph(m, &o, n, h, w, train, &r);
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

SUITE("preprocess", {T(images_are_those_of_plain_loops), T(options_that_make_no_sense_are_told)})
