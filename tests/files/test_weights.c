/* test_weights.c - safetensors and the weights in them: what is written reads back, every broken rule has its
 * message, and a call that fails leaves the old file and the store as they were. */
#include "graph/core/limits.h"
#include "graph/file/model_file.h"
#include "runtime/store/safetensors.h"
#include "support/example.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- safetensors ---- */

static void put_safetensors(faults *f, const char *name, const char *header, size_t data_bytes) {
    size_t n = strlen(header);
    char *file = test_memory(8 + n + data_bytes);
    for (int i = 0; i < 8; i++) file[i] = (char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++) file[8 + n + i] = (char)i;
    fake_put(f, name, file, 8 + n + data_bytes);
    free(file);
}

TEST(safetensors_in_any_spelling_are_read) {
    faults f;
    safetensors s;
    weft_error error;
    faults_init(&f);
    put_safetensors(&f, "w",
                    "{ \"b\\u00e9\\n\" : {\"shape\":[ 2 , 1 ],\"data_offsets\":[4,6],\"dtype\":\"F16\"} ,\n"
                    "\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\ud83d\\ude00\"},"
                    "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[4,4]}}   ",
                    8);
    CHECK(safetensors_open(&s, "w", &f.env, &error) == WEFT_FILE);
    CHECK_HOLDS(error.text, "bytes 4 to 6, but f16[2,1] is 4 bytes");
    put_safetensors(&f, "w",
                    "{ \"b\\u00e9\\n\" : {\"shape\":[ 2 , 1 ],\"data_offsets\":[4,8],\"dtype\":\"F16\"} ,\n"
                    "\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\ud83d\\ude00\"},"
                    "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[4,4]}}   ",
                    8);
    weft_status status = safetensors_open(&s, "w", &f.env, &error);
    CHECK_SAYS(status == WEFT_OK, "%s", error.text);
    if (!status) {
        char data[4];
        const safetensors_tensor *b = safetensors_find(&s, "b\xc3\xa9\n");
        CHECK(s.n == 3 && b && safetensors_find(&s, "none") && !safetensors_find(&s, "c"));
        CHECK(b && safetensors_read(&s, b, data, &error) == WEFT_OK && memcmp(data, "\4\5\6\7", 4) == 0);
        safetensors_close(&s);
    }
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
static const struct {
    const char *header;
    size_t data_bytes;
    const char *says;
} broken_safetensors[] = {
    {"", 0, "w: header byte 0: '{' must be the first byte"},
    {" {}", 0, "'{' must be the first byte"},
    {"{", 0, "'\"' is expected"},
    {"{}x", 0, "text after the closing"},
    {"{}", 1, "its tensors have 0 bytes, the file has 1"},
    {"{" A "," A "}", 4, "begins at byte 0 of the data, the tensor before it ends at 4"},
    {"{" A ",\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}", 4, "a is there twice"},
    {"{" A "}", 5, "the file has 5 of data"},
    {"{" A "}", 3, "the file has 3 of data"},
    {"{" A ",}", 4, "'\"' is expected"},
    {"{" A "]", 4, "'}' is expected"},
    {"{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}", 9, "b begins at byte 5"},
    {"{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6, "b begins at byte 2"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, "a begins at byte 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, "bytes 4 to 0"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4, "there is no key 'x'"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     "shape is there twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "are all needed"},
    {"{\"a\":{}}", 0, "'\"' is expected"},
    {"{\"a\":[]}", 0, "{dtype, shape, data_offsets}"},
    {"{\"a\":{\"dtype\":\"U9\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "element type 'U9'"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, "non-negative integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, "non-negative integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[04],\"data_offsets\":[0,4]}}", 4, "non-negative integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4e0],\"data_offsets\":[0,4]}}", 4, "non-negative integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
     "above 2^63 - 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4,0],\"data_offsets\":[0,0]}}", 0,
     "overflows"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
     "more than 8 axes"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' is expected"},
    {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "__metadata__: a is there twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice"},
    {"{\"\\u0000\":{}}", 0, "\\u0000"},
    {"{\"\\ud800\":{}}", 0, "half a surrogate pair"},
    {"{\"\\x\":{}}", 0, "an escape that JSON does not have"},
    {"{\"\n\":{}}", 0, "a control character"},
    {"{\"\xff\":{}}", 0, "not UTF-8"},
    {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xc0\x80\":{}}", 0, "not UTF-8"},
};
#undef A

TEST(each_rule_of_safetensors_has_its_message) {
    faults f;
    safetensors s;
    faults_init(&f);
    for (size_t i = 0; i < sizeof broken_safetensors / sizeof *broken_safetensors; i++) {
        weft_error error = {0};
        put_safetensors(&f, "w", broken_safetensors[i].header, broken_safetensors[i].data_bytes);
        weft_status status = safetensors_open(&s, "w", &f.env, &error);
        CHECK_SAYS(status == WEFT_FILE && strstr(error.text, broken_safetensors[i].says),
                   "%s: \"%s\", wanted \"%s\"", broken_safetensors[i].header, error.text,
                   broken_safetensors[i].says);
        if (!status) safetensors_close(&s);
        CHECK(f.live == 0 && f.handles == 0);
    }
    weft_error error;
    faults_arm(&f, 0, 0, false);
    fake_put(&f, "w", "\0\0\0\0\0\0\0", 7);
    CHECK(safetensors_open(&s, "w", &f.env, &error) == WEFT_FILE);
    CHECK_HOLDS(error.text, "7 bytes, a safetensors file has at least 8");
    fake_put(&f, "w", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    CHECK(safetensors_open(&s, "w", &f.env, &error) == WEFT_FILE);
    CHECK_HOLDS(error.text, "a header of 9223372036854775807 bytes");
    CHECK(f.largest < 4096);
    faults_end(&f);
}

static weft_status fill_index(void *context, int index, uint64_t at, void *into, size_t bytes,
                              weft_error *error) {
    (void)context;
    (void)at;
    (void)error;
    memset(into, index, bytes);
    return WEFT_OK;
}

TEST(safetensors_are_written_in_one_way) {
    faults f;
    weft_error error;
    safetensors s;
    faults_init(&f);
    safetensors_tensor list[] = {{.name = "b", .type = {WEFT_U8, 1, {3}}},
                                 {.name = "c", .says = "average of \\b", .type = {WEFT_F32, 2, {1, 2}}},
                                 {.name = "a\"", .says = "counter", .type = {WEFT_F64, 0, {0}}}};
    CHECK(safetensors_write("w", &f.env, 3, list, fill_index, NULL, &error) == WEFT_OK);
    const fake_file *w = fake_get(&f, "w");
    NEED(w != NULL);
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"weft:a\\\"\":\"counter\","
                                 "\"weft:c\":\"average of \\\\b\"},\"a\\\"\":{\"dtype\":\"F64\","
                                 "\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"c\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
    CHECK(strncmp(w->data + 8, header, sizeof header - 1) == 0);
    CHECK(w->bytes % 8 == 3 &&
          memcmp(w->data + w->bytes - 19, "\2\2\2\2\2\2\2\2\1\1\1\1\1\1\1\1\0\0\0", 19) == 0);
    NEED(safetensors_open(&s, "w", &f.env, &error) == WEFT_OK);
    CHECK_TEXT(safetensors_find(&s, "a\"")->says, "counter");
    CHECK_TEXT(safetensors_find(&s, "c")->says, "average of \\b");
    CHECK(!safetensors_find(&s, "b")->says);
    safetensors_close(&s);
    list[1].name = "b";
    CHECK(safetensors_write("w2", &f.env, 3, list, fill_index, NULL, &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "two tensors would be named b");
    CHECK(fake_count(&f) == 1 && f.live == 0);
    faults_end(&f);
}

/* ---- weights ---- */

static weft_plan *example_plan(const weft_env *env, weft_store **store, uint64_t seed) {
    weft_error error = {0};
    weft_model *m = example_model(env);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    *store = plan ? weft_store_new(plan, seed, &error) : NULL;
    CHECK_SAYS(*store != NULL, "%s", error.text);
    weft_model_free(m);
    return plan;
}

static bool stores_agree(const weft_store *a, const weft_store *b, bool training) {
    for (int i = 0; weft_store_path(a, i); i++) {
        const char *path = weft_store_path(a, i);
        weft_dtype dtype;
        int64_t shape[WEFT_MAX_NDIM];
        int ndim = weft_store_shape(a, path, &dtype, shape);
        weft_stored value;
        CHECK(weft_store_at(a, i, &value) && strcmp(value.path, path) == 0);
        if (!training && value.kind != WEFT_STORED_PARAMETER && value.kind != WEFT_STORED_STATE) continue;
        tensor_type t = type_of(dtype, ndim, shape);
        size_t bytes = type_bytes(&t);
        char *x = test_memory(bytes), *y = test_memory(bytes);
        bool same = weft_store_get(a, path, x, bytes, NULL) == WEFT_OK &&
                    weft_store_get(b, path, y, bytes, NULL) == WEFT_OK && memcmp(x, y, bytes) == 0;
        free(x);
        free(y);
        if (!same) return CHECK_SAYS(false, "%s differs", path);
    }
    return true;
}

TEST(weights_load_as_they_were_saved) {
    faults f;
    weft_error error;
    weft_store *one, *two;
    faults_init(&f);
    weft_plan *plan = example_plan(&f.env, &one, 1), *other = example_plan(&f.env, &two, 2);
    if (one && two) {
        weft_store_set_lr(one, "gen", 0.75, &error);
        CHECK_SAYS(weft_weights_save(one, "w", false, &error) == WEFT_OK, "%s", error.text);
        CHECK_SAYS(weft_weights_save(one, "t", true, &error) == WEFT_OK, "%s", error.text);
        const fake_file *w = fake_get(&f, "w"), *t = fake_get(&f, "t");
        CHECK(w && t && t->bytes > w->bytes);
        safetensors s;
        CHECK(safetensors_open(&s, "t", &f.env, &error) == WEFT_OK);
        CHECK(safetensors_find(&s, "generator.bn.running_mean") &&
              safetensors_find(&s, "optimizer.gen.step") &&
              safetensors_find(&s, "optimizer.gen.generator.fc.weight.momentum_buffer"));
        safetensors_close(&s);
        CHECK_SAYS(weft_weights_load(two, "w", NULL, NULL, &error) == WEFT_OK, "%s", error.text);
        CHECK(stores_agree(one, two, false));
        CHECK_SAYS(weft_weights_load(two, "t", NULL, NULL, &error) == WEFT_OK, "%s", error.text);
        CHECK(stores_agree(one, two, true));
        weft_weights_save(two, "t2", true, &error);
        const fake_file *t2 = fake_get(&f, "t2");
        CHECK(t2 && t2->bytes == t->bytes && memcmp(t2->data, t->data, t->bytes) == 0);
    }
    weft_store_free(one);
    weft_store_free(two);
    weft_plan_free(plan);
    weft_plan_free(other);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

static weft_store *small_store(weft_plan **plan) {
    weft_error error = {0};
    weft_model *m = weft_model_new("small");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){1, 2});
    weft_output(weft_linear(x, 1, "fc", NULL), "y");
    *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    weft_store *s = *plan ? weft_store_new(*plan, 0, &error) : NULL;
    CHECK_SAYS(s != NULL, "%s", error.text);
    weft_model_free(m);
    return s;
}

#define ENTRY(name, dtype, shape, a, b)                                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #a "," #b "]}"

TEST(weights_that_do_not_fit_are_refused_whole) {
    static const struct {
        const char *header;
        size_t bytes;
        weft_status status;
        const char *says;
    } cases[] = {
        {"{" ENTRY("fc.weight", "F32", "[1,2]", 0, 8) "}", 8, WEFT_NAME, "parameter fc.bias is missing"},
        {"{" ENTRY("fc.weight", "F32", "[2,1]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "}", 12,
         WEFT_SHAPE, "fc.weight is f32[2,1], the model's is f32[1,2]"},
        {"{" ENTRY("fc.weight", "I32", "[1,2]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "}", 12,
         WEFT_TYPE, "fc.weight is i32[1,2], which does not convert"},
        {"{" ENTRY("fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "," ENTRY(
             "fc.gain", "F32", "[1]", 12, 16) "}",
         16, WEFT_NAME, "the model has no fc.gain"},
        {"{" ENTRY("fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "," ENTRY(
             "optimizer.a.step", "F64", "[]", 12, 20) "}",
         20, WEFT_NAME, "the model has no optimizer.a.step"},
        {"{" ENTRY("fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "," ENTRY(
             "bn.num_batches_tracked", "F32", "[]", 12, 16) "}",
         16, WEFT_NAME, "the model has no bn.num_batches_tracked"},
        {"{\"__metadata__\":{\"weft:fc.weight\":\"slot of fc.bias\"}," ENTRY(
             "fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY("fc.bias", "F32", "[1]", 8, 12) "}",
         12, WEFT_NAME, "fc.weight is 'slot' there, the model's is 'parameter'"},
        {"{\"__metadata__\":{\"weft:fc.weight\":\"lr\"}," ENTRY("fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY(
             "fc.bias", "F32", "[1]", 8, 12) "}",
         12, WEFT_FILE, "it says that fc.weight is 'lr', which no value is"},
        {"{" ENTRY("fc.weight", "F64", "[1,2]", 0, 16) "," ENTRY("fc.bias", "BF16", "[1]", 16, 18) "," ENTRY(
             "bn.num_batches_tracked", "I64", "[]", 18,
             26) "," ENTRY("a", "F64", "[]", 26,
                           34) ",\"__metadata__\":{\"weft:a\":\"step of b\",\"weft:c\":\"nothing\"}}",
         34, WEFT_OK, ""},
    };
    weft_plan *plan;
    faults f;
    faults_init(&f);
    weft_store *s = small_store(&plan);
    char path[] = "/tmp/weft_weights_XXXXXX";
    int fd = mkstemp(path);
    NEED(s && fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float before[2], after[2];
        weft_error error = {0};
        weft_store_get(s, "fc/weight", before, sizeof before, NULL);
        put_safetensors(&f, "w", cases[i].header, cases[i].bytes);
        const fake_file *w = fake_get(&f, "w");
        FILE *out = fopen(path, "wb");
        NEED(out != NULL);
        CHECK(fwrite(w->data, 1, w->bytes, out) == w->bytes && fclose(out) == 0);
        weft_status status = weft_weights_load(s, path, NULL, NULL, &error);
        CHECK_SAYS(status == cases[i].status && strstr(error.text, cases[i].says), "case %zu: %d %s", i,
                   status, error.text);
        weft_store_get(s, "fc/weight", after, sizeof after, NULL);
        CHECK((memcmp(before, after, sizeof after) == 0) == (status != WEFT_OK));
    }
    float bias, want;
    uint32_t bits = 0x11100000; /* bytes 16 and 17 of the data, as bf16 */
    memcpy(&want, &bits, sizeof want);
    weft_store_get(s, "fc/bias", &bias, sizeof bias, NULL);
    CHECK(bias == want);
    unlink(path);
    weft_store_free(s);
    weft_plan_free(plan);
    faults_end(&f);
}

/* ---- parts of a file ---- */

/* The file at `path` (a real one, since a store's environment reads it) becomes such safetensors. */
static bool put_real(faults *f, const char *path, const char *header, size_t bytes) {
    put_safetensors(f, "w", header, bytes);
    const fake_file *w = fake_get(f, "w");
    FILE *out = fopen(path, "wb");
    bool good = out && fwrite(w->data, 1, w->bytes, out) == w->bytes;
    return out && fclose(out) == 0 && good;
}

static const char parts_header[] =
    "{" ENTRY("module.fc.weight", "F32", "[1,2]", 0, 8) "," ENTRY("head.bias", "F32", "[5]", 8, 28) "," ENTRY(
        "module.bn.num_batches_tracked", "I64", "[]", 28, 36) "," ENTRY("fc.gain", "F16", "[1]", 36, 38) "}";

TEST(weights_load_in_part_and_by_other_names) {
    static const weft_rename renames[] = {{"module.", ""}, {"head.", "other."}, {"", "top."}};
    static const struct {
        bool not_strict;
        int n_renames;
        weft_status status;
        int loaded, missing, unexpected;
        const char *lacks, *more, *says;
    } cases[] = {
        {false, 0, WEFT_NAME, 0, 2, 3, "fc.bias\nfc.weight\n", "fc.gain\nhead.bias\nmodule.fc.weight\n",
         "no name in it is one of the model's: it has fc.gain (and 2 more), and the model fc.bias (and 1 "
         "more): these are weights of another model, or by other names: rename those"},
        {false, 1, WEFT_NAME, 0, 1, 2, "fc.bias\n", "fc.gain\nhead.bias\n",
         "the model has no fc.gain (and 1 more): rename it, or load in part"},
        {true, 0, WEFT_OK, 0, 2, 3, "fc.bias\nfc.weight\n", "fc.gain\nhead.bias\nmodule.fc.weight\n", ""},
        {true, 1, WEFT_OK, 1, 1, 2, "fc.bias\n", "fc.gain\nhead.bias\n", ""},
        {true, 3, WEFT_OK, 1, 1, 2, "fc.bias\n", "other.bias\ntop.fc.gain\n", ""},
    };
    weft_plan *plan;
    faults f;
    faults_init(&f);
    weft_store *s = small_store(&plan);
    char path[] = "/tmp/weft_weights_XXXXXX";
    int fd = mkstemp(path);
    NEED(s && fd >= 0);
    close(fd);
    CHECK(put_real(&f, path, parts_header, 38));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_weights_report r;
        weft_error error = {0};
        float bias[2];
        weft_store_set(s, "fc/bias", (float[]){7}, sizeof(float), NULL);
        weft_weights_options o = {cases[i].not_strict, cases[i].n_renames,
                                  cases[i].n_renames ? renames : NULL};
        weft_status status = weft_weights_load(s, path, &o, &r, &error);
        CHECK_SAYS(status == cases[i].status, "case %zu: %s", i, error.text);
        CHECK_HOLDS(error.text, cases[i].says);
        CHECK_SAYS(r.n_loaded == cases[i].loaded && r.n_missing == cases[i].missing &&
                       r.n_unexpected == cases[i].unexpected,
                   "case %zu: %d %d %d", i, r.n_loaded, r.n_missing, r.n_unexpected);
        CHECK_TEXT(r.missing, cases[i].lacks);
        CHECK_TEXT(r.unexpected, cases[i].more);
        weft_text_free(r.missing);
        weft_text_free(r.unexpected);
        CHECK(!weft_store_get(s, "fc/bias", bias, sizeof *bias, NULL) && bias[0] == 7);
    }
    unlink(path);
    weft_store_free(s);
    weft_plan_free(plan);
    faults_end(&f);
}

TEST(renames_that_collide_and_other_shapes_are_refused) {
    static const weft_rename same[] = {{"head.bias", "fc.gain"}}, shape[] = {{"head.bias", "fc.bias"}};
    weft_plan *plan;
    faults f;
    weft_error error;
    faults_init(&f);
    weft_store *s = small_store(&plan);
    char path[] = "/tmp/weft_weights_XXXXXX";
    int fd = mkstemp(path);
    NEED(s && fd >= 0);
    close(fd);
    CHECK(put_real(&f, path, parts_header, 38));
    CHECK(weft_weights_load(s, path, &(weft_weights_options){true, 1, same}, NULL, &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "two tensors would be named fc.gain after renaming");
    CHECK(weft_weights_load(s, path, &(weft_weights_options){true, 1, shape}, NULL, &error) == WEFT_SHAPE);
    CHECK_HOLDS(error.text, "fc.bias is f32[5], the model's is f32[1]");
    CHECK(weft_weights_load(s, path, &(weft_weights_options){true, 1, NULL}, NULL, &error) == WEFT_ARGUMENT);
    CHECK_HOLDS(error.text, "n_renames=1 and renames");
    unlink(path);
    weft_store_free(s);
    weft_plan_free(plan);
    faults_end(&f);
}

TEST(one_tensor_of_a_file_is_read_without_a_store) {
    faults f;
    weft_error error;
    weft_port port;
    unsigned char data[20];
    faults_init(&f);
    put_safetensors(&f, "w", parts_header, 38);
    weft_tensors *t = weft_tensors_open("w", &f.env, &error);
    NEED(t != NULL);
    CHECK(weft_tensors_at(t, 1, &port) && !weft_tensors_at(t, 4, &port) && !weft_tensors_at(t, -1, &port));
    CHECK_TEXT(port.name, "head.bias");
    CHECK(port.dtype == WEFT_F32 && port.ndim == 1 && port.shape[0] == 5 && port.bytes == 20);
    CHECK(!weft_tensors_read(t, "head.bias", data, sizeof data, &error) && data[0] == 8 && data[19] == 27);
    CHECK(weft_tensors_read(t, "head", data, sizeof data, &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "w: there is no tensor head");
    CHECK(weft_tensors_read(t, "fc.gain", data, sizeof data, &error) == WEFT_SHAPE);
    CHECK_HOLDS(error.text, "fc.gain is f16[1], 2 bytes; the caller has room for 20");
    CHECK(weft_tensors_read(NULL, "fc.gain", data, sizeof data, &error) == WEFT_ARGUMENT);
    weft_tensors_close(t);
    CHECK(!weft_tensors_open("none", &f.env, &error) && !weft_tensors_open(NULL, &f.env, &error));
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

static weft_store *kept; /* of weights_save_again and weights_load_again */

static weft_status weights_save_again(faults *f, weft_error *error) {
    (void)f;
    return weft_weights_save(kept, "w", true, error);
}

static weft_status weights_load_again(faults *f, weft_error *error) {
    (void)f;
    return weft_weights_load(kept, "w", NULL, NULL, error);
}

static void weights_are_intact(faults *f) {
    weft_error error;
    safetensors s;
    CHECK_SAYS(safetensors_open(&s, "w", &f->env, &error) == WEFT_OK, "%s", error.text);
    safetensors_close(&s);
}

TEST(saving_and_loading_weights_survive_any_failure) {
    faults f;
    faults_init(&f);
    weft_plan *plan = example_plan(&f.env, &kept, 3);
    if (kept) {
        CHECK(weft_weights_save(kept, "w", true, NULL) == WEFT_OK);
        faults_inject(&f, true, weights_save_again, weights_are_intact);
        faults_inject(&f, false, weights_save_again, weights_are_intact);
        faults_inject(&f, true, weights_load_again, NULL);
        faults_inject(&f, false, weights_load_again, NULL);
    }
    weft_store_free(kept);
    weft_plan_free(plan);
    faults_end(&f);
}

/* ---- state of i64 ---- */

/* A counter that a store sets, a graph renews and a file keeps, to the last bit. */
TEST(a_counter_of_i64_keeps_every_bit) {
    const int64_t many = ((int64_t)1 << 60) + 1;
    faults f;
    weft_error error = {0};
    faults_init(&f);
    weft_model *m = weft_model_new_in("m", &f.env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_EVAL);
    weft_value *n =
        weft_state_in(g, "n", WEFT_I64, 1, (int64_t[]){2}, (weft_init){WEFT_INIT_CONSTANT, -3, 0});
    weft_value *next = weft_offset(n, 1);
    weft_assign(n, next);
    weft_output(next, "next");
    CHECK(!weft_save(m, "m", &error));
    weft_model_free(m);
    m = weft_load("m", &f.env, &error);
    weft_plan *plan = m ? weft_compile(m, &(weft_compile_options){.verify = true}, &error) : NULL;
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL, *other = NULL;
    weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
    int64_t y[2] = {0};
    if (CHECK(s)) {
        CHECK(!weft_run(s, "step", NULL, 0, &(weft_fetch){"next", y, sizeof y}, 1, &error) && y[1] == -2);
        CHECK(!weft_store_set(store, "n", (int64_t[]){many, -many}, sizeof y, &error));
        CHECK(!weft_run(s, "step", NULL, 0, NULL, 0, &error));
        CHECK(!weft_weights_save(store, "w", false, &error));
        other = weft_store_new(plan, 1, &error);
        CHECK(other && !weft_weights_load(other, "w", NULL, NULL, &error));
        CHECK(!weft_store_get(other, "n", y, sizeof y, &error) && y[0] == many + 1 && y[1] == 1 - many);
    }
    CHECK_SAYS(!error.status, "%s", error.text);
    weft_session_close(s);
    weft_store_free(other);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    faults_end(&f);
}

/* ---- names that are the same in files ---- */

/* A scope or "", and a name in it; both paths have the same name in files. */
static const struct {
    const char *scope[2], *name[2];
} alike[] = {{{"", "a"}, {"a.b", "b"}}, {{"a.b", "a"}, {"w", "b.w"}}, {{"a", "a.b"}, {"b.c", "c"}}};
enum { ALIKE = sizeof alike / sizeof *alike };

static weft_value *add_named(weft_value *x, int row, int which, bool is_state) {
    const char *scope = alike[row].scope[which], *name = alike[row].name[which];
    weft_graph *in = *scope ? weft_scope_enter(x, scope) : NULL;
    weft_value *v = is_state ? weft_state(x, name, 0, NULL, (weft_init){0})
                             : weft_parameter(x, name, 0, NULL, (weft_init){0});
    if (in) weft_scope_leave(in);
    return v ? weft_add(x, v) : NULL;
}

/* When the second one is made. */
TEST(names_that_would_collide_are_refused) {
    for (int i = 0; i < 4 * ALIKE; i++) {
        weft_model *m = weft_model_new("collide");
        const weft_error *e = weft_model_error(m);
        weft_value *x = weft_input(weft_graph_new(m, "g", WEFT_EVAL), "x", WEFT_F32, 0, NULL);
        x = add_named(x, i / 4, 0, i & 1);
        CHECK_SAYS(x && !e->status, "%s", e->text);
        CHECK(!add_named(x, i / 4, 1, i >> 1 & 1) && e->status == WEFT_NAME);
        CHECK_HOLDS(e->text, "test_weights.c:");
        CHECK_HOLDS(e->text, alike[i / 4].name[0]);
        CHECK_HOLDS(e->text, i / 4 ? " would both be named a.b." : " would both be named a.b in files");
        weft_model_free(m);
    }
}

TEST(texts_with_such_names_are_refused) {
    for (int i = 0; i < ALIKE; i++) {
        char text[400];
        weft_error error = {0};
        const char *const *scope = alike[i].scope, *const *name = alike[i].name;
        snprintf(text, sizeof text,
                 "model m batch=1\nparameter %s%s%s f32[] zeros(0,0)\nstate %s/%s f32[] zeros(0,0)\n",
                 scope[0], *scope[0] ? "/" : "", name[0], scope[1], name[1]);
        weft_model *m = weft_model_parse(text, "text", NULL, &error);
        CHECK(!m && error.status == WEFT_NAME);
        CHECK_HOLDS(error.text, " would both be named a.b");
        weft_model_free(m);
    }
}

/* What an optimizer keeps is named when the plan is made. */
TEST(a_plan_whose_values_collide_is_refused) {
    static const struct {
        const char *scope, *name, *optimizer, *says;
    } rows[] = {{"optimizer.o", "w", "o", NULL},
                {"optimizer.o", "net.w.ema", "o", "optimizer.o.net.w.ema"},
                {"optimizer.o.net", "w.momentum_buffer", "o", "optimizer.o.net.w.momentum_buffer"},
                {"optimizer", "o.lr", "o", "optimizer.o.lr"},
                {"optimizer", "graph.step.step", "o", "optimizer.graph.step.step"},
                {"net", "v", "graph.step", "optimizer.graph.step.step"},
                {"net", "v", "net", NULL},
                {"optimizer.p", "net.w.ema", "o", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error = {0};
        weft_value *v = NULL, *w = NULL;
        weft_model *m = weft_model_new("collide");
        weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
        WEFT_GRAPH_SCOPE(g, "net") w = weft_parameter_in(g, "w", 0, NULL, (weft_init){0});
        WEFT_GRAPH_SCOPE(g, rows[i].scope) v = weft_parameter_in(g, rows[i].name, 0, NULL, (weft_init){0});
        v = weft_dropout(weft_square(weft_add(w, v)), 0.5);
        weft_optimizer o = {.type = "sgd", .name = rows[i].optimizer, .lr = 1, .momentum = 0.5, .ema = 0.5};
        weft_minimize(v, "", &o);
        weft_plan *plan = weft_compile(m, NULL, &error);
        if (rows[i].says) {
            CHECK_SAYS(!plan && error.status == WEFT_NAME, "row %zu: %s", i, error.text);
            CHECK_HOLDS(error.text, " would both be named ");
            CHECK_HOLDS(error.text, rows[i].says);
        } else {
            CHECK_SAYS(plan != NULL, "row %zu: %s", i, error.text);
        }
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

SUITE("weights",
      {T(safetensors_in_any_spelling_are_read), T(each_rule_of_safetensors_has_its_message),
       T(safetensors_are_written_in_one_way), T(weights_load_as_they_were_saved),
       T(weights_that_do_not_fit_are_refused_whole), T(weights_load_in_part_and_by_other_names),
       T(renames_that_collide_and_other_shapes_are_refused), T(one_tensor_of_a_file_is_read_without_a_store),
       T(saving_and_loading_weights_survive_any_failure), T(a_counter_of_i64_keeps_every_bit),
       T(names_that_would_collide_are_refused), T(texts_with_such_names_are_refused),
       T(a_plan_whose_values_collide_is_refused)})
