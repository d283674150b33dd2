/* parts.h - how many parts one launch takes, for kernels whose arguments hold a list of parts, and for
 * rows that count their launches. */
#ifndef WEFT_OPS_CUDA_KIT_PARTS_H
#define WEFT_OPS_CUDA_KIT_PARTS_H

/* Pieces of a bucket that are copied; parameters, or operands, whose norm is taken. */
enum { BUCKET_PARTS = 128, NORM_PARTS = 96 };

/* Launches for so many parts. */
static inline int launches_of(int parts, int room) {
    return (parts + room - 1) / room;
}

#endif
