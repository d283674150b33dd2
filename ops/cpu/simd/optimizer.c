/* optimizer.c - updates over flat f32 buffers at the speed of memory: one pass, every buffer read and written
 * once. Elements are independent, so the bits do not depend on the number of threads. */
#include "ops/cpu/simd/simd.h"
#include "ops/optimizer/update.h"

#include <math.h>
#include <string.h>

/* Elements that a thread takes at a time: enough that starting a region costs nothing, few enough to divide
 * evenly. */
enum { BLOCK = 16384 };

static int64_t block_end(int64_t begin, int64_t n) {
    return begin + BLOCK < n ? begin + BLOCK : n;
}

/* In a session the result shares the memory of operand 0; elsewhere the updated parameter is copied to it. */
static void keep_result(const kernel_call *c) {
    if (c->out[0].data != c->in[0].data) memcpy(c->out[0].data, c->in[0].data, type_bytes(&c->in[0].type));
}

/* ---- sgd ---- */

/* The numbers of a step as floats: `scale` multiplies the gradient (gradient clipping), `keep` is 1 -
 * dampening. */
typedef struct sgd_numbers {
    float lr, scale, momentum, keep, decay;
    bool nesterov;
} sgd_numbers;

/* p -= lr (scale g + decay p) */
static void sgd_plain(float *restrict p, const float *restrict g, int64_t n, sgd_numbers s) {
    for (int64_t i = 0; i < n; i++) p[i] -= s.lr * (s.scale * g[i] + s.decay * p[i]);
}

/* d = scale g + decay p; buf = momentum buf + keep d; p -= lr (nesterov ? d + momentum buf : buf) */
static void sgd_momentum(float *restrict p, const float *restrict g, float *restrict buf, int64_t n,
                         sgd_numbers s) {
    float straight = s.nesterov ? 1.0f : 0.0f, moved = s.nesterov ? s.momentum : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        float d = s.scale * g[i] + s.decay * p[i];
        float b = s.momentum * buf[i] + s.keep * d;
        buf[i] = b;
        p[i] -= s.lr * (straight * d + moved * b);
    }
}

/* On the first step the buffer becomes the gradient itself, whatever it held, as in PyTorch. */
static void sgd_first(float *restrict p, const float *restrict g, float *restrict buf, int64_t n,
                      sgd_numbers s) {
    float moved = s.nesterov ? 1.0f + s.momentum : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        float d = s.scale * g[i] + s.decay * p[i];
        buf[i] = d;
        p[i] -= s.lr * (moved * d);
    }
}

/* Operands: p, gradient, buffer, learning rate, step, scale, factors of momentum and decay. */
static weft_status sgd_run(void *state, const kernel_call *c) {
    if (update_is_skipped(c, 5)) return WEFT_OK;
    const sgd_update_attrs *a = c->attrs;
    sgd_numbers s = {.lr = (float)(scalar_operand(c, 3, 0) * a->lr_scale),
                     .scale = (float)scalar_operand(c, 5, 1),
                     .momentum = (float)(a->momentum * scalar_operand(c, 6, 1)),
                     .keep = (float)(1 - a->dampening),
                     .decay = (float)(a->weight_decay * scalar_operand(c, 7, 1)),
                     .nesterov = a->nesterov};
    float *p = c->in[0].data, *buf = c->in[2].data;
    const float *g = c->in[1].data;
    bool first = scalar_operand(c, 4, 1) <= 1;
    int64_t n = type_elements(&c->in[0].type);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t length = block_end(i, n) - i;
        if (a->momentum == 0)
            sgd_plain(p + i, g + i, length, s);
        else if (first)
            sgd_first(p + i, g + i, buf + i, length, s);
        else
            sgd_momentum(p + i, g + i, buf + i, length, s);
    }
    keep_result(c);
    return WEFT_OK;
}

SIMD_KERNEL(sgd_update, .declines = declines_all_but_f32, .run = sgd_run);

/* ---- adam ---- */

