/* attention.c - attention and its backward op in f32 (all but the log-sums may be bf16 or f16).
 *
 * A thread takes one (batch, head) pair at a time: it packs keys and values once into panels (whatever their
 * strides), and runs queries in blocks of BLOCK rows whose scores stay in the cache; causal blocks stop at
 * their last key, and with a window begin at their first. The backward op takes the heads that share keys
 * together. Pairs are independent and each runs in a fixed order, so the bits do not depend on the number of
 * threads.
 *
 * Measured, 2 threads of a Xeon with AVX-512, q k v as views of one [8, 256, 3 * 6 * 64] tensor, causal, best
 * of 60 on a machine that other builds shared: 2.9 ms forward, 6.0 backward; PyTorch 2.15's
 * scaled_dot_product_attention minutes later 4.4 and 10.9. The products alone reach 180-200 GFLOP/s a thread;
 * the rest is packing and exponentials. */
#include "ops/attention/attention.h"
#include "ops/cpu/simd/exp_sum.h"
#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/small_gemm.h"
#include "ops/cpu/simd/words.h"
#include "ops/kit/dropout.h"

#include <omp.h>

/* BLOCK: queries of a block, a multiple of every GEMM_MR. KEY_STEP: where the keys of a block may begin, a
 * multiple of GEMM_NR and of GEMM_MR. */
enum { BLOCK = 48, KEY_STEP = 3 * GEMM_NR };
_Static_assert(BLOCK % GEMM_MR == 0 && KEY_STEP % GEMM_MR == 0, "");

/* The matrix of one head within a tensor: rows of d numbers. */
typedef struct view {
    void *data; /* of the tensor; the matrix begins at its element `first` */
    weft_dtype dtype;
    int64_t first, row, column; /* strides in elements */
} view;

typedef struct sizes {
    int64_t t, s, d, e;   /* queries, keys, head size; that of values */
    int64_t heads, group; /* of q; and how many of them share one of k and v */
    /* s rounded up to panels (GEMM_NR) and to tile rows (GEMM_MR); d and e rounded up to panels */
    int64_t sp, sm, dp, ep;
    int64_t ld; /* floats from one row of scores to the next */
    const attention_attrs *attrs;
    float scale;
} sizes;

/* Offsets in a thread's scratch, in floats, each a multiple of a cache line. */
typedef struct layout {
    int64_t kt, vt, k, v; /* keys and values in panels: transposed [d, s] (kt, vt) and as they are [s, d] */
    /* Of a block of queries: q and dy as rows and as panels (qp, dyp), scores p, their gradients ds, the
     * result. */
    int64_t q, dy, qp, dyp, p, ds, out;
    /* one row as floats: of a head, or of a mask; what dropout keeps of a row; the slopes of its softcap */
    int64_t room, kept, slope;
    int64_t dk, dv, total; /* gradients of all keys and values; total: of the scratch */
} layout;

/* n rounded up to a multiple of step. */
static int64_t up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

/* q: the operand that holds the queries; keys follow it. */
static sizes sizes_of(const weft_node *n, int q) {
    const attention_attrs *a = n->attrs;
    const tensor_type *qt = &n->in[q]->type, *kt = &n->in[q + 1]->type;
    sizes z = {.t = qt->shape[2], .s = kt->shape[2], .d = qt->shape[3], .heads = qt->shape[1], .attrs = a};
    z.group = z.heads / kt->shape[1];
    z.sp = up(z.s, GEMM_NR);
    z.sm = up(z.s, GEMM_MR);
    z.dp = up(z.d, GEMM_NR);
    z.e = n->in[q + 2]->type.shape[3];
    z.ep = up(z.e, GEMM_NR);
    z.ld = up(z.sp > z.sm ? z.sp : z.sm, 16);
    z.scale = (float)attention_scale(a, qt);
    return z;
}

/* Reserves `floats` and returns their offset. */
static int64_t reserve_floats(layout *l, int64_t floats) {
    int64_t at = l->total;
    l->total += up(floats, 16);
    return at;
}

