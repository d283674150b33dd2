/* test_constants.c - tensors whose elements the model holds: to the bit in every type, in files and dumps, in
 * sessions (tests/cuda/test_cuda_sessions.c: on a GPU), with memory that the plan counts and the verifier
 * proves; a world whose ranks hold different ones is refused. */
#include "graph/core/limits.h"
#include "ops/kit/ops.h"
#include "runtime/plan/program.h"
#include "support/faults.h"
#include "support/test.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NaNs with payloads, a signaling one among them, both zeros, a denormal number, an infinity. */
static const uint32_t floats[] = {0x7fc01234, 0xffa00001, 0x80000000, 0, 1, 0x7f800000};
static const uint64_t doubles[] = {0x7ff4000000000abc, 0x8000000000000000};
static const uint16_t halves[] = {0x7e01, 0xfc00, 0x8000};
static const int64_t longs[] = {INT64_MIN, INT64_MAX};
static const int32_t ints[] = {INT32_MIN, -1};
static const uint8_t bytes[] = {0, 255, 7}, bools[] = {1, 0, 1};

static const struct {
    const char *name;
    weft_dtype dtype;
    int64_t shape[2];
    int ndim;
    const void *data;
    size_t bytes;
} tensors[] = {
    {"f32", WEFT_F32, {2, 3}, 2, floats, sizeof floats},
    {"f64", WEFT_F64, {2}, 1, doubles, sizeof doubles},
    {"bf16", WEFT_BF16, {3}, 1, halves, sizeof halves},
    {"f16", WEFT_F16, {1, 3}, 2, halves, sizeof halves},
    {"i64", WEFT_I64, {2}, 1, longs, sizeof longs},
    {"i32", WEFT_I32, {1, 2}, 2, ints, sizeof ints},
    {"u8", WEFT_U8, {3}, 1, bytes, sizeof bytes},
    {"bool", WEFT_BOOL, {3}, 1, bools, sizeof bools},
    {"scalar", WEFT_F32, {0}, 0, floats, 4},
};
enum { TENSORS = sizeof tensors / sizeof *tensors, LARGE = 100 };

/* Each tensor is an output, and `large` has so many bytes that a dump has them in a line of their own. */
static weft_model *model(const weft_env *env) {
    weft_model *m = weft_model_new_in("m", env);
    float large[LARGE];
    for (int i = 0; i < LARGE; i++) large[i] = (float)i / 3;
    for (int k = 0; k < 2; k++) {
        weft_graph *g = weft_graph_new(m, k ? "again" : "g", WEFT_EVAL);
        for (int i = 0; i < TENSORS; i++)
            weft_output(
                weft_constant_tensor(g, tensors[i].dtype, tensors[i].ndim, tensors[i].shape, tensors[i].data),
                tensors[i].name);
        weft_output(weft_constant_tensor(g, WEFT_F32, 1, (int64_t[]){LARGE}, large), "large");
    }
    memset(large, 0, sizeof large); /* the model has its own */
    CHECK_TEXT(weft_model_error(m)->text, "");
    return m;
}

/* Fetches every output of both graphs twice, and compares bits. */
static void check_values(const weft_model *m) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.verify = true}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
    for (int k = 0; s && k < 4; k++) {
        char got[TENSORS][64] = {{0}};
        float large[LARGE] = {0};
        weft_fetch fetches[TENSORS + 1];
        for (int i = 0; i < TENSORS; i++)
            fetches[i] = (weft_fetch){tensors[i].name, got[i], tensors[i].bytes};
        fetches[TENSORS] = (weft_fetch){"large", large, sizeof large};
        weft_run(s, k % 2 ? "again" : "g", NULL, 0, fetches, TENSORS + 1, &error);
        for (int i = 0; i < TENSORS; i++)
            CHECK_SAYS(memcmp(got[i], tensors[i].data, tensors[i].bytes) == 0, "%s", tensors[i].name);
        CHECK(large[0] == 0 && large[LARGE - 1] == (float)(LARGE - 1) / 3);
    }
    CHECK_SAYS(s && !error.status, "%s", error.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

TEST(every_type_is_held_to_the_bit_in_programs_files_and_dumps) {
    faults f;
    faults_init(&f);
    weft_error error = {0};
    weft_model *m = model(&f.env);
    check_values(m);
    CHECK_SAYS(weft_save(m, "m.bin", &error) == WEFT_OK, "%s", error.text);
    weft_model *loaded = weft_load("m.bin", &f.env, &error);
    CHECK_SAYS(loaded != NULL, "%s", error.text);
    char *text = weft_model_text(m);
    weft_model *parsed = weft_model_parse(text, "text", NULL, &error);
    CHECK_SAYS(parsed != NULL, "%s", error.text);
    const weft_model *copies[] = {loaded, parsed};
    for (int i = 0; i < 2 && copies[i]; i++) {
        char *again = weft_model_text(copies[i]);
        CHECK_TEXT(again, text);
        weft_text_free(again);
        check_values(copies[i]);
    }
    weft_text_free(text);
    weft_model_free(parsed);
    weft_model_free(loaded);
    weft_model_free(m);
    CHECK(f.live == 0);
    faults_end(&f);
}

/* ---- dumps ---- */

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part)) n++;
    return n;
}

