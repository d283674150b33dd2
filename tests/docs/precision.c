/* precision.c - runs the code of docs/precision.md: a model computes in f16, one of its scopes in f32. */
static weft_plan *plan_of_parts(weft_error *error) {
    weft_model *m = weft_model_new("parts");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(8, 64)), *y = x;
    WEFT_SCOPE(x, "body") y = weft_relu(weft_linear(y, 128, "fc", NULL));
    WEFT_SCOPE(x, "head") y = weft_linear(y, 1, "fc", NULL);
    weft_minimize(weft_mean(weft_square(y), 0, NULL, false), "", &(weft_optimizer){.type = "adamw"});
    choose_precision(m);
    weft_plan *plan = weft_compile(m, NULL, error);
    weft_model_free(m);
    return plan;
}

int main(void) {
    weft_error error = {0};
    weft_plan *plan = plan_of_parts(&error);
    char *text = plan ? weft_plan_text(plan) : NULL;
    int wrong = !text || !strstr(text, "f16[8,128]") || !strstr(text, "f32[8,1]") || strstr(text, "f16[8,1]");
    if (wrong) fprintf(stderr, "%s\n", error.status ? error.text : text ? text : "no text");
    weft_text_free(text);
    weft_plan_free(plan);
    return wrong;
}
