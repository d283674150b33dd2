/* pack.c - the `pack` op: a convolution's weight in the format that the kernel of the convolution reads.
 *
 * The format is oneDNN's, so this kernel rebuilds the convolution node from its signature and asks what that
 * would want. A bf16 kernel gets bf16, made from an f32 parameter in the same step; a kernel that casts
 * around f32 (simd/cast.c) gets f32, whatever the weight is. */
#include "graph/text/text.h"
#include "ops/image/conv2d.h"
#include "ops/cpu/onednn/conv.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/f32_shadow.h"
#include "ops/image/pack.h"

/* The convolution that reads the packed weight, rebuilt in a graph of its own. */
typedef struct target {
    weft_node *node;     /* its graph's model is ours to free */
    f32_shadow wide;     /* node in f32, when its kernel casts */
    const weft_node *as; /* what oneDNN runs: `node`, or its shadow */
    bool casts;          /* the weight must become f32 before it is packed */
} target;

static void target_free(target *t) {
    if (t->node) weft_model_free(t->node->graph->model);
}

/* Whether the kernel that a bf16 or f16 node gets here is one that casts around an f32 kernel, by its
 * name. */
static bool casts_around(const weft_node *n, const kernel_env *env) {
    static const char is_cast[] = "onednn_cast";
    const weft_kernel *k = kernel_select(n, env, NULL, NULL);
    return k && strncmp(k->name, is_cast, sizeof is_cast - 1) == 0;
}

static const char no_memory[] = "out of memory";

/* Returns NULL or the reason to decline. The caller calls target_free in either case. */
static const char *target_find(const weft_node *n, const kernel_env *env, target *t) {
    static const char other[] = "not the f32 or bf16 weight of a convolution";
    const pack_attrs *a = n->attrs;
    const weft_value *w = n->in[0];
    weft_error error = {0};
    *t = (target){0};
    t->node = node_from_signature(a->of, env->env, n->graph->model->catalog, &error);
    if (!t->node) return error.status == WEFT_MEMORY ? no_memory : other;
    conv_part part = conv_part_of(t->node->op);
    if (a->operand != 1 || (part != CONV_SMALL && part != CONV_BIG)) return other;
    const weft_value *plain = t->node->in[1];
    t->as = t->node;
    if (!shape_equal(&plain->type, &w->type) || !dtype_is_row(w->type.dtype)) return other;
    if (w->type.dtype != plain->type.dtype && w->type.dtype != WEFT_F32) return other;
    /* One format serves two kernels: the reduced one of oneDNN, and the f32 one inside a cast. */
    if (dtype_is_reduced(plain->type.dtype) && casts_around(t->node, env)) {
        if (!f32_shadow_of(t->node, &t->wide)) return other;
        t->as = &t->wide.node;
        t->casts = w->type.dtype != WEFT_F32;
    }
    return NULL;
}

/* The type that oneDNN packs from: the weight's own, unless it is first cast to f32. */
static weft_dtype plain_of(const weft_node *n, const target *t) {
    return t->casts ? WEFT_F32 : n->in[0]->type.dtype;
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    onednn_description description;
    target t;
    const char *why = onednn_exceeds(env);
    if (why) return why;
    why = target_find(n, env, &t);
    if (!why && (!conv_pack_describe(t.as, plain_of(n, &t), env, &description) ||
                 (int64_t)description.packed_bytes != ((const pack_attrs *)n->attrs)->bytes))
        why = "oneDNN packs this weight into another number of bytes here";
    target_free(&t);
    return why;
}

/* oneDNN's scratch, then the weight in f32 if it is cast. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    onednn_description description = {0};
    target t;
    bool fine = !target_find(n, env, &t) && conv_pack_describe(t.as, plain_of(n, &t), env, &description);
    size_t wide = t.casts ? (size_t)type_elements(&n->in[0]->type) * sizeof(float) : 0;
    target_free(&t);
    return fine ? size_align(description.scratch_bytes, MEM_ALIGN) + wide : SIZE_MAX;
}

typedef struct pack_state {
    const weft_env *env;
    onednn *primitive;
    bool casts;
    size_t wide_at; /* byte offset in the workspace */
} pack_state;

static void pack_close(void *state) {
    pack_state *s = state;
    if (!s) return;
    onednn_free(s->primitive);
    mem_free(s->env, s, sizeof *s);
}

/* The target is needed only here: the primitive keeps all of it that matters. */
static weft_status pack_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    onednn_description description = {0};
    target t;
    const char *why = target_find(n, env, &t);
    if (!why && !conv_pack_describe(t.as, plain_of(n, &t), env, &description))
        why = "oneDNN cannot pack for this";
    pack_state *s = why ? NULL : mem_new(env->env, sizeof *s);
    weft_status status = !s && (!why || why == no_memory) ? error_memory(error, "pack")
                         : why ? error_set(error, WEFT_UNSUPPORTED, "pack: %s", why)
                               : WEFT_OK;
    if (s) {
        s->env = env->env;
        s->casts = t.casts;
        s->wide_at = size_align(description.scratch_bytes, MEM_ALIGN);
        status = conv_pack_open(t.as, plain_of(n, &t), env, &s->primitive, error);
    }
    target_free(&t);
    if (status == WEFT_OK)
        *state = s;
    else
        pack_close(s);
    return status;
}

/* in: the weight in its plain order; out: u8[bytes] in the kernel's format. */
static weft_status pack_run(void *state, const kernel_call *c) {
    pack_state *s = state;
    const tensor *w = &c->in[0];
    onednn_buffers b = {.weight = w->data, .packed = c->out[0].data, .scratch = c->workspace};
    if (s->casts) {
        b.weight = (char *)c->workspace + s->wide_at;
        reduced_load(b.weight, w->data, w->type.dtype, 0, type_elements(&w->type));
    }
    return onednn_run(s->primitive, &b, c->error);
}

const weft_kernel onednn_pack = {
    .name = "onednn",
    .op = &weft_op_pack,
    .min_isa = WEFT_ISA_SSE2,
    .declines = declines,
    .workspace = workspace,
    .open = pack_open,
    .run = pack_run,
    .close = pack_close,
};
