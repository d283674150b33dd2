/* rnn_backward.c - the gradient of rnn by x, from its last step to its first: with dh the gradient of its
 * result and `next` the step after,
 *     dx = (dh + dx_next w) act'        act' = 1 - h^2 of tanh; of relu 1 where h > 0, else 0
 * dx [T, B, H] may take the memory of dh or of h.
 *
 * With u the gradient of dx, its gradients go from the first step to the last: by dh it is
 *     v = (u + v_before w^T) act'
 * by w the sum of dx_next^T v, and by h that of act': -2 h (u + v_before w^T) (dh + dx_next w). */
#include "ops/recurrent/steps.h"

enum { DH, H, W };

static bool infer(op_call *c) {
    if (!recurrent_want(c, H, W, RNN_GATES) || !recurrent_want_type(c, DH, *op_in(c, H))) return false;
    c->n_out = 1;
    c->out[0] = *op_in(c, H);
    return true;
}

/* What the gradient of dx becomes, with what reaches it from the step before; *v: the gradient of dh. */
static weft_value *reached(const recurrent_steps *r, weft_value *u, weft_value *w, weft_value *slope,
                           weft_value **v) {
    weft_value **us = arena_new_array(&r->g->model->arena, 2 * (size_t)r->steps, sizeof *us), *last = NULL;
    if (!us) return model_fail(r->g->model, r->g, WEFT_MEMORY, "rnn: out of memory");
    for (int64_t s = 0; s < r->steps; s++) {
        int64_t t = r->reverse ? r->steps - 1 - s : s;
        us[t] = steps_at(r, u, s);
        if (last) us[t] = weft_add(us[t], weft_matmul(last, w, false, true));
        last = us[r->steps + t] = weft_mul(us[t], steps_at(r, slope, s));
    }
    *v = steps_join(r, us + r->steps);
    return steps_join(r, us);
}

static void gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    const recurrent_attrs *a = n->attrs;
    recurrent_steps r = steps_of(n, n->in[H], n->in[W]);
    weft_value *h = steps_rows(&r, n->in[H], r.hidden), *w = steps_one(&r, n->in[W], r.hidden), *v = NULL;
    weft_value *slope = slope_of_tanh(h);
    if (a->act == RECURRENT_RELU) {
        weft_value *zero = weft_constant(n->graph, r.dtype, 0, NULL, 0);
        slope = weft_cast(weft_greater(h, zero), r.dtype);
    }
    weft_value *u = reached(&r, steps_rows(&r, dout[0], r.hidden), w, slope, &v);
    weft_value *later = steps_after(&r, steps_rows(&r, &n->out[0], r.hidden));
    if (!u || !later) return;
    din[DH] = steps_like(v, n->in[DH]);
    if (wanted[W]) din[W] = steps_like(weft_matmul(later, v, true, false), n->in[W]);
    if (!wanted[H] || a->act == RECURRENT_RELU) return;
    weft_value *back = weft_matmul(later, w, false, false);
    weft_value *dh = weft_add(steps_rows(&r, n->in[DH], r.hidden), back);
    din[H] = steps_like(weft_scale(weft_mul(weft_mul(u, dh), h), -2), n->in[H]);
}

static void rnn_unit_backward(const kernel_call *c, int64_t s, int64_t b, int64_t j) {
    const recurrent_attrs *a = c->attrs;
    const tensor *dx = &c->out[0];
    double h = recurrent_at(&c->in[H], a, s, b, j);
    double dh = recurrent_at(&c->in[DH], a, s, b, j) + recurrent_back(&c->in[W], dx, a, s, b, j);
    element_set(dx, (int64_t[]){recurrent_time(a, dx->type.shape[0], s), b, j},
                a->act == RECURRENT_TANH ? dh * (1 - h * h)
                : h > 0                  ? dh
                                         : 0);
}

static weft_status reference(const kernel_call *c) {
    return recurrent_backward(c, &c->out[0], rnn_unit_backward);
}

const weft_op weft_op_rnn_backward = {
    .name = "rnn_backward",
    .summary = "gradient of rnn by x",
    .min_in = 3,
    .max_in = 3,
    .flags = OP_FROM_RESULT,
    .attrs_bytes = sizeof(recurrent_attrs),
    .attrs = rnn_attr_table,
    .in_place = 1u << DH | 1u << H,
    .precision = PRECISION_REDUCED,
    .reduced_in = 7,
    .reduced_out = 1,
    .infer = infer,
    .gradient = gradient,
    .reference = reference,
    .samples = (const op_sample[]){{"f32[3,2,4], f32[3,2,4], f32[4,4]", .out = "f32[3,2,4]"},
                                   {"f32[4,2,3], f32[4,2,3], f32[3,3]", "reverse=1"},
                                   {"f32[3,2,4], f32[3,2,4], f32[4,4]", "reverse=1 act=relu"},
                                   {"f32[1,1,1], f32[1,1,1], f32[1,1]"},
                                   {"f32[3,29,37], f32[3,29,37], f32[37,37]", "act=relu", .low = -0.5,
                                    .high = 0.5, .no_gradient = true},
                                   {"f32[2,3,264], f32[2,3,264], f32[264,264]", "reverse=1", .low = -0.25,
                                    .high = 0.25, .no_gradient = true},
                                   {"bf16[3,5,16], bf16[3,5,16], bf16[16,16]", .low = -0.5, .high = 0.5,
                                    .no_gradient = true},
                                   {"f16[3,5,9], f16[3,5,9], f16[9,9]", "reverse=1 act=relu", .low = -0.5,
                                    .high = 0.5, .no_gradient = true},
                                   {"f32[3,2,3], f32[3,2,4], f32[4,4]", .error = "operand 0 is f32[3,2,3]"},
                                   {"f32[3,2,4], f32[3,2,4], f32[4,3]", .error = "[T, B, 1 H] and [1 H, H]"},
                                   {0}},
};
