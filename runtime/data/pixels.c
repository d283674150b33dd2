/* pixels.c - memory for images, and channels converted as Pillow's convert() does: grey is ITU-R 601-2 luma
 * with 16 bits of fraction, and alpha that is not wanted is dropped, not blended. */
#include "runtime/data/image.h"

enum { MOST_SIDE = 65535, MOST_PIXELS = 1 << 27 };

void image_free(const weft_env *env, image *i) {
    weft_memory_free(env, i->data, (size_t)(i->width * i->height * i->channels));
    i->data = NULL;
}

weft_status image_new(const image_file *f, int64_t width, int64_t height, int channels, int64_t best,
                      image *into, weft_error *error) {
    if (width < 1 || height < 1 || width > MOST_SIDE || height > MOST_SIDE || width * height > MOST_PIXELS)
        return kit_fail(error, WEFT_FILE,
                        "%.600s: %jd x %jd pixels: sides of 1 to %d and at most %d pixels are read", f->path,
                        width, height, MOST_SIDE, MOST_PIXELS);
    if (width * height / best > (int64_t)f->bytes)
        return kit_fail(error, WEFT_FILE, "%.600s: %jd x %jd pixels do not fit into a file of %zu bytes",
                        f->path, width, height, f->bytes);
    *into = (image){width, height, channels, NULL};
    into->data = weft_memory_new(f->env, (size_t)(width * height * channels));
    return into->data ? WEFT_OK : kit_no_memory(error, f->path);
}

/* One pixel from 1 to 4 channels to 1, 3 or 4. */
static void convert_pixel(const unsigned char *from, int had, unsigned char *to, int want) {
    bool is_grey = had < 3;
    if (want == 1) {
        to[0] = is_grey
                    ? from[0]
                    : (unsigned char)((from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
        return;
    }
    for (int c = 0; c < 3; c++) to[c] = is_grey ? from[0] : from[c];
    if (want == 4) to[3] = had == 2 || had == 4 ? from[had - 1] : 255;
}

weft_status image_convert(const image_file *f, int channels, image *i, weft_error *error) {
    image to;
    if (image_new(f, i->width, i->height, channels, INT64_MAX, &to, error)) return error->status;
    for (int64_t p = 0; p < i->width * i->height; p++)
        convert_pixel(i->data + p * i->channels, i->channels, to.data + p * channels, channels);
    image_free(f->env, i);
    *i = to;
    return WEFT_OK;
}
