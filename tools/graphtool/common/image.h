/* image.h - writes a tensor as a PNG of many small images, or as a .npy file. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_IMAGE_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_IMAGE_H

#include "weft/model.h"

/* Where images are in a PNG. */
typedef struct image_grid {
    int rows, columns;
    int scale; /* pixels of the PNG, each way, for one of an image; 0: 1 */
} image_grid;

/* As grid_encode of runtime/train/grid.h. */
void image_write_grid(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                     image_grid grid);
void image_write_npy(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                    size_t bytes);

#endif