/* The backward op adds what it needs to the forward's layout; its `out` holds dq. */
static layout layout_of(const sizes *z, bool backward) {
    layout l = {0};
    l.kt = reserve_floats(&l, z->sp * z->d);
    l.q = reserve_floats(&l, BLOCK * z->d);
    l.p = reserve_floats(&l, BLOCK * z->ld);
    int64_t widest = z->d > z->e ? z->d : z->e;
    l.out = reserve_floats(&l, BLOCK * up(widest, GEMM_NR));
    l.room = reserve_floats(&l, widest > z->s ? widest : z->s);
    if (z->attrs->p > 0) l.kept = reserve_floats(&l, up(z->s, 4));
    if (z->attrs->softcap > 0) l.slope = reserve_floats(&l, z->s);
    if (!backward) {
        l.v = reserve_floats(&l, z->s * z->ep);
        return l;
    }
    l.vt = reserve_floats(&l, z->sp * z->e);
    l.k = reserve_floats(&l, z->s * z->dp);
    l.dy = reserve_floats(&l, BLOCK * z->e);
    l.qp = reserve_floats(&l, BLOCK * z->dp);
    l.dyp = reserve_floats(&l, BLOCK * z->ep);
    l.ds = reserve_floats(&l, BLOCK * z->ld);
    l.dk = reserve_floats(&l, z->sm * z->dp);
    l.dv = reserve_floats(&l, z->sm * z->ep);
    return l;
}

/* ---- moving matrices in and out ---- */

/* Head h of batch b as a matrix; `heads` and `rows` are the axes of the tensor that count heads and rows. */
static view head_of(const tensor *t, int64_t b, int64_t h, int heads, int rows) {
    return (view){t->data, t->type.dtype, b * t->stride[0] + h * t->stride[heads], t->stride[rows],
                  t->stride[3]};
}

static view f32_view(float *data, int64_t row) {
    return (view){data, WEFT_F32, 0, row, 1};
}

/* Rows of a head are far apart in memory (3 H D floats in a fused projection), too far for the hardware
 * prefetcher. A prefetch some rows ahead overlaps most of the wait (it saves a sixth of the time of both
 * ops). */
static inline void fetch_ahead(view x, int64_t i, int64_t from, int64_t count) {
    enum { AHEAD = 6, LINE = 64 };
    int64_t width = x.dtype == WEFT_F32 ? 4 : 2;
    uintptr_t ahead = (uintptr_t)x.data + (uintptr_t)((x.first + (i + AHEAD) * x.row + from) * width);
    /* may be past the end: a prefetch cannot fault */
    for (int64_t k = 0; k < count * width; k += LINE)
        __builtin_prefetch((const void *)(ahead + (uintptr_t)k));
}

/* Columns [from, from + count) of row i as floats, with a prefetch for a later row. */
static inline void row_load(view x, int64_t i, int64_t from, int64_t count, float *restrict to) {
    int64_t at = x.first + i * x.row + from * x.column;
    fetch_ahead(x, i, from, count);
    if (x.column != 1)
        for (int64_t k = 0; k < count; k++) to[k] = reduced_get(x.data, x.dtype, at + k * x.column);
    else if (x.dtype == WEFT_F32) /* a loop, not memcpy: rows are short */
        for (int64_t k = 0; k < count; k++) to[k] = ((const float *)x.data)[at + k];
    else
        reduced_load(to, x.data, x.dtype, at, count);
}

/* Rows [first, first + count) of x, times factor, as dense rows of d floats; zeros up to BLOCK rows. */
static void pack_rows(view x, int64_t first, int64_t count, int64_t d, float factor, float *to) {
    for (int64_t i = 0; i < count; i++) {
        float *row = to + i * d;
        row_load(x, first + i, 0, d, row);
        for (int64_t k = 0; k < d; k++) row[k] *= factor;
    }
    memset(to + count * d, 0, (size_t)((BLOCK - count) * d) * sizeof *to);
}

/* Packs x as a B [count, d] of small_gemm.h: panels of `room` rows, zeros in the columns past d. */
static void pack_panels(view x, int64_t count, int64_t room, int64_t d, float *to) {
    for (int64_t c = 0; c < d; c += GEMM_NR) {
        int64_t width = d - c < GEMM_NR ? d - c : GEMM_NR;
        for (int64_t i = 0; i < count; i++) {
            float *row = to + c * room + i * GEMM_NR;
            row_load(x, i, c, width, row);
            for (int64_t k = width; k < GEMM_NR; k++) row[k] = 0;
        }
    }
}

