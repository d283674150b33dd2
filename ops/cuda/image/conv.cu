/* conv.cu - runs of the convolutions and of `pack`: cuDNN does the convolution; kernels here reorder
 * weights, add biases and convert reduced operands to f32. */
#include "ops/cuda/image/conv_kernels.cuh"
#include "ops/cuda/dnn/dnn.cuh"

extern "C" {
#include "ops/cuda/image/conv.h"
#include "ops/cuda/kit/operand.h"
}

/* ---- state ---- */

/* What a session keeps for each convolution: the plan, and cuDNN's execution plan. */
typedef struct conv_state {
    const weft_env *env;
    conv_plan plan;
    dnn *convolution;
} conv_state;

static void close_conv(void *state) {
    conv_state *s = (conv_state *)state;
    if (!s) return;
    dnn_free(s->convolution);
    mem_free(s->env, s, sizeof *s);
}

/* The convolution as cuDNN gets it: types, alignments and the window. Where the result is f32 and the
 * operands are not, it gets all three tensors as f32. */
static dnn_conv problem_of(const weft_node *n, const kernel_env *env, const conv_plan *p) {
    const conv_attrs *a = (const conv_attrs *)n->attrs;
    const weft_value *weight = p->is_weight ? &n->out[0] : n->in[1];
    dnn_conv what = {};
    what.kind = p->is_weight ? DNN_CONV_WEIGHT : p->is_transposed ? DNN_CONV_DATA : DNN_CONV;
    what.big = {p->big, operand_alignment(p->big_value)};
    what.small = {p->small, p->extends_small ? OPERAND_ALIGN : operand_alignment(p->small_value)};
    what.weight = {p->weight, p->reorders_weight || p->rounds ? OPERAND_ALIGN : operand_alignment(weight)};
    what.workspace_bytes = p->library_bytes;
    /* reduced operands lose nothing in TF32 */
    what.may_round = env->tf32 || dtype_is_reduced(p->big.dtype);
    for (int i = 0; i < a->kernel.n; i++) {
        what.pad[i] = a->pad.v[i];
        what.stride[i] = a->stride.v[i];
        what.dilation[i] = a->dilation.v[i];
    }
    dnn_tensor *all[3] = {&what.big, &what.small, &what.weight};
    for (int i = 0; i < 3 && p->widens; i++) {
        all[i]->type.dtype = WEFT_F32;
        if (i != conv_result(p)) all[i]->alignment = OPERAND_ALIGN;
    }
    return what;
}

static weft_status open_conv(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    conv_state *s = (conv_state *)mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a convolution");
    s->env = env->env;
    s->plan = conv_plan_of(n);
    dnn_conv what = problem_of(n, env, &s->plan);
    weft_status status = dnn_new(&what, env, calibration_find(n, env), &s->convolution, error);
    if (status == WEFT_OK)
        *state = s;
    else
        close_conv(s);
    return status;
}

/* Only the convolution itself is timed: what surrounds it is the same for all engines. */
extern "C" weft_status conv_tune(const weft_node *n, const kernel_env *env, struct tuned *found,
                                 weft_error *error) {
    conv_plan plan = conv_plan_of(n);
    dnn_conv what = problem_of(n, env, &plan);
    return dnn_tune(&what, env, found, error);
}

/* ---- runs ---- */

/* Converts the two operands to f32 in the workspace and replaces their pointers. */
static weft_status operands_to_f32(const conv_plan *p, const kernel_call *c, void **all[3]) {
    const tensor_type *types[3] = {&p->big, &p->small, &p->weight};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && status == WEFT_OK; i++) {
        if (i == conv_result(p)) continue;
        void *to = (char *)c->workspace + p->wide_at[i];
        status = add_bias(c, {*all[i], p->big.dtype}, {to, WEFT_F32}, {NULL, WEFT_F32}, 1,
                          type_elements(types[i]));
        *all[i] = to;
    }
    return status;
}

/* Fills *b with the operands in the form that cuDNN gets them in, in place or in the workspace. */
static weft_status prepare_operands(const conv_plan *p, const kernel_call *c, dnn_buffers *b) {
    char *workspace = (char *)c->workspace;
    weft_status status = WEFT_OK;
    if (p->extends_small) {
        b->small = workspace + p->small_at;
        status = extend_image(c, &c->in[p->is_weight ? 1 : 0], &p->small, b->small);
    }
    if (status == WEFT_OK && p->reorders_weight && !p->is_weight) {
        b->weight = workspace + p->weight_at;
        status = reorder_weight(c, true, {c->in[1].data, p->weight.dtype}, {b->weight, p->weight.dtype},
                                &p->weight);
    }
    void **all[3] = {&b->big, &b->small, &b->weight};
    return status == WEFT_OK && p->widens ? operands_to_f32(p, c, all) : status;
}

