/* tile.c - see tile.h: the loops of all pointwise ops, programs made of them, loading and storing tiles. */
#include "ops/cpu/simd/tile.h"

#include "ops/cpu/reduced.h"
#include "ops/cpu/simd/vecmath.h"

#include <math.h>

/* One loop for each op of pointwise_list.h, in which x, y, z are the operands and k[] the numbers of the
 * formula. `out` may be an operand: hence SIMD_INDEPENDENT. k[] is a copy that stays in registers: in a
 * branch of a vectorized loop the compiler loads nothing that may change or be absent. */
#define X(op, operands, numbers, expression)                                                                 \
    static void loop_##op(float *out, const float *a, const float *b, const float *c, const float *from,     \
                          int64_t n) {                                                                       \
        float k[numbers ? numbers : 1];                                                                      \
        for (int i = 0; i < numbers; i++) k[i] = from[i];                                                    \
        SIMD_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                   \
            float x = a[i], y = operands > 1 ? b[i] : 0, z = operands > 2 ? c[i] : 0;                        \
            (void)y, (void)z, (void)k;                                                                       \
            out[i] = expression;                                                                             \
        }                                                                                                    \
    }
#include "ops/pointwise/pointwise_list.h"
#undef X

/* Casts that change a value: to bool, and to a reduced type whose value is read again inside the program. A
 * cast to f32 is a copy and has its line in the list. */
#define CAST(name, expression)                                                                               \
    static void name(float *out, const float *a, const float *b, const float *c, const float *k,             \
                     int64_t n) {                                                                            \
        SIMD_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                   \
            float x = a[i];                                                                                  \
            out[i] = expression;                                                                             \
        }                                                                                                    \
    }
CAST(loop_is_not_zero, x != 0.0f ? 1.0f : 0.0f)
CAST(loop_to_bf16, reduced_from_bf16(reduced_to_bf16(x)))
CAST(loop_to_f16, reduced_from_f16(reduced_to_f16(x)))

static const struct {
    const weft_op *op;
    tile_loop *run;
    int numbers;
} loops[] = {
#define X(op, operands, numbers, expression) {&weft_op_##op, loop_##op, numbers},
#include "ops/pointwise/pointwise_list.h"
#undef X
};

/* NULL: the op has no loop. */
static tile_loop *loop_of(const weft_node *n) {
    weft_dtype to = n->out[0].type.dtype;
    if (n->op == &weft_op_cast && to != WEFT_F32)
        return to == WEFT_BF16 ? loop_to_bf16 : to == WEFT_F16 ? loop_to_f16 : loop_is_not_zero;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (loops[i].op == n->op) return loops[i].run;
    return NULL;
}

/* How many numbers the formula reads. */
static int numbers_read(const weft_op *op) {
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (loops[i].op == op) return loops[i].numbers;
    return 0;
}

static int numbers_given(const weft_node *n) {
    int count = 0;
    for (double number; formula_number(n, count, &number);) count++;
    return count;
}

/* ---- programs ---- */

/* Returns the reason to decline for element types. 32 and 64-bit integers can only be cast: their values do
 * not fit a float. */
static const char *type_declined(const weft_node *n) {
    weft_dtype out = n->out[0].type.dtype;
    if (!dtype_is_row(out) && out != WEFT_BOOL && (out != WEFT_U8 || n->op == &weft_op_cast))
        return "a result that is not f32, bf16, f16, bool or u8";
    for (int i = 0; i < n->n_in; i++) {
        weft_dtype in = n->in[i]->type.dtype;
        bool wide = in == WEFT_I32 || in == WEFT_I64;
        if (wide && n->op != &weft_op_cast) return "an i32 or i64 operand";
        if (!wide && !dtype_is_row(in) && in != WEFT_BOOL && in != WEFT_U8)
            return "an operand that is not f32, bf16 or f16";
    }
    return NULL;
}

/* State while a program is built, indexed by body node. */
typedef struct builder {
    const weft_node *n;
    weft_node *const *body;
    int n_body;
    int slot[FUSED_MAX_BODY];     /* slot of the node's result */
    int last_use[FUSED_MAX_BODY]; /* body node that reads the result last */
    bool is_busy[FUSED_MAX_BODY]; /* temporaries in use, by number */
} builder;

/* Index of the body node that makes `v`, or -1. */
static int maker_of(const builder *b, const weft_value *v) {
    for (int k = 0; k < b->n_body; k++)
        if (v == &b->body[k]->out[0]) return k;
    return -1;
}

/* Index of the operand of the node that is `v`, or -1. */
static int operand_of(const builder *b, const weft_value *v) {
    for (int i = 0; i < b->n->n_in; i++)
        if (v == b->n->in[i]) return i;
    return -1;
}

