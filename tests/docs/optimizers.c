/* optimizers.c - runs the code blocks of docs/optimizers.md; test_docs.py puts them before these lines. */

/* A layer of each kind. */
static weft_value *layers(weft_value *x) {
    WEFT_SCOPE(x, "backbone") x = weft_conv2d(x, &(weft_conv){.out = 3, .kernel = 1}, "conv");
    x = weft_conv2d(x, &(weft_conv){.out = 3, .kernel = 3, .groups = 3}, "deep");
    return weft_linear(weft_flatten(weft_batch_norm(x, "norm", NULL), 1), 2, "fc", NULL);
}

static weft_model *build(void (*train)(weft_value *loss)) {
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3, 5, 5));
    weft_value *loss = weft_mean(weft_square(layers(x)), WEFT_ALL, false);
    weft_output(loss, "loss");
    train(loss);
    return m;
}

static void train_with_averages(weft_value *loss) {
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd", .ema = 0.999});
}

int main(void) {
    void (*const trains[])(weft_value * loss) = {train,          train_long,           train_in_groups,
                                                 train_by_kinds, train_the_head_first, train_with_averages};
    for (int i = 0; i < 6; i++) {
        weft_error error = {0};
        weft_model *m = build(trains[i]);
        weft_plan *plan = i < 3 && weft_save(m, "m.bin", &error) ? NULL : weft_compile(m, NULL, &error);
        if (!plan) return fprintf(stderr, "%s\n", error.text), 1;
        weft_store *store = weft_store_new(plan, 1, &error);
        weft_session *session = weft_session_open(plan, store, &error);
        if (!session || (i == 5 && save_averages(session, "averages.safetensors", &error)))
            return fprintf(stderr, "%s\n", error.text), 1;
        weft_session_close(session);
        weft_store_free(store);
        weft_plan_free(plan);
        weft_model_free(m);
    }
    weft_error error = {0};
    weft_model *m = load_for_a_long_run("m.bin", &error);
    if (!m || weft_model_error(m)->status) return fprintf(stderr, "%s\n", error.text), 1;
    weft_model_free(m);
    return 0;
}
