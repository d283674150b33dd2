/* grid.c - see grid.h; by libpng's simplified API. */
#include "runtime/hooks/grid.h"

#ifdef WEFT_HAS_PNG
#include <png.h>
#endif

enum { GAP = 2, APART = 8, LARGEST = 20000 }; /* pixels of images between them; largest width and height */

typedef struct grid {
    grid_shape in;
    int channels;
    int64_t count, height, width; /* images in the tensor; pixels of one image */
} grid;

int grid_channels(const tensor *t) {
    return t->ndim == 4 ? (int)t->shape[1] : 1;
}

static grid grid_of(const tensor *t, grid_shape shape) {
    if (!shape.scale) shape.scale = 1;
    return (grid){.in = shape,
                  .channels = grid_channels(t),
                  .count = t->shape[0],
                  .height = t->shape[t->ndim - 2],
                  .width = t->shape[t->ndim - 1]};
}

/* From the top of the picture to that of a row, in its pixels. */
static int64_t top_of(const grid *g, int64_t row) {
    bool is_apart = g->in.apart && row >= g->in.apart;
    return (row * (g->height + GAP) + (is_apart ? APART : 0)) * g->in.scale;
}

static int64_t left_of(const grid *g, int64_t column) {
    return column * (g->width + GAP) * g->in.scale;
}

/* The picture's, in its pixels. */
static int64_t width_of(const grid *g) {
    return left_of(g, g->in.columns) - GAP * g->in.scale;
}

static int64_t height_of(const grid *g) {
    return top_of(g, g->in.rows) - GAP * g->in.scale;
}

const char *grid_refuses(const tensor *t, grid_shape shape) {
    if (t->ndim != 3 && t->ndim != 4) return "a PNG needs [N,H,W] or [N,C,H,W]";
    if (t->ndim == 4 && t->shape[1] != 1 && t->shape[1] != 3) return "a PNG needs 1 or 3 channels";
    if (t->dtype != WEFT_U8 && t->dtype != WEFT_F32) return "a PNG needs u8 or f32";
    grid g = grid_of(t, shape);
    if (g.height > LARGEST || g.width > LARGEST || top_of(&g, shape.rows) > LARGEST ||
        left_of(&g, shape.columns) > LARGEST)
        return "the picture would be larger than 20000 pixels";
    return NULL;
}

/* A number as a gray value, clamped; NaN is black. */
static uint8_t gray(float number, bool is_signed) {
    double x = (double)number;
    x = is_signed ? x * 127.5 + 128 : x * 255 + 0.5;
    return x >= 255 ? 255 : x > 0 ? (uint8_t)x : 0;
}

void grid_bytes(uint8_t *into, const tensor *t, const void *data, int64_t count) {
    tensor some = *t;
    some.shape[0] = count;
    int64_t n = tensor_elements(&some);
    const float *numbers = data;
    bool is_signed = false;
    if (t->dtype == WEFT_U8) memcpy(into, data, (size_t)n);
    for (int64_t i = 0; t->dtype == WEFT_F32 && i < n; i++) is_signed = is_signed || numbers[i] < 0;
    for (int64_t i = 0; t->dtype == WEFT_F32 && i < n; i++) into[i] = gray(numbers[i], is_signed);
}

/* Copies an image, of bytes, to its place k in the canvas, whose rows are `stride` bytes. */
static void put_image(const grid *g, uint8_t *canvas, size_t stride, int64_t k, const uint8_t *image) {
    size_t scale = (size_t)g->in.scale, channels = (size_t)g->channels, height = (size_t)g->height * scale,
           width = (size_t)g->width * scale;
    size_t top = (size_t)top_of(g, k / g->in.columns), left = (size_t)left_of(g, k % g->in.columns);
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < channels; c++)
                canvas[(top + y) * stride + (left + x) * channels + c] =
                    image[(c * (size_t)g->height + y / scale) * (size_t)g->width + x / scale];
}

/* White between images and where there are none. */
static weft_status draw(const grid *g, kit_arena *memory, uint8_t *canvas, size_t stride, const tensor *t,
                        const void *data, weft_error *error) {
    int64_t most = (int64_t)g->in.rows * g->in.columns, shown = g->count < most ? g->count : most;
    size_t each = (size_t)(g->channels * g->height * g->width);
    uint8_t *images = kit_take_raw(memory, shown, each);
    if (!images) return kit_no_memory(error, "a PNG");
    grid_bytes(images, t, data, shown);
    for (int64_t k = 0; k < shown; k++) put_image(g, canvas, stride, k, images + (size_t)k * each);
    kit_drop(memory, images);
    return WEFT_OK;
}

weft_status grid_pack(kit_arena *memory, grid_file *f, const uint8_t *canvas, weft_error *error) {
#ifdef WEFT_HAS_PNG
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)f->width,
                     .height = (png_uint_32)f->height,
                     .format = f->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    void *into = kit_take_raw(memory, bytes, 1);
    if (!into) return kit_no_memory(error, "a PNG");
    if (!png_image_write_to_memory(&png, into, &bytes, 0, canvas, 0, NULL))
        return kit_fail(error, WEFT_FILE, "a PNG: %s", png.message);
    f->bytes = into;
    f->n = bytes;
    return WEFT_OK;
#else
    return kit_fail(error, WEFT_UNSUPPORTED, "this build writes no PNG: libpng was not found");
#endif
}

weft_status grid_encode(kit_arena *memory, grid_file *f, const tensor *t, const void *data, grid_shape shape,
                        weft_error *error) {
    const char *why = grid_refuses(t, shape);
    if (why) return kit_fail(error, WEFT_SHAPE, "%s", why);
    grid g = grid_of(t, shape);
    *f = (grid_file){.channels = g.channels, .width = (int)width_of(&g), .height = (int)height_of(&g)};
    size_t stride = (size_t)(f->width * g.channels), bytes = stride * (size_t)f->height;
    uint8_t *canvas = kit_take_raw(memory, bytes, 1);
    if (!canvas) return kit_no_memory(error, "a PNG");
    memset(canvas, 255, bytes);
    weft_status status = draw(&g, memory, canvas, stride, t, data, error);
    if (!status) status = grid_pack(memory, f, canvas, error);
    kit_drop(memory, canvas);
    return status;
}

static void take_image(const grid *g, const image *picture, int64_t k, uint8_t *into) {
    int64_t top = top_of(g, k / g->in.columns), left = left_of(g, k % g->in.columns);
    for (int64_t c = 0, i = 0; c < g->channels; c++)
        for (int64_t y = 0; y < g->height; y++)
            for (int64_t x = 0; x < g->width; x++, i++)
                into[i] = picture->data[((top + y * g->in.scale) * picture->width + left + x * g->in.scale) *
                                            g->channels +
                                        c];
}

bool grid_take(const image *picture, const tensor *t, grid_shape shape, uint8_t *into, int64_t count) {
    grid g = grid_of(t, shape);
    if (picture->channels != g.channels || picture->width != width_of(&g) || picture->height != height_of(&g))
        return false;
    for (int64_t k = 0; k < count; k++)
        take_image(&g, picture, k, into + (size_t)(k * g.channels * g.height * g.width));
    return true;
}
