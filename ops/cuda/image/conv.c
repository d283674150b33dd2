/* conv.c - see conv.h: the plan of a convolution, and the rows of the convolutions and of `pack`. */
#include "ops/cuda/image/conv.h"

#include "graph/text/text.h"
#include "ops/cuda/kit/operand.h"
#include "ops/image/pack.h"

/* ---- the plan ---- */

/* cuDNN's scratch: least bytes; copies of the images and parts of a weight's gradient for which there is
 * room. */
enum { DNN_LEAST = 1 << 20, DNN_COPIES = 2, DNN_PARTS = 32 };

/* Reserves bytes of workspace and returns their offset. */
static size_t reserve(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += size_align(bytes, OPERAND_ALIGN);
    return here;
}

int conv_result(const conv_plan *p) {
    return p->is_weight ? 2 : p->is_transposed ? 0 : 1;
}

/* Whether the two orders of a weight differ: with one tap or one channel they are the same bytes. */
static bool is_turned(const conv_plan *p) {
    return p->taps > 1 && p->in_channels > 1;
}

/* The larger and the smaller image of the three ops; `small` gets the size that cuDNN computes from `big`. */
static void find_images(const weft_node *n, conv_plan *p) {
    p->is_transposed = conv_part_of(n->op) == CONV_BIG;
    p->is_weight = conv_part_of(n->op) == CONV_WEIGHT;
    p->big_value = p->is_transposed ? &n->out[0] : n->in[0];
    p->small_value = p->is_weight ? n->in[1] : p->is_transposed ? n->in[0] : &n->out[0];
    p->big = p->big_value->type;
    p->small = p->small_value->type;
    p->big.dtype = p->small.dtype = n->in[0]->type.dtype;
    for (int i = 0; i < conv_axes(n->op); i++) {
        /* the size that follows from `big`, which may be more than the node's */
        int64_t full = conv_small(n->attrs, i, p->big.shape[2 + i]);
        if (full != p->small.shape[2 + i]) p->extends_small = true;
        p->small.shape[2 + i] = full;
    }
}

/* Scratch of the library in bytes: copies of the images in other layouts, and the gradient of a weight in
 * parts. */
static size_t library_bytes(const conv_plan *p) {
    size_t elements = (size_t)(type_elements(&p->big) + type_elements(&p->small)) * DNN_COPIES +
                      (size_t)type_elements(&p->weight) * DNN_PARTS;
    size_t room = DNN_LEAST + elements * sizeof(float);
    return room < CUDA_DNN_WORKSPACE ? room : CUDA_DNN_WORKSPACE;
}

/* Workspace: the extended image, the reordered weight, f32 copies of operands, cuDNN's scratch. */
static void place_all(conv_plan *p) {
    size_t at = 0;
    if (p->extends_small) p->small_at = reserve(&at, type_bytes(&p->small));
    p->weight_at = at;
    if (p->reorders_weight || p->rounds) reserve(&at, type_bytes(&p->weight));
    const tensor_type *all[3] = {&p->big, &p->small, &p->weight};
    for (int i = 0; i < 3 && p->widens; i++)
        if (i != conv_result(p)) p->wide_at[i] = reserve(&at, (size_t)type_elements(all[i]) * sizeof(float));
    p->library_at = at;
    p->library_bytes = library_bytes(p);
    p->bytes = at + SCRATCH_SLACK + p->library_bytes;
}

/* From the node's types alone: planning and running agree, on every machine. */
conv_plan conv_plan_of(const weft_node *n) {
    const conv_attrs *a = n->attrs;
    conv_plan p = {.result = n->out[0].type.dtype};
    find_images(n, &p);
    p.in_channels = p.big.shape[1] / a->groups;
    p.weight = conv_weight_type(a, p.big.dtype, p.small.shape[1], p.in_channels);
    p.taps = 1;
    for (int i = 0; i < a->kernel.n; i++) p.taps *= a->kernel.v[i];
    p.is_packed = !p.is_weight && conv_is_packed(&n->in[1]->type);
    p.reorders_weight = is_turned(&p) && !p.is_packed;
    p.rounds = p.is_weight && p.result != p.big.dtype;
    p.widens = !p.is_weight && p.result != p.big.dtype;
    place_all(&p);
    return p;
}

