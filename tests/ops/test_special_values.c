/* test_special_values.c - pointwise ops and their gradients at NaN, infinities, zeros of both signs and
 * extreme numbers, against PyTorch (tests/golden/special.safetensors), by every instruction set: a NaN must
 * stay one, or a broken training goes unnoticed. */
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "support/kernels/golden.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct function {
    const char *name;
    weft_value *(*unary)(weft_value *x);
    weft_value *(*binary)(weft_value *a, weft_value *b);
} function;

static weft_value *leaky(weft_value *x) {
    return weft_leaky_relu(x, 0.1);
}

static weft_value *clamp(weft_value *x) {
    return weft_clamp(x, -1, 0.5);
}

static weft_value *softplus(weft_value *x) {
    return weft_softplus(x, 2, 20);
}

static weft_value *elu(weft_value *x) {
    return weft_elu(x, 1.5);
}

static const function functions[] = {
    {"clamp", clamp},
    {"softplus", softplus},
    {"neg", weft_neg},
    {"abs", weft_abs},
    {"square", weft_square},
    {"sqrt", weft_sqrt},
    {"rsqrt", weft_rsqrt},
    {"reciprocal", weft_reciprocal},
    {"exp", weft_exp},
    {"log", weft_log},
    {"tanh", weft_tanh},
    {"sigmoid", weft_sigmoid},
    {"relu", weft_relu},
    {"leaky_relu", leaky},
    {"gelu", weft_gelu},
    {"gelu_tanh", weft_gelu_tanh},
    {"elu", elu},
    {"silu", weft_silu},
    {"mish", weft_mish},
    {"selu", weft_selu},
    {"hardswish", weft_hardswish},
    {"hardsigmoid", weft_hardsigmoid},
    {"softsign", weft_softsign},
    {"logsigmoid", weft_logsigmoid},
    {"erf", weft_erf},
    {"sin", weft_sin},
    {"cos", weft_cos},
    {"tan", weft_tan},
    {"asin", weft_asin},
    {"acos", weft_acos},
    {"atan", weft_atan},
    {"sinh", weft_sinh},
    {"cosh", weft_cosh},
    {"asinh", weft_asinh},
    {"acosh", weft_acosh},
    {"atanh", weft_atanh},
    {"expm1", weft_expm1},
    {"log1p", weft_log1p},
    {"floor", weft_floor},
    {"ceil", weft_ceil},
    {"round", weft_round},
    {"trunc", weft_trunc},
    {"sign", weft_sign},
    {"isnan", weft_isnan},
    {"isinf", weft_isinf},
    {"logical_not", weft_logical_not},
    {"add", NULL, weft_add},
    {"sub", NULL, weft_sub},
    {"mul", NULL, weft_mul},
    {"div", NULL, weft_div},
    {"pow", NULL, weft_pow},
    {"atan2", NULL, weft_atan2},
    {"maximum", NULL, weft_maximum},
    {"minimum", NULL, weft_minimum},
    {"equal", NULL, weft_equal},
    {"greater", NULL, weft_greater},
    {"not_equal", NULL, weft_not_equal},
    {"greater_equal", NULL, weft_greater_equal},
    {"less", NULL, weft_less},
    {"less_equal", NULL, weft_less_equal},
    {"logical_and", NULL, weft_logical_and},
    {"logical_or", NULL, weft_logical_or},
    {"logical_xor", NULL, weft_logical_xor},
    {"fmod", NULL, weft_fmod},
    {"remainder", NULL, weft_remainder},
};

/* Near ordinary x, PyTorch's f32 formulas lose digits where terms cancel: gelu(-3) has four. */
static bool alike(float x, float ours, float theirs) {
    if (isnan(theirs)) return isnan(ours);
    if (isinf(theirs) || isinf(ours)) return ours == theirs;
    return fabsf(ours - theirs) <= 1e-5f * fabsf(theirs) + (fabsf(x) <= 10 ? 1e-6f : 1e-30f);
}

