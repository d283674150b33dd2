/* preprocess.c - images cropped, flipped and normalized by ops of the graph. A crop takes rows, then
 * columns, by ids that are made of the image's draws; a flip takes the columns in the other order, so that
 * it costs nothing. */
#include "weft/preprocess.h"

#include "runtime/data/kit.h"
#include "weft/ops.h"

#include <float.h>

typedef struct preprocessor {
    weft_graph *graph;
    const weft_preprocess_options *options;
    int64_t channels, height, width; /* of the image at each point */
    int64_t rows, columns;           /* of the crop */
    bool draws;                      /* something is random */
} preprocessor;

static const weft_field fields[] = {
    WEFT_FIELD(weft_preprocess_options, border, COUNT, 1, 65535, NULL,
               "zeros around each image, before the crop"),
    WEFT_FIELD(weft_preprocess_options, crop_height, COUNT, 1, WEFT_COUNT_MOST, "all", "rows of the crop"),
    WEFT_FIELD(weft_preprocess_options, crop_width, COUNT, 1, WEFT_COUNT_MOST, "all", "columns of the crop"),
    WEFT_FIELD(weft_preprocess_options, flip, FLAG, 0, 1, NULL,
               "in training about every second image is mirrored"),
    WEFT_FIELD(weft_preprocess_options, centered, FLAG, 0, 1, NULL,
               "no random crop or flip in training either"),
    WEFT_FIELD(weft_preprocess_options, swap_channels, FLAG, 0, 1, NULL, "RGB becomes BGR"),
    WEFT_FIELD(weft_preprocess_options, multiple, COUNT, 1, 65535, NULL,
               "height and width are filled up to a multiple of it"),
    WEFT_FIELD(weft_preprocess_options, fill, REAL, -FLT_MAX, FLT_MAX, NULL,
               "the value of what is filled up"),
    WEFT_FIELD_END(weft_preprocess_options),
};

const weft_field *weft_preprocess_fields(void) {
    return fields;
}

/* Sets shapes, or the error. */
static weft_status check_images(preprocessor *p, weft_value *images, weft_value *draws, weft_error *error) {
    const weft_preprocess_options *o = p->options;
    if (weft_ndim(images) != 4)
        return kit_fail(error, WEFT_ARGUMENT, "preprocess: images have 4 axes, [N, C, H, W], not %d",
                        weft_ndim(images));
    if (weft_fields_check(fields, o, "preprocess", error)) return error->status;
    p->channels = weft_dim(images, 1);
    p->height = weft_dim(images, 2) + 2 * o->border;
    p->width = weft_dim(images, 3) + 2 * o->border;
    p->rows = o->crop_height ? o->crop_height : p->height;
    p->columns = o->crop_width ? o->crop_width : p->width;
    if (p->rows > p->height || p->columns > p->width)
        return kit_fail(error, WEFT_ARGUMENT,
                        "preprocess: the crop is larger than an image of %jd x %jd, border included",
                        p->height, p->width);
    if (p->channels > WEFT_PREPROCESS_CHANNELS)
        return kit_fail(error, WEFT_ARGUMENT, "preprocess: %jd channels, at most %d", p->channels,
                        WEFT_PREPROCESS_CHANNELS);
    for (int64_t c = 0; c < p->channels; c++)
        if (!(o->std[c] >= 0))
            return kit_fail(error, WEFT_ARGUMENT, "preprocess: std of channel %jd is below 0", c);
    bool is_random = weft_graph_mode(p->graph) == WEFT_TRAIN && !o->centered;
    p->draws = is_random && (o->flip || p->rows < p->height || p->columns < p->width);
    if (p->draws && !draws)
        return kit_fail(
            error, WEFT_ARGUMENT,
            "preprocess: crops and flips of a train graph need draws, f32[N, %d], or .centered = true",
            WEFT_PREPROCESS_DRAWS);
    if (p->draws && (weft_ndim(draws) != 2 || weft_dim(draws, 1) < WEFT_PREPROCESS_DRAWS))
        return kit_fail(error, WEFT_ARGUMENT, "preprocess: draws are f32[N, %d], from a loader with draws=%d",
                        WEFT_PREPROCESS_DRAWS, WEFT_PREPROCESS_DRAWS);
    return WEFT_OK;
}

/* ---- crops and flips ---- */

/* Draw k of each image, [N, 1, 1, 1]. */
static weft_value *draw_of(weft_value *draws, int k) {
    return weft_reshape(weft_slice(draws, 1, k, k + 1), 4, (int64_t[]){-1, 1, 1, 1});
}