/* Which result of the fused node body node k computes; -1: none, its value stays inside. */
static int result_of(const builder *b, int k) {
    if (b->n->n_body == 0) return 0;
    for (int r = 0; r < b->n->n_out; r++)
        if (b->n->body_out[r] == &b->body[k]->out[0]) return r;
    return -1;
}

/* The lowest free temporary, as a slot: few slots keep the tiles in the cache. */
static int temporary_alloc(builder *b, tile_program *p) {
    int t = 0;
    while (b->is_busy[t]) t++;
    b->is_busy[t] = true;
    if (t >= p->n_temporaries) p->n_temporaries = t + 1;
    return p->n_in + p->n_out + t;
}

/* Makes step k. A temporary whose last reader this is becomes free before the result gets its slot, so the
 * result may reuse it: loops allow out to be an operand. */
static const char *step_build(builder *b, tile_program *p, int k) {
    const weft_node *node = b->body[k];
    tile_step *s = &p->steps[k];
    *s = (tile_step){.run = loop_of(node)};
    const char *why = type_declined(node);
    if (why) return why;
    if (!s->run) return "an op without a loop";
    if (numbers_read(node->op) != numbers_given(node))
        return "a formula of other numbers than the op has attributes";
    for (int i = 0; i < node->n_in; i++) {
        int maker = maker_of(b, node->in[i]), operand = operand_of(b, node->in[i]);
        if (maker < 0 && operand < 0) return "an operand of no known node";
        s->in[i] = maker >= 0 ? b->slot[maker] : operand;
        if (maker < 0)
            p->last_use[operand] = k;
        else if (b->last_use[maker] == k && b->slot[maker] >= p->n_in + p->n_out)
            b->is_busy[b->slot[maker] - p->n_in - p->n_out] = false;
    }
    int result = result_of(b, k);
    if (result >= 0) p->defined[result] = k;
    s->out = b->slot[k] = result >= 0 ? p->n_in + result : temporary_alloc(b, p);
    return NULL;
}

/* Two passes over the body: the last reader of each value, then the steps. */
const char *SIMD(tile_build)(const weft_node *n, tile_program *p) {
    tile_program unused;
    weft_node *self[1] = {(weft_node *)n};
    builder b = {.n = n, .body = n->n_body ? n->body : self, .n_body = n->n_body ? n->n_body : 1};
    if (!p) p = &unused;
    if (n->n_in > FUSED_MAX_IN || b.n_body > FUSED_MAX_BODY || n->n_out > FUSED_MAX_BODY)
        return "too many members";
    *p = (tile_program){.n_in = n->n_in, .n_out = n->n_out, .n_steps = b.n_body};
    for (int i = 0; i < n->n_in; i++) p->last_use[i] = -1;
    for (int k = 0; k < b.n_body; k++)
        for (int i = 0; i < b.body[k]->n_in && i < 3; i++) {
            int maker = maker_of(&b, b.body[k]->in[i]);
            if (maker >= 0) b.last_use[maker] = k;
        }
    for (int k = 0; k < b.n_body; k++) {
        const char *why = b.body[k]->n_in > 3 ? "more than 3 operands" : step_build(&b, p, k);
        if (why) return why;
    }
    return NULL;
}

/* The numbers of a step follow those of the step before it. */
size_t SIMD(tile_numbers)(const weft_node *n, tile_program *p, float *numbers) {
    size_t count = 0;
    for (int k = 0; k < (n->n_body ? n->n_body : 1); k++) {
        const weft_node *node = n->n_body ? n->body[k] : n;
        size_t begin = count;
        for (double number; formula_number(node, (int)(count - begin), &number); count++)
            if (numbers) numbers[count] = (float)number;
        if (numbers) p->steps[k].numbers = numbers + begin;
    }
    return count;
}

/* ---- layout of operands ---- */

/* Insertion sort by stride; dense means that each stride is the product of the lengths of the inner axes. */
bool SIMD(tile_order)(const tensor *t, int axes[WEFT_MAX_NDIM], int *n) {
    int64_t dense = 1;
    *n = 0;
    for (int i = 0; i < t->type.ndim; i++) {
        if (t->type.shape[i] == 1) continue;
        int k = (*n)++;
        for (; k > 0 && t->stride[axes[k - 1]] < t->stride[i]; k--) axes[k] = axes[k - 1];
        axes[k] = i;
    }
    for (int k = *n - 1; k >= 0; k--) {
        if (t->stride[axes[k]] != dense) return false;
        dense *= t->type.shape[axes[k]];
    }
    return true;
}

