/* test_ops.c - the test of all ops, written once: every sample of every op in ops/list.h gives the types it
 * says, or the error it says; attributes survive being printed; and every kernel of every instruction set
 * agrees with the op's reference, in each layout that the op may meet. Gradients: test_gradients.c. */
#include "ops/op_kit.h"
#include "support/kernel_check.h"
#include "support/sample.h"

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

static void sample_check(const weft_op *op, const op_sample *spec) {
    char what[600];
    test_random r = {.state = 7};
    sample s;
    sample_build(&s, op, spec, false);
    if (s.n) {
        block data[SAMPLE_MAX_IN] = {0};
        tensor tensors[SAMPLE_MAX_IN] = {0};
        for (int i = 0; i < s.n_in; i++)
            if (s.in[i]) {
                data[i] = block_new(&s.in[i]->type, LAYOUT_ROWS);
                sample_fill(spec, &data[i].t, &r);
                tensors[i] = data[i].t;
            }
        describe(spec, op, what);
        kernels_check(s.n, what, tensors);
        for (int i = 0; i < s.n_in; i++) block_free(&data[i]);
    }
    sample_free(&s);
}

TEST(every_kernel_agrees_with_the_reference_on_every_sample) {
    EACH_SAMPLE(op, spec) if (!spec->error) sample_check(op, spec);
}

static bool takes_a_sample(const weft_op *op, const weft_kernel *kernel, const kernel_env *env) {
    bool taken = false, any = false;
    for (const op_sample *spec = op->samples; spec && spec->in; spec++) {
        sample s;
        if (spec->error) continue;
        any = true;
        sample_build(&s, op, spec, false);
        taken |= s.n && kernel_takes(s.n, kernel, env);
        sample_free(&s);
    }
    return taken || !any;
}

/* A kernel that no sample reaches would be a kernel that is never tested. */
TEST(every_kernel_runs_at_least_one_sample) {
    kernel_env env = {.isa = isa_best(), .threads = 2};
    for (int i = 0; i < op_count(); i++) {
        const weft_kernel *list[16];
        int n = kernels_of(op_at(i), &env, list, 16);
        for (int j = 0; j < n; j++)
            CHECK_SAYS(takes_a_sample(op_at(i), list[j], &env), "%s: no sample is taken by kernel %s",
                       op_at(i)->name, list[j]->name);
    }
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

SUITE("ops",
      {T(every_op_has_samples_a_summary_and_a_reference), T(every_good_sample_gives_the_types_it_says),
       T(every_bad_sample_is_refused_with_its_reason), T(attributes_survive_being_printed),
       T(every_kernel_runs_at_least_one_sample), T(every_kernel_agrees_with_the_reference_on_every_sample),
       T(pointwise_kernels_agree_at_all_sizes_and_broadcasts)})
