/* test_random.c - random numbers: Philox against its authors' known answers, the moments of the distributions
 * made from it, and what the numbers may and may not depend on. */
#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"
#include "ops/kit/philox.h"
#include "ops/random/random.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

/* Random123 1.14, tests/kat_vectors, lines "philox4x32 10". */
TEST(philox_gives_the_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t c[4];
        memcpy(c, known[i].counter, sizeof c);
        philox4x32_10(c, known[i].key[0], known[i].key[1]);
        CHECK(memcmp(c, known[i].answer, sizeof c) == 0);
    }
}

/* ---- runs of one random node by a chosen kernel ---- */

enum { N = 200003 };

typedef struct draw {
    uint64_t key;
    run_state run;
    weft_isa isa; /* WEFT_ISA_REFERENCE: the reference kernel */
    int threads;
} draw;

static const draw plain = {.key = 5, .run = {.seed = 1, .step = 2}, .isa = WEFT_ISA_REFERENCE, .threads = 1};

/* y[N] of a node of `op` (x: its operand or NULL) with these attributes. */
static void run_node(const weft_op *op, const void *attrs, const draw *d, const float *x, float *y) {
    weft_model *m = weft_model_new("random");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *in = x ? weft_input(g, "x", WEFT_F32, 1, (int64_t[]){N}) : NULL;
    weft_node *n = node_new(g, op, x ? 1 : 0, &in, attrs);
    kernel_env env = {.isa = d->isa, .threads = d->threads};
    const weft_kernel *kernel = n ? kernel_select(n, &env, &m->arena, NULL) : NULL;
    tensor from = {(void *)x, type_of(WEFT_F32, 1, (int64_t[]){N}), {1}}, to = from;
    weft_error error;
    to.data = y;
    kernel_call c = {.node = n,
                     .attrs = attrs,
                     .n_in = x ? 1 : 0,
                     .n_out = 1,
                     .in = &from,
                     .out = &to,
                     .threads = d->threads,
                     .run = &d->run,
                     .error = &error};
    CHECK(kernel && kernel->run(NULL, &c) == WEFT_OK);
    weft_model_free(m);
}

static void uniform(const draw *d, float low, float high, float *y) {
    run_node(&weft_op_random_uniform, &(random_attrs){{1, {N}}, low, high, d->key}, d, NULL, y);
}

static void normal(const draw *d, float mean, float std, float *y) {
    run_node(&weft_op_random_normal, &(random_attrs){{1, {N}}, mean, std, d->key}, d, NULL, y);
}

static void dropout(const draw *d, double p, const float *x, float *y) {
    run_node(&weft_op_dropout, &(dropout_attrs){p, d->key}, d, x, y);
}

/* The first four moments: mean, variance, skewness, kurtosis. */
static void moments(const float *y, double m[4]) {
    double sum = 0, power[5] = {0};
    for (int i = 0; i < N; i++) sum += y[i];
    for (int i = 0; i < N; i++)
        for (int k = 2; k <= 4; k++) power[k] += pow(y[i] - sum / N, k);
    m[0] = sum / N;
    m[1] = power[2] / N;
    m[2] = power[3] / N / pow(m[1], 1.5);
    m[3] = power[4] / N / (m[1] * m[1]);
}

/* Bounds are about five standard errors of N draws; the numbers are fixed, so a pass stays a pass. */
TEST(uniform_numbers_are_uniform) {
    float *y = test_memory(N * sizeof *y);
    double m[4];
    int bins[20] = {0};
    uniform(&plain, -1, 3, y);
    moments(y, m);
    CHECK_SAYS(fabs(m[0] - 1) < 0.013, "mean %g", m[0]);
    CHECK_SAYS(fabs(m[1] - 16.0 / 12) < 0.014, "variance %g", m[1]);
    CHECK_SAYS(fabs(m[2]) < 0.02, "skewness %g", m[2]);
    CHECK_SAYS(fabs(m[3] - 1.8) < 0.02, "kurtosis %g", m[3]);
    for (int i = 0; i < N; i++) {
        if (!(y[i] >= -1 && y[i] < 3))
            CHECK_SAYS(false, "%g is outside [-1, 3)", y[i]);
        else
            bins[(int)((y[i] + 1) * 5)]++;
    }
    for (int i = 0; i < 20; i++) CHECK_SAYS(abs(bins[i] - N / 20) < 500, "bin %d has %d", i, bins[i]);
    free(y);
}

