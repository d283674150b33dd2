/* image_png.c - PNG by libpng: palettes and small greys become bytes, gamma is left alone, as Pillow does.
 * The upper 8 of 16 bits are taken, also of grey, where Pillow's convert() makes all above 255 white. libpng
 * takes its working memory from malloc and returns from errors by longjmp, so what lives across one is in a
 * structure. */
#include "runtime/data/image.h"

#ifdef WEFT_HAS_PNG
#include <png.h>
#include <setjmp.h>

enum { MOST_CHUNK = 8 << 20, BEST_RATIO = 8 * 1032 /* a pixel may be a bit; deflate's upper bound */ };

typedef struct png_job {
    const image_file *file;
    png_structp png;
    png_infop info;
    size_t at; /* bytes read */
    image *into;
    char reason[200];
} png_job;

static void on_error(png_structp png, png_const_charp text) {
    png_job *j = png_get_error_ptr(png);
    snprintf(j->reason, sizeof j->reason, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
}

static void on_read(png_structp png, png_bytep into, size_t bytes) {
    png_job *j = png_get_io_ptr(png);
    if (bytes > j->file->bytes - j->at) png_error(png, "it ends early");
    memcpy(into, j->file->data + j->at, bytes);
    j->at += bytes;
}

/* Up to where memory for the pixels is needed. */
static bool read_header(png_job *j) {
    if (setjmp(png_jmpbuf(j->png))) return false;
    png_set_read_fn(j->png, j, on_read);
    png_set_chunk_malloc_max(j->png, MOST_CHUNK);
    png_set_benign_errors(j->png, 1);
    png_read_info(j->png, j->info);
    png_set_expand(j->png);
    png_set_strip_16(j->png);
    return true;
}

/* An interlaced image comes in seven passes over all rows. */
static bool read_pixels(png_job *j) {
    if (setjmp(png_jmpbuf(j->png))) return false;
    int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    size_t row = (size_t)(j->into->width * j->into->channels);
    if (png_get_rowbytes(j->png, j->info) != row)
        png_error(j->png, "its rows have another length than it says");
    for (int p = 0; p < passes; p++)
        for (int64_t y = 0; y < j->into->height; y++)
            png_read_row(j->png, j->into->data + (size_t)y * row, NULL);
    return true;
}

/* Channels after expanding: a palette is RGB, transparency of a palette or of a colour is alpha. */
static int expanded_channels(const png_job *j) {
    int type = png_get_color_type(j->png, j->info);
    bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(j->png, j->info, PNG_INFO_tRNS);
    return (type & PNG_COLOR_MASK_COLOR ? 3 : 1) + has_alpha;
}

static weft_status decode(png_job *j, weft_error *error) {
    const char *path = j->file->path;
    if (!read_header(j)) return kit_fail(error, WEFT_FILE, "%.600s: PNG: %s", path, j->reason);
    weft_status status =
        image_new(j->file, png_get_image_width(j->png, j->info), png_get_image_height(j->png, j->info),
                  expanded_channels(j), BEST_RATIO, j->into, error);
    if (status || read_pixels(j)) return status;
    return kit_fail(error, WEFT_FILE, "%.600s: PNG: %s", path, j->reason);
}

weft_status image_decode_png(const image_file *f, image *into, weft_error *error) {
    png_job j = {.file = f, .into = into};
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    weft_status status = j.info ? decode(&j, error) : kit_no_memory(error, f->path);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    return status;
}

#else

weft_status image_decode_png(const image_file *f, image *into, weft_error *error) {
    return kit_fail(error, WEFT_UNSUPPORTED, "%.600s: this libweft_train was built without libpng", f->path);
}

#endif
