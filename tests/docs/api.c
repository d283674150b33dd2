/* api.c - runs the code blocks of docs/api.md; test_docs.py puts them before these lines. */

/* 64 images whose brightness is their label, as .npy files. */
static int write_npy(const char *path, const char *shape, const unsigned char *data, size_t bytes) {
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf(header + 10, 100, "{'descr': '|u1', 'fortran_order': False, 'shape': %s}", shape);
    header[10 + n] = ' ';
    header[127] = '\n';
    FILE *f = fopen(path, "wb");
    if (!f) return 1;
    int wrong = fwrite(header, 1, sizeof header, f) != sizeof header || fwrite(data, 1, bytes, f) != bytes;
    return fclose(f) || wrong;
}

static weft_status classifier_epoch(const char *images, const char *labels) {
    trainer t = {0};
    weft_error error = {0};
    weft_model *m = build_classifier();
    weft_source *image = weft_source_open(images, NULL, NULL, &error);
    weft_source *label = image ? weft_source_open(labels, NULL, NULL, &error) : NULL;
    if (label && trainer_open(&t, m, &error) == WEFT_OK) one_epoch(&t, image, label, 0, &error);
    if (!error.status) weft_save(m, "classifier.bin", &error); /* weft_load reads it elsewhere */
    if (!error.status) weft_weights_save(t.store, "classifier.safetensors", false, &error);
    if (error.status) fprintf(stderr, "%s\n", error.text);
    trainer_close(&t);
    weft_source_free(label);
    weft_source_free(image);
    weft_model_free(m);
    return error.status;
}

static int run_classifier(void) {
    enum { N = 256, PIXELS = 28 * 28 };
    static unsigned char image[N * PIXELS], label[N];
    for (int i = 0; i < N; i++) {
        label[i] = (unsigned char)(i % 10);
        memset(image + i * PIXELS, label[i] * 25, PIXELS);
    }
    if (write_npy("image.npy", "(256, 28, 28)", image, sizeof image) ||
        write_npy("label.npy", "(256,)", label, N))
        return 1;
    return classifier_epoch("image.npy", "label.npy") != WEFT_OK;
}

static bool does_not_compile(const weft_model *m) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    if (error.status) fprintf(stderr, "%s\n", error.text);
    weft_plan_free(plan);
    return error.status != WEFT_OK;
}

static int run_signs(void) {
    weft_model *m = weft_model_new("signs");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){4, 8});
    train_by_signs(weft_mean(weft_square(weft_linear(x, 2, "fc", NULL)), WEFT_ALL, false));
    int wrong = does_not_compile(m);
    weft_model_free(m);
    return wrong;
}

/* Graphs that assign compile beside the one that made their parameters. */
static int run_followers(void) {
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_value *y = weft_add(weft_linear(x, 2, "encoder", NULL), weft_linear(x, 2, "critic", NULL));
    weft_output(weft_mse(y, weft_linear(x, 2, "teacher", NULL), NULL), "loss");
    add_teacher(m);
    add_clip(m);
    int wrong = does_not_compile(m);
    weft_model_free(m);
    return wrong;
}

/* Both modes of the preprocessor. */
static int run_preprocess(void) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++)
        weft_output(cifar_input(weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN)), "y");
    int wrong = does_not_compile(m);
    weft_model_free(m);
    return wrong;
}

static weft_status square_step(weft_session *s, int64_t step, weft_error *error) {
    float x[12];
    for (int i = 0; i < 12; i++) x[i] = (float)((step * 7 + i * 5) % 11) / 11;
    return weft_run(s, "train", &(weft_feed){"x", x, sizeof x}, 1, NULL, 0, error);
}

/* Trains in as many runs as there are ends, each with a store of its own; the weights of the last one. */
static weft_status train_in_parts(const weft_plan *plan, const char *folder, int n, const int64_t *ends,
                                  float weights[6], weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && !status; i++) {
        weft_store *store = weft_store_new(plan, 1, error);
        status = store ? train_to(ends[i], plan, store, square_step, folder, error) : error->status;
        if (!status) status = weft_store_get(store, "fc/weight", weights, 6 * sizeof *weights, error);
        weft_store_free(store);
    }
    return status;
}

/* A training in three runs has the bits of one run. */
static int run_checkpoints(void) {
    weft_error error = {0};
    float one[6], parts[6];
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 2, "fc", NULL)), WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "adam", .lr = 1e-3});
    weft_plan *plan = weft_compile(m, NULL, &error);
    bool is_done = plan && !train_in_parts(plan, "at_once", 1, (int64_t[]){170}, one, &error) &&
                   !train_in_parts(plan, "in_parts", 3, (int64_t[]){50, 120, 170}, parts, &error);
    if (!is_done) fprintf(stderr, "%s\n", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
    return !is_done || memcmp(one, parts, sizeof one) != 0;
}

int main(void) {
    return run_followers() || run_classifier() || run_signs() || run_preprocess() || run_checkpoints();
}