TEST(normal_numbers_are_normal) {
    float *y = test_memory(N * sizeof *y);
    double m[4];
    int within1 = 0, within2 = 0, beyond4 = 0;
    normal(&plain, 0.5f, 2, y);
    moments(y, m);
    CHECK_SAYS(fabs(m[0] - 0.5) < 0.022, "mean %g", m[0]);
    CHECK_SAYS(fabs(m[1] - 4) < 0.065, "variance %g", m[1]);
    CHECK_SAYS(fabs(m[2]) < 0.028, "skewness %g", m[2]);
    CHECK_SAYS(fabs(m[3] - 3) < 0.055, "kurtosis %g", m[3]);
    for (int i = 0; i < N; i++) {
        double z = fabs((y[i] - 0.5) / 2);
        within1 += z < 1;
        within2 += z < 2;
        beyond4 += z > 4;
    }
    CHECK_SAYS(fabs(within1 / (double)N - 0.682689) < 0.0053, "%d within one deviation", within1);
    CHECK_SAYS(fabs(within2 / (double)N - 0.954500) < 0.0024, "%d within two", within2);
    CHECK_SAYS(beyond4 > 0 && beyond4 < 32, "%d beyond four", beyond4);
    free(y);
}

/* ln and the angle are polynomials of ours: held against libm through the pairs they make. */
TEST(box_muller_agrees_with_libm) {
    test_random r = {3};
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        uint32_t a = (uint32_t)random_bits(&r), b = (uint32_t)random_bits(&r);
        float n0, n1;
        if (i == 0) a = 0;
        if (i == 1) a = UINT32_MAX;
        philox_normal_pair(a, b, &n0, &n1);
        double radius = sqrt(-2 * log(((a >> 8) + 1) * 0x1p-24)), angle = 2 * acos(-1) * (b >> 8) * 0x1p-24;
        worst = fmax(worst, fmax(fabs(n0 - radius * cos(angle)), fabs(n1 - radius * sin(angle))));
    }
    CHECK_SAYS(worst < 2e-6, "off by %g", worst);
}

static bool same(const float *a, const float *b) {
    return memcmp(a, b, N * sizeof *a) == 0;
}

/* Equal elements by chance are about N / 2^24. */
static bool unrelated(const float *a, const float *b) {
    int equal = 0;
    for (int i = 0; i < N; i++) equal += a[i] == b[i];
    return equal < 5;
}

TEST(numbers_depend_on_seed_key_step_and_micro_batch_alone) {
    float *a = test_memory(N * sizeof *a), *b = test_memory(N * sizeof *b);
    draw others[] = {plain, plain, plain, plain};
    others[0].key = 6;
    others[1].run.seed = 2;
    others[2].run.step = 3;
    others[3].run.micro = 1;
    uniform(&plain, 0, 1, a);
    uniform(&plain, 0, 1, b);
    CHECK(same(a, b));
    for (int i = 0; i < 4; i++) {
        uniform(&others[i], 0, 1, b);
        CHECK_SAYS(unrelated(a, b), "draw %d is like the plain one", i);
    }
    free(a);
    free(b);
}

TEST(bits_are_the_same_with_every_instruction_set_and_thread_count) {
    float *x = test_memory(N * sizeof *x), *a = test_memory(N * sizeof *a), *b = test_memory(N * sizeof *b);
    normal(&plain, 0, 1, x);
    for (weft_isa isa = WEFT_ISA_SSE2; isa <= isa_best(); isa++)
        for (int threads = 1; threads <= 3; threads++) {
            draw d = plain;
            d.isa = isa;
            d.threads = threads;
            uniform(&plain, -2, 5, a);
            uniform(&d, -2, 5, b);
            CHECK_SAYS(same(a, b), "uniform, %s, %d threads", isa_name(isa), threads);
            normal(&plain, 1, 3, a);
            normal(&d, 1, 3, b);
            CHECK_SAYS(same(a, b), "normal, %s, %d threads", isa_name(isa), threads);
            dropout(&plain, 0.3, x, a);
            dropout(&d, 0.3, x, b);
            CHECK_SAYS(same(a, b), "dropout, %s, %d threads", isa_name(isa), threads);
        }
    free(x);
    free(a);
    free(b);
}

