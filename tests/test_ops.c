/* test_ops.c - the test of all ops, written once: every sample of every op in ops/list.h gives the types it
 * says, or the error it says; attributes survive being printed; and every kernel of every instruction set
 * agrees with the op's reference, in each layout that the op may meet. Gradients: test_gradients.c. */
#include "ops/op_kit.h"
#include "support/sample.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH_SAMPLE(op, s)                                                                                   \
    for (int op##_index = 0; op##_index < op_count(); op##_index++)                                          \
        for (const weft_op *op = op_at(op##_index), *op##_once = op; op##_once; op##_once = NULL)            \
            for (const op_sample *s = op->samples; s && s->in; s++)

static void describe(const op_sample *s, const weft_op *op, char text[600]) {
    snprintf(text, 600, "%s(%.300s) %.200s", op->name, s->in, s->attrs ? s->attrs : "");
}

TEST(every_op_has_samples_a_summary_and_a_reference) {
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        CHECK_SAYS(op->summary && *op->summary, "%s has no summary", op->name);
        CHECK_SAYS(op->samples && op->samples->in, "%s has no samples", op->name);
        CHECK_SAYS(!(op->flags & OP_POINTWISE) || op->scalar, "%s is pointwise, but has no scalar()",
                   op->name);
        CHECK_SAYS(!(op->flags & OP_VIEW) || op->view, "%s is a view, but has no view()", op->name);
        /* first derivatives may be the last ones: their forward op says OP_GRADIENT_ONCE */
        bool may_lack = op->flags & OP_NO_GRADIENT || strstr(op->name, "_backward") || op == &weft_op_fused;
        CHECK_SAYS(op->gradient || may_lack, "%s has no gradient and is not marked as having none", op->name);
    }
}

TEST(every_good_sample_gives_the_types_it_says) {
    EACH_SAMPLE(op, spec) {
        char text[600];
        sample s;
        tensor_type want[OP_MAX_OUT];
        if (spec->error) continue;
        describe(spec, op, text);
        sample_build(&s, op, spec, false);
        if (CHECK_SAYS(s.n, "%s: %s", text, s.error_text) && spec->out) {
            int n = types_parse(spec->out, want, OP_MAX_OUT);
            CHECK_SAYS(n == s.n->n_out, "%s: %d results, not %d", text, s.n->n_out, n);
            for (int k = 0; k < n && k < s.n->n_out; k++)
                CHECK_SAYS(type_equal(&want[k], &s.n->out[k].type), "%s: result %d is %s, not %s", text, k,
                           TYPE(&s.n->out[k].type), TYPE(&want[k]));
        }
        sample_free(&s);
    }
}

TEST(every_bad_sample_is_refused_with_its_reason) {
    EACH_SAMPLE(op, spec) {
        char text[600];
        sample s;
        if (!spec->error) continue;
        describe(spec, op, text);
        sample_build(&s, op, spec, false);
        CHECK_SAYS(!s.n, "%s should fail: %s", text, spec->error);
        CHECK_SAYS(strstr(s.error_text, spec->error), "%s: \"%s\" should hold \"%s\"", text, s.error_text,
                   spec->error);
        sample_free(&s);
    }
}

TEST(attributes_survive_being_printed) {
    EACH_SAMPLE(op, spec) {
        sample s;
        text t = {0};
        char why[200] = "";
        if (spec->error) continue;
        sample_build(&s, op, spec, false);
        if (s.n) {
            void *again = arena_new(&s.m->arena, op->attrs_bytes + 1);
            attrs_write(&t, op, s.n->attrs);
            char *printed = text_take(&t);
            const char *at = printed;
            CHECK_SAYS(attrs_parse(&at, op, again, &s.m->arena, why) && !*at, "%s:%s: %s", op->name, printed,
                       why);
            CHECK_SAYS(attrs_equal(op, s.n->attrs, again), "%s:%s reads back as something else", op->name,
                       printed);
            free(printed);
        }
        sample_free(&s);
    }
}

/* ---- kernels against the reference ---- */

/* How the operands and results of one trial lie, and with how many threads it runs. */
typedef struct trial {
    layout_kind layout;
    int aliased; /* result 0 shares memory with this operand; -1: none */
    int threads;
} trial;

enum { TEST_MAX_OUT = 16 };
typedef struct run_blocks {
    block in[SAMPLE_MAX_IN], out[TEST_MAX_OUT];
    block *workspace;
} run_blocks;

static bool has_bit(unsigned bits, int i) {
    return i < 32 && bits >> i & 1;
}

/* What the layout pass may hand to operand (result) i of such a node. */
static layout_kind layout_of(const weft_node *n, const weft_kernel *kernel, bool is_result, int i,
                             layout_kind wish) {
    const weft_op *op = n->op;
    bool any = op->flags & OP_POINTWISE || n->n_body || strcmp(op->name, "reorder") == 0;
    const weft_value *v = is_result ? &n->out[i] : n->in[i];
    if (v->type.ndim == 4 && has_bit(is_result ? op->image_out : op->image_in, i))
        return LAYOUT_CHANNELS_LAST;
    if (is_result) return any && wish == LAYOUT_CHANNELS_LAST ? wish : LAYOUT_ROWS;
    if (any || has_bit(op->strided_in | (kernel ? kernel->strided_in : 0), i)) return wish;
    return LAYOUT_ROWS;
}

static void note_layout(weft_value *v, const tensor *t) {
    v->has_layout = true;
    memcpy(v->stride, t->stride, sizeof v->stride);
}

static const run_state sample_run = {.seed = 11, .step = 3, .micro = 1};

/* Runs one kernel on copies of `data`; the results stay in *b. NULL, or the reason it was declined. */
static const char *kernel_try(const sample *s, const weft_kernel *kernel, const kernel_env *env,
                              const trial *t, const tensor *data, run_blocks *b, weft_error *error) {
    weft_node *n = s->n;
    tensor in[SAMPLE_MAX_IN] = {0}, out[TEST_MAX_OUT] = {0};
    void *state = NULL, *workspace = NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        b->in[i] = block_new(&n->in[i]->type, layout_of(n, kernel, false, i, t->layout));
        block_copy(&b->in[i], &data[i]);
        note_layout(n->in[i], &b->in[i].t);
        in[i] = b->in[i].t;
    }
    for (int k = 0; k < n->n_out; k++) {
        b->out[k] = block_new(&n->out[k].type, layout_of(n, kernel, true, k, t->layout));
        note_layout(&n->out[k], &b->out[k].t);
        if (k == 0 && t->aliased >= 0) {
            if (!stride_same(&b->out[0].t.type, b->out[0].t.stride, in[t->aliased].stride))
                return "other strides";
            b->out[0].t.data = in[t->aliased].data;
        }
        out[k] = b->out[k].t;
    }
    const char *why = kernel->declines ? kernel->declines(n, env) : NULL;
    if (why) return why;
    omp_set_num_threads(env->threads);
    size_t bytes = kernel->workspace ? kernel->workspace(n, env) : 0;
    weft_status status = kernel->open ? kernel->open(n, env, &state, error) : WEFT_OK;
    if (bytes) workspace = test_memory(bytes);
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .workspace = workspace,
                     .threads = env->threads,
                     .run = &sample_run,
                     .error = error};
    if (status == WEFT_OK) status = kernel->run(state, &c);
    if (kernel->close) kernel->close(state);
    free(workspace);
    error->status = status;
    return NULL;
}

