/* image.h - PNG and JPEG files as pixels of bytes, and pixels resized as Pillow does it. */
#ifndef WEFT_RUNTIME_DATA_IMAGE_H
#define WEFT_RUNTIME_DATA_IMAGE_H

#include "runtime/data/kit.h"

/* Rows from the top, pixels from the left, the channels of a pixel together. */
typedef struct image {
    int64_t width, height;
    int channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    unsigned char *data;
} image;

/* A file in memory, and what messages call it. */
typedef struct image_file {
    const weft_env *env;
    const char *path;
    const unsigned char *data;
    size_t bytes;
} image_file;

/* Decodes to 1, 3 or 4 channels. The caller frees it by image_free. */
weft_status image_decode(const image_file *f, int channels, image *into, weft_error *error);
/* The same of a file by its path. */
weft_status image_load(const weft_env *env, const char *path, int channels, image *into, weft_error *error);
void image_free(const weft_env *env, image *i);

/* Takes memory for width x height x channels, after checking that the numbers are sensible and that the
 * file is long enough for them; for the decoders. `best` is the most pixels that a byte of the file can
 * hold. */
weft_status image_new(const image_file *f, int64_t width, int64_t height, int channels, int64_t best,
                      image *into, weft_error *error);
/* Converts an image to 1, 3 or 4 channels. */
weft_status image_convert(const image_file *f, int channels, image *i, weft_error *error);
weft_status image_decode_png(const image_file *f, image *into, weft_error *error);
weft_status image_decode_jpeg(const image_file *f, image *into, weft_error *error);

/* A rectangle of the image as it would be at width x height. */
typedef struct image_crop {
    int64_t width, height;       /* the whole image's new size */
    int64_t x, y, columns, rows; /* the part that is wanted */
} image_crop;
/* Writes u8[channels, rows, columns]. */
weft_status image_resize(const weft_env *env, const image *from, const image_crop *to, unsigned char *planes,
                         weft_error *error);

#endif
