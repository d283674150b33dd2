/* attention.h - attributes of attention and its backward op, and helpers for their kernels. */
#ifndef WEFT_OPS_ATTENTION_ATTENTION_H
#define WEFT_OPS_ATTENTION_ATTENTION_H

#include "ops/kit/op_kit.h"
#include "ops/kit/philox.h"

/* attention has all up to softcap; attention_dropout and attention_backward have p and key too. Row i is at
 * position t = i + offset; causal: it sees keys j <= t. */
typedef struct attention_attrs {
    bool causal;
    double scale;       /* 0: 1 / sqrt(D) */
    int64_t window;     /* it sees only the keys j > t - window; 0: all */
    int64_t ahead;      /* it sees only the keys j < t + ahead; 0: all */
    int64_t offset;     /* keys before the first row; below 0: so many rows see none */
    double softcap;     /* scores are softcap tanh(score / softcap), before the mask; 0: as they are */
    double p;           /* probability that a weight is dropped */
    uint64_t key;       /* of the random stream that says which */
    bool mask_gradient; /* attention_backward: result 3 is the gradient of the scores */
} attention_attrs;

/* The largest offset. */
#define ATTENTION_MOST ((int64_t)1 << 40)

/* The operands, as bits, that every kernel takes at any strides: q, k, v, mask of the forward; dy, q, k, v,
 * mask of the backward. Not y, although kernels on the CPU take it so: attention makes it row-major. */
enum { ATTENTION_STRIDED = 15, ATTENTION_BACKWARD_STRIDED = 15 | 1 << 6 };

/* The operands of attention and of attention_backward; `shift` is there where the mask is one of numbers. */
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK };
enum {
    BACKWARD_DY,
    BACKWARD_Q,
    BACKWARD_K,
    BACKWARD_V,
    BACKWARD_Y,
    BACKWARD_LSE,
    BACKWARD_MASK,
    BACKWARD_SHIFT
};

/* The rows of the attributes that all three have. */
#define ATTENTION_ROWS                                                                                       \
    {"causal", ATTR_BOOL, offsetof(attention_attrs, causal)},                                                \
        {"scale", ATTR_REAL, offsetof(attention_attrs, scale)},                                              \
        {"window", ATTR_INT, offsetof(attention_attrs, window), 0, INT64_MAX},                               \
        {"ahead", ATTR_INT, offsetof(attention_attrs, ahead), 0, INT64_MAX},                                 \
        {"offset", ATTR_INT, offsetof(attention_attrs, offset), -ATTENTION_MOST, ATTENTION_MOST}, {          \
        "softcap", ATTR_REAL, offsetof(attention_attrs, softcap)                                             \
    }

/* The scale for q [B, H, T, D]: the attribute or its default. */
double attention_scale(const attention_attrs *a, const tensor_type *q);
/* The keys [begin, end) of s that query i sees, whatever the mask. */
typedef struct key_range {
    int64_t begin, end;
} key_range;
key_range attention_keys(const attention_attrs *a, int64_t i, int64_t s);

/* attention's, which attention_dropout has too. */
bool attention_infer(op_call *c);
void attention_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
weft_status attention_reference(const kernel_call *c);

/* Weight (row, j) of row = (b H + h) T + i is kept or dropped by the word of this number: rows begin at
 * multiples of 4, hence with a counter of Philox. */
static inline int64_t attention_word(int64_t row, int64_t j, int64_t keys) {
    return row * ((keys + 3) / 4 * 4) + j;
}

/* Checks for infer: the operands from `first` on are q [B, H, T, D], k [B, H / n, S, D] and v [B, H / n, S,
 * E] of one float type; and operand i, if it is there, is a mask for them. */
bool attention_want_qkv(op_call *c, int first);
bool attention_want_mask(op_call *c, int first, int i);
/* Whether operand i is there and is a mask of numbers, which are added to the scores. */
bool attention_adds(weft_value *const *in, int n_in, int i);
/* The type of y [B, T, H, E] for q [B, H, T, D] and v [B, H / n, S, E]; of scores [B, H, T, S]. */
tensor_type attention_result(const tensor_type *q, const tensor_type *v);
tensor_type attention_scores(const tensor_type *q, const tensor_type *k);
/* Strides of a mask's four axes of scores: 0 where it broadcasts. */
void attention_mask_strides(const tensor *mask, int64_t stride[4]);

/* Gradients of attention_backward; and adds to `din` those that reach attention's operands by its lse. */
void attention_backward_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
void attention_lse_gradient(weft_node *n, weft_value *dlse, const bool *wanted, weft_value **din);

/* The scores of a call, for reference kernels; q: the operand that holds the queries. */
typedef struct score_view {
    const tensor *q, *k, *mask; /* mask NULL: none */
    const attention_attrs *attrs;
    philox_stream stream; /* where p is above 0 */
    double scale;
    int64_t group, mask_stride[4]; /* group: heads of q for one of k */
} score_view;
score_view score_view_of(const kernel_call *c, int q, int mask);
/* The score of query row = [b, h, i] and key j: q . k scale, its softcap, + mask; -inf where the row does not
 * see it. *slope, unless NULL: its derivative by q . k scale. */
double score_at(const score_view *s, const int64_t *row, int64_t j, double *slope);
/* What dropout multiplies its weight by: 0 or 1 / (1 - p), without dropout 1. */
double keep_at(const score_view *s, const int64_t *row, int64_t j);

#endif
