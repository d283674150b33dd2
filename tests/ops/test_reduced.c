/* test_reduced.c - bf16 and f16 as kernels read and write them: every number, every rounding, on every
 * instruction set, against the compiler's own _Float16 and plain arithmetic. */
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/reduced.h"
#include "ops/kit/op_kit.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <stdlib.h>

enum { ALL = 1 << 16 };

static bool is_nan16(weft_dtype reduced, uint16_t bits) {
    return (bits & 0x7fff) > (reduced == WEFT_BF16 ? 0x7f80 : 0x7c00);
}

/* By the compiler and op_kit.c. */
static float wide_of(weft_dtype reduced, uint16_t bits) {
    tensor t = {.data = &bits, .type = type_scalar(reduced)};
    return (float)element_get(&t, (int64_t[]){0});
}

static uint16_t reduced_of(weft_dtype reduced, float x) {
    uint16_t bits = 0;
    element_set(&(tensor){.data = &bits, .type = type_scalar(reduced)}, (int64_t[]){0}, x);
    return bits;
}

/* Every number of the type, each one's neighbours in f32, the middle between it and the next one and the
 * middle's neighbours: all that rounds either way. */
static int64_t numbers(weft_dtype reduced, float *x) {
    int64_t n = 0;
    for (int i = 0; i < ALL; i++) {
        float here = wide_of(reduced, (uint16_t)i), next = wide_of(reduced, (uint16_t)(i + 1)),
              middle = (here + next) / 2;
        const float some[] = {here,   nextafterf(here, INFINITY),   nextafterf(here, -INFINITY),
                              middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY)};
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) x[n++] = some[k];
    }
    const float more[] = {65504,   65519,  65520, 65535,    65536,    1e6f,
                          3.4e38f, 1e-45f, 6e-8f, 2.98e-8f, 2.99e-8f, -0.0f};
    for (size_t k = 0; k < sizeof more / sizeof *more; k++) x[n++] = more[k];
    return n;
}

TEST(scalars_agree_with_the_compiler) {
    float *x = test_memory((ALL * 6 + 20) * sizeof *x);
    for (weft_dtype reduced = WEFT_BF16; reduced <= WEFT_F16; reduced++) {
        int64_t n = numbers(reduced, x), wrong = 0;
        for (int i = 0; i < ALL; i++) {
            uint16_t bits = (uint16_t)i, back;
            float wide = reduced_get(&bits, reduced, 0), want = wide_of(reduced, bits);
            reduced_put(&back, reduced, 0, wide);
            wrong += is_nan16(reduced, bits) ? !isnan(wide) || !is_nan16(reduced, back)
                                             : memcmp(&wide, &want, sizeof wide) != 0 || back != bits;
        }
        for (int64_t i = 0; i < n; i++) {
            uint16_t got, want = reduced_of(reduced, x[i]);
            reduced_put(&got, reduced, 0, x[i]);
            wrong += isnan(x[i]) ? !is_nan16(reduced, got) : got != want;
        }
        CHECK_SAYS(wrong == 0, "%s: %lld numbers are wrong", dtype_name(reduced), (long long)wrong);
    }
    free(x);
}

/* `cast` from one type to the other by every kernel, bit for bit. */
static void cast_check(weft_dtype from, weft_dtype to, const void *data, int64_t n) {
    weft_model *m = weft_model_new("casts");
    weft_graph *g = weft_graph_new(m, "casts", WEFT_TRAIN);
    weft_value *y = weft_cast(weft_input(g, "x", from, 1, &n), to);
    tensor_type result = type_of(to, 1, &n);
    block x = block_new(&y->node->in[0]->type, LAYOUT_ROWS), out = block_new(&result, LAYOUT_ROWS);
    memcpy(x.t.data, data, x.bytes);
    for (weft_isa isa = WEFT_ISA_SSE2; isa <= isa_best(); isa++) {
        const weft_kernel *list[16];
        kernel_env env = {.isa = isa, .threads = 1, .env = &m->env};
        kernels_of(&weft_catalog, y->node->op, &env, list, 16);
        int64_t wrong = 0;
        weft_error error = {0};
        CHECK(kernel_runs(y->node, list[0], &env));
        CHECK(kernel_run(y->node, list[0], &env, &x.t, &out.t, &error) == WEFT_OK);
        for (int64_t i = 0; i < n; i++) {
            double was = element_get(&x.t, &i), is = element_get(&out.t, &i), want = convert_element(to, was);
            wrong += isnan(was) ? !isnan(is) : is != want || signbit(is) != signbit(want);
        }
        CHECK_SAYS(wrong == 0, "%s to %s by %s: %lld of %lld are wrong", dtype_name(from), dtype_name(to),
                   list[0]->name, (long long)wrong, (long long)n);
    }
    block_free(&x);
    block_free(&out);
    weft_model_free(m);
}

