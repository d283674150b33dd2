/* own_optimizer.c - an optimizer of your own: Signum (Bernstein et al., arXiv 1802.04434), defined by a
 * builder.
 *
 *     weft-own-optimizer MODEL     trains a line by it, writes MODEL (model.bin), and trains the loaded
 *     model too
 *
 * The builder runs while the model is built; what it built is part of the model. So the second training, and
 * `graphtool train MODEL`, need no C of ours. All its operations are element by element, so ZeRO may cut
 * state anywhere. */
#include "weft/weft.h"

#include <stdio.h>

enum { ROWS = 32, STEPS = 50 };

/* buffer = momentum buffer + (1 - momentum) gradient;  p = p - lr (sign(buffer) + weight_decay p) */
static void signum(weft_update *u) {
    weft_value *momentum = u->numbers[0];
    weft_value *difference = weft_sub(u->slots[0], u->gradient);
    u->slots[0] = weft_add(u->gradient, weft_update_scale(difference, momentum));
    weft_value *direction =
        weft_add(weft_sign(u->slots[0]), weft_update_scale(u->parameter, u->weight_decay));
    u->parameter = weft_sub(u->parameter, weft_update_scale(direction, u->lr));
}

static weft_model *build(void) {
    weft_model *m = weft_model_new("line");
    weft_define_optimizer(m, &(weft_optimizer_definition){.type = "signum",
                                                          .slots = {{"momentum_buffer", 0}},
                                                          .numbers = {{"momentum", 0.9}},
                                                          .build = signum});
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){ROWS, 1});
    weft_value *y = weft_input(g, "y", WEFT_F32, 2, (int64_t[]){ROWS, 1});
    weft_value *loss = weft_mse(weft_linear(x, 1, "line", NULL), y, NULL);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "signum", .lr = 0.05, .momentum = 0.5});
    weft_output(loss, "loss");
    return m;
}

/* Learns y = 2 x - 1; the last loss, or a negative number after an error. */
static float train(const weft_model *m, weft_error *error) {
    float x[ROWS], y[ROWS], loss = -1;
    for (int i = 0; i < ROWS; i++) y[i] = 2 * (x[i] = (float)i / ROWS) - 1;
    weft_plan *plan = weft_compile(m, NULL, error);
    weft_store *store = plan ? weft_store_new(plan, 1, error) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, error) : NULL;
    for (int i = 0; session && i < STEPS && !error->status; i++)
        weft_run(session, "train", (weft_feed[]){{"x", x, sizeof x}, {"y", y, sizeof y}}, 2,
                 (weft_fetch[]){{"loss", &loss, sizeof loss}}, 1, error);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    return error->status ? -1 : loss;
}

int main(int argc, char **argv) {
    weft_error error = {0};
    if (argc != 2) return fprintf(stderr, "usage: weft-own-optimizer MODEL\n"), 2;
    weft_model *built = build(), *loaded = NULL;
    float first = train(built, &error), second = -1;
    if (!error.status && !weft_save(built, argv[1], &error) && (loaded = weft_load(argv[1], NULL, &error)))
        second = train(loaded, &error);
    weft_model_free(built);
    weft_model_free(loaded);
    if (error.status) return fprintf(stderr, "%s\n", error.text), 1;
    printf("loss after %d steps: %g, by the loaded model: %g\n", STEPS, first, second);
    return first != second;
}
