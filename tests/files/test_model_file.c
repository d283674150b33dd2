/* test_model_file.c - model.bin: what is written reads back, every broken rule has its message, and a call
 * that fails leaves the old file as it was and nothing else. */
#include "graph/core/limits.h"
#include "graph/file/model_file.h"
#include "runtime/store/safetensors.h"
#include "support/example.h"
#include "support/faults.h"
#include "support/hostile/seal.h"
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
        weft_text_free(before);
        weft_text_free(after);
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
static void bad_name(model_message *m) {
    m->name = "a b";
}
static void bad_batch(model_message *m) {
    m->batch = -1;
}
static void same_variable(model_message *m) {
    m->variables[1]->path = m->variables[0]->path;
}
static void variables_alike(model_message *m) {
    static char one[] = "a.b/w", two[] = "a/b.w";
    m->variables[0]->path = one;
    m->variables[1]->path = two;
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
static void same_subgraph(model_message *m) {
    m->subgraphs[1]->path = m->subgraphs[0]->path;
}
static void subgraph_path(model_message *m) {
    m->subgraphs[0]->path = "generator/";
}
static void subgraph_option(model_message *m) {
    m->subgraphs[0]->options[0]->name = "bucket";
}
static void subgraph_option_twice(model_message *m) {
    m->subgraphs[0]->options[1] = m->subgraphs[0]->options[0];
}
static void subgraph_cap(model_message *m) {
    m->subgraphs[0]->options[0]->real = -1;
}
static void subgraph_stage_3(model_message *m) {
    m->subgraphs[0]->options[1]->integer = 3;
}
static void subgraph_group(model_message *m) {
    m->subgraphs[1]->options[m->subgraphs[1]->n_options - 1]->text = "0-1;1";
}
static void same_flow(model_message *m) {
    m->flows[1]->name = m->flows[0]->name;
}
static void flow_name_path(model_message *m) {
    m->flows[0]->name = "a/b";
}
static void flow_without_steps(model_message *m) {
    m->flows[0]->n_steps = 0;
}
static void flow_repeat(model_message *m) {
    m->flows[0]->steps[0]->repeat = 0;
}
static void flow_accumulate(model_message *m) {
    m->flows[0]->steps[0]->accumulate = UINT32_MAX;
}
static void flow_batch_7(model_message *m) {
    m->flows[0]->steps[0]->batch = (Weft__FlowStep__Batch)7;
}
static void flow_range(model_message *m) {
    m->flows[0]->steps[0]->to = -1;
}
static void flow_gap(model_message *m) {
    m->flows[0]->steps[0]->to = 9;
}
#undef CALL

static const struct {
    void (*change)(Weft__Model *m);
    const char *says;
} broken_models[] = {
    {bad_name, "model name 'a b'"},
    {bad_batch, "a batch of -1"},
    {same_variable, "is listed twice"},
    {variables_alike, "m.bin: variables: a.b/w and a/b.w would both be named a.b.w in files"},
    {variable_path, "m.bin: variable a//x: names of letters"},
    {variable_kind_7, "kind 7 is neither parameter nor state"},
    {variable_init_99, "its kind is not in the list"},
    {variable_negative, "every axis at least 1"},
    {variable_huge, "every axis at least 1"},
    {variable_dtype, "f32 (state also i64), every axis"},
    {same_graph, "there is a graph 'd_step' already"},
    {forward, "m.bin: graph d_step: call 1: operand 0 is a result of call 8: only earlier calls"},
    {itself, "operand 0 is a result of call 1: only earlier calls"},
    {beyond, "only earlier calls have results"},
    {no_result, "operand 0 is result 1 of call 0, which has 1"},
    {counts_differ, "1 operand calls and 0 results"},
    {required_missing, "call 1: cast: operand 0 is NULL"},
    {no_operands, "call 1: cast: 0 operands"},
    {unknown_op, "call 1: there is no op 'explode'"},
    {compilers_op, "only the compiler makes these"},
    {update_op, "only the compiler makes these"},
    {bad_scope, "scope 'a//b' is not a path"},
    {unknown_attribute, "call 0: input has no attribute 'nome'"},
    {same_attribute, "is given twice"},
    {attribute_kind, "has a value of another kind"},
    {same_input, "has an input 'image' already"},
    {output_beyond, "output d_loss: result 0 of call 100000: there is none"},
    {output_name, "output name ''"},
    {shape_conflict, "graph d_step: call "},
    {same_subgraph, "m.bin: subgraph generator: it is listed twice"},
    {subgraph_path, "there is no parameter under 'generator/'"},
    {subgraph_option, "m.bin: subgraph generator: ddp has no attribute 'bucket'"},
    {subgraph_option_twice, "attribute bucket_cap_mb is given twice"},
    {subgraph_cap, "ddp generator: bucket_cap_mb=-1: it must be 0 to 1048576"},
    {subgraph_stage_3, "ddp generator: zero=3: it must be -1 to 2"},
    {subgraph_group, "process_group '0-1;1': a rank is named twice"},
    {same_flow, "m.bin: flow train: it is listed twice"},
    {flow_name_path, "m.bin: flows: flow a/b: its name must be"},
    {flow_without_steps, "m.bin: flows: flow train: it has 0 steps"},
    {flow_repeat, "flow train: step 1, d_step: a step runs 1 to 2^20 times"},
    {flow_accumulate, "m.bin: flow train: a step of graph d_step has a number above 2^31-1"},
    {flow_batch_7, "flow train: step 1, d_step: batch is next or same"},
    {flow_range, "flow train: step 1, d_step: a range goes from an iteration"},
    {flow_gap, "flow train: no step runs in iteration 9"},
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
        faults g;
        faults_init(&g);
        put_message(&g, "m.bin", m);
        weft_model *loaded = weft_load("m.bin", &g.env, &error);
        CHECK_SAYS(!loaded && strstr(error.text, broken_models[i].says), "case %zu: \"%s\", wanted \"%s\"", i,
                   loaded ? "no error" : error.text, broken_models[i].says);
        CHECK(loaded || error.status == WEFT_FILE);
        weft_model_free(loaded);
        CHECK(g.live == 0 && g.handles == 0);
        faults_end(&g);
        arena_free(&a);
    }
    weft_model_free(example);
    faults_end(&f);
}

