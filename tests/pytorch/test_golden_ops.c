/* test_golden_ops.c - single ops and their gradients against PyTorch (tests/golden/ops.safetensors and
 * attention.safetensors), compiled and run like any model, by the reference kernels and by the best ones.
 * tests/golden/make_goldens.py has the attributes of each case. */
#include "support/kernels/golden.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW(...) (&(weft_window){__VA_ARGS__})
#define OP(name, ...)                                                                                        \
    static weft_value *name(weft_value **in) {                                                               \
        return __VA_ARGS__;                                                                                  \
    }

OP(conv2d, weft_conv2d_op(in[0], in[1], in[2], NULL))
OP(conv2d_1x1, weft_conv2d_op(in[0], in[1], NULL, NULL))
OP(conv2d_stride_pad, weft_conv2d_op(in[0], in[1], in[2], WINDOW(.stride = {2, 2}, .pad = {1, 1})))
OP(conv2d_dilation, weft_conv2d_op(in[0], in[1], in[2], WINDOW(.pad = {2, 2}, .dilation = {2, 2})))
OP(conv2d_groups, weft_conv2d_op(in[0], in[1], in[2], WINDOW(.pad = {1, 1}, .groups = 2)))
OP(conv2d_depthwise,
   weft_conv2d_op(in[0], in[1], in[2], WINDOW(.stride = {2, 2}, .pad = {1, 1}, .groups = 4)))
OP(conv2d_uneven, weft_conv2d_op(in[0], in[1], NULL,
                                 WINDOW(.stride = {2, 1}, .pad = {1, 2}, .dilation = {2, 1}, .groups = 2)))
OP(conv_transpose2d, weft_conv_transpose2d_op(in[0], in[1], in[2], NULL))
OP(conv_transpose2d_stride_pad,
   weft_conv_transpose2d_op(in[0], in[1], in[2], WINDOW(.stride = {2, 2}, .pad = {1, 1})))
OP(conv_transpose2d_output_padding,
   weft_conv_transpose2d_op(in[0], in[1], in[2],
                            WINDOW(.stride = {2, 2}, .pad = {1, 1}, .output_padding = {1, 1})))
OP(conv_transpose2d_dilation,
   weft_conv_transpose2d_op(in[0], in[1], in[2], WINDOW(.pad = {1, 1}, .dilation = {2, 2})))
OP(conv_transpose2d_groups, weft_conv_transpose2d_op(in[0], in[1], in[2], WINDOW(.groups = 2)))
OP(conv_transpose2d_uneven,
   weft_conv_transpose2d_op(in[0], in[1], NULL,
                            WINDOW(.stride = {2, 3}, .pad = {0, 1}, .output_padding = {1, 2},
                                   .dilation = {2, 1}, .groups = 2)))
OP(attention, weft_attention(in[0], in[1], in[2], NULL))
OP(attention_causal, weft_attention(in[0], in[1], in[2], &(weft_attention_options){.causal = true}))
OP(attention_scale, weft_attention(in[0], in[1], in[2], &(weft_attention_options){.scale = 0.5}))

typedef struct golden_case {
    const char *name;
    weft_value *(*build)(weft_value **in);
} golden_case;

static const golden_case cases[] = {
    {"conv2d", conv2d},
    {"conv2d_1x1", conv2d_1x1},
    {"conv2d_stride_pad", conv2d_stride_pad},
    {"conv2d_dilation", conv2d_dilation},
    {"conv2d_groups", conv2d_groups},
    {"conv2d_depthwise", conv2d_depthwise},
    {"conv2d_uneven", conv2d_uneven},
    {"conv_transpose2d", conv_transpose2d},
    {"conv_transpose2d_stride_pad", conv_transpose2d_stride_pad},
    {"conv_transpose2d_output_padding", conv_transpose2d_output_padding},
    {"conv_transpose2d_dilation", conv_transpose2d_dilation},
    {"conv_transpose2d_groups", conv_transpose2d_groups},
    {"conv_transpose2d_uneven", conv_transpose2d_uneven},
    {"attention", attention},
    {"attention_causal", attention_causal},
    {"attention_scale", attention_scale},
    {"attention_cross", attention},
};

/* attention.safetensors: in3 is a mask; one of bool is of integers there. */
#define ATTENTION(...) weft_attention(in[0], in[1], in[2], &(weft_attention_options){__VA_ARGS__})

