/* volumes.h - a volume as images, for what separates along its axes: its planes, then its depths, and back.
 * Channels-last these are the same memory. NULL is passed through. */
#ifndef WEFT_OPS_IMAGE_VOLUMES_H
#define WEFT_OPS_IMAGE_VOLUMES_H

#include "ops/shape/lengths.h"

/* x [N, C, D, H, W] as images [N D, C, H, W]; *whole becomes its lengths as [N, D, C, H, W]. */
weft_value *volume_planes(weft_value *x, lengths *whole);
/* x [N D, C, h, w] as images [N, C, D, h w]; *whole becomes [N, D, C, h, w]. */
weft_value *volume_depths(weft_value *x, lengths *whole);
/* x [N, C, d, h w] as a volume [N, C, d, h, w]. */
weft_value *volume_again(weft_value *x, const lengths *whole);

#endif
