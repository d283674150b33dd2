/* test_onnx.c - ONNX files as graphs: small.onnx (make_small.py) against numbers of onnxruntime, at other
 * batches and in training; a new head, options, wrong files and wrong calls with their messages; memory
 * and files that fail. Operators are tested by cases.py (tools/nightly.sh onnx), files of strangers by the
 * hostile formats. */
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL TEST_DATA "/onnx/small.onnx"

/* small.onnx of images (i - 16) / 8, by onnxruntime 1.32. */
static const float wanted[2][3] = {{4.59375f, 1.46875f, 5.21875f}, {0.78125f, 1.7109375f, -1.5234375f}};

/* ---- a model of the file ---- */

static weft_onnx *open_small(void) {
    weft_error error = {0};
    weft_onnx *file = weft_onnx_open(SMALL, NULL, &error);
    CHECK_SAYS(file, "%s", error.text);
    return file;
}

static weft_model *imported(const weft_onnx_options *options, int64_t batch, const char *weights) {
    weft_error error = {0};
    weft_onnx *file = open_small();
    weft_model *m = weft_model_new("small");
    weft_model_set_batch(m, batch);
    CHECK_SAYS(weft_onnx_graph(file, m, "predict", WEFT_EVAL, options, &error), "%s", error.text);
    if (weights) CHECK_SAYS(!weft_onnx_weights(file, weights, &error), "%s", error.text);
    weft_onnx_close(file);
    return m;
}

/* The logits of `batch` images, which are those of `wanted` again and again. */
static void check_numbers(const weft_model *m, int64_t batch, const char *weights) {
    weft_error error = {0};
    float image[8][16], logits[8][3];
    for (int i = 0; i < 8 * 16; i++) image[i / 16][i % 16] = (float)(i % 32 - 16) / 8;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = batch, .threads = 1}, &error);
    weft_store *store = plan ? weft_store_new(plan, 0, &error) : NULL;
    if (store) weft_weights_load(store, weights, NULL, NULL, &error);
    weft_session *s = store && !error.status ? weft_session_open(plan, store, &error) : NULL;
    size_t n = (size_t)batch;
    if (s)
        weft_run(s, "predict", (weft_feed[]){{"image", image, n * sizeof *image}}, 1,
                 (weft_fetch[]){{"logits", logits, n * sizeof *logits}}, 1, &error);
    CHECK_TEXT(error.text, "");
    for (int i = 0; s && i < batch * 3; i++)
        CHECK_SAYS(logits[i / 3][i % 3] == wanted[i / 3 % 2][i % 3], "batch %d: %g", (int)batch,
                   (double)logits[i / 3][i % 3]);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
}

TEST(a_file_computes_what_onnxruntime_computes_at_each_batch) {
    for (int64_t made = 1; made <= 3; made++) {
        weft_model *m = imported(NULL, made, "small.safetensors");
        for (int64_t batch = 1; batch <= 8; batch++) check_numbers(m, batch, "small.safetensors");
        weft_model_free(m);
    }
    remove("small.safetensors");
}

TEST(graphs_of_a_file_share_parameters_and_train) {
    weft_error error = {0};
    weft_onnx *file = open_small();
    weft_model *m = weft_model_new("small");
    weft_graph *g = weft_onnx_graph(file, m, "train", WEFT_TRAIN, NULL, &error);
    weft_value *label = weft_input(g, "label", WEFT_I64, WEFT_SHAPE(WEFT_BATCH));
    CHECK(!weft_onnx_value(file, "nothing") && !weft_onnx_value(file, NULL));
    weft_minimize(weft_cross_entropy(weft_onnx_value(file, "logits"), label, NULL), NULL,
                  &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_onnx_graph(file, m, "predict", WEFT_EVAL, NULL, &error);
    weft_onnx_close(file);
    CHECK_TEXT(weft_model_error(m)->text, "");
    weft_parameter_info p;
    int n = 0, states = 0;
    for (; weft_model_parameter(m, NULL, n, &p); n++) states += p.is_state;
    CHECK_SAYS(n == 8 && states == 2, "%d parameters and state, %d of them state", n, states);
    char *text = weft_model_text(m);
    CHECK_HOLDS(text, "assign("); /* running statistics */
    weft_text_free(text);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 4, .verify = true}, &error);
    CHECK_SAYS(plan, "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(a_head_takes_the_place_of_the_last_layer) {
    weft_error error = {0};
    weft_parameter_info p;
    weft_onnx *file = open_small();
    weft_model *m = weft_model_new("small");
    char name[] = "logits";
    weft_onnx_options ten = {.head = name, .head_length = 10};
    CHECK_SAYS(weft_onnx_graph(file, m, "predict", WEFT_EVAL, &ten, &error), "%s", error.text);
    name[0] = 0; /* the caller's, and gone */
    CHECK(weft_dim(weft_onnx_value(file, "logits"), 1) == 10);
    CHECK(weft_model_parameter(m, "fc/weight", 0, &p) && p.shape[0] == 10 && p.shape[1] == 8);
    CHECK(!weft_onnx_weights(file, "head.safetensors", &error));
    weft_onnx_close(file);
    weft_plan *plan = weft_compile(m, NULL, &error);
    weft_store *store = plan ? weft_store_new(plan, 0, &error) : NULL;
    weft_weights_report report = {0};
    CHECK(store && !weft_weights_load(store, "head.safetensors", &(weft_weights_options){.not_strict = true},
                                      &report, &error));
    CHECK_TEXT(report.missing, "fc.bias\nfc.weight\n");
    CHECK_TEXT(report.unexpected, "");
    weft_text_free(report.missing);
    weft_text_free(report.unexpected);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    remove("head.safetensors");
}

