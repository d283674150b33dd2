/* kernel_check.c - see kernel_check.h. */
#include "support/kernels/kernel_check.h"

#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/kit/op_kit.h"
#include "ops/image/pack.h"
#include "ops/linalg/epilogue.h"
#include "support/kernels/naive.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_MAX_OUT = 16 };

/* The strides and sharing of memory in the trials of one kernel on one node. Layouts with different names
 * often give the same strides, and the same call twice shows nothing new. */
enum { MAX_LAIN = 200 };
typedef struct lain {
    int n;
    uint64_t each[MAX_LAIN]; /* hashes */
} lain;

/* The layout of operands and results in one trial. */
typedef struct trial {
    layout_kind layout;
    /* the only operand with that layout, the others are row-major or channels-last; -1: all have it */
    int only;
    int aliased; /* result `result` shares memory with this operand; -1: none */
    int result;
    kernel_runner *run;           /* NULL: on this processor */
    const kernel_promise *broken; /* NULL: all have layouts that the kernel's row allows */
    lain *before;                 /* NULL: this one runs in any case */
} trial;

typedef struct run_blocks {
    block in[SAMPLE_MAX_IN], out[TEST_MAX_OUT];
} run_blocks;

static bool has_bit(unsigned bits, int i) {
    return bits >> (i < 31 ? i : 31) & 1;
}

static bool is_plain(layout_kind layout) {
    return layout == LAYOUT_ROWS || layout == LAYOUT_CHANNELS_LAST || layout == LAYOUT_STRAY;
}

/* The layout nearest to the trial's, among those that the kernel accepts for operand i. */
static layout_kind operand_layout(const weft_node *n, const weft_kernel *kernel, int i, const trial *t) {
    if (t->broken && t->broken->operand == i) return t->broken->layout;
    layout_rule rule = kernel_input_layout(kernel, n, i);
    layout_kind wish = t->only >= 0 && t->only != i ? LAYOUT_ROWS : t->layout;
    bool is_image = rule == LIES_CHANNELS_LAST && type_is_image(&n->in[i]->type);
    if (rule == LIES_ANYHOW) return wish;
    if (wish == LAYOUT_STRAY) return is_image ? LAYOUT_STRAY_IMAGE : wish;
    if (wish == LAYOUT_SHIFTED && !is_image) return wish;
    return is_image ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS;
}

static layout_kind result_layout(const weft_node *n, const weft_kernel *kernel, int k, const trial *t) {
    if (t->broken && t->broken->result == k) return t->broken->layout;
    layout_rule rule = kernel_output_layout(kernel, n, k);
    bool is_image = rule == LIES_CHANNELS_LAST || (rule == LIES_EITHER && t->layout == LAYOUT_CHANNELS_LAST);
    return is_image ? LAYOUT_CHANNELS_LAST : LAYOUT_ROWS;
}

static uint64_t hash_more(uint64_t hash, uint64_t word) {
    return random_bits(&(test_random){hash ^ word});
}

static uint64_t hash_strides(uint64_t hash, const tensor_type *type, layout_kind layout) {
    int64_t stride[WEFT_MAX_NDIM] = {0};
    layout_strides(type, layout, stride);
    for (int i = 0; i < type->ndim; i++) hash = hash_more(hash, (uint64_t)stride[i]);
    return hash_more(hash, layout == LAYOUT_SHIFTED);
}

/* Whether an earlier trial had the same strides and shared the same memory; from now on one had. */
static bool has_lain(lain *l, const weft_node *n, const weft_kernel *kernel, const trial *t) {
    uint64_t hash = t->aliased < 0 ? 0 : hash_more((uint64_t)t->aliased + 1, (uint64_t)t->result);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) hash = hash_strides(hash, &n->in[i]->type, operand_layout(n, kernel, i, t));
    for (int k = 0; k < n->n_out; k++)
        hash = hash_strides(hash, &n->out[k].type, result_layout(n, kernel, k, t));
    for (int i = 0; i < l->n; i++)
        if (l->each[i] == hash) return true;
    if (l->n < MAX_LAIN) l->each[l->n++] = hash;
    return false;
}

static void note_layout(weft_value *v, const tensor *t) {
    v->has_layout = true;
    memcpy(v->stride, t->stride, sizeof v->stride);
}