/* Where the crop begins, [N, 1, 1, 1]: any of left + 1 places. A draw is below 1 by 2^-24 at least, so the
 * product in f32 stays below left + 1. */
static weft_value *begin_of(weft_value *draws, int k, int64_t left) {
    return weft_floor(weft_scale(draw_of(draws, k), (double)(left + 1)));
}

/* 0 to n - 1 along an axis of [1, 1, 1, 1]. */
static weft_value *places(const preprocessor *p, int64_t n, int axis) {
    int64_t shape[4] = {1, 1, 1, 1};
    shape[axis] = n;
    return weft_reshape(weft_arange(p->graph, WEFT_F32, 0, (double)n, 1), 4, shape);
}

/* Places are computed in f32, which has all integers that an axis can have. */
static weft_value *take(weft_value *x, weft_value *at, int axis) {
    return weft_take_along_axis(x, weft_cast(at, WEFT_I64), axis);
}

static weft_value *random_crop(const preprocessor *p, weft_value *x, weft_value *draws) {
    if (p->rows < p->height) {
        weft_value *begin = begin_of(draws, 0, p->height - p->rows);
        x = take(x, weft_add(begin, places(p, p->rows, 2)), 2);
    }
    if (p->columns == p->width && !p->options->flip) return x;
    weft_value *columns = places(p, p->columns, 3);
    if (p->options->flip) {
        weft_value *half = weft_constant(p->graph, WEFT_F32, 0, NULL, 0.5);
        weft_value *is_flipped = weft_less(draw_of(draws, 2), half);
        weft_value *back = weft_offset(weft_neg(columns), (double)(p->columns - 1));
        columns = weft_where(is_flipped, back, columns);
    }
    weft_value *begin = begin_of(draws, 1, p->width - p->columns);
    return take(x, weft_add(begin, columns), 3);
}

/* torchvision's CenterCrop: half of what is left over, rounded to the even number. */
static weft_value *middle(weft_value *x, int axis, int64_t length, int64_t wanted) {
    int64_t left = length - wanted, begin = left / 2 + (left % 2 && left / 2 % 2);
    return left ? weft_slice(x, axis, begin, begin + wanted) : x;
}

/* ---- the rest ---- */

static weft_value *per_channel(const preprocessor *p, const double *numbers, double zero) {
    float values[WEFT_PREPROCESS_CHANNELS];
    for (int64_t c = 0; c < p->channels; c++) values[c] = (float)(numbers[c] != 0 ? numbers[c] : zero);
    return weft_constant_tensor(p->graph, WEFT_F32, 4, (int64_t[]){1, p->channels, 1, 1}, values);
}

static bool any(const preprocessor *p, const double *numbers) {
    bool found = false;
    for (int64_t c = 0; c < p->channels; c++) found = found || numbers[c] != 0;
    return found;
}

static weft_value *normalize(const preprocessor *p, weft_value *x) {
    const weft_preprocess_options *o = p->options;
    if (o->swap_channels) x = weft_flip(x, 1, (int64_t[]){1});
    if (weft_value_dtype(x) != WEFT_F32) x = weft_cast(x, WEFT_F32);
    if (any(p, o->mean)) x = weft_sub(x, per_channel(p, o->mean, 0));
    if (any(p, o->std)) x = weft_div(x, per_channel(p, o->std, 1));
    int64_t m = o->multiple ? o->multiple : 1, down = (m - p->rows % m) % m, right = (m - p->columns % m) % m;
    return down || right ? weft_constant_pad(x, 2, (int64_t[]){0, right, 0, down}, o->fill) : x;
}

weft_value *weft_preprocess(weft_value *images, weft_value *draws, const weft_preprocess_options *options) {
    static const weft_preprocess_options none = {.border = 0};
    preprocessor p = {.graph = weft_value_graph(images), .options = options ? options : &none};
    weft_error error = {0};
    if (!images) return NULL;
    if (check_images(&p, images, draws, &error))
        return weft_graph_fail(p.graph, error.status, error.text), NULL;
    int64_t b = p.options->border;
    weft_value *x = b ? weft_constant_pad(images, 2, (int64_t[]){b, b, b, b}, 0) : images;
    if (p.draws)
        x = random_crop(&p, x, draws);
    else
        x = middle(middle(x, 2, p.height, p.rows), 3, p.width, p.columns);
    return normalize(&p, x);
}