static void run_blocks_free(run_blocks *b) {
    for (int i = 0; i < SAMPLE_MAX_IN; i++) block_free(&b->in[i]);
    for (int k = 0; k < TEST_MAX_OUT; k++) block_free(&b->out[k]);
}

/* Largest difference allowed: a few f32 roundings of the element and of the tensor's largest element. */
static void compare(const char *what, const char *which, int k, const tensor *got, const tensor *want) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    double most = 0, bound = want->type.dtype == WEFT_F64 ? 1e-12 : 3e-6;
    if (want->type.dtype == WEFT_BF16) bound = 8e-3;
    bool exact = !dtype_is_float(want->type.dtype);
    do most = fmax(most, fabs(element_get(want, at)));
    while (index_next(&want->type, at));
    do {
        double g = element_get(got, at), w = element_get(want, at);
        bool good = exact ? element_int(got, at) == element_int(want, at)
                          : fabs(g - w) <= bound * (fabs(w) + most / 4) || (isnan(g) && isnan(w)) || g == w;
        if (good) continue;
        CHECK_SAYS(false, "%s: %s %d is %.9g, the reference's %.9g at [%lld,%lld,%lld,%lld] (largest %g)",
                   what, which, k, g, w, (long long)at[0], (long long)at[1], (long long)at[2],
                   (long long)at[3], most);
        return;
    } while (index_next(&want->type, at));
    CHECK(true);
}

static void kernel_check(const sample *s, const weft_kernel *kernel, const kernel_env *env, const trial *t,
                         const tensor *data, const run_blocks *want) {
    run_blocks got = {0};
    weft_error error = {0};
    char what[800], op[600];
    describe(s->spec, s->op, op);
    snprintf(what, sizeof what, "%s by %s for %s, layout %d, in place %d, %d threads", op, kernel->name,
             isa_name(env->isa), t->layout, t->aliased, env->threads);
    const char *declined = kernel_try(s, kernel, env, t, data, &got, &error);
    if (!declined && CHECK_SAYS(error.status == WEFT_OK, "%s: %s", what, error.text)) {
        for (int k = 0; k < s->n->n_out; k++) compare(what, "result", k, &got.out[k].t, &want->out[k].t);
        for (int i = 0; i < s->n->n_in; i++)
            if (has_bit(s->op->writes, i) && s->n->in[i])
                compare(what, "operand", i, &got.in[i].t, &want->in[i].t);
    }
    run_blocks_free(&got);
}