/* As the memory pass notes a slice: kernels ask where in its buffer an operand begins. */
static void note_place(weft_value *v, const block *b) {
    static weft_value whole;
    bool is_shifted = b->t.data != b->room;
    v->base = is_shifted ? &whole : NULL;
    v->base_offset = is_shifted;
}

static void note_plain(weft_value *v, layout_kind layout) {
    tensor t = {.type = v->type};
    if (layout == LAYOUT_CHANNELS_LAST)
        stride_channels_last(&t.type, t.stride);
    else
        stride_row_major(&t.type, t.stride);
    note_layout(v, &t);
}

bool kernel_runs(weft_node *n, const weft_kernel *kernel, const kernel_env *env) {
    static const trial plain = {LAYOUT_ROWS, .only = -1};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) note_plain(n->in[i], operand_layout(n, kernel, i, &plain));
    for (int k = 0; k < n->n_out; k++) note_plain(&n->out[k], result_layout(n, kernel, k, &plain));
    return !kernel->declines || !kernel->declines(n, env);
}

const run_state sample_run = {.seed = 11, .step = 3, .micro = 1};

weft_status kernel_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                       const tensor *out, weft_error *error) {
    return kernel_run_at(n, kernel, env, &sample_run, in, out, error);
}

static weft_status run_call(weft_node *n, const weft_kernel *kernel, const kernel_env *env,
                            const run_state *at, const tensor *in, const tensor *out, bool is_checked,
                            weft_error *error) {
    void *state = NULL, *workspace = NULL;
    size_t bytes = kernel->workspace ? kernel->workspace(n, env) : 0;
    omp_set_num_threads(env->threads);
    weft_status status = kernel->open ? kernel->open(n, env, &state, error) : WEFT_OK;
    if (bytes) workspace = memset(test_memory(bytes), POISON, bytes);
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .workspace = workspace,
                     .threads = env->threads,
                     .run = at,
                     .error = error};
    if (status == WEFT_OK && is_checked) status = kernel_check_call(kernel, &c, error);
    if (status == WEFT_OK) status = kernel->run(state, &c);
    if (kernel->close) kernel->close(state);
    free(workspace);
    return status;
}

weft_status kernel_run_at(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const run_state *at,
                          const tensor *in, const tensor *out, weft_error *error) {
    return run_call(n, kernel, env, at, in, out, true, error);
}

/* Whatever the kernel's row says of its operands. */
static weft_status run_unchecked(weft_node *n, const weft_kernel *kernel, const kernel_env *env,
                                 const tensor *in, const tensor *out, weft_error *error) {
    return run_call(n, kernel, env, &sample_run, in, out, false, error);
}

/* Operand i in the form that the kernel wants, made by a `pack` node as the layout pass makes them; the node
 * then reads that. `b` owns the memory. */
static weft_status operand_pack(weft_node *n, int i, size_t bytes, const kernel_env *env, kernel_runner *run,
                                tensor *in, block *b, weft_error *error) {
    text signature = {0};
    node_signature(&signature, n);
    char *of = text_detach(&signature);
    pack_attrs a = {.of = of, .operand = i, .bytes = (int64_t)bytes};
    weft_node *pack = node_new(n->graph, &weft_op_pack, 1, &n->in[i], &a);
    free(of);
    const weft_kernel *kernel = pack ? kernel_select(pack, env, &n->graph->model->arena, NULL) : NULL;
    if (!kernel) return error_set(error, WEFT_UNSUPPORTED, "operand %d cannot be packed", i);
    *b = block_new(&pack->out[0].type, LAYOUT_ROWS);
    note_layout(&pack->out[0], &b->t);
    weft_status status = run(pack, kernel, env, &in[i], &b->t, error);
    n->in[i] = &pack->out[0];
    in[i] = b->t;
    return status;
}

