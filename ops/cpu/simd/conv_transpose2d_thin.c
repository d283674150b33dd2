/* conv_transpose2d_thin.c - transposed convolution into at most 4 channels, channels-last: the last layer of
 * a generator, and the gradient of an image through a first convolution. Sums are f32; bf16 and f16 are read
 * and written.
 *
 * oneDNN's backward-data convolution fills vectors with output channels, so with 1 or 3 of them it reaches
 * only 20 to 70 GFLOP/s. Here the channels x[C] of a pixel meet the weight as a plain matrix [C, kh kw out]:
 * the products of a row of pixels are one small matrix product, whose elements are added into the result
 * where each belongs (col2im). Measured on a 2-core Sapphire Rapids: 64 -> 3 channels of 64 x 64, batch 32:
 * 1.1 ms instead of 3.0; 64 -> 1 of 28 x 28, batch 128: 0.49 instead of 2.24. One thread makes a whole image,
 * so the bits do not depend on the number of threads. */
/* Lets the compiler fuse multiply and add: twice the speed, and no other kernel must match these bits. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "ops/image/conv2d.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"

#include <string.h>

/* The columns of the product are in vectors of the widest registers (LANES floats); the sums of up to TALL
 * pixels times WIDE vectors stay in registers. */
#if defined(__AVX512F__)
enum { LANES = 16, TALL = 8 };
#elif defined(__AVX2__)
enum { LANES = 8, TALL = 4 };
#else
enum { LANES = 4, TALL = 4 };
#endif
/* MAX_COLUMNS: of kh kw out. ENOUGH_PIXELS: pixels that one product should have. */
enum { WIDE = 3, MAX_OUT = 4, MAX_COLUMNS = 96, ENOUGH_PIXELS = 56 };

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

/* kh kw out: one column for each element that a pixel adds to; padded to whole vectors. */
static int64_t columns_of(const conv_attrs *a) {
    return a->kernel.v[0] * a->kernel.v[1] * a->out;
}

static int64_t padded_columns(const conv_attrs *a) {
    return (columns_of(a) + LANES - 1) / LANES * LANES;
}

/* ---- the compiler's questions ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    const conv_attrs *a = n->attrs;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !dtype_is_row(n->in[i]->type.dtype)) return "not f32, bf16 or f16";
    if (a->groups != 1 || a->dilation.v[1] != 1) return "only without groups and horizontal dilation";
    if (a->out > MAX_OUT || a->kernel.v[0] > MAX_COLUMNS || a->kernel.v[1] > MAX_COLUMNS ||
        columns_of(a) > MAX_COLUMNS)
        return "not thin: more than 4 channels or out kh kw above 96";
    /* one thread makes an image */
    if (n->in[0]->type.shape[0] < env->threads) return "fewer images than threads";
    return NULL;
}

/* Workspace: the weight as [C, padded columns], then for each thread the products of some rows of pixels.
 * Short rows are taken together, so that the tall blocks leave few pixels over. */
static int64_t weight_floats(const conv_attrs *a, int64_t channels) {
    return (channels * padded_columns(a) + 15) / 16 * 16;
}

static int64_t rows_at_once(int64_t width) {
    return (ENOUGH_PIXELS + width - 1) / width;
}

static int64_t products_floats(const conv_attrs *a, int64_t width) {
    return (rows_at_once(width) * width * padded_columns(a) + 15) / 16 * 16;
}

/* The scratch of a thread, in floats: products at 0, then rows of x and the image where these are not f32. */
typedef struct rooms {
    int64_t rows, image, total; /* products are at 0 */
} rooms;

static rooms rooms_of(const weft_node *n) {
    const tensor_type *x = &n->in[0]->type, *y = &n->out[0].type;
    rooms r = {.rows = products_floats(n->attrs, x->shape[3])};
    r.image = r.rows + row_room(x->dtype, rows_at_once(x->shape[3]) * x->shape[3] * x->shape[1]);
    r.total = r.image + row_room(y->dtype, type_elements(y) / y->shape[0]);
    return r;
}

/* Floats that threads share: the weight, then the bias (at most MAX_OUT). */
static int64_t shared_floats(const conv_attrs *a, int64_t channels) {
    return weight_floats(a, channels) + 16;
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)(shared_floats(n->attrs, n->in[0]->type.shape[1]) + env->threads * rooms_of(n).total) *
           sizeof(float);
}

/* ---- the product of some rows ---- */

/* [C][out][ky][kx] -> [C][ky][kx][out] with zeros up to the padded columns: the order of the result in
 * memory. */
static void arrange_weight(const conv_attrs *a, const tensor *w, int64_t channels, float *to) {
    int64_t window = a->kernel.v[0] * a->kernel.v[1], columns = window * a->out, padded = padded_columns(a);
    float room[MAX_COLUMNS];
    for (int64_t c = 0; c < channels; c++, to += padded) {
        const float *from = row_read(w, c * columns, columns, room);
        for (int64_t k = 0; k < window; k++)
            for (int64_t o = 0; o < a->out; o++) to[k * a->out + o] = from[o * window + k];
        memset(to + columns, 0, (size_t)(padded - columns) * sizeof *to);
    }
}

/* `tall` pixels by `wide` vectors. Both are constants where this is inlined, so that the sums are
 * registers. */
