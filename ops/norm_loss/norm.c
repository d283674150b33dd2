/* norm.c - helpers shared by normalizations and losses: see norm.h. */
#include "ops/norm_loss/norm.h"

const op_attr norm_attr_table[] = {
    {"eps", ATTR_REAL, offsetof(norm_attrs, eps)},
    {0},
};

static const char *const reductions[] = {"mean", "sum", "none", NULL};

const op_attr cross_entropy_attr_table[] = {
    {"ignore_index", ATTR_INT, offsetof(cross_entropy_attrs, ignore_index)},
    {"reduction", ATTR_INT, offsetof(cross_entropy_attrs, reduction), LOSS_MEAN, LOSS_NONE, reductions},
    {0},
};

norm_axes batch_norm_axes(const weft_value *x) {
    norm_axes axes = {1, {0}};
    for (int i = 2; i < x->type.ndim; i++) axes.v[axes.n++] = i;
    return axes;
}

bool channel_next(const tensor_type *t, int64_t *at) {
    /* Walks over all other axes as if there were one channel. */
    int64_t channel = at[1];
    tensor_type others = *t;
    others.shape[1] = 1;
    at[1] = 0;
    bool more = index_next(&others, at);
    at[1] = channel;
    return more;
}

/* In f32 or f64, whatever the logits are. */
weft_value *cross_entropy_softmax(weft_value *logits, weft_value *lse) {
    logits->node->graph->building_f32 = true;
    if (logits->type.dtype != lse->type.dtype) logits = weft_cast(logits, lse->type.dtype);
    weft_value *shift = weft_unsqueeze(lse, 1);
    return weft_exp(weft_sub(logits, shift));
}

/* Fails on the first bad target and names its row. */
weft_status cross_entropy_targets(const kernel_call *c, const tensor *target, int64_t classes,
                                  int64_t *rows) {
    int64_t ignored = ((const cross_entropy_attrs *)c->attrs)->ignore_index;
    *rows = 0;
    for (int64_t i = 0; i < target->type.shape[0]; i++) {
        int64_t t = element_int(target, &i);
        if (t == ignored) continue;
        if (t < 0 || t >= classes)
            return kernel_fail_at(
                c, i, "row %lld: target %lld is outside the classes 0 to %lld (and is not %lld, ignored)",
                (long long)i, (long long)t, (long long)(classes - 1), (long long)ignored);
        ++*rows;
    }
    return WEFT_OK;
}