/* Runs one kernel on copies of `data`; the results stay in *b. NULL, or the reason it was declined. */
static const char *kernel_try(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const trial *t,
                              const tensor *data, run_blocks *b, weft_error *error) {
    tensor in[SAMPLE_MAX_IN] = {0}, out[TEST_MAX_OUT] = {0};
    weft_value *plain[SAMPLE_MAX_IN];
    block packed[SAMPLE_MAX_IN] = {0};
    kernel_runner *run = t->run ? t->run : kernel_run;
    for (int i = 0; i < n->n_in; i++) {
        plain[i] = n->in[i];
        if (!n->in[i]) continue;
        b->in[i] = block_new(&n->in[i]->type, operand_layout(n, kernel, i, t));
        if (t->broken && !dtype_is_float(n->in[i]->type.dtype)) /* a gap is an index that there is */
            memset(b->in[i].room, 0, b->in[i].bytes);
        block_copy(&b->in[i], &data[i]);
        note_layout(n->in[i], &b->in[i].t);
        note_place(n->in[i], &b->in[i]);
        in[i] = b->in[i].t;
    }
    for (int k = 0; k < n->n_out; k++) {
        b->out[k] = block_new(&n->out[k].type, result_layout(n, kernel, k, t));
        note_layout(&n->out[k], &b->out[k].t);
        if (k == t->result && t->aliased >= 0) {
            if (!stride_same(&b->out[k].t.type, b->out[k].t.stride, in[t->aliased].stride))
                return "other strides";
            b->out[k].t.data = in[t->aliased].data;
        }
        out[k] = b->out[k].t;
    }
    const char *why = kernel->declines ? kernel->declines(n, env) : NULL;
    if (why) return why;
    weft_status status = WEFT_OK;
    /* `pack` depends on the kernel that the node will have; other kernels read plain operands only. */
    bool packs = kernel->packed_bytes && kernel == kernel_select(n, env, &n->graph->model->arena, NULL);
    for (int i = 0; i < n->n_in && status == WEFT_OK && packs; i++) {
        size_t bytes = n->in[i] ? kernel->packed_bytes(n, i, env) : 0;
        if (bytes) status = operand_pack(n, i, bytes, env, run, in, &packed[i], error);
    }
    if (status == WEFT_OK) status = run(n, kernel, env, in, out, error);
    error->status = status;
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = plain[i];
        block_free(&packed[i]);
    }
    return NULL;
}

static void run_blocks_free(run_blocks *b) {
    for (int i = 0; i < SAMPLE_MAX_IN; i++) block_free(&b->in[i]);
    for (int k = 0; k < TEST_MAX_OUT; k++) block_free(&b->out[k]);
}

/* Relative to the element and the tensor's largest one: a few roundings, to `as`. Equal elements all round
 * one way, so where elements repeat there are more; other elements than the right ones are still far off. */
static double bound_of(weft_dtype as, bool repeats) {
    switch (as) {
    case WEFT_F64:
        return 1e-12;
    case WEFT_BF16:
        return repeats ? 3e-2 : 8e-3; /* a unit in the last place: roundings may fall apart */
    case WEFT_F16:
        return repeats ? 4e-3 : 1e-3;
    default:
        return repeats ? 4e-5 : 3e-6;
    }
}

static bool is_long;

void kernels_check_long(bool are_long) {
    is_long = are_long;
}

/* Sums of hundreds of terms in other orders: some roundings more. Other elements are far off still. */
static double long_factor(weft_dtype as) {
    if (!is_long) return 1;
    return as == WEFT_F32 ? 16 : 2;
}

static bool libraries_are_real;

void kernels_check_real_libraries(bool real) {
    libraries_are_real = real;
}

/* The least bound of a node whose results are sums of differences, which may cancel. */
static double cancelling_bound(const weft_node *n) {
    return n->op == &weft_op_attention_backward ? 1e-4 : 0;
}

/* The least bound for a node that NVIDIA's libraries compute in their own way, 0 for others. A fused gelu
 * may use tanh.approx.f32, whose relative error is 2^-11 (PTX ISA) and grows by z in the slope; a convolution
 * of f32 may be Winograd's, whose transforms lose a digit. Both are right; the emulated GPU does neither. */
static double library_bound(const weft_node *n) {
    if (!libraries_are_real) return 0;
    if (n->op == &weft_op_linear_act)
        return ((const linear_act_attrs *)n->attrs)->act == ACT_GELU_TANH ? 1e-3 : 0;
    if (n->op == &weft_op_matmul_act_backward)
        return ((const matmul_act_attrs *)n->attrs)->act == ACT_GELU_TANH ? 1e-2 : 0;
    return strncmp(n->op->name, "conv", 4) == 0 ? 3e-5 : 0;
}

enum { EXACT = -1 };

/* Beside the bound of the result's type. */
static double least_bound(const weft_node *n) {
    return op_is_exact(n->op) ? EXACT : fmax(library_bound(n), cancelling_bound(n));
}

