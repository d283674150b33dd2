/* lines.h - a line x[N, C, L] as an image of one row, which is the same memory, and back. */
#ifndef WEFT_OPS_IMAGE_LINES_H
#define WEFT_OPS_IMAGE_LINES_H

#include "ops/kit/op_kit.h"

/* x [A, B, L] as [A, B, 1, L]. */
weft_value *line_as_image(weft_value *x);
/* x [A, B, 1, L] as [A, B, L]; NULL is passed through. */
weft_value *image_as_line(weft_value *x);

#endif
