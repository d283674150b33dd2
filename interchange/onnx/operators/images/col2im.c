/* col2im.c - Col2Im: columns are added up where they are in an image of any number of axes. */
#include "interchange/onnx/operators/families.h"

enum { MOST = WEFT_MAX_NDIM - 2 };

typedef struct axis {
    int64_t size, kernel, dilation, stride, before, after;
    int64_t full, windows; /* the length with padding; places of the block */
} axis;

typedef struct columns {
    int n; /* axes of the image */
    axis axes[MOST];
    int64_t block, count, elements; /* places in the block; places of the block; of the padded image */
} columns;

static bool numbers_of(onnx_call *c, columns *m) {
    int n, n_kernel, n_dilations, n_strides, n_pads;
    const int64_t *size = onnx_integers(c, 1, &n), *kernel = onnx_integers(c, 2, &n_kernel);
    const int64_t *dilations = onnx_ints(c, "dilations", &n_dilations),
                  *strides = onnx_ints(c, "strides", &n_strides), *pads = onnx_ints(c, "pads", &n_pads);
    if (!size || !kernel) return false;
    if (n != n_kernel || n < 1 || n > MOST)
        return onnx_refuse(c, "an image of %d axes, and a block of %d", n, n_kernel);
    if ((dilations && n_dilations != n) || (strides && n_strides != n) || (pads && n_pads != 2 * n))
        return onnx_refuse(c, "dilations, strides or pads are not of %d axes", n);
    m->n = n;
    for (int i = 0; i < n; i++)
        m->axes[i] = (axis){.size = size[i],
                            .kernel = kernel[i],
                            .dilation = dilations ? dilations[i] : 1,
                            .stride = strides ? strides[i] : 1,
                            .before = pads ? pads[i] : 0,
                            .after = pads ? pads[i + n] : 0};
    return true;
}

static bool is_plain(int64_t n, int64_t least) {
    return n >= least && n <= INT32_MAX;
}

/* Counts the windows; false after an error. Each product stays below 2^62. */
static bool count_windows(onnx_call *c, columns *m) {
    m->block = m->count = m->elements = 1;
    for (int i = 0; i < m->n; i++) {
        axis *a = &m->axes[i];
        if (a->before < 0 || a->after < 0) return onnx_refuse(c, "padding below 0");
        bool is_good = is_plain(a->size, 1) && is_plain(a->kernel, 1) && is_plain(a->dilation, 1) &&
                       is_plain(a->stride, 1) && is_plain(a->before, 0) && is_plain(a->after, 0);
        int64_t reach = is_good ? (a->kernel - 1) * a->dilation + 1 : 0;
        a->full = is_good ? a->size + a->before + a->after : 0;
        if (!is_good || a->full < reach)
            return onnx_refuse(c, "a block that is larger than axis %d of the image", i);
        a->windows = (a->full - reach) / a->stride + 1;
        if (a->full > INT32_MAX || (m->elements *= a->full) > INT32_MAX ||
            (m->block *= a->kernel) > INT32_MAX || (m->count *= a->windows) > INT32_MAX ||
            m->block * m->count > INT32_MAX)
            return onnx_refuse(c, "an image of more than 2^31 elements");
    }
    return true;
}

/* Where element p of a channel's columns, [block, count], is in the padded image. */
static int64_t place_of(const columns *m, int64_t p) {
    int64_t in_block = p / m->count, window = p % m->count, step = 1, place = 0;
    for (int i = m->n - 1; i >= 0; i--) {
        const axis *a = &m->axes[i];
        place += (in_block % a->kernel * a->dilation + window % a->windows * a->stride) * step;
        step *= a->full;
        in_block /= a->kernel;
        window /= a->windows;
    }
    return place;
}

static weft_value *places_of(onnx_call *c, const columns *m) {
    int64_t n = m->block * m->count, *places = kit_take(c->in->arena, (size_t)n, sizeof *places);
    if (!places) return kit_no_memory(c->in->error, "Col2Im"), NULL;
    for (int64_t p = 0; p < n; p++) places[p] = place_of(m, p);
    return weft_constant_tensor(onnx_graph_of(c), WEFT_I64, 1, &n, places);
}

/* The image without its padding, from [N, C, elements]. */
static weft_value *image_of(onnx_call *c, const columns *m, weft_value *y, const int64_t flat[3]) {
    int64_t shape[WEFT_MAX_NDIM] = {flat[0], flat[1]};
    for (int i = 0; i < m->n; i++) shape[2 + i] = m->axes[i].full;
    y = onnx_reshape(c, y, 2 + m->n, shape);
    for (int i = 0; i < m->n; i++) {
        const axis *a = &m->axes[i];
        if (a->before || a->after) y = weft_slice(y, 2 + i, a->before, a->before + a->size);
    }
    return y;
}

/* x is [N, C * block, windows]. */
weft_value *onnx_build_col2im(onnx_call *c) {
    int64_t own[WEFT_MAX_NDIM];
    columns m = {0};
    weft_value *x = onnx_in(c, 0);
    if (!x || !numbers_of(c, &m) || !count_windows(c, &m)) return NULL;
    onnx_shape_of(c, 0, own);
    if (weft_ndim(x) != 3 || own[1] < 0 || own[2] < 0)
        return onnx_refuse(c, "columns are [N, C * block, windows]");
    if (own[0] == ONNX_DEPENDS) return onnx_refuse(c, "the length of axis 0 depends on the batch");
    if (own[1] % m.block || own[2] != m.count)
        return onnx_refuse(c, "columns [N, %jd, %jd] for blocks of %jd and %jd windows", own[1], own[2],
                           m.block, m.count);
    int64_t channels = own[1] / m.block, flat[] = {own[0], channels, m.elements},
            lines[] = {own[0], channels, m.block * m.count};
    weft_value *ids = places_of(c, &m);
    weft_value *zeros = weft_constant(onnx_graph_of(c), weft_value_dtype(x), 3, flat, 0);
    weft_value *y = ids ? weft_index_add(zeros, 2, ids, onnx_reshape(c, x, 3, lines)) : NULL;
    return y ? image_of(c, &m, y, flat) : NULL;
}