/* Where PyTorch's vector code overflows, or its gradient divides by infinity, ours gives the limit or NaN. */
static bool overflows(const char *name) {
    static const char *const names[] = {"gelu",      "gelu_tanh", "hardswish", "fmod",
                                        "remainder", "mish",      "silu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void compare(const function *f, const weft_fetch *got, const golden *file,
                    const golden_tensor *const *in, int n_in, weft_isa isa) {
    const golden_tensor *want = golden_find(file, f->name, got->name);
    const float *ours = got->data, *theirs = want ? want->data : NULL;
    int64_t n = (int64_t)(got->bytes / sizeof(float));
    if (want && want->dtype == WEFT_U8) {
        CHECK_SAYS(memcmp(got->data, want->data, want->bytes) == 0, "%s (isa %d) differs", f->name, isa);
        return;
    }
    CHECK_SAYS(want && want->bytes == got->bytes, "%s.%s is not in the file", f->name, got->name);
    for (int64_t i = 0; theirs && i < n; i++) {
        float x = ((const float *)in[0]->data)[i];
        float z = n_in > 1 ? ((const float *)in[1]->data)[i] : 0;
        if (overflows(f->name) && (fabsf(x) > 1e30f || fabsf(z) > 1e30f)) continue;
        CHECK_SAYS(alike(x, ours[i], theirs[i]), "%s.%s of %g, %g (isa %d) is %g, not %g", f->name, got->name,
                   x, z, isa, ours[i], theirs[i]);
    }
}

/* One graph: the function, and the gradients of its sum that the file has. */
static weft_model *model_of(const function *f, const golden *file, const golden_tensor *const *in, int n_in) {
    static const char *const names[] = {"in0", "in1"}, *const grads[] = {"grad0", "grad1"};
    weft_value *x[2], *gradients[2];
    weft_model *m = weft_model_new(f->name);
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    for (int i = 0; i < n_in; i++) x[i] = weft_input(g, names[i], in[i]->dtype, in[i]->ndim, in[i]->shape);
    weft_value *y = f->unary ? f->unary(x[0]) : f->binary(x[0], x[1]);
    weft_output(y, "out");
    if (!golden_find(file, f->name, "grad0")) return m;
    weft_gradients(weft_sum(y, WEFT_ALL, false), n_in, x, gradients);
    for (int i = 0; i < n_in; i++) weft_output(gradients[i], grads[i]);
    return m;
}

static void run(const function *f, const golden *file, const golden_tensor *const *in, int n_in,
                weft_isa isa) {
    weft_error e = {0};
    weft_fetch fetches[3];
    weft_port port;
    int n = 0;
    weft_model *m = model_of(f, file, in, n_in);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.isa = isa, .threads = 1}, &e);
    weft_store *store = plan ? weft_store_new(plan, 1, &e) : NULL;
    weft_session *session = store ? weft_session_open(plan, store, &e) : NULL;
    weft_feed feeds[2] = {{"in0", in[0]->data, in[0]->bytes}};
    if (n_in > 1) feeds[1] = (weft_feed){"in1", in[1]->data, in[1]->bytes};
    for (; session && weft_plan_output(plan, "g", n, &port); n++)
        fetches[n] = (weft_fetch){port.name, test_memory(port.bytes), port.bytes};
    if (CHECK_SAYS(session && weft_run(session, "g", feeds, n_in, fetches, n, &e) == WEFT_OK, "%s: %s",
                   f->name, e.text))
        for (int i = 0; i < n; i++) compare(f, &fetches[i], file, in, n_in, isa);
    for (int i = 0; i < n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(pointwise_ops_of_special_values_agree_with_pytorch) {
    static const weft_isa sets[] = {WEFT_ISA_REFERENCE, WEFT_ISA_SSE2, WEFT_ISA_AVX2, WEFT_ISA_AVX512};
    golden file = golden_read(TEST_DATA "/golden/special.safetensors");
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const function *f = &functions[k];
        const golden_tensor *in[2] = {golden_find(&file, f->name, "in0"), golden_find(&file, f->name, "in1")};
        int n_in = f->unary ? 1 : 2;
        NEED(in[0] && (n_in == 1 || in[1]));
        for (size_t i = 0; i < sizeof sets / sizeof *sets && sets[i] <= isa_best(); i++)
            run(f, &file, in, n_in, sets[i]);
    }
    golden_free(&file);
}

SUITE("special values", {T(pointwise_ops_of_special_values_agree_with_pytorch)})
