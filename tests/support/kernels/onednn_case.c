/* onednn_case.c - see onednn_case.h. */
#include "support/kernels/onednn_case.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 400 * 1000 }; /* multiplications of a case, so that some hundred run in a second */

/* ---- shapes ---- */

static int64_t pick(test_random *r, int64_t low, int64_t high) {
    return low + (int64_t)(random_bits(r) % (uint64_t)(high - low + 1));
}

static bool chance(test_random *r, int percent) {
    return pick(r, 1, 100) <= percent;
}

/* Small ones, all of them, and those around the widths of vectors and of blocks of vectors. */
static int64_t pick_width(test_random *r) {
    static const int64_t around[] = {7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65};
    if (chance(r, 25)) return pick(r, 1, 5);
    return chance(r, 50) ? pick(r, 1, 17) : around[pick(r, 0, sizeof around / sizeof *around - 1)];
}

static int64_t small_of(const onednn_case *c, int i, int64_t big) {
    int64_t left = big + 2 * c->pad[i] - c->dilation[i] * (c->kernel[i] - 1) - 1;
    return left < 0 ? 0 : left / c->stride[i] + 1;
}

static void draw_window(onednn_case *c, test_random *r) {
    bool is_point = chance(r, 35), is_square = chance(r, 60), is_padded = chance(r, 60);
    for (int i = 0; i < c->axes; i++) {
        bool same = i && is_square;
        c->kernel[i] = is_point ? 1 : same ? c->kernel[0] : pick(r, 1, 5);
        c->stride[i] = same ? c->stride[0] : pick(r, 1, 3);
        c->pad[i] = !is_padded ? 0 : same ? c->pad[0] : pick(r, 0, is_point ? 1 : c->kernel[i] - 1);
        c->dilation[i] = chance(r, 85) ? 1 : pick(r, 2, 3);
    }
}

static void draw_channels(onednn_case *c, test_random *r) {
    c->channels = pick_width(r);
    c->out = pick_width(r);
    c->groups = 1;
    if (!chance(r, 25)) return;
    c->groups = chance(r, 50) ? pick(r, 2, 4) : pick_width(r); /* some, or one for each channel or two */
    int64_t most = 64 / c->groups;
    c->channels = c->groups * (most > 1 && chance(r, 50) ? pick(r, 1, most) : 1);
    c->out = c->groups * (most > 1 && chance(r, 50) ? pick(r, 1, most) : 1);
}

static int64_t conv_steps(const onednn_case *c) {
    int64_t steps = c->batch * c->out * (c->channels / c->groups);
    for (int i = 0; i < c->axes; i++) steps *= c->kernel[i] * c->small[i];
    return steps;
}

/* False: the window does not fit, or the work is too much. */
static bool draw_conv(onednn_case *c, test_random *r) {
    draw_window(c, r);
    draw_channels(c, r);
    c->batch = pick(r, 1, 3);
    for (int i = 0; i < c->axes; i++) {
        c->size[i] = chance(r, 30) && i ? c->size[0] : pick(r, 1, c->axes == 2 ? 16 : 9);
        c->small[i] = small_of(c, i, c->size[i]);
        if (!c->small[i]) return false;
        int64_t smallest =
            (c->small[i] - 1) * c->stride[i] + c->dilation[i] * (c->kernel[i] - 1) + 1 - 2 * c->pad[i];
        c->output_padding[i] = c->size[i] - smallest;
        /* Without its last row small still has this window, if the rest is less than a dilation. */
        bool leaves = c->kind != CASE_CONV && c->output_padding[i] + c->stride[i] < c->dilation[i];
        if (!leaves || c->small[i] == 1 || chance(r, 50)) continue;
        c->small[i]--;
        c->output_padding[i] += c->stride[i];
    }
    c->has_bias = c->kind != CASE_WEIGHT && chance(r, 50);
    return conv_steps(c) <= MOST_STEPS;
}

static bool draw_product(onednn_case *c, test_random *r) {
    c->m = pick_width(r);
    c->n = pick_width(r);
    c->k = chance(r, 90) ? pick_width(r) : pick(r, 65, 300);
    c->n_outer = (int)pick(r, 0, 2);
    int64_t places = 1;
    for (int i = 0; i < c->n_outer; i++) {
        int64_t length = pick(r, 1, 4);
        c->outer_a[i] = chance(r, 75) ? length : 1;
        c->outer_b[i] = c->kind == CASE_LINEAR ? 1 : chance(r, 75) ? length : 1;
        places *= length;
    }
    bool is_matmul = c->kind == CASE_MATMUL;
    c->transpose_a = is_matmul && chance(r, 40);
    c->transpose_b = !is_matmul || chance(r, 40);
    for (int i = 0; i < 2; i++)
        c->layout[i] = is_matmul && chance(r, 50) ? pick(r, 0, CASE_LAYOUTS - 1) : CASE_ROWS;
    c->has_bias = !is_matmul && chance(r, 50);
    return places * c->m * c->n * c->k <= MOST_STEPS;
}

