/* line.c - a user's program in C: finds w of y = 3 x, and saves and loads the model. */
#include "consumer.h"

static weft_model *build(void) {
    weft_model *m = weft_model_new("line");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(8, 1)), *y = NULL;
    WEFT_SCOPE(x, "fit") {
        WEFT_SCOPE(x, "a") y = weft_linear(x, 1, "line", NULL);
    }
    weft_value *loss = weft_mse(y, weft_scale(x, 3), NULL);
    weft_minimize(loss, "fit", &(weft_optimizer){.type = "sgd", .lr = 0.5});
    weft_output(loss, "loss");
    return m;
}

int main(int n, char **arguments) {
    weft_error error = {WEFT_OK, ""};
    const char *path = n > 1 ? arguments[1] : "line.bin";
    weft_model *built = build();
    weft_save(built, path, &error);
    weft_model *m = error.status ? NULL : weft_load(path, NULL, &error);
    weft_plan *plan = m ? weft_compile(m, NULL, &error) : NULL;
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &error) : NULL;
    float x[8], loss = 1, w = 0;
    for (int i = 0; i < 8; i++) x[i] = (float)i / 4 - 1;
    for (int step = 0; session && !error.status && step < 100; step++)
        weft_run(session, "train", &(weft_feed){"x", x, sizeof x}, 1,
                 &(weft_fetch){"loss", &loss, sizeof loss}, 1, &error);
    if (!error.status) weft_store_get(store, "fit/a/line/weight", &w, sizeof w, &error);
    printf("weft %s: w = %.3f %s\n", weft_version(), w, error.text);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    weft_model_free(built);
    return error.status || !own_names() || !one_version() || w < 2.99f || w > 3.01f;
}
