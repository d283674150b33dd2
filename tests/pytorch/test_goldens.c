/* test_goldens.c - twenty training steps against PyTorch's (tests/golden/README.md): losses within 2e-6
 * relative, final parameters and buffers within 2e-5 norm-wise, on every instruction set this machine has; in
 * bf16 losses within the type's precision of those under torch.autocast. */
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "runtime/store/safetensors.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20 };
static const double LOSS_LIMIT = 2e-6, FINAL_LIMIT = 2e-5, BF16_LIMIT = 0x1p-7; /* two roundings */

/* ---- a golden file and a session to hold against it ---- */

typedef struct golden {
    const char *name;
    safetensors file;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
    weft_error error;
} golden;

static void *read_tensor(const golden *g, const char *name, size_t *bytes) {
    weft_error e = {0};
    const safetensors_tensor *t = safetensors_find(&g->file, name);
    CHECK_SAYS(t != NULL, "%s: no tensor %s", g->name, name);
    *bytes = t ? (size_t)(t->end - t->begin) : 0;
    void *data = test_memory(*bytes);
    if (t) CHECK_SAYS(safetensors_read(&g->file, t, data, &e) == WEFT_OK, "%s", e.text);
    return data;
}

static void load_initial(golden *g) {
    for (int i = 0; i < g->file.n; i++) {
        const char *name = g->file.tensors[i].name;
        char path[256];
        size_t bytes;
        if (strncmp(name, "init.", 5)) continue;
        snprintf(path, sizeof path, "%s", name + 5);
        for (char *p = path; *p; p++)
            if (*p == '.') *p = '/';
        void *data = read_tensor(g, name, &bytes);
        CHECK_SAYS(weft_store_set(g->store, path, data, bytes, &g->error) == WEFT_OK, "%s", g->error.text);
        free(data);
    }
}

static bool golden_open(golden *g, const char *name, weft_model *m, weft_compile_options options) {
    static const weft_env env = {0};
    char path[512];
    *g = (golden){.name = name};
    snprintf(path, sizeof path, "%s/golden/%s.safetensors", TEST_DATA, name);
    if (!CHECK_SAYS(safetensors_open(&g->file, path, &env, &g->error) == WEFT_OK, "%s", g->error.text))
        return false;
    options.verify = true;
    g->plan = weft_compile(m, &options, &g->error);
    g->store = g->plan ? weft_store_new(g->plan, 1, &g->error) : NULL;
    g->session = g->store ? weft_session_open(g->plan, g->store, &g->error) : NULL;
    if (!CHECK_SAYS(g->session != NULL, "%s: %s", name, g->error.text)) return false;
    load_initial(g);
    return true;
}

/* The reference's kernels go by one element at a time: twenty steps of them are most of a short run, and
 * test_ops has them there on every sample. */
static weft_isa first_isa(void) {
    return test_is_quick() && isa_best() > WEFT_ISA_REFERENCE ? WEFT_ISA_REFERENCE + 1 : WEFT_ISA_REFERENCE;
}

static void golden_close(golden *g) {
    weft_session_close(g->session);
    weft_store_free(g->store);
    weft_plan_free(g->plan);
    safetensors_close(&g->file);
}

/* Runs `graph` on step `step` of data.<a> and data.<b> (NULL: one input); inputs go by the names in feeds. */
static double run_step(golden *g, const char *graph, const char *const *inputs, const char *const *data,
                       int n, int step) {
    weft_feed feeds[4];
    void *whole[4];
    float loss = NAN;
    for (int i = 0; i < n; i++) {
        size_t bytes;
        char name[80];
        snprintf(name, sizeof name, "data.%s", data[i]);
        whole[i] = read_tensor(g, name, &bytes);
        feeds[i] = (weft_feed){inputs[i], (char *)whole[i] + (size_t)step * (bytes / STEPS), bytes / STEPS};
    }
    weft_status status =
        weft_run(g->session, graph, feeds, n, (weft_fetch[]){{"loss", &loss, sizeof loss}}, 1, &g->error);
    CHECK_SAYS(status == WEFT_OK, "%s: %s", g->name, g->error.text);
    for (int i = 0; i < n; i++) free(whole[i]);
    return loss;
}

