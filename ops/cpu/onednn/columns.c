/* columns.c - the weight gradient of a convolution as one matrix product in bf16, where that is faster.
 *
 * `small` is the image with the p = N h w pixels that the convolution writes, channels-last: [p, O]. `big` is
 * the other one.
 *     columns [p, kh kw C]   the pixels of `big` that each of them sees (im2col), zeros in the padding
 *     D [O, kh kw C] = small^T columns, in f32;   dw [O, C, kh, kw] is D with its axes put in order
 * oneDNN 2.6's own kernel (jit AMX, backward weights) reaches its speed only on large images without strides.
 * One core of a Sapphire Rapids that others used too, batch 32, best of 100, ms: oneDNN's kernel, this one
 *     512 -> 512 channels, 4 x 4, 3x3           85.8  25.5      256 -> 256, 8 x 8, 3x3         10.5  10.5
 *     256 -> 512, 8 x 8 to 4 x 4, 3x3 stride 2  44.3   3.3      64 -> 128, 32 to 16, 3x3 s. 2   3.9   3.3
 *     128 -> 256, 16 x 16 to 8 x 8, 1x1 s. 2     1.4   0.3      1024 -> 256, 14 x 14, 1x1       5.9   1.6
 */
#include "ops/image/conv2d.h"
#include "ops/cpu/onednn/onednn.h"
#include "ops/cpu/reduced.h"
#include "ops/work.h"

/* PIXELS: most pixels of `small`, for a window without strides. CHANNELS: least channels; a pixel with fewer
 * is too short to copy. */
enum { PIXELS = 16, CHANNELS = 16 };
static const size_t most_bytes = (size_t)64 << 20; /* of columns, in bytes */

/* ---- a node as a product ---- */

/* The product, and where its parts are in the workspace: the columns at 0, then D, then oneDNN's scratch. */
typedef struct columns_plan {
    onednn_problem problem;
    onednn_description description;
    int64_t window, channels, out; /* kh kw, C, O */
    bool is_plain;                 /* `big` itself is the matrix of columns */
    size_t product_at, scratch_at; /* byte offsets in the workspace */
} columns_plan;

/* A matrix [rows, columns] with those strides in elements. */
static onednn_tensor matrix(weft_dtype dtype, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return (onednn_tensor){dtype, .ndim = 2, .shape = {rows, columns}, .stride = {row, column}};
}

/* 1 x 1 without strides and padding, and as many pixels: `small` may leave out the last pixels of `big` even
 * so, with an output padding. */
static bool is_plain(const conv_attrs *a, const int64_t *big, const int64_t *small) {
    bool plain = true;
    for (int i = 0; i < 2; i++)
        plain &= a->kernel.v[i] == 1 && a->stride.v[i] == 1 && a->pad.v[i] == 0 && big[2 + i] == small[2 + i];
    return plain;
}

/* src is small^T: [O, p] with row stride 1, so nothing is transposed in memory. */
static bool plan_of(const weft_node *n, const kernel_env *env, columns_plan *p) {
    const conv_attrs *a = n->attrs;
    const int64_t *big = n->in[0]->type.shape, *small = n->in[1]->type.shape;
    int64_t pixels = small[0] * small[2] * small[3];
    *p = (columns_plan){.window = a->kernel.v[0] * a->kernel.v[1],
                        .channels = big[1],
                        .out = small[1],
                        .is_plain = is_plain(a, big, small)};
    int64_t width = p->window * p->channels;
    p->problem = (onednn_problem){.kind = ONEDNN_MATMUL,
                                  .threads = node_threads(n, env->threads),
                                  .plain = WEFT_BF16,
                                  .src = matrix(WEFT_BF16, p->out, pixels, 1, p->out),
                                  .weight = matrix(WEFT_BF16, pixels, width, width, 1),
                                  .dst = matrix(WEFT_F32, p->out, width, width, 1)};
    p->product_at = p->is_plain ? 0 : size_align((size_t)(pixels * width) * sizeof(uint16_t), MEM_ALIGN);
    p->scratch_at = p->product_at + size_align((size_t)(p->out * width) * sizeof(float), MEM_ALIGN);
    return onednn_describe(&p->problem, &p->description);
}