/* Packs the transpose of x as a B [d, s], zeros in the columns past s. `room` holds one row. */
static void pack_transposed(view x, const sizes *z, int64_t d, float *to, float *room) {
    for (int64_t j = 0; j < z->sp; j++) {
        float *column = to + j / GEMM_NR * GEMM_NR * d + j % GEMM_NR;
        if (j < z->s) row_load(x, j, 0, d, room);
        for (int64_t k = 0; k < d; k++) column[k * GEMM_NR] = j < z->s ? room[k] : 0;
    }
}

/* Row i of a result whose columns are contiguous: `from` times factor. Overwrites `from` when the result is
 * reduced. */
static void put_row(float *restrict from, float factor, int64_t d, view y, int64_t i) {
    int64_t at = y.first + i * y.row;
    if (y.dtype == WEFT_F32) {
        float *restrict to = (float *)y.data + at;
        for (int64_t k = 0; k < d; k++) to[k] = from[k] * factor;
        return;
    }
    for (int64_t k = 0; k < d; k++) from[k] *= factor;
    reduced_store(y.data, y.dtype, at, from, d);
}

/* ---- masks ---- */

/* The mask of one head: element (i, j) is number first + i row + j column of its data. data NULL: none. */
typedef struct head_mask {
    const void *data;
    weft_dtype dtype;
    int64_t first, row, column;
} head_mask;

/* mask: its operand, which may be missing. */
static head_mask mask_of(const kernel_call *c, int mask, int64_t b, int64_t h) {
    int64_t stride[4];
    if (mask >= c->n_in) return (head_mask){0};
    attention_mask_strides(&c->in[mask], stride);
    return (head_mask){c->in[mask].data, c->in[mask].type.dtype, b * stride[0] + h * stride[1], stride[2],
                       stride[3]};
}

static void mask_bools(const bool *seen, int64_t step, int64_t n, float *x) {
    if (step == 1)
        for (int64_t j = 0; j < n; j++) x[j] = seen[j] ? x[j] : -VM_INF;
    else
        for (int64_t j = 0; j < n; j++) x[j] = seen[j * step] ? x[j] : -VM_INF;
}

/* Applies row i to the scores x of the keys [begin, end). `room` is for a row as floats. */
static void mask_row(const head_mask *m, int64_t i, key_range keys, float *restrict x, float *restrict room) {
    int64_t at = m->first + i * m->row + keys.begin * m->column, n = keys.end - keys.begin;
    x += keys.begin;
    if (m->dtype == WEFT_BOOL) {
        mask_bools((const bool *)m->data + at, m->column, n, x);
        return;
    }
    if (m->column == 1)
        reduced_load(room, m->data, m->dtype, at, n);
    else
        for (int64_t j = 0; j < n; j++) room[j] = reduced_get(m->data, m->dtype, at + j * m->column);
    for (int64_t j = 0; j < n; j++) x[j] += room[j];
}

/* ---- softcap ---- */

/* Scores x become cap tanh(x / cap); slope, unless NULL, gets the derivatives. */
static void cap_row(double softcap, int64_t n, float *restrict x, float *restrict slope) {
    float cap = (float)softcap, by = 1 / cap;
    for (int64_t j = 0; j < n; j++) {
        float t = vm_tanh(x[j] * by);
        x[j] = cap * t;
        if (slope) slope[j] = 1 - t * t;
    }
}

/* ---- dropout ---- */

/* kept[j] = 0 or `factor` for the keys of row number `row`; `kept` has room for whole counters. */
static void kept_fill(const attention_attrs *a, const philox_stream *stream, int64_t row, int64_t keys,
                      key_range range, float *kept) {
    uint64_t below = dropout_threshold(a->p), counter = (uint64_t)attention_word(row, 0, keys) / 4;
    uint32_t most = below > UINT32_MAX ? UINT32_MAX : (uint32_t)below, word[4][BLOCKS];
    /* p = 1 drops everything, which no 32-bit threshold can express: the factor 0 does */
    float factor = (float)dropout_factor(a->p);
    for (int64_t j = range.begin / 4; j * 4 < range.end; j += BLOCKS) {
        int64_t left = (range.end + 3) / 4 - j, n = left < BLOCKS ? left : BLOCKS;
        words_of(stream, counter + (uint64_t)j, word);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 4; k++) kept[4 * (j + i) + k] = word[k][i] < most ? 0.0f : factor;
    }
}

