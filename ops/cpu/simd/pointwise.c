/* pointwise.c - the kernel of every pointwise node and of `fused`: threads take runs of tiles in the physical
 * order of the result; within a tile each op of the body is one vectorized loop over data that stays in the
 * L1 cache.
 *
 * Operands with the layout of the result are read in place, and f32 results are written in place; others pass
 * through tile buffers. A result may share memory with an operand of its type (the planner's in-place). So an
 * operand that a later step still reads after its memory is overwritten is copied to a buffer at the start of
 * the tile. */
#include "ops/cpu/simd/tile.h"
#include "ops/kit/ops.h"

/* Elements below which a second thread costs more than it saves. */
enum { WORTH_A_THREAD = 16 * 1024 };

/* One run of a node. */
typedef struct job {
    const tile_program *p;
    const kernel_call *c;
    int64_t elements, tile; /* tile: elements in a tile, TILE or less, a multiple of the operands' period */
    tile_operand operands[FUSED_MAX_IN];
    bool copied[FUSED_MAX_IN]; /* whether the operand passes through a buffer */
} job;

static const char *pointwise_declines(const weft_node *n, const kernel_env *env) {
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k].has_layout && !stride_same(&n->out[0].type, n->out[k].stride, n->out[0].stride))
            return "results in different layouts";
    return SIMD(tile_build)(n, NULL);
}

/* Slots of TILE floats that one thread has. */
static size_t slot_count(const tile_program *p) {
    return (size_t)(p->n_in + p->n_out + p->n_temporaries);
}

static size_t pointwise_workspace(const weft_node *n, const kernel_env *env) {
    tile_program p;
    if (SIMD(tile_build)(n, &p)) return 0;
    return slot_count(&p) * TILE * sizeof(float) * (size_t)env->threads;
}

typedef struct pointwise_state {
    tile_program program;
    const weft_env *env;
    size_t bytes;    /* of all of this */
    float numbers[]; /* the program's */
} pointwise_state;

/* The program and the numbers of its formulas are made once for each session. */
static weft_status pointwise_open(const weft_node *n, const kernel_env *env, void **state,
                                  weft_error *error) {
    size_t bytes = sizeof(pointwise_state) + SIMD(tile_numbers)(n, NULL, NULL) * sizeof(float);
    pointwise_state *s = mem_new(env->env, bytes);
    if (!s) return error_memory(error, n->op->name);
    const char *why = SIMD(tile_build)(n, &s->program);
    if (!why) SIMD(tile_numbers)(n, &s->program, s->numbers);
    s->env = env->env;
    s->bytes = bytes;
    *state = s;
    return why ? error_set(error, WEFT_INTERNAL, "%s: %s", n->op->name, why) : WEFT_OK;
}

static void pointwise_close(void *state) {
    pointwise_state *s = state;
    if (s) mem_free(s->env, s, s->bytes);
}

/* Whether a result overwrites operand i while a later step still reads it. */
static bool is_overwritten(const job *j, int i) {
    for (int r = 0; r < j->p->n_out; r++)
        if (j->c->out[r].data == j->c->in[i].data && j->p->defined[r] < j->p->last_use[i]) return true;
    return false;
}

/* An operand that is the same in every tile is loaded once; tiles are then a multiple of the common
 * period. */
static void job_operands(job *j, const int *axes, int n_axes) {
    int64_t period = 1;
    for (int i = 0; i < j->p->n_in; i++) {
        tile_operand *o = &j->operands[i];
        SIMD(tile_operand_of)(o, &j->c->in[i], &j->c->out[0], axes, n_axes);
        j->copied[i] = !o->in_place || is_overwritten(j, i);
        if (o->same_tile && o->period > period && o->period % period == 0) period = o->period;
    }
    j->tile = TILE / period * period;
    /* an operand whose period does not fit the tile is loaded for each tile */
    for (int i = 0; i < j->p->n_in; i++)
        if (j->tile % j->operands[i].period != 0) j->operands[i].same_tile = false;
}

/* One tile: load, run the steps, store. `first`: the first tile of this thread, whose buffers are empty. */
static void tile_run(const job *j, float *slots, int64_t begin, bool first) {
    const tile_program *p = j->p;
    float *at[TILE_MAX_SLOTS];
    int64_t count = j->elements - begin < j->tile ? j->elements - begin : j->tile;
    for (size_t s = 0; s < slot_count(p); s++) at[s] = slots + s * TILE;
    for (int i = 0; i < p->n_in; i++) {
        const tile_operand *o = &j->operands[i];
        if (!j->copied[i])
            at[i] = (float *)o->data + begin;
        else if (!o->same_tile || first)
            SIMD(tile_load)(o, at[i], begin, count);
    }
    for (int r = 0; r < p->n_out; r++)
        if (j->c->out[r].type.dtype == WEFT_F32) at[p->n_in + r] = (float *)j->c->out[r].data + begin;
    for (int k = 0; k < p->n_steps; k++) {
        const tile_step *s = &p->steps[k];
        s->run(at[s->out], at[s->in[0]], at[s->in[1]], at[s->in[2]], s->numbers, count);
    }
    for (int r = 0; r < p->n_out; r++) {
        const tensor *out = &j->c->out[r];
        if (out->type.dtype != WEFT_F32)
            SIMD(tile_store)(out->data, out->type.dtype, at[p->n_in + r], begin, count);
    }
}

/* The strides are the call's own: the layout pass may give a node's operands any. */
static weft_status pointwise_run(void *state, const kernel_call *c) {
    const pointwise_state *s = state;
    job j = {.p = &s->program, .c = c, .elements = type_elements(&c->out[0].type)};
    int axes[WEFT_MAX_NDIM], n_axes;
    if (!SIMD(tile_order)(&c->out[0], axes, &n_axes))
        return error_set(c->error, WEFT_INTERNAL, "%s: the result is not dense", c->node->op->name);
    job_operands(&j, axes, n_axes);
    int64_t tiles = (j.elements + j.tile - 1) / j.tile, threads = c->threads;
    /* Threads take contiguous runs of tiles, so that repeated operands are loaded once by each. */
    if (threads > j.elements / WORTH_A_THREAD + 1) threads = j.elements / WORTH_A_THREAD + 1;
    size_t room = slot_count(&s->program) * TILE;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++) {
        float *slots = (float *)c->workspace + (size_t)t * room;
        int64_t begin = tiles * t / threads, end = tiles * (t + 1) / threads;
        for (int64_t i = begin; i < end; i++) tile_run(&j, slots, i * j.tile, i == begin);
    }
    return WEFT_OK;
}

#define ROW(NAME, OF)                                                                                        \
    SIMD_KERNEL_OF(NAME, OF, .strided_in = ~0u, .declines = pointwise_declines,                              \
                   .workspace = pointwise_workspace, .open = pointwise_open, .run = pointwise_run,           \
                   .close = pointwise_close);
#define X(op, operands, numbers, expression) ROW(pointwise_##op, op)
#include "ops/pointwise/pointwise_list.h"
#undef X
ROW(pointwise_fused, fused)