TEST(a_constant_is_no_input) {
    float image[16] = {0};
    weft_onnx_constant given = {.name = "image", .ndim = 4, .shape = {1, 1, 4, 4}, .data = image};
    weft_model *m = imported(&(weft_onnx_options){.n_constants = 1, .constants = &given}, 1, NULL);
    weft_port port;
    CHECK(!weft_graph_input(weft_model_graph(m, 0), 0, &port));
    weft_model_free(m);
}

TEST(each_wrong_option_has_its_message) {
    static const weft_onnx_axis zero = {"batch", 0}, unknown = {"nothing", 3};
    static const weft_onnx_images nowhere = {.name = "nothing"};
    static const struct {
        weft_onnx_options options;
        weft_status status;
        const char *says;
    } rows[] = {
        {{.head = "logits"}, WEFT_ARGUMENT, "a head needs a name and a length of at least 1"},
        {{.head_length = 3}, WEFT_ARGUMENT, "a head needs a name and a length of at least 1"},
        {{.head = "nothing", .head_length = 3},
         WEFT_NAME,
         "there is no linear layer that makes 'nothing'; there is logits"},
        {{.head = "h", .head_length = 3}, WEFT_UNSUPPORTED, "'h' is made by Leaky"},
        {{.n_axes = 1, .axes = &zero}, WEFT_ARGUMENT, "axis 'batch'"},
        {{.n_images = 1, .images = &nowhere}, WEFT_NAME, "there is no input 'nothing'; there is image"},
        {{.n_axes = 1, .axes = &unknown},
         WEFT_NAME,
         "there is no axis of an input 'nothing'; there is batch"},
        {{.reserved = {0, 1}}, WEFT_ARGUMENT, "weft_onnx_options"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error = {0};
        weft_onnx *file = open_small();
        weft_model *m = weft_model_new("small");
        CHECK(!weft_onnx_graph(file, m, "predict", WEFT_EVAL, &rows[i].options, &error));
        CHECK_SAYS(error.status == rows[i].status, "row %zu: %d", i, error.status);
        CHECK_HOLDS(error.text, rows[i].says);
        weft_onnx_close(file);
        weft_model_free(m);
    }
}

/* ---- wrong files: fields of a message, as text of C ---- */

typedef struct message {
    size_t n;
    unsigned char bytes[8000];
} message;

static void put_byte(message *m, int byte) {
    if (m->n < sizeof m->bytes) m->bytes[m->n++] = (unsigned char)byte;
}

/* Field `number` of bytes. */
static void put_bytes(message *m, int number, const void *bytes, size_t n) {
    put_byte(m, number << 3 | 2);
    if (n > 127) put_byte(m, (int)(n & 127) | 128);
    put_byte(m, (int)(n > 127 ? n >> 7 : n)); /* below 2^14 */
    for (size_t i = 0; i < n; i++) put_byte(m, ((const unsigned char *)bytes)[i]);
}

static void put_text(message *m, int number, const char *text) {
    put_bytes(m, number, text, strlen(text));
}

static void put_number(message *m, int number, int value) {
    put_byte(m, number << 3);
    put_byte(m, value);
}

static void put_message(message *m, int number, const message *inner) {
    put_bytes(m, number, inner->bytes, inner->n);
}

/* A file of opset 20 with one graph. */
static message file_of(const message *graph) {
    message opset = {0}, file = {0};
    put_number(&opset, 2, 20);
    put_message(&file, 8, &opset);
    put_message(&file, 7, graph);
    return file;
}

/* A node with one operand and one result. */
static message node_of(const char *op, const char *in, const char *out) {
    message node = {0};
    put_text(&node, 1, in);
    put_text(&node, 2, out);
    put_text(&node, 4, op);
    return node;
}

/* An initializer of two f32 in another file. */
static message external(const char *location) {
    message tensor = {0}, entry = {0};
    put_number(&tensor, 1, 2);
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, "w");
    put_text(&entry, 1, "location");
    put_text(&entry, 2, location);
    put_message(&tensor, 13, &entry);
    put_number(&tensor, 14, 1);
    return tensor;
}

/* An initializer of two f32. */
static message pair_of(const char *name, float first, float second) {
    const float numbers[] = {first, second};
    message tensor = {0};
    put_number(&tensor, 1, 2);
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, numbers, sizeof numbers);
    return tensor;
}

/* Input x[N, 2, ...] of f32, of so many axes. */
static message input_of(int ndim) {
    message batch = {0}, two = {0}, shape = {0}, tensor = {0}, type = {0}, port = {0};
    put_text(&batch, 2, "N");
    put_number(&two, 1, 2);
    put_message(&shape, 1, &batch);
    for (int i = 1; i < ndim; i++) put_message(&shape, 1, &two);
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&port, 1, "x");
    put_message(&port, 2, &type);
    return port;
}

/* A norm whose mean is an initializer and whose variance an Identity of it, as exporters write equal ones. */
static message file_of_equal_statistics(void) {
    message graph = {0}, renamed = node_of("Identity", "m", "v"), norm = {0}, weight = pair_of("w", 1, 1),
            mean = pair_of("m", 1, 1);
    message input = input_of(2), output = {0};
    static const char *const operands[] = {"x", "w", "w", "m", "v"};
    for (int i = 0; i < 5; i++) put_text(&norm, 1, operands[i]);
    put_text(&norm, 2, "y");
    put_text(&norm, 4, "BatchNormalization");
    put_text(&output, 1, "y");
    put_message(&graph, 1, &renamed);
    put_message(&graph, 1, &norm);
    put_message(&graph, 5, &weight);
    put_message(&graph, 5, &mean);
    put_message(&graph, 11, &input);
    put_message(&graph, 12, &output);
    return file_of(&graph);
}