TEST(a_dump_has_the_bytes_of_a_large_tensor_once) {
    weft_model *m = model(NULL);
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){0}, &error);
    char *texts[] = {weft_model_text(m), weft_plan_text(plan)};
    for (int i = 0; i < 2; i++) {
        CHECK(texts[i] && count(texts[i], "\ndata @") == 1 && count(texts[i], " data=@") == 2);
        CHECK(texts[i] && count(texts[i], "shape=2,3 data=3412c07f0100a0ff") == 2);
        free(texts[i]);
    }
    weft_plan_free(plan);
    weft_model_free(m);
}

static void refuses(const char *lines, const char *says) {
    char text[400];
    weft_error error = {0};
    snprintf(text, sizeof text, "model m batch=1\n%s", lines);
    CHECK(!weft_model_parse(text, "dump", NULL, &error));
    CHECK_HOLDS(error.text, says);
}

TEST(dumps_with_wrong_bytes_are_refused) {
    refuses("data 00\n", "' ' is expected");
    refuses("data @12 00\n", "@ and 16 hexadecimal digits are expected at '@12'");
    refuses("data @00000000000000AB 00\n", "@ and 16 hexadecimal digits");
    refuses("data @00000000000000ab 0\n", "two hexadecimal digits a byte");
    refuses("data @00000000000000ab 000\n", "two hexadecimal digits a byte");
    refuses("data @00000000000000ab 00\n", "data @00000000000000ab: its bytes have the hash ");
    refuses("graph g eval\n%0 u8[1] = constant_tensor() dtype=u8 shape=1 data=@00000000000000ab\n",
            "no line before this one has the data @00000000000000ab");
    refuses("graph g eval\n%0 u8[1] = constant_tensor() dtype=u8 shape=1 data=@ab\n",
            "the value of data cannot be read");
    refuses("graph g eval\n%0 u8[2] = constant_tensor() dtype=u8 shape=2 data=ab\n",
            "u8[2] has 2 bytes, but there are 1");
}

/* ---- builders ---- */

static void says(weft_dtype dtype, int64_t n, const void *data, const char *part) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    CHECK(!weft_constant_tensor(g, dtype, 1, &n, data));
    CHECK_HOLDS(weft_model_error(m)->text, part);
    weft_model_free(m);
}

TEST(what_is_no_tensor_is_refused_before_it_is_read) {
    static const uint8_t two = 2;
    says(WEFT_F32, 3, NULL, "constant_tensor: data is NULL");
    says(WEFT_F32, -1, floats, "shape=-1: it must be 0 to ");
    says(WEFT_F32, WEFT_BATCH, floats, "axis 0 is WEFT_BATCH, but its data have one length");
    says((weft_dtype)99, 1, floats, "dtype is not an element type");
    says(WEFT_BOOL, 1, &two, "an element of bool is neither 0 nor 1");
    says(WEFT_U8, MODEL_MAX_CONSTANT_BYTES + 1, &two, "at most 33554432 are allowed: feed it as an input");
    says(WEFT_F64, INT64_MAX / 2, &two, "it must be 0 to ");
    says(WEFT_F64, (int64_t)1 << 45, &two, "below 2^46 bytes");
}

TEST(a_model_that_no_file_may_hold_is_not_saved) {
    faults f;
    faults_init(&f);
    weft_error error = {0};
    weft_model *m = weft_model_new_in("m", &f.env);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    uint8_t *large = test_memory(MODEL_MAX_CONSTANT_BYTES);
    for (int i = 0; i < 2; i++) {
        large[0] = (uint8_t)i;
        weft_output(weft_constant_tensor(g, WEFT_U8, 1, (int64_t[]){MODEL_MAX_CONSTANT_BYTES}, large),
                    i ? "b" : "a");
    }
    CHECK(weft_save(m, "m.bin", &error) == WEFT_FILE && fake_count(&f) == 0);
    CHECK_HOLDS(error.text, "a file at most 67108864");
    free(large);
    weft_model_free(m);
    faults_end(&f);
}

/* ---- plans ---- */

static weft_plan *plan_of(const weft_model *m) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){0}, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    return plan;
}

/* The bytes of `large`, of f32, and once those that bf16 and f16 share, ... each aligned. `scalar` is like
 * the first element, but has other bytes. */
