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

static int run_classifier(void) {
    enum { N = 256, PIXELS = 28 * 28 };
    static unsigned char image[N * PIXELS], label[N];
    for (int i = 0; i < N; i++) {
        label[i] = (unsigned char)(i % 10);
        memset(image + i * PIXELS, label[i] * 25, PIXELS);
    }
    trainer t = {0};
    weft_error error = {0};
    if (write_npy("image.npy", "(256, 28, 28)", image, sizeof image) ||
        write_npy("label.npy", "(256,)", label, N))
        return 1;
    if (classifier_epoch("image.npy", "label.npy")) return 1;
    weft_status status = restore(&t, &error);
    if (!status) status = warm_start(t.store, "classifier.safetensors", &error);
    trainer_close(&t);
    if (status) fprintf(stderr, "%s\n", error.text);
    return status != WEFT_OK;
}

static int run_layers(void) {
    weft_model *m = weft_model_new("layers");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){4, 8, 6, 6});
    x = block(block(x, 8, 1, "one"), 16, 2, "two");
    WEFT_SCOPE(x, "gpt") {
        x = self_attention(weft_reshape(x, 3, (int64_t[]){4, 9, 16}), 2);
        x = centred(weft_layer_norm(weft_reshape(x, 2, (int64_t[]){36, 16}), "ln"));
    }
    weft_output(x, "y");
    weft_value *label = weft_input(g, "label", WEFT_I64, 1, (int64_t[]){36}), *target = weft_tanh(x);
    weft_output(losses(x, label, x, target), "losses");
    train_with_care(weft_mean(weft_square(x), 0, NULL, false));
    int wrong = print_plan(m, 0);
    weft_model_free(m);
    return wrong;
}

static int run_signs(void) {
    weft_model *m = weft_model_new("signs");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){4, 8});
    train_by_signs(weft_mean(weft_square(weft_linear(x, 2, "fc")), 0, NULL, false));
    int wrong = print_plan(m, 0);
    weft_model_free(m);
    return wrong;
}

/* A budget of nothing fails with a status; a large one is whole again at the end. */
static int run_budget(void) {
    budget b;
    weft_model *m = model_within(&b, 0);
    if (m) return 1;
    m = model_within(&b, 1 << 20);
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_output(weft_relu(weft_input(g, "x", WEFT_F32, 1, (int64_t[]){3})), "y");
    int wrong = print_plan(m, 0);
    weft_model_free(m);
    return wrong || b.left != 1 << 20;
}

static int run_spread(void) {
    weft_model *m = build_classifier();
    weft_status status = spread(m);
    char *text = weft_model_text(m);
    int wrong = status || !text ||
                !strstr(text, "ddp net/fc1 bucket_cap_mb=4 zero=1 shard=flat bf16_wire=1 process") ||
                print_plan(m, 0);
    free(text);
    weft_model_free(m);
    return wrong;
}

/* Graphs that assign compile beside the one that made their parameters. */
static int run_followers(void) {
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "step", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_value *y = weft_add(weft_linear(x, 2, "encoder"), weft_linear(x, 2, "critic"));
    weft_output(weft_mse(y, weft_linear(x, 2, "teacher")), "loss");
    add_teacher(m);
    add_clip(m);
    int wrong = print_plan(m, 0) || say_whether_it_fits(m, &(weft_compile_options){.threads = 1});
    weft_model_free(m);
    return wrong;
}

static void add_step(weft_model *m, const char *name) {
    weft_value *x = weft_input(weft_graph_new(m, name, WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 2, "fc")), 0, NULL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd"});
    weft_output(loss, "loss");
}

static int run_flows(void) {
    weft_model *m = weft_model_new("m");
    add_step(m, "d_step");
    add_step(m, "g_step");
    flows(m);
    int wrong = print_flow(m, NULL) || print_flow(m, "balanced");
    weft_model_free(m);
    return wrong;
}

/* Both modes of the preprocessor. */
static int run_preprocess(void) {
    weft_model *m = weft_model_new("m");
    for (int i = 0; i < 2; i++)
        weft_output(cifar_input(weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN)), "y");
    int wrong = print_plan(m, 0);
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

/* fc.weight of a file of weights. */
static weft_status read_weights(const char *path, float weights[6], weft_error *error) {
    weft_tensors *t = weft_tensors_open(path, NULL, error);
    weft_status status =
        t ? weft_tensors_read(t, "fc.weight", weights, 6 * sizeof *weights, error) : error->status;
    weft_tensors_close(t);
    return status;
}

/* A training in three runs has the bits of one run, and so does its last checkpoint as a file of weights. */
static int run_checkpoints(void) {
    weft_error error = {0};
    float one[6], parts[6], file[6];
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
    weft_value *loss = weft_mean(weft_square(weft_linear(x, 2, "fc")), 0, NULL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "adam", .lr = 1e-3});
    weft_plan *plan = weft_compile(m, NULL, &error);
    bool is_done = plan && !train_in_parts(plan, "at_once", 1, (int64_t[]){170}, one, &error) &&
                   !train_in_parts(plan, "in_parts", 3, (int64_t[]){50, 120, 170}, parts, &error) &&
                   !to_weights("in_parts", "parts.safetensors", &error) &&
                   !read_weights("parts.safetensors", file, &error);
    if (!is_done) fprintf(stderr, "%s\n", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
    return !is_done || memcmp(one, parts, sizeof one) != 0 || memcmp(one, file, sizeof one) != 0;
}

int main(void) {
    return run_flows() || run_followers() || run_classifier() || run_spread() || run_layers() ||
           run_signs() || run_budget() || run_preprocess() || run_checkpoints();
}