/* Are the tensors equal up to rounding to `as`, or within `least` (EXACT: to the bit)? If not, `at` is the
 * first place where they differ, and *most the largest element. */
static bool is_alike(const tensor *got, const tensor *want, weft_dtype as, bool repeats, double least,
                     int64_t at[WEFT_MAX_NDIM], double *most) {
    enum { F16_SAFE = 4096 }; /* sums of more equal elements may leave f16 on their way */
    double bound = least == EXACT ? 0 : fmax(bound_of(as, repeats) * long_factor(as), least);
    bool exact = !dtype_is_float(want->type.dtype);
    *most = 0;
    do *most = fmax(*most, fabs(element_get(want, at)));
    while (index_next(&want->type, at));
    if (repeats && as == WEFT_F16 && *most > F16_SAFE) return true;
    do {
        double g = element_get(got, at), w = element_get(want, at);
        bool good = exact ? element_int(got, at) == element_int(want, at)
                          : fabs(g - w) <= bound * (fabs(w) + *most / 4) || (isnan(g) && isnan(w)) || g == w;
        if (!good) return false;
    } while (index_next(&want->type, at));
    return true;
}

static void compare(const char *what, const char *which, int k, const tensor *got, const tensor *want,
                    weft_dtype as, bool repeats, double least) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    double most;
    bool good = is_alike(got, want, as, repeats, least, at, &most);
    CHECK_SAYS(good, "%s: %s %d is %.9g, not %.9g at [%lld,%lld,%lld,%lld] (largest %g)", what, which, k,
               element_get(got, at), element_get(want, at), (long long)at[0], (long long)at[1],
               (long long)at[2], (long long)at[3], most);
}

/* A state that is rounded in each step, by a unit in the last place otherwise, gives the next step other
 * numbers: results in f32 are as exact as the state. */
static bool has_rounded_steps(const weft_node *n) {
    return n->op == &weft_op_lstm || n->op == &weft_op_lstm_backward || n->op == &weft_op_gru_backward;
}

static weft_dtype rounded_to(const weft_node *n, const weft_kernel *kernel, int k) {
    bool rounds = kernel->rounds_f32_output && k == 0 && n->n_in > 0 && n->in[0];
    return rounds || has_rounded_steps(n) ? n->in[0]->type.dtype : n->out[k].type.dtype;
}

static bool kernel_check(weft_node *n, const char *of, const weft_kernel *kernel, const kernel_env *env,
                         const trial *t, const tensor *data, const run_blocks *want) {
    run_blocks got = {0};
    weft_error error = {0};
    char what[800];
    if (t->before && has_lain(t->before, n, kernel, t)) return false;
    snprintf(what, sizeof what,
             "%.600s by %s for %s, layout %d of operand %d (-1: all), result %d in place of %d, %d threads",
             of, kernel->name, isa_name(env->isa), t->layout, t->only, t->result, t->aliased, env->threads);
    bool repeats = t->layout >= LAYOUT_REPEATS_EVEN;
    const char *declined = kernel_try(n, kernel, env, t, data, &got, &error);
    if (!declined && CHECK_SAYS(error.status == WEFT_OK, "%s: %s", what, error.text)) {
        for (int k = 0; k < n->n_out; k++)
            compare(what, "result", k, &got.out[k].t, &want->out[k].t, rounded_to(n, kernel, k), repeats,
                    least_bound(n));
        for (int i = 0; i < n->n_in; i++)
            if (has_bit(n->op->writes, i) && n->in[i])
                compare(what, "operand", i, &got.in[i].t, &want->in[i].t, want->in[i].t.type.dtype, repeats,
                        0);
    }
    run_blocks_free(&got);
    return !declined;
}

/* May result k take the memory of operand i? */
static bool may_alias(const weft_node *n, int i, int k) {
    bool pointwise = n->op->flags & OP_POINTWISE || n->n_body;
    bool in_place = pointwise || (k == n->op->in_place_result && has_bit(n->op->in_place, i));
    return in_place && n->in[i] && type_equal(&n->in[i]->type, &n->out[k].type);
}

static bool has_strays(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        for (int k = 0; n->in[i] && k < n->in[i]->type.ndim; k++)
            if (n->in[i]->type.shape[k] == 1) return true;
    return false;
}

static bool has_images(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && type_is_image(&n->in[i]->type)) return true;
    return false;
}

static bool draws_on_devices;

