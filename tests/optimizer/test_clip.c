/* test_clip.c - clipping of gradients: by value, then by norm, in this order, in f32 and in f16 whose scale
 * is taken away first; steps that overflow stay skipped, and plans of worlds and micro-batches are proved.
 *
 * The loss is the sum of w * x, so the gradient of w is x, and SGD of rate 1 shows it. */
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4 };

static weft_model *model(const weft_optimizer *o) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, N));
    weft_value *w = weft_parameter(x, "w", WEFT_SHAPE(N, 1), (weft_init){WEFT_INIT_ZEROS, 0, 0});
    weft_value *loss = weft_sum(weft_matmul(x, w, false, false), WEFT_ALL, false);
    weft_minimize(loss, NULL, o);
    weft_output(loss, "loss");
    return m;
}

/* w after one step on x, of one sample. */
static void stepped(const weft_optimizer *o, weft_dtype precision, const float x[N], float w[N]) {
    weft_error e = {0};
    weft_model *m = model(o);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = 1, .precision = precision}, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    CHECK_SAYS(!weft_run(s, "train", (weft_feed[]){{"x", x, N * sizeof *x}}, 1, NULL, 0, &e), "%s", e.text);
    CHECK(!weft_store_get(store, "w", w, N * sizeof *w, &e));
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* torch.nn.utils.clip_grad_value_, then clip_grad_norm_. */
static void clipped(double value, double norm, const float x[N], double g[N]) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        g[i] = value > 0 ? fmax(-value, fmin(value, x[i])) : x[i];
        sum += g[i] * g[i];
    }
    for (int i = 0; norm > 0 && i < N; i++) g[i] *= fmin(1, norm / (sqrt(sum) + 1e-6));
}

TEST(values_are_clipped_before_the_norm) {
    static const float xs[][N] = {{0.25f, -3, 8, 0.5f}, {0.125f, -0.25f, 0, 0.5f}, {-64, 64, 64, 1}};
    static const double limits[][2] = {{0, 0}, {1, 0}, {0, 2}, {1, 1.25}, {0.3, 100}, {100, 0.01}};
    for (int f16 = 0; f16 < 2; f16++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
                float w[N];
                double g[N];
                weft_optimizer o = {
                    .type = "sgd", .lr = 1, .clip_value = limits[k][0], .clip_norm = limits[k][1]};
                if (f16) o.loss_scale = 256;
                stepped(&o, f16 ? WEFT_F16 : WEFT_F32, xs[i], w);
                clipped(limits[k][0], limits[k][1], xs[i], g);
                for (int n = 0; n < N; n++)
                    CHECK_SAYS(fabs(w[n] + g[n]) <= 1e-5 * fabs(g[n]), "%s value %g norm %g: %g, wanted %g",
                               f16 ? "f16" : "f32", limits[k][0], limits[k][1], w[n], -g[n]);
            }
}

/* Clipping would hide an infinite gradient, so the check comes first. */
TEST(a_step_that_overflows_is_skipped_though_values_are_clipped) {
    static const float x[N] = {1, 60000, 1, 1};
    float w[N];
    for (int norm = 0; norm < 2; norm++) {
        stepped(
            &(weft_optimizer){
                .type = "sgd", .lr = 1, .clip_value = 1, .clip_norm = norm, .loss_scale = 65536},
            WEFT_F16, x, w);
        for (int i = 0; i < N; i++) CHECK_SAYS(w[i] == 0, "%g", w[i]);
    }
}

TEST(plans_that_clip_by_value_are_proved) {
    for (int i = 0; i < 48; i++) {
        weft_error e = {0};
        weft_model *m = model(
            &(weft_optimizer){.type = i & 1 ? "adam" : "sgd", .clip_value = 1, .clip_norm = i & 2 ? 1 : 0});
        weft_compile_options o = {.batch = 2,
                                  .world = i & 4 ? 2 : 1,
                                  .rank = i & 4 ? 1 : 0,
                                  .precision = i & 8 ? WEFT_F16 : WEFT_F32,
                                  .zero = i & 4 ? i / 16 : 0,
                                  .accumulate = i % 3 + 1,
                                  .verify = true};
        weft_plan *plan = weft_compile(m, &o, &e);
        CHECK_SAYS(plan != NULL, "%d: %s", i, e.text);
        weft_plan_free(plan);
        weft_model_free(m);
    }
}

SUITE("clip",
      {T(values_are_clipped_before_the_norm), T(a_step_that_overflows_is_skipped_though_values_are_clipped),
       T(plans_that_clip_by_value_are_proved)})
