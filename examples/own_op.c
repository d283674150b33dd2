/* own_op.c - an op of your own: the soft threshold, by which sparse codes are made (Donoho, IEEE Transactions
 * on Information Theory 41, 1995).
 *
 *     weft-own-op MODEL WEIGHTS    trains a curve by it, saves halfway, and continues from the files
 *
 * The model's file has the calls of the op with their thresholds, not its functions: the set that defines the
 * op is given when a model is made, and again when it is loaded. */
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 32, STEPS = 200 };

/* y = x - threshold above the threshold, x + threshold below minus it, else 0 */
static weft_status shrink(weft_op_run *run) {
    const float *x = run->operands[0].data;
    float *y = run->results[0].data, threshold = (float)run->reals[0];
    int64_t n = 1;
    for (int i = 0; i < run->results[0].type.ndim; i++) n *= run->results[0].type.shape[i];
    for (int64_t i = 0; i < n; i++) /* 0 x keeps NaN */
        y[i] = x[i] > threshold ? x[i] - threshold : x[i] < -threshold ? x[i] + threshold : 0 * x[i];
    return WEFT_OK;
}

/* The gradient passes where y is not 0. */
static void shrink_gradient(weft_op_gradient *g) {
    g->gradients[0] = weft_mul(g->result_gradients[0], weft_abs(weft_sign(g->results[0])));
}

static const weft_op_definition definition = {
    .name = "example.shrink",
    .n_operands = 1,
    .numbers = {.reals = {{"threshold", 0.5}}},
    .gradient = shrink_gradient,
    .kernel = shrink,
};

static weft_model *build(const weft_env *env) {
    weft_model *m = weft_model_new_in("curve", env);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(ROWS, 1));
    weft_value *y = weft_input(g, "y", WEFT_F32, WEFT_SHAPE(ROWS, 1));
    weft_value *h = weft_linear(x, 16, "in", NULL);
    h = weft_call_op("example.shrink", 1, &h, &(weft_op_numbers){.reals = {{"threshold", 0.1}}});
    weft_value *loss = weft_mse(weft_linear(h, 1, "out", NULL), y, NULL);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "adam", .lr = 0.01});
    weft_output(loss, "loss");
    return m;
}

/* Learns y = x^2 on [-1, 1) for some steps, from the weights in `from` (NULL: new ones), and saves them as
 * `to` (NULL: nowhere). The last loss, or a negative number after an error. */
static float train(const weft_model *m, int steps, const char *from, const char *to, weft_error *error) {
    float x[ROWS], y[ROWS], loss = -1;
    for (int i = 0; i < ROWS; i++) {
        x[i] = 2 * (float)i / ROWS - 1;
        y[i] = x[i] * x[i];
    }
    weft_plan *plan = weft_compile(m, NULL, error);
    weft_store *store = plan ? weft_store_new(plan, 1, error) : NULL;
    if (store && from) weft_weights_load(store, from, NULL, NULL, error);
    weft_session *session = store && !error->status ? weft_session_open(plan, store, error) : NULL;
    for (int i = 0; session && i < steps && !error->status; i++)
        weft_run(session, "train", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2,
                 (weft_fetch[]){{"loss", &loss, sizeof loss}}, 1, error);
    weft_session_close(session);
    if (to && !error->status) weft_weights_save(store, to, true, error);
    weft_store_free(store);
    weft_plan_free(plan);
    return error->status ? -1 : loss;
}

int main(int argc, char **argv) {
    weft_error error = {0};
    if (argc != 3) return fprintf(stderr, "usage: weft-own-op MODEL WEIGHTS\n"), 2;
    weft_op_set *ops = weft_op_set_new(NULL, &error);
    if (!ops || weft_define_op(ops, &definition, &error)) return fprintf(stderr, "%s\n", error.text), 1;
    weft_env env = {.ops = ops};
    weft_model *built = build(&env), *loaded = NULL;
    float at_once = train(built, STEPS, NULL, NULL, &error), in_two = -1;
    if (!error.status) train(built, STEPS / 2, NULL, argv[2], &error);
    if (!error.status && !weft_save(built, argv[1], &error) && (loaded = weft_load(argv[1], &env, &error)))
        in_two = train(loaded, STEPS / 2, argv[2], NULL, &error);
    weft_model_free(built);
    weft_model_free(loaded);
    weft_op_set_free(ops);
    if (error.status) return fprintf(stderr, "%s\n", error.text), 1;
    printf("loss after %d steps: %g, from the files halfway: %g\n", STEPS, at_once, in_two);
    return at_once != in_two;
}