/* ---- a block of queries ---- */

typedef struct block {
    int64_t first, rows, tall; /* tall: rows rounded up to whole tiles */
    /* [from, keys): the keys that its queries see; wide: columns of scores from `from` on that must be zero
     * outside of a row's own keys */
    int64_t from, keys, wide;
} block;

static block block_at(const sizes *z, int64_t first) {
    block b = {.first = first, .rows = z->t - first < BLOCK ? z->t - first : BLOCK};
    b.tall = up(b.rows, GEMM_MR);
    b.keys = attention_keys(z->attrs, first + b.rows - 1, z->s).end;
    b.from = attention_keys(z->attrs, first, z->s).begin;
    /* queries that see no key: one, which they do not see */
    if (b.from >= b.keys) b.keys = (b.from = b.from < z->s ? b.from : z->s - 1) + 1;
    b.from = b.from / KEY_STEP * KEY_STEP;
    int64_t panels = up(b.keys - b.from, GEMM_NR), tiles = up(b.keys - b.from, GEMM_MR);
    b.wide = panels > tiles ? panels : tiles;
    return b;
}

/* Scores of the block's queries, rows a [tall, d], with its keys in panels, into rows x of z->ld. */
static void block_scores(const sizes *z, const block *b, int64_t d, const float *a, const float *keys,
                         float *x) {
    gemm_rows(b->tall, up(b->keys - b->from, GEMM_NR), d, a, d, keys + b->from * d, d * GEMM_NR, x + b->from,
              z->ld);
}

/* out [tall, dp] = the rows x of z->ld times keys or values in panels, of dp columns. */
static void block_product(const sizes *z, const block *b, int64_t dp, const float *x, const float *values,
                          float *out) {
    gemm_rows(b->tall, dp, b->keys - b->from, x + b->from, z->ld, values + b->from * GEMM_NR, z->s * GEMM_NR,
              out, dp);
}

/* Zeros in a row outside of its own keys. */
static void row_clear(const block *b, key_range keys, float *x) {
    for (int64_t j = b->from; j < keys.begin; j++) x[j] = 0;
    for (int64_t j = keys.end; j < b->from + b->wide; j++) x[j] = 0;
}

/* ---- forward ---- */

/* x = e^(x - max) in place. Returns the sum, and the maximum in *max: 0 if every x is -inf, as in a row that
 * sees no key, whose sum is 0. */
static float exp_row(float *x, int64_t n, float *max) {
    float most = row_max(x, n);
    *max = most == -VM_INF ? 0 : most;
    return (float)exp_sum(x, x, n, *max);
}

/* The matrices of one (batch, head) pair; dy and dq are of the backward op. shift: NULL without a mask of
 * numbers; scores: where the gradients of the scores go, or NULL. */
typedef struct head {
    view q, y, dy, dq;
    head_mask mask;
    float *lse, *shift, *scores;
    int64_t row;          /* number of its first row among all */
    philox_stream stream; /* with dropout */
} head;

/* Scores = scale q k^T + mask, softmax without its division, y = scores v; the division is by row, at the
 * end. lse (and shift) is what the backward op needs to compute the scores again. */