OP(with_bools, ATTENTION(.mask = weft_cast(in[3], WEFT_BOOL)))
OP(with_numbers, ATTENTION(.mask = in[3]))
OP(with_scaled_mask, ATTENTION(.mask = in[3], .scale = 0.5))
OP(with_causal_mask, ATTENTION(.mask = weft_cast(in[3], WEFT_BOOL), .causal = true))
OP(rotary, weft_rotary(in[0], NULL))
OP(rotary_interleaved,
   weft_rotary(in[0], &(weft_rotary_options){.base = 500, .offset = 11, .interleaved = true}))
OP(rotary_dims, weft_rotary(in[0], &(weft_rotary_options){.dims = 4}))
OP(with_window, ATTENTION(.window = 3))
OP(with_short_window, ATTENTION(.window = 2))
OP(at_lower_right, ATTENTION(.causal = true, .offset = weft_dim(in[1], 2) - weft_dim(in[0], 2)))
OP(with_softcap, ATTENTION(.softcap = 1.5, .mask = in[3]))
OP(with_window_ahead, ATTENTION(.window = 3, .ahead = 2))

static const golden_case attention_cases[] = {
    {"bool", with_bools},
    {"bool_keys", with_bools},
    {"bool_batch", with_bools},
    {"bool_head", with_bools},
    {"bool_few", with_bools},
    {"numbers", with_numbers},
    {"numbers_keys", with_numbers},
    {"numbers_batch", with_numbers},
    {"numbers_head", with_numbers},
    {"numbers_all", with_scaled_mask},
    {"numbers_infinite", with_numbers},
    {"numbers_lowest", with_numbers},
    {"numbers_low", with_numbers},
    {"causal_bool", with_causal_mask},
    {"shared", attention},
    {"shared_one", attention_causal},
    {"rotary", rotary},
    {"rotary_interleaved", rotary_interleaved},
    {"rotary_dims", rotary_dims},
    {"window", with_window},
    {"window_past", with_short_window},
    {"wide_values", attention},
    {"narrow_values", attention_causal},
    {"lower_right", at_lower_right},
    {"lower_right_of_few", at_lower_right},
    {"softcap", with_softcap},
    {"window_ahead", with_window_ahead},
};

/* ---- running a case ---- */

enum { MOST = 5 };

typedef struct port_list {
    int n;
    weft_feed feeds[MOST + 1];
    char names[MOST + 1][8];
} port_list;

static weft_value *feed(weft_graph *g, port_list *p, const char *name, const golden_tensor *t) {
    snprintf(p->names[p->n], sizeof p->names[0], "%s", name);
    p->feeds[p->n] = (weft_feed){p->names[p->n], t->data, t->bytes};
    return weft_input(g, p->names[p->n++], t->dtype, t->ndim, t->shape);
}

/* Runs the model's one graph and holds each fetched value (named like its tensor) against the file. `set`
 * puts tensors of the case into the store first: pairs of path and tensor name, ended by NULL. */
static void run_case(weft_model *m, const golden *file, const char *of, const port_list *ports, weft_isa isa,
                     const char *const *set, const char *const *after) {
    weft_error error = {0};
    weft_fetch fetches[MOST + 2];
    const golden_tensor *want[MOST + 2];
    weft_port port;
    int n = 0;
    weft_plan *plan =
        weft_compile(m, &(weft_compile_options){.isa = isa, .threads = 2, .verify = true}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &error) : NULL;
    for (int i = 0; store && set && set[i]; i += 2) {
        const golden_tensor *t = golden_find(file, of, set[i + 1]);
        CHECK(t && weft_store_set(store, set[i], t->data, t->bytes, &error) == WEFT_OK);
    }
    while (session && weft_plan_output(plan, "g", n, &port)) {
        want[n] = golden_find(file, of, port.name);
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
        n++;
    }
    if (CHECK_SAYS(session && weft_run(session, "g", ports->feeds, ports->n, fetches, n, &error) == WEFT_OK,
                   "%s: %s", of, error.text))
        for (int i = 0; i < n; i++) {
            double apart = want[i] ? golden_distance(fetches[i].data, want[i]) : 1;
            CHECK_SAYS(apart < 2e-6, "%s.%s (isa %d) is off by %g", of, fetches[i].name, isa, apart);
        }
    for (int i = 0; session && after && after[i]; i += 2) {
        float got[64];
        const golden_tensor *t = golden_find(file, of, after[i + 1]);
        CHECK(t && weft_store_get(store, after[i], got, t->bytes, &error) == WEFT_OK &&
              golden_distance(got, t) < 1e-6);
    }
    for (int i = 0; i < n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
}

/* Outputs "out" and "grad<i>" wherever the file has one; the loss is the sum of out times weight. */
static void add_outputs(const golden *file, const char *of, weft_graph *g, port_list *p, weft_value **in,
                        int n_in, weft_value *out) {
    weft_value *wanted[MOST], *gradients[MOST];
    char name[16];
    int index[MOST], n = 0;
    weft_value *weight = feed(g, p, "weight", golden_find(file, of, "weight"));
    weft_value *loss = weft_sum(weft_mul(out, weight), WEFT_ALL, false);
    for (int i = 0; i < n_in; i++) {
        snprintf(name, sizeof name, "grad%d", i);
        if (!golden_find(file, of, name)) continue;
        index[n] = i;
        wanted[n++] = in[i];
    }
    weft_output(out, "out");
    weft_gradients(loss, n, wanted, gradients);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "grad%d", index[i]);
        weft_output(gradients[i], name);
    }
}

