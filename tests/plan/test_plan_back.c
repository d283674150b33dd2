/* test_plan_back.c - the text of every plan reads back exactly: each model of the zoo in worlds, stages,
 * shards, precisions and ranks, after the last pass. */
#include "examples/zoo.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_model *small_model(const zoo_entry *e) {
    zoo_options o = ZOO_DEFAULTS;
    o.narrow = 8;
    if (e->own) {
        o.layers = 2;
        o.d = 32;
        o.heads = 2;
        o.ctx = 16;
        o.vocab = 96;
    }
    weft_model *m = weft_model_new(e->name);
    weft_model_set_batch(m, 2);
    e->build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void check_back(const weft_model *m, const weft_compile_options *c) {
    weft_error error = {0};
    char name[120];
    snprintf(name, sizeof name, "%s %s world %d rank %d zero %d shard %d accumulate %d precision %d",
             weft_model_name(m), c->stop_after ? c->stop_after : "", c->world, c->rank, c->zero,
             (int)c->shard, c->accumulate, (int)c->precision);
    weft_plan *plan = weft_compile(m, c, &error);
    if (!CHECK_SAYS(plan != NULL, "%s: %s", name, error.text)) return;
    char *text = weft_plan_text(plan);
    weft_model *back = weft_model_parse(text, "plan", NULL, &error);
    char *again = back ? weft_model_text(back) : NULL;
    CHECK_SAYS(back != NULL, "%s: %s", name, error.text);
    CHECK_SAYS(!again || strcmp(text, again) == 0, "%s: it reads back differently", name);
    weft_text_free(again);
    weft_text_free(text);
    weft_model_free(back);
    weft_plan_free(plan);
}

/* Any of the options that shape a plan's text. */
static weft_compile_options any_options(test_random *r) {
    static const weft_dtype precisions[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    static const int worlds[] = {1, 2, 3, 8, 4096};
    weft_compile_options c = {.threads = 1, .world = worlds[random_bits(r) % 5]};
    c.rank = (int)(random_bits(r) % (uint64_t)c.world);
    c.zero = (int)(random_bits(r) % 3);
    c.shard = random_bits(r) & 1 ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY;
    c.accumulate = 1 + (int)(random_bits(r) % 3);
    c.precision = precisions[random_bits(r) % 3];
    c.bucket_cap_mb = random_bits(r) & 1 ? 0.01 : 0;
    c.manual = random_bits(r) % 3 == 0;
    return c;
}

TEST(every_plan_of_the_zoo_reads_back) {
    test_random r = {test_seed(10)};
    for (int i = 0; i < ZOO_MODELS; i++) {
        int stride = test_is_quick() ? 3 : 1, first = i % stride; /* of the passes */
        weft_model *m = small_model(&zoo_models[i]);
        for (int k = 0; k < test_count(8, 2); k++) {
            weft_compile_options c = any_options(&r);
            check_back(m, &c);
            for (int pass = first; k == 0 && weft_pass_name(pass); pass += stride) {
                c.stop_after = weft_pass_name(pass);
                check_back(m, &c);
            }
        }
        weft_model_free(m);
    }
}

SUITE("plans read back", {T(every_plan_of_the_zoo_reads_back)})