void kernels_check_drawn(bool drawn) {
    draws_on_devices = drawn;
}

/* Short runs, and those of the emulated GPU, have some of many trials, drawn. */
static bool is_slow(kernel_runner *run) {
    return test_is_quick() || (run && draws_on_devices);
}

static int draw(int count) {
    static test_random dealer;
    if (!dealer.state) dealer.state = test_seed(1);
    return (int)(random_bits(&dealer) % (uint64_t)count);
}

/* In one layout: all operands in it, then each alone, or one that is drawn. */
static bool layout_trials(weft_node *n, const char *what, const weft_kernel *kernel, const kernel_env *env,
                          trial t, const tensor *data, const run_blocks *want) {
    int any = 0, list[SAMPLE_MAX_IN];
    bool taken = kernel_check(n, what, kernel, env, &t, data, want);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && kernel_input_layout(kernel, n, i) == LIES_ANYHOW) list[any++] = i;
    if (any < 2 || env->threads > 1) return taken;
    int one = is_slow(t.run) ? draw(any) : -1;
    for (int k = 0; k < any; k++) {
        t.only = list[k];
        if (one < 0 || k == one) taken |= kernel_check(n, what, kernel, env, &t, data, want);
    }
    return taken;
}

/* Result k in the memory of operand i, where it may be. */
static bool alias_trials(weft_node *n, const char *what, const weft_kernel *kernel, const kernel_env *env,
                         trial t, const tensor *data, const run_blocks *want) {
    bool taken = false;
    for (t.result = 0; t.result < n->n_out; t.result++)
        for (t.aliased = 0; t.aliased < n->n_in; t.aliased++)
            if (may_alias(n, t.aliased, t.result))
                taken |= kernel_check(n, what, kernel, env, &t, data, want);
    return taken;
}

static int layouts_of(const weft_node *n, layout_kind *list) {
    int count = 0;
    list[count++] = LAYOUT_ROWS;
    if (is_long) return count;
    if (has_strays(n)) list[count++] = LAYOUT_STRAY;
    list[count++] = LAYOUT_ODD;
    list[count++] = LAYOUT_RAGGED;
    list[count++] = LAYOUT_SPACED;
    list[count++] = LAYOUT_SHIFTED;
    if (has_images(n)) list[count++] = LAYOUT_CHANNELS_LAST;
    return count;
}

/* Which of `count` layouts a node and kernel get; -1: all. A device's pointwise kernel is compiled for each,
 * and its source handles layouts apart from the formula, so other nodes show the other layouts. */
static int one_layout(int count, const weft_node *n, kernel_runner *run) {
    bool is_compiled = run && draws_on_devices && n->op->flags & OP_POINTWISE && !n->n_body;
    return test_is_quick() || is_compiled ? draw(count) : -1;
}

/* Operands whose elements repeat come in one of the layouts that repeat them. Returns whether the kernel took
 * the node. */
static bool kernel_trials(weft_node *n, const char *what, const weft_kernel *kernel, const kernel_env *env,
                          kernel_runner *run, layout_kind repeats, const tensor *data,
                          const run_blocks *want) {
    lain before = {0};
    trial t = {repeats, .only = -1, .aliased = -1, .run = run, .before = &before};
    if (!is_plain(repeats)) return layout_trials(n, what, kernel, env, t, data, want);
    layout_kind layouts[7];
    int count = layouts_of(n, layouts), one = one_layout(count, n, run);
    bool taken = false;
    for (int k = 0; k < count; k++) {
        if (one >= 0 && k != one) continue;
        t.layout = layouts[k];
        taken |= layout_trials(n, what, kernel, env, t, data, want);
        if (is_plain(layouts[k])) taken |= alias_trials(n, what, kernel, env, t, data, want);
    }
    return taken;
}

/* Design: the bits of our own kernels do not depend on the number of threads. */
static void threads_check(weft_node *n, const char *of, const weft_kernel *kernel, weft_isa isa,
                          const tensor *data) {
    run_blocks one = {0}, three = {0};
    weft_error error = {0};
    const char *declined =
        kernel_try(n, kernel, &(kernel_env){isa, 1}, &(trial){.only = -1, .aliased = -1}, data, &one, &error);
    if (!declined)
        declined = kernel_try(n, kernel, &(kernel_env){isa, 3}, &(trial){.only = -1, .aliased = -1}, data,
                              &three, &error);
    for (int k = 0; k < n->n_out && !declined; k++)
        CHECK_SAYS(memcmp(one.out[k].room, three.out[k].room, one.out[k].bytes) == 0,
                   "%s by %s: result %d has other bits with 3 threads", of, kernel->name, k);
    run_blocks_free(&one);
    run_blocks_free(&three);
}