/* The limits are where the measurements above turn: see the table. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    columns_plan p;
    const conv_attrs *a = n->attrs;
    const tensor_type *small = &n->in[1]->type;
    if (n->in[0]->type.dtype != WEFT_BF16 || small->dtype != WEFT_BF16) return "not bf16";
    if (a->groups != 1) return "groups";
    bool strides = a->stride.v[0] > 1 && a->stride.v[1] > 1, is_point = a->kernel.v[0] * a->kernel.v[1] == 1;
    if (!strides && !is_point && small->shape[2] * small->shape[3] > PIXELS)
        return "more than 16 pixels an image";
    if (n->in[0]->type.shape[1] < CHANNELS) return "less than 16 channels";
    const char *why = onednn_exceeds(env);
    if (why) return why;
    if (!plan_of(n, env, &p) || p.description.is_reference) return "oneDNN has no bf16 product here";
    return p.product_at > most_bytes ? "columns of more than 64 MiB" : NULL;
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    columns_plan p;
    return plan_of(n, env, &p) ? p.scratch_at + p.description.scratch_bytes : SIZE_MAX;
}

static bool implementation(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]) {
    columns_plan p;
    if (!plan_of(n, env, &p)) return false;
    memcpy(name, p.description.implementation, KERNEL_IMPLEMENTATION);
    return true;
}

typedef struct columns_state {
    const weft_env *env;
    onednn *primitive;
    columns_plan plan;
} columns_state;

static void columns_close(void *state) {
    columns_state *s = state;
    if (!s) return;
    onednn_free(s->primitive);
    mem_free(s->env, s, sizeof *s);
}

static weft_status columns_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    columns_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a convolution");
    s->env = env->env;
    weft_status status = plan_of(n, env, &s->plan)
                             ? onednn_new(&s->plan.problem, ONEDNN_GIVEN, env->env, &s->primitive, error)
                             : error_set(error, WEFT_UNSUPPORTED, "oneDNN: no product for %s", n->op->name);
    if (status == WEFT_OK)
        *state = s;
    else
        columns_close(s);
    return status;
}

/* ---- runs ---- */

/* The columns of row y of image n of `small`: one matrix row [kh kw C] for each of its pixels. */
static void row_columns(const kernel_call *c, const columns_plan *p, int64_t n, int64_t y, uint16_t *to) {
    const conv_attrs *a = c->attrs;
    const int64_t *big = c->in[0].type.shape, *small = c->in[1].type.shape;
    const uint16_t *image = (const uint16_t *)c->in[0].data + n * big[1] * big[2] * big[3];
    size_t bytes = (size_t)p->channels * sizeof *to;
    to += (n * small[2] + y) * small[3] * p->window * p->channels;
    for (int64_t x = 0; x < small[3]; x++)
        for (int64_t ky = 0; ky < a->kernel.v[0]; ky++)
            for (int64_t kx = 0; kx < a->kernel.v[1]; kx++, to += p->channels) {
                int64_t row = y * a->stride.v[0] - a->pad.v[0] + ky * a->dilation.v[0];
                int64_t column = x * a->stride.v[1] - a->pad.v[1] + kx * a->dilation.v[1];
                if (row < 0 || row >= big[2] || column < 0 || column >= big[3])
                    memset(to, 0, bytes);
                else
                    memcpy(to, image + (row * big[3] + column) * p->channels, bytes);
            }
}

/* [window, C] -> [C, window] for output channel o, rounded to the type of dw. */
static void put_channel(const columns_plan *p, const float *from, const tensor *dw, int64_t o) {
    for (int64_t k = 0; k < p->window; k++)
        for (int64_t ch = 0; ch < p->channels; ch++)
            reduced_put(dw->data, dw->type.dtype, (o * p->channels + ch) * p->window + k,
                        from[k * p->channels + ch]);
}

/* im2col, the product, and the order of the axes; each pass is divided among all threads. */
static weft_status columns_run(void *state, const kernel_call *c) {
    columns_state *s = state;
    const columns_plan *p = &s->plan;
    const int64_t *small = c->in[1].type.shape;
    uint16_t *columns = p->is_plain ? c->in[0].data : c->workspace;
    float *product = (float *)((char *)c->workspace + p->product_at);
#pragma omp parallel for num_threads(c->threads) schedule(static) collapse(2)
    for (int64_t n = 0; n < (p->is_plain ? 0 : small[0]); n++)
        for (int64_t y = 0; y < small[2]; y++) row_columns(c, p, n, y, columns);
    onednn_buffers b = {.src = c->in[1].data, .weight = columns, .dst = product};
    if (p->description.scratch_bytes) b.scratch = (char *)c->workspace + p->scratch_at;
    weft_status status = onednn_run(s->primitive, &b, c->error);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t o = 0; o < p->out; o++) put_channel(p, product + o * p->window * p->channels, &c->out[0], o);
    return WEFT_OK;
}

const weft_kernel onednn_columns_weight = {
    .name = "onednn_columns",
    .op = &weft_op_conv2d_weight,
    .min_isa = WEFT_ISA_SSE2,
    .declines = declines,
    .workspace = workspace,
    .implementation = implementation,
    .open = columns_open,
    .run = columns_run,
    .close = columns_close,
};
