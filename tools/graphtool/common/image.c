/* image.c - PNG by libpng's simplified API, and .npy format version 1.0. */
#include "tools/graphtool/common/image.h"

#include "tools/graphtool/common/options.h"
#include "tools/graphtool/common/output.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* ---- PNG ---- */

enum { GAP = 2, LARGEST = 20000 }; /* pixels between images; largest width and height */

typedef struct grid {
    int rows, columns, channels;
    int64_t count, height, width; /* images in the tensor; pixels of one image */
} grid;

/* Fills the grid from a tensor; returns why it cannot be a PNG, or NULL. */
static const char *grid_of(grid *g, weft_dtype dtype, int ndim, const int64_t *shape) {
    if (ndim != 3 && ndim != 4) return "a PNG needs [N,H,W] or [N,C,H,W]";
    g->channels = ndim == 4 ? (int)shape[1] : 1;
    g->count = shape[0];
    g->height = shape[ndim - 2];
    g->width = shape[ndim - 1];
    if (g->channels != 1 && g->channels != 3) return "a PNG needs 1 or 3 channels";
    if (dtype != WEFT_U8 && dtype != WEFT_F32) return "a PNG needs u8 or f32";
    if ((g->height + GAP) * g->rows > LARGEST || (g->width + GAP) * g->columns > LARGEST)
        return "the picture would be wider than 20000 pixels";
    return NULL;
}

/* Element `at` as a gray value, clamped; NaN is black. */
static uint8_t pixel(weft_dtype dtype, const void *data, size_t at, bool is_signed) {
    if (dtype == WEFT_U8) return ((const uint8_t *)data)[at];
    double x = ((const float *)data)[at];
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

/* Encodes in memory, so that out_write can replace the file as a whole. */
static int write_png(const char *path, const uint8_t *canvas, int64_t width, int64_t height, int channels) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    void *packed = malloc(bytes);
    int status;
    if (!packed)
        status = tool_fail("out of memory");
    else if (!png_image_write_to_memory(&png, packed, &bytes, 0, canvas, 0, NULL))
        status = tool_fail("%s: %s", path, png.message);
    else
        status = out_write(path, packed, bytes);
    free(packed);
    return status;
}

/* White between images and where there are none. */
int image_write_grid(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                     int rows, int columns) {
    grid g = {.rows = rows, .columns = columns};
    const char *why = grid_of(&g, dtype, ndim, shape);
    if (why) return tool_fail("%s: %s", path, why);
    int64_t width = columns * (g.width + GAP) - GAP, height = rows * (g.height + GAP) - GAP;
    size_t stride = (size_t)(width * g.channels);
    uint8_t *canvas = malloc(stride * (size_t)height);
    if (!canvas) return tool_fail("out of memory");
    memset(canvas, 255, stride * (size_t)height);
    int64_t shown = g.count < (int64_t)rows * columns ? g.count : (int64_t)rows * columns;
    bool is_signed = false;
    for (int64_t i = 0; dtype == WEFT_F32 && i < shown * g.channels * g.height * g.width; i++)
        is_signed = is_signed || ((const float *)data)[i] < 0;
    for (int64_t k = 0; k < shown; k++) put_image(&g, canvas, stride, k, dtype, data, is_signed);
    int status = write_png(path, canvas, width, height, g.channels);
    free(canvas);
    return status;
}

/* ---- .npy ---- */

/* The header is a Python literal, padded with blanks and ending with a newline. */
int image_write_npy(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                    size_t bytes) {
    static const char *const descr[WEFT_DTYPES] = {
        [WEFT_F32] = "<f4", [WEFT_F64] = "<f8", [WEFT_F16] = "<f2", [WEFT_I64] = "<i8",
        [WEFT_I32] = "<i4", [WEFT_U8] = "|u1",  [WEFT_BOOL] = "|b1"};
    if (!descr[dtype]) return tool_fail("%s: .npy has no such element type", path);
    char header[512];
    int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[dtype]);
    for (int i = 0; i < ndim; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, i ? " %lld," : "%lld,", (long long)shape[i]);
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    int padded = (10 + n + 1 + 63) / 64 * 64 - 10; /* the format wants the data at a multiple of 64 */
    unsigned char *file = malloc(10 + (size_t)padded + bytes);
    if (!file) return tool_fail("out of memory");
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(padded & 255);
    file[9] = (unsigned char)(padded >> 8);
    memset(file + 10, ' ', (size_t)padded);
    memcpy(file + 10, header, (size_t)n);
    file[10 + padded - 1] = '\n';
    if (bytes) memcpy(file + 10 + padded, data, bytes);
    int status = out_write(path, file, 10 + (size_t)padded + bytes);
    free(file);
    return status;
}