static void check_loss(golden *g, const char *curve, int step, double loss) {
    size_t bytes;
    double *losses = read_tensor(g, curve, &bytes), off = fabs(loss - losses[step]) / fabs(losses[step]);
    CHECK_SAYS(off <= LOSS_LIMIT, "%s: %s at step %d: %.8g, PyTorch %.8g, off by %.2g", g->name, curve, step,
               loss, losses[step], off);
    free(losses);
}

static void check_final(golden *g) {
    int seen = 0;
    for (int i = 0; i < g->file.n; i++) {
        const char *name = g->file.tensors[i].name;
        char path[256];
        size_t bytes;
        if (strncmp(name, "final.", 6)) continue;
        snprintf(path, sizeof path, "%s", name + 6);
        for (char *p = path; *p; p++)
            if (*p == '.') *p = '/';
        float *want = read_tensor(g, name, &bytes), *got = test_memory(bytes);
        CHECK_SAYS(weft_store_get(g->store, path, got, bytes, &g->error) == WEFT_OK, "%s", g->error.text);
        double off = 0, norm = 0;
        for (size_t k = 0; k < bytes / 4; k++) {
            off += ((double)got[k] - want[k]) * ((double)got[k] - want[k]);
            norm += (double)want[k] * want[k];
        }
        CHECK_SAYS(sqrt(off) <= FINAL_LIMIT * sqrt(norm), "%s: %s is off by %.2g", g->name, path,
                   sqrt(off / norm));
        free(want);
        free(got);
        seen++;
    }
    CHECK_SAYS(seen > 0, "%s: no final tensors", g->name);
}

/* ---- supervised cases: one graph, inputs named as the data ---- */

/* The same training in bf16 against PyTorch's under autocast, which rounds at other places: norms are f32
 * there. */
static void check_autocast(const char *name, weft_model *m, const char *const *inputs, weft_isa isa) {
    static const weft_env env = {0};
    safetensors file = {0};
    golden g;
    double want[STEPS], apart = 0;
    char curve[60];
    weft_error e = {0};
    snprintf(curve, sizeof curve, "%s.bf16", name);
    CHECK_SAYS(safetensors_open(&file, TEST_DATA "/golden/autocast.safetensors", &env, &e) == WEFT_OK, "%s",
               e.text);
    const safetensors_tensor *t = safetensors_find(&file, curve);
    bool is_there = t && safetensors_read(&file, t, want, &e) == WEFT_OK;
    if (is_there && golden_open(&g, name, m, (weft_compile_options){.isa = isa, .precision = WEFT_BF16})) {
        double *exact = read_tensor(&g, "losses", &(size_t){0});
        for (int step = 0; step < STEPS; step++) {
            double loss = run_step(&g, "step", inputs, inputs, 2, step);
            double off = fabs(loss - want[step]) / fabs(want[step]);
            CHECK_SAYS(off <= BF16_LIMIT, "%s in bf16 at step %d: %.6g, autocast %.6g, off by %.2g", name,
                       step, loss, want[step], off);
            apart = fmax(apart, fabs(loss - exact[step]) / fabs(exact[step]));
        }
        CHECK_SAYS(apart > LOSS_LIMIT, "%s: bf16 gives what f32 gives", name);
        free(exact);
        golden_close(&g);
    }
    safetensors_close(&file);
}

/* The training in f32, on every instruction set. */
static void check_f32(const char *name, weft_model *m, const char *const *inputs, int n) {
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s: %s", name, weft_model_error(m)->text);
    for (weft_isa isa = first_isa(); isa <= isa_best(); isa++) {
        golden g;
        if (golden_open(&g, name, m, (weft_compile_options){.isa = isa})) {
            for (int step = 0; step < STEPS; step++)
                check_loss(&g, "losses", step, run_step(&g, "step", inputs, inputs, n, step));
            check_final(&g);
        }
        golden_close(&g);
    }
}

