/* parts.c - the weight gradient of a convolution (of images or volumes) as a sum over parts of the batch, one
 * for each thread.
 *
 * When oneDNN itself divides the images among threads (it then keeps a sum for each, or copies images for the
 * others), its threads meet at barriers inside the primitive that spin without end. When another process
 * takes one of the cores, one thread has none, and the others spin until the scheduler preempts them: a whole
 * time slice for each barrier. Here each part is a primitive of one thread, sums are f32 and added in the
 * order of the parts, and threads wait as OpenMP's do. 2 cores of a Zen 5, 3 x 3, batch 16, medians of 11 to
 * 15, ms: one thread, oneDNN's two threads, two parts
 *                                      alone                 beside a busy process
 *     f32   32 -> 32, 28 x 28     1.16  4.01  1.14            1.22  4.01  1.26
 *     bf16  32 -> 32, 28 x 28     0.86  0.38  0.42            0.65  4.00  0.74
 *     bf16  64 -> 64, 14 x 14     0.66  0.38  0.41            0.62  4.00  0.74
 *     bf16  128 -> 128, 28 x 28   11.2  5.70  5.75            10.9  12.0  10.0
 *     bf16  512 -> 512, 7 x 7     12.9  6.47  11.7 (declined here: oneDNN keeps one sum) */
#include "ops/image/conv2d.h"
#include "ops/cpu/onednn/conv.h"
#include "ops/work.h"

#include <string.h>

/* Elements of the sums that a thread adds at a time: 16 KiB of each, which the first cache holds. */
enum { PIECE = 4096 };

/* ---- a node as parts ---- */

/* Workspace: scratch of part 0, 1, ..., then sum of part 0, 1, ... */
typedef struct parts_plan {
    int count;            /* parts, which is also the number of threads */
    onednn_problem part;  /* run by one thread; all parts have this shape */
    bool is_packed;       /* sums have the primitive's format: the total is unpacked into the result */
    int64_t elements;     /* of one sum */
    size_t scratch_bytes; /* of one part, a multiple of MEM_ALIGN */
    size_t sum_bytes;     /* of one part; the sums follow all scratch */
    char implementation[KERNEL_IMPLEMENTATION];
} parts_plan;

/* Whether oneDNN's own division keeps about one sum for each thread, as this one does. If not, it divides the
 * channels instead, which is faster (the last line of the table). */
static bool keeps_sums(const onednn_problem *whole, const onednn_description *part, size_t sum_bytes) {
    onednn_description description;
    if (!onednn_describe(whole, &description)) return false;
    return description.scratch_bytes >= part->scratch_bytes + (size_t)(whole->threads - 1) * sum_bytes / 2;
}

/* Returns NULL and fills *p, or the reason to decline. */
static const char *plan_of(const weft_node *n, const kernel_env *env, parts_plan *p) {
    onednn_description description;
    onednn_problem whole;
    conv_problem(n, env, &whole);
    *p = (parts_plan){.count = whole.threads, .part = whole};
    if (p->count == 1) return "one thread";
    if (whole.src.shape[0] % p->count) return "a batch that is not a multiple of the threads";
    p->part.threads = 1;
    p->part.repack_threads = p->count;
    p->part.src.shape[0] = p->part.dst.shape[0] = whole.src.shape[0] / p->count;
    p->part.weight.dtype = WEFT_F32; /* of the sums; the result's type is p->part.plain */
    if (!onednn_describe(&p->part, &description) || description.is_reference)
        return "oneDNN has no primitive for a part";
    memcpy(p->implementation, description.implementation, sizeof p->implementation);
    p->is_packed = description.packed_bytes > 0;
    p->scratch_bytes = size_align(description.scratch_bytes, MEM_ALIGN);
    p->elements =
        p->is_packed ? (int64_t)(description.packed_bytes / sizeof(float)) : type_elements(&n->out[0].type);
    p->sum_bytes = size_align((size_t)p->elements * sizeof(float), MEM_ALIGN);
    return keeps_sums(&whole, &description, p->sum_bytes) ? NULL : "oneDNN keeps fewer sums than threads";
}

static const char *declines(const weft_node *n, const kernel_env *env) {
    parts_plan p;
    const char *why = onednn_exceeds(env);
    if (!why) why = conv_unfit(n);
    return why ? why : plan_of(n, env, &p);
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    parts_plan p;
    if (plan_of(n, env, &p)) return SIZE_MAX;
    return (size_t)p.count * (p.scratch_bytes + p.sum_bytes);
}

/* That of a part. */
static bool implementation(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]) {
    parts_plan p;
    if (plan_of(n, env, &p)) return false;
    memcpy(name, p.implementation, KERNEL_IMPLEMENTATION);
    return true;
}

/* ---- runs ---- */

/* A part's primitive, and how its last run ended: threads may not share c->error. */
typedef struct part {
    onednn *primitive;
    weft_status status; /* of the last run */
    weft_error error;
} part;