static naive naive_of(const tensor_type *type, const tensor *data) {
    naive x = {*type, test_memory((size_t)type_elements(type) * sizeof(double))};
    if (data) naive_read(data, x.v);
    return x;
}

static block naive_block(const naive *x) {
    block b = block_new(&x->type, LAYOUT_ROWS);
    naive_write(&b.t, x->v);
    return b;
}

/* The result of plain loops that share no code with any kernel, the reference included; false: naive.h does
 * not know the op. */
static bool naive_results(const weft_node *n, const tensor *data, run_blocks *want) {
    naive in[SAMPLE_MAX_IN] = {0}, out[TEST_MAX_OUT] = {0};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) in[i] = naive_of(&n->in[i]->type, &data[i]);
    for (int k = 0; k < n->n_out; k++) out[k] = naive_of(&n->out[k].type, NULL);
    bool is_known = naive_run(n, in, out);
    for (int k = 0; k < n->n_out; k++) {
        if (is_known) want->out[k] = naive_block(&out[k]);
        free(out[k].v);
    }
    for (int i = 0; i < n->n_in; i++) {
        if (is_known && n->in[i]) want->in[i] = naive_block(&in[i]);
        free(in[i].v);
    }
    return is_known;
}

/* The expected result: by naive.h or, for an op that it does not know, by the reference; false: there is
 * neither, or no memory. */
static bool wanted_results(weft_node *n, const tensor *data, run_blocks *want) {
    weft_error error = {0};
    const weft_kernel *list[16];
    kernel_env plain = {.isa = WEFT_ISA_REFERENCE, .threads = 1};
    int count = kernels_of(&weft_catalog, n->op, &plain, list, 16);
    if (count == 0 || n->n_out > TEST_MAX_OUT || n->n_in > SAMPLE_MAX_IN) return false;
    if (naive_results(n, data, want)) return true;
    const char *why =
        kernel_try(n, list[count - 1], &plain, &(trial){.only = -1, .aliased = -1}, data, want, &error);
    return CHECK_SAYS(!why && error.status == WEFT_OK, "%s: reference: %s", n->op->name, error.text);
}

static int trials_on(weft_node *n, const char *what, layout_kind repeats, const tensor *data,
                     const kernel_env *env, kernel_runner *run) {
    run_blocks want = {0};
    const weft_kernel *list[16];
    int count = kernels_of(&weft_catalog, n->op, env, list, 16), taken = 0;
    if (count && wanted_results(n, data, &want))
        for (int j = 0; j < count; j++)
            taken += kernel_trials(n, what, list[j], env, run, repeats, data, &want);
    run_blocks_free(&want);
    return taken;
}

static void trials_here(weft_node *n, const char *what, layout_kind repeats, const tensor *data) {
    run_blocks want = {0};
    kernel_env plain = {.isa = WEFT_ISA_REFERENCE, .threads = 1};
    const weft_kernel *list[16], *reference;
    int count = kernels_of(&weft_catalog, n->op, &plain, list, 16);
    if (!wanted_results(n, data, &want)) {
        run_blocks_free(&want);
        return;
    }
    reference = list[count - 1];
    for (weft_isa isa = WEFT_ISA_REFERENCE; isa <= isa_best(); isa++)
        for (int threads = 1; threads <= (is_plain(repeats) ? 3 : 1); threads += 2) {
            kernel_env env = {.isa = isa, .threads = threads};
            count = kernels_of(&weft_catalog, n->op, &env, list, 16);
            for (int j = 0; j < count; j++) {
                if (list[j] == reference && (isa != WEFT_ISA_REFERENCE || threads > 1))
                    continue;                                                              /* knows neither */
                if (list[j]->min_isa != isa && list[j]->min_isa > WEFT_ISA_SSE2) continue; /* had its turn */
                if (list[j]->min_isa != isa && is_long) continue;
                kernel_trials(n, what, list[j], &env, NULL, repeats, data, &want);
                if (is_plain(repeats) && threads == 3 && !strstr(list[j]->name, "onednn"))
                    threads_check(n, what, list[j], isa, data);
            }
        }
    run_blocks_free(&want);
}