static void block_forward(const sizes *z, const layout *l, float *s, const block *b, const head *m) {
    float factor[BLOCK];
    /* scale goes to q: T D multiplications rather than T S */
    pack_rows(m->q, b->first, b->rows, z->d, z->scale, s + l->q);
    block_scores(z, b, z->d, s + l->q, s + l->kt, s + l->p);
    for (int64_t i = 0; i < b->rows; i++) {
        float max, *p = s + l->p + i * z->ld;
        int64_t row = b->first + i;
        key_range keys = attention_keys(z->attrs, row, z->s);
        if (z->attrs->softcap > 0) cap_row(z->attrs->softcap, keys.end - keys.begin, p + keys.begin, NULL);
        if (m->mask.data) mask_row(&m->mask, row, keys, p, s + l->room);
        float sum = exp_row(p + keys.begin, keys.end - keys.begin, &max);
        row_clear(b, keys, p);
        if (z->attrs->p > 0) {
            kept_fill(z->attrs, &m->stream, m->row + row, z->s, keys, s + l->kept);
            for (int64_t j = keys.begin; j < keys.end; j++) p[j] *= s[l->kept + j];
        }
        factor[i] = sum == 0 ? 0 : 1.0f / sum;
        m->lse[row] = (m->shift ? 0 : max) + (sum == 0 ? 0 : vm_log(sum));
        if (m->shift) m->shift[row] = max;
    }
    block_product(z, b, z->ep, s + l->p, s + l->v, s + l->out);
    for (int64_t i = 0; i < b->rows; i++)
        put_row(s + l->out + i * z->ep, factor[i], z->e, m->y, b->first + i);
}

/* in: q, k, v [B, H, T, D] at any strides, whose k and v are packed; out: y [B, T, H, D], lse [B, H, T]. */
static void head_forward(const kernel_call *c, const sizes *z, const layout *l, float *s, int64_t b,
                         int64_t h) {
    int64_t lse = (b * z->heads + h) * z->t;
    head m = {.q = head_of(&c->in[ATTENTION_Q], b, h, 1, 2),
              .y = head_of(&c->out[0], b, h, 2, 1),
              .mask = mask_of(c, ATTENTION_MASK, b, h),
              .row = lse,
              .lse = (float *)c->out[1].data + lse,
              .shift = c->n_out == 3 ? (float *)c->out[2].data + lse : NULL};
    if (z->attrs->p > 0) m.stream = philox_stream_of(c->run, z->attrs->key);
    for (int64_t i = 0; i < z->t; i += BLOCK) {
        block at = block_at(z, i);
        block_forward(z, l, s, &at, &m);
    }
}

/* Keys and values of head h of k and v. */
static void keys_pack(const kernel_call *c, const sizes *z, const layout *l, float *s, int64_t b, int64_t h) {
    pack_transposed(head_of(&c->in[ATTENTION_K], b, h, 1, 2), z, z->d, s + l->kt, s + l->room);
    pack_panels(head_of(&c->in[ATTENTION_V], b, h, 1, 2), z->s, z->s, z->e, s + l->v);
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    for (int i = 0; i < n->n_in; i++)
        if (!dtype_is_row(n->in[i]->type.dtype) && n->in[i]->type.dtype != WEFT_BOOL)
            return "not f32, bf16 or f16";
    return NULL;
}

/* A scratch for each thread. */
static size_t forward_workspace(const weft_node *n, const kernel_env *env) {
    sizes z = sizes_of(n, ATTENTION_Q);
    return (size_t)env->threads * (size_t)layout_of(&z, false).total * sizeof(float);
}

/* One (batch, head) pair is one task. A thread packs keys once for tasks that follow one another and share
 * them. */
static weft_status forward_run(void *state, const kernel_call *c) {
    sizes z = sizes_of(c->node, ATTENTION_Q);
    layout l = layout_of(&z, false);
    int64_t pairs = c->in[0].type.shape[0] * z.heads;
#pragma omp parallel num_threads(c->threads)
    {
        float *s = (float *)c->workspace + omp_get_thread_num() * l.total;
        int64_t packed = -1;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pairs; i++) {
            int64_t b = i / z.heads, h = i % z.heads;
            if (i / z.group != packed) keys_pack(c, &z, &l, s, b, h / z.group);
            packed = i / z.group;
            head_forward(c, &z, &l, s, b, h);
        }
    }
    return WEFT_OK;
}

SIMD_KERNEL(attention, .strided_in = ATTENTION_STRIDED, .declines = declines, .workspace = forward_workspace,
            .run = forward_run);
SIMD_KERNEL(attention_dropout, .strided_in = ATTENTION_STRIDED, .declines = declines,
            .workspace = forward_workspace, .run = forward_run);

