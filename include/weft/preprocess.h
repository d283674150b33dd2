/** @file
 * preprocess.h - a data preprocessor for images, built of ops into the graph that uses it: in train mode a
 * crop and a flip by the loader's draws, in eval mode the middle and no flip.
 */
#ifndef WEFT_PREPROCESS_H
#define WEFT_PREPROCESS_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most channels that a preprocessor normalizes one by one. */
#define WEFT_PREPROCESS_CHANNELS 16

/** Options of weft_preprocess(), in the order in which they act. Zeroes leave the step out. */
typedef struct weft_preprocess_options {
    int64_t border;      /**< zeros around each image, before the crop */
    int64_t crop_height; /**< rows of the crop; 0: all */
    int64_t crop_width;  /**< columns of the crop; 0: all */
    bool flip;           /**< in training, every second image or so is mirrored from left to right */
    bool centered;       /**< in training as in an eval graph: a teacher's view, or training without noise */
    bool swap_channels;  /**< the channels in the other order: RGB to BGR */
    /** Subtracted from each channel, after swapping, in the images' own units, which are 0 to 255 for u8. */
    double mean[WEFT_PREPROCESS_CHANNELS];
    double std[WEFT_PREPROCESS_CHANNELS]; /**< each channel is divided by it; 0: 1 */
    int64_t multiple;                 /**< height and width are filled up to a multiple of it, at the end */
    double fill;                      /**< the value of what is filled up */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_preprocess_options;
/** Its plain fields (field.h). */
WEFT_API const weft_field *weft_preprocess_fields(void);

/** Draws that a training graph needs for each image: its input "draws" is f32[batch, 3], fed by a loader
 * with draws=3, so that an image is cropped and flipped the same in any world. */
#define WEFT_PREPROCESS_DRAWS 3

/** images[N, C, H, W] of u8 or f32 -> f32[N, C, H', W']. The graph's mode is the switch: in train graphs
 * `draws`, f32[N, 3] in [0, 1), says where crops begin and what is flipped; in eval graphs and with
 * options.centered, where it may be NULL, crops are in the middle and nothing is flipped. */
WEFT_API weft_value *weft_preprocess(weft_value *images, weft_value *draws,
                                     const weft_preprocess_options *options);

#ifdef __cplusplus
}
#endif
#endif
