/* conv.c - the convolutions of images and volumes by oneDNN in f32 and bf16.
 *
 * conv2d (and all that is said of it, conv3d) is a forward convolution, conv_transpose2d a backward-data one
 * (its bias is added afterwards, which costs one pass over the result; oneDNN's deconvolution does the same
 * inside), conv2d_weight a backward-weights one. Images are channels-last. The primitive chooses the weight's
 * format: conv2d and conv_transpose2d read a weight that a `pack` node packed, or repack a plain one in each
 * run; conv2d_weight writes its own format into the workspace and reorders it from there to the plain
 * result. */
#include "ops/cpu/onednn/conv.h"

#include "ops/image/conv2d.h"
#include "ops/cpu/reduced.h"
#include "ops/work.h"

#include <string.h>

/* ---- a node as a problem ---- */

const char *conv_unfit(const weft_node *n) {
    bool is_packed = conv_is_packed(&n->in[1]->type);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !(i == 1 && is_packed) && !onednn_knows(n->in[i]->type.dtype))
            return "not f32 or bf16";
    return onednn_knows(n->out[0].type.dtype) ? NULL : "not f32 or bf16";
}

/* Images are always channels-last for these kernels: [N, C, H, W] with strides [H W C, 1, W C, C]. */
static onednn_tensor image_tensor(const tensor_type *t) {
    onednn_tensor d = {.dtype = t->dtype, .ndim = t->ndim};
    memcpy(d.shape, t->shape, (size_t)t->ndim * sizeof d.shape[0]);
    stride_channels_last(t, d.stride);
    return d;
}

/* Row-major [out, channels / groups, window]. With groups oneDNN wants an axis for them: the same bytes in
 * the same order as [groups, out / groups, channels / groups, window]. */
static onednn_tensor weight_tensor(const conv_attrs *a, weft_dtype dtype, int64_t o, int64_t channels) {
    int64_t shape[6] = {a->groups, o / a->groups, channels / a->groups};
    int first = a->groups == 1;
    memcpy(shape + 3, a->kernel.v, (size_t)a->kernel.n * sizeof shape[0]);
    tensor_type t = type_of(dtype, 3 + a->kernel.n - first, shape + first);
    onednn_tensor d = {.dtype = dtype, .ndim = t.ndim};
    memcpy(d.shape, t.shape, (size_t)t.ndim * sizeof d.shape[0]);
    stride_row_major(&t, d.stride);
    return d;
}

/* `big` is the problem's src and `small` its dst, whichever of them the op computes. */
void conv_problem(const weft_node *n, const kernel_env *env, onednn_problem *p) {
    const conv_attrs *a = n->attrs;
    conv_part part = conv_part_of(n->op);
    bool transposed = part == CONV_BIG, weight = part == CONV_WEIGHT;
    const tensor_type *big = transposed ? &n->out[0].type : &n->in[0]->type;
    const tensor_type *small = transposed ? &n->in[0]->type : weight ? &n->in[1]->type : &n->out[0].type;
    weft_dtype dtype = weight ? n->out[0].type.dtype : n->in[0]->type.dtype;
    /* for a transposed convolution the result is the problem's src */
    *p = (onednn_problem){.kind = transposed ? ONEDNN_CONV_DATA
                                  : weight   ? ONEDNN_CONV_WEIGHT
                                             : ONEDNN_CONV,
                          .threads = node_threads(n, env->threads),
                          .src = image_tensor(big),
                          .dst = image_tensor(small),
                          .weight = weight_tensor(a, dtype, small->shape[1], big->shape[1]),
                          .plain = dtype};
    if (p->kind == ONEDNN_CONV && n->n_in == 3 && n->in[2])
        p->bias = (onednn_tensor){n->in[2]->type.dtype, .ndim = 1, .shape = {a->out}, .stride = {1}};
    for (int i = 0; i < a->kernel.n; i++) {
        p->stride[i] = a->stride.v[i];
        p->dilation[i] = a->dilation.v[i];
        p->pad_before[i] = p->pad_after[i] = a->pad.v[i];
        /* With an output padding of a whole stride the padding at the end must be less, or `small` would be
         * longer than it is. */
        int64_t grown = conv_growth(a, i, big->shape[2 + i], small->shape[2 + i]);
        if (grown >= a->stride.v[i]) p->pad_after[i] -= grown;
    }
}

static bool describe(const weft_node *n, const kernel_env *env, onednn_description *description) {
    onednn_problem p;
    conv_problem(n, env, &p);
    return onednn_describe(&p, description);
}

bool conv_pack_describe(const weft_node *n, weft_dtype plain, const kernel_env *env,
                        onednn_description *description) {
    onednn_problem p;
    if (conv_unfit(n)) return false;
    conv_problem(n, env, &p);
    p.plain = plain;
    return onednn_describe(&p, description);
}

weft_status conv_pack_open(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn **made,
                           weft_error *error) {
    onednn_problem p;
    conv_problem(n, env, &p);
    p.plain = plain;
    return onednn_new(&p, ONEDNN_PACK, env->env, made, error);
}

/* ---- what the compiler asks ---- */

/* A packed weight has type u8[bytes]: the graph's `pack` node made it. */
static bool is_given_packed(const weft_node *n) {
    return conv_part_of(n->op) != CONV_WEIGHT && conv_is_packed(&n->in[1]->type);
}

/* An f32 node keeps oneDNN's reference if there is nothing better; reduced nodes then run as f32
 * (simd/cast.c). */
