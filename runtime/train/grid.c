/* grid.c - see grid.h; by libpng's simplified API. */
#include "runtime/train/grid.h"

#include <string.h>

#ifdef WEFT_HAS_PNG
#include <png.h>
#endif

enum { GAP = 2, LARGEST = 20000 }; /* pixels between images; largest width and height */

typedef struct grid {
    int rows, columns, channels;
    int64_t count, height, width; /* images in the tensor; pixels of one image */
} grid;

static grid grid_of(const tensor *t, int rows, int columns) {
    return (grid){.rows = rows,
                  .columns = columns,
                  .channels = t->ndim == 4 ? (int)t->shape[1] : 1,
                  .count = t->shape[0],
                  .height = t->shape[t->ndim - 2],
                  .width = t->shape[t->ndim - 1]};
}

const char *grid_refuses(const tensor *t, int rows, int columns) {
    if (t->ndim != 3 && t->ndim != 4) return "a PNG needs [N,H,W] or [N,C,H,W]";
    if (t->ndim == 4 && t->shape[1] != 1 && t->shape[1] != 3) return "a PNG needs 1 or 3 channels";
    if (t->dtype != WEFT_U8 && t->dtype != WEFT_F32) return "a PNG needs u8 or f32";
    grid g = grid_of(t, rows, columns);
    if (g.height > LARGEST || g.width > LARGEST || (g.height + GAP) * g.rows > LARGEST ||
        (g.width + GAP) * g.columns > LARGEST)
        return "the picture would be wider than 20000 pixels";
    return NULL;
}

/* Element `at` as a gray value, clamped; NaN is black. */
static uint8_t pixel(weft_dtype dtype, const void *data, size_t at, bool is_signed) {
    if (dtype == WEFT_U8) return ((const uint8_t *)data)[at];
    double x = (double)((const float *)data)[at];
    x = is_signed ? x * 127.5 + 128 : x * 255 + 0.5;
    return x >= 255 ? 255 : x > 0 ? (uint8_t)x : 0;
}

/* Copies image k to its place in the canvas, whose rows are `stride` bytes. */
static void put_image(const grid *g, uint8_t *canvas, size_t stride, int64_t k, weft_dtype dtype,
                      const void *data, bool is_signed) {
    size_t top = (size_t)(k / g->columns * (g->height + GAP)),
           left = (size_t)(k % g->columns * (g->width + GAP));
    size_t area = (size_t)(g->height * g->width), image = (size_t)k * area * (size_t)g->channels;
    for (size_t y = 0; y < (size_t)g->height; y++)
        for (size_t x = 0; x < (size_t)g->width; x++)
            for (size_t c = 0; c < (size_t)g->channels; c++)
                canvas[(top + y) * stride + (left + x) * (size_t)g->channels + c] =
                    pixel(dtype, data, image + c * area + y * (size_t)g->width + x, is_signed);
}

/* White between images and where there are none. */
static void draw(const grid *g, uint8_t *canvas, size_t stride, const tensor *t, const void *data) {
    int64_t most = (int64_t)g->rows * g->columns, shown = g->count < most ? g->count : most;
    bool is_signed = false;
    for (int64_t i = 0; t->dtype == WEFT_F32 && i < shown * g->channels * g->height * g->width; i++)
        is_signed = is_signed || ((const float *)data)[i] < 0;
    for (int64_t k = 0; k < shown; k++) put_image(g, canvas, stride, k, t->dtype, data, is_signed);
}

weft_status grid_pack(grid_file *f, const uint8_t *canvas, weft_error *error) {
#ifdef WEFT_HAS_PNG
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)f->width,
                     .height = (png_uint_32)f->height,
                     .format = f->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t bytes = f->room = PNG_IMAGE_PNG_SIZE_MAX(png);
    if (!(f->bytes = weft_memory_new(f->env, f->room))) return kit_no_memory(error, "a PNG");
    if (!png_image_write_to_memory(&png, f->bytes, &bytes, 0, canvas, 0, NULL))
        return kit_fail(error, WEFT_FILE, "a PNG: %s", png.message);
    f->n = bytes;
    return WEFT_OK;
#else
    (void)f, (void)canvas;
    return kit_fail(error, WEFT_UNSUPPORTED, "this build writes no PNG: libpng was not found");
#endif
}

weft_status grid_encode(grid_file *f, const tensor *t, const void *data, int rows, int columns,
                        const weft_env *env, weft_error *error) {
    const char *why = grid_refuses(t, rows, columns);
    *f = (grid_file){.env = env};
    if (why) return kit_fail(error, WEFT_SHAPE, "%s", why);
    grid g = grid_of(t, rows, columns);
    f->channels = g.channels;
    f->width = (int)(columns * (g.width + GAP) - GAP);
    f->height = (int)(rows * (g.height + GAP) - GAP);
    size_t stride = (size_t)(f->width * g.channels), bytes = stride * (size_t)f->height;
    uint8_t *canvas = weft_memory_new(env, bytes);
    if (!canvas) return kit_no_memory(error, "a PNG");
    memset(canvas, 255, bytes);
    draw(&g, canvas, stride, t, data);
    weft_status status = grid_pack(f, canvas, error);
    weft_memory_free(env, canvas, bytes);
    if (status) grid_free(f);
    return status;
}

void grid_free(grid_file *f) {
    weft_memory_free(f->env, f->bytes, f->room);
    *f = (grid_file){.env = f->env};
}