static inline __attribute__((always_inline)) void block(const float *x, int64_t channels, const float *w,
                                                        int64_t padded, float *to, const int tall,
                                                        const int wide) {
    vector sum[TALL][WIDE];
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < wide; j++) sum[i][j] = (vector){0};
    for (int64_t c = 0; c < channels; c++)
        for (int j = 0; j < wide; j++) {
            vector v = *(const vector *)(w + c * padded + j * LANES);
            for (int i = 0; i < tall; i++) sum[i][j] += x[i * channels + c] * v;
        }
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < wide; j++) *(vector *)(to + i * padded + j * LANES) = sum[i][j];
}

/* All vectors of the columns, WIDE at a time. */
static inline __attribute__((always_inline)) void block_any(const float *x, int64_t channels, const float *w,
                                                            int64_t padded, float *to, const int tall,
                                                            int64_t vectors) {
    for (; vectors > 0; vectors -= WIDE, w += WIDE * LANES, to += WIDE * LANES)
        if (vectors >= 3)
            block(x, channels, w, padded, to, tall, 3);
        else if (vectors == 2)
            block(x, channels, w, padded, to, tall, 2);
        else
            block(x, channels, w, padded, to, tall, 1);
}

/* to [pixels, padded] = x [pixels, channels] w [channels, padded] */
static void product(const float *x, int64_t pixels, int64_t channels, const float *w, int64_t padded,
                    float *to) {
    int64_t i = 0;
    for (; i + TALL <= pixels; i += TALL)
        block_any(x + i * channels, channels, w, padded, to + i * padded, TALL, padded / LANES);
    for (; i < pixels; i++)
        block_any(x + i * channels, channels, w, padded, to + i * padded, 1, padded / LANES);
}

/* ---- adding the products to the image ---- */

/* One kernel row of a pixel: `run` floats that are contiguous in the result as well; those past its ends are
 * cut off. */
static inline void add_run(float *row, int64_t row_length, int64_t at, const float *from, int64_t run) {
    int64_t begin = at < 0 ? -at : 0, end = at + run > row_length ? row_length - at : run;
    for (int64_t j = begin; j < end; j++) row[at + j] += from[j];
}

/* Row y of x, `width` pixels, into the image [height, row_length]: for each ky all pixels from left to right,
 * so the order of the sums is fixed. */
static void add_row(const conv_attrs *a, const float *products, int64_t y, int64_t width, float *image,
                    int64_t height, int64_t row_length) {
    int64_t padded = padded_columns(a), run = a->kernel.v[1] * a->out;
    for (int64_t ky = 0; ky < a->kernel.v[0]; ky++) {
        int64_t to = y * a->stride.v[0] - a->pad.v[0] + ky * a->dilation.v[0];
        if (to < 0 || to >= height) continue;
        float *row = image + to * row_length;
        for (int64_t x = 0; x < width; x++)
            add_run(row, row_length, (x * a->stride.v[1] - a->pad.v[1]) * a->out,
                    products + x * padded + ky * run, run);
    }
}

/* The image before the products are added: the bias, or zeros. */
static void fill_bias(float *image, int64_t pixels, const float *bias, int64_t channels) {
    if (!bias) memset(image, 0, (size_t)(pixels * channels) * sizeof *image);
    for (int64_t i = 0; bias && i < pixels; i++)
        memcpy(image + i * channels, bias, (size_t)channels * sizeof *image);
}

/* ---- the kernel ---- */

/* Image n: some rows of x at a time, product, then col2im. */
static void one_image(const kernel_call *c, const float *w, const float *bias, float *own, int64_t n) {
    const conv_attrs *a = c->attrs;
    const tensor *x = &c->in[0], *y = &c->out[0];
    const int64_t *in = x->type.shape, *out = y->type.shape;
    rooms r = rooms_of(c->node);
    int64_t padded = padded_columns(a), step = rows_at_once(in[3]), pixels = out[1] * out[2] * out[3];
    float *image = row_place(y, n * pixels, own + r.image);
    fill_bias(image, out[2] * out[3], bias, out[1]);
    for (int64_t i = 0; i < in[2]; i += step) {
        int64_t rows = i + step < in[2] ? step : in[2] - i, at = (n * in[2] + i) * in[3] * in[1];
        const float *from = row_read(x, at, rows * in[3] * in[1], own + r.rows);
        product(from, rows * in[3], in[1], w, padded, own);
        for (int64_t k = 0; k < rows; k++)
            add_row(a, own + k * in[3] * padded, i + k, in[3], image, out[2], out[3] * out[1]);
    }
    row_write(y, n * pixels, pixels, image);
}

/* x [N, C, h, w], weight [C, out, kh, kw], bias [out] or none -> y [N, out, H, W]; images channels-last. */
static weft_status run(void *state, const kernel_call *c) {
    const conv_attrs *a = c->attrs;
    int64_t images = c->in[0].type.shape[0], channels = c->in[0].type.shape[1],
            each = rooms_of(c->node).total;
    float *w = c->workspace, *bias = w + weight_floats(a, channels), *own = w + shared_floats(a, channels);
    const tensor *b = c->n_in == 3 && c->in[2].data ? &c->in[2] : NULL;
    arrange_weight(a, &c->in[1], channels, w);
    if (b) reduced_load(bias, b->data, b->type.dtype, 0, a->out);
        /* A loop over threads, so that each has its own scratch; images are divided evenly. */
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int t = 0; t < c->threads; t++)
        for (int64_t n = images * t / c->threads; n < images * (t + 1) / c->threads; n++)
            one_image(c, w, b ? bias : NULL, own + t * each, n);
    return WEFT_OK;
}

SIMD_KERNEL_OF(conv_transpose2d_thin, conv_transpose2d, .declines = declines, .workspace = workspace,
               .run = run);
