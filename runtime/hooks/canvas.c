/* canvas.c - see canvas.h. Pixels get the share of a line that covers them. Letters of a PNG are strokes: no
 * library of fonts is needed for a few words. */
#include "runtime/hooks/canvas.h"

#include "runtime/hooks/grid.h"

#include <math.h>
#include <stdarg.h>

/* ---- SVG ---- */

enum { LONGEST = 600 /* bytes of a call */ };

__attribute__((format(printf, 2, 3))) static void print(canvas *c, const char *format, ...) {
    va_list args;
    char *svg = kit_grow(&c->memory, c->svg, c->n + LONGEST, 1);
    if (!svg) return;
    c->svg = svg;
    va_start(args, format);
    int n = vsnprintf(svg + c->n, LONGEST, format, args);
    va_end(args);
    c->n += n < 0 ? 0 : n < LONGEST ? (size_t)n : LONGEST - 1;
}

static void print_escaped(canvas *c, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<':
            print(c, "&lt;");
            break;
        case '&':
            print(c, "&amp;");
            break;
        default:
            print(c, "%c", *text);
        }
}

/* ---- pixels ---- */

static void blend(canvas *c, int x, int y, double share, int color) {
    int width = c->width * CANVAS_SCALE, height = c->height * CANVAS_SCALE;
    if (x < 0 || y < 0 || x >= width || y >= height || share <= 0) return;
    uint8_t *p = c->pixels + ((size_t)y * (size_t)width + (size_t)x) * 3;
    for (int i = 0; i < 3; i++) {
        double to = color >> (16 - 8 * i) & 255;
        p[i] = (uint8_t)lround(p[i] + (to - p[i]) * fmin(share, 1));
    }
}

/* The distance of a point from a segment. */
static double distance(point p, point a, point b) {
    double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

/* From a to b, in pixels; a pixel is covered as far as it is within half the width. */
static void stroke(canvas *c, point a, point b, double width, int color) {
    double reach = width / 2 + 1;
    int x0 = (int)floor(fmin(a.x, b.x) - reach), x1 = (int)ceil(fmax(a.x, b.x) + reach);
    int y0 = (int)floor(fmin(a.y, b.y) - reach), y1 = (int)ceil(fmax(a.y, b.y) + reach);
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++)
            blend(c, x, y, width / 2 + 0.5 - distance((point){x + 0.5, y + 0.5}, a, b), color);
}

/* ---- letters ---- */

/* A line for each letter: polylines of points "xy" on a grid: x is 0 to 4; y is 0 at the top, 6 at the base
 * line, 8 below it. */
static const char letters[] = "0 103041453616050110\n"
                              "1 112026 1636\n"
                              "2 01103041420646\n"
                              "3 01103041423323 334445361605\n"
                              "4 36300444\n"
                              "5 400002324345361605\n"
                              "6 413010010516364544331304\n"
                              "7 004016\n"
                              "8 103041423313020110 1304051636454433\n"
                              "9 423313020110304145361605\n"
                              "a 12324346 441405163645\n"
                              "b 0006 0312324345361605\n"
                              "c 4332120305163645\n"
                              "d 4046 4332120305163645\n"
                              "e 04444332120305163645\n"
                              "f 40302126 1232\n"
                              "g 4332120305163645 4247381807\n"
                              "h 0006 0312324346\n"
                              "i 2226 2020\n"
                              "j 32372818 3030\n"
                              "k 0006 4204 2346\n"
                              "l 202536\n"
                              "m 0206 03122326 23324346\n"
                              "n 0206 0312324346\n"
                              "o 123243453616050312\n"
                              "p 0208 0312324345361605\n"
                              "q 4248 4332120305163645\n"
                              "r 0206 041232\n"
                              "s 43321203143445361605\n"
                              "t 202536 0242\n"
                              "u 020516364542 4246\n"
                              "v 022642\n"
                              "w 0216233642\n"
                              "x 0246 4206\n"
                              "y 0226 4218\n"
                              "z 02420646\n"
                              "_ 0747\n"
                              "- 1434\n"
                              ". 2626\n"
                              "/ 0640\n"
                              "+ 2226 0444\n"
                              ": 2323 2626\n"
                              ", 2618\n"
                              "( 30212536\n"
                              ") 10212516\n"
                              "= 0343 0545\n"
                              "A 062046 1434\n"
                              "B 06003041423303 3344453606\n"
                              "C 4130100105163645\n"
                              "D 00304145360600\n"
                              "E 40000646 0333\n"
                              "F 400006 0333\n"
                              "G 41301001051636454323\n"
                              "H 0006 4046 0343\n"
                              "I 2026 1030 1636\n"
                              "J 4045361605\n"
                              "K 0006 4003 0346\n"
                              "L 000646\n"
                              "M 0600234046\n"
                              "N 06004640\n"
                              "O 103041453616050110\n"
                              "P 06003041423303\n"
                              "Q 103041453616050110 3446\n"
                              "R 06003041423303 2346\n"
                              "S 413010010213334445361605\n"
                              "T 0040 2026\n"
                              "U 000516364540\n"
                              "V 002640\n"
                              "W 0016233640\n"
                              "X 0046 4006\n"
                              "Y 0023 4023 2326\n"
                              "Z 00400646\n";

