/* onednn.c - see onednn.h: problems as oneDNN's descriptors, primitives, memory objects.
 *
 * oneDNN takes the number of threads from OpenMP's setting of the calling thread, and chooses descriptors and
 * machine code by it. So each function that creates or runs something calls team_set first and
 * team_restore afterwards. */
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/library.h"
#include "ops/cpu/onednn/signals.h"

#include <dnnl_debug.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- descriptors ---- */

bool onednn_knows(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype == WEFT_BF16; /* f16 came with 3.x */
}

/* A memory descriptor of t, to be freed; `any`: shape and type only, the primitive chooses the format. */
static dnnl_status_t tensor_desc(const onednn_tensor *t, bool any, dnnl_memory_desc_t *made) {
    dnnl_dims_t shape;
    dnnl_data_type_t type = t->dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
    for (int i = 0; i < t->ndim; i++) shape[i] = t->shape[i];
    return library_desc_new(t->ndim, shape, type, any ? NULL : t->stride, made);
}

/* The weight before packing, which may have another element type than the packed one. */
static dnnl_status_t plain_desc(const onednn_problem *p, dnnl_memory_desc_t *made) {
    onednn_tensor plain = p->weight;
    plain.dtype = p->plain;
    return tensor_desc(&plain, false, made);
}

/* All zeroes for an absent tensor. */
typedef struct tensor_descs {
    dnnl_memory_desc_t src, weight, bias, dst;
} tensor_descs;

static void descs_free(tensor_descs *d) {
    dnnl_memory_desc_t *all[] = {&d->src, &d->weight, &d->bias, &d->dst};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) library_desc_free(all[i]);
}

/* The caller frees d, after a failure too. */
static dnnl_status_t problem_descs(const onednn_problem *p, tensor_descs *d) {
    memset(d, 0, sizeof *d);
    dnnl_status_t s = tensor_desc(&p->src, false, &d->src);
    /* a convolution chooses the weight's format */
    if (s == dnnl_success) s = tensor_desc(&p->weight, p->kind != ONEDNN_MATMUL, &d->weight);
    if (s == dnnl_success && p->bias.ndim) s = tensor_desc(&p->bias, false, &d->bias);
    if (s == dnnl_success) s = tensor_desc(&p->dst, false, &d->dst);
    return s;
}

/* The product of the axes of a tensor but one; INT64_MAX: more than that. */
static int64_t positions(const onednn_tensor *t, int but) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        if (i != but && __builtin_mul_overflow(n, t->shape[i], &n)) return INT64_MAX;
    return n;
}

/* Axes, and images times pixels or matrices times rows, are counted in ints: 2.6 divides by 2^32 rows, which
 * become 0, and 3.7 on AVX-512 by what 2^31 pixels become. */
static bool is_too_long(const onednn_problem *p) {
    const onednn_tensor *all[] = {&p->src, &p->weight, &p->dst};
    bool is_matmul = p->kind == ONEDNN_MATMUL;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < all[i]->ndim; k++)
            if (all[i]->shape[k] > INT32_MAX) return true;
        if (is_matmul || i != 1)
            if (positions(all[i], is_matmul ? all[i]->ndim - 1 : 1) > INT32_MAX) return true;
    }
    return false;
}

/* The problem in oneDNN's words; it points into d. */
static library_operation operation_of(const onednn_problem *p, const tensor_descs *d) {
    library_operation o = {.kind = p->kind,
                           .src = library_desc_of(&d->src),
                           .weight = library_desc_of(&d->weight),
                           .bias = p->bias.ndim ? library_desc_of(&d->bias) : NULL,
                           .dst = library_desc_of(&d->dst)};
    for (int i = 0; i < 3; i++) { /* it reads as many as src has axes after the channels */
        o.stride[i] = p->stride[i];
        o.before[i] = p->pad_before[i];
        o.after[i] = p->pad_after[i];
        o.dilation[i] = p->dilation[i] - 1;
    }
    return o;
}

/* Attributes that let the caller own the scratch memory, so that the plan can place it. NULL: no memory. */
static dnnl_primitive_attr_t attr_new(void) {
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success) return attr;
    dnnl_primitive_attr_destroy(attr);
    return NULL;
}

/* 3.x names what runs inside of an implementation after a '+': "ip:any+gemm:jit". */
static const char *innermost(const char *implementation) {
    const char *plus = strrchr(implementation, '+');
    return plus ? plus + 1 : implementation;
}

