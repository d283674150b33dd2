/* onednn_conv.c - the three convolutions, and packing of their weights, by oneDNN in f32.
 *
 * conv2d is a forward convolution, conv_transpose2d a backward-data one (its bias is added after, which costs
 * one pass over the result; oneDNN's deconvolution does the same inside), conv2d_weight a backward-weights
 * one. Images are channels-last. The primitive picks the weight's format: conv2d and conv_transpose2d get it
 * packed by a `pack` node, or repack a plain one in each run; conv2d_weight writes its own format into the
 * workspace and reorders to the plain result from there.
 */
#include "ops/conv2d.h"
#include "ops/cpu/onednn.h"
#include "ops/pack.h"

#include <string.h>

/* ---- a node as a problem ---- */

static bool is_image(const weft_value *v) {
    return v->type.dtype == WEFT_F32 && lies_channels_last(v);
}

static bool is_plain(const weft_value *v) {
    return v->type.dtype == WEFT_F32 && lies_row_major(v);
}

static const char *unfit(const weft_node *n) {
    static const char images[] = "images must be f32 and channels-last",
                      weight[] = "weights must be f32 and row-major";
    if (!is_image(n->in[0])) return images;
    if (n->op == &weft_op_conv2d_weight)
        return !is_image(n->in[1]) ? images : is_plain(&n->out[0]) ? NULL : weight;
    if (!is_image(&n->out[0])) return images;
    if (n->n_in == 3 && n->in[2] && !is_plain(n->in[2])) return weight;
    return conv_is_packed(&n->in[1]->type) || is_plain(n->in[1]) ? NULL : weight;
}

static onednn_tensor image_tensor(const tensor_type *t) {
    onednn_tensor d = {.ndim = 4};
    memcpy(d.shape, t->shape, 4 * sizeof d.shape[0]);
    stride_channels_last(t, d.stride);
    return d;
}

/* [o, channels / groups, kh, kw]; with groups oneDNN wants them as an axis, the same bytes in order. */
static onednn_tensor weight_tensor(const conv_attrs *a, int64_t o, int64_t channels) {
    int64_t shape[5] = {a->groups, o / a->groups, channels / a->groups, a->kernel.v[0], a->kernel.v[1]};
    int first = a->groups == 1;
    tensor_type t = type_of(WEFT_F32, 5 - first, shape + first);
    onednn_tensor d = {.ndim = t.ndim};
    memcpy(d.shape, t.shape, (size_t)t.ndim * sizeof d.shape[0]);
    stride_row_major(&t, d.stride);
    return d;
}

/* big is the problem's src, small its dst, whichever of them the op computes. */
static void conv_problem(const weft_node *n, const kernel_env *env, onednn_problem *p) {
    const conv_attrs *a = n->attrs;
    bool transposed = n->op == &weft_op_conv_transpose2d, weight = n->op == &weft_op_conv2d_weight;
    const tensor_type *big = transposed ? &n->out[0].type : &n->in[0]->type;
    const tensor_type *small = transposed ? &n->in[0]->type : weight ? &n->in[1]->type : &n->out[0].type;
    *p = (onednn_problem){.kind = transposed ? ONEDNN_CONV_DATA
                                  : weight   ? ONEDNN_CONV_WEIGHT
                                             : ONEDNN_CONV,
                          .threads = env->threads,
                          .src = image_tensor(big),
                          .dst = image_tensor(small),
                          .weight = weight_tensor(a, small->shape[1], big->shape[1])};
    if (p->kind == ONEDNN_CONV && n->n_in == 3 && n->in[2])
        p->bias = (onednn_tensor){.ndim = 1, .shape = {a->out}, .stride = {1}};
    for (int i = 0; i < 2; i++) {
        p->stride[i] = a->stride.v[i];
        p->dilation[i] = a->dilation.v[i];
        p->pad_before[i] = p->pad_after[i] = a->pad.v[i];
        /* With an output padding of a whole stride the pad at the end has to be less, or small would be
         * longer. */
        int64_t grown = conv_growth(a, i, big->shape[2 + i], small->shape[2 + i]);
        if (grown >= a->stride.v[i]) p->pad_after[i] -= grown;
    }
}

