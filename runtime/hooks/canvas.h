/* canvas.h - lines and text as SVG, or as pixels for a PNG. Coordinates are pixels of the SVG, from the left
 * and the top; a PNG has SCALE times as many. Colors are 0xRRGGBB. */
#ifndef WEFT_RUNTIME_HOOKS_CANVAS_H
#define WEFT_RUNTIME_HOOKS_CANVAS_H

#include "runtime/data/kit.h"

/* Where its memory runs out, drawing does nothing any more. */
typedef struct canvas {
    kit_arena memory;
    bool is_png;
    int width, height;
    char *svg;
    size_t n;        /* bytes of svg */
    uint8_t *pixels; /* [height * SCALE][width * SCALE][3] */
} canvas;

typedef struct point {
    double x, y;
} point;

typedef enum anchor { FROM, MIDDLE, TO } anchor; /* which part of a text is at its x */

enum { CANVAS_SCALE = 2 };

void canvas_open(canvas *c, bool is_png, int width, int height, const weft_env *env);
void canvas_line(canvas *c, const point *points, int n, double width, int color);
void canvas_text(canvas *c, point at, anchor anchor, double size, int color, const char *text);
/* The file: bytes in its memory. */
weft_status canvas_file(canvas *c, const void **bytes, size_t *n, weft_error *error);

#endif