static void check_cases(const char *path, const golden_case *list, size_t n_cases) {
    golden file = golden_read(path);
    for (size_t k = 0; k < n_cases; k++) {
        const char *of = list[k].name;
        weft_model *m = weft_model_new(of);
        weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
        weft_value *in[MOST] = {0};
        port_list ports = {0};
        int n = 0;
        for (char name[] = "in0"; n < MOST && golden_find(&file, of, name); name[2]++, n++)
            in[n] = feed(g, &ports, name, golden_find(&file, of, name));
        add_outputs(&file, of, g, &ports, in, n, list[k].build(in));
        CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
        run_case(m, &file, of, &ports, WEFT_ISA_REFERENCE, NULL, NULL);
        run_case(m, &file, of, &ports, WEFT_ISA_AUTO, NULL, NULL);
        weft_model_free(m);
    }
    golden_free(&file);
}

TEST(ops_and_their_gradients_agree_with_pytorch) {
    check_cases(TEST_DATA "/golden/ops.safetensors", cases, sizeof cases / sizeof *cases);
}

TEST(attention_with_masks_and_shared_keys_agrees_with_pytorch) {
    check_cases(TEST_DATA "/golden/attention.safetensors", attention_cases,
                sizeof attention_cases / sizeof *attention_cases);
}

/* The layer, since running statistics and the eval form are its work. */
TEST(batch_norm_agrees_with_pytorch_in_both_modes) {
    static const char *const names[] = {"batch_norm", "batch_norm_2d", "batch_norm_eval"};
    static const char *const set[] = {"bn/weight",      "in1", "bn/bias", "in2", "bn/running_mean", "in3",
                                      "bn/running_var", "in4", NULL};
    static const char *const after[] = {"bn/running_mean", "running_mean", "bn/running_var", "running_var",
                                        NULL};
    golden file = golden_read(TEST_DATA "/golden/ops.safetensors");
    for (int k = 0; k < 3; k++) {
        weft_model *m = weft_model_new(names[k]);
        weft_graph *g = weft_graph_new(m, "g", k == 2 ? WEFT_EVAL : WEFT_TRAIN);
        port_list ports = {0};
        weft_value *in[3] = {feed(g, &ports, "in0", golden_find(&file, names[k], "in0"))};
        weft_value *y = weft_batch_norm(in[0], "bn", NULL);
        WEFT_GRAPH_SCOPE(g, "bn") {
            int64_t channels = weft_dim(in[0], 1);
            in[1] = weft_parameter_in(g, "weight", 1, &channels, (weft_init){0});
            in[2] = weft_parameter_in(g, "bias", 1, &channels, (weft_init){0});
        }
        add_outputs(&file, names[k], g, &ports, in, 3, y);
        CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
        run_case(m, &file, names[k], &ports, WEFT_ISA_REFERENCE, set, k == 2 ? NULL : after);
        run_case(m, &file, names[k], &ports, WEFT_ISA_AUTO, set, k == 2 ? NULL : after);
        weft_model_free(m);
    }
    golden_free(&file);
}

SUITE("golden ops", {T(ops_and_their_gradients_agree_with_pytorch),
                     T(attention_with_masks_and_shared_keys_agrees_with_pytorch),
                     T(batch_norm_agrees_with_pytorch_in_both_modes)})
