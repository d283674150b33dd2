/* test_optimizer_text.c - settings of a model's optimizers, changed by text: a changed model is the one that
 * was built so, to the byte of its text; what may not be said is an error that names a way out. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdlib.h>
#include <string.h>

/* Two networks; "twice" has two calls that share an optimizer. */
static weft_model *build(const weft_optimizer *a, const weft_optimizer *b) {
    weft_model *m = weft_model_new("m");
    const weft_optimizer *of[] = {a, b, a};
    static const char *const nets[] = {"a", "b", "a"}, *const names[] = {"a_step", "b_step", "a_again"};
    for (int i = 0; i < 3; i++) {
        weft_graph *g = weft_graph_new(m, names[i], WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 4));
        WEFT_SCOPE(x, nets[i]) x = weft_linear(x, 3, "fc", NULL);
        weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), nets[i], of[i]);
    }
    CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
    return m;
}

static const weft_optimizer adam = {.type = "adam"}, sgd = {.type = "sgd", .momentum = 0.9};

static void check_same(const weft_model *m, const weft_model *wanted) {
    char *text[2] = {weft_model_text(m), weft_model_text(wanted)};
    CHECK_SAYS(strcmp(text[0], text[1]) == 0, "%s\nis not\n%s", text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

TEST(a_changed_model_is_the_one_that_was_built_so) {
    weft_optimizer other = {.type = "adam", .clip_norm = 1, .beta1 = WEFT_ZERO, .lr = 0.5, .amsgrad = true};
    weft_schedule_text("cosine:0-900,warmup=50,to=0", other.schedule, NULL);
    static const char *const names[] = {"adam:a", "a"};
    for (int i = 0; i < 2; i++) { /* by name and by pattern */
        weft_model *m = build(&adam, &sgd), *wanted = build(&other, &sgd);
        weft_model_set_optimizer(m, names[i], "clip_norm=1, beta1=0 lr=0.5,amsgrad=1");
        weft_model_set_optimizer(m, names[i], "schedule=\"cosine:0-900,warmup=50\"");
        CHECK_SAYS(!weft_model_error(m)->status, "%s", weft_model_error(m)->text);
        check_same(m, wanted);
        weft_model_free(m);
        weft_model_free(wanted);
    }
}

TEST(without_a_name_every_optimizer_changes) {
    weft_optimizer clipped_adam = adam, clipped_sgd = sgd;
    clipped_adam.clip_norm = clipped_sgd.clip_norm = 2;
    weft_model *m = build(&adam, &sgd), *wanted = build(&clipped_adam, &clipped_sgd);
    weft_model_set_optimizer(m, NULL, "clip_norm=2");
    check_same(m, wanted);
    weft_model_set_optimizer(m, "b", "schedule=\"step,period=5\"");
    weft_model_set_optimizer(m, "b", "schedule=\"\""); /* none again */
    check_same(m, wanted);
    weft_model_free(m);
    weft_model_free(wanted);
}

/* A name that is one call's pattern and another's name means the latter. */
TEST(names_come_before_patterns) {
    weft_optimizer named = sgd, clipped;
    named.name = "a";
    clipped = named;
    clipped.clip_value = 3;
    weft_model *m = build(&adam, &named), *wanted = build(&adam, &clipped);
    weft_model_set_optimizer(m, "a", "clip_value=3");
    check_same(m, wanted);
    weft_model_free(m);
    weft_model_free(wanted);
}

TEST(what_a_text_may_not_say_is_told) {
    static const struct {
        const char *name, *settings, *says;
        weft_status status;
    } rows[] = {
        {"c", "lr=1", "no optimizer 'c'", WEFT_NAME},
        {"adam:b", "lr=1", "did you mean 'adam:a'? It has adam:a, sgd:b", WEFT_NAME},
        {"", NULL, "settings are needed", WEFT_ARGUMENT},
        {"a", "clip_nrom=1", "did you mean 'clip_norm'?", WEFT_ARGUMENT},
        {"a", "clip_norm", "NAME=VALUE is expected", WEFT_ARGUMENT},
        {"a", "clip_norm=x", "clip_norm", WEFT_ARGUMENT},
        {"a", "clip_norm=-1", "from 0 to", WEFT_ARGUMENT},
        {"a", "clip_norm=inf", "from 0 to", WEFT_ARGUMENT},
        {"a", "clip_norm=nan", "from 0 to", WEFT_ARGUMENT},
        {"a", "beta1=2", "from 0 to 1", WEFT_ARGUMENT},
        {"a", "momentum=0.5", "adam has none", WEFT_ARGUMENT},
        {"a", "nesterov=1", "adam has none", WEFT_ARGUMENT},
        {"b", "nesterov=1 momentum=0", "nesterov needs", WEFT_ARGUMENT},
        {"a", "type=\"sgd\"", "cannot change it", WEFT_ARGUMENT},
        {"a", "name=\"x\"", "cannot change it", WEFT_ARGUMENT},
        {"a", "pattern=\"b\"", "cannot change it", WEFT_ARGUMENT},
        {"a", "groups=\"* 1 1\"", "cannot change it", WEFT_ARGUMENT},
        {"a", "schedule=\"cosin:0-9\"", "begins with a kind", WEFT_ARGUMENT},
        {"a", "schedule=\"cosine\"", "needs an end", WEFT_ARGUMENT},
        {"a", "schedule=\"cosine:0-9,of=weight_decay\"", "has none, or it is 0", WEFT_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_model *m = build(&adam, &sgd);
        CHECK(weft_model_set_optimizer(m, rows[i].name, rows[i].settings) == rows[i].status);
        CHECK_SAYS(strstr(weft_model_error(m)->text, rows[i].says) != NULL, "%s %s: %s", rows[i].name,
                   rows[i].settings, weft_model_error(m)->text);
        weft_model_free(m);
    }
    CHECK(weft_model_set_optimizer(NULL, "", "lr=1") == WEFT_ARGUMENT);
    weft_model *m = weft_model_new("m"); /* without a training */
    CHECK(weft_model_set_optimizer(m, "", "lr=1") == WEFT_NAME);
    weft_model_free(m);
}

SUITE("optimizer_text",
      {T(a_changed_model_is_the_one_that_was_built_so), T(without_a_name_every_optimizer_changes),
       T(names_come_before_patterns), T(what_a_text_may_not_say_is_told)})