TEST(equal_running_statistics_are_states_of_their_own) {
    message bytes = file_of_equal_statistics();
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "x.onnx", bytes.bytes, bytes.n);
    weft_onnx *file = weft_onnx_open("x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    for (int i = 0; i < 2; i++) /* both graphs have the same ones */
        CHECK_SAYS(
            weft_onnx_graph(file, m, i ? "predict" : "train", i ? WEFT_EVAL : WEFT_TRAIN, NULL, &error), "%s",
            error.text);
    weft_parameter_info p;
    int n = 0, states = 0;
    for (; weft_model_parameter(m, NULL, n, &p); n++) states += p.is_state;
    CHECK_SAYS(n == 3 && states == 2, "%d parameters and state, %d of them state", n, states);
    CHECK_SAYS(!weft_onnx_weights(file, "w", &error), "%s", error.text);
    weft_model_free(m);
    weft_onnx_close(file);
    faults_end(&f);
}

/* ---- equal vectors ---- */

static void put_metadata(message *node, const char *key, const char *value) {
    message entry = {0};
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(node, 9, &entry);
}

/* out = op(in, bias), as the module of "['', 'm', 'm.1', 'add']" would; NULL: without metadata. */
static void put_pair(message *graph, const char *op, const char *in, const char *bias, const char *out,
                     const char *scopes) {
    message node = {0};
    put_text(&node, 1, in);
    put_text(&node, 1, bias);
    put_text(&node, 2, out);
    put_text(&node, 4, op);
    if (scopes) put_metadata(&node, "pkg.torch.onnx.name_scopes", scopes);
    put_message(graph, 1, &node);
}

static void put_sum(message *graph, const char *in, const char *bias, const char *out, const char *scopes) {
    put_pair(graph, "Add", in, bias, out, scopes);
}

/* A file that reads x[N, 2] and makes y. */
static message file_with_ports(message *graph, int ndim) {
    message input = input_of(ndim), output = {0};
    put_text(&output, 1, "y");
    put_message(graph, 11, &input);
    put_message(graph, 12, &output);
    return file_of(graph);
}

