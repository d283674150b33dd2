/* resize.c - bilinear resizing with antialiasing, to the bit as Pillow's Image.resize(size, BILINEAR) of
 * 8-bit images (src/libImaging/Resample.c): the triangle filter as wide as the scale, weights in fixed
 * point of 22 bits, first along the rows, rounded to bytes, then along the columns. Colours of RGBA are
 * multiplied by alpha before and divided after, as there. Only what the crop shows is computed. */
#include "runtime/data/image.h"

#include <math.h>

enum { BITS = 32 - 8 - 2 };

/* The weights of one axis: output i is the sum of n[i] inputs from first[i] on. */
typedef struct taps {
    int64_t count, most; /* outputs; most inputs of one */
    int64_t *first, *n;
    int32_t *weight; /* [count, most] */
} taps;

/* Precomputed as in precompute_coeffs and normalize_coeffs_8bpc there, in the same order of operations. */
static void weigh(taps *t, int64_t i, int64_t out, int64_t from, double scale, double wide) {
    double center = ((double)out + 0.5) * scale, sum = 0, step = 1.0 / wide;
    int64_t first = (int64_t)(center - wide + 0.5), end = (int64_t)(center + wide + 0.5);
    if (first < 0) first = 0;
    if (end > from) end = from;
    t->first[i] = first;
    t->n[i] = end - first;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < end - first; k++) {
            double x = fabs(((double)(k + first) - center + 0.5) * step);
            double w = x < 1.0 ? 1.0 - x : 0.0;
            if (pass == 0)
                sum += w;
            else /* no weight is below 0 */
                t->weight[i * t->most + k] = (int32_t)(0.5 + (sum != 0.0 ? w / sum : w) * (1 << BITS));
        }
}

/* Weights for outputs begin to begin + count of `to`, from `from` inputs. */
static weft_status taps_new(kit_arena *memory, taps *t, int64_t from, int64_t to, int64_t begin,
                            int64_t count, weft_error *error) {
    double scale = (double)from / (double)to, wide = scale < 1.0 ? 1.0 : scale;
    *t = (taps){.count = count, .most = (int64_t)ceil(wide) * 2 + 1};
    t->first = kit_take_raw(memory, count, sizeof *t->first);
    t->n = kit_take_raw(memory, count, sizeof *t->n);
    t->weight = kit_take_raw(memory, count * t->most, sizeof *t->weight);
    if (memory->is_out) return kit_no_memory(error, "resize");
    for (int64_t i = 0; i < count; i++) weigh(t, i, begin + i, from, scale, wide);
    return WEFT_OK;
}

/* The sum of n values that lie `stride` apart, rounded to a byte. */
static unsigned char weighted(const unsigned char *from, size_t stride, const int32_t *weight, int64_t n) {
    int32_t sum = 1 << (BITS - 1);
    for (int64_t k = 0; k < n; k++) sum += from[(size_t)k * stride] * weight[k];
    sum >>= BITS;
    return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* ---- alpha ---- */

static unsigned char multiplied(unsigned a, unsigned b) {
    unsigned t = a * b + 128;
    return (unsigned char)(((t >> 8) + t) >> 8);
}

static void multiply_alpha(unsigned char *pixels, int64_t n) {
    for (unsigned char *p = pixels, *end = pixels + 4 * n; p < end; p += 4)
        for (int c = 0; c < 3; c++) p[c] = multiplied(p[c], p[3]);
}

/* Of planes that lie `plane` bytes apart. */
static void divide_alpha(unsigned char *planes, size_t plane) {
    for (size_t i = 0; i < plane; i++) {
        unsigned alpha = planes[3 * plane + i];
        for (int c = 0; c < 3 && alpha != 0 && alpha != 255; c++) {
            unsigned v = 255 * planes[(size_t)c * plane + i] / alpha;
            planes[(size_t)c * plane + i] = (unsigned char)(v > 255 ? 255 : v);
        }
    }
}

/* ---- the two passes ---- */

/* Rows top to top + rows of `from`, columns of the crop, into `into`, whose pixels lie together as those of
 * `from`. */
static void along_rows(const image *from, const image_crop *to, const taps *t, int64_t top, int64_t rows,
                       unsigned char *into) {
    size_t c = (size_t)from->channels;
    for (int64_t y = 0; y < rows; y++) {
        const unsigned char *row = from->data + (size_t)(top + y) * (size_t)from->width * c;
        for (int64_t x = 0; x < to->columns; x++, into += c) {
            if (from->width == to->width)
                memcpy(into, row + (size_t)(to->x + x) * c, c);
            else
                for (size_t k = 0; k < c; k++)
                    into[k] =
                        weighted(row + (size_t)t->first[x] * c + k, c, t->weight + x * t->most, t->n[x]);
        }
    }
}

/* `from` begins at row `top` of the image. */
static void along_columns(const unsigned char *from, const image *i, const image_crop *to, const taps *t,
                          int64_t top, unsigned char *planes) {
    size_t c = (size_t)i->channels, row = (size_t)to->columns * c, plane = (size_t)(to->rows * to->columns);
    for (int64_t y = 0; y < to->rows; y++)
        for (size_t x = 0; x < (size_t)to->columns; x++)
            for (size_t k = 0; k < c; k++) {
                const unsigned char *at = from + (size_t)(t->first[y] - top) * row + x * c + k;
                if (i->height == to->height) at = from + (size_t)y * row + x * c + k;
                planes[k * plane + (size_t)y * (size_t)to->columns + x] =
                    i->height == to->height ? *at : weighted(at, row, t->weight + y * t->most, t->n[y]);
            }
}

static weft_status resize(kit_arena *memory, const image *from, const image_crop *to, unsigned char *planes,
                          weft_error *error) {
    taps across, down;
    bool is_same = from->width == to->width && from->height == to->height;
    bool has_alpha = from->channels == 4 && !is_same;
    if (taps_new(memory, &across, from->width, to->width, to->x, to->columns, error) ||
        taps_new(memory, &down, from->height, to->height, to->y, to->rows, error))
        return error->status;
    int64_t last = to->rows - 1, top = down.first[0], rows = down.first[last] + down.n[last] - top;
    if (from->height == to->height) top = to->y, rows = to->rows;
    unsigned char *between = kit_take_raw(memory, rows * to->columns * from->channels, 1);
    if (!between) return kit_no_memory(error, "resize");
    if (has_alpha) multiply_alpha(from->data, from->width * from->height);
    along_rows(from, to, &across, top, rows, between);
    along_columns(between, from, to, &down, top, planes);
    if (has_alpha) divide_alpha(planes, (size_t)(to->rows * to->columns));
    return WEFT_OK;
}

weft_status image_resize(const weft_env *env, const image *from, const image_crop *to, unsigned char *planes,
                         weft_error *error) {
    kit_arena memory = kit_arena_of(env);
    weft_status status = resize(&memory, from, to, planes, error);
    kit_release(memory);
    return status;
}