/* From cuDNN's result to the node's: a weight's gradient is reordered and converted, a bias is added in
 * place. */
static weft_status complete(const conv_plan *p, const kernel_call *c, void *made) {
    elements from = {made, p->rounds ? p->big.dtype : p->result}, to = {c->out[0].data, p->result};
    if (p->is_weight) return made != to.at ? reorder_weight(c, false, from, to, &p->weight) : WEFT_OK;
    if (c->n_in < 3 || !c->in[2].data) return WEFT_OK;
    elements bias = {c->in[2].data, c->in[2].type.dtype};
    return add_bias(c, from, to, bias, c->out[0].type.shape[1], type_elements(&c->out[0].type));
}

/* Operands are prepared, cuDNN convolves, its result is completed; all on the session's stream. */
static weft_status run_conv(void *state, const kernel_call *c) {
    const conv_state *s = (const conv_state *)state;
    const conv_plan *p = &s->plan;
    char *workspace = (char *)c->workspace;
    /* cuDNN writes the node's result itself unless it must be reordered or converted */
    void *made =
        p->is_weight && (p->reorders_weight || p->rounds) ? workspace + p->weight_at : c->out[0].data;
    dnn_buffers b = {};
    b.workspace = operand_scratch(workspace, p->library_at);
    b.big = p->is_transposed ? made : c->in[0].data;
    b.small = p->is_weight ? c->in[1].data : p->is_transposed ? c->in[0].data : made;
    b.weight = p->is_weight ? made : c->in[1].data;
    weft_status status = prepare_operands(p, c, &b);
    if (status == WEFT_OK) status = dnn_run(s->convolution, c->cuda, &b, c->error);
    return status == WEFT_OK ? complete(p, c, made) : status;
}

/* ---- pack ---- */

/* The pack op needs only the shape of the weight, from the convolution that reads it. */
typedef struct pack_state {
    const weft_env *env;
    tensor_type weight;
} pack_state;

static void close_pack(void *state) {
    pack_state *s = (pack_state *)state;
    if (s) mem_free(s->env, s, sizeof *s);
}

/* Rebuilds the convolution to learn the weight's shape, and forgets it again. */
static weft_status open_pack(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    weft_error own = {};
    weft_node *t = conv_pack_target(n, env->env, &own);
    if (!t && own.status == WEFT_MEMORY) return error_memory(error, "pack");
    if (!t) return error_set(error, WEFT_UNSUPPORTED, "pack: not the weight of a convolution");
    pack_state *s = (pack_state *)mem_new(env->env, sizeof *s);
    if (s) {
        s->env = env->env;
        s->weight = conv_plan_of(t).weight;
        *state = s;
    }
    weft_model_free(t->graph->model);
    return s ? WEFT_OK : error_memory(error, "pack");
}

static weft_status run_pack(void *state, const kernel_call *c) {
    const pack_state *s = (const pack_state *)state;
    return reorder_weight(c, true, {c->in[0].data, c->in[0].type.dtype}, {c->out[0].data, s->weight.dtype},
                          &s->weight);
}

/* Each op's three functions, by one implementation. */
#define KERNEL(name, how)                                                                                    \
    weft_status cuda_##name##_open(const weft_node *n, const kernel_env *env, void **state,                  \
                                   weft_error *error) {                                                      \
        return open_##how(n, env, state, error);                                                             \
    }                                                                                                        \
    weft_status cuda_##name##_run(void *state, const kernel_call *c) {                                       \
        return run_##how(state, c);                                                                          \
    }                                                                                                        \
    void cuda_##name##_close(void *state) {                                                                  \
        close_##how(state);                                                                                  \
    }
extern "C" {
KERNEL(conv2d, conv)
KERNEL(conv_transpose2d, conv)
KERNEL(conv2d_weight, conv)
KERNEL(conv3d, conv)
KERNEL(conv_transpose3d, conv)
KERNEL(conv3d_weight, conv)
KERNEL(pack, pack)
}
