/* programs.c - see programs.h. */
#include "support/programs.h"

#include "weft/weft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const zoo[] = {"mlp", "convnet", "dcgan28", "dcgan", "gpt", "resnet18", "gpt2_124m", "resnet50"};

static char folder[] = "/tmp/weft_tools_XXXXXX";

static void remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) fprintf(stderr, "%s stays\n", folder);
}

static void need_folder(void) {
    static bool made;
    if (made) return;
    made = true;
    if (!mkdtemp(folder)) abort();
    /* For sanitized builds. Graphviz's leaks are recognized by the names of libraries. Looking up functions
     * and lines takes longer than the rest of a run, so it is left out; run the command again to see them. */
    setenv("LSAN_OPTIONS", "suppressions=" TEST_DATA "/lsan.supp:print_suppressions=0:symbolize=0", 1);
    atexit(remove_folder);
}

char *read_all(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *all = test_memory((size_t)n + 1);
    all[fread(all, 1, (size_t)n, f)] = 0;
    fclose(f);
    return all;
}

int run(const char *format, ...) {
    char command[2000], all[2400];
    va_list args;
    need_folder();
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(all, sizeof all, "cd %s && PATH=%s:$PATH && { %s; } >out 2>err", folder, TEST_TOOLS, command);
    int status = system(all);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

bool starts_with(int kib) {
    return run("ulimit -v %d; graphtool --version", kib) == 0;
}

int starting_kib(void) {
    int kib = 5000;
    while (kib < 1000000 && !starts_with(kib)) kib += kib / 50;
    return kib;
}

bool ends(int status, int wanted) {
    char *err = read_all("err");
    bool good = test_check(status == wanted, __FILE__, __LINE__, "exit status %d, not %d: %s", status, wanted,
                           err ? err : "");
    free(err);
    return good;
}

void refuses(int status, const char *part) {
    char *err = read_all("err"), *out = read_all("out");
    ends(status, 2);
    CHECK_HOLDS(err, part);
    CHECK_SAYS(err && strchr(err, '\n') && !strchr(err, '\n')[1], "one line is wanted, not: %s",
               err ? err : "");
    CHECK_TEXT(out, "");
    free(err);
    free(out);
}

bool exists(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

json_t *json_out(const char *name) {
    char *all = read_all(name);
    json_error_t error;
    json_t *json = all ? json_loads(all, JSON_REJECT_DUPLICATES, &error) : NULL;
    CHECK_SAYS(json != NULL, "no JSON: %s", all ? all : "");
    free(all);
    return json;
}

void path_of(const char *name, char path[300]) {
    need_folder();
    snprintf(path, 300, "%s/%s", folder, name);
}

static void put_file(const char *name, const void *head, size_t head_bytes, const void *data, size_t bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(head, 1, head_bytes, f) != head_bytes || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        abort();
}

void put_npy(const char *name, const char *descr, const char *shape, const void *data, size_t bytes) {
    char npy[128 + 1];
    snprintf(npy, sizeof npy, "\x93NUMPY\x01%c\x76%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
             0, 0, descr, shape);
    size_t used = 10 + strlen(npy + 10);
    memset(npy + used, ' ', sizeof npy - 1 - used);
    npy[127] = '\n';
    put_file(name, npy, 128, data, bytes);
}

void make_data(void) {
    static uint8_t images[SAMPLES][28 * 28], labels[SAMPLES];
    test_random r = {5};
    need_folder();
    if (exists("images.idx")) return;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = (uint8_t)(i % 10);
        for (int k = 0; k < 28 * 28; k++)
            images[i][k] = (uint8_t)(labels[i] * 25 + (int)(random_bits(&r) % 8));
    }
    put_file("images.idx", "\0\0\x08\x03\0\0\0\x46\0\0\0\x1c\0\0\0\x1c", 16, images, sizeof images);
    put_file("labels.idx", "\0\0\x08\x01\0\0\0\x46", 8, labels, sizeof labels);
    put_npy("labels.npy", "|u1", "(70,)", labels, sizeof labels);
}

bool make_model(const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s.bin", name);
    need_folder();
    return exists(file) || ends(run("weft-zoo %s -o %s", name, file), 0);
}

static weft_value *fed_logits(weft_graph *g, weft_value *tau) {
    weft_value *image = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
    weft_value *x = weft_scale(weft_cast(weft_flatten(image, 1), WEFT_F32), 1.0 / 255);
    return weft_mul(weft_linear(x, 10, "fc", NULL), tau);
}

static void fed_graph(weft_model *m, const char *name, weft_mode mode) {
    weft_graph *g = weft_graph_new(m, name, mode);
    weft_value *tau = weft_input(g, "tau", WEFT_F32, 0, NULL),
               *k = weft_input(g, "k", WEFT_I32, WEFT_SHAPE(2));
    weft_value *logits = fed_logits(g, tau), *label = weft_input(g, "label", WEFT_U8, WEFT_SHAPE(WEFT_BATCH));
    weft_value *loss = weft_cross_entropy(logits, label, NULL);
    if (mode == WEFT_TRAIN) weft_minimize(loss, "", &(weft_optimizer){.type = "adam", .lr = 1e-2});
    weft_output(loss, "loss");
    weft_output(weft_scale(tau, 1), "tau");
    weft_output(weft_mean(weft_cast(k, WEFT_F32), WEFT_ALL, false), "k");
}

bool make_fed(void) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("fed");
    need_folder();
    path_of("fed.bin", path);
    weft_model_set_batch(m, 10);
    fed_graph(m, "train", WEFT_TRAIN);
    fed_graph(m, "val", WEFT_EVAL);
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(fed_logits(g, weft_input(g, "tau", WEFT_F32, 0, NULL)), "logits");
    bool is_made = CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
    return is_made;
}
