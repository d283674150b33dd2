/* cast.c - products and convolutions of bf16 and f16 where oneDNN has none: operands become f32 in the
 * workspace, oneDNN's f32 kernel runs, and the result is rounded. (2.6 has no f16 at all, and bf16 on AVX-512
 * only.) onednn/pack.c packs a weight for such a kernel in f32. f32_shadow.h makes the f32 node that oneDNN
 * is asked about. */
#include "ops/image/conv2d.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/tile.h"
#include "ops/cpu/f32_shadow.h"
#include "ops/linalg/matmul.h"

extern const weft_kernel onednn_matmul, onednn_linear, onednn_conv2d, onednn_conv_transpose2d,
    onednn_parts_conv2d_weight, onednn_conv2d_weight, onednn_conv3d, onednn_conv_transpose3d,
    onednn_parts_conv3d_weight, onednn_conv3d_weight;

/* The kernel that runs an f32 shadow: one by parts, unless it declines. */
static const weft_kernel *inner_of(const weft_node *n, const kernel_env *env) {
    const weft_kernel *const all[] = {&onednn_matmul,           &onednn_linear,        &onednn_conv2d,
                                      &onednn_conv_transpose2d, &onednn_conv2d_weight, &onednn_conv3d,
                                      &onednn_conv_transpose3d, &onednn_conv3d_weight};
    const weft_kernel *const parts[] = {&onednn_parts_conv2d_weight, &onednn_parts_conv3d_weight};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i]->op == n->op && !parts[i]->declines(n, env)) return parts[i];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->op == n->op) return all[i];
    /* cannot happen: the rows below are of these ops */
    return NULL;
}

/* ---- what the compiler asks ---- */

static const char *declines(const weft_node *n, const kernel_env *env) {
    f32_shadow w;
    return f32_shadow_of(n, &w) ? inner_of(&w.node, env)->declines(&w.node, env) : "there is nothing to cast";
}

/* The f32 copies, then the workspace of the inner kernel. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    f32_shadow w;
    size_t inner = f32_shadow_of(n, &w) ? inner_of(&w.node, env)->workspace(&w.node, env) : SIZE_MAX;
    return inner == SIZE_MAX ? SIZE_MAX : w.bytes + inner;
}

static bool implementation(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]) {
    f32_shadow w;
    return f32_shadow_of(n, &w) && inner_of(&w.node, env)->implementation(&w.node, env, name);
}

/* Bytes of operand i packed for the inner kernel; 0: it is read as it is. */
static size_t packed_bytes(const weft_node *n, int i, const kernel_env *env) {
    f32_shadow w;
    const weft_kernel *inner = f32_shadow_of(n, &w) ? inner_of(&w.node, env) : NULL;
    return inner && inner->packed_bytes ? inner->packed_bytes(&w.node, i, env) : 0;
}

/* ---- runs ---- */

typedef struct cast_state {
    const weft_env *env;
    const weft_kernel *inner;
    void *state;     /* of the inner kernel */
    f32_shadow wide; /* the node that the inner kernel was opened with */
} cast_state;

static void cast_close(void *state) {
    cast_state *s = state;
    if (!s) return;
    if (s->inner) s->inner->close(s->state);
    mem_free(s->env, s, sizeof *s);
}

/* The inner kernel is opened with the f32 node, which the state keeps alive. */
static weft_status cast_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    cast_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, n->op->name);
    s->env = env->env;
    bool fine = f32_shadow_of(n, &s->wide);
    if (fine) s->inner = inner_of(&s->wide.node, env);
    weft_status status = fine ? s->inner->open(&s->wide.node, env, &s->state, error)
                              : error_set(error, WEFT_INTERNAL, "%s: nothing to cast", n->op->name);
    if (status == WEFT_OK)
        *state = s;
    else
        cast_close(s);
    return status;
}

/* The f32 tensor of value v, at `data`. */
static tensor wide_tensor(const weft_value *v, void *data) {
    tensor t = {.data = data, .type = v->type};
    memcpy(t.stride, v->stride, sizeof t.stride);
    return t;
}

enum { PIECE = 16 * 1024 }; /* elements that a thread casts at a time */

/* x, at any strides, into the dense `wide`. */
static weft_status cast_up(const tensor *x, const tensor *wide, const kernel_call *c) {
    int axes[WEFT_MAX_NDIM], n_axes;
    tile_operand from;
    if (!SIMD(tile_order)(wide, axes, &n_axes)) return WEFT_INTERNAL;
    SIMD(tile_operand_of)(&from, x, wide, axes, n_axes);
    int64_t n = type_elements(&wide->type);
#pragma omp parallel for num_threads(c->threads) schedule(static) if (n > PIECE)
    for (int64_t i = 0; i < n; i += PIECE)
        SIMD(tile_load)(&from, (float *)wide->data + i, i, n - i < PIECE ? n - i : PIECE);
    return WEFT_OK;
}

/* The result has the strides of `wide`, so the copy is one run. */
static void cast_down(const tensor *wide, const tensor *y, const kernel_call *c) {
    int64_t n = type_elements(&y->type);
#pragma omp parallel for num_threads(c->threads) schedule(static) if (n > PIECE)
    for (int64_t i = 0; i < n; i += PIECE)
        reduced_store(y->data, y->type.dtype, i, (const float *)wide->data + i,
                      n - i < PIECE ? n - i : PIECE);
}

/* Runs the inner kernel on a call whose operands and result are the f32 copies. */
static weft_status cast_run(void *state, const kernel_call *c) {
    cast_state *s = state;
    const f32_shadow *w = &s->wide;
    char *room = c->workspace;
    tensor in[F32_SHADOW_MAX_IN] = {0}, out = c->out[0];
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (!w->casts[i]) continue;
        in[i] = wide_tensor(&w->in[i], room + w->at[i]);
        weft_status status = cast_up(&c->in[i], &in[i], c);
        if (status)
            return error_set(c->error, status, "%s: operand %d has no f32 copy", c->node->op->name, i);
    }
    if (w->casts[F32_SHADOW_MAX_IN]) out = wide_tensor(&w->out, room + w->at[F32_SHADOW_MAX_IN]);
    kernel_call inner = *c;
    inner.node = &w->node;
    inner.in = in;
    inner.out = &out;
    inner.workspace = room + w->bytes;
    weft_status status = s->inner->run(s->state, &inner);
    if (status == WEFT_OK && w->casts[F32_SHADOW_MAX_IN]) cast_down(&out, &c->out[0], c);
    return status;
}

/* The name is what plans show for such a node; onednn/pack.c recognizes it by its beginning. */
#define ROW(of, strided)                                                                                     \
    const weft_kernel SIMD(cast_##of) = {.name = "onednn_cast_" SIMD_NAME,                                   \
                                         .op = &weft_op_##of,                                                \
                                         .min_isa = SIMD_LEVEL,                                              \
                                         .strided_in = strided,                                              \
                                         .declines = declines,                                               \
                                         .workspace = workspace,                                             \
                                         .implementation = implementation,                                   \
                                         .packed_bytes = packed_bytes,                                       \
                                         .open = cast_open,                                                  \
                                         .run = cast_run,                                                    \
                                         .close = cast_close};
ROW(matmul, 3)
ROW(linear, 0)
ROW(conv2d, 0)
ROW(conv_transpose2d, 0)
ROW(conv2d_weight, 0)
ROW(conv3d, 0)
ROW(conv_transpose3d, 0)
ROW(conv3d_weight, 0)