/* The example as the file m.bin; NULL after a failed check. */
static const fake_file *put_example(faults *f) {
    faults_init(f);
    weft_model *m = example_model(&f->env);
    save(m, "m.bin");
    weft_model_free(m);
    return fake_get(f, "m.bin");
}

static void check_broken(faults *f, const char *what, const void *data, size_t bytes, size_t at) {
    weft_error error = {0};
    fake_put(f, "broken.bin", data, bytes);
    weft_model *m = weft_load("broken.bin", &f->env, &error);
    CHECK_SAYS(!m && error.status == WEFT_FILE, "%s at %zu: %s", what, at, m ? "it loads" : error.text);
    weft_model_free(m);
    CHECK(f->live == 0 && f->handles == 0);
}

TEST(every_truncation_of_model_bin_is_refused) {
    faults f;
    weft_error error;
    const fake_file *whole = put_example(&f);
    NEED(whole != NULL);
    for (size_t n = 0; n < whole->bytes; n++) check_broken(&f, "a cut", whole->data, n, n);
    CHECK(!weft_load("broken.bin", &f.env, &error));
    CHECK_HOLDS(error.text, "cut off at ");
    check_broken(&f, "a byte too many", whole->data, whole->bytes + 1,
                 whole->bytes); /* a NUL is after the data */
    faults_end(&f);
}

TEST(any_changed_byte_of_model_bin_is_refused) {
    static const unsigned char changes[] = {1, 0x80, 0xff, 3};
    faults f;
    weft_error error;
    const fake_file *whole = put_example(&f);
    NEED(whole != NULL);
    char *changed = test_memory(whole->bytes);
    for (size_t i = 0; i < whole->bytes; i++)
        for (size_t k = 0; k < sizeof changes; k++) {
            memcpy(changed, whole->data, whole->bytes);
            changed[i] = (char)(changed[i] ^ changes[k]);
            check_broken(&f, "a changed byte", changed, whole->bytes, i);
        }
    CHECK(!weft_load("broken.bin", &f.env, &error));
    CHECK_HOLDS(error.text, "checksum does not match");
    free(changed);
    faults_end(&f);
}

