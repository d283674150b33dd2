/* optimizers.c - runs the code blocks of docs/optimizers.md; test_docs.py puts them before these lines. */

int main(void) {
    void (*const trains[])(weft_value *loss) = {train, train_long, train_in_groups};
    for (int i = 0; i < 3; i++) {
        weft_error error = {0};
        weft_model *m = weft_model_new("m");
        weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, WEFT_SHAPE(4, 3));
        weft_value *loss = weft_mean(weft_square(weft_linear(x, 2, "fc")), 0, NULL, false);
        weft_output(loss, "loss");
        trains[i](loss);
        weft_plan *plan = weft_save(m, "m.bin", &error) ? NULL : weft_compile(m, NULL, &error);
        if (!plan) return fprintf(stderr, "%s\n", error.text), 1;
        weft_plan_free(plan);
        weft_model_free(m);
    }
    weft_error error = {0};
    weft_model *m = load_for_a_long_run("m.bin", &error);
    if (!m || weft_model_error(m)->status) return fprintf(stderr, "%s\n", error.text), 1;
    weft_model_free(m);
    return 0;
}