/* The parameters of a file, as "b m/1/b ", and its first note. */
static void parameters_of(const message *bytes, char *paths, size_t room, char *note) {
    weft_error error = {0};
    weft_parameter_info p;
    faults f;
    faults_init(&f);
    fake_put(&f, "x.onnx", bytes->bytes, bytes->n);
    weft_onnx *file = weft_onnx_open("x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    CHECK(!weft_onnx_note(file, 0));
    for (int i = 0; i < 2; i++) /* both graphs have the same ones */
        CHECK_SAYS(
            weft_onnx_graph(file, m, i ? "predict" : "train", i ? WEFT_EVAL : WEFT_TRAIN, NULL, &error), "%s",
            error.text);
    size_t at = 0;
    for (int n = 0; weft_model_parameter(m, NULL, n, &p); n++)
        at += (size_t)snprintf(paths + at, room - at, "%s ", p.path);
    CHECK_SAYS(!weft_onnx_weights(file, "w", &error), "%s", error.text);
    snprintf(note, 400, "%s", weft_onnx_note(file, 0) ? weft_onnx_note(file, 0) : "");
    CHECK(!weft_onnx_note(file, 1) && !weft_onnx_note(file, -1) && !weft_onnx_note(NULL, 0));
    weft_model_free(m);
    weft_onnx_close(file);
    faults_end(&f);
}

TEST(vectors_that_an_exporter_took_for_equal_are_parameters_of_their_own) {
    static const struct {
        float second;          /* of the numbers; the first is 1 */
        bool is_renamed;       /* the second sum reads an Identity */
        const char *scopes[3]; /* of the three sums */
        const char *paths;
    } rows[] = {
        {1, true, {NULL}, "b c "},
        {1, false, {NULL}, "b "}, /* nothing says that they were not one */
        {2, true, {NULL}, "b "},  /* different numbers are equal because they are tied */
        {1,
         false,
         {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']", "['', 'm', 'm.2', 'add']"},
         "b m/1/b m/2/b "},
        {1, false, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.0', 'add']", "['', 'm', 'm.0', 'add']"}, "b "},
        {1,
         false,
         {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']", "['', 'm', 'm.1', 'add']"},
         "b m/1/b "},
        {1, false, {"['', 'm', 'm.0', 'add']", "['', 'add']", "['']"}, "m/0/b b "},
        {1, true, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']", "['', 'm', 'm.0', 'add']"}, "b c "},
        {2, false, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']", NULL}, "b "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char paths[300] = "", note[400];
        message graph = {0}, renamed = node_of("Identity", "b", "c"), bias = pair_of("b", 1, rows[i].second);
        if (rows[i].is_renamed) put_message(&graph, 1, &renamed);
        put_sum(&graph, "x", "b", "y0", rows[i].scopes[0]);
        put_sum(&graph, "y0", rows[i].is_renamed ? "c" : "b", "y1", rows[i].scopes[1]);
        put_sum(&graph, "y1", "b", "y", rows[i].scopes[2]);
        put_message(&graph, 5, &bias);
        message file = file_with_ports(&graph, 2);
        parameters_of(&file, paths, sizeof paths, note);
        CHECK_SAYS(!strcmp(paths, rows[i].paths), "row %zu: %s", i, paths);
        bool is_apart = strchr(paths, ' ')[1];
        CHECK_SAYS((strstr(note, "stores once") != NULL) == is_apart, "row %zu: %s", i, note);
    }
}

TEST(each_layer_has_the_vector_of_its_name) {
    static const struct {
        const char *name, *op; /* of the vector; of the second node that reads it */
        bool is_twice;         /* the file has another vector that is equal */
        bool is_input;         /* the vector is an input, too */
        const char *scopes[2], *paths;
    } rows[] = {
        /* the file has the name of the module that is called last */
        {"m.1.b",
         "Add",
         false,
         false,
         {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']"},
         "m/0/b m/1/b "},
        /* an exporter that stores equal ones twice: the two layers are tied */
        {"m.0.b", "Add", true, false, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']"}, "m/0/b "},
        /* a buffer: what subtracts has no weights */
        {"m.0.b", "Sub", false, false, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'sub']"}, "m/0/b "},
        {"m.0.b",
         "LayerNormalization",
         false,
         false,
         {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'norm']"},
         "m/0/b m/1/weight "},
        {"m.0.b", "Add", false, true, {"['', 'm', 'm.0', 'add']", "['', 'm', 'm.1', 'add']"}, "m/0/b "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char paths[300] = "", note[400];
        message graph = {0}, vector = pair_of(rows[i].name, 1, 1), other = pair_of("q", 1, 1), port = {0};
        put_sum(&graph, "x", rows[i].name, "y0", rows[i].scopes[0]);
        put_pair(&graph, rows[i].op, "y0", rows[i].name, "y", rows[i].scopes[1]);
        put_message(&graph, 5, &vector);
        if (rows[i].is_twice) put_message(&graph, 5, &other);
        put_text(&port, 1, rows[i].name);
        if (rows[i].is_input) put_message(&graph, 11, &port);
        message file = file_with_ports(&graph, 2);
        parameters_of(&file, paths, sizeof paths, note);
        CHECK_SAYS(!strcmp(paths, rows[i].paths), "row %zu: %s", i, paths);
        bool is_apart = strchr(paths, ' ')[1];
        CHECK_SAYS((strstr(note, "stores once") != NULL) == is_apart, "row %zu: %s", i, note);
    }
}

/* ---- BatchNorm that was folded ---- */

/* A convolution in the names of PyTorch's older exporter, whose node is "/layer1/layer1.0/conv1/Conv". */
static message file_of_folded_norm(const char *bias) {
    static const float ones[] = {1, 1, 1, 1};
    message graph = {0}, node = {0}, weight = {0}, shift = pair_of(bias, 1, 2);
    for (int i = 0; i < 3; i++) put_number(&weight, 1, i < 2 ? 2 : 1);
    put_number(&weight, 2, 1);
    put_text(&weight, 8, "onnx::Conv_1");
    put_bytes(&weight, 9, ones, sizeof ones);
    put_text(&node, 1, "x");
    put_text(&node, 1, "onnx::Conv_1");
    put_text(&node, 1, bias);
    put_text(&node, 2, "y");
    put_text(&node, 3, "/layer1/layer1.0/conv1/Conv");
    put_text(&node, 4, "Conv");
    put_message(&graph, 1, &node);
    put_message(&graph, 5, &weight);
    put_message(&graph, 5, &shift);
    return file_with_ports(&graph, 3);
}

/* A sum into which the newer one folded a norm, as it says. */
static message file_that_says_it_is_folded(void) {
    message graph = {0}, node = node_of("Add", "x", "y"), bias = pair_of("b", 1, 2);
    put_text(&node, 1, "b");
    put_metadata(&node, "pkg.onnxscript.rewriter.rule_name", "FuseBatchNormIntoGemm, RemoveOptionalBias");
    put_message(&graph, 1, &node);
    put_message(&graph, 5, &bias);
    return file_with_ports(&graph, 2);
}

/* The path of the bias of a sum in the module `m.1`. */
static void path_of_bias(const char *name, char *paths, size_t room) {
    message graph = {0}, bias = pair_of(name, 1, 2);
    char note[400];
    put_sum(&graph, "x", name, "y", "['', 'm', 'm.1', 'add']");
    put_message(&graph, 5, &bias);
    message file = file_with_ports(&graph, 2);
    parameters_of(&file, paths, room, note);
}

TEST(what_an_exporter_named_is_called_after_its_module) {
    static const char *const rows[][2] = {{"val_14", "m/1/val_14 "},
                                          {"onnx::Add_3", "m/1/onnx__Add_3 "},
                                          {"val_head.bias", "val_head/bias "},
                                          {"val_", "val_ "},
                                          {"m.1.bias", "m/1/bias "}};
    for (int i = 0; i < 5; i++) {
        char paths[300] = "";
        path_of_bias(rows[i][0], paths, sizeof paths);
        CHECK_TEXT(paths, rows[i][1]);
    }
}

TEST(a_folded_norm_is_reported) {
    message folded = file_of_folded_norm("onnx::Conv_2"), plain = file_of_folded_norm("conv.bias"),
            says = file_that_says_it_is_folded();
    char paths[300] = "", note[400];
    parameters_of(&folded, paths, sizeof paths, note);
    CHECK_HOLDS(note, "BatchNorm is folded into 1 layer, which trains");
    CHECK_TEXT(paths, "layer1/0/conv1/onnx__Conv_1 layer1/0/conv1/onnx__Conv_2 ");
    parameters_of(&says, paths, sizeof paths, note);
    CHECK_HOLDS(note, "BatchNorm is folded into 1 layer, which trains");
    parameters_of(&plain, paths, sizeof paths, note);
    CHECK_TEXT(note, "");
}

/* What options.batch_norm_eval says of a file in a graph that trains. */
static void check_eval_norms(const message *bytes, const char *says) {
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "x.onnx", bytes->bytes, bytes->n);
    weft_onnx *file = weft_onnx_open("x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    const weft_onnx_options eval = {.batch_norm_eval = true};
    CHECK(weft_onnx_graph(file, m, "predict", WEFT_EVAL, &eval, &error)); /* there it says nothing */
    bool is_made = weft_onnx_graph(file, m, "train", WEFT_TRAIN, &eval, &error);
    CHECK(is_made == !*says);
    CHECK_HOLDS(error.text, says);
    weft_model_free(m);
    weft_onnx_close(file);
    faults_end(&f);
}

TEST(statistics_that_are_to_be_kept_must_be_there) {
    message norm = file_of_equal_statistics(), folded = file_of_folded_norm("onnx::Conv_2"),
            plain = file_of_folded_norm("conv.bias");
    check_eval_norms(&norm, "");
    check_eval_norms(&folded, "has no effect: the file has no BatchNorm: it is folded into 1 layer");
    check_eval_norms(&plain, "has no effect: the file has no BatchNorm");
}

/* For each name an output of about so many letters that ends with it, the sum of x and an initializer;
 * and x itself. */
static message file_of_sums(int n, const char *const *names, size_t letters) {
    message graph = {0}, input = input_of(2), itself = {0};
    for (int i = 0; i < n; i++) {
        char weight[300] = "", sum[300] = "";
        snprintf(weight, sizeof weight, "%s%0*d", "w", (int)letters, 0);
        snprintf(sum, sizeof sum, "%s%0*d", "y", (int)letters, 0);
        strcat(weight, names[i]);
        strcat(sum, names[i]);
        message node = node_of("Add", "x", sum), ones = pair_of(weight, 1, 1), output = {0};
        put_text(&node, 1, weight);
        put_text(&output, 1, sum);
        put_message(&graph, 1, &node);
        put_message(&graph, 5, &ones);
        put_message(&graph, 12, &output);
    }
    put_text(&itself, 1, "x");
    put_message(&graph, 11, &input);
    put_message(&graph, 12, &itself);
    return file_of(&graph);
}

/* Imports the sums; they become a file, which is imported, too. */
static void check_sums(const message *bytes, int n) {
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "0.onnx", bytes->bytes, bytes->n);
    for (int i = 0; i < 2; i++) {
        weft_onnx *file = weft_onnx_open(i ? "1.onnx" : "0.onnx", &f.env, &error);
        weft_model *m = weft_model_new_in("m", &f.env);
        weft_graph *g = file ? weft_onnx_graph(file, m, "g", WEFT_EVAL, NULL, &error) : NULL;
        weft_parameter_info p;
        int outputs = 0, parameters = 0;
        while (g && weft_graph_output(g, outputs, NULL)) outputs++;
        while (g && weft_model_parameter(m, NULL, parameters, &p)) parameters++;
        CHECK_SAYS(outputs == n + 1 && parameters == n, "%d outputs, %d parameters", outputs, parameters);
        if (g && !weft_onnx_weights(file, "w", &error) && !i)
            weft_onnx_export(g, NULL, "1.onnx", &(weft_onnx_export_options){.weights = "w", .env = &f.env},
                             &error);
        CHECK_TEXT(error.text, "");
        weft_model_free(m);
        weft_onnx_close(file);
    }
    CHECK(f.live == 0);
    faults_end(&f);
}

TEST(names_that_weft_writes_alike_stay_apart) {
    static const char *const names[] = {":0", "/0", "_0", "?0", "_0_1"};
    message file = file_of_sums(5, names, 1);
    check_sums(&file, 5);
    file = file_of_sums(5, names, 196); /* longer than a name of Weft with a number at its end */
    check_sums(&file, 5);
    file = file_of_sums(5, names, 250); /* longer than any name of Weft */
    check_sums(&file, 5);
}

/* y, mask = Dropout(x, 0.5, true), and the outputs. */
static message file_of_dropout(int n_outputs) {
    static const unsigned char half[] = {0, 0, 0, 63}, yes[] = {1};
    static const char *const names[] = {"y", "mask"};
    message graph = {0}, node = node_of("Dropout", "x", "y"), ratio = {0}, training = {0};
    message input = input_of(2);
    put_text(&node, 1, "ratio");
    put_text(&node, 1, "training");
    put_text(&node, 2, "mask");
    put_number(&ratio, 2, 1);
    put_text(&ratio, 8, "ratio");
    put_bytes(&ratio, 9, half, sizeof half);
    put_number(&training, 2, 9);
    put_text(&training, 8, "training");
    put_bytes(&training, 9, yes, sizeof yes);
    put_message(&graph, 1, &node);
    put_message(&graph, 5, &ratio);
    put_message(&graph, 5, &training);
    put_message(&graph, 11, &input);
    for (int i = 0; i < n_outputs; i++) {
        message output = {0};
        put_text(&output, 1, names[i]);
        put_message(&graph, 12, &output);
    }
    return file_of(&graph);
}

TEST(a_mask_that_nothing_reads_leaves_dropout_one_node) {
    for (int n = 1; n <= 2; n++) {
        message bytes = file_of_dropout(n);
        weft_error error = {0};
        faults f;
        faults_init(&f);
        fake_put(&f, "x.onnx", bytes.bytes, bytes.n);
        weft_onnx *file = weft_onnx_open("x.onnx", &f.env, &error);
        weft_model *m = weft_model_new_in("m", &f.env);
        weft_onnx_graph(file, m, "g", WEFT_TRAIN, NULL, &error);
        CHECK_TEXT(error.text, "");
        char *text = weft_model_text(m);
        CHECK(text && !strstr(text, "= dropout(") == (n == 2));
        CHECK(text && !strstr(text, "random_uniform") == (n == 1));
        weft_text_free(text);
        weft_model_free(m);
        weft_onnx_close(file);
        faults_end(&f);
    }
}

/* What a file is refused with, at whatever step. */
static void check_refused(const message *file, const char *says) {
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "folder/x.onnx", file->bytes, file->n);
    weft_onnx *onnx = weft_onnx_open("folder/x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    if (onnx && weft_onnx_graph(onnx, m, "g", WEFT_EVAL, NULL, &error)) weft_onnx_weights(onnx, "w", &error);
    CHECK_HOLDS(error.text, says);
    weft_model_free(m);
    weft_onnx_close(onnx);
    CHECK(f.live == 0);
    faults_end(&f);
}

static void check_graph_refused(const message *graph, const char *says) {
    message file = file_of(graph);
    check_refused(&file, says);
}

TEST(each_broken_rule_of_the_format_has_its_message) {
    message graph = {0}, two = {0}, empty = {0}, opset = {0};
    check_refused(&empty, "it has no graph: it is not an ONNX file");
    put_message(&two, 7, &graph);
    check_refused(&two, "it names no opset");
    put_number(&opset, 2, 20);
    put_message(&two, 8, &opset);
    put_message(&two, 7, &graph);
    check_refused(&two, "it has two graphs");
    check_refused(&(message){1, {0x3a}}, "has no length");
    check_refused(&(message){2, {0x3a, 9}}, "longer than its message");
    check_refused(&(message){2, {0x08, 0x80}}, "cut off");
    check_refused(&(message){2, {0x0b, 0}}, "kind 3");
    check_refused(&(message){2, {0x00, 0}}, "begins no field");
    check_refused(&(message){12, {8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}},
                  "more than 10 bytes");
}

TEST(each_wrong_graph_has_its_message) {
    message graph = {0}, node = node_of("Relu", "nothing", "y"), output = {0};
    put_message(&graph, 1, &node);
    check_graph_refused(&graph,
                        "node 0 '' (Relu, opset 20): it reads 'nothing', which nothing before it makes");

    graph = (message){0};
    node = node_of("Rolu", "", "y");
    put_message(&graph, 1, &node);
    check_graph_refused(&graph, "no such operator");

    graph = (message){0};
    node = node_of("Shape", "", "y");
    put_message(&graph, 1, &node);
    check_graph_refused(&graph, "node 0 '' (Shape): an operand that it needs is left out");

    static const char *const lacking[] = {"Relu", "LeakyRelu", "Transpose", "Flatten"};
    for (int i = 0; i < 4; i++) {
        graph = (message){0};
        node = node_of(lacking[i], "", "y");
        put_message(&graph, 1, &node);
        check_graph_refused(&graph, "opset 20): an operand that it needs is left out");
    }

    graph = (message){0};
    put_text(&output, 1, "y");
    put_message(&graph, 12, &output);
    check_graph_refused(&graph, "nothing makes output 'y'");

    graph = (message){0};
    put_message(&graph, 11, &output); /* an input without a type */
    check_graph_refused(&graph, "input 'y' is not a tensor");
}

/* Field 20 of an attribute, whose key has two bytes. */
static void put_type(message *m, int type) {
    put_byte(m, 0xa0);
    put_byte(m, 1);
    put_byte(m, type);
}

/* The pairs x W, by a Gemm with an attribute that is `real` or else `integer`; type 0: the file leaves the
 * type out. */
static message file_of_product(const char *attribute, int integer, const float *real, int type) {
    message graph = {0}, weight = {0}, gemm = node_of("Gemm", "x", "y"), number = {0}, input = input_of(2),
            output = {0};
    static const float ones[] = {1, 1, 1, 1};
    put_number(&weight, 1, 2);
    put_number(&weight, 1, 2);
    put_number(&weight, 2, 1);
    put_text(&weight, 8, "w");
    put_bytes(&weight, 9, ones, sizeof ones);
    put_text(&gemm, 1, "w");
    put_text(&number, 1, attribute);
    if (real) {
        put_byte(&number, 2 << 3 | 5);
        for (size_t i = 0; i < sizeof *real; i++) put_byte(&number, ((const unsigned char *)real)[i]);
    } else
        put_number(&number, 3, integer);
    if (type) put_type(&number, type);
    put_message(&gemm, 5, &number);
    put_text(&output, 1, "y");
    put_message(&graph, 1, &gemm);
    put_message(&graph, 5, &weight);
    put_message(&graph, 11, &input);
    put_message(&graph, 12, &output);
    return file_of(&graph);
}

/* What importing a file says, as graph `name` of a model; "": it is imported. */
static weft_error import_of(const message *bytes, const weft_onnx_options *options, const char *name) {
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "x.onnx", bytes->bytes, bytes->n);
    weft_onnx *file = weft_onnx_open("x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    weft_graph_new(m, "taken", WEFT_EVAL);
    CHECK(!file || !weft_onnx_graph(file, m, name, WEFT_EVAL, options, &error) == !!error.status);
    weft_model_free(m);
    weft_onnx_close(file);
    CHECK(f.live == 0);
    faults_end(&f);
    return error;
}

TEST(a_head_takes_the_place_of_a_plain_product_alone) {
    static const float one = 1, half = 0.5f;
    static const weft_onnx_options five = {.head = "y", .head_length = 5};
    static const struct {
        const char *attribute;
        int integer;
        const float *real;
        const char *says;
    } rows[] = {
        {"transB", 1, NULL, ""},      {"transA", 0, NULL, ""},
        {"alpha", 0, &one, ""},       {"transA", 1, NULL, "transA, alpha or beta is not the default"},
        {"alpha", 0, &half, "alpha"}, {"beta", 0, &half, "transA, alpha or beta is not the default"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        message file = file_of_product(rows[i].attribute, rows[i].integer, rows[i].real, 0);
        weft_error error = import_of(&file, &five, "g");
        CHECK_SAYS(*rows[i].says ? error.status == WEFT_UNSUPPORTED : !error.status, "row %zu: %s", i,
                   error.text);
        CHECK_HOLDS(error.text, rows[i].says);
    }
}

TEST(an_attribute_without_a_type_has_that_of_its_field) {
    static const float half = 0.5f;
    message file = file_of_product("alpha", 0, &half, 0);
    CHECK_TEXT(import_of(&file, NULL, "g").text, "");
    file = file_of_product("alpha", 0, &half, 1);
    CHECK_TEXT(import_of(&file, NULL, "g").text, "");
    file = file_of_product("alpha", 1, NULL, 0); /* an integer */
    CHECK_HOLDS(import_of(&file, NULL, "g").text, "'alpha' has another type than the operator's");
    file = file_of_product("alpha", 0, &half, 2);
    CHECK_HOLDS(import_of(&file, NULL, "g").text, "'alpha' has another type than the operator's");
}

TEST(a_wrong_name_of_a_graph_is_the_error_of_the_model) {
    message file = file_of_product("transB", 1, NULL, 0);
    CHECK_HOLDS(import_of(&file, NULL, "taken").text, "taken");
    CHECK_HOLDS(import_of(&file, NULL, "a/b").text, "a/b");
    CHECK_TEXT(import_of(&file, NULL, "g").text, "");
}

TEST(a_constant_has_the_axes_of_its_input) {
    static const float pairs[6] = {0};
    static const struct {
        weft_onnx_constant given;
        weft_status status;
        const char *says;
    } rows[] = {
        {{"x", WEFT_F32, 2, {3, 2}, pairs}, WEFT_OK, ""},
        {{"x", WEFT_F32, 2, {2, 3}, pairs}, WEFT_SHAPE, "axis 1 of the constant 'x' has length 3"},
        {{"x", WEFT_F32, 1, {2}, pairs}, WEFT_SHAPE, "the constant 'x' has 1 axes; the input has 2"},
        {{"x", WEFT_F32, 2, {-3, 2}, pairs}, WEFT_ARGUMENT, "the constant 'x' has 2 axes"},
        {{"x", WEFT_F32, WEFT_MAX_NDIM + 1, {2}, pairs}, WEFT_ARGUMENT, "the constant 'x' has "},
        {{"x", WEFT_F32, -1, {2}, pairs}, WEFT_ARGUMENT, "the constant 'x' has -1 axes"},
        {{"x", WEFT_F32, 2, {3, 2}, pairs, {1}}, WEFT_ARGUMENT, "weft_onnx_constant"},
    };
    message file = file_of_product("transB", 1, NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error =
            import_of(&file, &(weft_onnx_options){.n_constants = 1, .constants = &rows[i].given}, "g");
        CHECK_SAYS(error.status == rows[i].status, "row %zu: %s", i, error.text);
        CHECK_HOLDS(error.text, rows[i].says);
    }
}

/* ---- which axes are the batch ---- */

/* Of x[first, second] with axes that have names: the same axes of Relu(x), or the error. `given`: the axis
 * that options call the batch; NULL: they do not say. */
static void check_batch(const char *first, const char *second, const char *given, const char *says) {
    message axes[2] = {{0}, {0}}, shape = {0}, tensor = {0}, type = {0}, port = {0}, output = {0},
            graph = {0};
    message node = node_of("Relu", "x", "y");
    put_text(&axes[0], 2, first);
    put_text(&axes[1], 2, second);
    put_message(&shape, 1, &axes[0]);
    put_message(&shape, 1, &axes[1]);
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&port, 1, "x");
    put_message(&port, 2, &type);
    put_text(&output, 1, "y");
    put_message(&graph, 1, &node);
    put_message(&graph, 11, &port);
    put_message(&graph, 12, &output);
    message file = file_of(&graph);
    weft_error error = {0};
    faults f;
    faults_init(&f);
    fake_put(&f, "x.onnx", file.bytes, file.n);
    weft_onnx *onnx = weft_onnx_open("x.onnx", &f.env, &error);
    weft_model *m = weft_model_new_in("m", &f.env);
    weft_model_set_batch(m, 3);
    weft_onnx_axis lengths[] = {{"S", 7}, {given, WEFT_BATCH}};
    bool has_s = !strcmp(first, "S");
    weft_onnx_options options = {.n_axes = has_s + (given ? 1 : 0), .axes = lengths + !has_s};
    bool is_built = onnx && weft_onnx_graph(onnx, m, "g", WEFT_EVAL, &options, &error);
    CHECK_HOLDS(error.text, says);
    weft_value *y = is_built ? weft_onnx_value(onnx, "y") : NULL;
    CHECK(!y == (*says != 0));
    if (y) CHECK(weft_dim(y, 0) == (has_s ? 7 : 3) && weft_dim(y, 1) == 3);
    weft_model_free(m);
    weft_onnx_close(onnx);
    faults_end(&f);
}

TEST(axes_are_the_batch_by_place_name_or_option) {
    check_batch("N", "N", NULL, "");
    check_batch("S", "batch", NULL, "");
    check_batch("S", "T", "T", "");
    check_batch("batch", "batch", NULL, "");
    check_batch("T", "batch", NULL, "axis 0 of input 'x' has no length, only the name 'T'");
    check_batch("N", "S2", NULL, "axis 1 of input 'x' has no length");
    check_batch("N", "T", "T", "axis 0 of input 'x' has no length, only the name 'N'");
    check_batch("batch", "T", "T", "axis 0 of input 'x' has no length");
}

/* A file may say of a constant that it is larger than memory. */
TEST(known_values_have_a_limit) {
    message graph = {0}, node = node_of("Constant", "", "y"), attribute = {0}, output = {0};
    message huge = {8, {8, 128, 128, 128, 128, 4, 16, 7}}; /* i64[2^30] */
    put_text(&attribute, 1, "value");
    put_message(&attribute, 5, &huge);
    put_message(&node, 5, &attribute);
    put_message(&graph, 1, &node);
    put_text(&output, 1, "y");
    put_message(&graph, 12, &output);
    check_graph_refused(&graph, "node 0 '' (Constant): the values that are known while importing have more "
                                "than 2 GiB");
}

TEST(weights_outside_of_the_folder_are_refused) {
    static const char *const outside[] = {"/etc/passwd", "../w", "a/../../w", "..", "", "a\\..\\w"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        message graph = {0}, tensor = external(outside[i]), node = node_of("Relu", "w", "y"), output = {0};
        put_message(&graph, 5, &tensor);
        put_message(&graph, 1, &node);
        put_text(&output, 1, "y");
        put_message(&graph, 12, &output);
        check_graph_refused(&graph, "outside of the file's folder");
    }
}

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wbe");
    CHECK(file && fwrite(bytes, 1, n, file) == n);
    if (file) fclose(file);
}

/* links/out/secret is beside links/model, the folder of the file. */
static const struct {
    const char *link, *to; /* NULL: no link */
    const char *location;
    const char *says;
} link_rows[] = {
    {NULL, NULL, "w", ""},
    {"links/model/near", "w", "near", ""},
    {"links/model/folder", ".", "folder/w", ""},
    {"links/model/far", "../out/secret", "far", "in 'far', a link to what is outside of the file's folder"},
    {"links/model/up", "../out", "up/secret", "in 'up/secret', a link to what is outside of"},
    {"links/model/twice", "up", "twice/secret", "in 'twice/secret', a link to what is outside of"},
    {"links/model/nowhere", "missing", "nowhere", "links/model/nowhere: cannot be opened"},
};
enum { LINKS = sizeof link_rows / sizeof *link_rows };

/* What importing a file says, from the operating system's files. */
static void check_link(const char *path, const char *location, const char *says) {
    message graph = {0}, tensor = external(location), node = node_of("Relu", "w", "y"), output = {0};
    weft_error error = {0};
    put_text(&output, 1, "y");
    put_message(&graph, 5, &tensor);
    put_message(&graph, 1, &node);
    put_message(&graph, 12, &output);
    message file = file_of(&graph);
    write_file("links/model/x.onnx", file.bytes, file.n);
    weft_onnx *onnx = weft_onnx_open(path, NULL, &error);
    weft_model *m = weft_model_new("m");
    if (onnx && weft_onnx_graph(onnx, m, "g", WEFT_EVAL, NULL, &error))
        weft_onnx_weights(onnx, "links/weights", &error);
    if (*says) CHECK_HOLDS(error.text, says);
    if (!*says) CHECK_TEXT(error.text, "");
    weft_model_free(m);
    weft_onnx_close(onnx);
}

TEST(weights_that_a_link_has_outside_of_the_folder_are_refused) {
    static const float w[] = {1, 2};
    CHECK(!mkdir("links", 0700) && !mkdir("links/model", 0700) && !mkdir("links/out", 0700));
    write_file("links/model/w", w, sizeof w);
    write_file("links/out/secret", w, sizeof w);
    for (int i = 0; i < LINKS; i++) {
        if (link_rows[i].link) CHECK(!symlink(link_rows[i].to, link_rows[i].link));
        check_link("links/model/x.onnx", link_rows[i].location, link_rows[i].says);
    }
    /* a folder of links to files that are together, as in the cache of Hugging Face */
    CHECK(!symlink("../model/x.onnx", "links/out/x.onnx") && !symlink("../model/w", "links/out/w"));
    check_link("links/out/x.onnx", "w", "");
    for (int i = 0; i < LINKS; i++)
        if (link_rows[i].link) remove(link_rows[i].link);
    static const char *const rest[] = {"links/out/x.onnx",   "links/out/w",   "links/out/secret",
                                       "links/model/x.onnx", "links/model/w", "links/weights",
                                       "links/out",          "links/model",   "links"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) CHECK_SAYS(!remove(rest[i]), "%s stays", rest[i]);
}

/* ---- failures ---- */

static weft_status import_all(faults *f, weft_error *error) {
    weft_onnx *file = weft_onnx_open("small.onnx", &f->env, error);
    weft_model *m = file ? weft_model_new_in("m", &f->env) : NULL;
    if (file && !m) weft_error_set(error, WEFT_MEMORY, "out of memory");
    weft_status status = error->status;
    if (m && !weft_onnx_graph(file, m, "predict", WEFT_EVAL, NULL, error)) status = error->status;
    if (m && !status) status = weft_onnx_weights(file, "w.safetensors", error);
    weft_model_free(m);
    weft_onnx_close(file);
    return status;
}

static void put_small(faults *f) {
    char bytes[4000];
    FILE *file = fopen(SMALL, "rbe");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    CHECK(n > 1000);
    fake_put(f, "small.onnx", bytes, n);
}

TEST(each_failure_of_memory_and_files_is_one_error) {
    faults f;
    faults_init(&f);
    put_small(&f);
    faults_inject(&f, true, import_all, NULL);
    faults_inject(&f, false, import_all, NULL);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

SUITE("onnx", {T(a_file_computes_what_onnxruntime_computes_at_each_batch),
               T(graphs_of_a_file_share_parameters_and_train),
               T(a_head_takes_the_place_of_the_last_layer),
               T(a_constant_is_no_input),
               T(equal_running_statistics_are_states_of_their_own),
               T(vectors_that_an_exporter_took_for_equal_are_parameters_of_their_own),
               T(each_layer_has_the_vector_of_its_name),
               T(a_folded_norm_is_reported),
               T(what_an_exporter_named_is_called_after_its_module),
               T(statistics_that_are_to_be_kept_must_be_there),
               T(names_that_weft_writes_alike_stay_apart),
               T(a_mask_that_nothing_reads_leaves_dropout_one_node),
               T(each_wrong_option_has_its_message),
               T(each_broken_rule_of_the_format_has_its_message),
               T(each_wrong_graph_has_its_message),
               T(a_head_takes_the_place_of_a_plain_product_alone),
               T(an_attribute_without_a_type_has_that_of_its_field),
               T(a_wrong_name_of_a_graph_is_the_error_of_the_model),
               T(a_constant_has_the_axes_of_its_input),
               T(known_values_have_a_limit),
               T(axes_are_the_batch_by_place_name_or_option),
               T(weights_outside_of_the_folder_are_refused),
               T(weights_that_a_link_has_outside_of_the_folder_are_refused),
               T(each_failure_of_memory_and_files_is_one_error)})