TEST(equal_bytes_have_one_place_which_the_plan_counts) {
    weft_model *m = model(NULL);
    weft_plan *plan = plan_of(m);
    NEED(plan != NULL);
    CHECK(plan->memory.derived == 448 + 8 * 64 && plan->memory.total >= plan->memory.derived);
    weft_plan_free(plan);
    weft_model_free(m);
}

static weft_node *tensor_number(const weft_plan *plan, int i) {
    weft_node *n = plan->programs[0].graph->first;
    while (n && (n->op != &weft_op_constant_tensor || i-- > 0)) n = n->next;
    return n;
}

TEST(the_verifier_finds_a_tensor_in_memory_of_other_bytes) {
    for (int mutant = 0; mutant < 4; mutant++) {
        weft_model *m = model(NULL);
        weft_plan *plan = plan_of(m);
        weft_error error = {0};
        NEED(plan != NULL);
        weft_node *a = tensor_number(plan, 0), *b = tensor_number(plan, 1);
        CHECK(weft_plan_verify(plan, &error) == WEFT_OK);
        if (mutant == 0) a->out[0].variable = b->out[0].variable;
        if (mutant == 1) a->out[0].variable = NULL;
        if (mutant == 2) a->out[0].variable->type.shape[0]++;
        if (mutant == 3) a->out[0].variable->kind = VARIABLE_DERIVED;
        CHECK(weft_plan_verify(plan, &error) == WEFT_INTERNAL);
        CHECK_HOLDS(error.text, mutant == 1 ? "V" : "K7");
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

/* Equal nodes are merged; a tensor that is added to an input is read where it is. */
TEST(a_tensor_trains_as_an_input_of_the_same_numbers_does) {
    float loss[2], data[] = {0.5f, -1, 2, 0.25f};
    for (int fed = 0; fed < 2; fed++) {
        weft_error error = {0};
        weft_model *m = weft_model_new("m");
        weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
        weft_value *x = fed ? weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 2})
                            : weft_constant_tensor(g, WEFT_F32, 2, (int64_t[]){2, 2}, data);
        weft_value *y = weft_linear(weft_add(x, weft_square(x)), 3, "fc", NULL);
        weft_value *l = weft_mean(weft_square(y), WEFT_ALL, false);
        weft_minimize(l, NULL, &(weft_optimizer){.type = "adam", .lr = 0.1});
        weft_output(l, "loss");
        weft_plan *plan = plan_of(m);
        weft_store *store = weft_store_new(plan, 3, &error);
        weft_session *s = weft_session_open(plan, store, &error);
        for (int i = 0; s && i < 5; i++)
            weft_run(s, "step", &(weft_feed){"x", data, sizeof data}, fed,
                     &(weft_fetch){"loss", &loss[fed], 4}, 1, &error);
        CHECK_SAYS(!error.status, "%s", error.text);
        weft_session_close(s);
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(m);
    }
    CHECK(loss[0] == loss[1]);
}

/* ---- worlds ---- */

/* Rank 1 has another model. */
static void change_rank_1(world_rank *r) {
    static world_job other;
    if (r->rank == 0) return;
    other = *r->job;
    other.model = r->job->context;
    r->job = &other;
}

TEST(ranks_with_other_bytes_are_refused) {
    weft_model *m[2];
    for (int i = 0; i < 2; i++) {
        uint32_t data[] = {0x7fc00001, (uint32_t)i};
        m[i] = weft_model_new("m");
        weft_graph *g = weft_graph_new(m[i], "step", WEFT_TRAIN);
        weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 2});
        weft_value *l = weft_mean(weft_linear(x, 2, "fc", NULL), WEFT_ALL, false);
        weft_minimize(l, NULL, &(weft_optimizer){.type = "sgd", .lr = 0.1});
        weft_output(l, "loss");
        weft_output(weft_constant_tensor(g, WEFT_F32, 1, (int64_t[]){2}, data), "c");
    }
    world_job job = {
        .model = m[0], .context = m[1], .begin = change_rank_1, .options = {.world = 2}, .steps = 1};
    world_rank *ranks = world_run_any(&job, true);
    for (int i = 0; i < 2; i++) {
        CHECK(ranks[i].error.status == WEFT_PEER);
        CHECK_HOLDS(ranks[i].error.text, "plan");
    }
    world_free(ranks);
    weft_model_free(m[0]);
    weft_model_free(m[1]);
}

SUITE("constants",
      {T(every_type_is_held_to_the_bit_in_programs_files_and_dumps),
       T(a_dump_has_the_bytes_of_a_large_tensor_once), T(dumps_with_wrong_bytes_are_refused),
       T(what_is_no_tensor_is_refused_before_it_is_read), T(a_model_that_no_file_may_hold_is_not_saved),
       T(equal_bytes_have_one_place_which_the_plan_counts),
       T(the_verifier_finds_a_tensor_in_memory_of_other_bytes),
       T(a_tensor_trains_as_an_input_of_the_same_numbers_does), T(ranks_with_other_bytes_are_refused)})