/* Walks the axes from the outermost and merges each with the one before it where the strides continue. */
void SIMD(tile_operand_of)(tile_operand *o, const tensor *x, const tensor *out, const int *axes, int n) {
    *o = (tile_operand){.data = x->data, .dtype = x->type.dtype, .period = 1};
    int lead = out->type.ndim - x->type.ndim;
    for (int k = 0; k < n; k++) {
        int axis = axes[k] - lead;
        int64_t length = out->type.shape[axes[k]];
        int64_t stride = axis < 0 || x->type.shape[axis] == 1 ? 0 : x->stride[axis];
        int last = o->n_axes - 1;
        if (last >= 0 && o->stride[last] == stride * length) {
            o->shape[last] *= length;
            o->stride[last] = stride;
        } else {
            o->shape[o->n_axes] = length;
            o->stride[o->n_axes++] = stride;
        }
    }
    /* a scalar: one axis of one element */
    if (o->n_axes == 0) {
        o->shape[0] = o->n_axes = 1;
        o->stride[0] = 1;
    }
    o->in_place = o->n_axes == 1 && o->stride[0] == 1 && o->dtype == WEFT_F32;
    /* the inner axes repeat */
    if (o->stride[0] == 0)
        for (int k = 1; k < o->n_axes; k++) o->period *= o->shape[k];
    o->same_tile = o->stride[0] == 0 && o->period <= TILE;
}

/* ---- loading and storing ---- */

/* n elements at `stride`, with the frequent strides 1 and 0 as loops of their own. */
#define RUN(type, name)                                                                                      \
    static void name(float *to, const type *from, int64_t stride, int64_t n) {                               \
        if (stride == 1) {                                                                                   \
            for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];                                          \
        } else if (stride == 0) {                                                                            \
            for (int64_t i = 0; i < n; i++) to[i] = (float)from[0];                                          \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) to[i] = (float)from[i * stride];                                 \
        }                                                                                                    \
    }
RUN(float, run_f32)
RUN(uint8_t, run_u8)
RUN(int32_t, run_i32)
RUN(int64_t, run_i64)

static void run_reduced(float *to, const tile_operand *o, int64_t offset, int64_t stride, int64_t n) {
    if (stride == 1) {
        reduced_load(to, o->data, o->dtype, offset, n);
    } else if (stride == 0) {
        float x = reduced_get(o->data, o->dtype, offset);
        for (int64_t i = 0; i < n; i++) to[i] = x;
    } else {
        for (int64_t i = 0; i < n; i++) to[i] = reduced_get(o->data, o->dtype, offset + i * stride);
    }
}

/* A run along the innermost axis; `offset` in elements. */
static void run_load(const tile_operand *o, float *to, int64_t offset, int64_t stride, int64_t n) {
    switch (o->dtype) {
    case WEFT_I32:
        run_i32(to, (const int32_t *)o->data + offset, stride, n);
        return;
    case WEFT_I64:
        run_i64(to, (const int64_t *)o->data + offset, stride, n);
        return;
    case WEFT_BF16:
    case WEFT_F16:
        run_reduced(to, o, offset, stride, n);
        return;
    case WEFT_U8:
    case WEFT_BOOL:
        run_u8(to, (const uint8_t *)o->data + offset, stride, n);
        return;
    default:
        run_f32(to, (const float *)o->data + offset, stride, n);
        return;
    }
}

/* An odometer over the operand's axes: finds the element `begin` by division, then goes run by run. */
void SIMD(tile_load)(const tile_operand *o, float *tile, int64_t begin, int64_t count) {
    int64_t at[WEFT_MAX_NDIM], offset = 0;
    int inner = o->n_axes - 1;
    for (int k = inner; k >= 0; k--) {
        at[k] = begin % o->shape[k];
        begin /= o->shape[k];
        offset += at[k] * o->stride[k];
    }
    for (int64_t done = 0; done < count;) {
        /* the longest run along the innermost axis */
        int64_t run = o->shape[inner] - at[inner];
        if (run > count - done) run = count - done;
        run_load(o, tile + done, offset, o->stride[inner], run);
        done += run;
        offset += run * o->stride[inner];
        at[inner] += run;
        /* carry: the inner axis is at its end */
        for (int k = inner; k > 0 && at[k] == o->shape[k]; k--) {
            offset += o->stride[k - 1] - at[k] * o->stride[k];
            at[k] = 0;
            at[k - 1]++;
        }
    }
}

void SIMD(tile_store)(void *data, weft_dtype dtype, const float *tile, int64_t begin, int64_t count) {
    uint8_t *to = (uint8_t *)data + begin; /* bool and u8 are the same byte */
    if (dtype_is_row(dtype)) {
        reduced_store(data, dtype, begin, tile, count);
        return;
    }
    for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)tile[i];
}
