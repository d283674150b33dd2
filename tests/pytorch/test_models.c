/* test_models.c - whole models against PyTorch: 2,000 random trainings of every op (golden/models.jsonl.gz),
 * and small ones that were wrong once (models/cases). tests/models/README.md has the format and makes more of
 * them. Each is run by the reference kernels, optimized and unoptimized; each plan is verified, and each
 * model is read back from its text and its file. */
#include "graph/core/kernel.h"
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "support/models/model_case.h"
#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LINE_ROOM = 1 << 20, QUICK_STRIDE = 10 };

typedef struct tally {
    int cases, configurations, compared, skipped;
    bool ran[CASE_OPS];
} tally;

static int64_t option(const json_t *c, size_t config, const char *name) {
    const json_t *o = json_array_get(json_object_get(c, "configs"), config);
    return json_integer_value(json_object_get(o, name));
}

/* This machine may not have the instruction set; libraries are kept within one in a process of their own. */
static bool is_for_here(const json_t *c, size_t config) {
    return option(c, config, "isa") <= (int64_t)isa_best() && !option(c, config, "limit");
}

static void check_case(const json_t *c, const char *name, tally *t) {
    size_t n = json_array_size(json_object_get(c, "configs"));
    for (size_t i = 0; i < n; i++) {
        case_outcome o;
        if (!is_for_here(c, i)) continue;
        case_run(c, i, &o);
        CHECK_SAYS(o.is_good, "%s, configuration %zu: %s", name, i, o.text);
        CHECK_SAYS(o.compared + o.skipped > 0, "%s, configuration %zu: nothing was compared", name, i);
        t->compared += o.compared;
        t->skipped += o.skipped;
        t->configurations++;
        for (int k = 0; k < CASE_OPS; k++) t->ran[k] = t->ran[k] || o.ran[k];
    }
    t->cases++;
}

/* Ops that need not be in any plan of these models, and why; `sets`: but where there is an instruction set
 * above the reference. */
static const struct {
    const char *op, *why;
    bool sets;
} not_run[] = {
    {"linear_act", "made for GPUs", false},
    {"linear_weight", "made for GPUs", false},
    {"matmul_act_backward", "made for GPUs", false},
    {"sum_ranks",
     "made for process groups (test_worlds_groups.c) and for batch_norm of all ranks (test_sync_norm.c)",
     false},
    {"summed", "ends what a strategy of your own builds: test_strategy.c", false},
    {"broadcast", "sends state where a subgraph asks for it: test_broadcast_buffers.c", false},
    {"renew", "puts what steps built from ops made in its place: test_optimizers.c", false},
    {"fused", "not made for the reference kernels", true},
    {"pack", "an operand in a library's form", true},
};

static bool may_miss(const char *op) {
    for (size_t i = 0; i < sizeof not_run / sizeof *not_run; i++)
        if (!strcmp(not_run[i].op, op)) return !not_run[i].sets || isa_best() == WEFT_ISA_REFERENCE;
    return false;
}

/* Of models that draw all builders, all ops of the list are in a plan: those of gradients and of what the
 * compiler makes too. */
static void check_ops(const bool *ran) {
    NEED(op_count() <= CASE_OPS);
    for (int i = 0; i < op_count(); i++)
        CHECK_SAYS(ran[i] || may_miss(op_at(i)->name), "%s is in no plan of the random models",
                   op_at(i)->name);
}

/* Lines of JSON; the quick suite takes each tenth. */
TEST(random_models_agree_with_pytorch) {
    gzFile file = gzopen(TEST_DATA "/golden/models.jsonl.gz", "rb");
    char *line = test_memory(LINE_ROOM);
    tally t = {0};
    NEED(file != NULL);
    for (int number = 0; gzgets(file, line, LINE_ROOM); number++) {
        char name[40];
        if (test_is_quick() && number % QUICK_STRIDE) continue;
        json_t *c = json_loads(line, 0, NULL);
        snprintf(name, sizeof name, "line %d", number + 1);
        if (CHECK_SAYS(c != NULL, "%s is not JSON", name)) check_case(c, name, &t);
        json_decref(c);
    }
    gzclose(file);
    free(line);
    CHECK_SAYS(t.cases >= (test_is_quick() ? 200 : 2000), "%d cases", t.cases);
    if (!test_is_quick()) check_ops(t.ran);
    printf("%d models, %d configurations, %d tensors\n", t.cases, t.configurations, t.compared);
    /* What has no bound is reduced precision by the reference kernels: a larger part where other sets are
     * left out. */
    CHECK_SAYS(t.skipped * (isa_best() < WEFT_ISA_AVX2 ? 5 : 50) < t.compared,
               "%d of %d tensors without a bound", t.skipped, t.compared + t.skipped);
}

static bool is_json(const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

TEST(small_models_that_were_wrong_agree_with_pytorch) {
    DIR *folder = opendir(TEST_DATA "/models/cases");
    tally t = {0};
    NEED(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[600];
        if (!is_json(entry->d_name)) continue;
        snprintf(path, sizeof path, TEST_DATA "/models/cases/%s", entry->d_name);
        json_t *c = json_load_file(path, 0, NULL);
        if (CHECK_SAYS(c != NULL, "%s is not JSON", entry->d_name)) check_case(c, entry->d_name, &t);
        json_decref(c);
    }
    closedir(folder);
    CHECK_SAYS(t.cases >= 20, "%d cases", t.cases);
}

/* oneDNN 2.6.3 gives wrong weight gradients of strided 1x1 convolutions where it has AVX2 alone. */
TEST(libraries_within_avx2_agree_with_pytorch) {
    char answer[2000] = "";
    if (isa_best() < WEFT_ISA_AVX2) return;
    FILE *program = popen(
        TEST_TOOLS "/model_cases --limit 3 < " TEST_DATA "/models/cases/conv1x1_stride2_avx2.json", "r");
    NEED(program != NULL);
    CHECK(fgets(answer, sizeof answer, program) != NULL);
    CHECK(pclose(program) == 0);
    CHECK_HOLDS(answer, "\"good\":true");
}

SUITE("models", {T(random_models_agree_with_pytorch), T(small_models_that_were_wrong_agree_with_pytorch),
                 T(libraries_within_avx2_agree_with_pytorch)})