void case_draw(onednn_case *c, uint64_t seed, uint64_t index) {
    static const char *const dtypes[] = {"f32", "f32", "f32", "bf16", "bf16", "f16"};
    static const case_kind kinds[] = {CASE_CONV,   CASE_TRANSPOSED, CASE_WEIGHT,
                                      CASE_WEIGHT, CASE_MATMUL,     CASE_LINEAR};
    test_random r = {seed * 0x2545f4914f6cdd1du + index};
    do {
        memset(c, 0, sizeof *c);
        c->kind = kinds[pick(&r, 0, sizeof kinds / sizeof *kinds - 1)];
        c->axes = index % 4 == 3 ? 3 : 2; /* of a convolution */
    } while (!(c->kind < CASE_MATMUL ? draw_conv(c, &r) : draw_product(c, &r)));
    c->dtype = dtypes[pick(&r, 0, sizeof dtypes / sizeof *dtypes - 1)];
    c->wide = strcmp(c->dtype, "f32") != 0 && chance(&r, 50);
    c->bias_dtype = chance(&r, 70) ? "f32" : c->dtype;
    c->packs = chance(&r, 50);
    c->threads = chance(&r, 60) ? 1 : (int)pick(&r, 2, 3);
    case_print(c);
}

/* ---- as text ---- */

static void print_type(char *to, size_t room, const char *dtype, int n, const int64_t *shape) {
    size_t at = strlen(to);
    at += (size_t)snprintf(to + at, room - at, "%s%s[", at ? ", " : "", dtype);
    for (int i = 0; i < n && at < room; i++)
        at += (size_t)snprintf(to + at, room - at, "%s%lld", i ? "," : "", (long long)shape[i]);
    if (at < room) snprintf(to + at, room - at, "]");
}

static void print_axes(char *to, size_t room, const char *name, int axes, const int64_t *numbers) {
    size_t at = strlen(to);
    at += (size_t)snprintf(to + at, room - at, "%s%s=", at ? " " : "", name);
    for (int i = 0; i < axes && at < room; i++)
        at += (size_t)snprintf(to + at, room - at, "%s%lld", i ? "," : "", (long long)numbers[i]);
}

static void print_number(char *to, size_t room, const char *name, int64_t number) {
    size_t at = strlen(to);
    snprintf(to + at, room - at, "%s%s=%lld", at ? " " : "", name, (long long)number);
}

static void print_conv(onednn_case *c) {
    static const char *const ops[][3] = {{"conv2d", "conv_transpose2d", "conv2d_weight"},
                                         {"conv3d", "conv_transpose3d", "conv3d_weight"}};
    int64_t big[5] = {c->batch, c->channels}, small[5] = {c->batch, c->out},
            weight[5] = {c->out, c->channels / c->groups};
    int64_t result = c->kind == CASE_TRANSPOSED ? c->channels : c->out;
    int axes = c->axes ? c->axes : 2, ndim = 2 + axes;
    for (int i = 0; i < axes; i++) {
        big[2 + i] = c->size[i];
        small[2 + i] = c->small[i];
        weight[2 + i] = c->kernel[i];
    }
    c->op = ops[axes - 2][c->kind];
    print_type(c->in, sizeof c->in, c->dtype, ndim, c->kind == CASE_TRANSPOSED ? small : big);
    print_type(c->in, sizeof c->in, c->dtype, ndim, c->kind == CASE_WEIGHT ? small : weight);
    if (c->has_bias) print_type(c->in, sizeof c->in, c->bias_dtype, 1, &result);
    if (c->kind != CASE_WEIGHT) print_number(c->attrs, sizeof c->attrs, "out", result);
    print_axes(c->attrs, sizeof c->attrs, "kernel", axes, c->kernel);
    print_axes(c->attrs, sizeof c->attrs, "stride", axes, c->stride);
    print_axes(c->attrs, sizeof c->attrs, "pad", axes, c->pad);
    print_axes(c->attrs, sizeof c->attrs, "dilation", axes, c->dilation);
    if (c->kind == CASE_TRANSPOSED)
        print_axes(c->attrs, sizeof c->attrs, "output_padding", axes, c->output_padding);
    print_number(c->attrs, sizeof c->attrs, "groups", c->groups);
}

static void print_matrix(onednn_case *c, const int64_t *outer, int64_t rows, int64_t columns, bool swap) {
    int64_t shape[4] = {outer[0], outer[1]};
    shape[c->n_outer] = swap ? columns : rows;
    shape[c->n_outer + 1] = swap ? rows : columns;
    print_type(c->in, sizeof c->in, c->dtype, c->n_outer + 2, shape);
}

static void print_product(onednn_case *c) {
    c->op = c->kind == CASE_LINEAR ? "linear" : "matmul";
    print_matrix(c, c->outer_a, c->m, c->k, c->transpose_a);
    if (c->kind == CASE_LINEAR) {
        print_type(c->in, sizeof c->in, c->dtype, 2, (int64_t[]){c->n, c->k});
        if (c->has_bias) print_type(c->in, sizeof c->in, c->bias_dtype, 1, &c->n);
    } else {
        print_matrix(c, c->outer_b, c->k, c->n, c->transpose_b);
        print_number(c->attrs, sizeof c->attrs, "transpose_a", c->transpose_a);
        print_number(c->attrs, sizeof c->attrs, "transpose_b", c->transpose_b);
    }
}

void case_print(onednn_case *c) {
    c->in[0] = c->attrs[0] = '\0';
    if (c->kind < CASE_MATMUL)
        print_conv(c);
    else
        print_product(c);
    if (c->wide) print_number(c->attrs, sizeof c->attrs, "f32_output", 1);
}