/* shrink: factor of p for decoupled decay (AdamW). keep1, keep2: 1 - beta1, 1 - beta2. rate: lr with the bias
 * correction of m. unroot: the bias correction of sqrt(v). */
typedef struct adam_numbers {
    float scale, decay, shrink, keep1, beta2, keep2, rate, unroot, eps;
} adam_numbers;

/* m += (1 - beta1) (d - m); v = beta2 v + (1 - beta2) d^2; p = shrink p - rate m / (sqrt(v) unroot + eps) */
static void adam_block(float *restrict p, const float *restrict g, float *restrict m, float *restrict v,
                       int64_t n, adam_numbers s) {
    for (int64_t i = 0; i < n; i++) {
        float w = p[i] * s.shrink, d = s.scale * g[i] + s.decay * p[i];
        float mi = m[i] + s.keep1 * (d - m[i]);
        float vi = s.beta2 * v[i] + s.keep2 * d * d;
        m[i] = mi;
        v[i] = vi;
        p[i] = w - s.rate * mi / (sqrtf(vi) * s.unroot + s.eps);
    }
}

/* Operands: p, gradient, m, v, learning rate, step, scale, factors of beta1 and decay. All powers are
 * computed once, in f64. */
static weft_status adam_run(void *state, const kernel_call *c) {
    if (update_is_skipped(c, 6)) return WEFT_OK;
    const adam_update_attrs *a = c->attrs;
    double lr = scalar_operand(c, 4, 0) * a->lr_scale, step = scalar_operand(c, 5, 1);
    double beta1 = a->beta1 * scalar_operand(c, 7, 1), decay = a->weight_decay * scalar_operand(c, 8, 1);
    adam_numbers s = {.scale = (float)scalar_operand(c, 6, 1),
                      .decay = a->decoupled ? 0.0f : (float)decay,
                      .shrink = a->decoupled ? (float)(1 - lr * decay) : 1.0f,
                      .keep1 = (float)(1 - beta1),
                      .beta2 = (float)a->beta2,
                      .keep2 = (float)(1 - a->beta2),
                      .rate = (float)(lr / (1 - pow(beta1, step))),
                      .unroot = (float)(1 / sqrt(1 - pow(a->beta2, step))),
                      .eps = (float)a->eps};
    float *p = c->in[0].data, *m = c->in[2].data, *v = c->in[3].data;
    const float *g = c->in[1].data;
    int64_t n = type_elements(&c->in[0].type);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i += BLOCK) adam_block(p + i, g + i, m + i, v + i, block_end(i, n) - i, s);
    keep_result(c);
    return WEFT_OK;
}

SIMD_KERNEL(adam_update, .declines = declines_all_but_f32, .run = adam_run);

/* ---- accumulate: gradients of micro-batches, added as a binary tree ---- */

/* Adds up in the top level what the tree holds after `count` micro-batches: the levels whose bit of count is
 * set, the highest first; n elements from `begin`. */
static void combine_chunk(const kernel_call *c, int levels, int64_t count, int64_t begin, int64_t n) {
    float *top = (float *)c->in[0].data + begin;
    /* the levels above hold sums of an earlier step */
    int highest = accumulate_levels(count) - 1;
    if (highest < levels - 1)
        memcpy(top, (const float *)c->in[levels - 1 - highest].data + begin, (size_t)n * sizeof *top);
    for (int k = highest - 1; k >= 0; k--) {
        const float *rest = (const float *)c->in[levels - 1 - k].data + begin;
        if (count >> k & 1)
            for (int64_t i = 0; i < n; i++) top[i] += rest[i];
    }
}

/* Adds one micro-batch to the tree, elements [begin, end): while bit l of the micro-batch's number is set,
 * level l is full and its sum moves up, as in binary counting. The chunk stays in the cache through all
 * levels. */