/* Operands like `data`, but each element is that whose index is 0 on the axes that the layout repeats. */
static void repeat_operands(const weft_node *n, layout_kind layout, const tensor *data, block *b,
                            tensor *in) {
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        block once = block_new(&data[i].type, layout);
        b[i] = block_new(&data[i].type, LAYOUT_ROWS);
        block_copy(&once, &data[i]);
        block_copy(&b[i], &once.t);
        in[i] = b[i].t;
        block_free(&once);
    }
}

static bool takes_repeats(const weft_node *n, const kernel_env *env) {
    const weft_kernel *list[16];
    int count = kernels_of(&weft_catalog, n->op, env, list, 16);
    for (int j = 0; j < count; j++)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && kernel_input_layout(list[j], n, i) == LIES_ANYHOW) return true;
    return false;
}

/* Whatever kernels of `env` take at any strides also comes broadcast: along every second axis, then along the
 * others. */
static int repeat_trials(weft_node *n, const char *what, const tensor *data, const kernel_env *env,
                         kernel_runner *run) {
    int taken = 0, one = one_layout(2, n, run);
    for (layout_kind layout = LAYOUT_REPEATS_EVEN; layout <= LAYOUT_REPEATS_ODD; layout++) {
        block b[SAMPLE_MAX_IN] = {0};
        tensor in[SAMPLE_MAX_IN] = {0};
        if (one >= 0 && (int)layout != LAYOUT_REPEATS_EVEN + one) continue;
        if (n->n_in > SAMPLE_MAX_IN || !takes_repeats(n, env)) break;
        repeat_operands(n, layout, data, b, in);
        if (run)
            taken += trials_on(n, what, layout, in, env, run);
        else
            trials_here(n, what, layout, in);
        for (int i = 0; i < SAMPLE_MAX_IN; i++) block_free(&b[i]);
    }
    return taken;
}

int kernels_check_on(weft_node *n, const char *what, const tensor *data, const kernel_env *env,
                     kernel_runner *run) {
    return trials_on(n, what, LAYOUT_ROWS, data, env, run) + repeat_trials(n, what, data, env, run);
}

void kernels_check(weft_node *n, const char *what, const tensor *data) {
    trials_here(n, what, LAYOUT_ROWS, data);
    if (is_long) return;
    repeat_trials(n, what, data, &(kernel_env){.isa = isa_best(), .threads = 1}, NULL);
}

/* ---- what kernels' rows do not promise ---- */

static bool results_alike(const weft_node *n, const weft_kernel *kernel, const run_blocks *got,
                          const run_blocks *want) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    double most;
    bool good = true;
    for (int k = 0; k < n->n_out && good; k++)
        good = is_alike(&got->out[k].t, &want->out[k].t, rounded_to(n, kernel, k), false, 0, at, &most);
    for (int i = 0; i < n->n_in && good; i++)
        if (has_bit(n->op->writes, i) && n->in[i])
            good = is_alike(&got->in[i].t, &want->in[i].t, want->in[i].t.type.dtype, false, 0, at, &most);
    return good;
}

/* Are any elements of a value of this type at different offsets in the two layouts? */
static bool differ(const tensor_type *type, layout_kind a, layout_kind b) {
    block x = block_new(type, a), y = block_new(type, b);
    bool same = stride_same(type, x.t.stride, y.t.stride);
    block_free(&x);
    block_free(&y);
    return !same;
}

static kernel_promise *promise_of(kernel_promises *all, const weft_node *n, const weft_kernel *kernel,
                                  int operand, int result, layout_kind layout) {
    for (int i = 0; i < all->n; i++) {
        kernel_promise *p = &all->list[i];
        if (p->kernel == kernel && p->op == n->op && p->operand == operand && p->result == result &&
            p->layout == layout)
            return p;
    }
    if (!CHECK(all->n < MAX_PROMISES)) return NULL;
    all->list[all->n] = (kernel_promise){kernel, n->op, operand, result, layout};
    return &all->list[all->n++];
}