/* The polylines of a letter, up to the end of the line; "": it has none. */
static const char *strokes_of(char c) {
    for (const char *line = letters; *line; line = strchr(line, '\n') + 1)
        if (*line == c) return line + 2;
    return "";
}

/* Pixels of a step across and down, for letters of `size`, whose capitals are 0.72 of it. */
static double across(double size) {
    return size * 0.09 * CANVAS_SCALE;
}

static double down(double size) {
    return size * 0.12 * CANVAS_SCALE;
}

static void letter(canvas *c, point at, double size, int color, const char *points) {
    for (point last = {0, 0}; *points && *points != '\n'; points++) {
        bool is_first = last.x == 0 && last.y == 0;
        if (*points == ' ') {
            last = (point){0, 0};
            continue;
        }
        point next = {at.x + (points[0] - '0') * across(size), at.y + (points[1] - '0' - 6) * down(size)};
        if (!is_first) stroke(c, last, next, size * 0.085 * CANVAS_SCALE, color);
        last = next;
        points++;
    }
}

static void letters_of(canvas *c, point at, anchor anchor, double size, int color, const char *text) {
    double step = 6 * across(size), width = step * (double)strlen(text) - 2 * across(size);
    point p = {at.x * CANVAS_SCALE - (anchor == MIDDLE ? width / 2
                                      : anchor == TO   ? width
                                                       : 0),
               at.y * CANVAS_SCALE};
    for (; *text; text++, p.x += step) letter(c, p, size, color, strokes_of(*text));
}

/* ---- both ---- */

void canvas_open(canvas *c, bool is_png, int width, int height, const weft_env *env) {
    *c = (canvas){.memory = kit_arena_of(env), .is_png = is_png, .width = width, .height = height};
    size_t bytes = (size_t)width * (size_t)height * CANVAS_SCALE * CANVAS_SCALE * 3;
    if (!is_png) {
        print(c,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
              "font-family=\"Helvetica,Arial,sans-serif\">\n"
              "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
              width, height, width, height, width, height);
        return;
    }
    c->pixels = kit_take_raw(&c->memory, bytes, 1);
    if (c->pixels) memset(c->pixels, 255, bytes);
}

void canvas_line(canvas *c, const point *points, int n, double width, int color) {
    if (c->memory.is_out || n < 1) return;
    if (c->is_png) {
        for (int i = 0; i < n; i++) {
            point a = points[i ? i - 1 : 0], b = points[i];
            stroke(c, (point){a.x * CANVAS_SCALE, a.y * CANVAS_SCALE},
                   (point){b.x * CANVAS_SCALE, b.y * CANVAS_SCALE}, width * CANVAS_SCALE, color);
        }
        return;
    }
    print(c, "<polyline fill=\"none\" stroke=\"#%06x\" stroke-width=\"%s\" stroke-linejoin=\"round\" ", color,
          NUMBER("%g", width));
    print(c, "stroke-linecap=\"round\" points=\"");
    for (int i = 0; i < n; i++)
        print(c, "%s%s,%s", i ? " " : "", NUMBER("%.2f", points[i].x), NUMBER("%.2f", points[i].y));
    print(c, "\"/>\n");
}

void canvas_text(canvas *c, point at, anchor anchor, double size, int color, const char *text) {
    static const char *const names[] = {"start", "middle", "end"};
    if (c->memory.is_out) return;
    if (c->is_png) {
        letters_of(c, at, anchor, size, color, text);
        return;
    }
    print(c, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" fill=\"#%06x\" text-anchor=\"%s\">",
          NUMBER("%.2f", at.x), NUMBER("%.2f", at.y), NUMBER("%g", size), color, names[anchor]);
    print_escaped(c, text);
    print(c, "</text>\n");
}

weft_status canvas_file(canvas *c, const void **bytes, size_t *n, weft_error *error) {
    grid_file file = {.width = c->width * CANVAS_SCALE, .height = c->height * CANVAS_SCALE, .channels = 3};
    if (!c->is_png) print(c, "</svg>\n");
    if (c->memory.is_out) return kit_no_memory(error, "a picture");
    if (c->is_png && grid_pack(&c->memory, &file, c->pixels, error)) return error->status;
    *bytes = c->is_png ? file.bytes : c->svg;
    *n = c->is_png ? file.n : c->n;
    return WEFT_OK;
}