static bool describe(const weft_node *n, const kernel_env *env, onednn_facts *facts) {
    onednn_problem p;
    conv_problem(n, env, &p);
    return onednn_describe(&p, facts);
}

/* ---- what the compiler asks ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    onednn_facts facts;
    const char *why = onednn_exceeds(env);
    if (!why) why = unfit(n);
    if (why) return why;
    if (!describe(n, env, &facts)) return "oneDNN has no primitive for this window";
    if (n->op != &weft_op_conv2d_weight && conv_is_packed(&n->in[1]->type) &&
        n->in[1]->type.shape[0] != (int64_t)facts.packed_bytes)
        return "the weight was packed for another kernel";
    return NULL;
}

static bool is_given_packed(const weft_node *n) {
    return n->op != &weft_op_conv2d_weight && conv_is_packed(&n->in[1]->type);
}

/* Scratch, and behind it the packed weight, unless a pack node made that. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    onednn_facts facts = {0};
    if (!describe(n, env, &facts)) return SIZE_MAX;
    return size_align(facts.scratch_bytes, MEM_ALIGN) + (is_given_packed(n) ? 0 : facts.packed_bytes);
}

static size_t packed_bytes(const weft_node *n, int i, const kernel_env *env) {
    onednn_facts facts;
    return i == 1 && !conv_is_packed(&n->in[1]->type) && describe(n, env, &facts) ? facts.packed_bytes : 0;
}

/* ---- runs ---- */

typedef struct conv_state {
    const weft_env *env;
    onednn *primitive;
    size_t packed_at; /* in the workspace */
} conv_state;

static void conv_close(void *state) {
    conv_state *s = state;
    if (!s) return;
    onednn_free(s->primitive);
    mem_free(s->env, s, sizeof *s);
}

static weft_status open_as(const weft_node *n, const kernel_env *env, onednn_weight weight, void **state,
                           weft_error *error) {
    onednn_problem p;
    onednn_facts facts;
    conv_problem(n, env, &p);
    if (!onednn_describe(&p, &facts))
        return error_set(error, WEFT_UNSUPPORTED, "oneDNN: no primitive for %s", n->op->name);
    conv_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a convolution");
    s->env = env->env;
    s->packed_at = size_align(facts.scratch_bytes, MEM_ALIGN);
    weft_status status = onednn_new(&p, weight, env->env, &s->primitive, error);
    if (status == WEFT_OK)
        *state = s;
    else
        conv_close(s);
    return status;
}

static weft_status conv_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    return open_as(n, env, is_given_packed(n) ? ONEDNN_GIVEN : ONEDNN_REPACK, state, error);
}

/* y[..., channels] += bias, on all threads. */
static void add_bias(float *restrict y, const float *restrict bias, int64_t pixels, int64_t channels,
                     int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t j = 0; j < channels; j++) y[i * channels + j] += bias[j];
}

static weft_status conv_run(void *state, const kernel_call *c) {
    conv_state *s = state;
    const weft_op *op = c->node->op;
    onednn_buffers b = {.scratch = c->workspace};
    if (c->workspace) b.packed = (char *)c->workspace + s->packed_at;
    b.src = op == &weft_op_conv_transpose2d ? c->out[0].data : c->in[0].data;
    b.dst = op == &weft_op_conv_transpose2d ? c->in[0].data
            : op == &weft_op_conv2d         ? c->out[0].data
                                            : c->in[1].data;
    b.weight = op == &weft_op_conv2d_weight ? c->out[0].data : c->in[1].data;
    void *bias = c->n_in == 3 && op != &weft_op_conv2d_weight ? c->in[2].data : NULL;
    if (op == &weft_op_conv2d) b.bias = bias;
    weft_status status = onednn_run(s->primitive, &b, c->error);
    if (status == WEFT_OK && bias && !b.bias) {
        const int64_t *y = c->out[0].type.shape;
        add_bias(b.src, bias, y[0] * y[2] * y[3], y[1], c->threads);
    }
    return status;
}