static void check_case(const char *name, weft_model *m, const char *const *inputs) {
    check_f32(name, m, inputs, 2);
    for (weft_isa isa = first_isa(); isa <= isa_best(); isa++) check_autocast(name, m, inputs, isa);
    weft_model_free(m);
}

static weft_model *mlp(const weft_optimizer *optimizer) {
    weft_model *m = weft_model_new("mlp");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){16, 20});
    weft_value *label = weft_input(g, "label", WEFT_I32, 1, (int64_t[]){16});
    weft_value *y = x;
    WEFT_SCOPE(x, "net") {
        y = weft_relu(weft_linear(y, 32, "fc1", NULL));
        y = weft_relu(weft_linear(y, 32, "fc2", NULL));
        y = weft_linear(y, 10, "fc3", NULL);
    }
    weft_value *loss = weft_cross_entropy(y, label, NULL);
    weft_minimize(loss, "net", optimizer);
    weft_output(loss, "loss");
    return m;
}

TEST(mlp_with_every_optimizer_trains_as_pytorch) {
    static const char *const inputs[] = {"x", "label"};
    static const weft_param_group groups[] = {{"*bias", 0.5, WEFT_ZERO}};
    static const struct {
        const char *name;
        weft_optimizer optimizer;
    } cases[] = {
        {"mlp_sgd", {.type = "sgd", .lr = 0.3}},
        {"mlp_sgd_momentum", {.type = "sgd", .lr = 0.1, .momentum = 0.9}},
        {"mlp_sgd_nesterov",
         {.type = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
        {"mlp_sgd_dampening",
         {.type = "sgd", .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}},
        {"mlp_adam", {.type = "adam", .lr = 0.01}},
        {"mlp_adam_decay", {.type = "adam", .lr = 0.01, .weight_decay = 0.01}},
        {"mlp_adamw", {.type = "adamw", .lr = 0.01, .weight_decay = 0.1}},
        {"mlp_adamw_groups",
         {.type = "adamw", .lr = 0.01, .weight_decay = 0.1, .n_groups = 1, .groups = groups}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(cases[i].name, mlp(&cases[i].optimizer), inputs);
}

TEST(a_batch_norm_conv_net_trains_as_pytorch) {
    static const char *const inputs[] = {"x", "label"};
    weft_model *m = weft_model_new("convnet");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 4, (int64_t[]){8, 3, 12, 12});
    weft_value *label = weft_input(g, "label", WEFT_I32, 1, (int64_t[]){8});
    weft_value *y = x;
    WEFT_SCOPE(x, "net") {
        y = weft_conv2d(y, &(weft_conv){.out = 8, .kernel = 3, .pad = 1, .no_bias = true}, "conv1");
        y = weft_max_pool2d(weft_relu(weft_batch_norm(y, "bn1", NULL)), &(weft_pool){.kernel = {2, 2}});
        y = weft_conv2d(y, &(weft_conv){.out = 16, .kernel = 3, .stride = 2, .pad = 1, .no_bias = true},
                        "conv2");
        y = weft_leaky_relu(weft_batch_norm(y, "bn2", NULL), 0.1);
        y = weft_flatten(weft_adaptive_avg_pool2d(y, 1, 1), 1);
        y = weft_linear(y, 10, "fc", NULL);
    }
    weft_value *loss = weft_cross_entropy(y, label, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .lr = 0.05, .momentum = 0.9});
    weft_output(loss, "loss");
    check_case("convnet", m, inputs);
}

/* ---- gpt ---- */

enum { D = 32, HEADS = 4, T_ = 16, BATCH = 4, VOCAB = 17 };

/* Columns [i D, (i + 1) D) of qkv [B, T, 3D] as heads [B, H, T, D / H]. */
static weft_value *heads(weft_value *qkv, int i) {
    weft_value *part =
        weft_reshape(weft_slice(qkv, 2, i * D, (i + 1) * D), 4, (int64_t[]){BATCH, T_, HEADS, D / HEADS});
    return weft_permute(part, (int64_t[]){0, 2, 1, 3});
}

static weft_value *block(weft_value *x, const char *name) {
    const weft_linear_options no_bias = {.no_bias = true};
    WEFT_SCOPE(x, name) {
        weft_value *qkv = weft_linear(weft_layer_norm(x, "ln1", NULL), 3 * D, "qkv", &no_bias);
        weft_value *y = weft_attention(heads(qkv, 0), heads(qkv, 1), heads(qkv, 2),
                                       &(weft_attention_options){.causal = true});
        y = weft_reshape(weft_permute(y, (int64_t[]){0, 2, 1, 3}), 3, (int64_t[]){BATCH, T_, D});
        x = weft_add(x, weft_linear(y, D, "proj", NULL));
        y = weft_gelu_tanh(weft_linear(weft_layer_norm(x, "ln2", NULL), 4 * D, "fc", NULL));
        x = weft_add(x, weft_linear(y, D, "out", NULL));
    }
    return x;
}

TEST(a_tiny_gpt_trains_as_pytorch) {
    static const char *const inputs[] = {"tokens", "targets"};
    weft_model *m = weft_model_new("gpt");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *tokens = weft_input(g, "tokens", WEFT_I32, 2, (int64_t[]){BATCH, T_});
    weft_value *targets = weft_input(g, "targets", WEFT_I32, 2, (int64_t[]){BATCH, T_});
    weft_value *x = NULL;
    WEFT_SCOPE(tokens, "gpt") {
        x = weft_embedding(tokens, VOCAB, D, "wte", NULL);
        WEFT_SCOPE(tokens, "wpe")
        x = weft_add(x, weft_parameter(x, "weight", 2, (int64_t[]){T_, D}, (weft_init){0}));
        WEFT_SCOPE(tokens, "blocks") {
            x = block(x, "0");
            x = block(x, "1");
        }
        x = weft_linear(weft_layer_norm(x, "ln_f", NULL), VOCAB, "head",
                        &(weft_linear_options){.no_bias = true});
    }
    weft_value *loss = weft_cross_entropy(weft_reshape(x, 2, (int64_t[]){-1, VOCAB}),
                                          weft_reshape(targets, 1, (int64_t[]){-1}), NULL);
    weft_minimize(loss, "gpt",
                  &(weft_optimizer){.type = "adamw",
                                    .lr = 3e-3,
                                    .weight_decay = 0.1,
                                    .clip_norm = 0.5,
                                    .schedule = {{WEFT_SCHEDULE_COSINE, .warmup = 5, .end = 20, .to = 0.1}}});
    weft_output(loss, "loss");
    check_case("gpt", m, inputs);
}

/* ---- recurrent layers ---- */

/* In bf16 the losses are f32's within `limit`, and not the same. */
static void check_bf16(const char *name, weft_model *m, const char *const *inputs, int n, double limit) {
    golden g;
    double apart = 0;
    if (golden_open(&g, name, m, (weft_compile_options){.precision = WEFT_BF16})) {
        double *exact = read_tensor(&g, "losses", &(size_t){0});
        for (int step = 0; step < STEPS; step++)
            apart =
                fmax(apart, fabs(run_step(&g, "step", inputs, inputs, n, step) - exact[step]) / exact[step]);
        CHECK_SAYS(apart > LOSS_LIMIT && apart <= limit, "%s in bf16: off f32 by %.2g", name, apart);
        free(exact);
    }
    golden_close(&g);
}

TEST(a_char_model_of_two_lstm_layers_trains_as_pytorch) {
    static const char *const inputs[] = {"tokens", "targets"};
    weft_model *m = weft_model_new("lstm_char");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *tokens = weft_input(g, "tokens", WEFT_I32, 2, (int64_t[]){4, 16});
    weft_value *targets = weft_input(g, "targets", WEFT_I32, 2, (int64_t[]){4, 16}), *x = NULL;
    const weft_recurrent lstm = {.hidden = 24, .layers = 2, .batch_first = true};
    WEFT_SCOPE(tokens, "net") {
        x = weft_lstm(weft_embedding(tokens, VOCAB, 24, "wte", NULL), &lstm, "lstm", NULL, NULL);
        x = weft_linear(x, VOCAB, "head", NULL);
    }
    weft_value *loss = weft_cross_entropy(weft_reshape(x, 2, (int64_t[]){-1, VOCAB}),
                                          weft_reshape(targets, 1, (int64_t[]){-1}), NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "adam", .lr = 1e-2});
    weft_output(loss, "loss");
    check_f32("lstm_char", m, inputs, 2);
    check_bf16("lstm_char", m, inputs, 2, BF16_LIMIT);
    weft_model_free(m);
}

/* States [4, 8, 9] as [8, 36]. */
static weft_value *states_of_samples(weft_value *states) {
    return weft_flatten(weft_transpose(states, 0, 1), 1);
}

typedef struct recurrent_case {
    const char *name;
    char kind; /* l: lstm, g: gru, r: rnn */
    weft_recurrent options;
} recurrent_case;

/* Rounding turns units of relu on and off: in PyTorch too, with a state that is rounded in each step, bf16
 * is 2^-6.6 off there, and 2^-8 with tanh.
 *
 * Two layers in both directions, from given states; a classifier reads the mean of all times and the last
 * states. */
static void check_recurrent(const recurrent_case *c) {
    static const char *const inputs[] = {"x", "label", "h0", "c0"};
    weft_recurrent o = c->options;
    bool has_c = c->kind == 'l';
    weft_model *m = weft_model_new(c->name);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x =
        weft_input(g, "x", WEFT_F32, 3, (int64_t[]){o.batch_first ? 8 : 7, o.batch_first ? 7 : 8, 6});
    weft_value *label = weft_input(g, "label", WEFT_I32, 1, (int64_t[]){8}), *h = NULL, *last = NULL;
    o.h0 = weft_input(g, "h0", WEFT_F32, 3, (int64_t[]){4, 8, 9});
    o.hidden = 9;
    o.layers = 2;
    o.bidirectional = true;
    WEFT_SCOPE(x, "net") {
        weft_value *parts[3] = {0};
        if (has_c) o.c0 = weft_input(g, "c0", WEFT_F32, 3, (int64_t[]){4, 8, 9});
        weft_value *y = has_c            ? weft_lstm(x, &o, "rnn", &h, &last)
                        : c->kind == 'g' ? weft_gru(x, &o, "rnn", &h)
                                         : weft_rnn(x, &o, "rnn", &h);
        parts[0] = weft_mean(y, 1, (int64_t[]){o.batch_first}, false);
        parts[1] = states_of_samples(h);
        if (has_c) parts[2] = states_of_samples(last);
        x = weft_linear(weft_concat(2 + has_c, parts, 1), 5, "fc", NULL);
    }
    weft_value *loss = weft_cross_entropy(x, label, NULL);
    weft_minimize(loss, "net", &(weft_optimizer){.type = "sgd", .lr = 0.1, .momentum = 0.9});
    weft_output(loss, "loss");
    check_f32(c->name, m, inputs, 3 + has_c);
    check_bf16(c->name, m, inputs, 3 + has_c, o.relu ? 4 * BF16_LIMIT : BF16_LIMIT);
    weft_model_free(m);
}

TEST(recurrent_layers_in_both_directions_train_as_pytorch) {
    static const recurrent_case cases[] = {{"lstm", 'l', {.no_bias = true}},
                                           {"gru", 'g', {.batch_first = true}},
                                           {"gru_no_bias", 'g', {.no_bias = true}},
                                           {"rnn_tanh", 'r', {0}},
                                           {"rnn_relu", 'r', {.relu = true, .batch_first = true}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_recurrent(&cases[i]);
}

/* ---- gan ---- */

static weft_value *generator(weft_value *z) {
    WEFT_SCOPE(z, "generator") {
        z = weft_linear(z, 8 * 4 * 4, "fc", &(weft_linear_options){.no_bias = true});
        z = weft_relu(weft_batch_norm(weft_reshape(z, 4, (int64_t[]){-1, 8, 4, 4}), "bn1", NULL));
        z = weft_tanh(
            weft_conv_transpose2d(z, &(weft_conv){.out = 1, .kernel = 4, .stride = 2, .pad = 1}, "up"));
    }
    return z;
}

static weft_value *discriminator(weft_value *x) {
    WEFT_SCOPE(x, "discriminator") {
        x = weft_leaky_relu(
            weft_conv2d(x, &(weft_conv){.out = 8, .kernel = 4, .stride = 2, .pad = 1}, "conv1"), 0.2);
        x = weft_conv2d(x, &(weft_conv){.out = 16, .kernel = 4, .stride = 2, .pad = 1, .no_bias = true},
                        "conv2");
        x = weft_leaky_relu(weft_batch_norm(x, "bn2", NULL), 0.2);
        x = weft_linear(weft_flatten(x, 1), 1, "fc", NULL);
    }
    return x;
}

static weft_value *bce(weft_value *logits, double target) {
    weft_value *t = weft_constant(weft_value_graph(logits), WEFT_F32, 0, NULL, target);
    return weft_bce_with_logits(logits, t, NULL);
}

static weft_model *gan(void) {
    weft_model *m = weft_model_new("gan");
    weft_optimizer adam = {.type = "adam", .lr = 2e-4, .beta1 = 0.5};
    weft_graph *d = weft_graph_new(m, "d_step", WEFT_TRAIN);
    weft_value *real = weft_input(d, "real", WEFT_F32, 4, (int64_t[]){8, 1, 8, 8});
    weft_value *z = weft_input(d, "z", WEFT_F32, 2, (int64_t[]){8, 8});
    weft_value *on_real = bce(discriminator(real), 1);
    weft_value *loss = weft_add(on_real, bce(discriminator(weft_stop_gradient(generator(z))), 0));
    weft_minimize(loss, "discriminator", &adam);
    weft_output(loss, "loss");
    weft_graph *g = weft_graph_new(m, "g_step", WEFT_TRAIN);
    loss = bce(discriminator(generator(weft_input(g, "z", WEFT_F32, 2, (int64_t[]){8, 8}))), 1);
    weft_minimize(loss, "generator", &adam);
    weft_output(loss, "loss");
    return m;
}

TEST(a_tiny_gan_trains_both_networks_as_pytorch) {
    static const char *const d_inputs[] = {"real", "z"}, *const d_data[] = {"real", "z1"};
    static const char *const g_inputs[] = {"z"}, *const g_data[] = {"z2"};
    weft_model *m = gan();
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    for (weft_isa isa = first_isa(); isa <= isa_best(); isa++) {
        golden g;
        if (golden_open(&g, "gan", m, (weft_compile_options){.isa = isa})) {
            for (int step = 0; step < STEPS; step++) {
                check_loss(&g, "d_losses", step, run_step(&g, "d_step", d_inputs, d_data, 2, step));
                check_loss(&g, "g_losses", step, run_step(&g, "g_step", g_inputs, g_data, 1, step));
            }
            check_final(&g);
        }
        golden_close(&g);
    }
    weft_model_free(m);
}

SUITE("goldens", {T(mlp_with_every_optimizer_trains_as_pytorch), T(a_batch_norm_conv_net_trains_as_pytorch),
                  T(a_tiny_gpt_trains_as_pytorch), T(a_char_model_of_two_lstm_layers_trains_as_pytorch),
                  T(recurrent_layers_in_both_directions_train_as_pytorch),
                  T(a_tiny_gan_trains_both_networks_as_pytorch)})
