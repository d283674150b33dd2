/* album.h - the images of one picture: rows that a graph has made, and below them, apart, real ones. */
#ifndef WEFT_RUNTIME_HOOKS_ALBUM_H
#define WEFT_RUNTIME_HOOKS_ALBUM_H

#include "runtime/hooks/grid.h"
#include "runtime/train/trainer.h"

enum { ALBUM_REAL = 2 /* rows of real images */ };

/* Images are bytes, [C,H,W]. */
typedef struct album {
    kit_arena memory;
    tensor type;      /* u8[N,C,H,W] or [N,H,W]; N counts the images of all rows that there may be */
    grid_shape shape; /* rows: of made images, at most */
    int n;            /* rows that are there */
    size_t each;      /* bytes of an image */
    uint8_t *images;  /* [shape.rows + ALBUM_REAL][columns][each] */
    uint8_t *real;    /* [ALBUM_REAL][columns][each]; NULL: none */
} album;

/* An album of images like those of `type`, empty except for the real ones: the first samples of the array
 * that feeds the input `real` in `data` (NULL: no real ones). Call album_close in either case. */
weft_status album_open(album *a, const tensor *type, grid_shape shape, const weft_dataset *data,
                       const char *real, const weft_env *env, weft_error *error);
/* Keeps the first `rows` rows of those that are there or, if they are not, of the picture that an album of
 * such images has written to the file (NULL: none). If neither has as many, the album is empty, as with 0
 * rows. */
void album_keep(album *a, int rows, const char *path);
/* Adds so many rows of what a graph has made; where it made fewer images, the rest is white. */
void album_add(album *a, const tensor *type, const void *data, int rows);
/* The picture of what is there. */
weft_status album_encode(const album *a, kit_arena *memory, grid_file *file, weft_error *error);
void album_close(album *a);

#endif