static const char *declines(const weft_node *n, const kernel_env *env) {
    onednn_description description;
    const char *why = onednn_exceeds(env);
    if (!why) why = conv_unfit(n);
    if (why) return why;
    bool is_f32 = n->in[0]->type.dtype == WEFT_F32;
    if (!describe(n, env, &description))
        return is_f32 ? "oneDNN has no primitive for this window"
                      : "oneDNN has no bf16 primitive for this here";
    if (description.is_reference && !is_f32) return "oneDNN has only its reference for this in bf16";
    if (is_given_packed(n) && n->in[1]->type.shape[0] != (int64_t)description.packed_bytes)
        return "the weight was packed for another kernel";
    return NULL;
}

/* Scratch, then the packed weight, unless a pack node made that. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    onednn_description description = {0};
    if (!describe(n, env, &description)) return SIZE_MAX;
    return size_align(description.scratch_bytes, MEM_ALIGN) +
           (is_given_packed(n) ? 0 : description.packed_bytes);
}

static bool implementation(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]) {
    onednn_description description;
    if (!describe(n, env, &description)) return false;
    memcpy(name, description.implementation, KERNEL_IMPLEMENTATION);
    return true;
}

/* For the compiler: bytes of operand i (the weight) in the format of this kernel; 0: it is not worth
 * packing. */
static size_t packed_bytes(const weft_node *n, int i, const kernel_env *env) {
    onednn_description description;
    return i == 1 && !conv_is_packed(&n->in[1]->type) && describe(n, env, &description)
               ? description.packed_bytes
               : 0;
}

/* ---- runs ---- */

typedef struct conv_state {
    const weft_env *env;
    onednn *primitive;
    size_t packed_at; /* byte offset in the workspace */
} conv_state;

static void conv_close(void *state) {
    conv_state *s = state;
    if (!s) return;
    onednn_free(s->primitive);
    mem_free(s->env, s, sizeof *s);
}

/* Gets the description again: the packed weight begins after the scratch. */
static weft_status conv_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    onednn_problem p;
    onednn_description description;
    conv_problem(n, env, &p);
    if (!onednn_describe(&p, &description))
        return error_set(error, WEFT_UNSUPPORTED, "oneDNN: no primitive for %s", n->op->name);
    conv_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a convolution");
    s->env = env->env;
    /* the same place as workspace() counted */
    s->packed_at = size_align(description.scratch_bytes, MEM_ALIGN);
    onednn_weight weight = is_given_packed(n) ? ONEDNN_GIVEN : ONEDNN_REPACK;
    weft_status status = onednn_new(&p, weight, env->env, &s->primitive, error);
    if (status == WEFT_OK)
        *state = s;
    else
        conv_close(s);
    return status;
}

/* y += bias for y [pixels, channels], pixels divided among the threads. */
static void add_bias(const tensor *y, const tensor *bias, int threads) {
    int64_t channels = y->type.shape[1], pixels = type_elements(&y->type) / channels;
    bool is_f32 = y->type.dtype == WEFT_F32 && bias->type.dtype == WEFT_F32;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < pixels; i++) {
        if (is_f32) {
            float *restrict to = (float *)y->data + i * channels;
            const float *restrict more = bias->data;
            for (int64_t j = 0; j < channels; j++) to[j] += more[j];
            continue;
        }
        for (int64_t j = 0, at = i * channels; j < channels; j++, at++) {
            float sum =
                reduced_get(y->data, y->type.dtype, at) + reduced_get(bias->data, bias->type.dtype, j);
            reduced_put(y->data, y->type.dtype, at, sum);
        }
    }
}

/* conv_transpose2d is oneDNN's backward data: our input is its dst and our result its src. */
static weft_status conv_run(void *state, const kernel_call *c) {
    conv_state *s = state;
    conv_part part = conv_part_of(c->node->op);
    onednn_buffers b = {.scratch = c->workspace};
    if (c->workspace) b.packed = (char *)c->workspace + s->packed_at;
    b.src = part == CONV_BIG ? c->out[0].data : c->in[0].data;
    b.dst = part == CONV_BIG ? c->in[0].data : part == CONV_SMALL ? c->out[0].data : c->in[1].data;
    b.weight = part == CONV_WEIGHT ? c->out[0].data : c->in[1].data;
    const tensor *bias = c->n_in == 3 && part != CONV_WEIGHT && c->in[2].data ? &c->in[2] : NULL;
    if (part == CONV_SMALL && bias) b.bias = bias->data;
    weft_status status = onednn_run(s->primitive, &b, c->error);
    /* backward data takes no bias */
    if (status == WEFT_OK && bias && !b.bias) add_bias(&c->out[0], bias, c->threads);
    return status;
}

/* ---- the kernels ---- */

#define CONV_KERNEL(of, ...)                                                                                 \
    const weft_kernel onednn_##of = {                                                                        \
        .name = "onednn",                                                                                    \
        .op = &weft_op_##of,                                                                                 \
        .min_isa = WEFT_ISA_SSE2,                                                                            \
        .declines = declines,                                                                                \
        .workspace = workspace,                                                                              \
        .implementation = implementation,                                                                    \
        __VA_ARGS__,                                                                                         \
        .open = conv_open,                                                                                   \
        .run = conv_run,                                                                                     \
        .close = conv_close,                                                                                 \
    }
CONV_KERNEL(conv2d, .packed_bytes = packed_bytes);
CONV_KERNEL(conv_transpose2d, .packed_bytes = packed_bytes);
CONV_KERNEL(conv2d_weight, .packed_bytes = NULL);
CONV_KERNEL(conv3d, .packed_bytes = packed_bytes);
CONV_KERNEL(conv_transpose3d, .packed_bytes = packed_bytes);
CONV_KERNEL(conv3d_weight, .packed_bytes = NULL);
