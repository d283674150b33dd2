/* test_ops.c - one test for all ops: every sample of every op in ops/list.h gives the types it states, or the
 * error it states; attributes survive being printed; and every kernel of every instruction set agrees with
 * the op's reference, in each layout that the op may get. Gradients: test_gradients.c. */
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/onednn.h"
#include "ops/kit/op_kit.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(every_op_has_samples_a_summary_and_a_reference) {
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        CHECK_SAYS(op->summary && *op->summary, "%s has no summary", op->name);
        CHECK_SAYS(op->samples && op->samples->in, "%s has no samples", op->name);
        CHECK_SAYS(!(op->flags & OP_POINTWISE) || op->scalar, "%s is pointwise, but has no scalar()",
                   op->name);
        CHECK_SAYS(!(op->flags & OP_VIEW) || op->view, "%s is a view, but has no view()", op->name);
        /* passes make theirs when gradients are nodes already */
        bool may_lack = op->flags & (OP_NO_GRADIENT | OP_COMPILER);
        CHECK_SAYS(op->gradient || may_lack, "%s has no gradient and is not marked as having none", op->name);
    }
}

TEST(every_good_sample_gives_the_types_it_says) {
    EACH_SAMPLE(op, spec) {
        char text[600];
        sample s;
        tensor_type want[OP_MAX_OUT];
        if (spec->error) continue;
        sample_describe(spec, op, text);
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
        sample_describe(spec, op, text);
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
            char *printed = text_detach(&t);
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

TEST(every_kernel_agrees_with_the_reference_on_every_sample) {
    samples_check(kernels_check);
}

TEST(every_kernel_agrees_with_the_reference_in_bf16_and_f16) {
    samples_check_reduced(kernels_check, test_is_quick());
}

static bool takes_a_sample(const weft_op *op, const weft_kernel *kernel, const kernel_env *env) {
    bool taken = false, any = false;
    for (const op_sample *spec = op->samples; spec && spec->in; spec++) {
        sample s;
        if (spec->error) continue;
        any = true;
        for (weft_dtype dtype = WEFT_F32; dtype <= WEFT_F16; dtype++) {
            if (dtype_is_reduced(dtype))
                sample_build_reduced(&s, op, spec, dtype, false);
            else
                sample_build(&s, op, spec, dtype == WEFT_F64);
            taken |= s.n && kernel_runs(s.n, kernel, env);
            sample_free(&s);
        }
    }
    return taken || !any;
}

/* ---- what this processor lets kernels reach ---- */

/* What a kernel of oneDNN is made of; samples reach it where the library has that for this processor. */
static const struct {
    const char *kernel;
    onednn_problem made_of;
} wanted[] = {
    {"onednn_columns",
     {.kind = ONEDNN_MATMUL,
      .threads = 1,
      .plain = WEFT_BF16,
      .src = {WEFT_BF16, .ndim = 2, .shape = {32, 64}, .stride = {1, 32}},
      .weight = {WEFT_BF16, .ndim = 2, .shape = {64, 32}, .stride = {32, 1}},
      .dst = {WEFT_F32, .ndim = 2, .shape = {32, 32}, .stride = {32, 1}}}},
    {"onednn_parts",
     {.kind = ONEDNN_CONV_WEIGHT,
      .threads = 1,
      .plain = WEFT_F32,
      .src = {WEFT_F32, .ndim = 4, .shape = {1, 16, 8, 8}, .stride = {1024, 1, 128, 16}},
      .weight = {WEFT_F32, .ndim = 4, .shape = {16, 16, 1, 1}, .stride = {16, 1, 1, 1}},
      .dst = {WEFT_F32, .ndim = 4, .shape = {1, 16, 8, 8}, .stride = {1024, 1, 128, 16}},
      .stride = {1, 1},
      .dilation = {1, 1}}},
};

/* Whether the library has what the kernel is made of. */
static bool is_possible(const weft_kernel *kernel) {
    onednn_description found;
    bool is_missing = false;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strcmp(wanted[i].kernel, kernel->name) == 0)
            is_missing |= !onednn_describe(&wanted[i].made_of, &found) || found.is_reference;
    return !is_missing;
}

/* Images and pixels past an int: oneDNN 3.7 divided by 0 while a plan was made that fits no machine. */
TEST(onednn_is_not_asked_for_what_it_cannot_count) {
    for (int kind = ONEDNN_CONV; kind <= ONEDNN_CONV_WEIGHT; kind++) {
        onednn_problem p = {
            .kind = (onednn_kind)kind,
            .threads = 1,
            .plain = WEFT_F32,
            .src = {WEFT_F32, .ndim = 4, .shape = {1 << 20, 32, 8, 8}, .stride = {2048, 1, 256, 32}},
            .weight = {WEFT_F32, .ndim = 4, .shape = {32, 32, 1, 1}, .stride = {32, 1, 1, 1}},
            .dst = {WEFT_F32, .ndim = 4, .shape = {1 << 20, 32, 8, 8}, .stride = {2048, 1, 256, 32}},
            .stride = {1, 1},
            .dilation = {1, 1}};
        onednn_description found;
        CHECK(onednn_describe(&p, &found));
        p.src.shape[0] = p.dst.shape[0] = 1 << 25; /* 2^31 pixels */
        CHECK(!onednn_describe(&p, &found));
    }
    for (int over = 0; over < 2; over++) { /* matrices times rows: within an int, and above it */
        int64_t n = over ? 1 << 16 : 1 << 10, rows = 1 << 15;
        onednn_problem p = {
            .kind = ONEDNN_MATMUL,
            .threads = 1,
            .plain = WEFT_F32,
            .src = {WEFT_F32, .ndim = 3, .shape = {n, rows, 64}, .stride = {rows * 64, 64, 1}},
            .weight = {WEFT_F32, .ndim = 3, .shape = {n, 64, 32}, .stride = {64 * 32, 32, 1}},
            .dst = {WEFT_F32, .ndim = 3, .shape = {n, rows, 32}, .stride = {rows * 32, 32, 1}}};
        onednn_description found;
        CHECK(onednn_describe(&p, &found) == !over);
    }
}

/* A kernel that no sample reaches would be a kernel that is never tested. */
TEST(every_kernel_of_this_processor_runs_at_least_one_sample) {
    kernel_env env = {.isa = isa_best(), .threads = 2};
    int all[WEFT_ISA_AVX512 + 1] = {0};
    for (const weft_kernel *const *k = cpu_kernels; *k; k++) {
        if ((*k)->min_isa > isa_best()) {
            all[(*k)->min_isa]++;
            continue;
        }
        bool is_taken = takes_a_sample((*k)->op, *k, &env);
        CHECK_SAYS(is_taken || !is_possible(*k), "%s: no sample is taken by kernel %s", (*k)->op->name,
                   (*k)->name);
        if (!is_taken) test_not_reached("%s of %s", (*k)->name, (*k)->op->name);
    }
    for (int isa = WEFT_ISA_SSE2; isa <= WEFT_ISA_AVX512; isa++)
        if (all[isa]) test_not_reached("%d kernels for %s", all[isa], isa_name((weft_isa)isa));
}

TEST(pointwise_kernels_agree_at_all_sizes_and_broadcasts) {
    samples_check_sizes(kernels_check, false);
}

/* ---- promises ---- */

static kernel_promises promises;

static void break_here(weft_node *n, const char *what, const tensor *data) {
    (void)what;
    for (weft_isa isa = WEFT_ISA_REFERENCE; isa <= isa_best(); isa++)
        kernel_promises_break(&promises, n, data, &(kernel_env){.isa = isa, .threads = 1});
}

TEST(a_row_that_promises_layouts_which_its_kernel_cannot_take_would_be_seen) {
    samples_check(break_here);
    samples_check_reduced(break_here, test_is_quick());
    bool has_kernels = isa_best() > WEFT_ISA_REFERENCE; /* reference kernels promise nothing */
    kernel_promises_check(&promises, samples_are_all() && has_kernels ? 100 : 0);
}

SUITE("ops", {T(every_op_has_samples_a_summary_and_a_reference), T(every_good_sample_gives_the_types_it_says),
              T(every_bad_sample_is_refused_with_its_reason), T(attributes_survive_being_printed),
              T(onednn_is_not_asked_for_what_it_cannot_count),
              T(every_kernel_of_this_processor_runs_at_least_one_sample),
              T(every_kernel_agrees_with_the_reference_on_every_sample),
              T(every_kernel_agrees_with_the_reference_in_bf16_and_f16),
              T(pointwise_kernels_agree_at_all_sizes_and_broadcasts),
              T(a_row_that_promises_layouts_which_its_kernel_cannot_take_would_be_seen)})