TEST(kernels_read_and_round_every_number_as_the_compiler_does) {
    float *x = test_memory((ALL * 6 + 20) * sizeof *x);
    uint16_t *every = test_memory(ALL * sizeof *every);
    for (int i = 0; i < ALL; i++) every[i] = (uint16_t)i;
    for (weft_dtype reduced = WEFT_BF16; reduced <= WEFT_F16; reduced++) {
        cast_check(WEFT_F32, reduced, x, numbers(reduced, x));
        cast_check(reduced, WEFT_F32, every, ALL);
    }
    free(x);
    free(every);
}

/* ---- the reference kernels' own conversions: each bit, also of NaN. clang 14 lacks _Float16 ---- */

#ifdef __FLT16_MANT_DIG__
static double read_element(uint16_t bits) {
    tensor t = {.data = &bits, .type = type_scalar(WEFT_F16)};
    return element_get(&t, (int64_t[]){0});
}

static bool rounds_as_compiler(double x) {
    uint16_t bits = 0;
    tensor t = {.data = &bits, .type = type_scalar(WEFT_F16)};
    element_set(&t, (int64_t[]){0}, x);
    _Float16 want = (_Float16)x;
    return !memcmp(&bits, &want, sizeof bits);
}

TEST(an_element_in_f16_is_the_compilers_to_the_bit) {
    int wrong = 0;
    for (int i = 0; i < ALL; i++) {
        uint16_t bits = (uint16_t)i;
        _Float16 half;
        memcpy(&half, &bits, sizeof half);
        double got = read_element(bits), want = (double)half;
        wrong += memcmp(&got, &want, sizeof got) != 0;
    }
    CHECK_SAYS(!wrong, "%d of %d differ", wrong, ALL);
}

/* Each number, the middle between it and the next, and the neighbours of these among the doubles, which a
 * rounding by way of f32 would take for them. */
TEST(an_element_becomes_f16_as_the_compiler_rounds) {
    int wrong = 0;
    for (int i = 0; i < ALL; i++) {
        double x = read_element((uint16_t)i), next = read_element((uint16_t)(i + 1)),
               middle = x / 2 + next / 2;
        if (isinf(next)) middle = x > 0 ? 65520 : -65520;
        wrong += !rounds_as_compiler(x) + !rounds_as_compiler(middle) +
                 !rounds_as_compiler(nextafter(middle, 0)) +
                 !rounds_as_compiler(nextafter(middle, 2 * middle)) + !rounds_as_compiler(nextafter(x, next));
    }
    wrong += !rounds_as_compiler(65536) + !rounds_as_compiler(1e300) + !rounds_as_compiler(-1e300) +
             !rounds_as_compiler(0x1p-1074) + !rounds_as_compiler(-0x1p-25) + !rounds_as_compiler(0x1.8p-25);
    CHECK_SAYS(!wrong, "%d numbers differ", wrong);
}
#define OF_THE_COMPILER                                                                                      \
    T(an_element_in_f16_is_the_compilers_to_the_bit), T(an_element_becomes_f16_as_the_compiler_rounds),
#else
#define OF_THE_COMPILER
#endif

SUITE("reduced types", {OF_THE_COMPILER T(scalars_agree_with_the_compiler),
                        T(kernels_read_and_round_every_number_as_the_compiler_does)})