/* Whether it may use the stack pointer for something else while it runs: see signals.h. */
static bool moves_stack(const char *implementation) {
    const char *name = innermost(implementation);
    return strstr(name, "gemm") && !strstr(name, "brg");
}

/* How many columns of the window (rows, planes: by axis of the window) see only padding. The first output
 * pixel that may see a real pixel through column k is x; column k is blind when x is past the last output
 * pixel, or sees the padding after the image. */
static int64_t blind_columns(const onednn_problem *p, int axis) {
    int at_image = 2 + axis, at_window = p->weight.ndim - (p->src.ndim - at_image);
    int64_t columns = p->weight.shape[at_window], step = p->stride[axis], blind = 0;
    for (int64_t k = 0; k < columns; k++) {
        int64_t at = k * p->dilation[axis] - p->pad_before[axis], x = at < 0 ? (step - 1 - at) / step : 0;
        blind += x >= p->dst.shape[at_image] || at + x * step >= p->src.shape[at_image];
    }
    return blind;
}

/* Whether some see only padding: of an image's columns, and of a volume's columns, rows and planes. */
static bool is_partly_blind(const onednn_problem *p) {
    int axes = p->src.ndim - 2;
    bool is_blind = blind_columns(p, axes - 1) > 0;
    for (int i = 0; axes == 3 && i < axes - 1; i++) is_blind |= blind_columns(p, i) > 0;
    return is_blind;
}

/* Whether the window is dilated along an axis on which all of it sees only padding. */
static bool is_dilated_and_blind(const onednn_problem *p) {
    int axes = p->src.ndim - 2, first = p->weight.ndim - axes;
    bool is_blind = false;
    for (int i = 0; i < axes; i++)
        is_blind |= p->dilation[i] > 1 && blind_columns(p, i) == p->weight.shape[first + i];
    return is_blind;
}

/* Whether the window is longer than the image along one of the first `axes` (depth of volumes, height,
 * width). */
static bool is_longer(const onednn_problem *p, int axes) {
    int first = p->weight.ndim - (p->src.ndim - 2);
    bool longer = false;
    for (int i = 0; i < axes; i++)
        longer |= (p->weight.shape[first + i] - 1) * p->dilation[i] + 1 > p->src.shape[2 + i];
    return longer;
}

static bool has_strides(const onednn_problem *p) {
    for (int i = 0; i < p->src.ndim - 2; i++)
        if (p->stride[i] != 1) return true;
    return false;
}

/* Implementations that must not be used; tests/ops/test_onednn_sweep.c looks for more. What does not name
 * 3.7.2 was found in 2.6.3, and is declined in 3.x, too: 3.2 has the first defect on AVX2, and its code is
 * the same in 3.7.
 *
 * Weight gradients. "jit_1x1:avx2" and its AVX-512 variants (in bf16 too), with strides: they first copy the
 * pixels that the window sees into scratch. The room has `channels` elements for each pixel, but pixel i is
 * written at i times the vector's length: with fewer channels than that they write into other threads'
 * scratch and past the end of it all (oneDNN's issue 6035, open in 3.x). Wrong gradients, crashes and endless
 * loops were seen. "jit_bf16:avx512_core...": elements of the window that see only padding get the old
 * contents of the scratch, not 0 (of volumes on any axis, of images along the width); with strides and one
 * channel it reads past the end of the image; of volumes with a stride along the depth some elements of the
 * window are wrong; 3.7.2 is wrong where the window is longer than the volume is deep. "jit:avx512_common" of
 * volumes: with a stride along the depth and padding in front of more than that stride, so that a second
 * plane of the result begins in the padding, it reads before or past the image.
 *
 * Data gradients. "jit_bf16_1x1:avx512_core_bf16": wrong with an odd number of channels for some
 * numbers of pixels, such as 30, 59, 60, 89 (with strides or without); "jit_bf16_1x1:avx512_core", which has
 * no instructions for bf16, is right.
 *
 * Forward. "brg_conv_fwd:avx2" of 3.7.2, with a bias: where the window is dilated along the width and every
 * pixel of the result sees only padding there, it ends the process by SIGSEGV. "brg_conv_fwd:avx512..." of
 * 3.7.2, with one channel: wrong where results are one pixel wide or the window is longer than the image. */
