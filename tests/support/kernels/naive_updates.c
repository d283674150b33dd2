/* naive_updates.c - what a step of training does to flat buffers, for naive.h: from the formulas of
 * torch.optim's pages. */
#include "ops/optimizer/update.h"
#include "support/kernels/naive.h"

#include <math.h>

static double number_or(const weft_node *n, const naive *in, int i, double otherwise) {
    return i < n->n_in && in[i].v ? in[i].v[0] : otherwise;
}

void naive_bucket(const weft_node *n, const naive *in, const naive *out) {
    const weft_variable *s = n->variable;
    for (int64_t i = 0; i < naive_count(&out->type); i++) out->v[i] = 0;
    for (int m = 0; m < s->n_members; m++)
        for (int64_t i = 0; i < naive_count(&s->members[m]->type); i++)
            out->v[s->members[m]->offset + i] = in[m].v[i];
}

/* Squares of each member, those of a chunk of 4096 added up; elements outside the operand are 0. */
void naive_chunk_squares(const weft_node *n, const naive *in, const naive *out) {
    const weft_variable *s = n->variable;
    int64_t begin = ((const chunk_squares_attrs *)n->attrs)->begin, chunk = 0;
    for (int64_t i = 0; i < naive_count(&out->type); i++) out->v[i] = 0;
    for (int m = 0; m < s->n_members; m++) {
        int64_t count = naive_count(&s->members[m]->type);
        for (int64_t i = 0; i < count; i++) {
            int64_t at = s->members[m]->offset + i - begin;
            double g = n->n_in && at >= 0 && at < naive_count(&in->type) ? in->v[at] : 0;
            out->v[chunk + i / 4096] += g * g;
        }
        chunk += (count + 4095) / 4096;
    }
}

/* sgd_update(p, g, buf, lr, step, scale, momentum, decay): a scale below 0 skips the step. */
void naive_sgd_update(const weft_node *n, const naive *in, const naive *out) {
    const sgd_update_attrs *a = n->attrs;
    double lr = in[3].v[0] * a->lr_scale, scale = number_or(n, in, 5, 1);
    double momentum = a->momentum * number_or(n, in, 6, 1), decay = a->weight_decay * number_or(n, in, 7, 1);
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        double p = in[0].v[i], d = in[1].v[i] * scale + decay * p;
        if (a->momentum != 0 && scale >= 0) {
            bool is_first = in[4].v[0] <= 1;
            double b = is_first ? d : momentum * in[2].v[i] + (1 - a->dampening) * d;
            d = a->nesterov ? d + momentum * b : b;
            in[2].v[i] = b;
        }
        out->v[i] = in[0].v[i] = scale < 0 ? p : p - lr * d;
    }
}

/* adam_update(p, g, m, v, lr, step, scale, momentum, decay) */
void naive_adam_update(const weft_node *n, const naive *in, const naive *out) {
    const adam_update_attrs *a = n->attrs;
    double lr = in[4].v[0] * a->lr_scale, t = in[5].v[0], scale = number_or(n, in, 6, 1);
    double beta1 = a->beta1 * number_or(n, in, 7, 1), decay = a->weight_decay * number_or(n, in, 8, 1);
    for (int64_t i = 0; i < naive_count(&out->type); i++) {
        double p = in[0].v[i], g = in[1].v[i] * scale, m = in[2].v[i], v = in[3].v[i];
        if (scale >= 0) {
            if (a->decoupled)
                p = p - lr * decay * p;
            else
                g = g + decay * p;
            in[2].v[i] = m = beta1 * m + (1 - beta1) * g;
            in[3].v[i] = v = a->beta2 * v + (1 - a->beta2) * g * g;
            double m_hat = m / (1 - pow(beta1, t)), v_hat = v / (1 - pow(a->beta2, t));
            p = p - lr * m_hat / (sqrt(v_hat) + a->eps);
        }
        out->v[i] = in[0].v[i] = p;
    }
}

/* renew(old, gradient, new) */
void naive_renew(const weft_node *n, const naive *in, const naive *out) {
    (void)n;
    for (int64_t i = 0; i < naive_count(&out->type); i++) out->v[i] = in[0].v[i] = in[2].v[i];
}