TEST(dropout_drops_its_share_and_scales_the_rest) {
    float *x = test_memory(N * sizeof *x), *y = test_memory(N * sizeof *y);
    int dropped = 0, wrong = 0;
    for (int i = 0; i < N; i++) x[i] = 1 + (float)(i % 7);
    dropout(&plain, 0.25, x, y);
    for (int i = 0; i < N; i++) {
        dropped += y[i] == 0;
        wrong += y[i] != 0 && fabsf(y[i] - x[i] / 0.75f) > 1e-6f;
    }
    CHECK_SAYS(abs(dropped - N / 4) < 1000, "%d of %d dropped", dropped, N);
    CHECK(wrong == 0);
    dropout(&plain, 1, x, y);
    for (int i = 0; i < N; i++) wrong += y[i] != 0;
    CHECK(wrong == 0);
    free(x);
    free(y);
}

/* ---- builders ---- */

TEST(calls_draw_from_streams_of_their_own) {
    weft_model *m = weft_model_new("streams");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN), *e = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *a = weft_random_normal(g, 1, (int64_t[]){4}, 0, 1),
               *b = weft_random_normal(g, 1, (int64_t[]){4}, 0, 1);
    weft_value *c = weft_random_normal(e, 1, (int64_t[]){4}, 0, 1);
    NEED(a && b && c);
    uint64_t keys[] = {((random_attrs *)a->node->attrs)->key, ((random_attrs *)b->node->attrs)->key,
                       ((random_attrs *)c->node->attrs)->key};
    CHECK(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    weft_model_free(m);
}

/* A new value, as users may name it, and the same numbers: a permutation that changes nothing. */
static bool is_again(const weft_value *v, const weft_value *x) {
    return v && v != x && !(v->node->op->flags & OP_RANDOM) && v->node->op->simplify(v->node) == x;
}

TEST(dropout_is_nothing_in_eval_graphs_and_at_p_zero) {
    weft_model *m = weft_model_new("eval");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN), *e = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){4}),
               *y = weft_input(e, "x", WEFT_F32, 1, (int64_t[]){4});
    CHECK(is_again(weft_dropout(x, 0), x));
    CHECK(weft_dropout(x, 0.5)->node->op->flags & OP_RANDOM);
    CHECK(is_again(weft_dropout(y, 0.5), y));
    CHECK(weft_dropout(y, 1.5) == NULL);
    CHECK_HOLDS(weft_model_error(m)->text, "a probability is 0 to 1");
    weft_model_free(m);
}

/* That of attention is an op of its own in training graphs alone. */
TEST(attention_draws_in_training_graphs_only) {
    const weft_attention_options drops = {.dropout = 0.5};
    weft_model *m = weft_model_new("attention");
    for (int train = 0; train < 2; train++) {
        weft_graph *g = weft_graph_new(m, train ? "train" : "eval", train ? WEFT_TRAIN : WEFT_EVAL);
        weft_value *q = weft_input(g, "q", WEFT_F32, 4, (int64_t[]){1, 1, 3, 4});
        weft_value *y = weft_attention(q, q, q, &drops), *plain = weft_attention(q, q, q, NULL);
        NEED(y && plain);
        CHECK(y->node->in[0]->node->op == (train ? &weft_op_attention_dropout : &weft_op_attention));
        CHECK(plain->node->in[0]->node->op == &weft_op_attention);
        if (!train) continue;
        CHECK(weft_attention(q, q, q, &(weft_attention_options){.dropout = 1.5}) == NULL);
        CHECK_HOLDS(weft_model_error(m)->text, "p 1.5: it must be above 0");
    }
    weft_model_free(m);
}

SUITE("random",
      {T(philox_gives_the_known_answers), T(uniform_numbers_are_uniform), T(normal_numbers_are_normal),
       T(box_muller_agrees_with_libm), T(numbers_depend_on_seed_key_step_and_micro_batch_alone),
       T(bits_are_the_same_with_every_instruction_set_and_thread_count),
       T(dropout_drops_its_share_and_scales_the_rest), T(calls_draw_from_streams_of_their_own),
       T(dropout_is_nothing_in_eval_graphs_and_at_p_zero), T(attention_draws_in_training_graphs_only)})