static bool is_defective(const onednn_problem *p, const_dnnl_primitive_desc_t pd) {
    const char *name = innermost(library_name(pd));
    bool is_point = strstr(name, "1x1"), strides = p->kind != ONEDNN_MATMUL && has_strides(p);
    bool is_volume = p->src.ndim == 5; /* of a convolution */
    int64_t channels = p->src.shape[1];
    if (p->kind == ONEDNN_CONV_WEIGHT && is_point)
        return strides && channels < (strstr(name, "avx512") ? 16 : 8);
    if (p->kind == ONEDNN_CONV_WEIGHT && strstr(name, "jit_bf16"))
        return is_partly_blind(p) || (strides && channels == 1) ||
               (is_volume && (p->stride[0] != 1 || is_longer(p, 1)));
    if (p->kind == ONEDNN_CONV_WEIGHT && strncmp(name, "jit:", 4) == 0)
        return is_volume && p->stride[0] != 1 && p->pad_before[0] > p->stride[0];
    if (p->kind == ONEDNN_CONV && strncmp(name, "brg", 3) == 0)
        return is_dilated_and_blind(p) ||
               (channels == 1 && strstr(name, "avx512") &&
                (p->dst.shape[p->dst.ndim - 1] == 1 || is_longer(p, p->src.ndim - 2)));
    return p->kind == ONEDNN_CONV_DATA && is_point && strstr(name, "avx512_core_bf16") && p->dst.shape[1] % 2;
}

/* The first of the library's implementations, best first, that is not defective. On success the caller
 * destroys *pd. */