static void accumulate_chunk(const kernel_call *c, int levels, int64_t local, int64_t begin, int64_t end) {
    enum { CHUNK = 1024 };
    float carry[CHUNK];
    int64_t n = end - begin;
    int l = 0;
    memcpy(carry, (const float *)c->in[levels].data + begin, (size_t)n * sizeof *carry);
    /* carry: the sum of 2^l micro-batches, this one last */
    for (; local >> l & 1; l++) {
        const float *before = (const float *)c->in[levels - 1 - l].data + begin;
        for (int64_t i = 0; i < n; i++) carry[i] = before[i] + carry[i];
    }
    memcpy((float *)c->in[levels - 1 - l].data + begin, carry, (size_t)n * sizeof *carry);
}

/* Operands: the levels of the tree from the top down, then the new gradient, if there is one. c->run->local
 * counts the micro-batches of this rank in the step. */
static weft_status accumulate_run(void *state, const kernel_call *c) {
    enum { CHUNK = 1024 };
    const accumulate_attrs *a = c->attrs;
    int levels = accumulate_levels(a->of);
    int64_t n = type_elements(&c->in[0].type), local = c->run->local < a->of ? c->run->local : a->of - 1;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        int64_t end = begin + CHUNK < n ? begin + CHUNK : n;
        float *top = (float *)c->in[0].data + begin, *out = (float *)c->out[0].data + begin;
        if (c->n_in > levels) accumulate_chunk(c, levels, local, begin, end);
        if (a->last) combine_chunk(c, levels, local + 1, begin, end - begin);
        /* the same memory in a session */
        if (out != top) memcpy(out, top, (size_t)(end - begin) * sizeof *out);
    }
    return WEFT_OK;
}

SIMD_KERNEL(accumulate, .declines = declines_all_but_f32, .run = accumulate_run);

/* ---- renew: a copy by all threads ---- */

static weft_status renew_run(void *state, const kernel_call *c) {
    float *to = c->in[0].data, *out = c->out[0].data;
    const float *from = c->in[2].data;
    int64_t n = type_elements(&c->in[0].type);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        size_t bytes = (size_t)(block_end(begin, n) - begin) * sizeof *to;
        if (from != to) memcpy(to + begin, from + begin, bytes);
        /* the same memory in a session */
        if (out != to) memcpy(out + begin, from + begin, bytes);
    }
    return WEFT_OK;
}

SIMD_KERNEL(renew, .declines = declines_all_but_f32, .run = renew_run);

/* ---- chunk_squares ---- */

/* Sum of the squares of one chunk, in f64. Sixteen running sums are added in a fixed order: the same bits
 * with every vector width. */
static double chunk_sum(const float *g, int64_t n) {
    enum { LANES = 16 };
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (int k = 0; i + k < n; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

/* The chunk sums of one member; g is the range of gradients from a->begin. Chunks outside the range are 0.
 * Ranges end where chunks do, so each chunk is whole in one range. */
static void member_sums(const kernel_call *c, const weft_variable *v, const float *g, int64_t count,
                        double *sums) {
    const chunk_squares_attrs *a = c->attrs;
    int64_t chunks = norm_chunks(type_elements(&v->type)), first, last;
    memset(sums, 0, (size_t)chunks * sizeof *sums);
    if (!member_range(v, a->begin, count, &first, &last)) return;
    g += v->offset - a->begin;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (last - first > 8 * NORM_CHUNK)
    for (int64_t i = first / NORM_CHUNK; i < norm_chunks(last); i++) {
        int64_t left = last - i * NORM_CHUNK;
        sums[i] = chunk_sum(g + i * NORM_CHUNK, left < NORM_CHUNK ? left : NORM_CHUNK);
    }
}

/* out: the sums of all members' chunks, one member after the other. */
static weft_status squares_run(void *state, const kernel_call *c) {
    const weft_variable *s = c->node->variable;
    double *sums = c->out[0].data;
    int64_t count = c->n_in ? c->in[0].type.shape[0] : 0;
    for (int i = 0; i < s->n_members; i++) {
        member_sums(c, s->members[i], c->n_in ? c->in[0].data : NULL, count, sums);
        sums += norm_chunks(type_elements(&s->members[i]->type));
    }
    return WEFT_OK;
}

SIMD_KERNEL(chunk_squares, .run = squares_run);
