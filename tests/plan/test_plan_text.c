/* test_plan_text.c - the result of each pass on a small GAN, compared with reviewed dumps
 * (tests/golden/plan.PASS.txt). Reference kernels and one thread, so that the dumps are the same on every
 * machine.
 *
 * When a pass changes on purpose: WEFT_UPDATE_GOLDENS=1 build/release/test_plan_text rewrites them; review
 * the difference before you commit it. */
#include "graph/core/type.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_value *generator(weft_value *z) {
    WEFT_SCOPE(z, "generator") {
        z = weft_relu(weft_batch_norm(weft_linear(z, 12, "fc", NULL), "bn", NULL));
        z = weft_tanh(weft_linear(z, 6, "out", NULL));
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(weft_linear(x, 10, "fc", NULL), 0.2);
        x = weft_linear(weft_dropout(x, 0.25), 1, "out", NULL);
    }
    return x;
}

static weft_value *bce(weft_value *logits, double target) {
    weft_value *t = weft_constant(weft_value_graph(logits), WEFT_F32, 0, NULL, target);
    return weft_bce_with_logits(logits, t, NULL);
}

static weft_model *gan(void) {
    weft_model *m = weft_model_new("gan");
    weft_model_set_batch(m, 4);
    weft_optimizer adam = {.type = "adam", .lr = 2e-4, .beta1 = 0.5, .clip_norm = 1};
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = weft_input(d, "real", WEFT_F32, 2, (int64_t[]){WEFT_BATCH, 6});
    weft_value *fake = generator(weft_random_normal(d, 2, (int64_t[]){WEFT_BATCH, 3}, 0, 1));
    /* Before the real ones: goldens have this order, and C leaves the order of two arguments open. */
    weft_value *of_fake = bce(discriminator(weft_stop_gradient(fake)), 0);
    weft_value *loss = weft_add(bce(discriminator(real), 1), of_fake);
    weft_minimize(loss, "discriminator", &adam);
    weft_output(loss, "d_loss");
    weft_graph *g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    loss = bce(discriminator(generator(weft_random_normal(g, 2, (int64_t[]){WEFT_BATCH, 3}, 0, 1))), 1);
    weft_minimize(loss, "generator", &adam);
    weft_output(loss, "g_loss");
    return m;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = test_memory(1 << 20);
    text[fread(text, 1, (1 << 20) - 1, f)] = 0;
    fclose(f);
    return text;
}

/* The line where two dumps part, and both sides of it: enough to see what a pass did. */
static void check_same(const char *pass, const char *got, const char *want) {
    int line = 1;
    while (*got && *got == *want) {
        line += *got == '\n';
        got++;
        want++;
    }
    while (got[-1] != '\n' && want[-1] != '\n') {
        got--;
        want--;
    }
    CHECK_SAYS(!*got && !*want, "plan.%s.txt, line %d:\n  got  %.*s\n  want %.*s", pass, line,
               (int)strcspn(got, "\n"), got, (int)strcspn(want, "\n"), want);
}

static void check_pass(const weft_model *m, const char *pass, int world, int zero, weft_dtype precision) {
    char path[512], name[80];
    weft_error e = {0};
    weft_compile_options options = {.isa = WEFT_ISA_REFERENCE,
                                    .threads = 1,
                                    .stop_after = pass,
                                    .world = world,
                                    .zero = zero,
                                    .precision = precision};
    snprintf(name, sizeof name, world > 1 ? "%s.world%d%s" : "%s", pass, world, zero ? ".zero" : "");
    if (precision) snprintf(name, sizeof name, "%s.%s", pass, dtype_name(precision));
    snprintf(path, sizeof path, "%s/golden/plan.%s.txt", TEST_DATA, name);
    weft_plan *plan = weft_compile(m, &options, &e);
    char *got = weft_plan_text(plan), *want = read_text(path);
    CHECK_SAYS(plan != NULL, "%s: %s", pass, e.text);
    if (plan && getenv("WEFT_UPDATE_GOLDENS")) {
        FILE *f = fopen(path, "wb");
        CHECK(f && fputs(got, f) >= 0 && fclose(f) == 0);
    } else if (plan && CHECK_SAYS(want != NULL, "%s cannot be read", path)) {
        check_same(name, got, want);
        weft_model *back = weft_model_parse(want, name, NULL, &e);
        char *again = weft_model_text(back);
        CHECK_SAYS(back != NULL, "%s", e.text);
        if (back) check_same(name, again, want);
        weft_text_free(again);
        weft_model_free(back);
    }
    weft_text_free(got);
    free(want);
    weft_plan_free(plan);
}

TEST(every_pass_makes_what_was_read_and_agreed) {
    static const char *const passes[] = {"autodiff", "simplify", "optimizer", "clean",
                                         "layout",   "order",    "memory"};
    weft_model *m = gan();
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) check_pass(m, passes[i], 1, 0, WEFT_F32);
    weft_model_free(m);
}

TEST(in_a_world_of_two_buckets_are_summed_and_parameters_sent_back) {
    weft_model *m = gan();
    check_pass(m, "memory", 2, 0, WEFT_F32);
    check_pass(m, "memory", 2, 1, WEFT_F32);
    weft_model_free(m);
}

TEST(casts_stand_where_the_rules_say) {
    weft_model *m = gan();
    check_pass(m, "simplify", 1, 0, WEFT_BF16);
    check_pass(m, "memory", 1, 0, WEFT_F16); /* with the loss scale, and casts of weights as derived values */
    weft_model_free(m);
}

SUITE("plan text",
      {T(every_pass_makes_what_was_read_and_agreed),
       T(in_a_world_of_two_buckets_are_summed_and_parameters_sent_back), T(casts_stand_where_the_rules_say)})
