/* canvas.c - see canvas.h. Pixels get the share of a line that covers them. Letters of a PNG are strokes: no
 * library of fonts is needed for a few words. */
#include "runtime/train/canvas.h"

#include "runtime/train/grid.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- SVG ---- */

enum { LONGEST = 600 /* bytes of a call */ };

static void print(canvas *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(canvas *c, const char *format, ...) {
    va_list args;
    char *svg = c->is_out ? NULL : kit_grow(c->env, c->svg, &c->room, c->n + LONGEST, 1);
    c->is_out = !svg;
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

/* Polylines of points "xy" on a grid: x is 0 to 4; y is 0 at the top, 6 at the base line, 8 below it. */
static const char *const letters[128] = {['0'] = "103041453616050110",
                                         ['1'] = "112026 1636",
                                         ['2'] = "01103041420646",
                                         ['3'] = "01103041423323 334445361605",
                                         ['4'] = "36300444",
                                         ['5'] = "400002324345361605",
                                         ['6'] = "413010010516364544331304",
                                         ['7'] = "004016",
                                         ['8'] = "103041423313020110 1304051636454433",
                                         ['9'] = "423313020110304145361605",
                                         ['a'] = "12324346 441405163645",
                                         ['b'] = "0006 0312324345361605",
                                         ['c'] = "4332120305163645",
                                         ['d'] = "4046 4332120305163645",
                                         ['e'] = "04444332120305163645",
                                         ['f'] = "40302126 1232",
                                         ['g'] = "4332120305163645 4247381807",
                                         ['h'] = "0006 0312324346",
                                         ['i'] = "2226 2020",
                                         ['j'] = "32372818 3030",
                                         ['k'] = "0006 4204 2346",
                                         ['l'] = "202536",
                                         ['m'] = "0206 03122326 23324346",
                                         ['n'] = "0206 0312324346",
                                         ['o'] = "123243453616050312",
                                         ['p'] = "0208 0312324345361605",
                                         ['q'] = "4248 4332120305163645",
                                         ['r'] = "0206 041232",
                                         ['s'] = "43321203143445361605",
                                         ['t'] = "202536 0242",
                                         ['u'] = "020516364542 4246",
                                         ['v'] = "022642",
                                         ['w'] = "0216233642",
                                         ['x'] = "0246 4206",
                                         ['y'] = "0226 4218",
                                         ['z'] = "02420646",
                                         ['_'] = "0747",
                                         ['-'] = "1434",
                                         ['.'] = "2626",
                                         ['/'] = "0640",
                                         ['+'] = "2226 0444",
                                         [':'] = "2323 2626",
                                         [','] = "2618",
                                         ['('] = "30212536",
                                         [')'] = "10212516",
                                         ['='] = "0343 0545",
                                         ['A'] = "062046 1434",
                                         ['B'] = "06003041423303 3344453606",
                                         ['C'] = "4130100105163645",
                                         ['D'] = "00304145360600",
                                         ['E'] = "40000646 0333",
                                         ['F'] = "400006 0333",
                                         ['G'] = "41301001051636454323",
                                         ['H'] = "0006 4046 0343",
                                         ['I'] = "2026 1030 1636",
                                         ['J'] = "4045361605",
                                         ['K'] = "0006 4003 0346",
                                         ['L'] = "000646",
                                         ['M'] = "0600234046",
                                         ['N'] = "06004640",
                                         ['O'] = "103041453616050110",
                                         ['P'] = "06003041423303",
                                         ['Q'] = "103041453616050110 3446",
                                         ['R'] = "06003041423303 2346",
                                         ['S'] = "413010010213334445361605",
                                         ['T'] = "0040 2026",
                                         ['U'] = "000516364540",
                                         ['V'] = "002640",
                                         ['W'] = "0016233640",
                                         ['X'] = "0046 4006",
                                         ['Y'] = "0023 4023 2326",
                                         ['Z'] = "00400646"};

/* Pixels of a step across and down, for letters of `size`, whose capitals are 0.72 of it. */
static double across(double size) {
    return size * 0.09 * CANVAS_SCALE;
}

static double down(double size) {
    return size * 0.12 * CANVAS_SCALE;
}

static void letter(canvas *c, point at, double size, int color, const char *points) {
    for (point last = {0, 0}; points && *points; points++) {
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
    for (; *text; text++, p.x += step)
        if (*text > 0) letter(c, p, size, color, letters[(int)*text]);
}

/* ---- both ---- */

void canvas_open(canvas *c, bool is_png, int width, int height, const weft_env *env) {
    *c = (canvas){.env = env, .is_png = is_png, .width = width, .height = height};
    size_t bytes = (size_t)width * (size_t)height * CANVAS_SCALE * CANVAS_SCALE * 3;
    if (!is_png) {
        print(c,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
              "font-family=\"Helvetica,Arial,sans-serif\">\n"
              "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
              width, height, width, height, width, height);
        return;
    }
    c->pixels = weft_memory_new(env, bytes);
    c->is_out = !c->pixels;
    if (c->pixels) memset(c->pixels, 255, bytes);
}

void canvas_line(canvas *c, const point *points, int n, double width, int color) {
    if (c->is_out || n < 1) return;
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
    if (c->is_out) return;
    if (c->is_png) {
        letters_of(c, at, anchor, size, color, text);
        return;
    }
    print(c, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" fill=\"#%06x\" text-anchor=\"%s\">",
          NUMBER("%.2f", at.x), NUMBER("%.2f", at.y), NUMBER("%g", size), color, names[anchor]);
    print_escaped(c, text);
    print(c, "</text>\n");
}

/* A PNG takes the place of the SVG's text. */
weft_status canvas_file(canvas *c, const void **bytes, size_t *n, weft_error *error) {
    if (c->is_out) return kit_no_memory(error, "a picture");
    if (!c->is_png) {
        print(c, "</svg>\n");
        *bytes = c->svg;
        *n = c->n;
        return c->is_out ? kit_no_memory(error, "a picture") : WEFT_OK;
    }
    grid_file file = {
        .env = c->env, .width = c->width * CANVAS_SCALE, .height = c->height * CANVAS_SCALE, .channels = 3};
    weft_status status = grid_pack(&file, c->pixels, error);
    if (status) return status;
    c->svg = file.bytes;
    c->room = file.room;
    *bytes = file.bytes;
    *n = file.n;
    return WEFT_OK;
}

void canvas_close(canvas *c) {
    weft_memory_free(c->env, c->svg, c->room);
    weft_memory_free(c->env, c->pixels,
                     (size_t)c->width * (size_t)c->height * CANVAS_SCALE * CANVAS_SCALE * 3);
    *c = (canvas){.env = c->env};
}