static bool may_alias(const weft_node *n, int i) {
    bool in_place = n->op->flags & OP_POINTWISE || has_bit(n->op->in_place, i);
    return in_place && n->in[i] && type_equal(&n->in[i]->type, &n->out[0].type);
}

static bool has_images(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->type.ndim == 4) return true;
    return false;
}

static void kernels_check(const sample *s, const weft_kernel *reference, const tensor *data) {
    run_blocks want = {0};
    weft_error error = {0};
    kernel_env plain = {.isa = WEFT_ISA_REFERENCE, .threads = 1};
    const char *why = kernel_try(s, reference, &plain, &(trial){.aliased = -1}, data, &want, &error);
    CHECK_SAYS(!why && error.status == WEFT_OK, "%s: reference: %s", s->op->name, error.text);
    for (weft_isa isa = WEFT_ISA_REFERENCE; isa <= isa_best(); isa++)
        for (int threads = 1; threads <= 3; threads += 2) {
            kernel_env env = {.isa = isa, .threads = threads};
            const weft_kernel *list[16];
            int n = kernels_of(s->op, &env, list, 16);
            for (int j = 0; j < n; j++) {
                if (list[j] == reference && isa != WEFT_ISA_REFERENCE) continue;
                if (list[j]->min_isa != isa && list[j]->min_isa > WEFT_ISA_SSE2) continue; /* had its turn */
                for (layout_kind layout = LAYOUT_ROWS; layout <= LAYOUT_ODD; layout++)
                    if (layout != LAYOUT_CHANNELS_LAST || has_images(s->n))
                        kernel_check(s, list[j], &env, &(trial){.layout = layout, .aliased = -1}, data,
                                     &want);
                for (int i = 0; i < s->n->n_in && s->n->n_out; i++)
                    if (may_alias(s->n, i))
                        kernel_check(s, list[j], &env, &(trial){.aliased = i}, data, &want);
            }
        }
    run_blocks_free(&want);
}

static void sample_check(const weft_op *op, const op_sample *spec) {
    const weft_kernel *list[16];
    kernel_env plain = {.isa = WEFT_ISA_REFERENCE, .threads = 1};
    int n = kernels_of(op, &plain, list, 16);
    test_random r = {.state = 7};
    sample s;
    sample_build(&s, op, spec, false);
    if (s.n && n && s.n->n_out <= TEST_MAX_OUT) {
        block data[SAMPLE_MAX_IN] = {0};
        tensor tensors[SAMPLE_MAX_IN] = {0};
        for (int i = 0; i < s.n_in; i++)
            if (s.in[i]) {
                data[i] = block_new(&s.in[i]->type, LAYOUT_ROWS);
                sample_fill(spec, &data[i].t, &r);
                tensors[i] = data[i].t;
            }
        kernels_check(&s, list[n - 1], tensors);
        for (int i = 0; i < s.n_in; i++) block_free(&data[i]);
    }
    sample_free(&s);
}

TEST(every_kernel_agrees_with_the_reference_on_every_sample) {
    EACH_SAMPLE(op, spec) if (!spec->error) sample_check(op, spec);
}

/* Samples of pointwise ops are small; the tiles of their kernels want more: lengths around the vector and the
 * tile, all kinds of broadcasting. */
TEST(pointwise_kernels_agree_at_all_sizes_and_broadcasts) {
    static const char *const shapes[][3] = {
        {"[1]", "[1]", "[1]"},
        {"[17]", "[17]", "[]"},
        {"[3001]", "[1]", "[3001]"},
        {"[18011]", "[18011]", "[18011]"},
        {"[37,65]", "[65]", "[37,1]"},
        {"[70,48]", "[48]", "[70,48]"},
        {"[2,19,5,7]", "[1,19,1,1]", "[2,1,1,7]"},
        {"[2,16,9,11]", "[2,16,9,11]", "[16,1,1]"},
    };
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        tensor_type types[3];
        if (!(op->flags & OP_POINTWISE) || op->max_in > 3 ||
            types_parse(op->samples->in, types, 3) != op->max_in)
            continue;
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            char in[200] = "";
            for (int j = 0; j < op->max_in; j++)
                snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s%s", j ? ", " : "",
                         dtype_name(types[j].dtype), shapes[k][j]);
            op_sample spec = *op->samples;
            spec.in = in;
            spec.out = NULL;
            sample_check(op, &spec);
        }
    }
}

SUITE("ops", {T(every_op_has_samples_a_summary_and_a_reference), T(every_good_sample_gives_the_types_it_says),
              T(every_bad_sample_is_refused_with_its_reason), T(attributes_survive_being_printed),
              T(every_kernel_agrees_with_the_reference_on_every_sample),
              T(pointwise_kernels_agree_at_all_sizes_and_broadcasts)})
