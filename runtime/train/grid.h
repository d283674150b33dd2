/* grid.h - a tensor as a PNG of many small images. */
#ifndef WEFT_RUNTIME_TRAIN_GRID_H
#define WEFT_RUNTIME_TRAIN_GRID_H

#include "runtime/data/kit.h"

/* A PNG file in memory; free it with grid_free. */
typedef struct grid_file {
    const weft_env *env;
    void *bytes;
    size_t n, room;
    int width, height, channels;
} grid_file;

/* The first rows * columns images of data, [N,H,W] or [N,C,H,W] with C 1 or 3. u8 is written as it is; f32 is
 * mapped from [-1, 1] if any number is negative, else from [0, 1]. WEFT_UNSUPPORTED without libpng. */
weft_status grid_encode(grid_file *file, const tensor *type, const void *data, int rows, int columns,
                        const weft_env *env, weft_error *error);
/* Packs pixels of the file's width, height and channels. */
weft_status grid_pack(grid_file *file, const uint8_t *pixels, weft_error *error);
/* Why such a tensor cannot be one; NULL: it can. */
const char *grid_refuses(const tensor *type, int rows, int columns);
void grid_free(grid_file *file);

#endif