/* Operands that are plain by the kernel's row get `layout` instead. */
static void break_promise(kernel_promises *all, weft_node *n, const weft_kernel *kernel,
                          const kernel_env *env, kernel_promise place, const tensor *data,
                          const run_blocks *want) {
    static const trial plain = {LAYOUT_ROWS, .only = -1, .aliased = -1};
    bool is_operand = place.operand >= 0;
    const tensor_type *type = is_operand ? &n->in[place.operand]->type : &n->out[place.result].type;
    layout_kind due = is_operand ? operand_layout(n, kernel, place.operand, &plain)
                                 : result_layout(n, kernel, place.result, &plain);
    if (!differ(type, due, place.layout)) return;
    kernel_promise *p = promise_of(all, n, kernel, place.operand, place.result, place.layout);
    run_blocks got = {0};
    weft_error error = {0};
    trial t = plain;
    t.run = all->run ? all->run : run_unchecked;
    t.broken = p;
    if (!p) return;
    if (kernel_try(n, kernel, env, &t, data, &got, &error))
        p->declined++;
    else if (error.status || !results_alike(n, kernel, &got, want))
        p->wrong++;
    else
        p->right++;
    run_blocks_free(&got);
}

static void break_promises(kernel_promises *all, weft_node *n, const weft_kernel *kernel,
                           const kernel_env *env, const tensor *data, const run_blocks *want) {
    for (int i = 0; i < n->n_in; i++) {
        layout_rule rule = n->in[i] ? kernel_input_layout(kernel, n, i) : LIES_ANYHOW;
        layout_kind other = rule == LIES_CHANNELS_LAST ? LAYOUT_ROWS : LAYOUT_CHANNELS_LAST;
        if (rule == LIES_ANYHOW) continue;
        break_promise(all, n, kernel, env, (kernel_promise){.operand = i, .result = -1, .layout = LAYOUT_ODD},
                      data, want);
        break_promise(all, n, kernel, env, (kernel_promise){.operand = i, .result = -1, .layout = other},
                      data, want);
    }
    for (int k = 0; k < n->n_out; k++) {
        layout_rule rule = kernel_output_layout(kernel, n, k);
        layout_kind other = rule == LIES_CHANNELS_LAST ? LAYOUT_ROWS : LAYOUT_CHANNELS_LAST;
        if (rule == LIES_EITHER) continue;
        break_promise(all, n, kernel, env, (kernel_promise){.operand = -1, .result = k, .layout = other},
                      data, want);
    }
}

/* A kernel of the CPU has its turn at the instruction set that it wants. */
void kernel_promises_break(kernel_promises *all, weft_node *n, const tensor *data, const kernel_env *env) {
    run_blocks want = {0};
    const weft_kernel *list[16];
    int count = kernels_of(&weft_catalog, n->op, env, list, 16);
    if (count && wanted_results(n, data, &want))
        for (int j = 0; j < count; j++)
            if (list[j]->min_isa == env->isa || env->device != WEFT_DEVICE_CPU)
                break_promises(all, n, list[j], env, data, &want);
    run_blocks_free(&want);
}

/* What kernels can do although no row says so, because no plan would use it. */
static const struct {
    const char *op;
    int operand, result;
} unused[] = {
    {"attention_backward", 4, -1}, /* y: attention's own result, which is row-major */
    {"permute", -1, 0},            /* a copy: where strides alone would do it is a view */
    {"slice", -1, 0},              /* the same */
    /* weights of recurrent layers: parameters, so row-major, though a product would take them transposed */
    {"lstm_backward", 2, -1},
    {"gru_backward", 3, -1},
    {"rnn_backward", 2, -1},
};

/* The reference kernels use strides in most ops but claim so for few: a plan with them has the reorders that
 * other kernels want. */
static bool may_take_more(const kernel_promise *p) {
    bool may = !p->kernel->op;
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        may |= strcmp(p->op->name, unused[i].op) == 0 && p->operand == unused[i].operand &&
               p->result == unused[i].result;
    return may;
}

void kernel_promises_check(const kernel_promises *all, int least) {
    CHECK_SAYS(all->n >= least, "%d promises, not %d", all->n, least);
    for (int i = 0; i < all->n; i++) {
        const kernel_promise *p = &all->list[i];
        CHECK_SAYS(p->wrong || p->declined || may_take_more(p),
                   "%s by %s: no sample shows that it cannot %s %d in layout %d", p->op->name,
                   p->kernel->name, p->operand >= 0 ? "take operand" : "give result",
                   p->operand >= 0 ? p->operand : p->result, p->layout);
    }
}
