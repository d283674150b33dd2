/* lines.c - convolutions and pooling of lines x[N, C, L]: builders that run the ops of images on [N, C, 1,
 * L], which is the same memory; torch.nn.functional.conv1d and its like. The first of the numbers of
 * weft_window and weft_pool is the line's, and the others are 0. */
#include "ops/image/lines.h"

#include "ops/shape/lengths.h"

weft_value *line_as_image(weft_value *x) {
    lengths l = lengths_of(x);
    lengths_insert(&l, 2, 1);
    return reshape_lengths(x, &l);
}

weft_value *image_as_line(weft_value *x) {
    if (!x) return NULL;
    lengths l = lengths_of(x);
    lengths_remove(&l, 2);
    return reshape_lengths(x, &l);
}

/* Records which rule x, or another operand of that shape, breaks. */
static bool line_fits(const char *name, const char *what, const weft_value *x, const char *form) {
    return x->type.ndim == 3 ||
           value_fail(x, WEFT_SHAPE, "%s: %s is %s: it must be %s", name, what, TYPE(&x->type), form);
}

/* Turns {line} into {1, line} for sizes, {0, line} for padding; false where there is a second number. */
static bool turn(int64_t axes[3], int64_t height) {
    bool is_line = axes[1] == 0 && axes[2] == 0;
    axes[1] = axes[0];
    axes[0] = height;
    return is_line;
}

static bool one_number(const char *name, const weft_value *x, bool is_line) {
    return is_line ||
           value_fail(x, WEFT_ARGUMENT, "%s: a line has one axis: leave all numbers but the first 0", name);
}

/* ---- convolutions ---- */

typedef weft_value *convolution(weft_value *, weft_value *, weft_value *, const weft_window *);

static weft_value *convolve(const char *name, convolution *op, weft_value *x, weft_value *w, weft_value *b,
                            const weft_window *window, const char *form) {
    if (!x || !w) return op(x, w, b, window);
    weft_window turned = window ? *window : (weft_window){.groups = 0};
    int lines = turn(turned.stride, 1) + turn(turned.pad, 0) + turn(turned.dilation, 1) +
                turn(turned.output_padding, 0); /* each is turned */
    if (!line_fits(name, "x", x, "[N, C, L]") || !line_fits(name, "the weight", w, form) ||
        !one_number(name, x, lines == 4))
        return NULL;
    x = line_as_image(x);
    w = x ? line_as_image(w) : NULL;
    return w ? image_as_line(op(x, w, b, &turned)) : NULL;
}

weft_value *weft_conv1d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return convolve("conv1d", weft_conv2d_op, x, w, b, window, "[out, C/groups, k]");
}

weft_value *weft_conv_transpose1d_op(weft_value *x, weft_value *w, weft_value *b, const weft_window *window) {
    return convolve("conv_transpose1d", weft_conv_transpose2d_op, x, w, b, window, "[C, out/groups, k]");
}

/* ---- pooling ---- */

static weft_value *pool_line(const char *name, weft_value *(*op)(weft_value *, const weft_pool *),
                             weft_value *x, const weft_pool *pool) {
    weft_pool turned = pool ? *pool : (weft_pool){.divisor = 0};
    if (!x) return op(x, pool);
    int lines =
        turn(turned.kernel, 1) + turn(turned.stride, 0) + turn(turned.pad, 0) + turn(turned.dilation, 0);
    if (!line_fits(name, "x", x, "[N, C, L]") || !one_number(name, x, lines == 4)) return NULL;
    x = line_as_image(x);
    return x ? image_as_line(op(x, &turned)) : NULL;
}

weft_value *weft_max_pool1d(weft_value *x, const weft_pool *pool) {
    return pool_line("max_pool1d", weft_max_pool2d, x, pool);
}

weft_value *weft_avg_pool1d(weft_value *x, const weft_pool *pool) {
    return pool_line("avg_pool1d", weft_avg_pool2d, x, pool);
}

static weft_value *pool_parts(const char *name, weft_value *(*op)(weft_value *, int64_t, int64_t),
                              weft_value *x, int64_t length) {
    if (!x) return op(x, 1, length);
    if (!line_fits(name, "x", x, "[N, C, L]")) return NULL;
    if (length < 1)
        return value_fail(x, WEFT_ARGUMENT, "%s: a length of %lld: at least 1", name, (long long)length);
    x = line_as_image(x);
    return x ? image_as_line(op(x, 1, length)) : NULL;
}

weft_value *weft_adaptive_avg_pool1d(weft_value *x, int64_t length) {
    return pool_parts("adaptive_avg_pool1d", weft_adaptive_avg_pool2d, x, length);
}

weft_value *weft_adaptive_max_pool1d(weft_value *x, int64_t length) {
    return pool_parts("adaptive_max_pool1d", weft_adaptive_max_pool2d, x, length);
}