/* ---- backward: operands dy, q, k, v, y, lse, mask, shift ---- */

/* On entry p holds scores and ds holds dp = dy . v; on exit p = e^(score - shift - lse), the probabilities,
 * and ds = p (dp - delta). */
static void attention_row_backward(float *restrict p, float *restrict ds, int64_t n, float shift, float lse,
                                   float delta) {
    for (int64_t j = 0; j < n; j++) {
        float e = vm_exp(p[j] - shift - lse);
        p[j] = e;
        ds[j] = e * (ds[j] - delta);
    }
}

/* The same with dropout, which multiplies dp, and p after that, by `kept`. */
static void dropped_row_backward(float *restrict p, float *restrict ds, const float *restrict kept, int64_t n,
                                 float shift, float lse, float delta) {
    for (int64_t j = 0; j < n; j++) {
        float e = vm_exp(p[j] - shift - lse);
        p[j] = e * kept[j];
        ds[j] = e * (ds[j] * kept[j] - delta);
    }
}

static float dot(const float *a, const float *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/* Row i of the gradients of the scores, which are zero outside of its own keys. */
static void put_scores(const sizes *z, const float *ds, key_range keys, float *to) {
    for (int64_t j = 0; j < keys.begin; j++) to[j] = 0;
    for (int64_t j = keys.begin; j < keys.end; j++) to[j] = ds[j];
    for (int64_t j = keys.end; j < z->s; j++) to[j] = 0;
}

/* Query i of the block: its probabilities and the gradients of its scores. */
static void query_backward(const sizes *z, const layout *l, float *s, const block *b, const head *m,
                           int64_t i) {
    int64_t row = b->first + i;
    float *p = s + l->p + i * z->ld, *ds = s + l->ds + i * z->ld;
    key_range keys = attention_keys(z->attrs, row, z->s);
    bool caps = z->attrs->softcap > 0;
    if (caps) cap_row(z->attrs->softcap, keys.end - keys.begin, p + keys.begin, s + l->slope);
    if (m->mask.data) mask_row(&m->mask, row, keys, p, s + l->room);
    row_load(m->y, row, 0, z->e, s + l->room);
    /* delta = dy . y replaces the sum of p dp over the row */
    float delta = dot(s + l->dy + i * z->e, s + l->room, z->e);
    float shift = m->shift ? m->shift[row] : 0, *own_p = p + keys.begin, *own_ds = ds + keys.begin;
    int64_t n = keys.end - keys.begin;
    if (z->attrs->p > 0) {
        kept_fill(z->attrs, &m->stream, m->row + row, z->s, keys, s + l->kept);
        dropped_row_backward(own_p, own_ds, s + l->kept + keys.begin, n, shift, m->lse[row], delta);
    } else {
        attention_row_backward(own_p, own_ds, n, shift, m->lse[row], delta);
    }
    row_clear(b, keys, p);
    row_clear(b, keys, ds);
    if (m->scores) put_scores(z, ds, keys, m->scores + row * z->s);
    for (int64_t j = 0; j < n && caps; j++) own_ds[j] *= s[l->slope + j];
}

/* For one block: recomputes the scores, then their gradients, then dq; adds to dk and dv. q is packed times
 * scale: dk needs that factor exactly once, and dq, which has no q in it, gets it when it is stored. */
static void block_backward(const sizes *z, const layout *l, float *s, const block *b, const head *m) {
    int64_t tiles = up(b->keys - b->from, GEMM_MR);
    pack_rows(m->q, b->first, b->rows, z->d, z->scale, s + l->q);
    pack_rows(m->dy, b->first, b->rows, z->e, 1, s + l->dy);
    pack_panels(f32_view(s + l->q, z->d), b->rows, BLOCK, z->d, s + l->qp);
    pack_panels(f32_view(s + l->dy, z->e), b->rows, BLOCK, z->e, s + l->dyp);
    block_scores(z, b, z->d, s + l->q, s + l->kt, s + l->p);
    block_scores(z, b, z->e, s + l->dy, s + l->vt, s + l->ds);
    for (int64_t i = 0; i < b->rows; i++) query_backward(z, l, s, b, m, i);
    block_product(z, b, z->dp, s + l->ds, s + l->k, s + l->out);
    for (int64_t i = 0; i < b->rows; i++)
        put_row(s + l->out + i * z->dp, z->scale, z->d, m->dq, b->first + i);
    gemm_transposed_add(tiles, z->dp, b->rows, s + l->ds + b->from, z->ld, s + l->qp, BLOCK * GEMM_NR,
                        s + l->dk + b->from * z->dp, z->dp);
    gemm_transposed_add(tiles, z->ep, b->rows, s + l->p + b->from, z->ld, s + l->dyp, BLOCK * GEMM_NR,
                        s + l->dv + b->from * z->ep, z->ep);
}

/* One head of q; its keys and values are packed. */
static void head_backward(const kernel_call *c, const sizes *z, const layout *l, float *s, int64_t b,
                          int64_t h) {
    int64_t lse = (b * z->heads + h) * z->t;
    bool is_shifted = c->n_in > BACKWARD_SHIFT, wants_scores = c->n_out == 4;
    head m = {.dy = head_of(&c->in[BACKWARD_DY], b, h, 2, 1),
              .q = head_of(&c->in[BACKWARD_Q], b, h, 1, 2),
              .y = head_of(&c->in[BACKWARD_Y], b, h, 2, 1),
              .dq = head_of(&c->out[0], b, h, 2, 1),
              .mask = mask_of(c, BACKWARD_MASK, b, h),
              .row = lse,
              .lse = (float *)c->in[BACKWARD_LSE].data + lse,
              .shift = is_shifted ? (float *)c->in[BACKWARD_SHIFT].data + lse : NULL,
              .scores = wants_scores ? (float *)c->out[3].data + lse * z->s : NULL};
    if (z->attrs->p > 0) m.stream = philox_stream_of(c->run, z->attrs->key);
    for (int64_t i = 0; i < z->t; i += BLOCK) {
        block at = block_at(z, i);
        block_backward(z, l, s, &at, &m);
    }
}

/* Head h of k and v. dk and dv are sums over its heads of q, and over blocks in the order of the queries. */
static void group_backward(const kernel_call *c, const sizes *z, const layout *l, float *s, int64_t b,
                           int64_t h) {
    view k = head_of(&c->in[BACKWARD_K], b, h, 1, 2), v = head_of(&c->in[BACKWARD_V], b, h, 1, 2);
    view dk = head_of(&c->out[1], b, h, 2, 1), dv = head_of(&c->out[2], b, h, 2, 1);
    pack_transposed(k, z, z->d, s + l->kt, s + l->room);
    pack_transposed(v, z, z->e, s + l->vt, s + l->room);
    pack_panels(k, z->s, z->s, z->d, s + l->k);
    memset(s + l->dk, 0, (size_t)(z->sm * z->dp) * sizeof *s);
    memset(s + l->dv, 0, (size_t)(z->sm * z->ep) * sizeof *s);
    for (int64_t i = 0; i < z->group; i++) head_backward(c, z, l, s, b, h * z->group + i);
    for (int64_t j = 0; j < z->s; j++) {
        put_row(s + l->dk + j * z->dp, 1, z->d, dk, j);
        put_row(s + l->dv + j * z->ep, 1, z->e, dv, j);
    }
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    sizes z = sizes_of(n, BACKWARD_Q);
    return (size_t)env->threads * (size_t)layout_of(&z, true).total * sizeof(float);
}

/* One (batch, head of k) pair is one task: its dk and dv have one owner. */
static weft_status backward_run(void *state, const kernel_call *c) {
    sizes z = sizes_of(c->node, BACKWARD_Q);
    layout l = layout_of(&z, true);
    int64_t heads = z.heads / z.group, pairs = c->in[BACKWARD_Q].type.shape[0] * heads;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < pairs; i++)
        group_backward(c, &z, &l, (float *)c->workspace + omp_get_thread_num() * l.total, i / heads,
                       i % heads);
    return WEFT_OK;
}

SIMD_KERNEL(attention_backward, .strided_in = ATTENTION_BACKWARD_STRIDED, .declines = declines,
            .workspace = backward_workspace, .run = backward_run);
