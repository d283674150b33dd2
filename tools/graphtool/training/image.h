/* image.h - writes a tensor as a PNG of many small images, or as a .npy file. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TRAINING_IMAGE_H
#define WEFT_TOOLS_GRAPHTOOL_TRAINING_IMAGE_H

#include "weft/data.h"

/* Where images are in a PNG. */
typedef struct image_grid {
    int rows, columns;
    int scale; /* pixels of the PNG, each way, for one of an image; 0: 1 */
} image_grid;

/* As grid_encode of runtime/hooks/grid.h. */
void image_write_png(const char *path, const weft_array *images, image_grid grid);
void image_write_npy(const char *path, const weft_array *numbers);

#endif
