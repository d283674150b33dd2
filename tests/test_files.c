/* test_files.c - model.bin and safetensors: what is written reads back, every rule broken once has its
 * message, and any call that fails leaves the old file as it was and nothing behind. */
#include "graph/limits.h"
#include "graph/model_file.h"
#include "runtime/safetensors.h"
#include "support/example.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- model.bin ---- */

static void save(const weft_model *m, const char *path) {
    weft_error error;
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
}

TEST(a_model_loads_as_it_was_saved) {
    faults f;
    faults_init(&f);
    weft_error error;
    weft_model *m = example_model(&f.env);
    CHECK_TEXT(weft_model_error(m)->text, "");
    save(m, "a.bin");
    save(m, "b.bin");
    const fake_file *a = fake_get(&f, "a.bin"), *b = fake_get(&f, "b.bin");
    NEED(a && b);
    CHECK(a->is_synced && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
    weft_model *copy = weft_load("a.bin", &f.env, &error);
    CHECK_SAYS(copy != NULL, "%s", error.text);
    if (copy) {
        char *before = weft_model_text(m), *after = weft_model_text(copy);
        CHECK_TEXT(after, before);
        free(before);
        free(after);
        for (const weft_graph *g = m->graphs, *h = copy->graphs; g && h; g = g->next, h = h->next)
            CHECK(g->next_random == h->next_random && g->next_id == h->next_id);
        save(copy, "b.bin");
        b = fake_get(&f, "b.bin");
        CHECK(a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
    }
    weft_model_free(copy);
    weft_model_free(m);
    CHECK(f.live == 0 && f.handles == 0 && fake_count(&f) == 2);
    faults_end(&f);
}

TEST(files_on_the_disk_are_replaced_whole) {
    char folder[] = "/tmp/weft_files_XXXXXX", path[64], text[200];
    weft_error error;
    NEED(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/model.bin", folder);
    weft_model *m = example_model(NULL), *copy;
    save(m, path);
    save(m, path);
    copy = weft_load(path, NULL, &error);
    CHECK_SAYS(copy != NULL, "%s", error.text);
    weft_model_free(copy);
    snprintf(text, sizeof text, "%s/no/model.bin", folder);
    CHECK(weft_save(m, text, &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "cannot be written: No such file or directory");
    CHECK(!weft_load(text, NULL, &error) && error.status == WEFT_IO);
    CHECK(!weft_load(folder, NULL, &error));
    CHECK_HOLDS(error.text, "cannot be opened: Is a directory");
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(!weft_load(path, NULL, &error));
    CHECK_HOLDS(error.text, "not a regular file");
    CHECK(weft_save(m, path, &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "cannot be renamed into place: not a regular file");
    unlink(path);
    CHECK(rmdir(folder) == 0); /* so nothing was left beside it */
    weft_model_free(m);
}

TEST(what_cannot_be_saved_says_so) {
    weft_error error;
    weft_model *m = weft_model_new("bad name");
    CHECK(weft_save(m, "x", &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "model name");
    CHECK(weft_save(NULL, "x", &error) == WEFT_ARGUMENT);
    weft_model_free(m);
}

/* ---- model.bin: rules ---- */

/* A change to the unpacked example; each must make loading fail. */
#define CALL(g, c) (m->graphs[g]->calls[c])
typedef Weft__Model model_message;
static void version_2(model_message *m) {
    m->version = 2;
}
static void bad_magic(model_message *m) {
    m->magic++;
}
static void bad_name(model_message *m) {
    m->name = "a b";
}
static void bad_batch(model_message *m) {
    m->batch = -1;
}
static void same_variable(model_message *m) {
    m->variables[1]->path = m->variables[0]->path;
}
static void variable_path(model_message *m) {
    m->variables[0]->path = "a//x";
}
static void variable_kind_7(model_message *m) {
    m->variables[0]->kind = (Weft__Variable__Kind)7;
}
static void variable_init_99(model_message *m) {
    m->variables[0]->init = (Weft__Variable__Init)99;
}
static void variable_negative(model_message *m) {
    m->variables[0]->shape[0] = -4;
}
static void variable_huge(model_message *m) {
    m->variables[0]->shape[0] = INT64_MAX;
}
static void variable_dtype(model_message *m) {
    m->variables[0]->dtype = (Weft__DType)-1;
}
static void same_graph(model_message *m) {
    m->graphs[1]->name = m->graphs[0]->name;
}
static void forward(model_message *m) {
    CALL(0, 1)->operand_call[0] = 9;
}
static void itself(model_message *m) {
    CALL(0, 1)->operand_call[0] = 2;
}
static void beyond(model_message *m) {
    CALL(0, 1)->operand_call[0] = UINT32_MAX;
}
static void no_result(model_message *m) {
    CALL(0, 1)->operand_result[0] = 1;
}
static void counts_differ(model_message *m) {
    CALL(0, 1)->n_operand_result = 0;
}
static void required_missing(model_message *m) {
    CALL(0, 1)->operand_call[0] = 0;
}
static void no_operands(model_message *m) {
    CALL(0, 1)->n_operand_call = CALL(0, 1)->n_operand_result = 0;
}
static void unknown_op(model_message *m) {
    CALL(0, 1)->op = "explode";
}
static void compilers_op(model_message *m) {
    CALL(0, 1)->op = "fused";
}
static void update_op(model_message *m) {
    CALL(0, 1)->op = "adam_update";
}
static void bad_scope(model_message *m) {
    CALL(0, 1)->scope = "a//b";
}
static void unknown_attribute(model_message *m) {
    CALL(0, 0)->attributes[0]->name = "nome";
}
static void same_attribute(model_message *m) {
    CALL(0, 0)->attributes[1] = CALL(0, 0)->attributes[0];
}
static void attribute_kind(model_message *m) {
    CALL(0, 0)->attributes[0]->value_case = WEFT__ATTRIBUTE__VALUE_REAL;
    CALL(0, 0)->attributes[0]->real = 1;
}
static void same_input(model_message *m) {
    m->graphs[0]->calls[1] = m->graphs[0]->calls[0];
}
static void output_beyond(model_message *m) {
    m->graphs[0]->outputs[0]->call = 100000;
}
static void output_name(model_message *m) {
    m->graphs[0]->outputs[0]->name = "";
}
static void shape_conflict(model_message *m) {
    m->variables[0]->shape[0] += 1;
}
static void parameter_twice(model_message *m) {
    Weft__Graph *g = m->graphs[0];
    for (size_t i = 0; i < g->n_calls; i++)
        if (strcmp(g->calls[i]->op, "parameter") == 0) {
            g->calls[1] = g->calls[i];
            return;
        }
}
#undef CALL

static const struct {
    void (*change)(Weft__Model *m);
    const char *says;
} broken_models[] = {
    {version_2, "m.bin: version 2, this Weft"},
    {bad_magic, "not a Weft model"},
    {bad_name, "model name 'a b'"},
    {bad_batch, "a batch of -1"},
    {same_variable, "is listed twice"},
    {variable_path, "m.bin: variable a//x: names of letters"},
    {variable_kind_7, "kind 7 is neither parameter nor state"},
    {variable_init_99, "an initializer that is not in the list"},
    {variable_negative, "every axis at least 1"},
    {variable_huge, "every axis at least 1"},
    {variable_dtype, "f32, every axis"},
    {same_graph, "there is a graph 'd_step' already"},
    {forward, "m.bin: graph d_step: call 1: operand 0 is of call 8: only earlier ones"},
    {itself, "operand 0 is of call 1: only earlier ones"},
    {beyond, "only earlier ones"},
    {no_result, "operand 0 is result 1 of call 0, which has 1"},
    {counts_differ, "1 operand calls and 0 results"},
    {required_missing, "call 1: cast: operand 0 is NULL"},
    {no_operands, "call 1: cast: 0 operands"},
    {unknown_op, "call 1: there is no op 'explode'"},
    {compilers_op, "only the compiler makes these"},
    {update_op, "only the compiler makes these"},
    {bad_scope, "scope 'a//b' is no path"},
    {unknown_attribute, "call 0: input has no attribute 'nome'"},
    {same_attribute, "is given twice"},
    {attribute_kind, "has a value of another kind"},
    {same_input, "has an input 'image' already"},
    {output_beyond, "output d_loss: result 0 of call 100000: there is none"},
    {output_name, "output name ''"},
    {shape_conflict, "graph d_step: call "},
    {parameter_twice, "is read by an earlier call already"},
};

static void *arena_piece(void *a, size_t bytes) {
    return arena_new(a, bytes);
}

static void arena_keep(void *a, void *memory) {
    (void)a;
    (void)memory;
}

TEST(each_rule_of_model_bin_has_its_message) {
    faults f;
    faults_init(&f);
    weft_model *example = example_model(&f.env);
    save(example, "m.bin");
    const fake_file *file = fake_get(&f, "m.bin");
    NEED(file != NULL);
    for (size_t i = 0; i < sizeof broken_models / sizeof *broken_models; i++) {
        weft_error error = {0};
        arena a; /* what is changed points into the test, so nothing is freed piece by piece */
        arena_init(&a, NULL);
        ProtobufCAllocator allocator = {arena_piece, arena_keep, &a};
        Weft__Model *m = weft__model__unpack(&allocator, file->bytes, (const uint8_t *)file->data);
        NEED(m != NULL);
        broken_models[i].change(m);
        size_t bytes = weft__model__get_packed_size(m);
        uint8_t *packed = test_memory(bytes);
        weft__model__pack(m, packed);
        faults g;
        faults_init(&g);
        fake_put(&g, "m.bin", packed, bytes);
        weft_model *loaded = weft_load("m.bin", &g.env, &error);
        CHECK_SAYS(!loaded && strstr(error.text, broken_models[i].says), "case %zu: \"%s\", wanted \"%s\"", i,
                   loaded ? "no error" : error.text, broken_models[i].says);
        CHECK(loaded || error.status == WEFT_FILE);
        weft_model_free(loaded);
        CHECK(g.live == 0 && g.handles == 0);
        faults_end(&g);
        free(packed);
        arena_free(&a);
    }
    weft_model_free(example);
    faults_end(&f);
}

TEST(every_truncation_of_model_bin_is_refused) {
    faults f;
    faults_init(&f);
    weft_model *m = example_model(&f.env);
    save(m, "m.bin");
    weft_model_free(m);
    const fake_file *whole = fake_get(&f, "m.bin");
    NEED(whole != NULL);
    for (size_t n = 0; n < whole->bytes; n += 1 + n / 64) {
        weft_error error = {0};
        fake_put(&f, "cut.bin", whole->data, n);
        weft_model *cut = weft_load("cut.bin", &f.env, &error);
        /* A cut between two fields is a smaller, whole message: it may load, with fewer graphs. */
        CHECK_SAYS(cut || error.status == WEFT_FILE, "%zu bytes: %s", n, error.text);
        weft_model_free(cut);
        CHECK(f.live == 0 && f.handles == 0);
    }
    faults_end(&f);
}

TEST(unknown_fields_of_model_bin_are_refused) {
    faults f;
    weft_error error;
    faults_init(&f);
    weft_model *m = example_model(&f.env);
    save(m, "m.bin");
    weft_model_free(m);
    const fake_file *file = fake_get(&f, "m.bin");
    NEED(file != NULL);
    char *longer = test_memory(file->bytes + 3);
    memcpy(longer, file->data, file->bytes);
    memcpy(longer + file->bytes, "\xf8\x01\x05", 3); /* field 31, the number 5 */
    fake_put(&f, "m.bin", longer, file->bytes + 3);
    CHECK(!weft_load("m.bin", &f.env, &error));
    CHECK_HOLDS(error.text, "a field that this version does not know");
    free(longer);
    faults_end(&f);
}

/* ---- failures ---- */

/* Runs `act` with its n-th allocation or file call failing, n = 1, 2, ... until none is left to fail. */
static void inject(faults *f, bool memory, weft_status (*act)(faults *f, weft_error *error),
                   void (*after)(faults *f)) {
    for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
        for (long n = 1;; n++) {
            weft_error error = {0};
            size_t live = f->live;
            faults_arm(f, memory ? n : 0, memory ? 0 : n, from_then_on);
            weft_status status = act(f, &error);
            bool hit = faults_hit(f);
            faults_arm(f, 0, 0, false);
            if (!hit) break;
            CHECK_SAYS(status == WEFT_OK || (status == error.status && *error.text),
                       "call %ld: status %d, \"%s\"", n, status, error.text);
            CHECK_SAYS(f->live == live && f->handles == 0, "call %ld: %zu bytes and %ld files are left", n,
                       f->live - live, f->handles);
            if (after) after(f);
            if (!CHECK(n < 10000)) return;
        }
    }
}

static weft_model *saved; /* what save_again writes */

static weft_status save_again(faults *f, weft_error *error) {
    (void)f;
    return weft_save(saved, "m.bin", error);
}

static weft_status load_again(faults *f, weft_error *error) {
    weft_model *m = weft_load("m.bin", &f->env, error);
    weft_model_free(m);
    return m ? WEFT_OK : error->status;
}

/* Whatever failed, under its name is the old file or the whole new one (here the same). */
static void model_is_intact(faults *f) {
    weft_error error;
    weft_model *m = weft_load("m.bin", &f->env, &error);
    CHECK_SAYS(m != NULL, "%s", error.text);
    weft_model_free(m);
}

TEST(saving_and_loading_a_model_survive_any_failure) {
    faults f;
    faults_init(&f);
    saved = example_model(&f.env);
    save(saved, "m.bin");
    inject(&f, true, save_again, model_is_intact);
    inject(&f, false, save_again, model_is_intact);
    inject(&f, true, load_again, NULL);
    inject(&f, false, load_again, NULL);
    weft_model_free(saved);
    faults_end(&f);
}

/* A failed write is cleaned up, unless removing fails too. */
TEST(a_full_disk_leaves_the_old_file_alone) {
    faults f;
    weft_error error;
    faults_init(&f);
    weft_model *m = example_model(&f.env);
    fake_put(&f, "m.bin", "old", 3);
    for (long n = 1; n <= 5; n++) { /* open, write, sync, close, rename */
        faults_arm(&f, 0, n, false);
        CHECK(weft_save(m, "m.bin", &error) == WEFT_IO);
        CHECK_HOLDS(error.text, "m.bin: cannot be ");
        const fake_file *old = fake_get(&f, "m.bin");
        CHECK(old && old->bytes == 3 && fake_count(&f) == 1 && f.handles == 0);
    }
    weft_model_free(m);
    faults_end(&f);
}

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

static weft_status fill_index(void *context, int index, void *into, size_t bytes, weft_error *error) {
    (void)context;
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
                                 {.name = "c", .type = {WEFT_F32, 2, {1, 2}}},
                                 {.name = "a\"", .type = {WEFT_F64, 0, {0}}}};
    CHECK(safetensors_write("w", &f.env, 3, list, fill_index, NULL, &error) == WEFT_OK);
    const fake_file *w = fake_get(&f, "w");
    NEED(w != NULL);
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a\\\"\":{\"dtype\":\"F64\","
                                 "\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"c\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
    CHECK(strncmp(w->data + 8, header, sizeof header - 1) == 0);
    CHECK(w->bytes % 8 == 3 &&
          memcmp(w->data + w->bytes - 19, "\2\2\2\2\2\2\2\2\1\1\1\1\1\1\1\1\0\0\0", 19) == 0);
    CHECK(safetensors_open(&s, "w", &f.env, &error) == WEFT_OK);
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
        if (!training && strncmp(path, "optimizer.", 10) == 0) continue;
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
        CHECK_SAYS(weft_weights_load(two, "w", &error) == WEFT_OK, "%s", error.text);
        CHECK(stores_agree(one, two, false));
        CHECK_SAYS(weft_weights_load(two, "t", &error) == WEFT_OK, "%s", error.text);
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
    weft_output(weft_linear(x, 1, "fc"), "y");
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
        {"{" ENTRY("fc.weight", "F64", "[1,2]", 0, 16) "," ENTRY("fc.bias", "BF16", "[1]", 16, 18) "," ENTRY(
             "bn.num_batches_tracked", "I64", "[]", 18, 26) "," ENTRY("optimizer.a.step", "F64", "[]", 26,
                                                                      34) "}",
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
        weft_status status = weft_weights_load(s, path, &error);
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

static weft_store *kept; /* of weights_save_again and weights_load_again */

static weft_status weights_save_again(faults *f, weft_error *error) {
    (void)f;
    return weft_weights_save(kept, "w", true, error);
}

static weft_status weights_load_again(faults *f, weft_error *error) {
    (void)f;
    return weft_weights_load(kept, "w", error);
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
        inject(&f, true, weights_save_again, weights_are_intact);
        inject(&f, false, weights_save_again, weights_are_intact);
        inject(&f, true, weights_load_again, NULL);
        inject(&f, false, weights_load_again, NULL);
    }
    weft_store_free(kept);
    weft_plan_free(plan);
    faults_end(&f);
}

TEST(names_that_would_collide_are_refused) {
    weft_error error = {0};
    weft_model *m = weft_model_new("collide");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *a = weft_parameter_in(g, "a.b", 0, NULL, (weft_init){0}), *b = NULL;
    WEFT_GRAPH_SCOPE(g, "a") b = weft_parameter_in(g, "b", 0, NULL, (weft_init){0});
    weft_output(weft_add(a, b), "y");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    weft_store *s = plan ? weft_store_new(plan, 0, &error) : NULL;
    CHECK_SAYS(s != NULL, "%s", error.text);
    CHECK(!s || weft_weights_save(s, "/tmp/no", false, &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "would both be named a.b in the file");
    weft_store_free(s);
    weft_plan_free(plan);
    weft_model_free(m);
}

SUITE("files", {T(a_model_loads_as_it_was_saved), T(files_on_the_disk_are_replaced_whole),
                T(what_cannot_be_saved_says_so), T(each_rule_of_model_bin_has_its_message),
                T(every_truncation_of_model_bin_is_refused), T(unknown_fields_of_model_bin_are_refused),
                T(saving_and_loading_a_model_survive_any_failure), T(a_full_disk_leaves_the_old_file_alone),
                T(safetensors_in_any_spelling_are_read), T(each_rule_of_safetensors_has_its_message),
                T(safetensors_are_written_in_one_way), T(weights_load_as_they_were_saved),
                T(weights_that_do_not_fit_are_refused_whole),
                T(saving_and_loading_weights_survive_any_failure), T(names_that_would_collide_are_refused)})