static dnnl_status_t primitive_desc(const onednn_problem *p, dnnl_engine_t engine,
                                    dnnl_primitive_desc_t *pd) {
    tensor_descs d;
    if (is_too_long(p)) return dnnl_unimplemented;
    dnnl_primitive_attr_t attr = attr_new();
    if (!attr) return dnnl_out_of_memory;
    dnnl_status_t s = problem_descs(p, &d);
    library_operation o = operation_of(p, &d);
    for (int i = 0; s == dnnl_success; i++) {
        s = library_implementation(&o, i, attr, engine, pd);
        if (s != dnnl_success || !is_defective(p, *pd)) break;
        dnnl_primitive_desc_destroy(*pd);
    }
    descs_free(&d);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

/* The weight in the primitive's format; the descriptor belongs to pd. */
static library_desc packed_desc(const onednn_problem *p, const_dnnl_primitive_desc_t pd) {
    bool is_result = p->kind == ONEDNN_CONV_WEIGHT;
    return dnnl_primitive_desc_query_md(pd, is_result ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
                                        0);
}

static int repack_threads(const onednn_problem *p) {
    return p->repack_threads ? p->repack_threads : p->threads;
}

/* The reorder between the plain and the packed weight: it packs, or for weight gradients unpacks. Sets the
 * number of OpenMP threads; the caller restores it. */
static dnnl_status_t repack_desc(const onednn_problem *p, library_desc plain, library_desc packed,
                                 dnnl_engine_t engine, dnnl_primitive_desc_t *pd) {
    bool unpacks = p->kind == ONEDNN_CONV_WEIGHT;
    dnnl_primitive_attr_t attr = attr_new();
    if (!attr) return dnnl_out_of_memory;
    omp_set_num_threads(repack_threads(p));
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(pd, unpacks ? packed : plain, engine,
                                                         unpacks ? plain : packed, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

static size_t scratch_bytes(const_dnnl_primitive_desc_t pd) {
    library_desc md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    return md ? dnnl_memory_desc_get_size(md) : 0;
}

/* ---- description ---- */

/* OpenMP's settings of the calling thread. */
typedef struct team {
    int threads, is_dynamic;
} team;

/* Regions get exactly that many threads. Returns the settings before, for team_restore. */
static team team_set(int threads) {
    team before = {omp_get_max_threads(), omp_get_dynamic()};
    omp_set_num_threads(threads);
    omp_set_dynamic(false); /* else it may be fewer on a busy machine, and others from region to region */
    return before;
}

static void team_restore(team before) {
    omp_set_num_threads(before.threads);
    omp_set_dynamic(before.is_dynamic);
}

/* gemm:jit, which runs matmul below AVX-512, allocates its own buffers in each run, where the plan cannot
 * place them. The plan counts about as much (mlp and gpt, AVX2, 2.6.3 and 3.2 alike: 1.8 to 1.9 MB with 2
 * threads, 1.5 MB with one). */
static size_t hidden_bytes(int threads) {
    return (1200 + 300 * (size_t)threads) * 1024;
}

/* What the packing of the weight adds. One scratch serves the primitive and the repacking, which follow one
 * another: the larger of both. */
static bool add_packing(const onednn_problem *p, library_desc plain, library_desc packed,
                        dnnl_engine_t engine, onednn_description *description) {
    dnnl_primitive_desc_t repack;
    if (dnnl_memory_desc_equal(packed, plain)) return true;
    description->packed_bytes = dnnl_memory_desc_get_size(packed);
    if (repack_desc(p, plain, packed, engine, &repack) != dnnl_success) return false;
    size_t bytes = scratch_bytes(repack);
    if (bytes > description->scratch_bytes) description->scratch_bytes = bytes;
    dnnl_primitive_desc_destroy(repack);
    return true;
}

static bool facts_of(const onednn_problem *p, dnnl_engine_t engine, const_dnnl_primitive_desc_t pd,
                     onednn_description *description) {
    const char *name = library_name(pd);
    *description = (onednn_description){.scratch_bytes = scratch_bytes(pd),
                                        .is_reference = strncmp(innermost(name), "ref", 3) == 0};
    snprintf(description->implementation, sizeof description->implementation, "%s", name);
    if (strstr(name, "gemm")) description->scratch_bytes += hidden_bytes(p->threads);
    if (p->kind == ONEDNN_MATMUL) return true;
    library_desc packed = packed_desc(p, pd);
    dnnl_memory_desc_t plain;
    if (!packed || plain_desc(p, &plain) != dnnl_success) return false;
    bool fine = add_packing(p, library_desc_of(&plain), packed, engine, description);
    library_desc_free(&plain);
    return fine;
}

/* oneDNN 3 catches no std::bad_alloc, and reads NULL where a table could not be made: the process ends. So
 * nothing is asked of it unless ENGINE_ROOM bytes of addresses are free; they are not touched. */
enum { ENGINE_ROOM = 8 << 20 };

static dnnl_status_t engine_new(dnnl_engine_t *engine) {
    void *room = mmap(NULL, ENGINE_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return dnnl_out_of_memory;
    munmap(room, ENGINE_ROOM);
    return dnnl_engine_create(engine, dnnl_cpu, 0);
}

/* Engine and descriptor live only for this call: nothing that a plan must keep. */
bool onednn_describe(const onednn_problem *p, onednn_description *description) {
    dnnl_engine_t engine;
    dnnl_primitive_desc_t pd;
    if (engine_new(&engine) != dnnl_success) return false;
    team before = team_set(p->threads);
    bool fine = primitive_desc(p, engine, &pd) == dnnl_success;
    if (fine) {
        fine = facts_of(p, engine, pd, description);
        dnnl_primitive_desc_destroy(pd);
    }
    team_restore(before);
    dnnl_engine_destroy(engine);
    return fine;
}

/* ---- primitives ---- */

/* A memory object, and the address it has now (NULL at first). */
typedef struct place {
    dnnl_memory_t memory;
    void *at;
} place;

struct onednn {
    const weft_env *env; /* its allocator made this struct */
    onednn_kind kind;
    int threads;
    /* The primitive runs before the repacking (a weight gradient); else the repacking is first. */
    bool runs_first;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive, repack; /* NULL: a run has no such part */
    signal_mask *signals;               /* [threads]: they wait while the primitive runs; NULL: no need */
    /* `weight` is the packed weight when the caller's plain one (`plain`) is repacked. */
    place src, weight, bias, dst, scratch, repack_scratch, plain;
};

/* oneDNN's status as ours; `doing` completes the sentence "oneDNN: ... failed". */
static weft_status status_of(dnnl_status_t s, weft_error *error, const char *doing) {
    if (s == dnnl_success) return WEFT_OK;
    if (s == dnnl_out_of_memory) return error_memory(error, "oneDNN");
    return error_set(error, s == dnnl_unimplemented ? WEFT_UNSUPPORTED : WEFT_INTERNAL,
                     "oneDNN: %s failed with status %d", doing, (int)s);
}

/* The memory object gets its address in the first run. */
static dnnl_status_t place_new(onednn *o, place *p, library_desc md) {
    return dnnl_memory_create(&p->memory, md, o->engine, DNNL_MEMORY_NONE);
}

/* The memory objects of the primitive. On failure some may exist: onednn_free destroys them. */
static dnnl_status_t places_new(onednn *o, const onednn_problem *p, const_dnnl_primitive_desc_t pd) {
    tensor_descs d;
    dnnl_status_t s = problem_descs(p, &d);
    if (s == dnnl_success) s = place_new(o, &o->src, library_desc_of(&d.src));
    if (s == dnnl_success) s = place_new(o, &o->dst, library_desc_of(&d.dst));
    if (s == dnnl_success && p->bias.ndim) s = place_new(o, &o->bias, library_desc_of(&d.bias));
    if (s == dnnl_success)
        s = place_new(o, &o->weight,
                      p->kind == ONEDNN_MATMUL ? library_desc_of(&d.weight) : packed_desc(p, pd));
    if (s == dnnl_success)
        s = place_new(o, &o->scratch, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    descs_free(&d);
    return s;
}

static dnnl_status_t repack_build(onednn *o, const onednn_problem *p, library_desc plain,
                                  library_desc packed) {
    dnnl_primitive_desc_t pd;
    dnnl_status_t s = repack_desc(p, plain, packed, o->engine, &pd);
    if (s != dnnl_success) return s;
    s = dnnl_primitive_create(&o->repack, pd);
    if (s == dnnl_success) s = place_new(o, &o->plain, plain);
    if (s == dnnl_success)
        s = place_new(o, &o->repack_scratch, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    dnnl_primitive_desc_destroy(pd);
    return s;
}

/* Nothing to make when the primitive's format is the plain one. */
static dnnl_status_t repack_new(onednn *o, const onednn_problem *p, library_desc packed) {
    dnnl_memory_desc_t plain;
    dnnl_status_t s = plain_desc(p, &plain);
    if (s != dnnl_success) return s;
    if (!dnnl_memory_desc_equal(packed, library_desc_of(&plain)))
        s = repack_build(o, p, library_desc_of(&plain), packed);
    library_desc_free(&plain);
    return s;
}

static dnnl_status_t signals_new(onednn *o) {
    o->signals = mem_new_array(o->env, (size_t)o->threads, sizeof *o->signals);
    return o->signals ? dnnl_success : dnnl_out_of_memory;
}

/* On failure o may be half made: onednn_free releases what is there. */
static dnnl_status_t build(onednn *o, const onednn_problem *p, onednn_weight weight) {
    dnnl_primitive_desc_t pd;
    dnnl_status_t s = engine_new(&o->engine);
    if (s == dnnl_success) s = dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags);
    if (s == dnnl_success) s = primitive_desc(p, o->engine, &pd);
    if (s != dnnl_success) return s;
    s = places_new(o, p, pd);
    if (s == dnnl_success && moves_stack(library_name(pd))) s = signals_new(o);
    if (s == dnnl_success && weight != ONEDNN_PACK) s = dnnl_primitive_create(&o->primitive, pd);
    if (s == dnnl_success && weight != ONEDNN_GIVEN && p->kind != ONEDNN_MATMUL)
        s = repack_new(o, p, packed_desc(p, pd));
    dnnl_primitive_desc_destroy(pd);
    return s;
}

/* A primitive of ONEDNN_PACK only repacks, so it runs with the threads of the repacking. */
weft_status onednn_new(const onednn_problem *p, onednn_weight weight, const weft_env *env, onednn **made,
                       weft_error *error) {
    onednn *o = mem_new(env, sizeof *o);
    if (!o) return error_memory(error, "oneDNN primitive");
    o->env = env;
    o->kind = p->kind;
    o->threads = weight == ONEDNN_PACK ? repack_threads(p) : p->threads;
    o->runs_first = p->kind == ONEDNN_CONV_WEIGHT;
    /* both the descriptor and the machine code depend on the number of threads */
    team before = team_set(p->threads);
    weft_status status = status_of(build(o, p, weight), error, "building a primitive");
    team_restore(before);
    if (status == WEFT_OK)
        *made = o;
    else
        onednn_free(o);
    return status;
}

void onednn_free(onednn *o) {
    if (!o) return;
    place *all[] = {&o->src, &o->weight, &o->bias, &o->dst, &o->scratch, &o->repack_scratch, &o->plain};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->memory) dnnl_memory_destroy(all[i]->memory);
    if (o->primitive) dnnl_primitive_destroy(o->primitive);
    if (o->repack) dnnl_primitive_destroy(o->repack);
    if (o->stream) dnnl_stream_destroy(o->stream);
    if (o->engine) dnnl_engine_destroy(o->engine);
    if (o->signals) mem_free(o->env, o->signals, (size_t)o->threads * sizeof *o->signals);
    mem_free(o->env, o, sizeof *o);
}

/* ---- runs ---- */

/* Gives a memory object its address. Operands seldom move between runs, so most calls have nothing to do. */
static dnnl_status_t point(place *p, void *at) {
    if (!p->memory || !at || p->at == at) return dnnl_success;
    dnnl_status_t s = dnnl_memory_set_data_handle(p->memory, at);
    if (s == dnnl_success) p->at = at;
    return s;
}

/* Packs before the primitive, or unpacks the gradient after it. */
static dnnl_status_t run_repack(onednn *o) {
    if (!o->repack) return dnnl_success;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, o->runs_first ? o->weight.memory : o->plain.memory},
                              {DNNL_ARG_TO, o->runs_first ? o->plain.memory : o->weight.memory},
                              {DNNL_ARG_SCRATCHPAD, o->repack_scratch.memory}};
    return dnnl_primitive_execute(o->repack, o->stream, 3, args);
}

/* The tensors under the names that oneDNN has for this kind of problem. */
static dnnl_status_t run_primitive(onednn *o) {
    if (!o->primitive) return dnnl_success;
    bool is_forward = o->kind == ONEDNN_CONV || o->kind == ONEDNN_MATMUL;
    /* The bias is the last argument, so that its absence shortens the list. */
    dnnl_exec_arg_t args[] = {
        {o->kind == ONEDNN_CONV_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, o->src.memory},
        {o->kind == ONEDNN_CONV_WEIGHT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, o->weight.memory},
        {is_forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, o->dst.memory},
        {DNNL_ARG_SCRATCHPAD, o->scratch.memory},
        {DNNL_ARG_BIAS, o->bias.memory},
    };
    if (o->signals) signals_hold(o->signals, o->threads);
    dnnl_status_t s = dnnl_primitive_execute(o->primitive, o->stream, o->bias.memory ? 5 : 4, args);
    if (o->signals) signals_release(o->signals, o->threads);
    return s;
}

/* On return all results are written: the stream has been waited for. */
weft_status onednn_run(onednn *o, const onednn_buffers *b, weft_error *error) {
    dnnl_status_t s = point(&o->src, b->src);
    if (s == dnnl_success) s = point(&o->dst, b->dst);
    if (s == dnnl_success) s = point(&o->bias, b->bias);
    if (s == dnnl_success) s = point(&o->scratch, b->scratch);
    if (s == dnnl_success) s = point(&o->repack_scratch, b->scratch);
    if (s == dnnl_success) s = point(&o->plain, b->weight);
    /* with repacking, the caller's weight is `plain` and the primitive's own one is `packed` */
    if (s == dnnl_success) s = point(&o->weight, o->repack ? b->packed : b->weight);
    team before = team_set(o->threads);
    if (s == dnnl_success && o->runs_first) s = run_primitive(o);
    if (s == dnnl_success) s = run_repack(o);
    if (s == dnnl_success && !o->runs_first) s = run_primitive(o);
    if (s == dnnl_success) s = dnnl_stream_wait(o->stream);
    team_restore(before);
    return status_of(s, error, "running a primitive");
}

/* ---- instruction sets ---- */

/* The highest of our instruction sets that oneDNN may use now. A processor other than x86-64 has one set of
 * ours, whatever oneDNN has there. */
static weft_isa isa_used(void) {
    if (isa_best() == WEFT_ISA_SSE2) return WEFT_ISA_SSE2;
    return library_isa((int)dnnl_get_effective_cpu_isa());
}

weft_status onednn_limit(weft_isa isa, weft_error *error) {
    if (isa == WEFT_ISA_AUTO || isa == WEFT_ISA_REFERENCE || isa >= isa_best()) return WEFT_OK;
    dnnl_set_max_cpu_isa(isa == WEFT_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
    if (isa_used() <= isa) return WEFT_OK;
    return error_set(error, WEFT_ORDER,
                     "oneDNN is in use at %s already: it can be limited to %s only before its first "
                     "use in a process",
                     isa_name(isa_used()), isa_name(isa));
}

/* The enumerator's name without what all of them begin with. */
onednn_library onednn_library_here(void) {
    static const char all[] = "cpu_isa_";
    onednn_library here;
    const dnnl_version_t *v = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    if (strncmp(isa, all, sizeof all - 1) == 0) isa += sizeof all - 1;
    snprintf(here.version, sizeof here.version, "%d.%d.%d", v->major, v->minor, v->patch);
    snprintf(here.isa, sizeof here.isa, "%s", isa);
    here.set = isa_used();
    return here;
}

const char *onednn_exceeds(const kernel_env *env) {
    return isa_used() > env->isa
               ? "oneDNN would use a higher instruction set (it can be limited once a process)"
               : NULL;
}