/* Magic, version, the tags and the rest of the first 25 bytes. */
TEST(each_byte_of_the_head_has_its_message) {
    static const struct {
        int at;
        char byte;
        const char *says;
    } rows[] = {{0, 'P', "not a Weft model: it does not begin with"},
                {4, 't', "not a Weft model"},
                {5, 0, "not a Weft model"},
                {6, 1, "broken.bin: version 1, this Weft ("},
                {6, 3, ") reads version 2"},
                {7, 0, "its checksum does not match"},
                {8, 0, "it was written with "},
                {15, 1, "cut off at "},
                {16, 0, "its checksum does not match"},
                {17, 0, "its checksum does not match"}};
    faults f;
    const fake_file *whole = put_example(&f);
    NEED(whole != NULL);
    char *changed = test_memory(whole->bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error = {0};
        memcpy(changed, whole->data, whole->bytes);
        changed[rows[i].at] = (char)(changed[rows[i].at] == rows[i].byte ? 1 : rows[i].byte);
        fake_put(&f, "broken.bin", changed, whole->bytes);
        CHECK(!weft_load("broken.bin", &f.env, &error) && error.status == WEFT_FILE);
        CHECK_HOLDS(error.text, rows[i].says);
    }
    free(changed);
    faults_end(&f);
}

TEST(unknown_fields_of_model_bin_are_refused) {
    faults f;
    weft_error error;
    const fake_file *file = put_example(&f);
    NEED(file != NULL);
    char *longer = test_memory(file->bytes + 3);
    memcpy(longer, file->data, file->bytes);
    memcpy(longer + file->bytes, "\xf8\x01\x05", 3); /* field 31, the number 5 */
    seal_bytes(longer, file->bytes + 3);
    fake_put(&f, "m.bin", longer, file->bytes + 3);
    CHECK(!weft_load("m.bin", &f.env, &error));
    CHECK_HOLDS(error.text, "a field that this version does not know");
    free(longer);
    faults_end(&f);
}

/* ---- limits ---- */

/* The example with its second call again and again, as the file m.bin. */
static size_t put_many_calls(faults *f, size_t n) {
    arena a;
    arena_init(&a, NULL);
    ProtobufCAllocator allocator = {arena_piece, arena_keep, &a};
    const fake_file *file = fake_get(f, "m.bin");
    Weft__Model *m = weft__model__unpack(&allocator, file->bytes, (const uint8_t *)file->data);
    Weft__Graph *g = m->graphs[0];
    Weft__Call **calls = test_memory(n * sizeof *calls);
    for (size_t i = 0; i < n; i++) calls[i] = g->calls[i > 0];
    g->calls = calls;
    g->n_calls = n;
    size_t bytes = put_message(f, "m.bin", m);
    free(calls);
    arena_free(&a);
    return bytes;
}

/* A call unpacks to five pieces, of 4 bytes some of them: what they cost is counted, not only what they
 * hold. */
TEST(a_file_of_many_small_calls_is_refused_in_little_memory) {
    faults f;
    faults_init(&f);
    weft_error error;
    weft_model *m = example_model(&f.env);
    save(m, "m.bin");
    weft_model_free(m);
    size_t bytes = put_many_calls(&f, 400000);
    faults_arm(&f, 0, 0, false);
    CHECK(!weft_load("m.bin", &f.env, &error));
    CHECK_HOLDS(error.text, "more than 131072 calls");
    CHECK_SAYS(f.allocations < 50000, "%ld allocations", f.allocations);
    CHECK_SAYS(f.peak < 30 * bytes, "%zu bytes for a file of %zu", f.peak, bytes);
    CHECK(f.live == 0);
    faults_end(&f);
}

/* ---- failures ---- */

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
    faults_inject(&f, true, save_again, model_is_intact);
    faults_inject(&f, false, save_again, model_is_intact);
    faults_inject(&f, true, load_again, NULL);
    faults_inject(&f, false, load_again, NULL);
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

SUITE("model files",
      {T(a_model_loads_as_it_was_saved), T(files_on_the_disk_are_replaced_whole),
       T(what_cannot_be_saved_says_so), T(each_rule_of_model_bin_has_its_message),
       T(every_truncation_of_model_bin_is_refused), T(any_changed_byte_of_model_bin_is_refused),
       T(each_byte_of_the_head_has_its_message), T(unknown_fields_of_model_bin_are_refused),
       T(a_file_of_many_small_calls_is_refused_in_little_memory),
       T(saving_and_loading_a_model_survive_any_failure), T(a_full_disk_leaves_the_old_file_alone)})