/* ---- pack ---- */

/* The node that is packed for, in a model of its own; the caller frees that. */
static weft_node *target(const weft_node *n, const kernel_env *env, weft_error *error) {
    const pack_attrs *a = n->attrs;
    weft_node *t = node_from_signature(a->of, env->env, error);
    if (t && a->operand == 1 && (t->op == &weft_op_conv2d || t->op == &weft_op_conv_transpose2d) &&
        type_equal(&t->in[1]->type, &n->in[0]->type) && is_plain(n->in[0]) && !unfit(t))
        return t;
    if (t) weft_model_free(t->graph->model);
    return NULL;
}

static const char *pack_declines(const weft_node *n, const kernel_env *env) {
    onednn_facts facts;
    const char *why = onednn_exceeds(env);
    if (why) return why;
    weft_error error = {0};
    weft_node *t = target(n, env, &error);
    if (!t)
        return error.status == WEFT_MEMORY ? "memory could not be had"
                                           : "not the f32 weight of a convolution";
    bool fits =
        describe(t, env, &facts) && (int64_t)facts.packed_bytes == ((const pack_attrs *)n->attrs)->bytes;
    weft_model_free(t->graph->model);
    return fits ? NULL : "oneDNN packs this weight into another number of bytes here";
}

static size_t pack_workspace(const weft_node *n, const kernel_env *env) {
    onednn_facts facts = {0};
    weft_node *t = target(n, env, NULL);
    if (!t) return SIZE_MAX;
    bool fine = describe(t, env, &facts);
    weft_model_free(t->graph->model);
    return fine ? facts.scratch_bytes : SIZE_MAX;
}

static weft_status pack_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    weft_error own = {0};
    weft_node *t = target(n, env, &own);
    if (!t && own.status == WEFT_MEMORY) return error_memory(error, "pack");
    if (!t) return error_set(error, WEFT_UNSUPPORTED, "pack: not the f32 weight of a convolution");
    weft_status status = open_as(t, env, ONEDNN_PACK, state, error);
    weft_model_free(t->graph->model);
    return status;
}

static weft_status pack_run(void *state, const kernel_call *c) {
    conv_state *s = state;
    onednn_buffers b = {.weight = c->in[0].data, .packed = c->out[0].data, .scratch = c->workspace};
    return onednn_run(s->primitive, &b, c->error);
}

/* ---- the kernels ---- */

#define CONV_KERNEL(of)                                                                                      \
    const weft_kernel onednn_##of = {                                                                        \
        .name = "onednn",                                                                                    \
        .op = &weft_op_##of,                                                                                 \
        .min_isa = WEFT_ISA_SSE2,                                                                            \
        .declines = declines,                                                                                \
        .workspace = workspace,                                                                              \
        .packed_bytes = packed_bytes,                                                                        \
        .open = conv_open,                                                                                   \
        .run = conv_run,                                                                                     \
        .close = conv_close,                                                                                 \
    }
CONV_KERNEL(conv2d);
CONV_KERNEL(conv_transpose2d);

const weft_kernel onednn_conv2d_weight = {
    .name = "onednn",
    .op = &weft_op_conv2d_weight,
    .min_isa = WEFT_ISA_SSE2,
    .declines = declines,
    .workspace = workspace,
    .open = conv_open,
    .run = conv_run,
    .close = conv_close,
};

const weft_kernel onednn_pack = {
    .name = "onednn",
    .op = &weft_op_pack,
    .min_isa = WEFT_ISA_SSE2,
    .declines = pack_declines,
    .workspace = pack_workspace,
    .open = pack_open,
    .run = pack_run,
    .close = conv_close,
};