typedef struct parts_state {
    const weft_env *env;
    parts_plan plan;
    part *list;     /* [plan.count] */
    onednn *unpack; /* sum -> result; NULL when sums are plain */
} parts_state;

static void parts_close(void *state) {
    parts_state *s = state;
    if (!s) return;
    for (int i = 0; s->list && i < s->plan.count; i++) onednn_free(s->list[i].primitive);
    onednn_free(s->unpack);
    if (s->list) mem_free(s->env, s->list, (size_t)s->plan.count * sizeof *s->list);
    mem_free(s->env, s, sizeof *s);
}

static weft_status parts_build(parts_state *s, weft_error *error) {
    const parts_plan *p = &s->plan;
    s->list = mem_new(s->env, (size_t)p->count * sizeof *s->list);
    if (!s->list) return error_memory(error, "a convolution");
    weft_status status = WEFT_OK;
    for (int i = 0; i < p->count && !status; i++)
        status = onednn_new(&p->part, ONEDNN_GIVEN, s->env, &s->list[i].primitive, error);
    return status || !p->is_packed ? status : onednn_new(&p->part, ONEDNN_PACK, s->env, &s->unpack, error);
}

static weft_status parts_open(const weft_node *n, const kernel_env *env, void **state, weft_error *error) {
    parts_state *s = mem_new(env->env, sizeof *s);
    if (!s) return error_memory(error, "a convolution");
    s->env = env->env;
    const char *why = plan_of(n, env, &s->plan);
    weft_status status = why ? error_set(error, WEFT_UNSUPPORTED, "oneDNN: %s for %s", why, n->op->name)
                             : parts_build(s, error);
    if (status == WEFT_OK)
        *state = s;
    else
        parts_close(s);
    return status;
}

/* The sum of part i. */
static float *sum_at(const parts_plan *p, const kernel_call *c, int i) {
    return (float *)((char *)c->workspace + (size_t)p->count * p->scratch_bytes + (size_t)i * p->sum_bytes);
}

/* Images [i, i + 1) * N / count into sum i. */
static void part_run(const parts_state *s, const kernel_call *c, int i) {
    const parts_plan *p = &s->plan;
    part *one = &s->list[i];
    size_t image = dtype_bytes(c->in[0].type.dtype) * (size_t)(type_elements(&c->in[0].type) / p->count);
    size_t small = dtype_bytes(c->in[1].type.dtype) * (size_t)(type_elements(&c->in[1].type) / p->count);
    onednn_buffers b = {.src = (char *)c->in[0].data + (size_t)i * image,
                        .dst = (char *)c->in[1].data + (size_t)i * small,
                        .weight = sum_at(p, c, i)};
    if (p->scratch_bytes) b.scratch = (char *)c->workspace + (size_t)i * p->scratch_bytes;
    one->status = onednn_run(one->primitive, &b, &one->error);
}

/* to = the sums of the parts at [begin, end), added in the order of the parts: the bits depend on their
 * number only. */
static void parts_add(const parts_plan *p, const kernel_call *c, float *to, int64_t begin, int64_t end) {
    const float *first = sum_at(p, c, 0);
    if (to != first) memcpy(to + begin, first + begin, (size_t)(end - begin) * sizeof *to);
    for (int i = 1; i < p->count; i++) {
        const float *restrict more = sum_at(p, c, i);
        for (int64_t k = begin; k < end; k++) to[k] += more[k];
    }
}

/* One parallel region: all parts, OpenMP's barrier, then the sums piece by piece. */
static weft_status parts_run(void *state, const kernel_call *c) {
    parts_state *s = state;
    const parts_plan *p = &s->plan;
    float *to = p->is_packed ? sum_at(p, c, 0) : c->out[0].data;
#pragma omp parallel num_threads(p->count)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < p->count; i++) part_run(s, c, i);
#pragma omp for schedule(dynamic, 1)
        for (int64_t k = 0; k < p->elements; k += PIECE)
            parts_add(p, c, to, k, p->elements - k < PIECE ? p->elements : k + PIECE);
    }
    /* The error of the first part that failed. */
    for (int i = 0; i < p->count; i++) {
        if (s->list[i].status == WEFT_OK) continue;
        *c->error = s->list[i].error;
        return s->list[i].status;
    }
    if (!p->is_packed) return WEFT_OK;
    onednn_buffers b = {.packed = to, .weight = c->out[0].data, .scratch = c->workspace};
    return onednn_run(s->unpack, &b, c->error);
}

#define PARTS(of)                                                                                            \
    const weft_kernel onednn_parts_##of = {                                                                  \
        .name = "onednn_parts",                                                                              \
        .op = &weft_op_##of,                                                                                 \
        .min_isa = WEFT_ISA_SSE2,                                                                            \
        .declines = declines,                                                                                \
        .workspace = workspace,                                                                              \
        .implementation = implementation,                                                                    \
        .open = parts_open,                                                                                  \
        .run = parts_run,                                                                                    \
        .close = parts_close,                                                                                \
    }
PARTS(conv2d_weight);
PARTS(conv3d_weight);
