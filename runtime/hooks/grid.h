/* grid.h - a tensor as a PNG of many small images. */
#ifndef WEFT_RUNTIME_HOOKS_GRID_H
#define WEFT_RUNTIME_HOOKS_GRID_H

#include "runtime/data/image.h"

/* A PNG file in memory. */
typedef struct grid_file {
    const void *bytes;
    size_t n;
    int width, height, channels;
} grid_file;

/* Where images are in a picture. */
typedef struct grid_shape {
    int rows, columns;
    int scale; /* pixels of the picture, in height and in width, for one of an image; 0: 1 */
    int apart; /* from this row on images have a wide gap above them; 0: no row has one */
} grid_shape;

/* The first rows * columns images of data, [N,H,W] or [N,C,H,W] with C 1 or 3, as grid_bytes makes them.
 * WEFT_UNSUPPORTED without libpng. */
weft_status grid_encode(kit_arena *memory, grid_file *file, const tensor *type, const void *data,
                        grid_shape shape, weft_error *error);
/* The first `count` images as bytes: u8 as it is; f32 from [-1, 1] if any of these numbers is negative, else
 * from [0, 1]. */
void grid_bytes(uint8_t *into, const tensor *type, const void *data, int64_t count);
/* Takes the first `count` images back out of a picture that grid_encode has made of such images; false: the
 * picture is of another size. */
bool grid_take(const image *picture, const tensor *type, grid_shape shape, uint8_t *into, int64_t count);
/* Packs pixels of the file's width, height and channels. */
weft_status grid_pack(kit_arena *memory, grid_file *file, const uint8_t *pixels, weft_error *error);
/* Of each image. */
int grid_channels(const tensor *type);
/* Why such a tensor cannot be one; NULL: it can. */
const char *grid_refuses(const tensor *type, grid_shape shape);

#endif
