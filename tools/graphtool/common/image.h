/* image.h - writes a tensor as a PNG of many small images, or as a .npy file. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_IMAGE_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_IMAGE_H

#include "weft/model.h"

/* The first rows * columns images of data, [N,H,W] or [N,C,H,W] with C 1 or 3. u8 is written as it is; f32 is
 * mapped from [-1, 1] if any number is negative, else from [0, 1]. Both return the exit status, after
 * printing an error. */
int image_write_grid(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                     int rows, int columns);
int image_write_npy(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                    size_t bytes);

#endif
