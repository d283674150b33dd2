/* recurrent.c - the product of a step, and the rows of the recurrent ops: in each step the product, then one
 * kernel for the arithmetic of the cell. */
#include "ops/cuda/recurrent/recurrent.h"

#include "ops/cuda/kit/operand.h"
#include "ops/cuda/kit/row_kit.h"

/* Where the operands of an op are; state_of: the result that the product of a step reads. */
typedef struct places {
    const weft_op *op;
    bool is_backward;
    int w, h0, state_of; /* h0: -1 where the op has none */
} places;

static const places ops[] = {
    {&weft_op_lstm, false, 1, 2, 0}, {&weft_op_lstm_backward, true, 2, -1, 0},
    {&weft_op_gru, false, 1, 2, 0},  {&weft_op_gru_backward, true, 3, -1, 1},
    {&weft_op_rnn, false, 1, 2, 0},  {&weft_op_rnn_backward, true, 2, -1, 0},
};

static const places *places_of(const weft_node *n) {
    const places *p = ops;
    while (p->op != n->op) p++;
    return p;
}

static const weft_value *h0_of(const weft_node *n) {
    int at = places_of(n)->h0;
    return at >= 0 && at < n->n_in ? n->in[at] : NULL;
}

/* All states have one alignment: that of every time in the result, and of h0. */
void step_product_of(const weft_node *n, step_product *s) {
    const places *p = places_of(n);
    weft_value *w = n->in[p->w], *all = &n->out[p->state_of];
    const weft_value *h0 = h0_of(n);
    int64_t batch = all->type.shape[1], features = all->type.shape[2];
    size_t width = dtype_bytes(all->type.dtype);
    *s = (step_product){.linear = {.f32_output = true}, .matmul = {.f32_output = true}};
    s->state = (weft_value){.base = all, .base_offset = batch * features, .node = &s->node};
    s->state.type = type_of(all->type.dtype, 2, (int64_t[]){batch, features});
    if (h0) s->state.base_offset |= operand_alignment(h0) / (int64_t)width;
    s->out = (weft_value){.node = &s->node};
    s->out.type = type_of(WEFT_F32, 2, (int64_t[]){batch, w->type.shape[p->is_backward ? 1 : 0]});
    s->in[0] = &s->state;
    s->in[1] = w;
    s->node = (weft_node){.op = p->is_backward ? &weft_op_matmul : &weft_op_linear,
                          .in = s->in,
                          .out = &s->out,
                          .n_in = 2,
                          .n_out = 1,
                          .graph = n->graph,
                          .attrs = p->is_backward ? (void *)&s->matmul : (void *)&s->linear};
}

size_t step_product_bytes(const step_product *s) {
    return size_align((size_t)type_elements(&s->out.type) * sizeof(float), OPERAND_ALIGN);
}

int64_t step_products(const weft_node *n) {
    return n->out[0].type.shape[0] - 1 + (h0_of(n) != NULL);
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    step_product s;
    step_product_of(n, &s);
    return step_product_bytes(&s) + blas_plan_of(&s.node).bytes;
}

/* A product reads the state and w, and writes what the cell of the step reads. What a cell takes from the
 * step before, [B, H], is small beside the gates and not counted. */
static void work(const weft_node *n, node_work *w) {
    step_product s;
    step_product_of(n, &s);
    double products = (double)step_products(n), result = (double)step_product_bytes(&s);
    double cells = w->read + w->written + products * result;
    w->launches = (int)(n->out[0].type.shape[0] + step_products(n));
    w->read += products * (value_bytes(s.in[0]) + value_bytes(s.in[1]) + result);
    w->written += products * result;
    w->apart = cells;
}

#define ROW(of)                                                                                              \
    CUDA_KERNEL_OF(of, of, .declines = declines_types, .workspace = workspace, .work = work, CUDA_OPEN(of));
ROW(lstm)
ROW(lstm_backward)
ROW(gru)
ROW(gru_backward)
ROW(rnn)
ROW(rnn_backward)