size_t conv_packed_bytes(const weft_node *n, int operand) {
    if (operand != 1 || conv_part_of(n->op) == CONV_WEIGHT || conv_is_packed(&n->in[1]->type)) return 0;
    conv_plan p = conv_plan_of(n);
    return p.reorders_weight ? type_bytes(&p.weight) : 0;
}

/* ---- the convolutions' rows ---- */

static bool is_supported(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype_is_reduced(dtype);
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    if (!is_supported(n->in[0]->type.dtype)) return "operands must be f32, bf16 or f16";
    if (conv_part_of(n->op) == CONV_WEIGHT || !conv_is_packed(&n->in[1]->type)) return NULL;
    conv_plan p = conv_plan_of(n);
    return n->in[1]->type.shape[0] == (int64_t)type_bytes(&p.weight)
               ? NULL
               : "the weight was packed for another kernel";
}

/* Computed from the plan each time: plans are cheap and cannot go stale. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    return conv_plan_of(n).bytes;
}

/* A copy that is read once and written once, before or after the convolution. */
static void add_copy(node_work *w, double bytes) {
    w->launches++;
    w->read += bytes;
    w->written += bytes;
    w->apart += 2 * bytes;
}

/* What comes before and after cuDNN's call (conv.cu): an image that is extended, a weight in another order,
 * operands as f32, a bias. */
static void work(const weft_node *n, node_work *w) {
    conv_plan p = conv_plan_of(n);
    const tensor_type *all[3] = {&p.big, &p.small, &p.weight};
    if (p.extends_small) add_copy(w, (double)type_bytes(&p.small));
    if (p.reorders_weight || (p.is_weight && p.rounds)) add_copy(w, (double)type_bytes(&p.weight));
    for (int i = 0; i < 3 && p.widens; i++)
        if (i != conv_result(&p)) add_copy(w, (double)type_elements(all[i]) * sizeof(float));
    if (!p.is_weight && n->n_in > 2 && n->in[2]) add_copy(w, (double)type_bytes(&n->out[0].type));
}

static size_t packed_bytes(const weft_node *n, int i, const kernel_env *env) {
    return conv_packed_bytes(n, i);
}

#ifdef WEFT_HAS_CUDA
#define TUNE conv_tune
#else
#define TUNE NULL
#endif

#define CONV(of, ...)                                                                                        \
    const weft_kernel cuda_##of = {                                                                          \
        .name = "cudnn",                                                                                     \
        .op = &weft_op_##of,                                                                                 \
        .declines = declines,                                                                                \
        .workspace = workspace,                                                                              \
        .work = work,                                                                                        \
        CUDA_OPEN(of),                                                                                       \
        .tune = TUNE,                                                                                        \
        __VA_ARGS__,                                                                                         \
    }
CONV(conv2d, .packed_bytes = packed_bytes);
CONV(conv_transpose2d, .packed_bytes = packed_bytes);
CONV(conv2d_weight, .rounds_f32_output = true);
CONV(conv3d, .packed_bytes = packed_bytes);
CONV(conv_transpose3d, .packed_bytes = packed_bytes);
CONV(conv3d_weight, .rounds_f32_output = true);

/* ---- pack ---- */

/* The parameter may have a wider type than the weight of the convolution: packing casts. */
weft_node *conv_pack_target(const weft_node *pack, const weft_env *env, weft_error *error) {
    const pack_attrs *a = pack->attrs;
    weft_node *t = node_from_signature(a->of, env, pack->graph->model->catalog, error);
    conv_part part = t ? conv_part_of(t->op) : CONV_NO_PART;
    if ((part == CONV_SMALL || part == CONV_BIG) && shape_equal(&t->in[1]->type, &pack->in[0]->type) &&
        is_supported(pack->in[0]->type.dtype) && (int64_t)conv_packed_bytes(t, (int)a->operand) == a->bytes)
        return t;
    if (t) weft_model_free(t->graph->model);
    return NULL;
}

static const char *pack_declines(const weft_node *n, const kernel_env *env) {
    weft_error error = {0};
    weft_node *t = conv_pack_target(n, env->env, &error);
    if (!t) return error.status == WEFT_MEMORY ? "out of memory" : "not the weight of a convolution";
    weft_model_free(t->graph->model);
    return NULL;
}

CUDA_KERNEL_OF(pack, pack, .declines = pack_declines, CUDA_OPEN(pack));
